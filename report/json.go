package report

import (
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"footfall/coverage"
	"footfall/output"
	"footfall/report/change"
	"footfall/report/exclude"
)

// printJSON writes the schema of footfall json: one object, with each file on
// a line of its own, so that a reader need not hold it whole. Members that are
// zero, false or empty are left out where the schema says so.
func printJSON(w io.Writer, r *Report) error {
	j := jsonWriter{patch: r.Patch, stale: r.Stale}
	j.raw(`{"format":"footfall coverage","version":1,"totals":`)
	j.totals(r.Set.Totals())
	if r.Patch != nil {
		j.raw(`,"patch_totals":`)
		j.totals(r.Patch.Totals(r.Set))
		problems := r.Patch.Problems()
		j.list(`,"patch_problems":[`, len(problems), func(i int) {
			j.raw(`{"file":`)
			j.text(r.Shown(problems[i].File))
			j.raw(`,"problem":`)
			j.text(problems[i].Err.Error())
			j.raw("}")
		})
	}
	j.raw(`,"files":[`)
	for i, f := range r.Set.All() {
		if i > 0 {
			j.raw(",")
		}
		j.raw("\n")
		j.file(f, r.Shown)
		if err := j.flush(w); err != nil {
			return err
		}
	}
	j.raw("\n]")
	j.list(`,"excluded":[`, len(r.Excluded.List), func(i int) { j.excluded(&r.Excluded.List[i], r.Shown) })
	j.raw("}\n")
	return j.flush(w)
}

type jsonWriter struct {
	buffer
	patch *change.Patch
	stale []string // see Report.Stale
}

// nonzero writes a member unless it is 0.
func (j *jsonWriter) nonzero(before string, n int32) {
	if n != 0 {
		j.number(before, int64(n))
	}
}

func (j *jsonWriter) flag(text string, set bool) {
	if set {
		j.raw(text)
	}
}

// list writes the members of a list that is not empty; one writes the i-th.
func (j *jsonWriter) list(before string, n int, one func(i int)) {
	if n == 0 {
		return
	}
	j.raw(before)
	for i := range n {
		if i > 0 {
			j.raw(",")
		}
		one(i)
	}
	j.raw("]")
}

func (j *jsonWriter) totals(t coverage.Totals) {
	before := `{"`
	for _, m := range []struct {
		name string
		coverage.Ratio
	}{
		{"lines", t.Lines}, {"functions", t.Functions}, {"branches", t.Branches},
		{"exception_branches", t.ExceptionBranches}, {"conditions", t.Conditions}, {"calls", t.Calls}, {"regions", t.Regions},
	} {
		if m.name == "regions" && m.Total == 0 {
			continue // others than LLVM do not tell
		}
		j.raw(before)
		j.raw(m.name)
		j.number(`":{"covered":`, int64(m.Covered))
		j.number(`,"total":`, int64(m.Total))
		before = `},"`
	}
	j.raw("}}")
}

func (j *jsonWriter) file(f *coverage.File, shown func(string) string) {
	j.raw(`{"file":`)
	j.text(shown(f.Name))
	j.raw(`,"totals":`)
	j.totals(f.Totals())
	if _, stale := slices.BinarySearch(j.stale, f.Name); stale {
		j.raw(`,"stale":true`)
	}
	changed := j.patch.HasFile(f.Name)
	if changed {
		j.raw(`,"patch_totals":`)
		j.totals(j.patch.FileTotals(f))
	}
	j.list(`,"functions":[`, len(f.Functions), func(i int) { j.function(f.Functions[i]) })
	j.list(`,"lines":[`, len(f.Lines), func(i int) { j.line(&f.Lines[i], changed && j.patch.Changed(f.Name, f.Lines[i].Number)) })
	j.list(`,"told":[`, len(f.Told), func(i int) { j.function(f.Told[i]) })
	j.list(`,"tests":[`, len(f.Tests), func(i int) { j.test(&f.Tests[i]) })
	j.expansions(f.Expansions, shown)
	j.raw("}")
}

func (j *jsonWriter) expansions(list []coverage.Expansion, shown func(string) string) {
	j.list(`,"expansions":[`, len(list), func(i int) {
		e := &list[i]
		j.number(`{"line":`, int64(e.Line))
		j.nonzero(`,"column":`, e.Column)
		j.raw(`,"file":`)
		j.text(shown(e.File))
		j.hits(e.Lines)
		j.expansions(e.Within, shown)
		j.raw("}")
	})
}

func (j *jsonWriter) test(t *coverage.Test) {
	j.raw(`{"name":`)
	j.text(t.Name)
	j.hits(t.Hits)
	j.raw("}")
}

