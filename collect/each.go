//go:build linux

package collect

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"footfall/coverage"
	"footfall/output"
	"footfall/process"
)

// testName is what a process is called where processes are kept apart: its title, as ps shows it, and its pid.
func testName(pid int, name string) string {
	if about, err := process.Describe(pid); err == nil && about.Title != "" {
		name = about.Title
	}
	return fmt.Sprintf("%s (pid %d)", output.Printable(name), pid)
}

// apart names the work of each process in the set of all snapshots, as that of a test.
func (l *Targets) apart(r *Result, snapshots []*Snapshot) {
	inOrder := slices.SortedFunc(slices.Values(snapshots), func(a, b *Snapshot) int { return cmp.Compare(a.test, b.test) })
	tests := make(map[string][]coverage.Test) // by file
	for _, s := range inOrder {
		o := l.options.Options
		o.Progress = io.Discard
		one := gather(l.pair([]*Snapshot{s}), o)
		for _, f := range one.Set.All() {
			if hits := coverage.AppendHits(nil, f.Lines); len(hits) > 0 {
				tests[f.Name] = append(tests[f.Name], coverage.Test{Name: s.test, Hits: hits})
			}
		}
	}
	r.Set.Update(func(_ int, f *coverage.File) coverage.Update {
		f.Tests = tests[f.Name]
		return coverage.Changed
	})
}
