package gcov

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A LegacyStyle is the gcov of a compiler before GCC 3.4. They differ little
// but in words: there is one source file, its listings, and one summary.
type LegacyStyle int

const (
	LegacyAny LegacyStyle = iota // that of the files
	Legacy2                      // GCC 2.91 to 3.2
	Legacy3                      // GCC 3.3
)

// ParseLegacyStyle tells which style the gcov of a version such as "2.95" or
// "3.2" has; ok is false for versions that are not that old.
func ParseLegacyStyle(version string) (style LegacyStyle, ok bool) {
	major, minor, _ := strings.Cut(version, ".")
	minor, _, _ = strings.Cut(minor, ".")
	switch {
	case major == "2" && (minor == "" || strings.HasPrefix(minor, "9")), major == "3" && (minor == "0" || minor == "1" || minor == "2"):
		return Legacy2, true
	case major == "3" && minor == "3":
		return Legacy3, true
	}
	return LegacyAny, false
}

// IsLegacy tells whether a command line of gcov is about files of a compiler
// before GCC 3.4: they are there, and newer ones are not.
func IsLegacy(args []string) bool {
	l := &legacyListing{inv: &Invocation{Args: args}}
	if l.find(); l.input == "" {
		return false
	}
	for _, style := range []LegacyStyle{Legacy3, Legacy2} {
		l.style = style
		stem := l.stem()
		if _, err := os.Stat(stem + ".gcno"); err == nil {
			return false
		}
		if _, err := os.Stat(stem + ".bb"); err == nil {
			return true
		}
	}
	return false
}

// A legacyListing is one run of an old gcov.
type legacyListing struct {
	inv   *Invocation
	style LegacyStyle

	branches, counts, write, long, functions, preserve bool
	object, input                                      string

	bbName  string
	bbTime  time.Time
	notes   *LegacyNotes
	flows   []*legacyFlow
	sources []*legacySource
}

// A legacySource is a source and what its lines count.
type legacySource struct {
	name  string
	lines map[int32]*legacyLine
	last  int32 // the greatest number of a line
}

// line returns the line of that number, made if it is missing.
func (s *legacySource) line(number int32) *legacyLine {
	if s.lines[number] == nil {
		s.lines[number] = new(legacyLine)
	}
	return s.lines[number]
}

// at returns the line of that number, or an empty one.
func (s *legacySource) at(number int32) legacyLine {
	if l := s.lines[number]; l != nil {
		return *l
	}
	return legacyLine{}
}

type legacyLine struct {
	exists   bool
	count    int64
	branches []legacyBranch
}

// A legacyBranch is a branch or, from a call that may not return, the other way
// out.
type legacyBranch struct {
	hits, total int64
	call        bool
}

// RunLegacy does what gcov before GCC 3.4 does, and returns the exit status.
func RunLegacy(inv *Invocation, style LegacyStyle) int {
	l := &legacyListing{inv: inv, style: style, write: true}
	if l.style == LegacyAny {
		l.find()
		l.style = l.guess()
		l.object = ""
	}
	parse := l.parse
	if l.old() {
		parse = l.parseOld
	}
	if status, stop := parse(); stop {
		return status
	}
	if status, ok := l.read(); !ok {
		return status
	}
	for _, s := range l.sources {
		if !l.scan(s) {
			return l.fatalStatus()
		}
		l.list(s)
	}
	return 0
}

func (l *legacyListing) old() bool { return l.style == Legacy2 }

func (l *legacyListing) fatalStatus() int {
	if l.old() {
		return 33
	}
	return 1
}

func (l *legacyListing) errorf(format string, args ...any) {
	fmt.Fprintf(l.inv.Stderr, format, args...)
}

func (l *legacyListing) printf(format string, args ...any) {
	fmt.Fprintf(l.inv.Stdout, format, args...)
}

var legacyOptions = []longOption{
	{"help", false, 'h'}, {"version", false, 'v'}, {"branch-probabilities", false, 'b'}, {"branch-counts", false, 'c'}, {"no-output", false, 'n'},
	{"long-file-names", false, 'l'}, {"function-summaries", false, 'f'}, {"preserve-paths", false, 'p'},
	{"object-directory", true, 'o'}, {"object-file", true, 'o'},
}

