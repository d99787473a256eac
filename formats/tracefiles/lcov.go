package tracefiles

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"footfall/coverage"
)

// lcov reads a tracefile, of lcov 1 or 2 (the manual page of geninfo describes
// the format). It is a sequence of sources, several times the same one where
// several tests were united:
//
//	TN:test                                    stays until the next one
//	SF:path
//	FN:line,[end,]name      FNDA:calls,name
//	FNL:index,line[,end]    FNA:index,calls,name     lcov 2: names of one function
//	BRDA:line,[e][f][U]block,branch,taken      e: by an exception; "-": never decided
//	MCDC:line,[U]terms,t or f,shown,index,text U: excluded
//	DA:line,count[,checksum]
//	end_of_record
//
// and totals, which are left out: FNF, FNH, BRF, BRH, MCF, MCH, LF, LH. What
// geninfo writes has a record for each instance of a template, so that numbers
// of a line add up.
//
// Footfall writes two things that lcov has no room for, see report/lcov.go:
//
//	#BRDA:line,[e][f][l][g]block,branch,taken  in the place of BRDA of that line; l: a list, g: guessed
//	FN:6,f@6                                   f, another than that of FN:2,f
func (r *reader) lcov() error {
	l := lcovReader{reader: r}
	for {
		line, ok := r.in.line()
		if !ok {
			break
		}
		if at := bytes.IndexByte(line, ':'); at >= 0 {
			l.record(line[:at], line[at+1:])
		} else if string(bytes.TrimSpace(line)) == "end_of_record" {
			l.end()
		} else if len(bytes.TrimSpace(line)) > 0 && line[0] != '#' {
			l.bad("%.40q is no record of a tracefile", line)
		}
	}
	if l.open {
		l.cut(l.in.lines, "the file ends before end_of_record; is it complete?")
		l.end()
	}
	r.tellNegative(l.negative)
	if err := r.in.failed(); err != nil {
		r.cut(r.in.lines+1, "%w; what came before counts", err)
	}
	return nil
}

// isLcov tells whether a file begins as a tracefile does, perhaps with comments.
func isLcov(head []byte) bool {
	for len(head) > 0 {
		line, rest, _ := bytes.Cut(head, []byte("\n"))
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' {
			return bytes.HasPrefix(line, []byte("TN:")) || bytes.HasPrefix(line, []byte("SF:"))
		}
		head = rest
	}
	return false
}

type lcovReader struct {
	*reader
	test   string
	open   bool // in a source
	source string

	functions []lcovFunction
	aliases   map[int64]lcovAlias // by index
	pending   []pendingCalls      // of functions that may come later
	told      []way               // of footfall's own records
	next      int                 // of functions: the one expected next
	byName    map[string]int      // functions, made when they are in another order
	outcomes  []outcome
	lastWay   way                                                    // BRDA
	many      struct{ ways, told, functions, pending, outcomes int } // see merged
	unknown   map[string]bool                                        // records that were told
	negative  int64                                                  // counts
}

// An lcovFunction is one name of a function.
type lcovFunction struct {
	name       string
	start, end int32
	calls      int64
	group      int64 // names with the same one are one function; -1: none
}

// pendingCalls are those of a function whose FN has not come yet.
type pendingCalls struct {
	name  string
	calls int64
}

// An lcovAlias is a start of functions in lcov 2, by its index.
type lcovAlias struct {
	start, end int32
}

// An outcome is one of a term of a condition.
type outcome struct {
	line, terms, index int32
	sense, shown       bool
}

func (l *lcovReader) bad(format string, args ...any) {
	l.problem(l.in.lines, format, args...)
}

