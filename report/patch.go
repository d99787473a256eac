package report

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"footfall/coverage"
)

// A Patch is the part of a [SourceDiff] that a report has coverage for.
type Patch struct {
	files    map[string]*FileDiff // by the name of the coverage.File
	problems []Problem
	doubts   int // changed files of which it is not known which lines of the report they changed
	unseen   int // changed sources that have no coverage data, though code of the report is around them
	empty    bool
}

// Problems are changed sources without coverage data, and all that leaves in
// doubt which lines were changed.
func (p *Patch) Problems() []Problem { return p.problems }

// Clear tells whether it is known of all sources which of their lines were
// changed.
func (p *Patch) Clear() bool { return p.doubts+p.unseen == 0 }

// Empty tells whether no file was changed.
func (p *Patch) Empty() bool { return p.empty }

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
// names. What was excluded is no part of the patch.
func NewPatch(d *SourceDiff, set *coverage.Set, excluded Excluded, sources *Sources) *Patch {
	places := newPlaces(set, excluded, sources)
	p := places.place(d)
	for _, name := range slices.Sorted(maps.Keys(p.files)) {
		if p.files[name].inserts() && places.changedSince(name) {
			p.doubt(staleData, name, errors.New("changed since it was compiled: what was inserted then is in no coverage data; build, run and report again"))
		}
	}
	return &Patch{files: p.files, problems: p.problems, doubts: p.doubts, unseen: p.unseen, empty: len(d.Files) == 0 && len(p.files) == 0}
}

// isSource tells whether a name is one that compilers with coverage take.
func isSource(name string) bool {
	switch extension(name) {
	case "h", "hh", "hpp", "hxx", "h++", "inc", "inl", "ipp", "tcc", "tpp", "ads", "s":
		return true
	}
	return isUnit(name)
}

// isUnit tells whether a name is that of a source which compilers take by
// itself, and which mostly has code.
func isUnit(name string) bool {
	switch extension(name) {
	case "c", "cc", "cpp", "cxx", "c++", "m", "mm", "cu", "rs", "d", "adb", "f", "for", "f77", "f90", "f95", "f03", "f08", "go", "y", "l":
		return true
	}
	return false
}

func extension(name string) string {
	return strings.ToLower(strings.TrimPrefix(filepath.Ext(name), "."))
}