// hits writes line, count, line, count ...
func (j *jsonWriter) hits(hits coverage.Hits) {
	before := `,"lines":[`
	for line, count := range hits.All() {
		j.number(before, int64(line))
		j.number(",", count)
		before = ","
	}
	j.raw("]")
}

func (j *jsonWriter) function(f *coverage.Function) {
	j.raw(`{"name":`)
	j.text(f.Name)
	j.number(`,"line":`, int64(f.StartLine))
	j.nonzero(`,"column":`, f.StartColumn)
	j.nonzero(`,"end_line":`, f.EndLine)
	j.nonzero(`,"end_column":`, f.EndColumn)
	j.counts(f.Count, f.Blocks, f.BlocksExecuted)
	if f.Regions > 0 {
		j.number(`,"regions":`, int64(f.Regions))
		j.number(`,"regions_run":`, int64(f.RegionsRun))
	}
	j.flag(`,"unused":true`, f.Unused)
	if len(f.Instances) > 1 {
		j.list(`,"instances":[`, len(f.Instances), func(i int) {
			in := f.Instances[i]
			j.raw(`{"name":`)
			j.text(in.Name)
			j.counts(in.Count, in.Blocks, in.BlocksExecuted)
			if len(in.Lines) > 0 {
				j.hits(in.Lines)
			}
			j.raw("}")
		})
	}
	j.raw("}")
}

func (j *jsonWriter) counts(count int64, blocks, executed int32) {
	j.number(`,"count":`, count)
	j.number(`,"blocks":`, int64(blocks))
	j.number(`,"blocks_executed":`, int64(executed))
}

func (j *jsonWriter) line(l *coverage.Line, changed bool) {
	j.number(`{"line":`, int64(l.Number))
	j.number(`,"count":`, l.Count)
	j.flag(`,"changed":true`, changed)
	j.flag(`,"unexecuted_block":true`, l.Unexecuted)
	j.flag(`,"exceptional":true`, l.Exceptional)
	j.branches(`,"branches":[`, l.Branches)
	if l.Told != nil {
		j.branches(`,"told":[`, *l.Told)
	}
	j.list(`,"calls":[`, len(l.Calls), func(i int) {
		j.number(`{"count":`, l.Calls[i].Count)
		j.number(`,"returned":`, l.Calls[i].Returned)
		j.raw("}")
	})
	j.list(`,"conditions":[`, len(l.Conditions), func(i int) { j.condition(l.Conditions[i]) })
	j.raw("}")
}

func (j *jsonWriter) branches(before string, branches []coverage.Branch) {
	j.list(before, len(branches), func(i int) {
		b := branches[i]
		j.number(`{"block":`, int64(b.Block))
		j.nonzero(`,"column":`, b.Column)
		j.nonzero(`,"to":`, b.To)
		j.number(`,"count":`, b.Count)
		j.flag(`,"unevaluated":true`, !b.Evaluated)
		j.flag(`,"fallthrough":true`, b.Fallthrough)
		j.flag(`,"throw":true`, b.Throw)
		j.flag(`,"exception":true`, b.Exception)
		j.flag(`,"list":true`, b.List)
		j.flag(`,"guessed":true`, b.Guessed)
		j.raw("}")
	})
}

func (j *jsonWriter) excluded(e *exclude.Exclusion, shown func(string) string) {
	j.raw(`{"file":`)
	j.text(shown(e.File))
	j.number(`,"first":`, int64(e.First))
	j.number(`,"last":`, int64(e.Last))
	j.raw(`,"what":`)
	j.text(e.What)
	j.raw(`,"rule":`)
	j.text(e.Rule)
	if e.Function != "" {
		j.raw(`,"function":`)
		j.text(e.Function)
	}
	j.raw("}")
}

func (j *jsonWriter) condition(c coverage.Condition) {
	j.raw(`{`)
	if c.Column != 0 {
		j.number(`"column":`, int64(c.Column))
		j.raw(",")
	}
	j.raw(`"terms":[`)
	for i, t := range c.Terms {
		if i > 0 {
			j.raw(",")
		}
		j.buf = strconv.AppendBool(append(j.buf, `{"true":`...), t.True)
		j.buf = strconv.AppendBool(append(j.buf, `,"false":`...), t.False)
		j.raw("}")
	}
	j.raw("]}")
}

// text writes a string. A file name need not be UTF-8, but JSON must.
// text appends a string. What is not UTF-8 is escaped as in all names.
func (j *jsonWriter) text(s string) {
	s = output.UTF8.Escape(s)
	const hex = "0123456789abcdef"
	j.buf = append(j.buf, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			j.buf = append(j.buf, '\\', byte(c))
		case c < ' ':
			j.buf = append(j.buf, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			j.buf = utf8.AppendRune(j.buf, c)
		}
	}
	j.buf = append(j.buf, '"')
}
