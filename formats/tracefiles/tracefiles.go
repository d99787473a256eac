// Package tracefiles reads the reports of other coverage tools, and footfall's
// own, so that they can be merged with coverage data: tracefiles of lcov, JSON of
// gcov, gcovr and footfall, Cobertura's XML, and profiles of Go.
//
// What a file is, its content tells, not its name; it may be compressed by gzip.
// Files are read as a stream, one source at a time, so that memory grows with
// what is known of the sources and not with the number of files. A record that
// makes no sense is a [FileProblem], and the rest is read.
//
// Formats know less than coverage.Set has room for:
//
//	              functions    branches                   tests  conditions
//	lcov 1        line, name   all of a line in one list  yes    no
//	lcov 2        lines, name  by decision                yes    yes
//	gcov JSON     all          1: one list; 2: decisions  no     yes
//	gcovr JSON    line, name   one list, or decisions     no     yes
//	Cobertura     line, name   how many, how many taken   no     no
//	Go            none         none                       no     no
//
// Package coverage matches these when all are merged, see coverage.Set.Reconcile.
// The listings of gcov (.gcov) are not read: they lack what footfall would need
// to tell functions and decisions apart, and whoever has one has the data too.
package tracefiles

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"footfall/coverage"
	"footfall/input"
)

// Options say what is kept of what is read.
type Options struct {
	// Source resolves the name of a source as the file has it, seen from
	// directory cwd, "" if the file tells none. Files with the same path are
	// one; keep=false leaves the file out. It is never called twice at a time.
	// nil keeps all, with the names as they are.
	Source func(cwd, name string) (path string, keep bool)
	// Root is a directory of which and above which the modules are looked for
	// that profiles of Go name, beside those above the profile itself; "" for the
	// working directory.
	Root string
	// Checksums is told what a file says of the text of a source, by its path, where it
	// says something. Several calls may run at once; nil: nobody is told.
	Checksums func(path string, lines []LineChecksum)
	// Test is the name of the test for what has none; "" for none.
	Test string
	// Progress is told how many of the files have been read, nil for nobody.
	// It is never called twice at a time.
	Progress func(done, total int)
	// Owners are told whose the files are, and asked for the sources of Go; nil for
	// nobody.
	Owners *input.Owners
}

// A FileProblem is something wrong in a file; the rest was still read.
type FileProblem struct {
	File string
	Line int // in File, 0 where it is about the whole
	Err  error
	// Cut tells that the file could not be read, or not to its end, or is empty: what else it
	// covers is not known.
	Cut bool
}

func (p FileProblem) Error() string {
	if p.Line > 0 {
		return fmt.Sprintf("%s: line %d: %v", p.File, p.Line, p.Err)
	}
	return fmt.Sprintf("%s: %v", p.File, p.Err)
}

// Read reads one file. The error says why nothing of it could be used.
func Read(name string, opt Options) (*coverage.Set, []FileProblem, error) {
	r := newReader(newSources(opt), opt)
	if err := r.read(name); err != nil {
		return nil, r.problems, err
	}
	set := r.sum.Set()
	return set, append(r.problems, Orphans(set.Reconcile(PlainName))...), nil
}

// Orphans says what belongs to no line and no function when all files are read.
func Orphans(orphans []coverage.Orphan) (problems []FileProblem) {
	for _, o := range orphans {
		err := fmt.Errorf("calls of %.80q are left out: no report says where it starts (FN)", o.Function)
		if o.Line > 0 {
			err = fmt.Errorf("branches or conditions of line %d are left out: no report has a count for it (DA)", o.Line)
		}
		problems = append(problems, FileProblem{File: o.File, Err: err})
	}
	return problems
}

