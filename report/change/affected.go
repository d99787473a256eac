package change

import (
	"errors"
	"slices"
	"strings"

	"footfall/coverage"
	"footfall/report/exclude"
	"footfall/report/source"
)

// Affected is what a [Diff] changes in the code of a set that was made of the
// version *before* the change: the side of the diff that a [Patch] does not look at.
type Affected struct {
	// Files are the changed sources of the set, by the names that it has for them.
	Files map[string]coverage.Edits
	// Problems are changed sources of which the set knows nothing.
	Problems []source.Problem
	// Others are changed files that are no sources, such as scripts of the build.
	Others []string
}

const notInData = "changed sources that the data do not know"

// FindAffected finds the sources of a set that the diff changes, by the old names.
// The set is not asked to fit what is in the working tree: that is mostly the new
// version.
func FindAffected(d *Diff, set *coverage.Set, excluded exclude.Excluded, sources *source.Sources) *Affected {
	p := newPlaces(set, excluded, sources)
	a := &Affected{Files: make(map[string]coverage.Edits)}
	b, name, doubt := p.beginOld(d)
	if doubt != nil {
		a.Problems = append(a.Problems, source.NewProblem(noPlace, name, doubt))
		return a
	}
	for i := range d.Files {
		a.add(p, b, &d.Files[i])
	}
	for _, name := range d.New {
		a.miss(p, b, name, errors.New("a new file: no test has run it yet"))
	}
	return a
}

// beginOld returns where the names in a diff begin, whether the tree has the new version
// of the sources or still the old one.
func (p *places) beginOld(d *Diff) (base, string, error) {
	p.top = d.Top
	b, name, doubt := p.begin(d)
	if doubt == nil && d.Top != "" || doubt == nil && p.finds(b, d) {
		return b, name, nil
	}
	back := &Diff{Top: d.Top}
	for i := range d.Files {
		back.Files = append(back.Files, d.Files[i].reversed())
	}
	if old, name, err := p.begin(back); err == nil && (doubt != nil || p.finds(old, d)) {
		return old, name, nil
	}
	return b, name, doubt
}

// finds tells whether a file of the diff is in the set by its old name.
func (p *places) finds(b base, d *Diff) bool {
	return slices.ContainsFunc(d.Files, func(f FileDiff) bool { return f.Old != "" && len(p.lookup(b, b.path(f.Old))) > 0 })
}

// reversed makes the old version of the new one. Of its lines those that the diff
// keeps are known.
func (f *FileDiff) reversed() FileDiff {
	r := FileDiff{Old: f.New, New: f.Old, untold: f.untold, blobs: [2]string{f.blobs[1], f.blobs[0]}, inserted: make([][]string, len(f.Edits))}
	for _, e := range f.Edits {
		r.Edits = append(r.Edits, coverage.Edit{Old: e.New, Deleted: e.Inserted, New: e.Old, Inserted: e.Deleted})
	}
	copy(r.inserted, f.removed)
	return r
}

func (a *Affected) add(p *places, b base, f *FileDiff) {
	if f.Old == "" {
		if f.inserts() {
			a.miss(p, b, f.New, errors.New("a new file: no test has run it yet"))
		}
		return
	}
	var edits coverage.Edits
	var why error
	switch {
	case f.untold != "":
		edits, why = allOld, errors.New(f.untold)
	case f.New == "" || f.gone:
		edits = allOld
	default:
		edits = f.withoutBlank()
	}
	found := p.lookup(b, b.path(f.Old))
	if len(found) == 0 && f.untold != "" {
		found = p.under(b.path(f.Old)) // of a submodule
	}
	for _, name := range found {
		a.Files[name] = edits
	}
	if len(found) == 0 && len(edits) > 0 {
		if why == nil {
			why = errors.New("no coverage data: it has no code of its own, was not compiled with coverage, or is left out")
		}
		a.miss(p, b, f.Old, why)
	}
}

// allOld changes all lines of a file.
var allOld = coverage.Edits{{Old: 1, Deleted: 1<<31 - 2, New: 1}}

// withoutBlank are the edits but for those that only insert blank lines.
func (f *FileDiff) withoutBlank() (edits coverage.Edits) {
	for i, e := range f.Edits {
		blank := e.Deleted == 0 && !slices.ContainsFunc(f.inserted[i], func(line string) bool { return strings.TrimSpace(line) != "" })
		if !blank {
			edits = append(edits, e)
		}
	}
	return edits
}

// miss notes a changed file that is not in the set.
func (a *Affected) miss(p *places, b base, name string, why error) {
	path := b.path(name)
	switch _, wanted := p.sources.Resolve("/", path); {
	case path == "" || !wanted || p.excluded[path] || p.sources.Excludes(path):
	case isSource(name):
		a.Problems = append(a.Problems, source.NewProblem(notInData, name, why))
	default:
		a.Others = append(a.Others, name)
	}
}

// InFunctions are the functions of a source that edits change, and the first line of a
// change outside of all functions, 0 for none.
func InFunctions(f *coverage.File, edits coverage.Edits) (changed []*coverage.Function, outside int32) {
	seen := make(map[*coverage.Function]bool)
	take := func(fn *coverage.Function) {
		if !seen[fn] {
			seen[fn] = true
			changed = append(changed, fn)
		}
	}
	for _, e := range edits {
		first, last := e.Old, e.Old+e.Deleted-1
		if e.Deleted == 0 { // between two lines, which must be of one function
			first, last = e.Old-1, e.Old
		}
		covered := int32(0) // all lines up to here are in functions
		for _, fn := range f.Functions {
			end := FunctionEnd(f, fn)
			if fn.StartLine > last || end < first || e.Deleted == 0 && (fn.StartLine > first || end < last) {
				continue
			}
			take(fn)
			if fn.StartLine <= max(first, covered+1) {
				covered = max(covered, end)
			}
		}
		if outside == 0 && covered < last {
			outside = max(e.Old, covered+1)
		}
	}
	return changed, outside
}

// FunctionEnd returns the last line of a function of f. Where the data do not tell it, that
// is the last line with code before the next function.
func FunctionEnd(f *coverage.File, fn *coverage.Function) int32 {
	if fn.EndLine > 0 {
		return fn.EndLine
	}
	next := int32(1<<31 - 1)
	for _, other := range f.Functions {
		if other.StartLine > fn.StartLine {
			next = min(next, other.StartLine)
		}
	}
	end := fn.StartLine
	for i := range f.Lines {
		if n := f.Lines[i].Number; n >= fn.StartLine && n < next {
			end = n
		}
	}
	return end
}
