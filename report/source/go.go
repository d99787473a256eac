package source

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"footfall/formats/gocover"
	"footfall/input"
)

// This file finds what programs of go build -cover write, in directories (GOCOVERDIR) and by name.

// A GoProgram is a file that says what there is to count in a program, and those with its counts.
type GoProgram struct {
	Meta     string
	Counters []string
}

// addGo puts together the files of each program. What go tool covdata merge wrote is left out in directories where what it was
// made of is there, too.
func (o *Objects) addGo(s *search) {
	files := slices.Concat(s.namedGoFiles, s.goFiles)
	if len(files) == 0 {
		return
	}
	slices.Sort(files)
	metas := make(map[string]string) // by tag
	counters := make(map[string][]string)
	for _, name := range o.once(slices.Compact(files)) {
		switch tag := gocover.Tag(name); {
		case gocover.IsCounters(name):
			counters[tag] = append(counters[tag], name)
		case metas[tag] == "":
			metas[tag] = name
		}
	}
	for tag, list := range counters {
		if metas[tag] == "" {
			beside := filepath.Join(filepath.Dir(list[0]), "covmeta."+tag)
			if !input.IsFile(beside) {
				for _, name := range list {
					o.Problems = append(o.Problems, NewProblem(NoNotes, name, errors.New("no covmeta file of that hash is here, which says what it counted: name its directory, too")))
				}
				continue
			}
			metas[tag] = beside
		}
	}
	for tag, meta := range metas {
		p := GoProgram{Meta: meta}
		own := slices.ContainsFunc(counters[tag], func(name string) bool { return !gocover.IsMerged(name) })
		for _, name := range counters[tag] {
			if own && gocover.IsMerged(name) && !slices.Contains(s.namedGoFiles, name) {
				o.Problems = append(o.Problems, NewProblem(CountedTwice, name, errors.New("left out, as it was made by go tool covdata merge, and counts of processes of the same program are here: name it to count it too")))
				continue
			}
			p.Counters = append(p.Counters, name)
		}
		o.Go = append(o.Go, p)
	}
	slices.SortFunc(o.Go, func(a, b GoProgram) int { return strings.Compare(a.Meta, b.Meta) })
}