const legacyUsage = `Usage: gcov [OPTION...] SOURCE

Print code coverage information.

  -b, --branch-probabilities     list branches and calls
  -c, --branch-counts            with -b: counts in place of percentages
  -f, --function-summaries       sum up each function
  -l, --long-file-names          name listings of headers after the source too
  -n, --no-output                write no files
  -o, --object-directory DIR|FILE
                                 find .bb, .bbg and .da in DIR or as FILE
  -p, --preserve-paths           keep directories in names of listings
  -h, --help                     print this help
  -v, --version                  print the version

This is footfall's gcov.
`

// find looks in the command line only for what tells the style: which source,
// and where its files are.
func (l *legacyListing) find() {
	g := getopt{short: "hvbclnfo:p", long: legacyOptions, stderr: io.Discard, args: l.inv.Args}
	for opt, arg := g.next(); opt != 0; opt, arg = g.next() {
		if opt == 'o' {
			l.object = arg
		}
	}
	if len(g.operands) == 1 {
		l.input = g.operands[0]
	}
}

// parse reads the command line of GCC 3.3's gcov.
func (l *legacyListing) parse() (status int, stop bool) {
	g := getopt{prog: filepath.Base(l.inv.Prog), short: "hvbclnfo:p", long: legacyOptions, stderr: l.inv.Stderr, args: l.inv.Args}
	for opt, arg := g.next(); opt != 0; opt, arg = g.next() {
		switch opt {
		case 'c':
			l.counts = true
		case 'p':
			l.preserve = true
		case 'o':
			l.object = arg
		case 'v':
			l.printf("gcov (footfall) 3.3\nThis is footfall, which prints what gcov of that version prints.\n\n")
			return 0, true
		case 'h':
			l.printf("%s", legacyUsage)
			return 0, true
		case '?':
			l.errorf("%s", legacyUsage)
			return 1, true
		default:
			l.set(opt)
		}
	}
	if len(g.operands) != 1 {
		l.errorf("%s", legacyUsage)
		return 1, true
	}
	l.input = g.operands[0]
	return 0, false
}

// set sets an option that both styles have.
func (l *legacyListing) set(opt byte) bool {
	switch opt {
	case 'b':
		l.branches = true
	case 'n':
		l.write = false
	case 'l':
		l.long = true
	case 'f':
		l.functions = true
	default:
		return false
	}
	return true
}

// parseOld reads the command line of GCC 2's gcov, which looks only at the first
// letter of an option.
func (l *legacyListing) parseOld() (status int, stop bool) {
	l.object, l.input = "", ""
	args := l.inv.Args
	wrong := false
	for len(args) > 0 && !wrong {
		arg := args[0]
		args = args[1:]
		switch {
		case !strings.HasPrefix(arg, "-"):
			wrong = l.input != ""
			l.input = arg
		case strings.HasPrefix(arg, "-v"):
			l.errorf("GNU gcov version 1.5\n")
		case arg == "-o" && len(args) > 0:
			l.object, args = args[0], args[1:]
		default:
			wrong = len(arg) < 2 || !l.set(arg[1])
		}
	}
	if wrong || l.input == "" {
		l.errorf("gcov [-b] [-v] [-n] [-l] [-f] [-o OBJDIR] file\n")
		return l.fatalStatus(), true
	}
	return 0, false
}

// stem is the name of the files without suffix.
func (l *legacyListing) stem() string {
	name := l.input
	if l.object != "" {
		st, err := os.Stat(l.object)
		if l.old() || err == nil && st.IsDir() {
			name = strings.TrimSuffix(l.object, "/") + "/" + baseName(l.input)
		} else {
			name = l.object
		}
	} else if !l.old() {
		name = baseName(l.input)
	}
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[:i]
	}
	return name
}