func (l *lcovReader) record(tag, rest []byte) {
	switch string(tag) {
	case "DA":
		l.line(rest)
	case "BRDA":
		if w, ok := l.branch(rest); ok {
			l.build.ways, l.lastWay = append(merged(l.build.ways, &l.many.ways, sumWays), w), w
		}
	case "#BRDA":
		if w, ok := l.branch(rest); ok {
			l.told = append(merged(l.told, &l.many.told, sumWays), w)
		}
	case "FN":
		l.function(rest)
	case "FNDA":
		l.calls(rest)
	case "FNL":
		l.start(rest)
	case "FNA":
		l.alias(rest)
	case "MCDC":
		l.condition(rest)
	case "SF":
		if l.open {
			l.bad("a source begins before end_of_record of the one before")
			l.end()
		}
		l.open, l.source = true, l.intern(rest)
	case "TN":
		name, _, _ := bytes.Cut(rest, []byte(",")) // ",diff": of lines that were moved by a patch
		l.test = l.intern(bytes.TrimSpace(name))
	case "LF", "LH", "FNF", "FNH", "BRF", "BRH", "MCF", "MCH", "VER":
	default:
		if len(tag) > 0 && tag[0] == '#' || l.unknown[string(tag)] {
			return
		}
		if l.unknown == nil {
			l.unknown = make(map[string]bool)
		}
		l.unknown[string(tag)] = true
		l.bad("records %.20q are not known and left out", tag)
	}
}

// end adds the source to the sum.
func (l *lcovReader) end() {
	if !l.open {
		l.bad("end_of_record without SF")
	}
	l.addFunctions()
	b := &l.build
	sorted := true
	for i := 1; i < len(b.file.Lines) && sorted; i++ {
		sorted = b.file.Lines[i-1].Number < b.file.Lines[i].Number
	}
	if !sorted {
		b.file.Normalize()
	}
	l.preferTold()
	b.addWays()
	l.addConditions()
	if l.open {
		l.add("", l.source, l.test)
	}
	b.reset()
	l.open = false
}

// line reads "number,count,checksum".
func (l *lcovReader) line(rest []byte) {
	number, rest, ok := lineNumber(rest)
	count, rest, isNumber := l.count(rest)
	if !ok || !isNumber || len(rest) > 0 && rest[0] != ',' {
		l.bad("expected DA:line,count")
		return
	}
	if number > 0 { // lcov 1 knows a line 0
		l.build.line(number, count)
		l.build.checksum(int32(number), rest)
	}
}

// count reads how often something ran, which is no less than 0.
func (l *lcovReader) count(text []byte) (n int64, rest []byte, ok bool) {
	n, rest, ok = integer(text)
	if ok && len(rest) > 0 && (rest[0] == '.' || rest[0]|0x20 == 'e') { // Perl's, of large numbers: 1.8e+19
		end := bytes.IndexByte(text, ',')
		if end < 0 {
			end = len(text)
		}
		var large float64
		if _, err := fmt.Sscanf(string(text[:end]), "%g", &large); err != nil {
			return 0, text, false
		}
		n, rest = 1<<63-1, text[end:]
		if large < 1<<63 {
			n = int64(large)
		}
	}
	if n < 0 {
		l.negative++
		n = 0
	}
	return n, rest, ok
}

// branch reads "line,flags block,branch,taken". The branch is a number, or text:
// "2 -> 4" are blocks of the flow graph in lcov 2.5, the first of which decides.
func (l *lcovReader) branch(rest []byte) (w way, use bool) {
	var ok, isNumber, excluded bool
	w.line, rest, ok = lineNumber(rest)
	for ; len(rest) > 0; rest = rest[1:] {
		switch rest[0] {
		case 'e':
			w.throw = true
			continue
		case 'f':
			w.falls = true
			continue
		case 'U':
			excluded = true
			continue
		case 'l':
			w.list = true
			continue
		case 'g':
			w.guessed = true
			continue
		}
		break
	}
	w.block, rest, isNumber = integer(rest)
	comma := bytes.LastIndexByte(rest, ',')
	if !ok || !isNumber || comma < 1 || rest[0] != ',' {
		l.bad("expected BRDA:line,block,branch,taken")
		return w, false
	}
	which, taken := rest[1:comma], rest[comma+1:]
	if string(taken) != "-" {
		w.evaluated = true
		if w.count, taken, ok = l.count(taken); !ok || len(taken) > 0 {
			l.bad("expected BRDA:line,block,branch,taken, with a number or - at the end")
			return w, false
		}
	}
	w.undivided = true
	switch index, more, ok := integer(which); {
	case ok && len(more) == 0:
		w.index = index
	case ok && bytes.HasPrefix(more, []byte(" -> ")):
		w.from, w.undivided = index, false
		if w.index, _, ok = integer(more[len(" -> "):]); !ok {
			l.bad("branch %.40q: expected a block after the arrow", which)
			return w, false
		}
	default:
		w.index = l.ordinal(w.line, w.block)
	}
	return w, w.line > 0 && !excluded
}

