package profile

import (
	"bufio"
	"io"

	pprof "github.com/google/pprof/profile"
)

// PrintChains writes the page of output html for a profile of whole chains whose
// last value is "calls", or "wall" in nanoseconds, with "calls" before it.
// inverted puts the innermost function at the root of the flame graph, and its
// callers on it.
func PrintChains(w io.Writer, title string, inverted bool, p *pprof.Profile) error {
	last := len(p.SampleType) - 1
	own := p.Copy()
	for _, s := range own.Sample {
		v := []int64{0, s.Value[last]} // it is shown as time is
		if last > 0 {
			v[callsIndex] = s.Value[0]
		}
		s.Value = v
	}
	pr := &Profile{Profile: own}
	r := &View{Profile: pr, Graph: NewGraph(pr), Title: title, measure: p.SampleType[last].Type, inverted: inverted}
	r.Graph.Sampled = true // if all chains are of one function, too
	b := bufio.NewWriter(w)
	if err := printHTML(b, r); err != nil {
		return err
	}
	return b.Flush()
}
