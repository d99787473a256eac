package llvm

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
)

// A JSONOptions says what WriteJSON leaves out.
type JSONOptions struct {
	// Files are those that are written, in that order.
	Files                         []string
	SummaryOnly                   bool
	SkipExpansions, SkipFunctions bool
}

// WriteJSON writes what llvm-cov export of the version does.
func (c *Coverage) WriteJSON(w io.Writer, o JSONOptions) error {
	j := &jsonWriter{coverage: c, options: &o, w: w}
	j.raw(`{"data":[{"files":[`)
	var totals Summary
	for i, name := range o.Files {
		j.comma(i)
		totals.Add(j.file(name))
		if j.flush(); j.err != nil {
			return j.err
		}
	}
	j.raw("]")
	if !o.SummaryOnly && !o.SkipFunctions {
		j.raw(`,"functions":[`)
		for i, f := range c.Functions {
			j.comma(i)
			j.function(f)
		}
		j.raw("]")
	}
	j.raw(`,"totals":`)
	j.summary(&totals)
	j.raw(`}],"type":"llvm.coverage.json.export","version":"` + j.version() + `"}`)
	j.flush()
	return j.err
}

type jsonWriter struct {
	coverage *Coverage
	options  *JSONOptions
	w        io.Writer
	buf      []byte
	quoted   map[string][]byte // names of files
	targets  int               // regions written with expansions
	err      error
}

// mostTargets is how many regions are written with expansions. Each has all regions of its function: real ones are far
// fewer, but bytes may say that there are millions, a million times.
const mostTargets = 1 << 27

// version is that of the format.
func (j *jsonWriter) version() string {
	switch v := j.coverage.rules.Version; {
	case v >= 22:
		return "3.1.0"
	case v >= 21:
		return "3.0.1"
	case v >= 11:
		return "2.0.1"
	}
	return "2.0.0"
}

// flush writes what there is, and after an error nothing more.
func (j *jsonWriter) flush() {
	if j.err == nil {
		_, j.err = j.w.Write(j.buf)
	}
	j.buf = j.buf[:0]
}

func (j *jsonWriter) raw(s string) { j.buf = append(j.buf, s...) }

func (j *jsonWriter) comma(i int) {
	if i > 0 {
		j.buf = append(j.buf, ',')
	}
}

func (j *jsonWriter) quote(s string) {
	plain := true
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x80 || c == '"' || c == '\\' {
			plain = false
		}
	}
	if plain {
		j.buf = append(append(append(j.buf, '"'), s...), '"')
		return
	}
	j.buf = append(j.buf, llvmQuoted(s)...)
}

// llvmQuoted is a string as LLVM quotes it: other than by encoding/json only what must be is escaped.
func llvmQuoted(s string) []byte {
	b := []byte{'"'}
	for _, r := range s { // what is no UTF-8 becomes U+FFFD
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r < ' ':
			escaped, _ := json.Marshal(string(r))
			b = append(b, escaped[1:len(escaped)-1]...)
		default:
			b = append(b, string(r)...)
		}
	}
	return append(b, '"')
}

// filename is a name that recurs.
func (j *jsonWriter) filename(name string) {
	q, ok := j.quoted[name]
	if !ok {
		at := len(j.buf)
		j.quote(name)
		if j.quoted == nil {
			j.quoted = make(map[string][]byte)
		}
		j.quoted[name] = append([]byte(nil), j.buf[at:]...)
		return
	}
	j.buf = append(j.buf, q...)
}

func (j *jsonWriter) filenames(list []string) {
	j.raw("[")
	for i, name := range list {
		j.comma(i)
		j.filename(name)
	}
	j.raw("]")
}

