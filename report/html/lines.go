package html

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"footfall/coverage"
	"footfall/demangle"
	"footfall/output"
	"footfall/report/exclude"
	"footfall/report/source"
)

// Lines are items of lists, their counts the first thing in them; CSS puts
// numbers, counts and outcomes in front of the code. Redis has 156,000 lines
// for 10 MB, so that elements have short names and no end where HTML needs none:
//
//	<li>                              no code
//	<li><b>12</b>                     ran; class h1 to h4 for each factor of 100
//	<li><b class=p>12</b>             ran in part; p1 to p4
//	<li><u>0</u>                      never ran; class x: only an exception leads here
//	<li><u>0</u><u>0/2</u>            and so did its branches
//	<li id=L7>                        a function begins here
//	<li class=c>                      changed, by the patch of the report
//	<li class=e>                      excluded; why, at the end of the first such line
//	<details><summary>1/2</summary>   outcomes of a line that ran, after it
//
// A new list begins every chunk lines; browsers lay out only those in sight. It
// is in an element of its own, since numbers do not get out of what is laid out
// or not.
const chunk = 256

// Limits of a page, in bytes. Together they stay below 3 MB.
const (
	mostRows      = 2 << 20   // more lines go on in another page
	mostInstances = 256 << 10 // and expansions
	mostFunctions = 400 << 10
)

// A pageWriter makes pages of sources, one after another.
type pageWriter struct {
	*site
	*page
	high      highlighter
	buf       []byte
	prefix    string              // before the identifier of a line, where several sources are in a page
	instances int                 // bytes of instances in this part
	begin     int                 // of the part, in buf
	gap       bool                // the last line with code never ran
	gaps      int                 // of this part
	listed    bool                // a list is open
	last      int32               // number of the last line
	next      int                 // function
	expansion int                 // the first of this line, or a later one
	others    map[string][][]byte // lines of sources that are expanded in this one
	excluded  []exclude.Exclusion // of this source, by line
	marks     []mark              // where lines with code are in buf
}

// A mark is where what an item of a list has in it begins and ends.
type mark struct {
	number   int32
	from, to int
}

// load renders the lines of page i, in parts.
func (w *pageWriter) load(i int) {
	p := w.pages[i]
	p.file = w.Set.At(i)
	w.page, w.buf, w.prefix = p, w.buf[:0], ""
	if w.single {
		w.prefix = p.name + ":"
	}
	source, ok := w.source()
	p.missed = w.missedIn(p)
	cpp := slices.ContainsFunc(p.file.Functions, func(f *coverage.Function) bool { return strings.HasPrefix(f.Name, "_Z") })
	w.high = highlighter{language: languageOf(p.shown, cpp)}
	w.instances, w.begin, w.last, w.next, w.listed, w.gap, w.gaps = 0, 0, 0, 0, false, false, 0
	w.expansion, w.others = 0, make(map[string][][]byte)

	w.marks = w.marks[:0]
	w.excluded = w.Excluded.InFile(p.file.Name)
	lines := p.file.Lines
	patched := w.Patch.HasFile(p.file.Name)
	for number := int32(1); number > 0; number++ {
		var text []byte
		if len(source) > 0 {
			text, source, _ = bytes.Cut(source, []byte("\n"))
			if n := len(text); n > 0 && text[n-1] == '\r' {
				text = text[:n-1]
			}
		} else if number = w.withoutSource(number, lines); number == 0 {
			break
		}
		var l *coverage.Line
		if len(lines) > 0 && lines[0].Number <= number {
			l, lines = &lines[0], lines[1:]
		}
		w.row(number, l, text, ok, patched && w.Patch.Changed(p.file.Name, number))
		if !w.single && len(w.buf)-w.begin > mostRows {
			w.endPart()
		}
	}
	w.endPart()
}

// stale tells whether a source has changed since it was compiled.
func (c *Contents) stale(name string) bool {
	_, found := slices.BinarySearch(c.Stale, name)
	return found
}

// withoutSource returns the next line, from number on, of a source that is not there or
// shorter than it was: one of those that count, or to which a function's name leads. 0:
// there is none.
func (w *pageWriter) withoutSource(number int32, lines []coverage.Line) (next int32) {
	if len(lines) > 0 {
		next = lines[0].Number
	}
	for _, f := range w.file.Functions[w.next:] {
		if f.StartLine >= number {
			if next == 0 || f.StartLine < next {
				next = f.StartLine
			}
			break
		}
	}
	return next
}

