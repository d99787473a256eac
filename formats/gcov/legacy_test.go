package gcov

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"footfall/formats/gcov/fixtures"
)

func TestLegacyRoundTrip(t *testing.T) {
	fixtures.EachLegacy(t, func(name string, bb, bbg, da []byte) {
		n, err := ReadLegacyNotes(bb, bbg)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if b, g := n.Encode(); !bytes.Equal(b, bb) || !bytes.Equal(g, bbg) {
			t.Errorf("%s: encoded notes differ", name)
		}
		if da == nil {
			return
		}
		c, err := ReadLegacyCounts(da)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !bytes.Equal(c.Encode(), da) {
			t.Errorf("%s: encoded counts differ", name)
		}
		if err := c.Fits(n); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
}

// TestLegacyMerge adds counts to themselves: all double, and so do those that
// stand in two blocks.
func TestLegacyMerge(t *testing.T) {
	fixtures.EachLegacy(t, func(name string, bb, bbg, da []byte) {
		if da == nil {
			return
		}
		n, err := ReadLegacyNotes(bb, bbg)
		if err != nil {
			t.Fatal(err)
		}
		once, _ := ReadLegacyCounts(da)
		twice, _ := ReadLegacyCounts(da)
		if err := twice.Merge(once); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(twice.Encode()) != len(da) {
			t.Errorf("%s: merged counts have %d bytes, want %d", name, len(twice.Encode()), len(da))
		}
		compare := func(c *LegacyCounts) {
			t.Helper()
			for i := range n.Graphs {
				a, _ := once.Of(n, i)
				b, _ := c.Of(n, i)
				for k := range a {
					if b[k] != 2*a[k] {
						t.Fatalf("%s: function %d counter %d is %d, want %d", name, i, k, b[k], 2*a[k])
					}
				}
			}
		}
		compare(twice)
		if once.Named {
			appended, err := ReadLegacyCounts(append(bytes.Clone(da), da...))
			if err != nil {
				t.Fatal(err)
			}
			compare(appended)
		}
	})
}

// Every way to cut off a file gives an error with an offset, or leaves whole
// functions.
func TestLegacyDamage(t *testing.T) {
	fixtures.EachLegacy(t, func(name string, bb, bbg, da []byte) {
		if !strings.Contains(name, "branches/") {
			return
		}
		for n := range da {
			if n == 0 {
				continue
			}
			_, err := ReadLegacyCounts(da[:n])
			var format *FormatError
			if !errors.As(err, &format) {
				t.Fatalf("%s: %d of %d bytes of .da: %v", name, n, len(da), err)
			}
		}
		for n := 1; n < len(bbg); n++ {
			if _, err := ReadLegacyNotes(bb, bbg[:n]); err == nil {
				t.Fatalf("%s: %d bytes of .bbg are taken for all", name, n)
			}
		}
	})
}

func FuzzLegacy(f *testing.F) {
	fixtures.EachLegacy(f, func(name string, bb, bbg, da []byte) {
		f.Add(bb, bbg, da)
	})
	f.Fuzz(func(t *testing.T, bb, bbg, da []byte) {
		n, err := ReadLegacyNotes(bb, bbg)
		c, errCounts := ReadLegacyCounts(da)
		if err == nil {
			n.Encode()
		}
		if errCounts == nil {
			if again, err := ReadLegacyCounts(c.Encode()); err != nil || !bytes.Equal(again.Encode(), c.Encode()) {
				t.Errorf("encoded counts read differently: %v", err)
			}
		}
		if m, err := ReadNotes(n.modern().Encode()); err != nil && len(m.Functions) > 0 {
			t.Errorf("notes in the newer form cannot be read: %v", err)
		}
		c.modern(n).Encode()
	})
}
