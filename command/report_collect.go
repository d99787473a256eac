package command

import (
	"fmt"
	"io"
	"time"

	"footfall/coverage"
	"footfall/formats/gcov"
	"footfall/output"
	"footfall/report"
)

// collect reads the coverage data and the reports, and shows on stderr how far
// it is if that takes long. test is the name of the test that the data, and
// what has no name in the reports, are of; "" for none.
func collect(objects *report.Objects, sources *report.Sources, test string, stderr io.Writer) (*coverage.Set, []report.Problem, gcov.Stats) {
	set, problems, stats := gather(objects, sources, test, stderr)
	return set, append(problems, report.Reconcile(set)...), stats
}

// gather is collect without reconciling what is to be merged with more.
func gather(objects *report.Objects, sources *report.Sources, test string, stderr io.Writer) (*coverage.Set, []report.Problem, gcov.Stats) {
	var sum coverage.Sum
	units := newProgress(stderr, "units")
	set, found, stats := gcov.Collect(objects.Units, gcov.CollectOptions{Source: sources.Resolve, Progress: units.show, Built: sources.NoteBuilt, Owners: &sources.Owners})
	units.end()
	if test != "" {
		for _, f := range set.Files {
			f.NameTest(test)
		}
	}
	sum.Take(set)
	problems := report.Collected(found)
	if len(objects.Reports) > 0 {
		files := newProgress(stderr, "reports")
		set, more := report.ReadFiles(objects.Reports, report.ReadOptions{Sources: sources, Test: test, Progress: files.show})
		files.end()
		sum.Take(set)
		problems = append(problems, more...)
	}
	return sum.Set(), problems, stats
}

// A progress shows on a terminal how far something is that takes long.
type progress struct {
	w           io.Writer // nil: it is shown to nobody
	things      string
	begin, last time.Time
}

func newProgress(w io.Writer, things string) *progress {
	p := &progress{things: things, begin: time.Now()}
	if f := output.Terminal(w); f != nil {
		p.w = f
	}
	return p
}

func (p *progress) show(done, total int) {
	if p.w == nil {
		return
	}
	if now := time.Now(); now.Sub(p.begin) > 500*time.Millisecond && now.Sub(p.last) > 100*time.Millisecond {
		p.last = now
		fmt.Fprintf(p.w, "\rreading %d of %d %s", done, total, p.things)
	}
}

func (p *progress) end() {
	if !p.last.IsZero() {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
