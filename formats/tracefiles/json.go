package tracefiles

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"footfall/coverage"
	"footfall/output"
)

// json reads the JSON of gcov (GCC 9 and later, formats 1 and 2), of gcovr (4.2
// and later) and of footfall. They are near enough to each other for one
// reader: sources in a list "files", each with lists of "functions" and "lines",
// whose members have names of their own where they mean something else.
//
// Members come in any order: GCC 9 to 13 put "current_working_directory" behind
// the files that are seen from it. Several objects may follow one another, as
// gcov --stdout writes them.
//
// See gcov's manual, gcovr's chapter on JSON output and footfall json.
func (r *reader) json() error {
	j := jsonReader{reader: r, s: jsonScanner{in: &r.in}}
	for j.s.peek() != 0 && j.s.err == nil {
		j.document()
	}
	err := cmp.Or(r.in.failed(), j.s.err)
	switch {
	case err != nil && !j.files:
		return fmt.Errorf("at offset %#x: %w", r.in.offset(), err)
	case err != nil:
		r.cut(0, "at offset %#x: %w; what came before counts", r.in.offset(), err)
	case !j.files:
		return errors.New("JSON, but no list of files: expected a report of gcov --json-format, gcovr --json or footfall report --output json")
	case j.sources > 0 && j.lines == 0 && !j.called: // of programs without counters functions are all there is
		return errors.New("JSON without lines, perhaps a summary: expected a report of gcov --json-format, gcovr --json or footfall report --output json")
	}
	r.tellNegative(j.negative)
	return nil
}

type jsonReader struct {
	*reader
	s jsonScanner

	files          bool  // there was a list of them
	sources, lines int   // read
	called         bool  // there were functions
	negative       int64 // counts

	// of the document
	cwd   string
	place bool   // it is known whether there is one
	ours  bool   // it is footfall's, with escapes in names
	held  []held // sources that must wait for it

	// of the source
	name      string
	functions map[string]functionPlace // by name of an instance
	entries   []entry
	tests     []coverage.Test
	told      []*coverage.Function
}

// A held source has a name that is seen from a directory not known yet.
type held struct {
	name string
	file *coverage.File
}

// A functionPlace tells which instances are one function.
type functionPlace struct {
	line, column int32
	name         string // where the place does not tell
}

// An entry is what one function, or one instance of it, has on a line.
type entry struct {
	function string
	line     coverage.Line
}

func (j *jsonReader) document() {
	j.cwd, j.place, j.ours, j.held = "", false, false, j.held[:0]
	for j.s.begin('{'); j.s.more('}'); {
		switch string(j.s.key()) {
		case "files":
			if j.s.peek() != '[' { // of another program
				j.s.skip()
				break
			}
			j.files = true
			for j.s.begin('['); j.s.more(']'); {
				j.file()
			}
		case "current_working_directory":
			j.cwd, j.place = j.intern(j.s.string()), true
		case "gcovr/format_version":
			j.place = true
			j.s.skip()
		case "format":
			j.ours = string(j.s.string()) == "footfall coverage"
			j.place = j.ours
		default:
			j.s.skip()
		}
	}
	for _, h := range j.held {
		j.build.file = *h.file
		j.add(j.cwd, h.name, "")
	}
}

// file reads a source.
func (j *jsonReader) file() {
	j.name, j.tests, j.told = "", nil, nil
	clear(j.functions)
	for j.s.begin('{'); j.s.more('}'); {
		switch string(j.s.key()) {
		case "file":
			j.name = j.symbol()
		case "functions":
			for j.s.begin('['); j.s.more(']'); {
				j.function()
				j.called = true
			}
		case "told":
			for j.s.begin('['); j.s.more(']'); {
				j.toldFunction()
			}
		case "lines":
			for j.s.begin('['); j.s.more(']'); {
				j.line()
			}
		case "expansions":
			j.build.file.Expansions = j.expansions(0)
		case "tests":
			for j.s.begin('['); j.s.more(']'); {
				j.testHits()
			}
		default:
			j.s.skip()
		}
	}
	j.sources++
	j.lines += len(j.entries)
	j.unite()
	if j.name == "" {
		if j.s.err == nil && j.lines > 0 {
			j.s.fail("a source without the name of its file")
		}
		j.build.reset()
		return
	}
	slices.SortStableFunc(j.tests, func(a, b coverage.Test) int { return cmp.Compare(a.Name, b.Name) })
	j.build.file.Told = j.told
	j.build.file.Tests = slices.CompactFunc(j.tests, func(a, b coverage.Test) bool { return a.Name == b.Name })
	if j.place || j.name[0] == '/' {
		j.add(j.cwd, j.name, "")
		return
	}
	j.finish()
	kept := new(coverage.File)
	kept.Merge(&j.build.file)
	j.held = append(j.held, held{j.name, kept})
	j.build.reset()
}

