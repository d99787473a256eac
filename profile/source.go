package profile

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"

	pprof "github.com/google/pprof/profile"
)

// A fileLines is what the lines of a source cost.
type fileLines struct {
	name  string
	self  int64
	calls int64 // of its functions
	lines map[int64]*lineCost
}

type lineCost struct {
	self, total int64 // nanoseconds
	calls       int64 // made by the line
	entered     int64 // calls of the function that begins there
}

// lineCosts adds up the lines of the functions that are shown, by file or whatever
// key makes of a function.
func lineCosts[K comparable](r *View, key func(*pprof.Function) K) map[K]map[int64]*lineCost {
	type place struct {
		key  K
		line int64
	}
	costs := make(map[K]map[int64]*lineCost)
	cost := func(at place) *lineCost {
		lines := costs[at.key]
		if lines == nil {
			lines = make(map[int64]*lineCost)
			costs[at.key] = lines
		}
		if lines[at.line] == nil {
			lines[at.line] = &lineCost{}
		}
		return lines[at.line]
	}
	seen := make(map[place]bool)
	for _, s := range r.Profile.Sample {
		clear(seen)
		calls, cpu := s.Value[callsIndex], s.Value[cpuIndex]
		leaf := true
		for i, l := range s.Location {
			for _, line := range l.Line {
				f, innermost := line.Function, leaf
				leaf = false
				if r.Match != nil && !r.Match(f.Name) {
					continue
				}
				at := place{key(f), line.Line}
				if innermost && calls != 0 && f.StartLine > 0 {
					cost(place{at.key, f.StartLine}).entered += calls
				}
				if line.Line == 0 {
					continue
				}
				if innermost && cpu != 0 {
					cost(at).self += cpu
				}
				if seen[at] {
					continue
				}
				seen[at] = true
				if cpu != 0 {
					cost(at).total += cpu
				}
				if calls != 0 && i == 1 {
					cost(at).calls += calls
				}
			}
		}
	}
	return costs
}

// files returns the sources of the functions that are shown, the most costly first.
func (r *View) files() []*fileLines {
	var files []*fileLines
	for name, lines := range lineCosts(r, func(f *pprof.Function) string { return f.Filename }) {
		f := &fileLines{name: name, lines: lines}
		for _, c := range lines {
			f.self += c.self
			f.calls += c.entered
		}
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b *fileLines) int {
		return cmp.Or(cmp.Compare(max(b.self, -b.self), max(a.self, -a.self)), cmp.Compare(max(b.calls, -b.calls), max(a.calls, -a.calls)),
			cmp.Compare(a.name, b.name))
	})
	return files
}

// around is how many lines are shown before and after one that costs.
const around = 3

// printSource writes the sources with what each line costs: its own time, that
// with what it calls, and calls.
func printSource(w io.Writer, r *View) error {
	files := r.files()
	lines := func(n *Node) bool { return n.Func.StartLine > 0 }
	if len(files) == 0 && !(r.Before != nil && slices.ContainsFunc(r.Graph.Nodes, lines)) {
		return fmt.Errorf("no lines to show: the program has no debug information; compile with -g")
	}
	if r.Before != nil {
		if files = slices.DeleteFunc(files, func(f *fileLines) bool { return !f.changed() }); len(files) == 0 {
			_, err := fmt.Fprintln(w, "no difference")
			return err
		}
		fmt.Fprintln(w, "What each line does more (+) or less (-) than before; lines are compared by their numbers.")
	} else {
		fmt.Fprintf(w, "%s\n", r.summary())
	}
	var unread []*fileLines
	for _, f := range files {
		text, err := r.text(f)
		if err != nil && r.Before == nil && r.Graph.CPU && f.self*100 < r.Graph.Total {
			unread = append(unread, f)
			continue
		}
		if err := r.printFile(w, f, text, err); err != nil {
			return err
		}
	}
	return r.printUnread(w, unread)
}

