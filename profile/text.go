package profile

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"footfall/output"
)

// printText writes a table of the functions, the most costly first.
func printText(w io.Writer, r *View) error {
	if r.Before != nil {
		return printDiff(w, r)
	}
	nodes, more := r.ranked()
	t := &textTable{}
	g := r.Graph
	if g.CPU {
		t.head("self", "%")
		switch {
		case g.Sampled:
			t.head("total", "%")
		case g.Calls:
			t.head("total (est.)", "%")
		}
	}
	if g.Calls {
		t.head("calls")
	}
	t.left("function", "")
	for _, n := range nodes {
		if g.CPU {
			t.cells(r.time(n.Self), percent(n.Self, g.Total))
			if g.Sampled || g.Calls { // no histogram alone
				t.cells(r.time(n.Total), percent(n.Total, g.Total))
			}
		}
		if g.Calls {
			t.cells(callCount(n.Calls))
		}
		name := n.shortName()
		if n.Inlined {
			name += " (inlined)"
		}
		t.cells(name, r.place(n))
		t.end()
	}
	fmt.Fprintf(w, "%s\n\n", r.summary())
	if err := t.write(w, r.hot(nodes)); err != nil {
		return err
	}
	if more > 0 {
		fmt.Fprintf(w, "%s more; --top 0 shows all\n", output.Plural(more, "function"))
	}
	return nil
}

// callCount shows a number of calls; none is blank: a sampled function was
// called, but nobody counted.
func callCount(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// hot returns a function that colours the i-th row: red for a tenth of the
// time and more, yellow for a hundredth.
func (r *View) hot(nodes []*Node) func(i int) string {
	return func(i int) string {
		if !r.Color || r.Graph.Total == 0 {
			return ""
		}
		switch n := nodes[i]; {
		case n.Self*10 >= r.Graph.Total:
			return "\x1b[31m"
		case n.Self*100 >= r.Graph.Total:
			return "\x1b[33m"
		}
		return ""
	}
}

// A textTable aligns its columns: at the right, but those of texts.
type textTable struct {
	titles  []string
	isLeft  []bool
	rows    [][]string
	current []string
}

func (t *textTable) head(titles ...string) {
	for _, s := range titles {
		t.titles, t.isLeft = append(t.titles, s), append(t.isLeft, false)
	}
}

func (t *textTable) left(titles ...string) {
	for _, s := range titles {
		t.titles, t.isLeft = append(t.titles, s), append(t.isLeft, true)
	}
}

func (t *textTable) cells(s ...string) {
	for _, cell := range s {
		words := strings.Split(cell, "\t") // lines of sources have tabs
		for i := range words {
			words[i] = output.Printable(words[i])
		}
		t.current = append(t.current, strings.Join(words, "\t"))
	}
}

func (t *textTable) end() {
	t.rows = append(t.rows, t.current)
	t.current = nil
}

// widest is the most columns that a text takes for itself: a template's name
// must not push what follows out of sight.
const widest = 60

func (t *textTable) write(w io.Writer, color func(i int) string) error {
	widths := make([]int, len(t.titles))
	for _, row := range append([][]string{t.titles}, t.rows...) {
		for i, s := range row {
			widths[i] = max(widths[i], min(utf8.RuneCountInString(s), widest))
		}
	}
	for i, row := range append([][]string{t.titles}, t.rows...) {
		var line strings.Builder
		for j, s := range row {
			if j > 0 {
				line.WriteString("  ")
			}
			pad := strings.Repeat(" ", max(0, widths[j]-utf8.RuneCountInString(s)))
			if t.isLeft[j] {
				line.WriteString(s + pad)
			} else {
				line.WriteString(pad + s)
			}
		}
		text := strings.TrimRight(line.String(), " ")
		if i > 0 && color != nil {
			if on := color(i - 1); on != "" {
				text = on + text + "\x1b[m"
			}
		}
		if _, err := fmt.Fprintln(w, text); err != nil {
			return err
		}
	}
	return nil
}
