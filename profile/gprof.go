package profile

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	pprof "github.com/google/pprof/profile"

	"footfall/demangle"
)

// printGprof writes the flat profile and the call graph as "gprof -b -p -q"
// does. Both are estimates where callers cost different times: see estimate.
func printGprof(w io.Writer, r *View) error {
	if r.Profile.counts() {
		return fmt.Errorf("output gprof shows seconds, and this is %s", r.Profile.measured())
	}
	g := &gprofPrinter{w: w, graph: r.Graph, symbols: r.Profile.symbols, hz: 1e9 / r.Graph.tick}
	for _, n := range g.graph.Nodes {
		if n.est.cycle == nil { // the profile has no counts
			g.graph.estimate()
			break
		}
	}
	g.total = g.graph.estimated
	counting := 0.0
	for _, n := range g.graph.Nodes {
		g.ticks += n.est.hist
		if countsCalls(n) {
			counting += float64(n.Self) / g.graph.tick
		}
	}
	g.granularity = 1
	for _, c := range r.Profile.Comments {
		var bytes, ticks int64
		if n, _ := fmt.Sscanf(c, histogramComment, &bytes, &ticks); n == 2 {
			g.granularity, g.ticks, g.hz = bytes, float64(ticks)-counting, math.Round(g.hz)
		}
	}
	g.flat()
	g.number()
	g.callGraph()
	g.index()
	return g.err
}

// countsCalls tells whether the function does the counting, in programs that
// are linked statically. gprof leaves its time out.
func countsCalls(n *Node) bool {
	switch n.Func.SystemName {
	case "mcount", "_mcount", "__mcount", "__mcount_internal", "__mcleanup", "_gprof_mcount":
		return true
	}
	return false
}

type gprofPrinter struct {
	w           io.Writer
	err         error
	graph       *Graph
	symbols     *gprofSymbols // nil: not of a gmon.out
	hz          float64       // ticks in a second
	total       float64       // ticks, of what is in the graph
	ticks       float64       // also those of bins that are of no function
	granularity int64         // bytes of code to a bin
	entries     []gprofEntry  // of the call graph, in its order
	numbers     map[any]int   // of *Node and *cycle there
}

// A gprofEntry is a function, or a cycle of several.
type gprofEntry struct {
	node  *Node
	cycle *cycle
}

func (g *gprofPrinter) printf(format string, args ...any) {
	if g.err == nil {
		_, g.err = fmt.Fprintf(g.w, format, args...)
	}
}

// linkerName is the name by which gprof sorts.
func (g *gprofPrinter) linkerName(n *Node) string {
	if f := g.symbols.of(n); f != nil {
		return f.Name
	}
	return cmp.Or(n.Func.SystemName, n.Func.Name)
}

// compareNames puts functions in the order of gprof: by name, those of one name by address.
func (g *gprofPrinter) compareNames(a, b *Node) int {
	return cmp.Or(strings.Compare(g.linkerName(a), g.linkerName(b)), cmp.Compare(g.addr(a), g.addr(b)))
}

func (g *gprofPrinter) addr(n *Node) uint64 {
	if f := g.symbols.of(n); f != nil {
		return f.Addr
	}
	return n.addr
}

func (g *gprofPrinter) name(n *Node) string {
	const libiberty = 13 // the GCC whose demangler binutils 2.40 has
	return demangle.GNU(g.linkerName(n), libiberty)
}

func (g *gprofPrinter) percent(ticks float64) float64 {
	if g.total <= 0 {
		return 0
	}
	return 100 * ticks / g.total
}

// gprofUnits are units for the time of a call. gprof takes the largest in which
// the longest has a digit before the point.
var gprofUnits = []struct {
	prefix string
	scale  float64
}{{"T", 1e-12}, {"G", 1e-9}, {"M", 1e-6}, {"K", 1e-3}, {" ", 1}, {"m", 1e3}, {"u", 1e6}, {"n", 1e9}, {"p", 1e12}, {"f", 1e15}, {"a", 1e18}}

func (g *gprofPrinter) flat() {
	var nodes []*Node
	top := 0.0
	for _, n := range g.graph.Nodes {
		if n.est.external == 0 && n.est.hist == 0 {
			continue
		}
		nodes = append(nodes, n)
		if n.est.external > 0 {
			top = max(top, (n.est.hist+n.est.below)/float64(n.est.external))
		}
	}
	slices.SortStableFunc(nodes, func(a, b *Node) int {
		return cmp.Or(cmp.Compare(b.est.hist, a.est.hist), cmp.Compare(b.est.external, a.est.external), g.compareNames(a, b))
	})
	unit := gprofUnits[0]
	if top > 0 {
		for _, unit = range gprofUnits {
			if unit.scale*(top/g.hz) >= 1 {
				break
			}
		}
	}
	g.printf("Flat profile:\n\nEach sample counts as %g seconds.\n", 1/g.hz)
	if g.ticks <= 0 {
		g.printf(" no time accumulated\n\n")
		g.ticks = 1
	}
	per := unit.prefix + "s/call"
	g.printf("%5.5s %10.10s %8.8s %8.8s %8.8s %8.8s  %-8.8s\n", "%  ", "cumulative", "self  ", "", "self  ", "total ", "")
	g.printf("%5.5s %9.9s %9.9s %8.8s %8.8s %8.8s  %-8.8s\n", "time", "seconds", "seconds", "calls", per, per, "name")
	sum := 0.0
	for _, n := range nodes {
		self := n.est.hist
		sum += self
		g.printf("%6.2f %9.2f %8.2f", 100*self/g.ticks, sum/g.hz, self/g.hz)
		if calls := float64(n.est.external); calls > 0 {
			g.printf(" %8d %8.2f %8.2f  ", n.est.external, unit.scale*self/g.hz/calls, unit.scale*(self+n.est.below)/g.hz/calls)
		} else {
			g.printf(" %8.8s %8.8s %8.8s  ", "", "", "")
		}
		g.printf("%s\n", g.name(n))
	}
	g.printf("\f\n")
}

