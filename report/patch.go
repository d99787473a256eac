package report

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"footfall/coverage"
)

// A Patch is the part of a [SourceDiff] that a report has coverage for.
type Patch struct {
	files    map[string]*FileDiff // by the name of the coverage.File
	problems []Problem
}

// Kinds of problems of a patch.
const (
	noCoverage   = "changed files without coverage data"
	otherVersion = "sources that are not what the diff says"
)

// Problems are changed sources without coverage data, and sources that do not
// have the lines of the diff.
func (p *Patch) Problems() []Problem { return p.problems }

// Changed tells whether the patch inserted or changed a line of a source.
// It may be called for a nil Patch, which changed nothing.
func (p *Patch) Changed(path string, line int32) bool {
	f := p.file(path)
	if f == nil {
		return false
	}
	_, old := f.OldLine(line)
	return !old
}

// HasFile tells whether the patch inserted or changed lines of a source.
func (p *Patch) HasFile(path string) bool {
	f := p.file(path)
	return f != nil && slices.ContainsFunc(f.Edits, func(e coverage.Edit) bool { return e.Inserted > 0 })
}

func (p *Patch) file(path string) *FileDiff {
	if p == nil {
		return nil
	}
	return p.files[path]
}

// Totals are those of the changed lines. Functions are those that begin on
// one.
func (p *Patch) Totals(s *coverage.Set) coverage.Totals {
	var t coverage.Totals
	for _, f := range s.Files {
		t.Add(p.FileTotals(f))
	}
	return t
}

// FileTotals are those of the changed lines of one file.
func (p *Patch) FileTotals(f *coverage.File) coverage.Totals {
	if !p.HasFile(f.Name) {
		return coverage.Totals{}
	}
	var changed coverage.File
	for _, l := range f.Lines {
		if p.Changed(f.Name, l.Number) {
			changed.Lines = append(changed.Lines, l)
		}
	}
	for _, fn := range f.Functions {
		if p.Changed(f.Name, fn.StartLine) {
			changed.Functions = append(changed.Functions, fn)
		}
	}
	return changed.Totals()
}

// NewPatch finds the files of the diff among those of the set, by the new
// names.
func NewPatch(d *SourceDiff, set *coverage.Set, sources *Sources) *Patch {
	p := &Patch{files: make(map[string]*FileDiff)}
	places := newPlaces(set, sources)
	for i := range d.Files {
		f := &d.Files[i]
		if f.New == "" {
			continue // deleted
		}
		path, stale := places.find(d.Top, f.New, f)
		switch {
		case path == "":
			if _, wanted := sources.Resolve(cmp.Or(d.Top, sources.root), f.New); wanted && isSource(f.New) && len(f.Edits) > 0 {
				p.problems = append(p.problems, newProblem(noCoverage, f.New, errors.New("no coverage data of this changed file: it was not compiled with coverage, or is left out of the report")))
			}
			continue
		case stale:
			p.problems = append(p.problems, newProblem(otherVersion, path, errors.New("not what the diff says: it was changed since, and lines may be taken for others")))
		}
		p.files[path] = f
	}
	return p
}

// isSource tells whether a name is one that compilers with coverage take.
func isSource(name string) bool {
	switch strings.ToLower(strings.TrimPrefix(filepath.Ext(name), ".")) {
	case "c", "cc", "cpp", "cxx", "c++", "h", "hh", "hpp", "hxx", "h++", "inc", "inl", "ipp", "tcc", "tpp",
		"m", "mm", "cu", "rs", "d", "adb", "ads", "f", "for", "f77", "f90", "f95", "f03", "f08", "go", "s", "y", "l":
		return true
	}
	return false
}

// places finds the sources of a set by names that are relative to a directory
// which need not be known.
type places struct {
	root   string
	byBase map[string][]string // paths by their last part
	shown  func(string) string
}

func newPlaces(set *coverage.Set, sources *Sources) *places {
	p := &places{root: sources.root, byBase: make(map[string][]string), shown: sources.Shown}
	for _, f := range set.Files {
		base := filepath.Base(f.Name)
		p.byBase[base] = append(p.byBase[base], f.Name)
	}
	return p
}

// find returns the path of a file that has this name in a diff, "" if it is not
// there, and whether its lines are not what f says, if that is not nil.
//
// Where the directory that names are relative to is known there is little
// doubt. Otherwise the path with the longest end in common is taken: the name
// in the diff may be longer than the path, where the report was made of a part
// of the checkout, and shorter. An end that is neither the whole name in the
// diff nor the whole name in the report is believed only if the inserted lines
// are there.
func (p *places) find(top, name string, f *FileDiff) (path string, stale bool) {
	candidates := p.byBase[filepath.Base(name)]
	for _, dir := range []string{top, p.root} {
		if whole := filepath.Join(dir, name); dir != "" && slices.Contains(candidates, whole) {
			return whole, f.compare(whole) == differs
		}
	}
	var best struct {
		path string
		fit  fit
		end  int
	}
	for _, c := range candidates {
		end := commonSuffix(name, c)
		fit := f.compare(c)
		if end < components(name) && (top != "" || fit != fits && end < components(p.shown(c))) {
			continue
		}
		if best.path == "" || cmp.Or(cmp.Compare(fit, best.fit), cmp.Compare(end, best.end)) > 0 {
			best.path, best.fit, best.end = c, fit, end
		}
	}
	return best.path, best.fit == differs
}

func components(path string) int { return strings.Count(path, "/") + 1 }

// A fit tells whether a source has the lines that a diff inserted.
type fit int

const (
	differs fit = iota
	unknown     // it cannot be read, or there is nothing to see
	fits
)

// compare looks for the inserted lines in a source.
func (f *FileDiff) compare(path string) fit {
	if f == nil {
		return unknown
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return unknown
	}
	lines := strings.Split(string(text), "\n")
	result := unknown
	for k, e := range f.Edits {
		for i, want := range f.inserted[k] {
			n := int(e.New) - 1 + i
			if n >= len(lines) || strings.TrimRight(lines[n], "\r") != strings.TrimRight(want, "\r") {
				return differs
			}
			if len(strings.TrimSpace(want)) > len("} //") {
				result = fits
			}
		}
	}
	return result
}