// source reads the source and says in the page what is wrong with it.
func (w *pageWriter) source() (text []byte, ok bool) {
	f := w.file
	text, err := w.ReadSource(f.Name)
	if err != nil {
		err = source.WithoutPath(err)
		if w.Elsewhere {
			w.notice = fmt.Sprintf("Here are counts only: %v.", err)
			w.problem = err
			return nil, false
		}
		w.notice = fmt.Sprintf("The source could not be read (%v): these are its counts only. --path-map OLD=NEW tells footfall where sources have moved.", err)
		w.problem = fmt.Errorf("%w: its page has counts only; --path-map says where sources have moved", err)
		return nil, false
	}
	lines := int32(bytes.Count(text, []byte("\n")) + 1)
	switch {
	case len(f.Lines) > 0 && f.Lines[len(f.Lines)-1].Number > lines:
		w.notice = fmt.Sprintf("The source has changed since the build: line %d was counted, and it has only %d. Counts may stand beside other code than was run.", f.Lines[len(f.Lines)-1].Number, lines)
		w.problem = errors.New("shorter than when it was compiled: counts may stand beside other code")
	case w.stale(f.Name):
		w.notice = "The source has changed since it was compiled: counts may stand beside other code than was run."
	case w.Doubt != nil:
		w.notice = w.Doubt(f.Name)
	}
	return text, true
}

func (w *pageWriter) endPart() {
	if w.listed {
		w.text("</ol></div>\n")
	}
	p := part{from: 1, to: w.last, gaps: w.gaps}
	if n := len(w.parts); n > 0 {
		p.from = w.parts[n-1].to + 1
	}
	p.rows = w.buf[w.begin:]
	if p.to >= p.from || len(w.parts) == 0 {
		w.parts = append(w.parts, p)
	}
	w.begin, w.instances, w.listed, w.gap, w.gaps = len(w.buf), 0, false, false, 0
}

func (w *pageWriter) text(s string) { w.buf = append(w.buf, s...) }

func (w *pageWriter) number(n int64) { w.buf = strconv.AppendInt(w.buf, n, 10) }

// row appends a line.
func (w *pageWriter) row(number int32, l *coverage.Line, text []byte, hasSource, changed bool) {
	switch {
	case !w.listed:
		w.list("<div class=code>", number)
	case (number-1)/chunk != (w.last-1)/chunk:
		w.list("</ol></div>\n<div class=code>", number)
	case number != w.last+1:
		w.list("</ol>", number) // <li value=N> would be simpler, but Chromium does not count on from it
	}
	w.last = number
	w.text("<li")
	functions := w.functionsAt(number)
	if len(functions) > 0 {
		w.text(" id=")
		w.address(number)
	}
	rule, excluded := "", false
	if l == nil {
		rule, excluded = w.exclusion(number)
	}
	switch {
	case excluded:
		w.text(" class=e")
	case changed:
		w.text(" class=c")
	}
	w.text(">")
	from := len(w.buf)
	covered, total := w.branchCounts(l)
	if l != nil {
		w.count(l, covered, total)
		if never := l.Count <= 0; never != w.gap {
			if w.gap = never; never {
				w.gaps++
			}
		}
	}
	if hasSource {
		w.buf = w.high.line(w.buf, text)
	} else if len(functions) > 0 {
		w.buf = appendMarked(w.buf, 'i', []byte(demangle.Title(functions[0].Symbols())))
	}
	if rule != "" {
		w.text(" <small>excluded: ")
		w.buf = appendSource(w.buf, []byte(output.Printable(rule)))
		w.text("</small>")
	}
	if slices.ContainsFunc(functions, func(f *coverage.Function) bool { return f.Unused }) {
		w.text(" <small>unused: the program has no code of it</small>")
	}
	w.text("\n")
	if l != nil && l.Count > 0 {
		w.outcomes(l, covered, total)
	}
	for _, f := range functions {
		if len(f.Instances) > 1 {
			w.instanceList(f)
		}
	}
	if list := w.expansionsAt(number); len(list) > 0 && !excluded {
		w.expansions(list, text, 0)
	}
	if l != nil {
		w.marks = append(w.marks, mark{number, from, len(w.buf)})
	}
}

