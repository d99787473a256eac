//go:build linux

package command

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"footfall/collect"
	"footfall/live"
	"footfall/output"
	"footfall/process"
)

// A listed is a process of --list.
type listed struct {
	pid  int // 0: the kernel
	name string
	process.About
	live.Inventory
	offer *collect.RanOffer // nil: it is not asked for
}

// listFormats are the outputs of --list.
var listFormats = []output.Format{{Name: "text"}, {Name: "json"}}

// listLive lists the processes that have counters; with targets theirs, and what they offer besides.
func listLive(stdout, stderr io.Writer, targets, outputs []string, verbose bool) error {
	requests, err := output.Parse(outputs, listFormats, output.Stdout{W: stdout})
	if err != nil {
		return err
	}
	find := process.List
	if len(targets) > 0 {
		find = func() ([]int, error) { return findAll(targets) }
	}
	pids, err := find()
	if err != nil {
		return err
	}
	list, err := findCounted(stderr, pids, len(targets) > 0, verbose)
	if err != nil {
		return err
	}
	for _, r := range requests {
		write := func(w io.Writer) error { return printList(w, list, verbose) }
		if r.Format == "json" {
			write = func(w io.Writer) error { return listJSON(w, list) }
		}
		if r.OnStdout() {
			err = write(stdout)
		} else {
			err = output.Write(r.File, write)
		}
		if err != nil {
			return err
		}
	}
	sayListed(stderr, list)
	return nil
}

// findAll returns the processes of targets.
func findAll(targets []string) (pids []int, err error) {
	for _, t := range targets {
		s, err := process.ParseSelector(t)
		if err != nil {
			return nil, err
		}
		found, err := s.Find()
		if err != nil {
			return nil, err
		}
		pids = append(pids, found...)
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

// findCounted returns those of processes that have counters; with offers all, and what they offer besides.
func findCounted(stderr io.Writer, pids []int, offers, verbose bool) (list []listed, err error) {
	var denied []error
	for _, pid := range pids {
		name, inventory, err := live.InventoryPatiently(pid)
		var stuck *live.StuckError
		switch {
		case errors.As(err, &stuck):
			fmt.Fprintf(stderr, "footfall: %s\n", output.Printable(stuck.Error()))
		case errors.Is(err, fs.ErrPermission):
			denied = append(denied, err)
		case offers, err == nil && len(inventory.Kinds)+len(inventory.Problems) > 0:
			about, err := process.Describe(pid)
			if err != nil {
				continue
			}
			l := listed{pid: pid, name: cmp.Or(name, process.NameOf(pid)), About: about, Inventory: inventory}
			if offers {
				o := collect.OfferOf(pid)
				l.offer = &o
			}
			list = append(list, l)
		}
	}
	if offers {
		return list, errors.Join(denied...)
	}
	if k, err := live.OpenKernel(""); err == nil {
		if units, _ := k.Snapshot(); len(units) > 0 {
			list = append(list, listed{name: "kernel", Inventory: live.InventoryOf(units)})
		}
	}
	if len(list) == 0 {
		fmt.Fprintf(stderr, "footfall: none of %d processes has counters: build with --coverage; footfall live --ran needs none\n", len(pids)-len(denied))
	}
	if n := len(denied); n > 0 {
		fmt.Fprintf(stderr, "footfall: %d of %d processes could not be read, the first: %v\n", n, len(pids), denied[0])
		for i := 1; verbose && i < n; i++ {
			fmt.Fprintf(stderr, "footfall: %v\n", denied[i])
		}
	}
	return list, nil
}

// sayListed tells what of the counters cannot be read.
func sayListed(stderr io.Writer, list []listed) {
	for _, l := range list {
		if o := l.offer; o != nil && o.Why != nil {
			fmt.Fprintf(stderr, "footfall: %s (pid %d): --ran can tell nothing: %s\n", output.Printable(l.name), l.pid, output.Printable(o.Why.Error()))
		}
		for _, err := range l.Problems {
			fmt.Fprintf(stderr, "footfall: %s (pid %d): not read: %s\n", output.Printable(l.name), l.pid, output.Printable(err.Error()))
		}
	}
}

// A family is the processes that run one program, of one user in one container, with the same counters. The first
// has started first.
type family []listed

func families(list []listed) (all []family) {
	type key struct{ name, exe, user, container, compilers, ran string }
	index := make(map[key]int)
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b listed) int { return a.Started.Round(time.Second).Compare(b.Started.Round(time.Second)) })
	for _, l := range list {
		k := key{l.name, l.Exe, l.User, l.Container, l.compilers(), l.ran()}
		i, known := index[k]
		if !known {
			i = len(all)
			index[k] = i
			all = append(all, nil)
		}
		all[i] = append(all[i], l)
	}
	slices.SortFunc(all, func(a, b family) int { return cmp.Compare(a[0].pid, b[0].pid) })
	return all
}

func (l *listed) compilers() string {
	var names []string
	for _, k := range l.Kinds {
		names = append(names, k.Compiler)
	}
	return strings.Join(names, ", ")
}

