package command

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"footfall/collect"
	"footfall/coverage"
	"footfall/formats/gcov"
	"footfall/report/source"
)

// TestCounting holds docs/counting.md against programs: all counts must be those
// of a simple model of what the page says, and whatever lcov and gcovr say
// otherwise must be one of the differences that the page names.
//
// scripts/compare-reports makes it compare a large program with newer versions
// of both.
func TestCounting(t *testing.T) {
	if dir := os.Getenv("FOOTFALL_COUNTING"); dir != "" {
		p := newCounted(t, dir)
		p.check(t)
		p.compareLcov(t, os.Getenv("FOOTFALL_COUNTING_LCOV"))
		p.compareGcovr(t, os.Getenv("FOOTFALL_COUNTING_GCOVR"))
		p.print(os.Stdout)
		return
	}
	if testing.Short() {
		t.Skip("takes long with the race detector")
	}
	for _, program := range []struct {
		name, compiler string
		flags          []string
		differences    []string // that must be there, and no others
	}{
		{"c", "gcc-12", nil, nil},
		{"c", "gcc-12", []string{"-O2"}, []string{"gcovr: branches copies", "lcov: branches copies"}},
		{"cc", "g++-12", nil, []string{
			"gcovr: branches copies", "gcovr: line gcovr's own", "gcovr: line passing", "gcovr: line ways in",
			"lcov: branches copies", "lcov: branches never decided", "lcov: line passing", "lcov: line ways in",
		}},
		{"cc", "g++-12", []string{"-O2"}, []string{
			"gcovr: branches copies", "gcovr: branches in each source", "gcovr: line gcovr's own", "gcovr: line ways in",
			"lcov: branches copies", "lcov: branches in each source", "lcov: branches never decided", "lcov: line passing", "lcov: line ways in",
		}},
	} {
		t.Run(program.name+strings.Join(program.flags, ""), func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "testdata", "counting", program.name))); err != nil {
				t.Fatal(err)
			}
			command(t, dir, "sh", "-c", program.compiler+" --coverage "+strings.Join(program.flags, " ")+" *."+program.name+" -o prog")
			command(t, dir, "./prog", "one", "two")
			lcov, gcovr := filepath.Join(dir, "lcov.info"), filepath.Join(dir, "gcovr.json")
			command(t, dir, "lcov", "--quiet", "--capture", "--directory", ".", "--gcov-tool", "gcov-12", "--rc", "lcov_branch_coverage=1", "--output-file", lcov)
			command(t, dir, "gcovr", "--gcov-executable", "gcov-12", "--root", dir, "--object-directory", dir, "--json", gcovr, dir)
			p := newCounted(t, dir)
			p.check(t)
			p.compareLcov(t, lcov)
			p.compareGcovr(t, gcovr)
			var found []string
			for _, d := range slices.Sorted(maps.Keys(p.found)) {
				if !strings.HasSuffix(d, " same") {
					found = append(found, d)
				}
			}
			if diff := gocmp.Diff(program.differences, found); diff != "" {
				t.Errorf("differences (-want +got)\n%s", diff)
				p.print(os.Stdout)
			}
		})
	}
}

// A counted is a program: what footfall reports, what the model says, and the
// differences that were found.
type countedProgram struct {
	dir   string
	files map[string]*coverage.File
	lines map[sourceLine]*modelLine
	calls map[linkerName]*modelCalls
	found map[string]int // differences, by "tool: name"
	first map[string]string
	lcov  countedTracefile
}

type sourceLine struct {
	file string
	line int
}

type linkerName struct{ file, name string }

// A modelLine is the count of a line by the words of docs/counting.md, and what
// explains that gcov says something else.
type modelLine struct {
	count   int64
	ran     bool // a block that ends here did
	several bool // blocks of one function on it ran
	passing bool // in a function of which no block ends here, one that goes on to other lines ran
	sources bool // a block that ends in another source has this line last in this one
	torn    bool // counters of a function on it contradict each other
}

type modelCalls struct {
	count    int64
	arrivals int64 // that gcov takes for calls
	torn     bool
}