// list begins a list of lines.
func (w *pageWriter) list(before string, number int32) {
	w.text(before)
	w.text("<ol start=")
	w.number(int64(number))
	w.text(">\n")
	w.listed = true
}

// address appends the name of a line. Quotes are left away where HTML needs
// none.
func (w *pageWriter) address(number int32) {
	if w.prefix == "" {
		w.text("L")
		w.number(int64(number))
		return
	}
	w.text(`"`)
	w.text(w.prefix)
	w.text("L")
	w.number(int64(number))
	w.text(`"`)
}

// functionsAt returns the functions that begin at a line. Lines ascend.
func (w *pageWriter) functionsAt(number int32) []*coverage.Function {
	all := w.file.Functions
	for w.next < len(all) && all[w.next].StartLine < number {
		w.next++
	}
	end := w.next
	for end < len(all) && all[end].StartLine == number {
		end++
	}
	return all[w.next:end]
}

// exclusion tells whether a line is excluded, and at the first line of an
// exclusion by which rule. Lines ascend.
func (w *pageWriter) exclusion(number int32) (rule string, excluded bool) {
	for len(w.excluded) > 0 && w.excluded[0].Last < number {
		w.excluded = w.excluded[1:]
	}
	for _, e := range w.excluded {
		if e.First > number {
			break
		}
		if number <= e.Last && (e.What == "lines" || e.What == "function") {
			excluded = true
			if number == e.First {
				rule = e.Rule
			}
		}
	}
	return rule, excluded
}

// counted tells whether the report counts a branch.
func (w *pageWriter) counted(b *coverage.Branch) bool {
	return !b.Exception || w.ExceptionBranches
}

func (w *pageWriter) branchCounts(l *coverage.Line) (covered, total int) {
	if l == nil {
		return 0, 0
	}
	for i := range l.Branches {
		if b := &l.Branches[i]; w.counted(b) {
			total++
			if b.Count > 0 {
				covered++
			}
		}
	}
	return covered, total
}

// count appends the count of a line, and the branches of one that never ran.
func (w *pageWriter) count(l *coverage.Line, covered, total int) {
	if l.Count <= 0 {
		if l.Exceptional {
			w.text("<u class=x>0</u>")
		} else {
			w.text("<u>0</u>")
		}
		if total > 0 {
			w.text("<u>0/")
			w.number(int64(total))
			w.text("</u>")
		}
		return
	}
	heat := byte('0')
	for _, least := range []int64{10, 1e3, 1e5, 1e7} {
		if l.Count >= least {
			heat++
		}
	}
	w.text("<b")
	switch partial := covered < total || l.Unexecuted || missesCondition(l); {
	case partial && heat == '0':
		w.text(" class=p")
	case partial:
		w.buf = append(w.buf, " class=p"...)
		w.buf = append(w.buf, heat)
	case heat > '0':
		w.buf = append(w.buf, " class=h"...)
		w.buf = append(w.buf, heat)
	}
	if l.Count >= 1e9 {
		w.text(` title="`)
		w.buf = appendGrouped(w.buf, l.Count)
		w.text(`"`)
	}
	w.text(">")
	w.buf = appendShortCount(w.buf, l.Count)
	w.text("</b>")
}

func missesCondition(l *coverage.Line) bool {
	for _, c := range l.Conditions {
		for _, t := range c.Terms {
			if !t.True || !t.False {
				return true
			}
		}
	}
	return false
}

// appendShortCount appends a count in nine characters at most: exactly below a
// milliard, above that as 12.34G.
func appendShortCount(buf []byte, n int64) []byte {
	if n < 1e9 {
		return strconv.AppendInt(buf, n, 10)
	}
	const units = "GTPE"
	unit := 0
	for n /= 1e7; n >= 1e5 && unit < len(units)-1; unit++ {
		n /= 1e3
	}
	return fmt.Appendf(buf, "%d.%02d%c", n/100, n%100, units[unit])
}

