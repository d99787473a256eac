//go:build linux

package patch

import (
	"footfall/trace"
	"slices"
	"testing"
)

// TestPlacesOfTheLiving begins threads while places are given to others: those that
// are not on the list yet keep theirs.
func TestPlacesOfTheLiving(t *testing.T) {
	const threads = 60
	g := start(t, build(t, builds["gcc"][0], "newthread.c", builds["gcc"][1:]...))
	s := g.open(g.sites("leaf"), Options{Mode: trace.Counts})
	defer s.Close()
	begun := make(chan bool)
	go func() {
		defer close(begun)
		for range threads {
			g.say("t")
		}
	}()
	for going := true; going; {
		select {
		case <-begun:
			going = false
		default:
		}
		if err := s.Recycle(); err != nil {
			t.Fatal(err)
		}
	}
	if i := slices.Index(s.used[:], true); i >= 0 {
		t.Errorf("place %d was given away while its thread ran", i)
	}
}
