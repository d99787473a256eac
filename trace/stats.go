package trace

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"
)

// stats is a table with a line for each function.
type stats struct {
	w       io.Writer
	h       *Header
	of      []functionStats
	within  map[*Thread][]int32 // open calls of each function
	lastFor *Thread
	last    []int32
}

type functionStats struct {
	function         uint32
	calls, ended     uint64
	total, self, max uint64
}

func newStats(w io.Writer, h *Header) Output {
	s := &stats{w: w, h: h, within: make(map[*Thread][]int32)}
	s.grow()
	return s
}

// grow makes room for functions that have been added.
func (s *stats) grow() {
	for i := len(s.of); i < len(s.h.Functions); i++ {
		s.of = append(s.of, functionStats{function: uint32(i)})
	}
}

func (s *stats) openIn(t *Thread) []int32 {
	if s.lastFor == t && len(s.last) == len(s.of) {
		return s.last
	}
	w := s.within[t]
	if n := len(s.of) - len(w); n > 0 {
		w = append(w, make([]int32, n)...)
		s.within[t] = w
	}
	s.lastFor, s.last = t, w
	return w
}

func (s *stats) Enter(t *Thread, c *Call) {
	if int(c.Function) >= len(s.of) {
		s.grow()
	}
	s.of[c.Function].calls++
	s.openIn(t)[c.Function]++
}

func (s *stats) Leave(t *Thread, c *Call) {
	open := s.openIn(t)
	open[c.Function]--
	if c.Cut {
		return
	}
	f := &s.of[c.Function]
	f.ended++
	duration := c.End - c.Start
	f.self += c.Self()
	f.max = max(f.max, duration)
	if open[c.Function] == 0 { // the time of a recursive call is that of the outer one
		f.total += duration
	}
}

func (s *stats) Flush() error { return nil }

func (s *stats) Close(Summary) error {
	w := bufio.NewWriter(s.w)
	slices.SortStableFunc(s.of, func(a, b functionStats) int {
		return cmp.Or(cmp.Compare(b.total, a.total), cmp.Compare(b.calls, a.calls), cmp.Compare(s.h.Functions[a.function].Name, s.h.Functions[b.function].Name))
	})
	if s.h.Exits {
		fmt.Fprintf(w, "%12s %12s %12s %12s %12s  %s\n", "calls", "total", "self", "average", "longest", "function")
	} else {
		fmt.Fprintf(w, "%12s  %s\n", "calls", "function")
	}
	names := s.h.Names()
	for _, f := range s.of {
		if f.calls == 0 {
			continue
		}
		name := names[f.function]
		if !s.h.Exits {
			fmt.Fprintf(w, "%12d  %s\n", f.calls, name)
			continue
		}
		// Of a recursive function the average is that of the outer calls' time
		// over all of them.
		average := uint64(0)
		if f.ended > 0 {
			average = f.total / f.ended
		}
		fmt.Fprintf(w, "%12d %12s %12s %12s %12s  %s\n", f.calls, short(f.total), short(f.self), short(average), short(f.max), name)
	}
	return w.Flush()
}

// short writes a duration in four digits or so.
func short(ns uint64) string {
	d := time.Duration(ns)
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= unit {
			return fmt.Sprintf("%.3f %s", float64(d)/float64(unit), map[time.Duration]string{time.Second: "s", time.Millisecond: "ms", time.Microsecond: "us"}[unit])
		}
	}
	return fmt.Sprintf("%d ns", ns)
}