// guess finds the style of the files. Those of a source without functions are
// empty: then files beside them tell.
func (l *legacyListing) guess() LegacyStyle {
	for _, style := range []LegacyStyle{Legacy3, Legacy2} {
		l.style = style
		name := l.stem() + ".bbg"
		others, _ := filepath.Glob(filepath.Join(filepath.Dir(name), "*.bbg"))
		for _, file := range append([]string{name}, others...) {
			b, err := os.ReadFile(file)
			switch {
			case err == nil && namedGraph(b):
				return Legacy3
			case err == nil && len(b) > 0:
				return Legacy2
			}
		}
	}
	return Legacy3
}

// read reads the files and solves the graphs.
func (l *legacyListing) read() (status int, ok bool) {
	stem := l.stem()
	l.bbName = stem + ".bb"
	bb, bbErr := os.ReadFile(l.bbName)
	bbg, bbgErr := os.ReadFile(stem + ".bbg")
	da, daErr := os.ReadFile(stem + ".da")
	if st, err := os.Stat(l.bbName); err == nil {
		l.bbTime = st.ModTime()
	}
	noData := func() {
		if daErr != nil {
			l.errorf("Could not open data file %s.\nAssuming that all execution counts are zero.\n", stem+".da")
		}
	}
	if bbErr != nil {
		l.errorf("Could not open basic block file %s.\n", l.bbName)
		return l.fatalStatus(), false
	}
	if l.old() {
		noData()
	}
	if bbgErr != nil {
		l.errorf("Could not open program flow graph file %s.\n", stem+".bbg")
		return l.fatalStatus(), false
	}
	if !l.old() {
		noData()
	}
	if len(bbg) == 0 {
		l.errorf("No executable code associated with file %s.\n", l.input)
		return l.fatalStatus(), false
	}
	notes, err := ReadLegacyNotes(bb, bbg)
	if err != nil {
		l.errorf("%s: %v\n", stem, err)
		if len(notes.BySite) == 0 {
			return l.fatalStatus(), false
		}
	}
	l.notes = notes
	l.solve(stem+".da", da, daErr == nil)
	l.findSources()
	return 0, true
}

// solve gives each function the counts of the data.
func (l *legacyListing) solve(name string, da []byte, there bool) {
	counts := &LegacyCounts{}
	if there {
		var err error
		if counts, err = ReadLegacyCounts(da); err != nil {
			if counts.Named {
				l.errorf(".da file corrupted!\n")
			} else {
				l.errorf(".da file contents exhausted too early\n")
			}
			l.errorf("%s: %v; counts that are missing are 0\n", name, err)
		} else if err := counts.Fits(l.notes); err != nil {
			if !counts.Named && len(counts.Values) > 0 {
				l.errorf(".da file contents not exhausted\n")
			}
			l.errorf("%s: %v\n", name, err)
			if !counts.Named || !l.notes.Named {
				counts = &LegacyCounts{} // of another object
			}
		}
	}
	for i, g := range l.notes.Graphs {
		values, _ := counts.Of(l.notes, i)
		l.flows = append(l.flows, g.solve(values))
	}
}

// findSources lists all sources, the last mentioned first.
func (l *legacyListing) findSources() {
	var current *legacySource
	for _, f := range l.notes.BySite {
		for _, t := range f.Lines {
			switch {
			case t.Number == tokenFile:
				if current = l.source(t.Name); current == nil {
					current = &legacySource{name: t.Name, lines: make(map[int32]*legacyLine)}
					l.sources = append([]*legacySource{current}, l.sources...)
				}
			case t.Number > maxLegacyLine:
				l.errorf("%s: line %d in function %s is left out\n", l.bbName, t.Number, f.Name)
			case t.Number > 0 && current != nil:
				current.last = max(current.last, t.Number)
			}
		}
	}
}

// maxLegacyLine is the largest line number that is believed.
const maxLegacyLine = 1 << 20

func (l *legacyListing) source(name string) *legacySource {
	for _, s := range l.sources {
		if s.name == name {
			return s
		}
	}
	return nil
}

// A legacySummary counts what is in a function or file.
type legacySummary struct {
	lines, linesRun, branches, branchesRun, taken, calls, callsRun int
}

