package change

import (
	"path/filepath"
	"slices"
	"time"

	"footfall/coverage"
	"footfall/input"
	"footfall/report/source"
)

// This file finds sources that were changed after what is known of them was
// compiled: what was inserted since is in no coverage data, and what stands on
// a line now may not be what ran there.
//
// The times of files tell, if they are those of a working tree in which people
// edit and build. Those of a tree that was checked out after the build, as when
// one job of a CI compiles and another reports, tell nothing.

// StaleData is the kind of problem that a [Stale] source is.
const StaleData = "sources that were changed since they were compiled"

// Stale returns the sources of a set that were changed after what is known of them was
// compiled, by name: those that are newer, and those whose text tells. Copies and fresh
// checkouts are not among them for their times: of these most are newer.
func Stale(set *coverage.Set, sources *source.Sources) []string {
	stale := newer(set, sources)
	for _, name := range set.Names() {
		if !sources.Differs(name) {
			continue
		}
		if i, found := slices.BinarySearch(stale, name); !found {
			stale = slices.Insert(stale, i, name)
		}
	}
	return stale
}

// noTime is later than what archives say that are to be the same whenever they are made: they
// have 1970, or 1980, the first year of zip.
var noTime = time.Date(1981, 1, 1, 0, 0, 0, 0, time.UTC)

// newer returns the sources that were changed after what is known of them was compiled, as
// far as their times tell. A file that was there before, and is another one now, is no copy and of no fresh checkout.
func newer(set *coverage.Set, sources *source.Sources) []string {
	var newer []string
	for _, name := range set.Names() {
		if built := sources.Built(name); built.After(noTime) && input.Modified(name).After(built) {
			newer = append(newer, name)
		}
	}
	if 2*len(newer) <= set.Len() {
		return newer
	}
	return slices.DeleteFunc(newer, func(name string) bool {
		built := sources.Built(name)
		made := input.Made(name)
		return (made.IsZero() || !made.Before(built)) && !keptSince(set, built, name)
	})
}

// keptSince tells whether the working tree around a source was there at a time:
// something in it is older.
func keptSince(set *coverage.Set, t time.Time, path string) bool {
	older := func(name string) bool {
		m := input.Modified(name)
		return !m.IsZero() && m.Before(t)
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		git := filepath.Join(dir, ".git")
		if input.IsFile(git) { // of a worktree or submodule
			return older(git)
		}
		if isThere(git) {
			return older(filepath.Join(git, "description")) || older(filepath.Join(git, "config")) || older(filepath.Join(git, "HEAD"))
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	for _, other := range set.Names() {
		if other != path && older(other) {
			return true
		}
	}
	return false
}