// file writes a file; LLVM writes the keys in their order, from 23 on but for some.
func (j *jsonWriter) file(name string) Summary {
	v := j.coverage.rules.Version
	streams := v >= 23
	s := j.coverage.FileSummary(name)
	key := "{"
	next := func(k string) {
		j.raw(key + `"` + k + `":`)
		key = ","
	}
	if streams {
		next("filename")
		j.filename(name)
	}
	var d Data
	if !j.options.SummaryOnly {
		d = j.coverage.FileData(name)
		if v >= 12 {
			next("branches")
			j.branches(d.Branches, false)
		}
		if !j.options.SkipExpansions {
			next("expansions")
			j.expansions(d.Expansions)
		}
	}
	if !streams {
		next("filename")
		j.filename(name)
	}
	if !j.options.SummaryOnly {
		if v >= 18 {
			next("mcdc_records")
			j.decisions(d.Decisions)
		}
		next("segments")
		j.segments(d.Segments)
	}
	next("summary")
	j.summary(&s)
	j.raw("}")
	return s
}

func (j *jsonWriter) number(n uint64) {
	j.buf = strconv.AppendUint(j.buf, min(n, math.MaxInt64), 10)
}

func (j *jsonWriter) numbers(list ...uint64) {
	for i, n := range list {
		j.comma(i)
		j.number(n)
	}
}

func (j *jsonWriter) bool(b bool) { j.buf = strconv.AppendBool(j.buf, b) }

func (j *jsonWriter) segments(list []Segment) {
	j.raw("[")
	for i := range list {
		s := &list[i]
		j.comma(i)
		j.raw("[")
		j.numbers(uint64(s.Line), uint64(s.Column), s.Count)
		if j.coverage.rules.Version < 11 {
			j.raw(",")
			j.bool(s.HasCount)
			j.raw(",")
			j.bool(s.Entry)
			j.raw("]")
			continue
		}
		for _, b := range [3]bool{s.HasCount, s.Entry, s.Gap} {
			j.raw(",")
			j.bool(b)
		}
		j.raw("]")
	}
	j.raw("]")
}

func (j *jsonWriter) region(g *Region) {
	j.raw("[")
	j.numbers(uint64(g.Line), uint64(g.Column), uint64(g.EndLine), uint64(g.EndColumn), g.Count, uint64(g.File), uint64(g.Expanded), uint64(g.Kind))
	j.raw("]")
}

func (j *jsonWriter) regions(list []Region) {
	j.raw("[")
	for i := range list {
		j.comma(i)
		j.region(&list[i])
	}
	if len(j.buf) > 1<<16 {
		j.flush()
	}
	j.raw("]")
}

// branches writes branches; without those that are constant, if so asked.
func (j *jsonWriter) branches(list []Region, foldedOut bool) {
	j.raw("[")
	n := 0
	for i := range list {
		if b := &list[i]; !foldedOut || !b.FoldTrue || !b.FoldFalse {
			j.comma(n)
			j.branch(b)
			n++
		}
	}
	j.raw("]")
}

func (j *jsonWriter) branch(b *Region) {
	j.raw("[")
	j.numbers(uint64(b.Line), uint64(b.Column), uint64(b.EndLine), uint64(b.EndColumn), b.Count, b.FalseCount, uint64(b.File), uint64(b.Expanded), uint64(b.Kind))
	j.raw("]")
}

func (j *jsonWriter) expansions(list []Expanded) {
	j.raw("[")
	for i, e := range list {
		if j.targets += len(e.Function.Regions); j.targets > mostTargets && j.err == nil {
			j.err = fmt.Errorf("function %s: more than %d regions of expansions: is its mapping damaged?", e.Function.Name, mostTargets)
		}
		if j.err != nil {
			break
		}
		j.comma(i)
		key := "{"
		if j.coverage.rules.Version >= 23 {
			j.raw(`{"filenames":`)
			j.filenames(e.Function.Files)
			key = ","
		}
		if j.coverage.rules.Version >= 12 {
			j.raw(key + `"branches":`)
			j.nested(e)
			key = ","
		}
		if j.coverage.rules.Version < 23 {
			j.raw(key + `"filenames":`)
			j.filenames(e.Function.Files)
		}
		j.raw(`,"source_region":`)
		j.region(e.Region)
		j.raw(`,"target_regions":`)
		j.regions(e.Function.Regions)
		j.raw("}")
	}
	j.raw("]")
}

