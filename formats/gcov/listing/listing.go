// Package listing does what gcov of GCC 3.4 and later does: listings (.gcov), intermediate text and
// JSON, with the summaries and messages of each version. Solving is that of package gcov.
package listing

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime"

	"footfall/formats/gcov"
	"footfall/formats/gcov/getopt"
	"footfall/formats/gcov/llvmcov"
	"footfall/input"
)

// An Invocation is one call of gcov.
type Invocation struct {
	// Prog is the name that messages about the command line begin with.
	Prog string
	Args []string // what follows it
	// Version is the version of GCC whose gcov this is. Zero stands for that
	// which each notes file was written by.
	Version gcov.Version
	Stdout  io.Writer
	Stderr  io.Writer
}

// Run is gcov: it reads the notes and data that the arguments name, writes
// listings and summaries, and returns the exit status. What it prints is what
// gcov of inv.Version prints.
func Run(inv *Invocation) int {
	stdout := bufio.NewWriterSize(inv.Stdout, 1<<16)
	defer stdout.Flush()
	args, err := getopt.Expand(inv.Args)
	if err != nil {
		fmt.Fprintln(inv.Stderr, err)
		return 1
	}
	opt, operands, problem := parseOptions(inv.Prog, args, inv.Version)
	if problem == nil && len(operands) == 0 {
		problem = &usageProblem{usage: true}
	}
	if problem != nil {
		return problem.report(stdout, inv)
	}
	if notes, _ := opt.fileNames(operands[0]); inv.Version == 0 && isClangNotes(notes) {
		return llvmcov.Run(&llvmcov.Invocation{Prog: inv.Prog, Args: inv.Args, Stdin: os.Stdin, Stdout: stdout, Stderr: inv.Stderr})
	}
	opt.owners = new(input.Owners)
	l := &lister{options: opt, forced: inv.Version, version: inv.Version, several: len(operands) > 1}
	return l.run(operands, &emitter{options: opt, stdout: stdout, stderr: inv.Stderr})
}

// isClangNotes tells whether a file was written by Clang, whose own gcov shows
// it.
func isClangNotes(name string) bool {
	b, _, err := readTimed(nil, name, nil)
	if err != nil {
		return false
	}
	if v := gcov.NotesVersion(b); v == 0 || v.ByteLengths() {
		return false // Clang has not gone beyond GCC 11's layout
	}
	notes, err := gcov.ReadNotes(b)
	return err == nil && notes.Clang()
}

// report prints what is wrong with the command line and returns the exit
// status.
func (p *usageProblem) report(stdout io.Writer, inv *Invocation) int {
	switch p.stop {
	case 'h':
		printUsage(stdout, inv.Version)
		return 0
	case 'v':
		printVersion(stdout, inv.Version)
		return 0
	}
	if p.msg != "" {
		fmt.Fprintln(inv.Stderr, p.msg)
	}
	if p.usage {
		printUsage(inv.Stderr, inv.Version)
	}
	return 1
}

// A lister carries out one invocation.
//
// Operands go through in four steps. Their files are read and solved, several
// at a time; then, in the order of the command line, sources get their numbers
// and messages are printed; then listings are made, again several at a time;
// and are written in order. JSON goes through all of this operand by operand,
// text in one go behind the last operand, when all counts have been added up.
type lister struct {
	*options
	forced  gcov.Version // 0: each file's own
	version gcov.Version // of the results; 0 before any notes were read
	several bool         // operands
	console              // not yet written

	// What was read last, which later operands without files of their own
	// inherit.
	notesName, dataName string
	cwd                 string
	hasCwd              bool
	noData              bool // the data of some operand so far are missing
	runs, programs      int
	marks               bool // the notes tell of unexecuted blocks
	warned              bool // that a source is newer than the notes, explained

	names     map[string]int32 // of sources, in all spellings
	sources   []*listSource
	functions []*listFunction
}

// A listSource is a source file.
type listSource struct {
	name    string // canonical
	shown   string // without the prefix of -s
	mtime   int64  // 0: not found, or newer than the notes
	index   int32
	size    uint32 // of the table of lines
	shares  []lineRef
	lines   *lineTable
	summary coverageSummary
	// functions in the order of the notes; slots has them by start line.
	functions []*listFunction
	slots     map[uint32][]*listFunction
	hottest   uint32 // the largest count of a line, in 32 bits
}

