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
	open    map[*Thread][]openCalls // of each function
	lastFor *Thread
	last    []openCalls
}

// openCalls are the calls of a function that a thread has open. A call within another
// one of the same function adds to the total only if that has no time: for each but the
// innermost there is the time of those within.
type openCalls struct {
	n      int
	within []uint64
}

// end takes the innermost one out. It returns what the total of the function gets of it, if
// it was the outermost one.
func (o *openCalls) end(c *FunctionCall) (total uint64) {
	o.n--
	if !c.Cut {
		total = c.End - c.Start
	} else if len(o.within) > o.n {
		total = o.within[o.n]
	}
	if len(o.within) > o.n {
		o.within = o.within[:o.n]
	}
	if o.n == 0 {
		return total
	}
	for len(o.within) < o.n {
		o.within = append(o.within, 0)
	}
	o.within[o.n-1] += total
	return 0
}

type functionStats struct {
	function         uint32
	calls, ended     uint64
	total, self, max uint64
}

func newStats(w io.Writer, h *Header) CallWriter {
	s := &stats{w: w, h: h, open: make(map[*Thread][]openCalls)}
	s.grow()
	return s
}

// grow makes room for functions that have been added.
func (s *stats) grow() {
	for i := len(s.of); i < len(s.h.Functions); i++ {
		s.of = append(s.of, functionStats{function: uint32(i)})
	}
}

func (s *stats) openIn(t *Thread) []openCalls {
	if s.lastFor == t && len(s.last) == len(s.of) {
		return s.last
	}
	open := s.open[t]
	if n := len(s.of) - len(open); n > 0 {
		open = append(open, make([]openCalls, n)...)
		s.open[t] = open
	}
	s.lastFor, s.last = t, open
	return open
}

func (s *stats) Enter(t *Thread, c *FunctionCall) {
	if int(c.Function) >= len(s.of) {
		s.grow()
	}
	s.of[c.Function].calls++
	s.openIn(t)[c.Function].n++
}

func (s *stats) Leave(t *Thread, c *FunctionCall) {
	f := &s.of[c.Function]
	f.total += s.openIn(t)[c.Function].end(c)
	if c.Cut {
		return
	}
	f.ended++
	f.self += c.Self()
	f.max = max(f.max, c.End-c.Start)
}

func (s *stats) Flush() error { return nil }

func (s *stats) Close(CallSummary) error {
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
		// over all that have ended.
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