// nested writes the branches of an expansion, those of expansions in it first.
func (j *jsonWriter) nested(e Expanded) {
	var list []Region
	for _, b := range e.Function.expandedBranches(e.Expanded) {
		list = append(list, *b.Region)
	}
	for i := range e.Function.Branches {
		if b := &e.Function.Branches[i]; b.File == e.Expanded {
			list = append(list, *b)
		}
	}
	j.branches(list, true)
}

func (j *jsonWriter) decisions(list []*MCDC) {
	j.raw("[")
	for i, m := range list {
		j.comma(i)
		j.decision(m)
	}
	j.raw("]")
}

func (j *jsonWriter) decision(m *MCDC) {
	v := j.coverage.rules.Version
	j.raw("[")
	j.numbers(uint64(m.Line), uint64(m.Column), uint64(m.EndLine), uint64(m.EndColumn))
	if v >= 20 {
		var results [2]uint64
		for i := range m.Vectors {
			results[b2u(m.Vectors[i].Result)]++
		}
		j.raw(",")
		j.numbers(results[1], results[0], uint64(m.File))
	}
	j.raw(",0,")
	j.number(uint64(Decision))
	j.raw(",[")
	for i := range m.Conditions {
		j.comma(i)
		j.bool(m.Conditions[i].Covered)
	}
	j.raw("]")
	if v >= 22 {
		j.raw(",[")
		for i := range m.Vectors {
			j.comma(i)
			j.vector(&m.Vectors[i])
		}
		j.raw("]")
	}
	j.raw("]")
}

func (j *jsonWriter) vector(t *Vector) {
	j.raw(`{"conditions":[`)
	for i, value := range t.Values {
		j.comma(i)
		if value < 0 {
			j.raw("null")
		} else {
			j.bool(value == 1)
		}
	}
	j.raw(`],"executed":true,"result":`)
	j.bool(t.Result)
	j.raw("}")
}

func (j *jsonWriter) function(f *Function) {
	v := j.coverage.rules.Version
	key := "{"
	if v >= 12 {
		j.raw(`{"branches":`)
		j.branches(f.Branches, true)
		key = ","
	}
	j.raw(key + `"count":`)
	j.number(f.Count)
	j.raw(`,"filenames":`)
	j.filenames(f.Files)
	if v >= 18 {
		j.raw(`,"mcdc_records":[`)
		for i := range f.Decisions {
			j.comma(i)
			j.decision(&f.Decisions[i])
		}
		j.raw("]")
	}
	j.raw(`,"name":`)
	j.quote(f.Name)
	j.raw(`,"regions":`)
	j.regions(f.Regions)
	j.raw("}")
}

// summary writes totals.
func (j *jsonWriter) summary(s *Summary) {
	type part struct {
		key       string
		ratio     Ratio
		withMiss  bool
		since     int
		streaming int // its place since LLVM 23
	}
	parts := []part{
		{"branches", s.Branches, true, 12, 4}, {"functions", s.Functions, false, 0, 1}, {"instantiations", s.Instantiations, false, 0, 2},
		{"lines", s.Lines, false, 0, 0}, {"mcdc", s.Conditions, true, 18, 5}, {"regions", s.Regions, true, 0, 3},
	}
	v := j.coverage.rules.Version
	if v >= 23 {
		ordered := make([]part, len(parts))
		for _, p := range parts {
			ordered[p.streaming] = p
		}
		parts = ordered
	}
	n := 0
	for _, p := range parts {
		if v < p.since {
			continue
		}
		if j.raw("{"); n > 0 {
			j.buf[len(j.buf)-1] = ','
		}
		n++
		j.raw(`"` + p.key + `":{"count":`)
		j.numbers(uint64(p.ratio.Total))
		j.raw(`,"covered":`)
		j.number(uint64(p.ratio.Covered))
		if p.withMiss {
			j.raw(`,"notcovered":`)
			j.number(uint64(p.ratio.Total - p.ratio.Covered))
		}
		j.raw(`,"percent":`)
		j.buf = strconv.AppendFloat(j.buf, p.ratio.Percent(), 'g', 17, 64)
		j.raw("}")
	}
	j.raw("}")
}