// preferTold takes the branches of footfall's own records in the place of those
// of other records of the line.
func (l *lcovReader) preferTold() {
	if len(l.told) == 0 {
		return
	}
	lines := make(map[int32]bool)
	for i := range l.told {
		l.told[i].undivided = false // it is said
		lines[l.told[i].line] = true
	}
	ways := slices.DeleteFunc(l.build.ways, func(w way) bool { return lines[w.line] })
	l.build.ways = append(ways, l.told...)
	l.told = l.told[:0]
}

// ordinal numbers branches that are known by a text only, as those of other
// languages are.
func (l *lcovReader) ordinal(line int32, block int64) int64 {
	if last := &l.lastWay; len(l.build.ways) > 0 && last.line == line && last.block == block {
		return last.index + 1
	}
	return 0
}

// function reads "start,[end,]name".
func (l *lcovReader) function(rest []byte) {
	f := lcovFunction{group: -1}
	var ok bool
	if f.start, rest, ok = lineNumber(rest); !ok || len(rest) == 0 {
		l.bad("expected FN:line,name")
		return
	}
	if end, name, ok := lineNumber(rest); ok && len(name) > 0 {
		f.end, rest = end, name
	}
	f.name = l.intern(rest)
	l.addFunction(f)
}

func (l *lcovReader) addFunction(f lcovFunction) {
	if n := len(l.functions); n >= max(l.many.functions, some) {
		l.functions = mergeNames(l.functions)
		l.many.functions, l.byName, l.next = 2*len(l.functions), nil, 0
	}
	if l.byName != nil {
		l.byName[f.name] = len(l.functions)
	}
	l.functions = append(l.functions, f)
}

// calls reads "count,name". Most often names come in the order of FN.
func (l *lcovReader) calls(rest []byte) {
	count, name, ok := l.count(rest)
	if !ok || len(name) < 2 || name[0] != ',' {
		l.bad("expected FNDA:calls,name")
		return
	}
	name = name[1:]
	i := l.next
	if i >= len(l.functions) || l.functions[i].name != string(name) {
		if i, ok = l.known(string(name)); !ok {
			l.pending = append(merged(l.pending, &l.many.pending, mergePending), pendingCalls{l.intern(name), count})
			return
		}
	}
	l.functions[i].calls = add(l.functions[i].calls, count)
	l.next = i + 1
}

// known returns the function of that name.
func (l *lcovReader) known(name string) (i int, ok bool) {
	if l.byName == nil {
		l.byName = make(map[string]int, len(l.functions))
		for k, f := range l.functions {
			l.byName[f.name] = k
		}
	}
	i, ok = l.byName[name]
	return i, ok
}

// start reads "index,start[,end]".
func (l *lcovReader) start(rest []byte) {
	var a lcovAlias
	var isNumber bool
	index, rest, ok := integer(rest)
	if ok && len(rest) > 0 && rest[0] == ',' {
		a.start, rest, isNumber = lineNumber(append(rest[1:len(rest):len(rest)], ','))
	}
	if !isNumber {
		l.bad("expected FNL:index,line")
		return
	}
	if end, _, ok := lineNumber(rest); ok {
		a.end = end
	}
	if l.aliases == nil {
		l.aliases = make(map[int64]lcovAlias)
	}
	l.aliases[index] = a
}