// A console has what is to be printed, and the exit status that it brings.
type console struct {
	stdout, stderr []byte
	status         int // 0: no change
}

func (c *console) say(format string, args ...any) { c.stderr = fmt.Appendf(c.stderr, format, args...) }

func (c *console) print(format string, args ...any) {
	c.stdout = fmt.Appendf(c.stdout, format, args...)
}

// A notice is a message with the exit status that it brings.
type notice struct {
	text   string
	status int
}

func (l *lister) notify(notices []notice) {
	for _, n := range notices {
		l.stderr = append(l.stderr, n.text...)
		if n.status != 0 && hasStatus(l.version) {
			l.console.status = n.status
		}
	}
}

func (l *lister) run(operands []string, e *emitter) int {
	loads := l.load(operands)
	emit := newSequence(e.emit)
	for i, operand := range operands {
		if l.progress {
			l.print("Processing file %d out of %d\n", i+1, len(operands))
		}
		l.take(operand, loads(i))
		switch {
		case l.json && (hasJSON(l.version) || joinsText(l.version)):
			// All that is needed is in the copy; l goes on with the next.
			c := *l
			r := &results{}
			finish := c.finishJSON
			if !hasJSON(l.version) {
				finish = c.finishText
			}
			emit.add(r, func() { finish(operand, r) })
			l.console, l.names, l.sources, l.functions = console{}, nil, nil, nil
		case l.json || i == len(operands)-1:
			l.finish(operand, emit)
			l.names, l.sources, l.functions = nil, nil, nil
		}
	}
	emit.drain()
	if !l.toStdout && alwaysTotals(l.version) {
		l.print("%s", executed(l.version, nil, e.lines, e.executed))
	}
	e.write(&l.console)
	return e.status
}

// load starts reading all operands and returns a function that waits for one
// of them.
func (l *lister) load(operands []string) func(i int) *loaded {
	processed := make(map[string]bool)
	jobs := make([]*loaded, len(operands))
	for i, operand := range operands {
		in := &loaded{operand: operand, first: i == 0 || !l.json}
		in.notesName, in.dataName = l.fileNames(operand)
		in.repeated = processed[in.dataName]
		processed[in.dataName] = true
		jobs[i] = in
	}
	workers := min(runtime.GOMAXPROCS(0), len(operands))
	names := new(demangler)
	if workers == 1 {
		ld := newLoader(l.options, l.forced, names)
		return func(i int) *loaded {
			ld.load(jobs[i])
			return jobs[i]
		}
	}
	// JSON may not run far ahead of what has been written.
	ahead := len(operands)
	if l.json {
		ahead = 2 * workers
	}
	done := make([]chan struct{}, len(operands))
	for i := range done {
		done[i] = make(chan struct{})
	}
	next := make(chan int)
	room := make(chan struct{}, ahead)
	go func() {
		for i := range jobs {
			room <- struct{}{}
			next <- i
		}
		close(next)
	}()
	for range workers {
		go func() {
			ld := newLoader(l.options, l.forced, names)
			for i := range next {
				ld.load(jobs[i])
				close(done[i])
			}
		}()
	}
	return func(i int) *loaded {
		<-done[i]
		<-room
		in := jobs[i]
		jobs[i] = nil
		return in
	}
}

// take adds what was read for an operand.
func (l *lister) take(operand string, in *loaded) {
	l.notesName, l.dataName = in.notesName, in.dataName
	if in.repeated {
		l.say("'%s' file is already processed\n", operand)
		return
	}
	if in.versioned && (l.json || l.version == l.forced) {
		l.version = in.version
	}
	l.notify(in.head)
	ids := make([]int32, len(in.sources))
	for i, name := range in.sources {
		ids[i] = l.source(name, in)
	}
	l.notify(in.body)
	for _, f := range in.functions {
		f.source = ids[f.source]
		for i := range f.shares {
			f.shares[i].source = ids[f.shares[i].source]
		}
		f.paths.number(ids)
	}
	l.functions = append(l.functions, in.functions...)
	if in.decoded {
		l.cwd, l.hasCwd, l.marks = in.cwd, true, in.marks
	}
	if in.opened && len(l.functions) == 0 && in.isNotes {
		l.notify([]notice{{text: in.notesName + ":no functions found\n"}})
	}
	l.notify(in.tail)
	if in.noData {
		l.noData = true
	}
	if in.hasRuns {
		l.runs = in.runs
		l.programs += in.programs
	}
}