// symbol reads a name.
func (j *jsonReader) symbol() string {
	text := j.s.string()
	if j.ours && bytes.IndexByte(text, '\\') >= 0 {
		return output.Unescape(string(text))
	}
	return j.intern(text)
}

// function reads a function: of gcov and of footfall, or as gcovr has it,
// "lineno" for the line and "pos" for start and end as "line:column".
func (j *jsonReader) function() {
	var f coverage.Function
	var in coverage.Instance
	var instances []coverage.Instance
	excluded := false
	for j.s.begin('{'); j.s.more('}'); {
		switch string(j.s.key()) {
		case "name":
			in.Name = j.symbol()
		case "start_line", "lineno", "line":
			f.StartLine = j.s.line()
		case "start_column", "column":
			f.StartColumn = j.s.line()
		case "end_line":
			f.EndLine = j.s.line()
		case "end_column":
			f.EndColumn = j.s.line()
		case "pos":
			j.span(&f)
		case "blocks":
			in.Blocks = j.s.line()
		case "blocks_executed":
			in.BlocksExecuted = j.s.line()
		case "regions":
			f.Regions = j.s.line()
		case "regions_run":
			f.RegionsRun = j.s.line()
		case "unused":
			f.Unused = j.s.bool()
		case "execution_count", "count":
			in.Count = j.count()
		case "gcovr/excluded":
			excluded = j.s.bool()
		case "instances":
			for j.s.begin('['); j.s.more(']'); {
				instances = append(instances, j.instance())
			}
		default:
			j.s.skip()
		}
	}
	if in.Name == "" || f.StartLine == 0 || excluded {
		return
	}
	if len(instances) == 0 {
		instances = append(instances, in)
	}
	f.Instances = instances
	if j.functions == nil {
		j.functions = make(map[string]functionPlace)
	}
	for _, in := range instances {
		place := functionPlace{line: f.StartLine, column: f.StartColumn}
		if f.StartColumn == 0 || isPlain(in.Name) {
			place.name = in.Name
		} else {
			g := f
			g.Name = in.Name
			place.name = g.SourceName()
		}
		j.functions[in.Name] = place
	}
	j.build.function(f)
}

func (j *jsonReader) instance() (in coverage.Instance) {
	for j.s.begin('{'); j.s.more('}'); {
		switch string(j.s.key()) {
		case "name":
			in.Name = j.symbol()
		case "count":
			in.Count = j.count()
		case "blocks":
			in.Blocks = j.s.line()
		case "blocks_executed":
			in.BlocksExecuted = j.s.line()
		case "lines":
			last := int32(0)
			for _, l := range j.hits() {
				if l.Number > last {
					in.Lines = in.Lines.Add(&last, l.Number, l.Count)
				}
			}
		default:
			j.s.skip()
		}
	}
	return in
}

// toldFunction reads one as it was before footfall matched it with others.
func (j *jsonReader) toldFunction() {
	b := &j.build
	n := len(b.functions)
	j.function()
	for i := range b.functions[n:] {
		f := b.functions[n+i]
		j.told = append(j.told, &f)
	}
	b.functions = b.functions[:n]
}