// alias reads "index,calls,name".
func (l *lcovReader) alias(rest []byte) {
	index, rest, ok := integer(rest)
	isNumber := false
	var calls int64
	if ok && len(rest) > 0 {
		calls, rest, isNumber = l.count(rest[1:])
	}
	if !isNumber || len(rest) < 2 || rest[0] != ',' {
		l.bad("expected FNA:index,calls,name")
		return
	}
	a, known := l.aliases[index]
	if !known {
		l.bad("FNA of function %d, of which there is no FNL", index)
		return
	}
	name := l.intern(rest[1:])
	group := index
	if isPlain(name) {
		group = -1
	}
	l.addFunction(lcovFunction{name: name, start: a.start, end: a.end, calls: calls, group: group})
}

// isPlain tells whether a name is one of C. Where lcov calls several of these
// one function, since they start on one line, a macro has made them.
func isPlain(name string) bool {
	if len(name) > 1 && name[:2] == "_Z" {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if !(c == '_' || c == '.' || c == '$' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z') {
			return false
		}
	}
	return true
}

// addFunctions makes functions of names.
func (l *lcovReader) addFunctions() {
	for _, p := range l.pending {
		if i, ok := l.known(p.name); ok {
			l.functions[i].calls = add(l.functions[i].calls, p.calls)
		} else {
			in := coverage.Instance{Name: p.name, Count: p.calls}
			l.build.function(coverage.Function{Instances: []coverage.Instance{in}}) // its FN may be in another record
		}
	}
	l.pending = l.pending[:0]
	list := l.functions
	slices.SortStableFunc(list, func(a, b lcovFunction) int { return cmp.Compare(a.group, b.group) })
	for from := 0; from < len(list); {
		to := from + 1
		for list[from].group >= 0 && to < len(list) && list[to].group == list[from].group {
			to++
		}
		room := len(l.build.instances)
		for _, f := range list[from:to] {
			l.build.instances = append(l.build.instances, coverage.Instance{Name: withoutLine(f.name, f.start), Count: f.calls})
		}
		if f := list[from]; f.start > 0 {
			end := len(l.build.instances)
			l.build.function(coverage.Function{StartLine: f.start, EndLine: f.end, Instances: l.build.instances[room:end:end]})
		}
		from = to
	}
	l.functions, l.next, l.byName = list[:0], 0, nil
	l.many.functions = 0
	clear(l.aliases)
}

// withoutLine cuts off where a function starts, which footfall appends to all but
// the first of a name.
func withoutLine(name string, start int32) string {
	if at := strings.LastIndexByte(name, '@'); at > 0 && name[at+1:] == strconv.Itoa(int(start)) {
		return name[:at]
	}
	return name
}

// condition reads "line,terms,sense,shown,index,text".
func (l *lcovReader) condition(rest []byte) {
	var o outcome
	var terms, shown, index int64
	var ok [4]bool
	o.line, rest, ok[0] = lineNumber(rest)
	rest, excluded := bytes.CutPrefix(rest, []byte("U"))
	terms, rest, ok[1] = integer(rest)
	if len(rest) > 3 && rest[0] == ',' && rest[2] == ',' {
		o.sense = rest[1] == 't'
		shown, rest, ok[2] = integer(rest[3:])
	}
	if len(rest) > 1 && rest[0] == ',' {
		index, _, ok[3] = integer(rest[1:])
	}
	const most = 1 << 16 // more than a compiler gives a condition
	if ok != [4]bool{true, true, true, true} || o.line <= 0 || terms <= 0 || terms > most || index < 0 || index > most {
		l.bad("expected MCDC:line,terms,t or f,shown,index,text")
		return
	}
	o.terms, o.shown, o.index = int32(terms), shown > 0, int32(index)
	if !excluded {
		l.outcomes = append(merged(l.outcomes, &l.many.outcomes, mergeOutcomes), o)
	}
}

