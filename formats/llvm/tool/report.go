package tool

import (
	"bytes"
	"fmt"
	"io"
	"path"
	"strings"

	"footfall/formats/llvm"
)

// columns are those of tables that can be left out.
type columns struct{ regions, instances, branches, conditions bool }

// The widths of the columns: the name; numbers, missed ones and a percentage of regions, functions, instantiations, lines,
// branches and conditions.
var (
	fileWidths     = [19]int{25, 12, 18, 10, 12, 18, 10, 16, 16, 10, 12, 18, 10, 12, 18, 10, 20, 21, 10}
	functionWidths = [13]int{25, 10, 8, 8, 10, 8, 8, 10, 8, 8, 20, 8, 8}
)

// A table is one of files, or of the functions of files: the first column grows with the names in it.
type table struct {
	*covering
	b    *bytes.Buffer
	name int // width
}

func (v *Invocation) report(args []string) error {
	c := &covering{Invocation: v}
	functions := false
	if err := c.start(args, map[string]option{"show-functions": {flag: &functions}}); err != nil {
		return err
	}
	switch c.format {
	case "html":
		return c.message("HTML output for summary reports is not yet supported.")
	case "lcov":
		return c.message("lcov format should be used with 'llvm-cov export'.")
	}
	if err := c.load(); err != nil {
		return err
	}
	var b bytes.Buffer
	if !functions {
		c.fileTable(&b, c.files(), false)
	} else if len(c.sources) == 0 {
		return c.message("source files must be specified when -show-functions=true is specified")
	} else {
		c.functionTables(&b)
	}
	_, err := c.Stdout.Write(b.Bytes())
	return err
}

// groups are those columns of three that are shown of a table.
func (c *covering) branchesShown() bool { return c.columns.branches && c.version() >= 12 }
func (c *covering) conditionsShown() bool {
	return c.columns.conditions && c.version() >= 18
}

// divide prints a line of dashes: since LLVM 17 as wide as the columns that are there.
func (t *table) divide(widths []int) {
	n := t.name
	for _, w := range widths[1:] {
		n += w
	}
	hidden := func(shown bool, at int) {
		if !shown && at < len(widths) {
			n -= widths[at] + widths[at+1] + widths[at+2]
		}
	}
	switch files := len(widths) > len(functionWidths); {
	case t.version() < 17:
	case files:
		hidden(t.columns.regions, 1)
		hidden(t.columns.instances, 7)
		hidden(t.columns.branches, 13)
		hidden(t.columns.conditions, 16)
	default:
		hidden(t.columns.branches, 7)
		hidden(t.columns.conditions, 10)
	}
	t.b.WriteString(strings.Repeat("-", max(n, 0)) + "\n")
}

func (t *table) right(s string, width int) {
	t.b.WriteString(strings.Repeat(" ", max(width-len(s), 0)) + s)
}

func (t *table) left(s string, width int) {
	t.b.WriteString(s + strings.Repeat(" ", max(width-len(s), 0)))
}

func (t *table) heads(widths []int, names ...string) {
	for i, name := range names {
		t.right(name[:min(len(name), widths[i])], widths[i])
	}
}

// colorOf is that of a percentage.
func colorOf(r llvm.Ratio) color {
	switch {
	case r.Covered == r.Total:
		return green
	case r.Percent() >= 80:
		return yellow
	}
	return red
}

// ratio prints three columns. Of functions the missed ones have no color.
func (t *table) ratio(r llvm.Ratio, widths []int, of, percentOf color, missedColored, dash bool) {
	t.right(fmt.Sprint(r.Total), widths[0])
	missed := fmt.Sprintf("%*d", widths[1], r.Total-r.Covered)
	if missedColored {
		t.colored(t.b, of, missed)
	} else {
		t.b.WriteString(missed)
	}
	if r.Total == 0 && dash {
		t.right("-", widths[2])
		return
	}
	t.colored(t.b, percentOf, fmt.Sprintf("%*.2f%%", widths[2]-1, r.Percent()))
}

// fileTable prints the table of files; a filter chooses the functions that count.
func (c *covering) fileTable(b *bytes.Buffer, files []string, filter bool) {
	t := &table{covering: c, b: b, name: c.widestFile}
	prefix := redundantPrefix(files)
	t.name = max(t.name, fileWidths[0])
	for _, name := range files {
		t.name = max(t.name, len(name)-prefix)
	}
	c.widestFile = t.name
	w := fileWidths[:]
	if c.version() < 18 {
		w = w[:16]
	}
	if c.version() < 12 {
		w = w[:13]
	}
	t.left("Filename", t.name)
	if c.columns.regions {
		t.heads(w[1:], "Regions", "Missed Regions", "Cover")
	}
	t.heads(w[4:], "Functions", "Missed Functions", "Executed")
	if c.columns.instances {
		t.heads(w[7:], "Instantiations", "Missed Insts.", "Executed")
	}
	t.heads(w[10:], "Lines", "Missed Lines", "Cover")
	if c.branchesShown() {
		t.heads(w[13:], "Branches", "Missed Branches", "Cover")
	}
	if c.conditionsShown() {
		t.heads(w[16:], "MC/DC Conditions", "Missed Conditions", "Cover")
	}
	b.WriteByte('\n')
	t.divide(w)
	var totals llvm.Summary
	var empty []string
	for _, name := range files {
		s := c.fileSummary(name, filter)
		totals.Add(s)
		if s.Functions.Total == 0 {
			empty = append(empty, name)
			continue
		}
		t.file(name[prefix:], &s)
	}
	if len(empty) > 0 && !filter {
		b.WriteString("\nFiles which contain no functions:\n")
		for _, name := range empty {
			t.file(name[prefix:], new(llvm.Summary))
		}
	}
	t.divide(w)
	t.file("TOTAL", &totals)
}

