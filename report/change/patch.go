// Package change finds out what was changed in sources: a [Diff] is read, or asked of git;
// a [Patch] is the part of it that a report has coverage for; a [Comparison] is the
// coverage of two versions, line by line where the diff says which line became which.
//
// The names in a diff are relative to a directory that nobody tells: places.go finds it,
// by what is there. Lines that cannot be placed are a doubt that is told, never a guess.
// The package prints nothing but problems; package report prints patches and comparisons.
package change

import (
	"errors"
	"slices"

	"footfall/coverage"
	"footfall/report/exclude"
	"footfall/report/source"
)

// A Patch is the part of a [Diff] that a report has coverage for.
type Patch struct {
	files    map[string]*FileDiff // by the name of the coverage.File
	problems []source.Problem
	doubts   int // changed files of which it is not known which lines of the report they changed
	unseen   int // changed sources that have no coverage data, though code of the report is around them
	empty    bool
}

// Problems are changed sources without coverage data, and all that leaves in
// doubt which lines were changed.
func (p *Patch) Problems() []source.Problem { return p.problems }

// Doubts is the number of changed files of which it is not known which lines of the
// report they changed.
func (p *Patch) Doubts() int { return p.doubts }

// Unseen is the number of changed sources that have no coverage data, though code of
// the report is around them.
func (p *Patch) Unseen() int { return p.unseen }

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
	for _, f := range s.All() {
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
// names. What was excluded is no part of the patch. Stale sources, see [Stale], are a doubt.
func NewPatch(d *Diff, set *coverage.Set, excluded exclude.Excluded, sources *source.Sources, stale []string) *Patch {
	places := newPlaces(set, excluded, sources)
	p := places.place(d)
	for _, name := range stale {
		if f := p.files[name]; f != nil && f.inserts() {
			p.doubt(StaleData, sources.Shown(name), errors.New("changed since it was compiled: what was inserted then is in no coverage data; build, run and report again"))
		}
	}
	return &Patch{files: p.files, problems: p.problems, doubts: p.doubts, unseen: p.unseen, empty: len(d.Files) == 0 && len(p.files) == 0}
}

// PatchOf is the patch of edits that are known, by the names of the coverage.Files.
func PatchOf(edits map[string]coverage.Edits) *Patch {
	p := &Patch{files: make(map[string]*FileDiff), empty: len(edits) == 0}
	for name, e := range edits {
		p.files[name] = &FileDiff{Old: name, New: name, Edits: e}
	}
	return p
}