func newCounted(t *testing.T, dir string) *countedProgram {
	t.Helper()
	sources, err := source.NewSources(source.Options{Root: dir, SystemHeaders: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := collect.Files([]string{dir}, collect.Options{Sources: sources})
	if err != nil {
		t.Fatal(err)
	}
	set, objects := r.Set, r.Objects
	p := &countedProgram{
		dir: dir, files: make(map[string]*coverage.File), lines: make(map[sourceLine]*modelLine), calls: make(map[linkerName]*modelCalls),
		found: make(map[string]int), first: make(map[string]string),
	}
	for _, f := range set.All() {
		p.files[f.Name] = f
	}
	functions := make(map[string]*modelFunction)
	for _, u := range objects.Units {
		addUnit(t, functions, u, sources)
	}
	for _, f := range functions {
		p.addFunction(f)
	}
	return p
}

// A modelFunction is a function with the counters of all units that have it in
// the same form.
type modelFunction struct {
	*gcov.FunctionGraph
	path     func(name string) string
	counters []int64 // nil: never ran
}

// addUnit adds the functions of an object.
func addUnit(t *testing.T, functions map[string]*modelFunction, u gcov.Object, sources *source.Sources) {
	t.Helper()
	b, err := os.ReadFile(u.Notes)
	if err != nil {
		t.Fatal(err)
	}
	notes, err := gcov.ReadNotes(b)
	if err != nil {
		t.Fatalf("%s: %v", u.Notes, err)
	}
	path := func(name string) string {
		path, _ := sources.Resolve(notes.Cwd, name)
		return path
	}
	byIdent := make(map[uint32]*modelFunction)
	for _, fn := range notes.Functions {
		if fn.Artificial {
			continue
		}
		form := fmt.Sprint(path(fn.Source), fn.Name, fn.StartLine, fn.StartColumn, fn.Blocks, fn.Arcs)
		for _, l := range fn.Locations {
			form += fmt.Sprint(l.Block, path(cmp.Or(l.Source, fn.Source)), l.Lines)
		}
		f := functions[form]
		if f == nil {
			f = &modelFunction{FunctionGraph: fn, path: path}
			functions[form] = f
		}
		byIdent[fn.Ident] = f
	}
	for _, data := range u.Data {
		if b, err = os.ReadFile(data); err != nil {
			t.Fatal(err)
		}
		counts, err := gcov.ReadCounts(b)
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		for i := range counts.Functions {
			f, c := byIdent[counts.Functions[i].Ident], counts.Functions[i].Of(gcov.KindArcs)
			if f == nil || c == nil {
				continue
			}
			if f.counters == nil {
				f.counters = make([]int64, c.Len())
			}
			for k := range f.counters {
				f.counters[k] += c.At(k)
			}
		}
	}
}

func (p *countedProgram) addFunction(fn *modelFunction) {
	path := fn.path
	blocks, arrivals, torn := solveSimply(fn.FunctionGraph, fn.counters)
	calls := linkerName{path(fn.Source), fn.Name}
	if p.calls[calls] == nil {
		p.calls[calls] = &modelCalls{}
	}
	p.calls[calls].count += blocks[0] - arrivals
	p.calls[calls].arrivals += arrivals
	p.calls[calls].torn = p.calls[calls].torn || torn

	type seen struct {
		most, ending int64
		ends         bool // some block does
		ran          int
	}
	lines := make(map[sourceLine]*seen)
	ends := make([][]sourceLine, fn.Blocks) // of each block: its last lines in each source
	for _, l := range fn.Locations {
		file := path(cmp.Or(l.Source, fn.Source))
		for _, n := range l.Lines {
			at := sourceLine{file, int(n)}
			if lines[at] == nil {
				lines[at] = &seen{}
			}
			lines[at].most = max(lines[at].most, blocks[l.Block])
			if blocks[l.Block] > 0 {
				lines[at].ran++
			}
		}
		if len(l.Lines) > 0 {
			ends[l.Block] = append(ends[l.Block], sourceLine{file, int(slices.Max(l.Lines))})
		}
	}
	sources := make(map[sourceLine]bool)
	for b, lasts := range ends {
		for i, at := range lasts {
			if b == 0 || b == fn.Blocks-1 {
				continue // gcov takes the last block for the exit
			}
			lines[at].ending, lines[at].ends = max(lines[at].ending, blocks[b]), true
			sources[at] = sources[at] || i < len(lasts)-1
		}
	}
	for at, s := range lines {
		l := p.lines[at]
		if l == nil {
			l = &modelLine{}
			p.lines[at] = l
		}
		if s.ends {
			l.count += s.ending
			l.ran = l.ran || s.ending > 0
		} else {
			l.count += s.most
			l.passing = l.passing || s.most > 0
		}
		l.several = l.several || s.ran > 1
		l.sources = l.sources || sources[at]
		l.torn = l.torn || torn
	}
}

// solveSimply returns the counts of blocks: as much flows out of a block as
// flows in, until no arc is left that has no counter.
// Arrivals are by ways out of the entry that are not real.
func solveSimply(fn *gcov.FunctionGraph, counters []int64) (blocks []int64, arrivals int64, torn bool) {
	blocks = make([]int64, fn.Blocks)
	if counters == nil || len(fn.Arcs) == 0 {
		return blocks, 0, false
	}
	counts := make([]int64, len(fn.Arcs))
	known := make([]bool, len(fn.Arcs))
	next := 0
	for i, a := range fn.Arcs {
		if a.Flags&gcov.ArcTree == 0 {
			counts[i], known[i] = counters[next], true
			next++
		}
	}
	into, outOf := make([][]int, fn.Blocks), make([][]int, fn.Blocks)
	for i, a := range fn.Arcs {
		into[a.Dst], outOf[a.Src] = append(into[a.Dst], i), append(outOf[a.Src], i)
	}
	// sum adds up arcs; missing is one without a count, -2 if there are several.
	sum := func(arcs []int) (total int64, missing int) {
		missing = -1
		for _, i := range arcs {
			switch {
			case known[i]:
				total += counts[i]
			case missing == -1:
				missing = i
			default:
				missing = -2
			}
		}
		return total, missing
	}
	for changed := true; changed; {
		changed = false
		for b := range blocks {
			in, missingIn := sum(into[b])
			out, missingOut := sum(outOf[b])
			switch {
			case len(into[b]) == 0 || len(outOf[b]) == 0:
			case missingIn == -1 && missingOut >= 0:
				counts[missingOut], known[missingOut], changed = in-out, true, true
			case missingOut == -1 && missingIn >= 0:
				counts[missingIn], known[missingIn], changed = out-in, true, true
			}
		}
	}
	for b := range blocks {
		in, _ := sum(into[b])
		out, _ := sum(outOf[b])
		blocks[b] = in
		if len(into[b]) == 0 {
			blocks[b] = out
		}
		torn = torn || len(into[b]) > 0 && len(outOf[b]) > 0 && in != out
	}
	for _, i := range outOf[0] {
		if fn.Arcs[i].Flags&gcov.ArcFake != 0 {
			arrivals += counts[i]
		}
	}
	return blocks, arrivals, torn || slices.Min(counts) < 0
}

// check compares the report with the model.
func (p *countedProgram) check(t *testing.T) {
	t.Helper()
	checked := 0
	for _, f := range p.files {
		for _, l := range f.Lines {
			m := p.lines[sourceLine{f.Name, int(l.Number)}]
			checked++
			// Of a line that was only passed, TestVerdict says whether it ran.
			if m == nil || !m.torn && m.count != l.Count && !(l.Count == 0 && m.passing && !m.ran) {
				t.Errorf("%s:%d: count %d, the model has %+v", f.Name, l.Number, l.Count, m)
			}
		}
	}
	for at := range p.lines {
		if f := p.files[at.file]; f == nil || findLine(f, at.line) == nil {
			t.Errorf("%s:%d is not in the report", at.file, at.line)
		}
	}
	for _, f := range p.files {
		for _, fn := range f.Functions {
			for _, in := range fn.Instances {
				m := p.calls[linkerName{f.Name, in.Name}]
				if m == nil || !m.torn && m.count != in.Count && !(m.count == 0 && inlined(f, fn, in.Count)) {
					t.Errorf("%s: %s: called %d times, the model has %+v", f.Name, in.Name, in.Count, m)
				}
			}
		}
	}
	if checked == 0 {
		t.Errorf("%s: no lines", p.dir)
	}
}

// inlined tells whether count is that of a line of the function, which it has
// where it ran only in functions that it was inlined into.
func inlined(f *coverage.File, fn *coverage.Function, count int64) bool {
	return slices.ContainsFunc(f.Lines, func(l coverage.Line) bool {
		return l.Number >= fn.StartLine && l.Number <= fn.EndLine && l.Count == count
	})
}

func findLine(f *coverage.File, n int) *coverage.Line {
	i, ok := slices.BinarySearchFunc(f.Lines, int32(n), func(l coverage.Line, n int32) int { return cmp.Compare(l.Number, n) })
	if !ok {
		return nil
	}
	return &f.Lines[i]
}

// note counts a difference; one without a name is an error.
func (p *countedProgram) note(t *testing.T, tool, kind, name string, what string, args ...any) {
	t.Helper()
	key := tool + ": " + kind + " " + name
	if name == "" {
		t.Errorf("%s: %s: no reason is known: %s", tool, kind, fmt.Sprintf(what, args...))
		return
	}
	p.found[key]++
	if name == "same" {
		return
	}
	if example := fmt.Sprintf(what, args...); p.first[key] == "" || example < p.first[key] {
		p.first[key] = example
	}
}

// print writes a column of the table of docs/benchmarks.md, Line by line, beside lcov and gcovr.
func (p *countedProgram) print(w io.Writer) {
	for _, d := range slices.Sorted(maps.Keys(p.found)) {
		fmt.Fprintf(w, "%7d  %-32s %s\n", p.found[d], d, p.first[d])
	}
}

// lineReason names why a tool counts a line otherwise.
func (p *countedProgram) lineReason(at sourceLine, ours, theirs int64) string {
	m := p.lines[at]
	switch {
	case ours == theirs:
		return "same"
	case m == nil:
		return ""
	case m.torn:
		return "torn"
	case theirs > ours && m.several:
		return "ways in"
	case theirs < ours && m.passing:
		return "passing"
	}
	return ""
}

// A tracefile is what lcov says: counts of lines, of functions by name, and the
// branches of lines, -1 for those that were not decided.
type countedTracefile struct {
	lines    map[sourceLine]int64
	calls    map[linkerName]int64
	branches map[sourceLine][]int64
	outcomes map[sourceLine]map[outcome][]bool // of conditions, whether they were shown
	files    map[string]bool                   // with lines
}

// An outcome is one of a term of a condition, but not which of several
// conditions of that size on a line.
type outcome struct {
	terms, index int
	sense        bool
}

func readCountedTracefile(t *testing.T, name string) countedTracefile {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tf := countedTracefile{make(map[sourceLine]int64), make(map[linkerName]int64), make(map[sourceLine][]int64), make(map[sourceLine]map[outcome][]bool), make(map[string]bool)}
	number := func(s string) int64 {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return n
	}
	source := ""
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		tag, rest, _ := strings.Cut(scanner.Text(), ":")
		fields := strings.Split(rest, ",")
		switch tag {
		case "SF":
			source = filepath.Clean(rest)
		case "DA":
			tf.lines[sourceLine{source, int(number(fields[0]))}] += number(fields[1])
			tf.files[source] = true
		case "FNDA":
			tf.calls[linkerName{source, strings.Join(fields[1:], ",")}] += number(fields[0])
		case "FNA": // lcov 2.2
			tf.calls[linkerName{source, strings.Join(fields[2:], ",")}] += number(fields[1])
		case "MCDC":
			at := sourceLine{source, int(number(fields[0]))}
			o := outcome{int(number(fields[1])), int(number(fields[4])), fields[2] == "t"}
			addOutcome(tf.outcomes, at, o, number(fields[3]) > 0)
		case "BRDA":
			at, taken := sourceLine{source, int(number(fields[0]))}, int64(-1)
			if last := fields[len(fields)-1]; last != "-" {
				taken = number(last)
			}
			tf.branches[at] = append(tf.branches[at], taken)
		}
	}
	return tf
}

func addOutcome(to map[sourceLine]map[outcome][]bool, at sourceLine, o outcome, shown bool) {
	if to[at] == nil {
		to[at] = make(map[outcome][]bool)
	}
	to[at][o] = append(to[at][o], shown)
}

// conditionReason names why lcov has other outcomes of conditions on a line.
func (p *countedProgram) conditionReason(at sourceLine, ours, theirs map[outcome][]bool) string {
	name := "same"
	for _, o := range slices.Concat(slices.Collect(maps.Keys(ours)), slices.Collect(maps.Keys(theirs))) {
		mine, others := ours[o], theirs[o]
		shown, shownThere := slices.Contains(mine, true), slices.Contains(others, true)
		switch {
		case len(mine) == 1 && len(others) == 1 && shown == shownThere:
		case len(mine) > 1 && len(others) == 1 && shown == shownThere:
			name = "same size" // lcov takes those with as many terms for one
		case p.lines[at].sources && len(others) > 0 && (shownThere || !shown):
			return "in each source"
		default:
			return ""
		}
	}
	return name
}

func (p *countedProgram) compareLcov(t *testing.T, name string) {
	t.Helper()
	theirs := readCountedTracefile(t, name)
	p.lcov = theirs
	for at, count := range theirs.lines {
		var l *coverage.Line
		if f := p.files[at.file]; f != nil {
			l = findLine(f, at.line)
		}
		if l == nil {
			p.note(t, "lcov", "line", "", "%s:%d is not in the report", at.file, at.line)
			continue
		}
		p.note(t, "lcov", "line", p.lineReason(at, l.Count, count), "%s:%d: %d, here %d", at.file, at.line, count, l.Count)
	}
	for _, f := range p.files {
		for i := range f.Lines {
			l := &f.Lines[i]
			at := sourceLine{f.Name, int(l.Number)}
			if _, ok := theirs.lines[at]; !ok {
				p.note(t, "lcov", "line", "", "%s:%d is not in the tracefile", f.Name, l.Number)
				continue
			}
			if len(theirs.outcomes) > 0 {
				outcomes := make(map[sourceLine]map[outcome][]bool)
				for _, c := range l.Conditions {
					for i, term := range c.Terms {
						addOutcome(outcomes, at, outcome{len(c.Terms), i, true}, term.True)
						addOutcome(outcomes, at, outcome{len(c.Terms), i, false}, term.False)
					}
				}
				if len(outcomes[at])+len(theirs.outcomes[at]) > 0 {
					p.note(t, "lcov", "conditions", p.conditionReason(at, outcomes[at], theirs.outcomes[at]), "%s:%d: %v, here %v", f.Name, l.Number, theirs.outcomes[at], outcomes[at])
				}
			}
			var ours []int64
			for _, b := range l.Branches {
				if ours = append(ours, b.Count); !b.Evaluated {
					ours[len(ours)-1] = -1
				}
			}
			name := p.branchReason(at, ours, theirs.branches[at])
			if name == "" && len(theirs.branches[at]) < len(ours) && total(theirs.branches[at]) == total(ours) && inMacro(f, l.Number) > 1 {
				name = "same size" // lcov takes those of functions with as many branches for one
			}
			p.note(t, "lcov", "branches", name, "%s:%d: %v, here %v", f.Name, l.Number, theirs.branches[at], ours)
		}
		for _, fn := range f.Functions {
			for _, in := range fn.Instances {
				count, ok := theirs.calls[linkerName{f.Name, in.Name}]
				name := p.callReason(f, fn, in, count)
				if !ok {
					name = ""
				}
				p.note(t, "lcov", "function", name, "%s: %s: %d calls, here %d", f.Name, in.Name, count, in.Count)
				delete(theirs.calls, linkerName{f.Name, in.Name})
			}
		}
	}
	for in := range theirs.calls {
		p.note(t, "lcov", "function", "", "%s: %s is not in the report", in.file, in.name)
	}
}

func (p *countedProgram) callReason(f *coverage.File, fn *coverage.Function, in coverage.Instance, theirs int64) string {
	switch m := p.calls[linkerName{f.Name, in.Name}]; {
	case theirs == in.Count:
		return "same"
	case m != nil && m.torn:
		return "torn"
	case theirs == 0 && inlined(f, fn, in.Count):
		return "inlined"
	case m != nil && m.arrivals > 0 && theirs == in.Count+m.arrivals:
		return "arrivals"
	}
	return ""
}

// inMacro is how many functions one macro makes on a line.
func inMacro(f *coverage.File, line int32) (n int) {
	for _, fn := range f.Functions {
		if fn.StartLine == line && fn.EndLine == line && fn.StartColumn == fn.EndColumn {
			n++
		}
	}
	return n
}

// branchReason names why a tool has other branches on a line; -1 are those that
// were not decided.
func (p *countedProgram) branchReason(at sourceLine, ours, theirs []int64) string {
	if slices.Equal(ours, theirs) {
		return "same"
	}
	if p.lines[at].torn {
		return "torn"
	}
	switch {
	case slices.Equal(decided(ours), decided(theirs)):
		return "never decided"
	case slices.Equal(sortedCounts(ours), sortedCounts(theirs)):
		return "order"
	case len(theirs) > len(ours) && len(ours) > 0 && total(theirs) == total(ours):
		return "copies"
	case len(theirs) > len(ours) && p.lines[at].sources:
		return "in each source"
	}
	return ""
}

// decided returns the counts with 0 for what was not decided.
func decided(counts []int64) []int64 {
	out := slices.Clone(counts)
	for i := range out {
		out[i] = max(out[i], 0)
	}
	return out
}

func sortedCounts(counts []int64) []int64 { return slices.Sorted(slices.Values(decided(counts))) }

func total(counts []int64) (sum int64) {
	for _, n := range decided(counts) {
		sum += n
	}
	return sum
}

// gcovrReport is the part of gcovr's JSON that is compared.
type gcovrReport struct {
	Files []struct {
		File  string
		Lines []struct {
			Number   int `json:"line_number"`
			Count    int64
			NonCode  bool `json:"gcovr/noncode"`
			Excluded bool `json:"gcovr/excluded"`
			Branches []struct{ Count int64 }
		}
		Functions []struct {
			Line     int   `json:"lineno"`
			Count    int64 `json:"execution_count"`
			Excluded bool  `json:"gcovr/excluded"`
		}
	}
}

func (p *countedProgram) compareGcovr(t *testing.T, name string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var theirs gcovrReport
	if err := json.Unmarshal(b, &theirs); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, g := range theirs.Files {
		path := g.File
		if !filepath.IsAbs(path) {
			path = filepath.Join(p.dir, path)
		}
		f := p.files[path]
		if f == nil {
			p.note(t, "gcovr", "file", "", "%s is not in the report", path)
			continue
		}
		counts, branches := make(map[int]int64), make(map[int][]int64)
		for _, l := range g.Lines {
			if l.NonCode || l.Excluded {
				continue
			}
			counts[l.Number] += l.Count
			for _, b := range l.Branches {
				branches[l.Number] = append(branches[l.Number], b.Count)
			}
		}
		for i := range f.Lines {
			l := &f.Lines[i]
			at := sourceLine{path, int(l.Number)}
			count, ok := counts[at.line]
			delete(counts, at.line)
			name := p.lineReason(at, l.Count, count)
			if gcovs := p.lcov.lines[at]; !ok || name != "same" && count != gcovs {
				// It is not what gcov says, which lcov repeats.
				name = "gcovr's own"
			}
			p.note(t, "gcovr", "line", name, "%s:%d: %d, here %d", path, l.Number, count, l.Count)
			if name == "gcovr's own" {
				continue
			}
			var ours []int64
			for _, b := range l.Branches {
				ours = append(ours, b.Count)
			}
			name = p.branchReason(at, ours, branches[at.line])
			if name == "" && !slices.Equal(sortedCounts(branches[at.line]), sortedCounts(p.lcov.branches[at])) {
				name = "gcovr's own"
			}
			p.note(t, "gcovr", "branches", name, "%s:%d: %v, here %v", path, l.Number, branches[at.line], ours)
		}
		for n := range counts {
			p.note(t, "gcovr", "line", "", "%s:%d is not in the report", path, n)
		}
	}
}