// span reads ["line:column", "line:column"].
func (j *jsonReader) span(f *coverage.Function) {
	var numbers [4]int32
	n := 0
	for j.s.begin('['); j.s.more(']'); n += 2 {
		text := append(j.s.string(), ',')
		for i, c := range text {
			if c == ':' {
				text[i] = ','
			}
		}
		if n < len(numbers) {
			numbers[n], text, _ = lineNumber(text)
			numbers[n+1], _, _ = lineNumber(text)
		}
	}
	f.StartColumn, f.EndLine, f.EndColumn = numbers[1], numbers[2], numbers[3]
}

func (j *jsonReader) count() int64 {
	n := j.s.integer()
	if n < 0 {
		j.negative++
	}
	return max(n, 0)
}

// line reads a line, or what one function has on it.
func (j *jsonReader) line() {
	var e entry
	l := &e.line
	left := false
	b := &j.build
	b.ways = b.ways[:0]
	first := len(b.branches)
	for j.s.begin('{'); j.s.more('}'); {
		switch string(j.s.key()) {
		case "line_number", "line":
			l.Number = j.s.line()
		case "count":
			l.Count = j.count()
		case "function_name":
			e.function = j.intern(j.s.string())
		case "unexecuted_block":
			l.Unexecuted = j.s.bool()
		case "exceptional":
			l.Exceptional = j.s.bool()
		case "gcovr/noncode", "gcovr/excluded":
			left = j.s.bool() || left
		case "branches":
			for j.s.begin('['); j.s.more(']'); {
				j.branch()
			}
		case "told":
			l.Told = j.toldBranches()
		case "calls":
			for j.s.begin('['); j.s.more(']'); {
				l.Calls = append(l.Calls, j.call())
			}
		case "conditions":
			for j.s.begin('['); j.s.more(']'); {
				j.condition(l)
			}
		default:
			j.s.skip()
		}
	}
	if left || l.Number == 0 {
		b.branches = b.branches[:first]
		return
	}
	switch {
	case len(b.branches) > first: // those of footfall are complete
		l.Branches = inOrder(b.branches[first:len(b.branches):len(b.branches)])
	case len(b.ways) > 0:
		divide(b.ways)
		slices.SortStableFunc(b.ways, func(x, y way) int { return x.compare(&y) })
		l.Branches = b.lineBranches(b.ways)
	}
	l.Unexecuted = l.Unexecuted && l.Count > 0
	j.entries = append(j.entries, e)
}

// branch reads one way. Format 2 of gcov tells the block that decides, format 1
// has all of a line in one list. footfall says "block".
func (j *jsonReader) branch() {
	w := way{undivided: true, index: int64(len(j.build.ways))}
	var own coverage.Branch
	isOwn, unevaluated, excluded := false, false, false
	for j.s.begin('{'); j.s.more('}'); {
		switch string(j.s.key()) {
		case "count":
			w.count = j.count()
		case "throw":
			w.throw = j.s.bool()
		case "fallthrough":
			w.falls = j.s.bool()
		case "source_block_id":
			w.from, w.undivided = j.s.integer(), false
		case "block":
			own.Block, isOwn = j.s.line(), true
		case "column":
			own.Column = j.s.line()
		case "to":
			own.To = j.s.line()
		case "unevaluated":
			unevaluated = j.s.bool()
		case "exception":
			own.Exception = j.s.bool()
		case "list":
			own.List = j.s.bool()
		case "guessed":
			own.Guessed = j.s.bool()
		case "gcovr/excluded":
			excluded = j.s.bool()
		default:
			j.s.skip()
		}
	}
	switch {
	case excluded:
	case isOwn:
		own.Count, own.Evaluated, own.Fallthrough, own.Throw = w.count, !unevaluated, w.falls, w.throw
		j.build.branches = append(j.build.branches, own)
	default:
		w.evaluated = w.count > 0
		j.build.ways = append(j.build.ways, w)
	}
}

// toldBranches reads those of footfall as they were before it matched them.
func (j *jsonReader) toldBranches() *[]coverage.Branch {
	b := &j.build
	branches, ways := len(b.branches), len(b.ways)
	for j.s.begin('['); j.s.more(']'); {
		j.branch()
	}
	told := inOrder(slices.Clone(b.branches[branches:]))
	b.branches, b.ways = b.branches[:branches], b.ways[:ways]
	return &told
}

