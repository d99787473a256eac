// Package exclude takes out of a [coverage.Set] what should not count: what markers in
// the sources exclude (LCOV_EXCL_LINE and the like), and what options exclude by the text of
// lines or the names of functions. What was taken out is told by rule, as [Excluded].
//
// Whole files are left out before they are read; that is package source's.
package exclude

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"footfall/coverage"
	"footfall/demangle"
	"footfall/input"
	"footfall/report/source"
)

// Options are what a user wants to be left out, other than whole files.
type Options struct {
	Lines, Branches []string // regular expressions that fit the text of the line
	Functions       []string // patterns of names, with * and ?
	NonCode         bool     // lines whose text has no code
	NoMarkers       bool     // take no notice of markers
	MarkerPrefixes  []string // what markers begin with
	// Differs is told of sources, by their name in the Set, that are shorter than what was
	// compiled: they are not what ran. Several calls may run at once; nil: nobody is told.
	Differs func(name string)
	// ReadInto reads a source by its name in the Set into a buffer, or where there is more
	// room. The buffer is used again, but not after an error. nil reads regular files.
	ReadInto func(buf []byte, name string) ([]byte, error)
}

// Exclusions leaves out of sets what their sources and the user exclude. It may
// be used for one set at a time, and remembers what the sources say.
type Exclusions struct {
	options         Options
	lines, branches []*regexp.Regexp
	functions       []namePattern
	sources         sync.Map // by name: *sourceRules
	buffers         sync.Pool
}

// New checks o.
func New(o Options) (*Exclusions, error) {
	e := &Exclusions{options: o}
	if e.options.ReadInto == nil {
		e.options.ReadInto = func(buf []byte, name string) ([]byte, error) {
			text, _, err := (*input.Owners)(nil).ReadInto(buf, name, input.MostSource)
			return text, err
		}
	}
	for _, list := range []struct {
		option   string
		patterns []string
		into     *[]*regexp.Regexp
	}{{"--exclude-lines", o.Lines, &e.lines}, {"--exclude-branches", o.Branches, &e.branches}} {
		for _, p := range list.patterns {
			re, err := regexp.Compile(p)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", list.option, err)
			}
			*list.into = append(*list.into, re)
		}
	}
	for _, p := range o.Functions {
		if p == "" {
			return nil, errors.New(`--exclude-functions "" names no function`)
		}
		e.functions = append(e.functions, newNamePattern(p))
	}
	for _, p := range o.MarkerPrefixes {
		if p == "" || strings.ContainsFunc(p, func(r rune) bool { return r > 127 || !isWord(byte(r)) }) {
			return nil, fmt.Errorf("--marker-prefix %q is not a word of letters, digits and _", p)
		}
	}
	return e, nil
}

// A namePattern chooses functions by name.
type namePattern struct {
	text string
	re   *regexp.Regexp
}

func newNamePattern(text string) namePattern {
	re := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(text))
	return namePattern{text, regexp.MustCompile(`\A(?s:` + re + `)\z`)}
}

// An Exclusion is something that was left out of a report.
type Exclusion struct {
	File        string // its name in the Set
	First, Last int32  // lines
	// What is left out: "lines", "function", "branches" (with the conditions) or
	// "exception branches".
	What string
	// Rule is the marker, or the option with its value.
	Rule string
	// Function is the one that the rule is about, as the linker knows it, else "".
	Function string
	// What there was, and how much of it had run.
	Lines, Functions, Branches coverage.Ratio
}

var scopeNames = map[scope]string{
	wholeLines: "lines", unreachableLines: "lines", branchScope: "branches", exceptionScope: "exception branches",
}

// Excluded is what was left out of a set.
type Excluded struct {
	List   []Exclusion     // by file and line
	Totals coverage.Totals // of all; what several rules exclude counts once
}

