//go:build linux

package mount

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"footfall/collect"
	"footfall/collect/find"
	"footfall/formats/gcov"
	"footfall/output"
	"footfall/report"
	"footfall/report/exclude"
)

// A tracefile is one of lcov, made when it is wanted.
type tracefile struct {
	render func() []byte

	mu    sync.Mutex
	state *state
	fresh bool      // the state was made since the last reset
	at    time.Time // when making it was begun
	took  time.Duration
	looks looks
}

// lookup returns the tracefile as it is now, for a thread that may be about to
// open it.
func (t *tracefile) lookup(by uint32) *state {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.fresh || t.looks.used(t.at, t.took, by) || time.Since(t.at) >= min(sharing*t.took, maxShared) {
		t.at, t.fresh = time.Now(), true
		t.state = t.state.next(t.render(), t.at)
		t.took = time.Since(t.at)
	}
	t.looks.add(t.at, by)
	return t.state
}

// open notes that the state was opened.
func (t *tracefile) open() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.looks.opened = true
}

// forget has the next content made anew.
func (t *tracefile) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fresh = false
}

// tracefile makes one of the processes. What is left out is said in comments,
// which lcov skips.
func (m *Mount) tracefile(processes []*target) []byte {
	var readings []gcov.Reading
	var profiles find.Objects
	b := new(bytes.Buffer)
	for _, p := range processes {
		more, events := p.readings(&profiles)
		readings = append(readings, more...)
		for _, e := range events {
			fmt.Fprintf(b, "# footfall: %s: %s\n", p.name, e)
		}
	}
	sources, err := m.sources.readable(processes)
	if err != nil {
		fmt.Fprintf(b, "# footfall: %v\n", err)
		return b.Bytes()
	}
	exclusions, err := exclude.New(exclude.Options{MarkerPrefixes: exclude.MarkerPrefixes, ReadInto: sources.ReadInto})
	if err != nil {
		panic("mount: the usual exclusions are wrong: " + err.Error())
	}
	c := m.sources.collect(readings, &profiles, collect.Options{Sources: sources, Exclusions: exclusions})
	for _, p := range c.Problems {
		fmt.Fprintf(b, "# footfall: %v\n", p)
	}
	if len(c.Excluded.List) > 0 {
		fmt.Fprintf(b, "# footfall: %v\n", c.Excluded)
	}
	r := &report.Report{Set: c.Set, Shown: sources.Shown}
	if _, err := r.Write(output.Request{Format: "lcov1", File: "-"}, b); err != nil {
		fmt.Fprintf(b, "# footfall: %v\n", err)
	}
	return b.Bytes()
}