// number puts the entries of the call graph in order: most time first. Functions that did
// not run have numbers, too.
func (g *gprofPrinter) number() {
	g.numbers = make(map[any]int)
	seen := make(map[*cycle]bool)
	known := make(map[uint64]bool)
	for _, n := range g.graph.Nodes {
		g.entries = append(g.entries, gprofEntry{node: n})
		if c := n.est.cycle; c.number > 0 && !seen[c] {
			seen[c] = true
			g.entries = append(g.entries, gprofEntry{cycle: c})
		}
		if f := g.symbols.of(n); f != nil {
			known[f.Addr] = true
		}
	}
	if g.symbols != nil {
		for _, f := range g.symbols.functions {
			if !known[f.Addr] {
				g.entries = append(g.entries, gprofEntry{node: &Node{Func: &pprof.Function{SystemName: f.Name}, est: estimate{cycle: &cycle{}}}})
			}
		}
	}
	slices.SortStableFunc(g.entries, func(a, b gprofEntry) int {
		if c := cmp.Compare(b.cost(), a.cost()); c != 0 {
			return c
		}
		if a.node == nil || b.node == nil {
			return cmp.Compare(boolean(a.node != nil), boolean(b.node != nil))
		}
		x, y := g.linkerName(a.node), g.linkerName(b.node)
		return cmp.Or(
			cmp.Compare(boolean(strings.HasPrefix(x, "_")), boolean(strings.HasPrefix(y, "_"))),
			cmp.Compare(b.node.est.external, a.node.est.external),
			g.compareNames(a.node, b.node))
	})
	for i, e := range g.entries {
		if e.node != nil {
			g.numbers[e.node] = i + 1
		} else {
			g.numbers[e.cycle] = i + 1
		}
	}
}