// String says how much was left out, as in "12 lines, 1 function excluded".
func (e Excluded) String() string {
	t := e.Totals
	var parts []string
	for _, m := range []struct {
		coverage.Ratio
		one, many string
	}{
		{t.Lines, "line", "lines"}, {t.Functions, "function", "functions"},
		{t.Branches, "branch", "branches"}, {t.ExceptionBranches, "branch of exceptions", "branches of exceptions"}, {t.Conditions, "outcome of conditions", "outcomes of conditions"},
	} {
		switch {
		case m.Total == 0:
			continue
		case m.Total == 1:
			parts = append(parts, "1 "+m.one)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", m.Total, m.many))
		}
	}
	if len(parts) == 0 {
		return "nothing is excluded"
	}
	return strings.Join(parts, ", ") + " excluded"
}

// Add adds what else was left out.
func (e *Excluded) Add(other Excluded) {
	e.List = append(e.List, other.List...)
	slices.SortStableFunc(e.List, func(a, b Exclusion) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.First, b.First))
	})
	e.Totals.Add(other.Totals)
}

// InFile returns the part of the list that is about a file.
func (e *Excluded) InFile(file string) []Exclusion {
	from, _ := slices.BinarySearchFunc(e.List, file, func(x Exclusion, file string) int { return cmp.Compare(x.File, file) })
	to := from
	for to < len(e.List) && e.List[to].File == file {
		to++
	}
	return e.List[from:to]
}

// Apply takes out of the set what is excluded, and returns what that was. A
// function is left out if the line is on which it starts. The problems are
// sources that cannot be read, and markers that cannot mean what they say;
// shown gives the names of files in them.
func (e *Exclusions) Apply(set *coverage.Set, shown func(string) string) (excluded Excluded, problems []source.Problem) {
	if e.idle() {
		return excluded, nil
	}
	work := make([]exclusion, set.Len())
	set.Update(func(i int, f *coverage.File) coverage.Update {
		w := &work[i]
		*w = exclusion{Exclusions: e, file: f, shown: shown(f.Name)}
		change := w.apply()
		w.file = nil // it may be large
		if len(f.Lines)+len(f.Functions) == 0 {
			return coverage.Gone
		}
		return change
	})
	for i := range work {
		excluded.List = append(excluded.List, work[i].excluded...)
		excluded.Totals.Add(work[i].totals)
		problems = append(problems, work[i].problems...)
	}
	return excluded, problems
}

// idle tells that there is nothing to look for.
func (e *Exclusions) idle() bool {
	return e.options.NoMarkers && !e.options.NonCode && len(e.lines)+len(e.branches)+len(e.functions) == 0
}

// Asked are those that options ask for, without what markers say; nil: there are none.
func (e *Exclusions) Asked() *Exclusions {
	asked := &Exclusions{options: e.options, lines: e.lines, branches: e.branches, functions: e.functions}
	asked.options.NoMarkers = true
	if asked.idle() {
		return nil
	}
	return asked
}

// sourceRules is what a source says, whatever runs.
type sourceRules struct {
	regions   []region
	functions []marker // EXCL_FUNCTION and the like
	unhit     []marker // EXCL_BR_WITHOUT_HIT
	sources   []marker // EXCL_BR_SOURCE
	nonCode   []int32  // lines
	lines     int      // that the source has
	wrong     []markerError
	err       error // the source cannot be read
}

// rules returns what the source says; it reads each source once.
func (e *Exclusions) rules(name string) *sourceRules {
	if r, ok := e.sources.Load(name); ok {
		return r.(*sourceRules)
	}
	r := &sourceRules{}
	if !e.options.NoMarkers || e.options.NonCode || len(e.lines)+len(e.branches) > 0 {
		r.err = e.scan(r, name)
	}
	e.sources.Store(name, r)
	return r
}

// scan takes from a source what it says. Sources are most of what is read for a report,
// and nothing of their text is kept: so the memory is used again.
func (e *Exclusions) scan(r *sourceRules, name string) error {
	const enough, mostKept = 1 << 19, 1 << 20
	buf, _ := e.buffers.Get().(*[]byte)
	if buf == nil { // as much as the largest need: where nothing was read yet are no pages
		b := make([]byte, 0, enough)
		buf = &b
	}
	src, err := e.options.ReadInto((*buf)[:0:cap(*buf)], name)
	if err != nil {
		return err
	}
	r.lines = bytes.Count(src, []byte("\n")) + 1
	e.read(r, src)
	if *buf = src; cap(src) <= mostKept {
		e.buffers.Put(buf)
	}
	return nil
}

