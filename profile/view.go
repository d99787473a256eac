package profile

import (
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"footfall/output"
)

// A View is a profile, and how to show it.
type View struct {
	Profile *Profile
	Graph   *Graph
	// Before is what the graph is compared with; nil: nothing.
	Before *Graph
	// Title says what was profiled.
	Title string
	// Match tells which functions are shown; nil: all.
	Match func(name string) bool
	// Top is the number of functions that text shows at most, 0 for all.
	Top int
	// Open opens a source file by the name that the compiler recorded.
	Open func(name string) (io.ReadCloser, error)
	// Shown is the name to show for a source.
	Shown func(name string) string
	// Color tells to colour text.
	Color bool

	measure  string // what stands for CPU time: PrintChains
	inverted bool
}

// ranked returns the functions to show, the most costly first, and how many
// were left out for being too many.
func (r *View) ranked() (nodes []*Node, more int) {
	nodes = r.Graph.Ranked()
	if r.Match != nil {
		nodes = slices.DeleteFunc(nodes, func(n *Node) bool { return !r.Match(n.Func.Name) })
	}
	if r.Top > 0 && len(nodes) > r.Top {
		more = len(nodes) - r.Top
		nodes = nodes[:r.Top]
	}
	return nodes, more
}

// place is where the function is: its source and line, else its unit, else the
// file that it is in.
func (r *View) place(n *Node) string {
	switch {
	case n.Func.Filename == "" || n.Func.Filename == n.Func.Name:
		return n.Image
	case n.Func.StartLine > 0:
		return fmt.Sprintf("%s:%d", r.shown(n.Func.Filename), n.Func.StartLine)
	}
	return r.shown(n.Func.Filename)
}

func (r *View) shown(name string) string {
	if r.Shown == nil {
		return name
	}
	return r.Shown(name)
}

func baseName(file string) string { return path.Base(file) }

// summary says in a line what the profile has.
func (r *View) summary() string {
	var parts []string
	if r.Graph.CPU {
		s := r.Profile.measureName() + " " + r.time(r.Graph.Total)
		if n := r.samples(); n > 0 {
			s += fmt.Sprintf(" in %s", output.Plural(int(n), "sample"))
		}
		parts = append(parts, s)
	}
	if r.Graph.Calls {
		calls := int64(0)
		for _, n := range r.Graph.Nodes {
			calls += n.Calls
		}
		parts = append(parts, output.Plural(int(calls), "call"))
	}
	return strings.Join(parts, ", ")
}

// samples is how many samples there were, 0 if that is not known.
func (r *View) samples() int64 {
	switch p := r.Profile.Period; {
	case r.Profile.samples > 0:
		return r.Profile.samples
	case p > 0:
		return (r.Graph.Total + p/2) / p
	}
	return 0
}

// brief is the most time of a profile that is shown in milliseconds.
const brief = 100_000_000

// time shows what was measured, all of a profile in one unit.
func (r *View) time(ns int64) string {
	if r.Profile.counts() {
		return r.amount(ns)
	}
	if r.Graph.Total < brief {
		return fmt.Sprintf("%.3fms", float64(ns)/1e6)
	}
	return seconds(ns)
}

// seconds shows nanoseconds.
func seconds(ns int64) string { return fmt.Sprintf("%.3fs", float64(ns)/1e9) }

func percent(part, whole int64) string {
	if part > whole {
		return "" // of an estimate, where functions call each other in circles
	}
	return fmt.Sprintf("%.1f%%", 100*float64(part)/float64(cmp.Or(whole, 1)))
}
