package profile

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"footfall/demangle"
)

// printCallgrind writes Valgrind's format, for callgrind_annotate and
// KCachegrind: the lines of each function with their own costs, then its calls.
//
//	ob=prog                the program or library
//	fl=(1) work.c          the file, with a number for later
//	fn=(1) work            the function
//	12 250000000 0         line, own time in nanoseconds, calls
//	cob=libx.so.1          that of the callee, if it is another one
//	cfl=(1)
//	cfn=(2) helper
//	calls=3600 40          number of calls, line of the callee
//	14 1000000000          line of the call, time of the calls
func printCallgrind(w io.Writer, r *View) error {
	c := &callgrind{w: w, files: make(map[string]int), functions: make(map[*Node]int)}
	g := r.Graph
	c.printf("# callgrind format\nversion: 1\ncreator: footfall\n")
	if r.Title != "" {
		c.printf("cmd: %s\n", strings.ReplaceAll(r.Title, "\n", " "))
	}
	c.printf("positions: line\nevents: %s Calls\n", r.Profile.eventName())
	calls := int64(0)
	for _, n := range g.Nodes {
		calls += n.Calls
	}
	c.printf("summary: %d %d\n", g.Total, calls)
	lines := selfLines(r)
	for _, n := range g.Nodes {
		if n.Calls == 0 && n.Self == 0 && n.Total == 0 {
			continue
		}
		c.printf("\nob=%s\nfl=%s\nfn=%s\n", object(n), c.file(n), c.function(n))
		// Calls are a cost of the function's first line.
		c.printf("%d 0 %d\n", n.Func.StartLine, n.Calls)
		for _, l := range lines[n.Func.ID] {
			c.printf("%d %d\n", l.line, l.ns)
		}
		for _, e := range n.Out {
			if e.Callee == n && g.Sampled && e.Calls == 0 {
				continue // a recursive call's time is in the function's own
			}
			callee := e.Callee
			if callee.Image != n.Image {
				c.printf("cob=%s\n", object(callee))
			}
			c.printf("cfl=%s\ncfn=%s\ncalls=%d %d\n%d %d %d\n", c.file(callee), c.function(callee), max(e.Calls, 1), callee.Func.StartLine, n.Func.StartLine, e.CPU, e.Calls)
		}
	}
	return c.err
}

type callgrind struct {
	w         io.Writer
	err       error
	files     map[string]int
	functions map[*Node]int
}

func (c *callgrind) printf(format string, args ...any) {
	if c.err == nil {
		_, c.err = fmt.Fprintf(c.w, format, args...)
	}
}

// notKnown is what callgrind writes for a file that is not known. A name that is left out
// would be that of the function before.
const notKnown = "???"

func object(n *Node) string { return cmp.Or(n.Image, notKnown) }

func (c *callgrind) file(n *Node) string {
	name := cmp.Or(n.Func.Filename, notKnown)
	if i := c.files[name]; i > 0 {
		return fmt.Sprintf("(%d)", i)
	}
	c.files[name] = len(c.files) + 1
	return fmt.Sprintf("(%d) %s", len(c.files), name)
}

func (c *callgrind) function(n *Node) string {
	if i := c.functions[n]; i > 0 {
		return fmt.Sprintf("(%d)", i)
	}
	c.functions[n] = len(c.functions) + 1
	return fmt.Sprintf("(%d) %s", len(c.functions), c.name(n))
}

// name has the arguments where several functions have one name: readers take those
// for one.
func (c *callgrind) name(n *Node) string {
	if n.overloaded {
		return demangle.Full(n.Func.SystemName)
	}
	return n.Func.Name
}

type lineTime struct{ line, ns int64 }

// selfLines returns the own times of the lines of each function, by its ID.
func selfLines(r *View) map[uint64][]lineTime {
	lines := make(map[uint64][]lineTime)
	at := make(map[[2]uint64]int)
	for _, s := range r.Profile.Sample {
		ns := s.Value[cpuIndex]
		if ns == 0 || len(s.Location) == 0 || len(s.Location[0].Line) == 0 {
			continue
		}
		l := s.Location[0].Line[0]
		key := [2]uint64{l.Function.ID, uint64(l.Line)}
		i, ok := at[key]
		if !ok {
			i = len(lines[key[0]])
			at[key] = i
			lines[key[0]] = append(lines[key[0]], lineTime{line: l.Line})
		}
		lines[key[0]][i].ns += ns
	}
	return lines
}