// inOrder puts lists behind what is divided into decisions.
func inOrder(branches []coverage.Branch) []coverage.Branch {
	slices.SortStableFunc(branches, func(a, b coverage.Branch) int {
		switch {
		case a.List == b.List:
			return 0
		case b.List:
			return -1
		}
		return 1
	})
	return branches
}

// divide makes decisions of a list of ways where it can be told what they are:
// a call that returns or throws, and where they all are, two ways of which one
// goes on to the next instruction.
func divide(ways []way) {
	var rest []int
	block := int64(0)
	for i := 0; i < len(ways); i++ {
		if !ways[i].undivided {
			return
		}
		if i+1 < len(ways) && (ways[i].falls && ways[i+1].throw || ways[i].throw && ways[i+1].falls) {
			block++
			ways[i].block, ways[i+1].block = block, block
			ways[i].undivided, ways[i+1].undivided = false, false
			i++
			continue
		}
		rest = append(rest, i)
	}
	pairs := len(rest)%2 == 0
	for i := 0; i+1 < len(rest) && pairs; i += 2 {
		pairs = ways[rest[i]].falls != ways[rest[i+1]].falls
	}
	for i, k := range rest {
		ways[k].block = block + 1
		if pairs {
			ways[k].block += int64(i / 2)
			ways[k].undivided = false
		}
	}
}

func (j *jsonReader) call() (c coverage.Call) {
	counted := false
	for j.s.begin('{'); j.s.more('}'); {
		switch string(j.s.key()) {
		case "returned":
			c.Returned = j.count()
		case "count":
			c.Count, counted = j.count(), true
		default:
			j.s.skip()
		}
	}
	if !counted {
		c.Count = c.Returned
	}
	return c
}

// condition reads "terms" of footfall, or numbers of terms that were not shown.
func (j *jsonReader) condition(l *coverage.Line) {
	const most = 1 << 7 // more than the 64 of GCC
	var c coverage.Condition
	var missing [2][]int64 // false, true
	count := int64(0)
	for j.s.begin('{'); j.s.more('}'); {
		switch string(j.s.key()) {
		case "column":
			c.Column = j.s.line()
		case "count":
			count = j.s.integer()
		case "not_covered_false":
			missing[0] = j.numbers(missing[0])
		case "not_covered_true":
			missing[1] = j.numbers(missing[1])
		case "terms":
			for j.s.begin('['); j.s.more(']'); {
				c.Terms = append(c.Terms, j.term())
			}
		default:
			j.s.skip()
		}
	}
	if c.Terms == nil {
		if count < 0 || count > 2*most {
			j.s.fail("a condition of %d outcomes", count)
			return
		}
		c.Terms = make([]coverage.Term, count/2)
		for i := range c.Terms {
			c.Terms[i] = coverage.Term{True: !slices.Contains(missing[1], int64(i)), False: !slices.Contains(missing[0], int64(i))}
		}
	}
	if len(c.Terms) > 0 {
		l.Conditions = append(l.Conditions, c)
	}
}

func (j *jsonReader) numbers(list []int64) []int64 {
	for j.s.begin('['); j.s.more(']'); {
		if n := j.s.integer(); len(list) < 1<<10 {
			list = append(list, n)
		}
	}
	return list
}

func (j *jsonReader) term() (t coverage.Term) {
	for j.s.begin('{'); j.s.more('}'); {
		switch string(j.s.key()) {
		case "true":
			t.True = j.s.bool()
		case "false":
			t.False = j.s.bool()
		default:
			j.s.skip()
		}
	}
	return t
}