// Concern tells whether something may be taken out of a file.
func (e *Exclusions) Concern(name string) bool {
	if e.idle() {
		return false
	}
	r := e.rules(name)
	return len(e.functions)+len(r.regions)+len(r.functions)+len(r.unhit)+len(r.sources)+len(r.nonCode) > 0
}

func (e *Exclusions) read(r *sourceRules, src []byte) {
	if !e.options.NoMarkers {
		markers, wrong := scanMarkers(src, e.options.MarkerPrefixes)
		regions, unpaired := markedRegions(markers)
		r.regions, r.wrong = regions, append(wrong, unpaired...)
		for _, m := range markers {
			switch m.verb {
			case onFunction:
				r.functions = append(r.functions, m)
			case onUnhit:
				r.unhit = append(r.unhit, m)
			case onSources:
				r.sources = append(r.sources, m)
			}
		}
	}
	if !e.options.NonCode && len(e.lines)+len(e.branches) == 0 {
		return
	}
	for number := int32(1); len(src) > 0; number++ {
		var text []byte
		text, src, _ = bytes.Cut(src, []byte("\n"))
		text = bytes.TrimSuffix(text, []byte("\r"))
		for _, re := range e.lines {
			if re.Match(text) {
				r.regions = append(r.regions, region{first: number, last: number, scope: wholeLines, rule: "--exclude-lines " + re.String()})
			}
		}
		for _, re := range e.branches {
			if re.Match(text) {
				r.regions = append(r.regions, region{first: number, last: number, scope: branchScope, rule: "--exclude-branches " + re.String()})
			}
		}
		if e.options.NonCode && isNonCode(text) {
			r.nonCode = append(r.nonCode, number)
		}
	}
}

var commentRegexp = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`//.*|/\*.*?\*/|/\*.*`) })

// isNonCode tells whether the text of a line has no code of its own: braces,
// comments, "else", or the statement that says that it is never reached.
func isNonCode(text []byte) bool {
	text = bytes.TrimSpace(text)
	if bytes.Contains(text, []byte("/")) {
		text = bytes.TrimSpace(commentRegexp().ReplaceAll(text, nil))
	}
	switch string(text) {
	case "else", "} else {", "else {", "} else", "__builtin_unreachable();", "std::unreachable();", "unreachable();":
		return true
	}
	return len(bytes.Trim(text, "{}();, \t")) == 0
}

// An exclusion is the work on one file.
type exclusion struct {
	*Exclusions
	file     *coverage.File
	shown    string
	rules    *sourceRules
	regions  []region
	excluded []Exclusion
	totals   coverage.Totals // of what is left out
	problems []source.Problem
}

func (x *exclusion) problem(kind string, line int32, err error) {
	p := source.NewProblem(kind, x.shown, err)
	p.Line = line
	x.problems = append(x.problems, p)
}

func (x *exclusion) apply() coverage.Update {
	x.rules = x.Exclusions.rules(x.file.Name)
	if err := x.rules.err; err != nil {
		x.problem(source.NoSource, 0, fmt.Errorf("%w: what it excludes is not known; --path-map says where sources have moved, --no-markers that nothing is excluded in them", source.WithoutPath(err)))
	}
	if n := len(x.file.Lines); n > 0 && x.rules.lines > 0 && int(x.file.Lines[n-1].Number) > x.rules.lines && x.options.Differs != nil {
		x.options.Differs(x.file.Name)
	}
	for _, w := range x.rules.wrong {
		x.problem(source.WrongMarkers, w.line, w.err)
	}
	x.regions = slices.Clone(x.rules.regions)
	x.markedFunctions()
	named := x.namedFunctions()
	x.unhit()
	if len(x.regions)+len(x.rules.nonCode)+len(x.rules.sources) == 0 {
		return coverage.Same
	}
	x.totals = x.file.Totals()
	x.leading()
	x.list()
	x.remove(named)
	x.totals = x.totals.Minus(x.file.Totals())
	return coverage.Changed
}

