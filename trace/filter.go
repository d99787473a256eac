package trace

// A Filter chooses calls of a recording, as footfall's code in a program does
// while it records.
type Filter struct {
	Root    func(function uint32) bool // nil, or only calls below these, and these
	Depth   int                        // open calls, at most; 0: any
	MinTime uint64                     // nanoseconds; shorter calls are left out
}

// Filtered returns an output that gives on what f lets pass.
func Filtered(out Output, f Filter) Output {
	return &filtered{Output: out, f: f, open: make(map[*Thread][]filteredCall)}
}

type filtered struct {
	Output
	f    Filter
	open map[*Thread][]filteredCall
}

// A filteredCall is one that is open.
type filteredCall struct {
	Call
	passes bool
	given  bool // the output knows of it
}

func (f *filtered) Enter(t *Thread, c *Call) {
	open := f.open[t][:c.Depth]
	depth := 0
	for i := range open {
		if open[i].passes {
			depth++
		}
	}
	n := filteredCall{Call: *c}
	n.passes = (f.f.Root == nil || depth > 0 || f.f.Root(c.Function)) && (f.f.Depth == 0 || depth < f.f.Depth)
	n.Depth, n.inner = depth, 0
	open = append(open, n)
	f.open[t] = open
	if n.passes && f.f.MinTime == 0 {
		f.give(t, open)
	}
}

// give tells the output of the calls that pass and that it does not know.
func (f *filtered) give(t *Thread, open []filteredCall) {
	for i := range open {
		if o := &open[i]; o.passes && !o.given {
			o.given = true
			f.Output.Enter(t, &o.Call)
		}
	}
}

func (f *filtered) Leave(t *Thread, c *Call) {
	open := f.open[t][:c.Depth+1]
	f.open[t] = open[:c.Depth]
	n := &open[c.Depth]
	n.End, n.Cut = c.End, c.Cut
	if !n.passes || !n.given && (n.Cut || n.End-n.Start < f.f.MinTime) {
		return
	}
	f.give(t, open)
	for i := c.Depth - 1; i >= 0; i-- {
		if open[i].passes {
			open[i].inner += n.End - n.Start
			break
		}
	}
	f.Output.Leave(t, &n.Call)
}
