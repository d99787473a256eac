package profile

import (
	"cmp"
	"fmt"
	"footfall/output"
	"io"
	"slices"
	"strings"

	pprof "github.com/google/pprof/profile"
)

// NewDiff compares two profiles of the same measure. The report's own one is their
// difference.
func NewDiff(before, after *Profile) (*View, error) {
	if err := alike([]*Profile{before, after}); err != nil {
		return nil, err
	}
	r := &View{Graph: NewGraph(after), Before: NewGraph(before)}
	minus := before.Copy()
	minus.Scale(-1)
	p, err := pprof.Merge([]*pprof.Profile{after.Profile, minus})
	if err != nil {
		return nil, err
	}
	r.Profile = &Profile{Profile: p, Notes: append(slices.Clone(before.Notes), after.Notes...)}
	return r, nil
}

// A change is a function in both profiles, or in one.
type change struct {
	before, after *Node // never both nil
}

func (c change) node() *Node { return cmp.Or(c.after, c.before) }

func (c change) values(value func(*Node) int64) (before, after int64) {
	if c.before != nil {
		before = value(c.before)
	}
	if c.after != nil {
		after = value(c.after)
	}
	return before, after
}

// changes pairs the functions, by name and source, those in files of one name first: builds
// may have several. The largest change comes first.
func (r *View) changes() []change {
	type key struct{ symbol, file, image string }
	var all []change
	shown := func(g *Graph) []*Node {
		return slices.DeleteFunc(g.Ranked(), func(n *Node) bool { return r.Match != nil && !r.Match(n.Func.Name) })
	}
	for _, n := range shown(r.Before) {
		all = append(all, change{before: n})
	}
	after := shown(r.Graph)
	for _, sameImage := range []bool{true, false} {
		keyOf := func(n *Node) key {
			k := key{cmp.Or(n.Func.SystemName, n.Func.Name), n.Func.Filename, ""}
			if sameImage {
				k.image = n.Image
			}
			return k
		}
		at := make(map[key]int)
		for i, c := range all {
			if c.after == nil {
				at[keyOf(c.before)] = i
			}
		}
		after = slices.DeleteFunc(after, func(n *Node) bool {
			i, ok := at[keyOf(n)]
			if ok && all[i].after == nil {
				all[i].after = n
				return true
			}
			return false
		})
	}
	for _, n := range after {
		all = append(all, change{after: n})
	}
	size := func(c change, value func(*Node) int64) int64 {
		a, b := c.values(value)
		return max(a-b, b-a)
	}
	slices.SortStableFunc(all, func(a, b change) int {
		return cmp.Or(cmp.Compare(size(b, selfOf), size(a, selfOf)), cmp.Compare(size(b, callsOf), size(a, callsOf)),
			strings.Compare(a.node().Func.Name, b.node().Func.Name))
	})
	return slices.DeleteFunc(all, func(c change) bool {
		return size(c, selfOf) == 0 && size(c, callsOf) == 0
	})
}

func selfOf(n *Node) int64  { return n.Self }
func callsOf(n *Node) int64 { return n.Calls }

// printDiff writes a table of what changed.
func printDiff(w io.Writer, r *View) error {
	all := r.changes()
	more := 0
	if r.Top > 0 && len(all) > r.Top {
		more = len(all) - r.Top
		all = all[:r.Top]
	}
	cpu, calls := r.Graph.CPU || r.Before.CPU, r.Graph.Calls || r.Before.Calls
	if cpu {
		fmt.Fprintf(w, "%s %s → %s, %s\n", r.Profile.measureName(), r.amount(r.Before.Total), r.amount(r.Graph.Total), r.change(r.Graph.Total-r.Before.Total))
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no difference")
		return err
	}
	t := &textTable{}
	if cpu {
		t.head("self", "before", "after")
	}
	if calls {
		t.head("calls", "before", "after")
	}
	t.left("function", "")
	for _, c := range all {
		if cpu {
			a, b := c.values(selfOf)
			t.cells(r.change(b-a), r.amount(a), r.amount(b))
		}
		if calls {
			a, b := c.values(callsOf)
			if a == 0 && b == 0 {
				t.cells("", "", "") // nobody counted
			} else {
				t.cells(fmt.Sprintf("%+d", b-a), fmt.Sprint(a), fmt.Sprint(b))
			}
		}
		t.cells(c.node().shortName(), r.place(c.node()))
		t.end()
	}
	fmt.Fprintln(w)
	if err := t.write(w, func(i int) string {
		a, b := all[i].values(selfOf)
		if !r.Color {
			return ""
		}
		return changeColor(b - a)
	}); err != nil {
		return err
	}
	if more > 0 {
		fmt.Fprintf(w, "%s more; --top 0 shows all\n", output.Plural(more, "function"))
	}
	return nil
}

// changeColor is red for more, and green for less.
func changeColor(d int64) string {
	switch {
	case d > 0:
		return "\x1b[31m"
	case d < 0:
		return "\x1b[32m"
	}
	return ""
}