func (e gprofEntry) cost() float64 {
	if e.node != nil {
		return e.node.est.self + e.node.est.children
	}
	return e.cycle.self + e.cycle.children
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (g *gprofPrinter) callGraph() {
	g.printf("\t\t\tCall graph\n\n\ngranularity: each sample hit covers %d byte(s)", g.granularity)
	if g.total > 0 {
		g.printf(" for %.2f%% of %.2f seconds\n\n", 100/g.total, g.total/g.hz)
	} else {
		g.printf(" no time propagated\n\n")
	}
	g.printf("index %% time    self  children    called     name\n")
	for i, e := range g.entries {
		switch n := e.node; {
		case n == nil:
			g.wholeCycle(e.cycle, i+1)
		case n.Calls == 0 && n.est.self == 0 && n.est.children == 0:
			continue
		default:
			g.callers(n)
			g.function(n, i+1)
			g.callees(n)
		}
		g.printf("-----------------------------------------------\n")
	}
	g.printf("\f\n")
}

const (
	gprofBlank = "%6.6s %5.5s %7.7s %7.7s %7d %7.7s     %s\n"
	gprofShare = "%6.6s %5.5s %7.2f %7.2f %7d/%-7d     %s\n"
)

// reference names a function and its entry.
func (g *gprofPrinter) reference(n *Node) string {
	s := g.name(n)
	if c := n.est.cycle; c.number > 0 {
		s += fmt.Sprintf(" <cycle %d>", c.number)
	}
	if i := g.numbers[n]; i > 0 {
		return fmt.Sprintf("%s [%d]", s, i)
	}
	return s
}

// arc writes a line of a caller or a callee, other.
func (g *gprofPrinter) arc(e *Edge, other *Node) {
	callee := e.Callee.est.cycle
	switch {
	case e.Caller.est.cycle == callee: // its cost is that of the cycle
		g.printf(gprofBlank, "", "", "", "", e.Calls, "", g.reference(other))
	default:
		g.printf(gprofShare, "", "", e.est.self/g.hz, e.est.children/g.hz, e.Calls, callee.external, g.reference(other))
	}
}

func (g *gprofPrinter) callers(n *Node) {
	in := slices.Clone(n.est.in)
	if len(in) == 0 { // called by code that does not count
		g.printf("%6.6s %5.5s %7.7s %7.7s %7.7s %7.7s     <spontaneous>\n", "", "", "", "", "", "")
		return
	}
	slices.SortFunc(in, func(a, b *Edge) int { return cmp.Or(gprofOrder(a, b), cmp.Compare(a.order, b.order)) })
	for _, e := range in {
		g.arc(e, e.Caller)
	}
}

func (g *gprofPrinter) callees(n *Node) {
	out := slices.Clone(n.est.out)
	slices.SortFunc(out, func(a, b *Edge) int { return cmp.Or(gprofOrder(b, a), cmp.Compare(a.order, b.order)) })
	for _, e := range out {
		g.arc(e, e.Callee)
	}
}

// gprofOrder puts calls of a function by itself first, then those within a
// cycle, then others, the cheaper first.
func gprofOrder(a, b *Edge) int {
	kind := func(e *Edge) int {
		switch {
		case e.Caller == e.Callee:
			return 0
		case e.Caller.est.cycle == e.Callee.est.cycle:
			return 1
		}
		return 2
	}
	cost := func(e *Edge) float64 { return e.est.self + e.est.children }
	return cmp.Or(cmp.Compare(kind(a), kind(b)), cmp.Compare(cost(a), cost(b)), cmp.Compare(a.Calls, b.Calls))
}

func (g *gprofPrinter) function(n *Node, i int) {
	g.printf("%-6.6s %5.1f %7.2f %7.2f", fmt.Sprintf("[%d]", i), g.percent(n.est.self+n.est.children),
		n.est.self/g.hz, n.est.children/g.hz)
	switch {
	case n.Calls == 0:
		g.printf(" %7.7s %7.7s", "", "")
	case n.recursive != 0:
		g.printf(" %7d+%-7d", n.est.external, n.recursive)
	default:
		g.printf(" %7d %7.7s", n.est.external, "")
	}
	g.printf(" %s\n", g.reference(n))
}

func (g *gprofPrinter) wholeCycle(c *cycle, i int) {
	g.printf("%-6.6s %5.1f %7.2f %7.2f %7d", fmt.Sprintf("[%d]", i), g.percent(c.self+c.children), c.self/g.hz, c.children/g.hz, c.external)
	g.printf("+%-7d <cycle %d as a whole> [%d]\n", c.internal, c.number, i)
	members := slices.Clone(c.members)
	slices.SortStableFunc(members, func(a, b *Node) int {
		return cmp.Or(cmp.Compare(b.est.self+b.est.children, a.est.self+a.est.children), cmp.Compare(b.Calls, a.Calls))
	})
	for _, n := range members {
		g.printf("%6.6s %5.5s %7.2f %7.2f %7d", "", "", n.est.self/g.hz, n.est.children/g.hz, n.est.external)
		if n.recursive != 0 {
			g.printf("+%-7d", n.recursive)
		} else {
			g.printf(" %7.7s", "")
		}
		g.printf("     %s\n", g.reference(n))
	}
}

// file is what gprof's index has behind a static function whose source is known. Of
// profiles that are not of a gmon.out only those have one that share a name.
func (g *gprofPrinter) file(n *Node, same map[string]int) string {
	if g.symbols == nil {
		if same[g.linkerName(n)] > 1 {
			return n.Func.Filename
		}
		return ""
	}
	if f := g.symbols.of(n); f != nil {
		return g.symbols.files[f.Addr]
	}
	return ""
}

// index writes the names in alphabetical order, in three columns. Those that are too long
// push what follows to the right.
func (g *gprofPrinter) index() {
	same := make(map[string]int)
	for _, n := range g.graph.Nodes {
		same[g.linkerName(n)]++
	}
	type name struct {
		number, text string
		node         *Node
		cycle        *cycle
	}
	var names, cycles []name
	for i, e := range g.entries {
		number := fmt.Sprintf("[%d]", i+1)
		if e.node == nil {
			cycles = append(cycles, name{number, fmt.Sprintf("<cycle %d>", e.cycle.number), nil, e.cycle})
			continue
		}
		if e.node.est.external == 0 && e.node.est.hist == 0 {
			continue
		}
		text := g.name(e.node)
		if file := g.file(e.node, same); file != "" {
			text += " (" + baseName(file) + ")"
		}
		names = append(names, name{number, text, e.node, nil})
	}
	slices.SortStableFunc(names, func(a, b name) int { return g.compareNames(a.node, b.node) })
	slices.SortStableFunc(cycles, func(a, b name) int { return cmp.Compare(a.cycle.number, b.cycle.number) })
	names = append(names, cycles...)
	g.printf("Index by function name\n\n")
	const columns, width, before = 3, 26, 5
	rows := (len(names) + columns - 1) / columns
	for i := range rows {
		at, column := 0, 0
		for j := i; j < len(names); j += rows {
			n := names[j]
			at += len(n.number)
			pad := max(0, column+before-at)
			g.printf("%*s %s %s", pad, "", n.number, n.text)
			at += pad + len(n.text)
			column += width
		}
		g.printf("\n")
	}
}
