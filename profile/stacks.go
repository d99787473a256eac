package profile

import (
	"errors"

	pprof "github.com/google/pprof/profile"
)

// A stack is a chain of functions with the time spent in its last one.
type stack struct {
	functions []*pprof.Function // the outermost first
	lines     []int64
	thread    string
	cpu       int64
}

// errNoStacks is returned for an output that shows chains of calls, of which
// exact counts know nothing.
var errNoStacks = errors.New("there are no sampled stacks to show: counts of calls are no chains of calls, and a gmon.out has neither; sample with 'footfall profile -- PROGRAM' or --pid")

// stacks returns the samples of time.
func (r *View) stacks() ([]stack, error) {
	var all []stack
	for _, s := range r.Profile.Sample {
		cpu := s.Value[cpuIndex]
		if cpu == 0 {
			continue
		}
		st := stack{cpu: cpu}
		if t := s.Label["thread"]; len(t) > 0 {
			st.thread = t[0]
		}
		for i := len(s.Location) - 1; i >= 0; i-- {
			lines := s.Location[i].Line
			for j := len(lines) - 1; j >= 0; j-- {
				st.functions = append(st.functions, lines[j].Function)
				st.lines = append(st.lines, lines[j].Line)
			}
		}
		if len(st.functions) > 0 {
			all = append(all, st)
		}
	}
	if !r.Graph.Sampled {
		return nil, errNoStacks
	}
	return all, nil
}