// appendGrouped appends a number with commas at the thousands.
func appendGrouped(buf []byte, n int64) []byte {
	var digits [24]byte
	d := strconv.AppendInt(digits[:0], n, 10)
	for i, c := range d {
		if i > 0 && c != '-' && d[i-1] != '-' && (len(d)-i)%3 == 0 {
			buf = append(buf, ',')
		}
		buf = append(buf, c)
	}
	return buf
}

// writeFiles writes the pages of the i-th source.
func (w *pageWriter) writeFiles(dir *output.Dir, i int) error {
	w.load(i)
	p := w.page
	for k := range p.parts {
		d, err := w.sourceData(i, k)
		if err == nil {
			err = w.writePage(dir, p.partName(k), "file.html", &d)
		}
		if err != nil {
			return err
		}
	}
	for k := range p.parts {
		p.parts[k].rows = nil // they lie in buf, which the next page overwrites
	}
	p.file = nil
	return nil
}

// sourceData is what the frame of a source shows.
type sourceData struct {
	pageData
	Name             string
	ID               string
	Crumbs           []crumb
	Base             string
	Widths           string // classes for the widths of numbers and counts
	Notice           string
	FunctionsSummary string
	Functions        template.HTML
	Rows             template.HTML
	Parts            []partData
	Previous, Next   *link
	Main             template.HTML // all that, in its frame
}

type crumb struct{ Name, Target string }

type link struct{ Name, Target string }

type partData struct {
	From, To int32
	Gaps     int
	Target   string
	Current  bool
}

func (w *pageWriter) sourceData(i, k int) (sourceData, error) {
	p := w.pages[i]
	d := sourceData{pageData: w.pageData("../", p.path, p.shown, p.sum), Name: p.shown, ID: p.name, Notice: p.notice, Widths: p.widths()}
	if w.single {
		d.Root = ""
	}
	d.Crumbs, d.Base = crumbs(p.shown)
	d.FunctionsSummary, d.Functions = w.functions(p.parts[k])
	d.Rows = template.HTML(p.parts[k].rows)
	for n, part := range p.parts {
		if len(p.parts) > 1 {
			d.Parts = append(d.Parts, partData{part.from, part.to, part.gaps, p.partName(n), n == k})
		}
	}
	if i > 0 {
		d.Previous = w.link(w.pages[i-1])
	}
	if i+1 < len(w.pages) {
		d.Next = w.link(w.pages[i+1])
	}
	var b strings.Builder
	err := templates().ExecuteTemplate(&b, "lines", &d)
	d.Main = template.HTML(b.String())
	return d, err
}

func (s *site) link(p *page) *link {
	if s.single {
		return &link{p.shown, "#" + p.name}
	}
	return &link{p.shown, p.name + ".html"}
}

// target is the address of a line, seen from index.html, of a function or of a
// part's first line.
func (s *site) target(p *page, line int32) string {
	if s.single {
		return fmt.Sprintf("#%s:L%d", p.name, line)
	}
	k := 0
	for k+1 < len(p.parts) && p.parts[k].to < line {
		k++
	}
	return fmt.Sprintf("%s/%s#L%d", pagesDir, p.partName(k), line)
}

// mostCrumbs is how deep directories are told apart. A report can name one that no
// file system has, of which each would be written as often as it is deep.
const mostCrumbs = 64

// crumbs are the directories of a path, each with what the index filters by.
func crumbs(path string) ([]crumb, string) {
	var list []crumb
	from, last := 0, strings.LastIndexByte(path, '/')
	for i := range len(path) {
		if path[i] == '/' && (len(list) < mostCrumbs-1 || i == last) {
			list = append(list, crumb{path[from : i+1], path[:i+1]})
			from = i + 1
		}
	}
	return list, path[from:]
}

// widths are classes for as many characters as the page's numbers and counts
// need.
func (p *page) widths() string {
	number, count := 3, 4
	if n := len(p.parts); n > 0 {
		number = max(number, len(strconv.Itoa(int(p.parts[n-1].to))))
	}
	var digits [32]byte
	for i := range p.file.Lines {
		if c := p.file.Lines[i].Count; c >= 1e4 {
			count = max(count, len(appendShortCount(digits[:0], c)))
		}
	}
	return fmt.Sprintf("n%d w%d", number, count)
}