// printUnread names sources that are not here and cost little, such as those of
// the C library.
func (r *View) printUnread(w io.Writer, files []*fileLines) error {
	if len(files) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\nfurther sources cannot be read; --path-map OLD=NEW tells where they are:\n")
	t := &textTable{}
	t.head("self")
	if r.Graph.Calls {
		t.head("entered")
	}
	t.left("")
	for _, f := range files {
		t.cells(r.time(f.self))
		if r.Graph.Calls {
			t.cells(callCount(f.calls))
		}
		t.cells(f.name)
		t.end()
	}
	return t.write(w, nil)
}

// changed forgets the lines of a difference that cost the same, and tells whether
// there are others.
func (f *fileLines) changed() bool {
	for n, c := range f.lines {
		if *c == (lineCost{}) {
			delete(f.lines, n)
		}
	}
	return len(f.lines) > 0
}

func (r *View) printFile(w io.Writer, f *fileLines, text []string, err error) error {
	fmt.Fprintf(w, "\n%s\n", r.shown(f.name))
	if err != nil {
		fmt.Fprintf(w, "  the source cannot be read: %v\n", err)
	}
	t := &textTable{}
	cpu, calls := r.Graph.CPU, r.Graph.Calls
	if r.Before != nil {
		cpu, calls = cpu || r.Before.CPU, calls || r.Before.Calls
	}
	if cpu {
		t.head("self", "total")
	}
	if calls {
		t.head("entered", "calls")
	}
	t.head("line")
	t.left("")
	var at []int64
	for _, n := range f.shownLines(err != nil) {
		if n > int64(len(text)) && err == nil && f.lines[n] == nil {
			continue
		}
		if len(at) > 0 && n != at[len(at)-1]+1 {
			for range len(t.titles) - 2 {
				t.cells("")
			}
			t.cells("...", "")
			t.end()
			at = append(at, 0)
		}
		c := cmp.Or(f.lines[n], &lineCost{})
		if cpu {
			t.cells(r.lineSeconds(c.self), r.lineSeconds(c.total))
		}
		if calls {
			t.cells(r.lineCalls(c.entered), r.lineCalls(c.calls))
		}
		t.cells(fmt.Sprint(n))
		if n <= int64(len(text)) {
			t.cells(text[n-1])
		} else {
			t.cells("")
		}
		t.end()
		at = append(at, n)
	}
	return t.write(w, func(i int) string {
		c := f.lines[at[i]]
		switch {
		case !r.Color || c == nil || r.Graph.Total == 0:
			return ""
		case r.Before != nil:
			return changeColor(c.self)
		case c.self*10 >= r.Graph.Total:
			return "\x1b[31m"
		case c.self*100 >= r.Graph.Total:
			return "\x1b[33m"
		}
		return ""
	})
}

func (r *View) lineSeconds(ns int64) string {
	switch {
	case ns == 0:
		return ""
	case r.Before != nil:
		return r.change(ns)
	}
	return r.time(ns)
}

func (r *View) lineCalls(n int64) string {
	if r.Before != nil && n != 0 {
		return fmt.Sprintf("%+d", n)
	}
	return callCount(n)
}

// shownLines returns the numbers of the lines to show.
func (f *fileLines) shownLines(only bool) []int64 {
	var all []int64
	for n := range f.lines {
		from, to := n-around, n+around
		if only {
			from, to = n, n
		}
		for m := max(from, 1); m <= to; m++ {
			all = append(all, m)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// text reads the lines of the source, as far as they are needed.
func (r *View) text(f *fileLines) ([]string, error) {
	if r.Open == nil {
		return nil, fmt.Errorf("%s: not looked for", f.name)
	}
	file, err := r.Open(f.name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	last := int64(around)
	for n := range f.lines {
		last = max(last, n+around)
	}
	var lines []string
	s := bufio.NewScanner(file)
	s.Buffer(nil, 1<<20)
	for int64(len(lines)) < last && s.Scan() {
		lines = append(lines, s.Text())
	}
	return lines, s.Err()
}