// markedFunctions makes regions of the functions that have a marker.
func (x *exclusion) markedFunctions() {
	for _, m := range x.rules.functions {
		i := slices.IndexFunc(x.file.Functions, func(f *coverage.Function) bool {
			return f.StartLine == m.line && m.column > f.StartColumn && (f.EndLine != m.line || m.column < f.EndColumn)
		})
		if i < 0 {
			x.problem(source.WrongMarkers, m.line, fmt.Errorf("%s, but no function begins on the line before it: it excludes nothing", m.word))
			continue
		}
		x.regions = append(x.regions, x.body(i, m.scope, m.word))
	}
}

// body is the region of the i-th function, with all that is in it.
func (x *exclusion) body(i int, s scope, rule string) region {
	f := x.file.Functions[i]
	return region{first: f.StartLine, last: lastLine(x.file, i), scope: s, rule: rule, function: f.Name}
}

// lastLine is the last line of the i-th function of f. Where its end is not
// known it goes on to the next function.
func lastLine(f *coverage.File, i int) int32 {
	fn := f.Functions[i]
	if fn.EndLine >= fn.StartLine {
		return fn.EndLine
	}
	for _, next := range f.Functions[i+1:] {
		if next.StartLine > fn.StartLine {
			return next.StartLine - 1
		}
	}
	if n := len(f.Lines); n > 0 {
		return max(fn.StartLine, f.Lines[n-1].Number)
	}
	return fn.StartLine
}

// namedFunctions makes regions of the functions that the patterns fit, and
// returns these functions.
func (x *exclusion) namedFunctions() map[*coverage.Function]bool {
	var named map[*coverage.Function]bool
	if len(x.functions) == 0 {
		return nil
	}
	for i, f := range x.file.Functions {
		names := make([][]string, len(f.Instances))
		for k, in := range f.Instances {
			names[k] = demangle.Spellings(in.Name)
		}
		for _, p := range x.functions {
			fits := 0
			for _, of := range names {
				if slices.ContainsFunc(of, p.re.MatchString) {
					fits++
				}
			}
			switch {
			case fits == 0:
				continue
			case fits < len(f.Instances):
				x.problem("functions of which not all instances are excluded", f.StartLine,
					fmt.Errorf("--exclude-functions %q fits %d of the %d instances of %s, which have their lines in common: not excluded", p.text, fits, len(f.Instances), demangle.Bare(f.Name)))
				continue
			}
			if named == nil {
				named = make(map[*coverage.Function]bool)
			}
			named[f] = true
			x.regions = append(x.regions, x.body(i, wholeLines, "--exclude-functions "+p.text))
			break
		}
	}
	return named
}

// unhit makes regions of the lines whose branches a marker allows to be missed,
// if it tells their number right. Branches of exceptions may be counted or not.
func (x *exclusion) unhit() {
	for _, m := range x.rules.unhit {
		l := x.line(m.line)
		if l == nil {
			x.problem(source.WrongMarkers, m.line, fmt.Errorf("%s on a line without code", m.word))
			continue
		}
		var all, own coverage.Ratio // own: without those of exceptions
		for _, b := range l.Branches {
			all = all.Plus(one(b.Count > 0))
			if !b.Exception {
				own = own.Plus(one(b.Count > 0))
			}
		}
		if want := (coverage.Ratio{Covered: m.total - m.unhit, Total: m.total}); want != all && want != own {
			x.problem(source.WrongMarkers, m.line, fmt.Errorf("%s: %d/%d, but %d of %d branches are not taken: it excludes nothing", m.word, m.unhit, m.total, own.Missed(), own.Total))
			continue
		}
		x.regions = append(x.regions, region{first: m.line, last: m.line, scope: branchScope, rule: fmt.Sprintf("%s: %d/%d", m.word, m.unhit, m.total)})
	}
}

