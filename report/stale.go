package report

import (
	"path/filepath"
	"time"

	"footfall/input"
)

// This file finds sources that were changed after what is known of them was
// compiled: what was inserted since is in no coverage data, and what stands on
// a line now may not be what ran there.
//
// The times of files tell, if they are those of a working tree in which people
// edit and build. Those of a tree that was checked out after the build, as when
// one job of a CI compiles and another reports, tell nothing.

const staleData = "sources that were changed since they were compiled"

// A stamping says when notes and reports were written.
type stamping struct {
	notes   map[string]time.Time // of sources: the oldest notes with functions of theirs
	reports time.Time            // the oldest report of another making, zero if there is none
}

// NoteBuilt notes that a source was compiled when notes were written, see
// gcov.CollectOptions.
func (s *Sources) NoteBuilt(path string, notes time.Time) {
	if s.built.notes == nil {
		s.built.notes = make(map[string]time.Time)
	}
	if t, ok := s.built.notes[path]; !ok || notes.Before(t) {
		s.built.notes[path] = notes
	}
}

// noteReport notes when a report was written. What it tells was compiled before.
func (s *Sources) noteReport(name string) {
	if t := input.Modified(name); !t.IsZero() && (s.built.reports.IsZero() || t.Before(s.built.reports)) {
		s.built.reports = t
	}
}

// changedSince tells whether a source of the set was changed since it was compiled.
func (p *places) changedSince(path string) bool {
	built, ok := p.sources.built.notes[path]
	if !ok {
		built = p.sources.built.reports
	}
	return !built.IsZero() && input.Modified(path).After(built) && p.keptSince(built, path)
}

// keptSince tells whether the working tree around a source was there at a time:
// something in it is older.
func (p *places) keptSince(t time.Time, source string) bool {
	older := func(name string) bool {
		m := input.Modified(name)
		return !m.IsZero() && m.Before(t)
	}
	for dir := filepath.Dir(source); ; dir = filepath.Dir(dir) {
		git := filepath.Join(dir, ".git")
		if isFile(git) { // of a worktree or submodule
			return older(git)
		}
		if isThere(git) {
			return older(filepath.Join(git, "description")) || older(filepath.Join(git, "config")) || older(filepath.Join(git, "HEAD"))
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	for _, other := range p.paths {
		if other != source && older(other) {
			return true
		}
	}
	return false
}