// source returns the number of the source with that name, and warns if it is
// newer than the notes.
func (l *lister) source(name string, in *loaded) int32 {
	id, ok := l.names[name]
	if !ok {
		canon := canonicalName(name)
		if id, ok = l.names[canon]; !ok {
			id = l.newSource(canon)
		}
		l.names[name] = id
	}
	if src := l.sources[id]; src.mtime > in.notesTime {
		l.say("%s:source file is newer than notes file '%s'\n", name, in.notesName)
		if !l.warned {
			l.say("(the message is displayed only once per source file)\n")
			l.warned = true
		}
		src.mtime = 0
	}
	return id
}

func (l *lister) newSource(canon string) int32 {
	if l.names == nil {
		l.names = make(map[string]int32)
	}
	src := &listSource{name: canon, shown: canon, index: int32(len(l.sources))}
	if n := len(l.prefix); n > 0 && len(canon) > n && canon[:n] == l.prefix && canon[n] == '/' {
		src.shown = canon[n+1:]
	}
	if st, err := os.Stat(canon); err == nil {
		src.mtime = st.ModTime().Unix()
	}
	l.sources = append(l.sources, src)
	l.names[canon] = src.index
	return src.index
}

// finish makes the results of all that was taken.
func (l *lister) finish(operand string, emit *sequence[*results]) {
	l.group()
	l.functionSummaries()
	input := l.input(operand)
	for _, src := range l.sources {
		if l.relativeOnly(src) {
			continue
		}
		r := &results{console: l.console, version: l.version, sources: []*listSource{src}, name: l.listingName(input, src.shown), each: true, pieces: make(chan []byte)}
		l.console = console{}
		emit.add(r, func() { l.listing(src, r) })
	}
	emit.drain()
}

// input is the name of the operand in names of files and in JSON: the source
// that it names, if it does.
func (l *lister) input(operand string) string {
	if id, ok := l.names[operand]; ok {
		return l.sources[id].shown
	}
	return canonicalName(operand)
}

// group finds the functions that start on the same line, drops those without
// a source, and gives each source its functions and lines.
func (l *lister) group() {
	type place struct {
		source int32
		line   uint32
	}
	if hasGroups(l.version) {
		seen := make(map[place]*listFunction, len(l.functions))
		for _, f := range l.functions {
			if f.artificial {
				continue
			}
			at := place{f.source, f.start}
			if first := seen[at]; first != nil {
				first.group, f.group = true, true
			} else {
				seen[at] = f
			}
		}
	}
	kept := l.functions[:0]
	for _, f := range l.functions {
		if !f.artificial {
			kept = append(kept, f)
		}
	}
	l.functions = kept
	for _, f := range l.functions {
		l.place(f)
	}
}

// place gives the sources of a function its lines.
func (l *lister) place(f *listFunction) {
	src := l.sources[f.source]
	if f.instrumented || l.noData {
		l.complain(f)
		src.functions = append(src.functions, f)
		if src.slots == nil {
			src.slots = make(map[uint32][]*listFunction)
		}
		src.slots[f.start] = append(src.slots[f.start], f)
		if extendsToFunctionEnd(l.version) {
			src.size = max(src.size, f.end+1)
		}
	}
	for i := range f.shares {
		sh := &f.shares[i]
		of := l.sources[sh.source]
		of.size = max(of.size, sh.line+1)
		if !f.owns(sh) {
			of.shares = append(of.shares, lineRef{f, sh})
		}
	}
}

// owns tells whether a line belongs to the function alone: those of a group
// have their own.
func (f *listFunction) owns(sh *lineShare) bool {
	return f.group && sh.source == f.source && f.start <= sh.line && sh.line <= f.end
}

// complain tells what is wrong with a function's graph.
func (l *lister) complain(f *listFunction) {
	name := l.functionName(f)
	if f.faults&lacksEnds != 0 {
		l.say("%s:'%s' lacks entry and/or exit blocks\n", l.notesName, name)
	}
	if f.faults&arcsToEntry != 0 {
		l.say("%s:'%s' has arcs to entry block\n", l.notesName, name)
	}
	if f.faults&arcsFromExit != 0 {
		l.say("%s:'%s' has arcs from exit block\n", l.notesName, name)
	}
}

// functionName is the name to show.
func (l *lister) functionName(f *listFunction) string {
	if l.demangle {
		return f.plain
	}
	return f.name
}