func (c *covering) fileSummary(name string, filter bool) llvm.Summary {
	if !filter {
		return c.coverage.FileSummary(name)
	}
	var s llvm.Summary
	for _, g := range c.coverage.Groups(name) {
		var list []*llvm.Function
		for _, f := range g.Instances {
			if c.chosen(f) {
				list = append(list, f)
			}
		}
		if len(list) > 0 {
			s.Add(c.coverage.GroupSummary(list))
		}
	}
	return s
}

func (t *table) file(name string, s *llvm.Summary) {
	w := fileWidths[:]
	lines := colorOf(s.Lines)
	if name != "" {
		name = path.Clean(name)
	}
	t.left(name, t.name)
	if t.columns.regions {
		t.ratio(s.Regions, w[1:], colorOf(s.Regions), colorOf(s.Regions), true, true)
	}
	t.ratio(s.Functions, w[4:], none, colorOf(s.Functions), false, true)
	if t.columns.instances {
		t.ratio(s.Instantiations, w[7:], none, colorOf(s.Instantiations), false, true)
	}
	t.ratio(s.Lines, w[10:], lines, lines, true, true)
	if t.branchesShown() {
		t.ratio(s.Branches, w[13:], lines, lines, true, true)
	}
	if t.conditionsShown() {
		t.ratio(s.Conditions, w[16:], lines, lines, true, true)
	}
	t.b.WriteByte('\n')
}

// functionTables prints a table for each file; the first column never gets narrower again.
func (c *covering) functionTables(b *bytes.Buffer) {
	t := &table{covering: c, b: b, name: functionWidths[0]}
	w := functionWidths[:]
	if c.version() < 18 {
		w = w[:10]
	}
	if c.version() < 12 {
		w = w[:7]
	}
	for i, file := range c.sources {
		if i > 0 {
			b.WriteByte('\n')
		}
		list := c.coverage.FunctionsOf(file)
		for _, f := range list {
			t.name = max(t.name, len(c.demangle(f.Name)))
		}
		fmt.Fprintf(b, "File '%s':\n", file)
		t.left("Name", t.name)
		t.heads(w[1:], "Regions", "Miss", "Cover", "Lines", "Miss", "Cover")
		if c.branchesShown() {
			t.heads(w[7:], "Branches", "Miss", "Cover")
		}
		if c.conditionsShown() {
			t.heads(w[10:], "MC/DC Conditions", "Miss", "Cover")
		}
		b.WriteByte('\n')
		t.divide(w)
		var totals llvm.Summary
		for _, f := range list {
			s := c.coverage.Summary(f)
			totals.Add(s)
			t.function(c.demangle(f.Name), &s)
		}
		if len(list) > 0 {
			t.divide(w)
			t.function("TOTAL", &totals)
		}
	}
}

func (t *table) function(name string, s *llvm.Summary) {
	w := functionWidths[:]
	lines := colorOf(s.Lines)
	t.left(name, t.name)
	t.ratio(s.Regions, w[1:], colorOf(s.Regions), colorOf(s.Regions), true, false)
	t.ratio(s.Lines, w[4:], lines, lines, true, false)
	if t.branchesShown() {
		t.ratio(s.Branches, w[7:], lines, colorOf(s.Branches), true, false)
	}
	if t.conditionsShown() {
		t.ratio(s.Conditions, w[10:], lines, colorOf(s.Conditions), true, false)
	}
	t.b.WriteByte('\n')
}

// redundantPrefix is how many bytes of all names are directories that they have in common.
func redundantPrefix(names []string) int {
	if len(names) < 2 {
		return 0
	}
	first := components(names[0])
	n := len(first)
	for _, name := range names[1:] {
		for i, at := range components(name) {
			if i >= n {
				break
			}
			if first[i].text != at.text {
				n = i
				break
			}
		}
	}
	if n == len(first) {
		return len(names[0])
	}
	return first[n].at
}

type component struct {
	text string
	at   int
}

// components are the parts of a path: the root, directories, the file.
func components(name string) []component {
	var list []component
	at := 0
	if strings.HasPrefix(name, "/") {
		list, at = append(list, component{"/", 0}), 1
	}
	for part := range strings.SplitSeq(name[at:], "/") {
		if part != "" {
			list = append(list, component{part, at})
		}
		at += len(part) + 1
	}
	return list
}

// A color is one of a terminal; none: it stays as it is.
type color int

const (
	none    color = 0
	red     color = 31
	green   color = 32
	yellow  color = 33
	magenta color = 35
	cyan    color = 36
)

// colored writes s in a color, if colors are asked for.
func (v *Invocation) colored(w io.Writer, of color, s string) { painted(w, of, v.colors, false, s) }

// painted writes s in a color, or on it, if it is on.
func painted(w io.Writer, of color, on, background bool, s string) {
	if !on {
		_, _ = io.WriteString(w, s)
		return
	}
	code := int(of)
	if background {
		code += 10
	}
	_, _ = fmt.Fprintf(w, "\x1b[0;%dm%s\x1b[0m", code, s)
}
