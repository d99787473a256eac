package profile

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	pprof "github.com/google/pprof/profile"
)

// TestPprofHostile reads profiles of pprof's format that are none, or as no tool
// writes them.
func TestPprofHostile(t *testing.T) {
	packed := func(b []byte) []byte {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		w.Write(b)
		w.Close()
		return z.Bytes()
	}
	for _, c := range []struct {
		what string
		data []byte
		err  string
	}{
		{"zeros", packed(make([]byte, 17<<20)), "no profile of pprof's format"},
		{"empty samples", packed(bytes.Repeat([]byte{0x12, 0}, 9<<20)), "no profile has so many of next to nothing"},
		{"a length without bytes", []byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f}, ""},
	} {
		if _, err := FromPprof(c.data); err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v", c.what, err)
		}
	}

	// A line of a function that is not there.
	l := &pprof.Location{ID: 1, Line: []pprof.Line{{Line: 3}}}
	p := &pprof.Profile{
		SampleType: []*pprof.ValueType{{Type: "calls", Unit: "count"}},
		Sample:     []*pprof.Sample{{Location: []*pprof.Location{l}, Value: []int64{5}}},
		Location:   []*pprof.Location{l},
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	if _, err := FromPprof(b.Bytes()); err == nil || !strings.Contains(err.Error(), "nil function") {
		t.Errorf("a line without a function: %v", err)
	}
}