// expansions reads what is expanded in a file, or within an expansion.
func (j *jsonReader) expansions(depth int) (list []coverage.Expansion) {
	for j.s.begin('['); j.s.more(']'); {
		if depth == coverage.DeepestExpansion {
			j.s.skip()
			continue
		}
		var e coverage.Expansion
		for j.s.begin('{'); j.s.more('}'); {
			switch string(j.s.key()) {
			case "line":
				e.Line = j.s.line()
			case "column":
				e.Column = j.s.line()
			case "file":
				e.File = j.symbol()
			case "lines":
				last := int32(0)
				for _, l := range j.hits() {
					if l.Number > last {
						e.Lines = e.Lines.Add(&last, l.Number, l.Count)
					}
				}
			case "expansions":
				e.Within = j.expansions(depth + 1)
			default:
				j.s.skip()
			}
		}
		if e.Line > 0 && e.File != "" {
			list = append(list, e)
		}
	}
	slices.SortStableFunc(list, coverage.CompareExpansions)
	return slices.CompactFunc(list, func(a, b coverage.Expansion) bool { return coverage.CompareExpansions(a, b) == 0 })
}

// testHits reads what a test ran: {"name": NAME, "lines": [line, count, ...]}.
func (j *jsonReader) testHits() {
	var name string
	var lines []coverage.Line
	for j.s.begin('{'); j.s.more('}'); {
		switch string(j.s.key()) {
		case "name":
			name = j.symbol()
		case "lines":
			lines = j.hits()
		default:
			j.s.skip()
		}
	}
	if hits := coverage.AppendHits(nil, lines); name != "" && len(hits) > 0 {
		j.tests = append(j.tests, coverage.Test{Name: name, Hits: hits})
	}
}

// hits reads [line, count, line, count ...].
func (j *jsonReader) hits() (lines []coverage.Line) {
	for j.s.begin('['); j.s.more(']'); {
		l := coverage.Line{Number: j.s.line()}
		if !j.s.more(']') {
			break
		}
		l.Count = j.count()
		lines = append(lines, l)
	}
	return lines
}

// unite makes lines of the entries: the instances of a function are merged,
// what different functions have on a line is put one behind the other.
func (j *jsonReader) unite() {
	list := j.entries
	byLine := func(a, b entry) int { return cmp.Compare(a.line.Number, b.line.Number) }
	if !slices.IsSortedFunc(list, byLine) {
		slices.SortStableFunc(list, byLine)
	}
	lines := j.build.file.Lines
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && list[to].line.Number == list[from].line.Number {
			to++
		}
		lines = append(lines, j.uniteLine(list[from:to]))
		from = to
	}
	j.build.file.Lines = lines
	clear(list)
	j.entries = list[:0]
}

func (j *jsonReader) uniteLine(list []entry) coverage.Line {
	if len(list) == 1 {
		return list[0].line
	}
	byFunction := make(map[functionPlace]*coverage.Line)
	var order []functionPlace
	for i := range list {
		e := &list[i]
		place, known := j.functions[e.function]
		if !known {
			place.name = e.function
		}
		if l := byFunction[place]; l != nil {
			l.Merge(&e.line)
			continue
		}
		byFunction[place] = &e.line
		order = append(order, place)
	}
	slices.SortStableFunc(order, func(a, b functionPlace) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column))
	})
	sum := *byFunction[order[0]]
	for _, place := range order[1:] {
		l := byFunction[place]
		sum.Count = add(sum.Count, l.Count)
		sum.Unexecuted = sum.Unexecuted || l.Unexecuted
		sum.Exceptional = sum.Exceptional && l.Exceptional
		sum.Branches = behind(sum.Branches, l.Branches)
		sum.Calls = append(slices.Clip(sum.Calls), l.Calls...)
		sum.Conditions = append(slices.Clip(sum.Conditions), l.Conditions...)
	}
	return sum
}

// behind puts the decisions of b behind those of a, and lists behind both.
func behind(a, b []coverage.Branch) []coverage.Branch {
	out := make([]coverage.Branch, 0, len(a)+len(b))
	block, last := int32(-1), int32(0) // in out, and what it was before
	for _, lists := range []bool{false, true} {
		for _, branches := range [][]coverage.Branch{a, b} {
			first := true
			for _, branch := range branches {
				if branch.List != lists {
					continue
				}
				if first || branch.Block != last {
					block++
				}
				first, last = false, branch.Block
				branch.Block = block
				out = append(out, branch)
			}
		}
	}
	return out
}
