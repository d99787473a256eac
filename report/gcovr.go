package report

import (
	"io"
	"strconv"

	"footfall/coverage"
)

// printGcovr writes the JSON of gcovr 8.7, format version 0.15 ("JSON Output"
// in gcovr's manual), for gcovr --add-tracefile. A gcovr reads files of its own
// format version only.
func printGcovr(w io.Writer, r *Report) error {
	return printGcovrJSON(w, gcovrWriter{report: r, version: "0.15"})
}

// printGcovr5 writes format version 0.3, that of gcovr 5.1 and 5.2. It knows
// no conditions and no calls.
func printGcovr5(w io.Writer, r *Report) error {
	return printGcovrJSON(w, gcovrWriter{report: r, version: "0.3", old: true})
}

type gcovrWriter struct {
	jsonWriter
	report  *Report
	version string
	old     bool
}

func printGcovrJSON(w io.Writer, g gcovrWriter) error {
	g.raw(`{"gcovr/format_version":`)
	g.text(g.version)
	g.raw(`,"files":[`)
	for i, f := range g.report.Set.All() {
		if i > 0 {
			g.raw(",")
		}
		g.raw("\n" + `{"file":`)
		g.text(g.report.Shown(f.Name))
		g.raw(`,"lines":[`)
		for i := range f.Lines {
			if i > 0 {
				g.raw(",")
			}
			g.line(&f.Lines[i])
		}
		g.raw(`],"functions":[`)
		for i, s := range signatures(f.Functions) {
			if i > 0 {
				g.raw(",")
			}
			g.function(f.Functions[i], s)
		}
		g.raw("]}")
		if err := g.flush(w); err != nil {
			return err
		}
	}
	g.raw("\n]}\n")
	return g.flush(w)
}

func (g *gcovrWriter) line(l *coverage.Line) {
	g.number(`{"line_number":`, int64(l.Number))
	g.number(`,"count":`, max(l.Count, 0))
	g.raw(`,"branches":[`)
	for i, b := range g.report.branches(l) {
		if i > 0 {
			g.raw(",")
		}
		g.number(`{"count":`, max(b.Count, 0))
		g.buf = strconv.AppendBool(append(g.buf, `,"fallthrough":`...), b.Fallthrough)
		g.buf = strconv.AppendBool(append(g.buf, `,"throw":`...), b.Throw)
		if !g.old {
			g.number(`,"branchno":`, int64(i))
			g.number(`,"source_block_id":`, int64(b.Block))
		}
		g.raw("}")
	}
	g.raw("]")
	if g.old {
		g.raw(`,"gcovr/noncode":false,"gcovr/excluded":false}`)
		return
	}
	g.list(`,"conditions":[`, len(l.Conditions), func(i int) { g.condition(i, l.Conditions[i]) })
	g.list(`,"calls":[`, len(l.Calls), func(i int) {
		g.number(`{"callno":`, int64(i))
		g.number(`,"source_block_id":0,"returned":`, max(l.Calls[i].Returned, 0))
		g.raw("}")
	})
	g.raw("}")
}

func (g *gcovrWriter) condition(number int, c coverage.Condition) {
	covered := 0
	var missing [2][]int // terms not shown to be true, and false
	for i, t := range c.Terms {
		for k, shown := range []bool{t.True, t.False} {
			if shown {
				covered++
			} else {
				missing[k] = append(missing[k], i)
			}
		}
	}
	g.number(`{"conditionno":`, int64(number))
	g.number(`,"count":`, int64(2*len(c.Terms)))
	g.number(`,"covered":`, int64(covered))
	for k, member := range []string{`,"not_covered_true":[`, `,"not_covered_false":[`} {
		g.raw(member)
		for i, term := range missing[k] {
			if i > 0 {
				g.raw(",")
			}
			g.number("", int64(term))
		}
		g.raw("]")
	}
	g.raw("}")
}

func (g *gcovrWriter) function(f *coverage.Function, s signature) {
	if g.old {
		g.raw(`{"name":`)
		g.text(s.name + s.params)
	} else {
		g.raw(`{"name":`)
		g.text(f.Name)
		g.raw(`,"demangled_name":`)
		g.text(s.name + s.params)
	}
	g.number(`,"lineno":`, int64(f.StartLine))
	g.number(`,"execution_count":`, max(f.Count, 0))
	if !g.old {
		if f.Blocks > 0 {
			tenths := int64(f.BlocksExecuted) * 1000 / int64(f.Blocks)
			g.number(`,"blocks_percent":`, tenths/10)
			g.number(".", tenths%10)
		}
		if f.EndLine > 0 {
			g.number(`,"pos":["`, int64(f.StartLine))
			g.number(":", int64(f.StartColumn))
			g.number(`","`, int64(f.EndLine))
			g.number(":", int64(f.EndColumn))
			g.raw(`"]`)
		}
	}
	g.raw("}")
}
