package trace

import "math/rand/v2"

// A Filter chooses calls by those around them and by their duration.
type Filter struct {
	Roots   bool   `json:"roots,omitempty"`   // only calls below roots, and these
	Depth   int    `json:"depth,omitempty"`   // open calls, at most; 0: any
	MinTime uint64 `json:"minTime,omitempty"` // nanoseconds; shorter calls are left out
	Period  uint64 `json:"period,omitempty"`  // of outermost calls one in so many is chosen, at random; 0: all
}

// WithFilter returns an output that gives on what f lets pass, as footfall's code in a program
// does while it records. Whether a call is a root says root.
func WithFilter(out CallWriter, f *Filter, root func(c *FunctionCall) bool) CallWriter {
	return &filtered{CallWriter: out, f: f, root: root, open: make(map[*Thread][]filteredCall)}
}

type filtered struct {
	CallWriter
	f    *Filter
	root func(c *FunctionCall) bool
	// recorded: calls that the code in the program has let pass are not asked again.
	recorded bool
	open     map[*Thread][]filteredCall
	// calls that the output knows of, and of these Cut and Left as in its Summary
	calls, cut, left uint64
}

// A filteredCall is one that is open.
type filteredCall struct {
	FunctionCall
	passes bool
	given  bool // the output knows of it
	muted  bool // it, or one around it, is one of those that Period leaves out
}

// filterRecorded has outputs filter what no filter has seen: calls of threads that have
// several stacks, which the code in the program cannot tell apart.
func (b *Builder) filterRecorded() {
	b.whole = true
	for i, out := range b.outputs {
		f := WithFilter(out, &b.header.Filter, func(c *FunctionCall) bool { return c.root }).(*filtered)
		f.recorded = true
		f.calls, f.cut, f.left = b.summary.Calls, b.summary.Cut, b.summary.Left
		for _, t := range b.threads {
			for _, s := range append([]*stack{t.stack}, t.others...) {
				for _, c := range s.open {
					f.open[&s.Thread] = append(f.open[&s.Thread], filteredCall{FunctionCall: c, passes: true, given: true})
				}
			}
		}
		b.outputs[i] = f
	}
}

func (f *filtered) Enter(t *Thread, c *FunctionCall) {
	open := f.open[t][:c.Depth]
	depth := 0
	for i := range open {
		if open[i].passes {
			depth++
		}
	}
	n := filteredCall{FunctionCall: *c}
	n.Depth, n.inner = depth, 0
	unasked := f.recorded && !c.whole
	if unasked {
		n.passes = true
	} else {
		n.muted = c.Depth > 0 && open[c.Depth-1].muted
		n.passes = !n.muted && (!f.f.Roots || depth > 0 || f.root(c)) && (f.f.Depth == 0 || depth < f.f.Depth)
		if n.passes && depth == 0 && f.f.Period > 1 && rand.Uint64N(f.f.Period) != 0 {
			n.passes, n.muted = false, true
		}
	}
	open = append(open, n)
	f.open[t] = open
	if n.passes && (f.f.MinTime == 0 || unasked) {
		f.give(t, open)
	}
}

// give tells the output of the calls that pass and that it does not know.
func (f *filtered) give(t *Thread, open []filteredCall) {
	for i := range open {
		if o := &open[i]; o.passes && !o.given {
			o.given = true
			f.calls++
			f.CallWriter.Enter(t, &o.FunctionCall)
		}
	}
}

func (f *filtered) Leave(t *Thread, c *FunctionCall) {
	open := f.open[t][:c.Depth+1]
	f.open[t] = open[:c.Depth]
	n := &open[c.Depth]
	n.End, n.Cut, n.Left = c.End, c.Cut, c.Left
	if !n.passes || !n.given && (n.Cut || n.End-n.Start < f.f.MinTime) {
		return
	}
	f.give(t, open)
	within := n.End - n.Start
	switch {
	case n.Cut:
		f.cut++
		within = n.inner
	case n.Left:
		f.left++
	}
	for i := c.Depth - 1; i >= 0; i-- {
		if open[i].passes {
			open[i].inner += within
			break
		}
	}
	f.CallWriter.Leave(t, &n.FunctionCall)
}

// summary is that of what the output knows.
func (f *filtered) summary(s CallSummary) CallSummary {
	s.Calls, s.Cut, s.Left = f.calls, min(f.cut, s.Cut), f.left // without exits none is Cut
	return s
}

func (f *filtered) Close(s CallSummary) error { return f.CallWriter.Close(f.summary(s)) }