// leading takes out the branches of a function that lead to the code that ends on
// a marked line of it, such as an error that cannot be provoked.
func (x *exclusion) leading() {
	for _, m := range x.rules.sources {
		e := Exclusion{File: x.file.Name, First: m.line, Last: m.line, What: "branches", Rule: m.word}
		from, to := x.around(m.line)
		lines := x.within(from, to)
		for i := range lines {
			l := &lines[i]
			l.DeleteBranches(func(b coverage.Branch) bool {
				if b.To != m.line {
					return false
				}
				e.Branches = e.Branches.Plus(one(b.Count > 0))
				return true
			})
		}
		if e.Branches.Total == 0 {
			x.problem(source.WrongMarkers, m.line, fmt.Errorf("%s, but no branch leads to code that ends on the line: it excludes nothing", m.word))
			continue
		}
		x.excluded = append(x.excluded, e)
	}
}

// around returns the first and the last line of the innermost function that a
// line is in, of none 1 and 0.
func (x *exclusion) around(line int32) (first, last int32) {
	first = 1
	for i, f := range x.file.Functions {
		if f.StartLine <= line && line <= lastLine(x.file, i) && f.StartLine >= first {
			first, last = f.StartLine, lastLine(x.file, i)
		}
	}
	return first, last
}

func one(covered bool) coverage.Ratio {
	if covered {
		return coverage.Ratio{Covered: 1, Total: 1}
	}
	return coverage.Ratio{Total: 1}
}

// line returns a line that has code, else nil.
func (x *exclusion) line(number int32) *coverage.Line {
	if i, ok := x.search(number); ok {
		return &x.file.Lines[i]
	}
	return nil
}

func (x *exclusion) search(number int32) (int, bool) {
	return slices.BinarySearchFunc(x.file.Lines, number, func(l coverage.Line, n int32) int { return cmp.Compare(l.Number, n) })
}

// within returns the lines with code from first to last.
func (x *exclusion) within(first, last int32) []coverage.Line {
	from, _ := x.search(first)
	to := from
	if last >= first {
		to, _ = slices.BinarySearchFunc(x.file.Lines, last, func(l coverage.Line, n int32) int {
			if l.Number <= n {
				return -1
			}
			return 1
		})
	}
	return x.file.Lines[from:to]
}

const nonCodeRule = "--exclude-noncode"

// list notes what is going to be left out. A region without code leaves out
// nothing, and is not listed.
func (x *exclusion) list() {
	for _, r := range x.regions {
		e := Exclusion{File: x.file.Name, First: r.first, Last: r.last, What: scopeNames[r.scope], Rule: r.rule, Function: r.function}
		if r.function != "" && r.scope == wholeLines {
			e.What = "function"
		}
		for _, l := range x.within(r.first, r.last) {
			if r.scope == unreachableLines && l.Count > 0 {
				continue
			}
			e.add(&l, r.scope)
		}
		x.addFunctions(&e, r)
		if e.Lines.Total+e.Functions.Total+e.Branches.Total > 0 {
			x.excluded = append(x.excluded, e)
		}
	}
	for _, n := range x.rules.nonCode {
		l := x.line(n)
		switch {
		case l == nil:
		case l.Count <= 0:
			e := Exclusion{File: x.file.Name, First: n, Last: n, What: "lines", Rule: nonCodeRule}
			e.add(l, wholeLines)
			x.excluded = append(x.excluded, e)
		case len(l.Branches)+len(l.Conditions) > 0:
			e := Exclusion{File: x.file.Name, First: n, Last: n, What: "branches", Rule: nonCodeRule}
			e.add(l, branchScope)
			x.excluded = append(x.excluded, e)
		}
	}
	slices.SortStableFunc(x.excluded, func(a, b Exclusion) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(b.Last, a.Last))
	})
}