// addConditions gives conditions to the lines, which are in order, or to lines
// that are not counted. Those of a line with as many terms are numbered as one.
func (l *lcovReader) addConditions() {
	slices.SortStableFunc(l.outcomes, func(a, b outcome) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.terms, b.terms), cmp.Compare(a.index, b.index))
	})
	lines := l.build.file.Lines
	for from := 0; from < len(l.outcomes); {
		o := l.outcomes[from]
		to := from + 1
		same := func(p outcome) bool {
			return p.line == o.line && p.terms == o.terms && p.index/p.terms == o.index/o.terms
		}
		for to < len(l.outcomes) && same(l.outcomes[to]) {
			to++
		}
		for len(lines) > 0 && lines[0].Number < o.line {
			lines = lines[1:]
		}
		// What is not told at all is not shown; there is room for as many terms
		// as were told.
		if int(o.terms) <= 2*(to-from) {
			terms := make([]coverage.Term, o.terms)
			for _, p := range l.outcomes[from:to] {
				t := &terms[p.index%p.terms]
				t.True = t.True || p.sense && p.shown
				t.False = t.False || !p.sense && p.shown
			}
			into := lines
			if len(lines) == 0 || lines[0].Number != o.line {
				into = l.build.uncountedLine(o.line)
			}
			into[0].Conditions = append(into[0].Conditions, coverage.Condition{Terms: terms})
		}
		from = to
	}
	l.outcomes = l.outcomes[:0]
	l.build.addUncounted()
}

// merged returns a list in which what comes again is made one by merge, if it has
// become long enough since that was done last, when twice as many as many were left.
func merged[T any](list []T, many *int, merge func([]T) []T) []T {
	if len(list) < some {
		*many = some
	}
	if len(list) >= *many {
		list = merge(list)
		*many = max(2*len(list), some)
	}
	return list
}

// mergeNames makes one of names of functions that are the same, in the order in
// which they come first.
func mergeNames(list []lcovFunction) []lcovFunction {
	type place struct {
		name       string
		start, end int32
		group      int64
	}
	index := make(map[place]int)
	out := list[:0]
	for _, f := range list {
		at := place{f.name, f.start, f.end, f.group}
		if i, known := index[at]; known {
			out[i].calls = add(out[i].calls, f.calls)
			continue
		}
		index[at] = len(out)
		out = append(out, f)
	}
	return out
}

func mergePending(list []pendingCalls) []pendingCalls {
	index := make(map[string]int)
	out := list[:0]
	for _, p := range list {
		if i, known := index[p.name]; known {
			out[i].calls = add(out[i].calls, p.calls)
			continue
		}
		index[p.name] = len(out)
		out = append(out, p)
	}
	return out
}

func mergeOutcomes(list []outcome) []outcome {
	index := make(map[outcome]int)
	out := list[:0]
	for _, o := range list {
		at := o
		at.shown = false
		if i, known := index[at]; known {
			out[i].shown = out[i].shown || o.shown
			continue
		}
		index[at] = len(out)
		out = append(out, o)
	}
	return out
}

// lineNumber reads "number," and returns what follows.
func lineNumber(text []byte) (n int32, rest []byte, ok bool) {
	i := 0
	for i < len(text) && text[i]-'0' <= 9 {
		if n > (1<<31-1-9)/10 {
			return 0, text, false
		}
		n = n*10 + int32(text[i]-'0')
		i++
	}
	if i == 0 || i == len(text) || text[i] != ',' {
		return 0, text, false
	}
	return n, text[i+1:], true
}

// integer reads a number, which may be negative, and returns what follows. What
// is too large becomes the largest.
func integer(text []byte) (n int64, rest []byte, ok bool) {
	i, negative := 0, len(text) > 0 && text[0] == '-'
	if negative {
		i = 1
	}
	start := i
	for i < len(text) && text[i]-'0' <= 9 {
		if n > (1<<63-1-9)/10 {
			n = 1<<63 - 1
		} else if n < 1<<63-1 {
			n = n*10 + int64(text[i]-'0')
		}
		i++
	}
	if negative {
		n = -n
	}
	return n, text[i:], i > start
}