// ran says what --ran can tell of the process.
func (l *listed) ran() string {
	switch o := l.offer; {
	case o == nil:
		return ""
	case o.Why != nil:
		return "nothing"
	case o.Lines != "":
		return "lines (" + o.Lines + ")"
	default:
		return "functions (" + o.Functions + ")"
	}
}

// A listColumn is a column of the table.
type listColumn struct {
	title string
	right bool
	cell  func(f family) string
}

var listColumns = []listColumn{
	{"PID", true, func(f family) string { return orDash(f[0].pid) }},
	{"PROCS", true, func(f family) string { return strconv.Itoa(len(f)) }},
	{"PARENT", true, func(f family) string { return orDash(f[0].Parent) }},
	{"USER", false, func(f family) string { return output.Printable(f[0].User) }},
	{"CONTAINER", false, func(f family) string { return f[0].Container }},
	{"AGE", true, func(f family) string { return age(f[0].Started) }},
	{"OBJECTS", true, func(f family) string { n, _ := f[0].Total(); return strconv.Itoa(n) }},
	{"COUNTERS", true, func(f family) string { _, n := f[0].Total(); return size(n) }},
	{"COMPILER", false, func(f family) string { return f[0].compilers() }},
	{"RAN", false, func(f family) string { return f[0].ran() }},
	{"NAME", false, func(f family) string { return output.Printable(f[0].name) }},
	{"TITLE", false, func(f family) string { return output.Printable(f[0].Title) }},
}

// printList writes a row for each family, or for each process.
func printList(w io.Writer, list []listed, each bool) error {
	rows := families(list)
	if each {
		rows = nil
		for _, l := range list {
			rows = append(rows, family{l})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	columns := slices.DeleteFunc(slices.Clone(listColumns), func(c listColumn) bool {
		switch c.title { // that say nothing of any row
		case "PROCS":
			return len(rows) == len(list)
		case "CONTAINER", "RAN", "COMPILER":
			return !slices.ContainsFunc(rows, func(f family) bool { return c.cell(f) != "" })
		}
		return false
	})
	lines := make([]string, len(rows)+1)
	for _, c := range columns {
		cells := []string{c.title}
		for _, f := range rows {
			cells = append(cells, c.cell(f))
		}
		width := 0
		for _, cell := range cells {
			width = max(width, ansi.StringWidth(cell))
		}
		for i, cell := range cells {
			pad := strings.Repeat(" ", width-ansi.StringWidth(cell))
			if c.right {
				cell = pad + cell
			} else if c.title != "TITLE" {
				cell += pad
			}
			if c.title != "PID" {
				cell = "  " + cell
			}
			lines[i] += cell
		}
	}
	for _, line := range lines {
		line = strings.TrimRight(line, " ")
		if width := output.Width(w); width > 0 && !each {
			line = ansi.Truncate(line, width, "…")
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

func orDash(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// age is how long ago something was, for people.
func age(since time.Time) string {
	if since.IsZero() {
		return "-"
	}
	switch s := int(time.Since(since).Seconds()); {
	case s < 100:
		return fmt.Sprintf("%ds", max(s, 0))
	case s < 100*60:
		return fmt.Sprintf("%dm", s/60)
	case s < 100*3600:
		return fmt.Sprintf("%dh", s/3600)
	default:
		return fmt.Sprintf("%dd", s/86400)
	}
}

// listJSON writes all processes.
func listJSON(w io.Writer, list []listed) error {
	type counters struct {
		Compiler string `json:"compiler"`
		Objects  int    `json:"objects"`
		Bytes    int64  `json:"bytes"`
	}
	type ran struct {
		Functions string `json:"functions,omitempty"`
		Lines     string `json:"lines,omitempty"`
		Not       string `json:"not,omitempty"`
	}
	type row struct {
		PID       int        `json:"pid"`
		Name      string     `json:"name"`
		Title     string     `json:"title,omitempty"`
		Exe       string     `json:"exe,omitempty"`
		Parent    int        `json:"parent,omitempty"`
		User      string     `json:"user,omitempty"`
		UID       *int       `json:"uid,omitempty"`
		Container string     `json:"container,omitempty"`
		Started   *time.Time `json:"started,omitempty"`
		Counters  []counters `json:"counters"`
		Ran       *ran       `json:"ran,omitempty"`
		Problems  []string   `json:"problems,omitempty"`
	}
	rows := []row{}
	for _, l := range list {
		r := row{PID: l.pid, Name: l.name, Counters: []counters{}}
		if l.pid != 0 {
			started := l.Started.UTC().Round(10 * time.Millisecond)
			r.Title, r.Exe, r.Parent, r.User, r.UID, r.Container, r.Started = l.Title, l.Exe, l.Parent, l.User, &l.UID, l.Container, &started
		}
		for _, k := range l.Kinds {
			r.Counters = append(r.Counters, counters{k.Compiler, k.Objects, k.Bytes})
		}
		if o := l.offer; o != nil {
			if r.Ran = (&ran{Functions: o.Functions, Lines: o.Lines}); o.Why != nil {
				r.Ran.Not = o.Why.Error()
			}
		}
		for _, err := range l.Problems {
			r.Problems = append(r.Problems, err.Error())
		}
		rows = append(rows, r)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(map[string]any{"processes": rows})
}

// size is a number of bytes, for people.
func size(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1000*1000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}