// addFunctions counts the functions that start in the region.
func (x *exclusion) addFunctions(e *Exclusion, r region) {
	if r.scope != wholeLines && r.scope != unreachableLines {
		return
	}
	functions := x.file.Functions
	from, _ := slices.BinarySearchFunc(functions, r.first, func(f *coverage.Function, n int32) int { return cmp.Compare(f.StartLine, n) })
	for _, f := range functions[from:] {
		if f.StartLine > r.last {
			return
		}
		if r.scope == wholeLines || f.Count <= 0 {
			e.Functions = e.Functions.Plus(one(f.Count > 0))
		}
	}
}

// add counts what of the line is left out.
func (e *Exclusion) add(l *coverage.Line, s scope) {
	if s == wholeLines || s == unreachableLines {
		e.Lines = e.Lines.Plus(one(l.Count > 0))
	}
	for _, b := range l.Branches {
		if (b.Exception || s == exceptionScope && b.Throw) == (s == exceptionScope) {
			e.Branches = e.Branches.Plus(one(b.Count > 0))
		}
	}
}

// A span is lines from first to last.
type span struct{ first, last int32 }

// spans are ordered and do not touch.
type spans []span

// spansOf returns the lines of the regions of a scope.
func (x *exclusion) spansOf(s scope) spans {
	var all spans
	for _, r := range x.regions {
		if r.scope == s {
			all = append(all, span{r.first, r.last})
		}
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	var joined spans
	for _, s := range all {
		if n := len(joined); n > 0 && int64(s.first) <= int64(joined[n-1].last)+1 {
			joined[n-1].last = max(joined[n-1].last, s.last)
		} else {
			joined = append(joined, s)
		}
	}
	return joined
}

func (s spans) has(n int32) bool {
	i, _ := slices.BinarySearchFunc(s, n, func(s span, n int32) int { return cmp.Compare(s.last, n) })
	return i < len(s) && s[i].first <= n
}

// remove leaves out what is in the regions. What should be unreachable and ran
// stays, and is said.
func (x *exclusion) remove(named map[*coverage.Function]bool) {
	whole, unreachable := x.spansOf(wholeLines), x.spansOf(unreachableLines)
	branches, exceptions := x.spansOf(branchScope), x.spansOf(exceptionScope)
	x.file.DeleteFunctions(func(f *coverage.Function) bool {
		return named[f] || whole.has(f.StartLine) || f.Count <= 0 && unreachable.has(f.StartLine)
	})
	x.file.Lines = slices.DeleteFunc(x.file.Lines, func(l coverage.Line) bool {
		if !whole.has(l.Number) && unreachable.has(l.Number) && l.Count > 0 {
			x.problem("lines that ran, though a marker calls them unreachable", l.Number, fmt.Errorf("ran %d times, though a marker calls it unreachable: it counts", l.Count))
			return false
		}
		_, nonCode := slices.BinarySearch(x.rules.nonCode, l.Number)
		return whole.has(l.Number) || unreachable.has(l.Number) || nonCode && l.Count <= 0
	})
	kept := func(n int32) bool { return x.line(n) != nil }
	for i := range x.file.Tests {
		t := &x.file.Tests[i]
		t.Hits = t.Hits.Keep(kept)
	}
	for _, f := range slices.Concat(x.file.Functions, x.file.Told) {
		for i := range f.Instances {
			in := &f.Instances[i]
			in.Lines = in.Lines.Keep(kept)
		}
	}
	x.file.Tests = slices.DeleteFunc(x.file.Tests, func(t coverage.Test) bool { return len(t.Hits) == 0 })
	for i := range x.file.Lines {
		l := &x.file.Lines[i]
		_, nonCode := slices.BinarySearch(x.rules.nonCode, l.Number)
		switch {
		case nonCode || branches.has(l.Number):
			l.Branches, l.Told, l.Conditions = nil, nil, nil
		case exceptions.has(l.Number):
			l.DeleteBranches(func(b coverage.Branch) bool { return b.Exception || b.Throw })
		}
	}
}
