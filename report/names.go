package report

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"footfall/coverage"
	"footfall/demangle"
	"footfall/output"
)

// A signature is the name of a function as people know it.
type signature struct {
	name   string // without parameters: "Stack<int>::push"
	params string // "(int)", for those qualified " const"; "" in C
}

// signatures returns those of the functions of a file. Services stop at a
// second function of the same signature; a file that was compiled in two ways
// may have some, and gets the lines after them.
func signatures(functions []*coverage.Function) []signature {
	out := make([]signature, len(functions))
	seen := make(map[signature]bool, len(functions))
	for i, f := range functions {
		s := newSignature(f)
		if seen[s] {
			s.params += " line " + strconv.Itoa(int(f.StartLine))
		}
		for n := 2; seen[s]; n++ {
			s.params += " " + strconv.Itoa(n)
		}
		seen[s] = true
		out[i] = s
	}
	return out
}

func newSignature(f *coverage.Function) signature {
	name, params := demangle.Signature(f.Symbols())
	return signature{name, params}
}

// title is the name of a function for people, with the number of its instances if there are several.
func title(f *coverage.Function) string { return demangle.Title(f.Symbols()) }

// oneLine returns a name for a format of lines that cannot escape.
func oneLine(s string) string { return output.Line.Escape(s) }

// line is the name to show people for a source.
func (r *Report) line(path string) string { return output.Printable(r.Shown(path)) }

// A folder is a directory of sources.
type folder struct {
	name   string   // as shown, "" for the root
	files  []int    // numbers in the set
	base   []string // the names of the files in it
	totals coverage.Totals
	each   []coverage.Totals
}

// folders returns the directories with sources, by ascending name.
func (r *Report) folders() []*folder {
	var list []*folder
	byName := make(map[string]*folder)
	for i, f := range r.Set.All() {
		dir, base := path.Split(r.Shown(f.Name))
		if len(dir) > 1 {
			dir = strings.TrimSuffix(dir, "/")
		}
		d := byName[dir]
		if d == nil {
			d = &folder{name: dir}
			byName[dir] = d
			list = append(list, d)
		}
		t := f.Totals()
		d.files, d.base, d.each = append(d.files, i), append(d.base, base), append(d.each, t)
		d.totals.Add(t)
	}
	slices.SortFunc(list, func(a, b *folder) int { return cmp.Compare(a.name, b.name) })
	return list
}
