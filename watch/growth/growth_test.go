package growth

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"footfall/coverage"
)

// TestComparedAgain compares pictures of sets that keep files with those of the same sets anew.
func TestComparedAgain(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	c := New(strings.ToUpper)
	now := new(coverage.Set)
	for step := range 100 {
		for range rng.IntN(3) {
			f := &coverage.File{Name: fmt.Sprintf("/%d.c", rng.IntN(8))}
			for i := range int32(4) {
				f.Functions = append(f.Functions, &coverage.Function{StartLine: 2*i + 1, EndLine: 2*i + 2, Name: fmt.Sprint("f", i), Count: int64(rng.IntN(step + 1))})
				f.Lines = append(f.Lines, coverage.Line{Number: 2*i + 1, Count: int64(rng.IntN(step + 1))}, coverage.Line{Number: 2*i + 2, Count: int64(rng.IntN(2))})
			}
			now = now.With(nil, f)
		}
		anew := New(c.shown)
		anew.start, anew.before, anew.startAt, anew.beforeAt = copyOf(c.start), copyOf(c.before), c.startAt, c.beforeAt
		if step%17 == 16 {
			c.Restart()
			anew.Restart()
		}
		at := time.Unix(int64(step), 0)
		got, want := c.Take(now, at), anew.Take(now, at)
		for _, rows := range [][2][]Row{{want.Files, got.Files}, {want.Functions, got.Functions}} {
			if diff := cmp.Diff(rows[0], rows[1]); diff != "" {
				t.Fatalf("step %d: (-anew +again)\n%s", step, diff)
			}
		}
		if want.Totals != got.Totals || want.NewTick != got.NewTick || want.NewStart != got.NewStart || want.Runs != got.Runs {
			t.Fatalf("step %d: got %v, want %v", step, got, want)
		}
		sum := 0
		for _, name := range now.Names() {
			for _, l := range got.Lines(name) {
				if l.NewTick {
					sum++
				}
			}
		}
		if sum != got.NewTick {
			t.Fatalf("step %d: %d lines are new, in all %d", step, sum, got.NewTick)
		}
	}
}

// copyOf keeps no file of the set.
func copyOf(s *coverage.Set) *coverage.Set {
	if s == nil {
		return nil
	}
	c := new(coverage.Set)
	for _, f := range s.All() {
		c.Add(f.Clone())
	}
	return c
}