// ReadAll reads files in parallel and returns all together, not reconciled:
// there may be more to come. A file that cannot be used is a problem.
func ReadAll(names []string, opt Options) (*coverage.Set, []FileProblem) {
	workers := max(1, min(runtime.GOMAXPROCS(0), len(names)))
	readers := make([]*reader, workers)
	s := newSources(opt)
	var next atomic.Int32
	var done int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range readers {
		r := newReader(s, opt)
		readers[i] = r
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(names) {
					return
				}
				if err := r.read(names[i]); err != nil {
					r.problems = append(r.problems, FileProblem{File: names[i], Err: err, Cut: true})
				}
				mu.Lock()
				done++
				if opt.Progress != nil {
					opt.Progress(done, len(names))
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	var sum coverage.Sum
	var problems []FileProblem
	for _, r := range readers {
		sum.Take(r.sum.Set())
		problems = append(problems, r.problems...)
	}
	return sum.Set(), problems
}

// A reader reads one file after another in one goroutine, and adds them up.
type reader struct {
	sum        coverage.Sum
	sources    *sources
	resolved   map[[2]string]resolved
	root, test string
	owners     *input.Owners
	checksums  func(path string, lines []LineChecksum)
	names      map[string]string // those read, each once
	problems   []FileProblem

	// of the file under way
	name  string
	in    stream
	told  int     // problems
	added int     // sources
	build builder // the source under way
}

func newReader(s *sources, opt Options) *reader {
	return &reader{sources: s, root: opt.Root, test: opt.Test, owners: opt.Owners, checksums: opt.Checksums, resolved: make(map[[2]string]resolved), names: make(map[string]string)}
}

// manyProblems is how many problems of a file are told one by one.
const manyProblems = 20

// problem notes what is wrong with a line, 0 for the whole file.
func (r *reader) problem(line int, format string, args ...any) {
	switch r.told++; {
	case r.told < manyProblems:
		r.problems = append(r.problems, FileProblem{File: r.name, Line: line, Err: fmt.Errorf(format, args...)})
	case r.told == manyProblems:
		r.problems = append(r.problems, FileProblem{File: r.name, Line: line, Err: fmt.Errorf("more of the kind; only the first %d are told", manyProblems-1)})
	}
}

// cut notes that the file ends where it must not.
func (r *reader) cut(line int, format string, args ...any) {
	r.problems = append(r.problems, FileProblem{File: r.name, Line: line, Err: fmt.Errorf(format, args...), Cut: true})
}

// tellNegative says how many counts of the file were negative.
func (r *reader) tellNegative(counts int64) {
	if counts > 0 {
		r.problem(0, "%d negative counts, torn by threads, are taken as 0", counts)
	}
}

// intern returns text as a string that is kept once.
func (r *reader) intern(text []byte) string {
	if s, ok := r.names[string(text)]; ok {
		return s
	}
	s := string(text)
	r.names[s] = s
	return s
}

// read reads a file, whatever it is.
func (r *reader) read(name string) error {
	f, err := r.owners.OpenGiven(name)
	if err != nil {
		return withoutPath(err)
	}
	defer f.Close()
	before := len(r.problems)
	if err := r.readFrom(name, f); err != nil {
		return err
	}
	if r.added == 0 && len(r.problems) == before {
		return errors.New("no source in it: what ran is not known")
	}
	return nil
}

func (r *reader) readFrom(name string, from io.Reader) error {
	r.name, r.told, r.added = name, 0, 0
	if err := r.in.open(from); err != nil {
		return err
	}
	switch kind, err := detect(r.in.peek()); {
	case err != nil:
		return err
	case kind == lcovKind:
		return r.lcov()
	case kind == xmlKind:
		return r.cobertura()
	case kind == goKind:
		return r.goProfile()
	}
	return r.json()
}

// add adds the source under way to the sum, as the file has named it.
func (r *reader) add(cwd, name, test string) {
	r.added++
	if where := r.resolve(cwd, name); where.keep {
		if len(r.build.checksums) > 0 && r.checksums != nil {
			r.checksums(where.path, r.build.checksums)
		}
		r.finish()
		f := &r.build.file
		f.Name = where.path
		f.Expansions = r.resolveExpansions(cwd, f.Expansions)
		if test == "" {
			test = r.test
		}
		if test != "" {
			f.NameTest(test)
		}
		r.sum.Add(f)
	}
	r.build.reset()
}

// resolveExpansions resolves the names of files of expansions, and takes those out that are not wanted.
func (r *reader) resolveExpansions(cwd string, list []coverage.Expansion) []coverage.Expansion {
	kept := list[:0]
	for _, e := range list {
		if where := r.resolve(cwd, e.File); where.keep {
			e.File, e.Within = where.path, r.resolveExpansions(cwd, e.Within)
			kept = append(kept, e)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	slices.SortStableFunc(kept, coverage.CompareExpansions)
	return slices.CompactFunc(kept, func(a, b coverage.Expansion) bool { return coverage.CompareExpansions(a, b) == 0 })
}

// finish completes the source under way but for its name.
func (r *reader) finish() {
	b := &r.build
	for i := range b.functions {
		b.file.Functions = append(b.file.Functions, &b.functions[i])
	}
	b.functions = b.functions[:0]
	b.file.Normalize()
}

// A kind is one of the formats.
type kind int

const (
	lcovKind kind = iota
	jsonKind
	xmlKind
	goKind
)

// detect tells by its beginning what a file is.
func detect(head []byte) (kind, error) {
	start := bytes.TrimLeft(head, " \t\r\n")
	switch {
	case len(start) == 0:
		return 0, fmt.Errorf("empty, expected a coverage report")
	case isLcov(start):
		return lcovKind, nil
	case start[0] == '{':
		return jsonKind, nil
	case start[0] == '<':
		return xmlKind, nil
	case bytes.HasPrefix(start, []byte("mode: ")):
		return goKind, nil
	case bytes.HasPrefix(start, []byte("-:")) && bytes.Contains(start, []byte(":Source:")):
		return 0, fmt.Errorf("a listing of gcov, which cannot be read back: name the .gcda file, or write it with gcov --json-format")
	}
	return 0, fmt.Errorf("neither coverage data nor a report that is known: expected a tracefile of lcov, JSON of gcov, gcovr or footfall, Cobertura's XML or a profile of Go")
}
