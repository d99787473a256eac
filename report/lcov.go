package report

import (
	"io"
	"strconv"

	"footfall/coverage"
)

// printLcov writes a tracefile as geninfo of lcov 1 does: one record for each
// source,
//
//	TN:                              no test name
//	SF:/abs/path.c
//	FN:line,name  FNDA:calls,name    for each instance of a function
//	FNF:found  FNH:hit
//	BRDA:line,block,branch,taken     "-" where the decision never ran
//	BRF:found  BRH:hit
//	MCDC:line,terms,t or f,shown,index,expression     lcov 1 skips it
//	MCF:found  MCH:hit
//	DA:line,count
//	LF:found  LH:hit
//	end_of_record
func printLcov(w io.Writer, r *Report) error {
	return printTracefile(w, tracefile{report: r})
}

// printLcov2 writes FN:line,end,name as lcov 2.0 did; lcov 1 would take the
// number for the name. Without it lcov 2 makes up where functions end, and
// stops at the contradictions that follow.
func printLcov2(w io.Writer, r *Report) error {
	return printTracefile(w, tracefile{report: r, ends: true})
}

func printTracefile(w io.Writer, t tracefile) error {
	for _, f := range t.report.Set.Files {
		t.buf = append(append(append(t.buf[:0], "TN:\nSF:"...), f.Name...), '\n')
		t.functions(f.Functions)
		t.branches(f.Lines)
		t.conditions(f.Lines)
		t.lines(f.Lines)
		t.buf = append(t.buf, "end_of_record\n"...)
		if _, err := w.Write(t.buf); err != nil {
			return err
		}
	}
	return nil
}

type tracefile struct {
	report *Report
	ends   bool // write the end lines of functions
	buf    []byte
}

// record appends a record of one number and more text.
func (t *tracefile) record(tag string, number int64, rest string) {
	t.buf = append(t.buf, tag...)
	t.buf = strconv.AppendInt(t.buf, number, 10)
	t.buf = append(t.buf, rest...)
	t.buf = append(t.buf, '\n')
}

func (t *tracefile) ratio(found, hit string, r coverage.Ratio) {
	t.record(found, int64(r.Total), "")
	t.record(hit, int64(r.Covered), "")
}

// functions writes each name once: lcov knows only one line for a name, and
// lcov 2 stops at a second one. A name has two lines where one source was
// compiled in two ways.
func (t *tracefile) functions(functions []*coverage.Function) {
	count := make(map[string]int64)
	var names []string
	var before *coverage.Function
	var end int32
	for i, f := range functions {
		if before == nil || before.StartLine != f.StartLine {
			end = commonEnd(functions[i:])
		}
		before = f
		for _, in := range f.Instances {
			if _, again := count[in.Name]; !again {
				name := "," + in.Name
				if t.ends && end >= f.StartLine {
					name = "," + strconv.Itoa(int(end)) + name
				}
				t.record("FN:", int64(f.StartLine), name)
				names = append(names, in.Name)
			}
			count[in.Name] += max(in.Count, 0)
		}
	}
	var total coverage.Ratio
	for _, name := range names {
		n := count[name]
		t.record("FNDA:", n, ","+name)
		total.Total++
		if n > 0 {
			total.Covered++
		}
	}
	t.ratio("FNF:", "FNH:", total)
}

// commonEnd is the last line of the functions that start where the first does:
// to lcov they are one function with several names.
func commonEnd(functions []*coverage.Function) int32 {
	end := functions[0].EndLine
	for _, f := range functions[1:] {
		if f.StartLine != functions[0].StartLine {
			break
		}
		end = max(end, f.EndLine)
	}
	return end
}

func (t *tracefile) branches(lines []coverage.Line) {
	var total coverage.Ratio
	for i := range lines {
		l := &lines[i]
		block, index := int32(-1), int64(0)
		for _, b := range t.report.branches(l) {
			if b.Block != block {
				block, index = b.Block, 0
			}
			t.buf = append(t.buf, "BRDA:"...)
			t.buf = strconv.AppendInt(t.buf, int64(l.Number), 10)
			t.buf = append(t.buf, ',')
			t.buf = strconv.AppendInt(t.buf, int64(b.Block), 10)
			t.buf = append(t.buf, ',')
			t.buf = strconv.AppendInt(t.buf, index, 10)
			index++
			total.Total++
			if !b.Evaluated {
				t.buf = append(t.buf, ",-\n"...)
				continue
			}
			if b.Count > 0 {
				total.Covered++
			}
			t.buf = append(t.buf, ',')
			t.buf = strconv.AppendInt(t.buf, max(b.Count, 0), 10)
			t.buf = append(t.buf, '\n')
		}
	}
	if total.Total > 0 {
		t.ratio("BRF:", "BRH:", total)
	}
}

// conditions numbers the terms of all conditions of a line that have as many:
// lcov 2 has one group a line for each number of terms.
func (t *tracefile) conditions(lines []coverage.Line) {
	var total coverage.Ratio
	outcome := func(line int32, terms, index int, sense byte, shown bool) {
		total.Total++
		taken := byte('0')
		if shown {
			total.Covered++
			taken = '1'
		}
		t.buf = append(t.buf, "MCDC:"...)
		t.buf = strconv.AppendInt(t.buf, int64(line), 10)
		t.buf = append(t.buf, ',')
		t.buf = strconv.AppendInt(t.buf, int64(terms), 10)
		t.buf = append(t.buf, ',', sense, ',', taken, ',')
		t.buf = strconv.AppendInt(t.buf, int64(index), 10)
		t.buf = append(t.buf, ',')
		t.buf = strconv.AppendInt(t.buf, int64(index), 10)
		t.buf = append(t.buf, '\n')
	}
	for i := range lines {
		l := &lines[i]
		if len(l.Conditions) == 0 {
			continue
		}
		next := make(map[int]int) // index by number of terms
		for _, c := range l.Conditions {
			n := len(c.Terms)
			for _, term := range c.Terms {
				outcome(l.Number, n, next[n], 't', term.True)
				outcome(l.Number, n, next[n], 'f', term.False)
				next[n]++
			}
		}
	}
	if total.Total > 0 {
		t.ratio("MCF:", "MCH:", total)
	}
}

func (t *tracefile) lines(lines []coverage.Line) {
	var total coverage.Ratio
	for i := range lines {
		l := &lines[i]
		total.Total++
		if l.Count > 0 {
			total.Covered++
		}
		t.buf = append(t.buf, "DA:"...)
		t.buf = strconv.AppendInt(t.buf, int64(l.Number), 10)
		t.buf = append(t.buf, ',')
		t.buf = strconv.AppendInt(t.buf, max(l.Count, 0), 10)
		t.buf = append(t.buf, '\n')
	}
	t.ratio("LF:", "LH:", total)
}