// add counts a branch. The gcov of GCC 2 knows only percentages: what is less
// than half a percent was not taken.
func (s *legacySummary) add(b legacyBranch, old bool) {
	run, taken := b.total != 0, b.hits != 0
	if old {
		run, taken = b.percent() != -1, b.percent() > 0
	}
	switch {
	case b.call:
		s.calls++
		s.callsRun += toInt(run)
	default:
		s.branches++
		s.branchesRun += toInt(run)
		s.taken += toInt(taken)
	}
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// percent is the share in the arithmetic of GCC 2, of 32 bits; -1 stands for
// never executed.
func (b legacyBranch) percent() int32 {
	if int32(b.total) == 0 {
		return -1
	}
	return (int32(b.hits)*100 + int32(b.total)>>1) / int32(b.total)
}

// scan books all blocks that name lines of a source on them, and prints the
// summaries of functions as it passes them. Which source is current is known
// only from the last name, be it of another function. It returns false where
// the lines do not fit the graphs.
func (l *legacyListing) scan(s *legacySource) bool {
	here := false
	last := int32(0) // the line that takes branches
	for i, f := range l.notes.BySite {
		flow, block := l.flows[i], 0
		var sum legacySummary
		// The entry counts for the name that the file before it left.
		for _, t := range f.Lines {
			switch {
			case t.Number == tokenFile:
				here = t.Name == s.name
			case t.Number == 0:
				if block >= flow.Blocks {
					l.errorf("ERROR: too many basic blocks in function %s\n", f.Name)
					return false
				}
				if l.branches && here {
					l.bookBranches(s.line(last), flow, block, &sum)
				}
				block++
			case here && t.Number <= maxLegacyLine && block < flow.Blocks:
				last = t.Number
				line := s.line(last)
				sum.lines += toInt(!line.exists)
				sum.linesRun += toInt(line.count == 0 && flow.blocks[block] != 0)
				line.count += flow.blocks[block]
				line.exists = true
			}
		}
		if i+1 < len(l.notes.BySite) {
			l.closeFunction(s, f.Name, flow, block, last, here, &sum)
		}
		if l.functions && here {
			l.summary(&sum, "function", f.Name)
		}
	}
	return true
}

// closeFunction books what the last block with lines leaves over, before
// another function begins.
func (l *legacyListing) closeFunction(s *legacySource, name string, flow *legacyFlow, block int, last int32, here bool, sum *legacySummary) {
	switch block {
	case flow.Blocks - 1: // falls through to the exit
	case flow.Blocks - 2:
		if l.branches && here {
			l.bookBranches(s.line(last), flow, block, sum)
		}
	default:
		l.errorf("didn't use all bb entries of graph, function %s\nblock_num = %d, num_blocks = %d\n", name, block, flow.Blocks)
	}
}

// bookBranches puts all ways out of a block but the next one on a line.
func (l *legacyListing) bookBranches(line *legacyLine, flow *legacyFlow, block int, sum *legacySummary) {
	for _, i := range flow.out[block] {
		a := flow.Arcs[i]
		if a.Flags&ArcFallthrough != 0 {
			continue
		}
		b := legacyBranch{total: flow.blocks[block], call: a.Flags&ArcFake != 0}
		if b.total != 0 {
			b.hits = flow.arcs[i]
		}
		sum.add(b, l.old())
		line.branches = append(line.branches, b)
	}
}

// summary prints a summary of a function or file.
func (l *legacyListing) summary(s *legacySummary, what, name string) {
	kind := "lines"
	if l.old() {
		kind = "source lines"
	}
	if s.lines > 0 {
		l.printf("%s of %d %s executed in %s %s\n", l.share(s.linesRun, s.lines), s.lines, kind, what, name)
	} else {
		l.printf("No executable %s in %s %s\n", kind, what, name)
	}
	if !l.branches {
		return
	}
	if s.branches > 0 {
		l.printf("%s of %d branches executed in %s %s\n", l.share(s.branchesRun, s.branches), s.branches, what, name)
		l.printf("%s of %d branches taken at least once in %s %s\n", l.share(s.taken, s.branches), s.branches, what, name)
	} else {
		l.printf("No branches in %s %s\n", what, name)
	}
	if s.calls > 0 {
		l.printf("%s of %d calls executed in %s %s\n", l.share(s.callsRun, s.calls), s.calls, what, name)
	} else {
		l.printf("No calls in %s %s\n", what, name)
	}
}

// share is a percentage with two decimals.
func (l *legacyListing) share(top, bottom int) string {
	if l.old() {
		return fmt.Sprintf("%6.2f%%", float64(top)/float64(bottom)*100)
	}
	return legacyPercent(int64(top), int64(bottom), 2)
}

// legacyPercent is a percentage as GCC 3.3 prints it: 0 and 100 only when exact.
func legacyPercent(top, bottom int64, decimals int) string {
	var ratio float32
	if bottom != 0 {
		ratio = float32(top) / float32(bottom)
	}
	limit := uint32(100)
	for range decimals {
		limit *= 10
	}
	percent := uint32(int64(ratio*float32(limit) + 0.5))
	switch {
	case percent == 0 && top != 0:
		percent = 1
	case percent >= limit && top != bottom:
		percent = limit - 1
	}
	if decimals == 0 {
		return fmt.Sprintf("%d%%", percent)
	}
	return fmt.Sprintf("%d.%0*d%%", percent/(limit/100), decimals, percent%(limit/100))
}

// list prints the summary of a source and writes its listing.
func (l *legacyListing) list(s *legacySource) {
	var sum legacySummary
	for number, line := range s.lines {
		if number == 0 {
			continue // branches before the first line
		}
		sum.lines += toInt(line.exists)
		sum.linesRun += toInt(line.exists && line.count != 0)
		for _, b := range line.branches {
			sum.add(b, l.old())
		}
	}
	path := s.name
	if l.old() && l.object != "" && !strings.HasPrefix(path, "/") {
		path = strings.TrimSuffix(l.object, "/") + "/" + path
	}
	l.summary(&sum, "file", path)
	if !l.write {
		return
	}
	source, err := os.ReadFile(path)
	if err != nil {
		l.errorf("Could not open source file %s.\n", path)
		if l.old() {
			return
		}
	}
	name := l.listingName(s, path)
	f, createErr := os.Create(name)
	if createErr != nil {
		l.errorf("Could not open output file %s.\n", name)
		return
	}
	w := bufio.NewWriter(f)
	l.printf("Creating %s.\n", name)
	if l.old() {
		l.listOld(w, s, path, source)
	} else {
		l.listNew(w, s, source, err == nil)
	}
	err = w.Flush()
	if closeErr := f.Close(); err != nil || closeErr != nil {
		l.errorf("Error writing output file %s.\n", name)
	}
}

// listingName is the name of the file that a source is listed in.
func (l *legacyListing) listingName(s *legacySource, path string) string {
	if l.old() {
		name := baseName(path)
		if l.long && baseName(s.name) != l.input {
			name = baseName(l.input) + "." + name
		}
		return name + ".gcov"
	}
	part := baseName
	if l.preserve {
		part = func(name string) string { return name }
	}
	name := part(s.name)
	if l.long && s.name != l.input {
		name = part(l.input) + "##" + name
	}
	if l.preserve {
		name = flattenPath(name)
	}
	return name + ".gcov"
}

// flattenPath replaces slashes by #, drops "." and makes ".." a ^.
func flattenPath(name string) string {
	parts := strings.Split(name, "/")
	var out []string
	for i, p := range parts {
		switch {
		case i == len(parts)-1: // the file
			out = append(out, p)
		case p == ".":
		case p == "..":
			out = append(out, "^")
		default:
			out = append(out, p)
		}
	}
	return strings.Join(out, "#")
}

// listOld writes the listing of GCC 2: no numbers, and tabs before lines without
// code. Its buffer keeps the last piece of the source beyond the end.
func (l *legacyListing) listOld(w io.Writer, s *legacySource, path string, source []byte) {
	r := &pieces{rest: source}
	for i := int32(1); i <= s.last; i++ {
		line := s.at(i)
		ok := r.next()
		switch {
		case !line.exists:
			fmt.Fprintf(w, "\t\t%s", r.piece)
		case line.count != 0:
			fmt.Fprintf(w, "%12d    %s", line.count, r.piece)
		default:
			fmt.Fprintf(w, "      ######    %s", r.piece)
		}
		for ok && !r.ends() {
			ok = r.next()
			w.Write(r.piece)
		}
		for n, b := range line.branches {
			if l.branches {
				b.printOld(w, n)
			}
		}
		if !ok {
			l.errorf("Unexpected EOF while reading source file %s.\n", path)
			break
		}
	}
	for ok := r.next(); ok; ok = r.next() {
		fmt.Fprintf(w, "\t\t%s", r.piece)
		for ok && !r.ends() {
			ok = r.next()
			w.Write(r.piece)
		}
	}
}

func (b legacyBranch) printOld(w io.Writer, n int) {
	switch percent := b.percent(); {
	case b.call && percent == -1:
		fmt.Fprintf(w, "call %d never executed\n", n)
	case b.call:
		fmt.Fprintf(w, "call %d returns = %d%%\n", n, 100-percent)
	case percent == -1:
		fmt.Fprintf(w, "branch %d never executed\n", n)
	default:
		fmt.Fprintf(w, "branch %d taken = %d%%\n", n, percent)
	}
}

// listNew writes the listing of GCC 3.3.
func (l *legacyListing) listNew(w io.Writer, s *legacySource, source []byte, there bool) {
	fmt.Fprintf(w, "%9s:%5d:Source:%s\n%9s:%5d:Object:%s\n", "-", 0, s.name, "-", 0, l.bbName)
	if st, err := os.Stat(s.name); there && err == nil && st.ModTime().Unix() > l.bbTime.Unix() {
		l.errorf("Warning: source file %s is newer than %s\n", s.name, l.bbName)
		fmt.Fprintf(w, "%9s:%5d:Source is newer than compiler output\n", "-", 0)
	}
	r := &pieces{rest: source}
	ok := there
	for i := int32(1); i <= s.last; i++ {
		line := s.at(i)
		count := "-"
		switch {
		case line.exists && line.count == 0:
			count = "#####"
		case line.exists:
			count = fmt.Sprint(line.count)
		}
		fmt.Fprintf(w, "%9s:%5d:", count, i)
		for done := false; ok && !done; {
			if ok = r.next(); !ok {
				l.errorf("Unexpected EOF while reading source file %s.\n", s.name)
				break
			}
			w.Write(r.piece)
			done = r.ends()
		}
		if !ok {
			io.WriteString(w, "??\n")
		}
		for n, b := range line.branches {
			if l.branches {
				b.printNew(w, n, l.counts)
			}
		}
	}
	for i := s.last + 1; ok && r.next(); i++ {
		fmt.Fprintf(w, "%9s:%5d:%s", "-", i, r.piece)
		for !r.ends() && r.next() {
			w.Write(r.piece)
		}
	}
}

func (b legacyBranch) printNew(w io.Writer, n int, counts bool) {
	word, value, verb := "branch", b.hits, "taken"
	if b.call {
		word, value, verb = "call  ", b.total-b.hits, "returns"
	}
	switch {
	case b.total == 0:
		fmt.Fprintf(w, "%s %2d never executed\n", word, n)
	case counts:
		fmt.Fprintf(w, "%s %2d %s %d\n", word, n, verb, value)
	default:
		fmt.Fprintf(w, "%s %2d %s %s\n", word, n, verb, legacyPercent(value, b.total, 0))
	}
}

// pieces are what fgets reads into a buffer of 200 bytes: a line or a part of a
// long one. At the end the last piece stays.
type pieces struct {
	rest, piece []byte
}

func (p *pieces) next() bool {
	if len(p.rest) == 0 {
		return false
	}
	n := min(len(p.rest), 199)
	if i := bytes.IndexByte(p.rest[:n], '\n'); i >= 0 {
		n = i + 1
	}
	p.piece, p.rest = p.rest[:n], p.rest[n:]
	if i := bytes.IndexByte(p.piece, 0); i >= 0 {
		p.piece = p.piece[:i] // what C takes for the end
	}
	return true
}

// ends tells whether the piece ends a line.
func (p *pieces) ends() bool { return bytes.HasSuffix(p.piece, []byte("\n")) }
