package gocover

import (
	"bytes"
	"errors"
	"os"
	"testing"
)

func read(tb testing.TB, name string) []byte {
	tb.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// TestRead reads what Go 1.26 wrote for testdata/module, called with a, b and c, and writes it again.
func TestRead(t *testing.T) {
	b := read(t, "testdata/shapes.covmeta")
	m, err := ReadMeta(b)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ReadCounters(read(t, "testdata/shapes.covcounters"))
	if err != nil {
		t.Fatal(err)
	}
	pod := NewPod(m)
	if failed := pod.Add(c); failed != nil {
		t.Fatal(failed)
	}
	var p Profile
	if err := p.Add("shapes.covmeta", pod, nil); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := p.WriteFunctions(&out); err != nil {
		t.Fatal(err)
	}
	const want = `example.org/shapes/main.go:11:		main		100.0%
example.org/shapes/main.go:24:		never		0.0%
example.org/shapes/shapes/shapes.go:8:	Square.Area	66.7%
example.org/shapes/shapes/shapes.go:19:	*Box.Area	50.0%
total					(statements)	75.0%
`
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
	for _, combine := range []bool{false, true} {
		w := Writer{Combine: combine}
		if err := w.Add("shapes.covmeta", pod, b, c.Segments, nil); err != nil {
			t.Fatal(err)
		}
		meta, hash := w.Meta()
		again, err := ReadMeta(meta)
		if err != nil || again.Hash != hash {
			t.Fatal(err, again)
		}
		counters, err := ReadCounters(w.Counters(hash))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := counters.Segments[0].Command(), c.Segments[0].Command(); len(got) != 4 || got[3] != want[3] {
			t.Errorf("called as %q, want %q", got, want)
		}
		pod := NewPod(again)
		if failed := pod.Add(counters); failed != nil {
			t.Fatal(failed)
		}
		var p Profile
		if err := p.Add("again", pod, nil); err != nil {
			t.Fatal(err)
		}
		var text, wantText bytes.Buffer
		if p.WriteFunctions(&text); text.String() != want {
			t.Errorf("combine %v: %s%s", combine, text.String(), wantText.String())
		}
	}
}

// TestCut cuts files at all places: that is said, and what came before is there.
func TestCut(t *testing.T) {
	b := read(t, "testdata/shapes.covcounters")
	for n := range len(b) {
		c, err := ReadCounters(b[:n])
		var f *FormatError
		if !errors.As(err, &f) || f.Offset > int64(n) || c != nil && len(c.Segments) > 0 {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	b = read(t, "testdata/shapes.covmeta")
	for n := range len(b) {
		if _, err := ReadMeta(b[:n]); err == nil {
			t.Errorf("%d bytes: no error", n)
		}
	}
}

// FuzzMeta reads bytes as what there is to count: no more than a multiple of the bytes.
func FuzzMeta(f *testing.F) {
	f.Add(read(f, "testdata/shapes.covmeta"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ReadMeta(b)
		if err != nil {
			return
		}
		size := 0
		for _, p := range m.Packages {
			size += 100 + len(p.Path) + len(p.Name)
			for _, fn := range p.Functions {
				size += 80 + 20*len(fn.Units)
			}
		}
		if most := 100*len(b) + 1<<12; size > most {
			t.Errorf("%d bytes of %d", size, len(b))
		}
		pod := NewPod(m)
		var p Profile
		_ = p.Add("fuzz", pod, nil)
		_ = p.WriteText(&bytes.Buffer{})
		_ = p.WriteFunctions(&bytes.Buffer{})
		for _, combine := range []bool{false, true} {
			w := Writer{Combine: combine}
			_ = w.Add("fuzz", pod, b, nil, func(string) bool { return true })
			meta, hash := w.Meta()
			if again, err := ReadMeta(meta); err != nil || again.Hash != hash {
				t.Errorf("what was written: %v", err)
			}
		}
	})
}

// FuzzCounters reads bytes as counts.
func FuzzCounters(f *testing.F) {
	f.Add(read(f, "testdata/shapes.covcounters"))
	m, err := ReadMeta(read(f, "testdata/shapes.covmeta"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, _ := ReadCounters(b)
		if c == nil {
			return
		}
		size := 0
		for _, s := range c.Segments {
			s.Command()
			for _, f := range s.Counted {
				size += 32 + 4*len(f.Counts)
			}
		}
		if most := 64*len(b) + 1<<12; size > most {
			t.Errorf("%d bytes of %d", size, len(b))
		}
		pod := NewPod(m)
		pod.Add(c)
		var p Profile
		if p.Add("fuzz", pod, nil) == nil {
			_ = p.WriteText(&bytes.Buffer{})
		}
	})
}
