package report

import (
	"fmt"
	"io"
	"strconv"

	"footfall/coverage"
)

// printLcov writes a tracefile as geninfo of lcov 1 does: one record for each
// source,
//
//	TN:test                          or nothing
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
		t.buf = t.buf[:0]
		test := onlyTest(f)
		t.begin(test, f.Name)
		t.functions(f.Functions)
		t.branches(f.Lines)
		t.conditions(f.Lines)
		if test != "" {
			t.lines(f.Lines)
		} else {
			t.lines(withoutTests(f))
		}
		t.buf = append(t.buf, "end_of_record\n"...)
		if test == "" {
			t.tests(f)
		}
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

// record appends a record of numbers, and of a name if there is one.
func (t *tracefile) record(tag, name string, numbers ...int64) {
	t.buf = append(t.buf, tag...)
	for i, n := range numbers {
		if i > 0 {
			t.buf = append(t.buf, ',')
		}
		t.buf = strconv.AppendInt(t.buf, n, 10)
	}
	if name != "" {
		t.buf = append(append(t.buf, ','), name...)
	}
	t.buf = append(t.buf, '\n')
}

func (t *tracefile) ratio(found, hit string, r coverage.Ratio) {
	t.record(found, "", int64(r.Total))
	t.record(hit, "", int64(r.Covered))
}

// functions writes each name once: lcov knows only one line for a name, and
// lcov 2 stops at a second one. A name has two lines where one source was
// compiled in two ways.
func (t *tracefile) functions(functions []*coverage.Function) {
	n := 0
	for _, f := range functions {
		n += len(f.Instances)
	}
	type counted struct {
		name  string
		count int64
	}
	list := make([]counted, 0, n)
	index := make(map[string]int, n)
	end, line := int32(0), int32(-1)
	for i, f := range functions {
		if f.StartLine != line {
			end, line = commonEnd(functions[i:]), f.StartLine
		}
		for _, in := range f.Instances {
			k, again := index[in.Name]
			if !again {
				k = len(list)
				index[in.Name] = k
				list = append(list, counted{name: in.Name})
				if t.ends && end >= line {
					t.record("FN:", in.Name, int64(line), int64(end))
				} else {
					t.record("FN:", in.Name, int64(line))
				}
			}
			list[k].count += max(in.Count, 0)
		}
	}
	total := coverage.Ratio{Total: len(list)}
	for _, c := range list {
		t.record("FNDA:", c.name, c.count)
		if c.count > 0 {
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
			total.Total++
			if !b.Evaluated {
				t.record("BRDA:", "-", int64(l.Number), int64(b.Block), index)
			} else {
				t.record("BRDA:", "", int64(l.Number), int64(b.Block), index, max(b.Count, 0))
				if b.Count > 0 {
					total.Covered++
				}
			}
			index++
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
		t.buf = fmt.Appendf(t.buf, "MCDC:%d,%d,%c,%c,%d,%d\n", line, terms, sense, taken, index, index)
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
		t.record("DA:", "", int64(l.Number), max(l.Count, 0))
	}
	t.ratio("LF:", "LH:", total)
}
