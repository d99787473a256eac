package mount

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"footfall/gcov"
	"footfall/report"
)

// A tracefile is one of lcov, made when it is wanted.
type tracefile struct {
	render func() []byte

	mu     sync.Mutex
	bytes  []byte
	at     time.Time // when it was begun
	took   time.Duration
	opened bool
}

// content returns the tracefile as it is now and when that was. One that was
// opened is not opened again, but a recent one serves those who want the size.
func (t *tracefile) content(opened bool) ([]byte, time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bytes == nil || opened && t.opened || time.Since(t.at) >= min(sharing*t.took, maxShared) {
		t.at, t.opened = time.Now(), false
		t.bytes = t.render()
		t.took = time.Since(t.at)
	}
	t.opened = t.opened || opened
	return t.bytes, t.at
}

// forget has the next content made anew.
func (t *tracefile) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes = nil
}

// tracefile makes one of the processes. What is left out is said in comments,
// which lcov skips.
func (m *Mount) tracefile(processes []*process) []byte {
	var images []report.Image
	for _, p := range processes {
		images = append(images, p.images()...)
	}
	objects := m.sources.pair(images)
	resolver, err := report.NewSources(m.sources.options)
	if err != nil {
		panic("mount: options were right before: " + err.Error())
	}
	set, problems, _ := gcov.Collect(objects.Units, gcov.CollectOptions{Source: resolver.Resolve})
	b := bytes.NewBuffer([]byte{})
	for _, p := range append(objects.Problems, report.Collected(problems)...) {
		fmt.Fprintf(b, "# footfall: %v\n", p)
	}
	r := &report.Report{Set: set, Shown: resolver.Shown}
	out, err := report.ParseOutput("lcov1")
	if err == nil {
		_, err = r.Write(out, b)
	}
	if err != nil {
		fmt.Fprintf(b, "# footfall: %v\n", err)
	}
	return b.Bytes()
}
