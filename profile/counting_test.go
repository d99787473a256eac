//go:build linux

package profile

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	pprof "github.com/google/pprof/profile"
)

// TestCounting has a process count before, while and after it is sampled: what it
// does while samples are evaluated does not matter.
func TestCounting(t *testing.T) {
	b, err := os.ReadFile("../compile/instrument/testdata/prog.counts")
	if err != nil {
		t.Fatal(err)
	}
	c := counting{name: filepath.Join(t.TempDir(), "x.counts")}
	entries := b[binary.LittleEndian.Uint64(b[128:]):] // the first counter is that of f
	count := func(n uint64) {
		binary.LittleEndian.PutUint64(entries, n)
		if err := os.WriteFile(c.name, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	count(10)
	c.begin()
	count(17)
	c.end()
	count(1000)
	builder := newBuilder()
	builder.add([]*pprof.Location{builder.named("sampled", "")}, "", 0, 5)
	sampled, err := builder.finish(nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.addTo(sampled)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int64)
	for _, n := range NewGraph(p).Nodes {
		if n.Calls != 0 {
			got[n.Func.Name] = n.Calls
		}
	}
	if len(got) != 1 || got["f"] != 7 {
		t.Errorf("calls %v, want 7 of f", got)
	}
}
