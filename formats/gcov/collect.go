package gcov

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"footfall/coverage"
	"footfall/input"
)

// An Object is one compiled unit: its notes, and the data of its runs, none
// when it never ran.
type Object struct {
	Notes    string
	Bytes    []byte    // of the notes, if they are in no file; they are not changed
	Size     int64     // of the notes, 0 if it is not known: large ones are read first
	Data     []string  // data files
	Readings []Reading // data that are in no file
	// Dir stands for the working directory of the compiler in calls of Source
	// where the notes do not record it: those of Clang, and of GCC before 9.
	Dir string

	written time.Time // the notes, when they have been read; zero if that is not known
}

// A Reading is the counters of an object that were read elsewhere than in a file: in a
// running program. It is not changed.
type Reading struct {
	Name   string // of the data file that the program would write
	Root   string // where the file system of the program is to be found, "" if it is ours
	Counts *Counts
}

// CollectOptions say what Collect keeps of what it reads.
type CollectOptions struct {
	// Source resolves the name of a source as the compiler recorded it in a
	// working directory. Files with the same path are one; keep=false leaves
	// the file out. It is called once for each pair, never twice at a time.
	// nil keeps all, joined to the directory.
	Source func(cwd, name string) (path string, keep bool)
	// Progress is told how many of the objects have been read, nil for nobody.
	// It is never called twice at a time.
	Progress func(done, total int)
	// Built is told of each source when the oldest notes were written that have
	// functions of it, in no order; nil for nobody.
	Built func(path string, notes time.Time)
	// Owners are told whose the files are, nil for nobody.
	Owners *input.Owners
}

// A ProblemKind groups problems that have the same remedy.
type ProblemKind int

// The kinds of problems, worst first.
const (
	Unreadable     ProblemKind = iota // a file that cannot be opened or is no notes or data file
	Damaged                           // bytes that make no sense; what stood before them counts
	Rebuilt                           // data of another compilation of the same object
	UnknownVersion                    // a compiler version that is not known
	Empty                             // notes without functions
	Inconsistent                      // counters torn by threads
)

var problemNames = [...]string{"unreadable", "damaged", "rebuilt", "unknown version", "empty"}

func (k ProblemKind) String() string { return problemNames[k] }

// An InputProblem is something wrong with one input; the rest was still read.
type InputProblem struct {
	Kind   ProblemKind
	File   string
	Offset int64 // in File, -1 when it is about the whole
	Err    error // what is wrong, and what to do
}

func (p InputProblem) Error() string {
	if p.Offset >= 0 {
		return fmt.Sprintf("%s: at offset %#x: %v", p.File, p.Offset, p.Err)
	}
	return fmt.Sprintf("%s: %v", p.File, p.Err)
}

// Stats count what Collect went through.
type Stats struct {
	Objects      int   // notes files read
	NeverRun     int   // of these, with functions but without usable data
	Bytes        int64 // of notes and data
	Functions    int   // in notes
	Distinct     int   // of these, differing in graph, source or name
	Inconsistent int   // distinct functions with impossible counts
}

// Collect reads the objects in parallel and returns their coverage, merged: a
// source that several include is one file, an instance of a template that
// several compile one function.
//
// Much of what C++ compilers write recurs from unit to unit. A function's
// notes are therefore looked up by their bytes, counters of equal functions
// are added (solving is linear, so the sums come out the same), and each
// distinct one is decoded and solved once, see distinct.go.
func Collect(objs []Object, opt CollectOptions) (*coverage.Set, []InputProblem, Stats) {
	c := newCollector(opt)
	c.objs, c.units = largestFirst(objs), make([][]distinctID, len(objs))
	workers := workersFor(len(objs))
	c.read(0, workers)
	var collected sync.WaitGroup
	if c.stats.Bytes > 1<<24 {
		collected.Go(runtime.GC) // the files' buffers are far larger than what was kept of them
	}
	if opt.Built != nil {
		c.tellBuilt()
	}
	batches := c.batches(nil, workers)
	collected.Wait()
	set := c.tally(workers, batches)
	return set, c.problems, c.stats
}

func newCollector(opt CollectOptions) *collector {
	return &collector{opt: opt, pool: newPool(), sources: newSources(opt.Source)}
}

// workersFor returns how many goroutines share work on so many objects.
func workersFor(objects int) int { return min(runtime.GOMAXPROCS(0), max(1, objects)) }

// A collector is one call of Collect.
type collector struct {
	opt     CollectOptions
	pool    *pool
	sources *sources
	objs    []Object       // in the order in which they are read
	units   [][]distinctID // the functions of each
	kept    []*unitNotes   // of each what a Program keeps; nil: this is none
	looks   *looks         // what a Program keeps of the last look

	mu       sync.Mutex
	done     int
	problems []InputProblem
	stats    Stats
}

func (c *collector) problem(kind ProblemKind, file string, offset int64, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problems = append(c.problems, InputProblem{kind, file, offset, fmt.Errorf(format, args...)})
}

// bad notes the error of a decoder.
func (c *collector) bad(kind ProblemKind, file string, err error) {
	var format *FormatError
	if errors.As(err, &format) {
		c.problem(kind, file, format.Offset, "%s", format.Msg)
		return
	}
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	c.problem(kind, file, -1, "%w", err)
}

// tellBuilt tells when the sources were compiled.
func (c *collector) tellBuilt() {
	oldest := make([]time.Time, len(c.sources.list)) // by number of the source
	for i, ids := range c.units {
		t, last := c.objs[i].written, int32(dropped)
		if t.IsZero() {
			if t = input.Modified(c.objs[i].Notes); t.IsZero() {
				continue
			}
		}
		for _, id := range ids {
			file := c.pool.at(id).file
			if file != last && file != dropped && (oldest[file].IsZero() || t.Before(oldest[file])) {
				oldest[file] = t
			}
			last = file
		}
	}
	for file, t := range oldest {
		if !t.IsZero() {
			c.opt.Built(c.sources.list[file], t)
		}
	}
}

// largestFirst orders objects by the size of their notes: the work ends evenly,
// and buffers need not grow.
func largestFirst(objs []Object) []Object {
	objs = slices.Clone(objs)
	for i := range objs {
		if o := &objs[i]; o.Size == 0 && o.Bytes != nil {
			o.Size = int64(len(o.Bytes))
		} else if o.Size == 0 {
			if st, err := input.Stat(o.Notes); err == nil {
				o.Size = st.Size()
			}
		}
	}
	slices.SortStableFunc(objs, func(a, b Object) int { return cmp.Compare(b.Size, a.Size) })
	return objs
}

// read takes all functions of the objects from number first on into the pool.
func (c *collector) read(first, workers int) {
	var next atomic.Int32
	next.Store(int32(first))
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			r := &objectReader{c: c, names: c.sources.cache()}
			r.packer.names = &r.names
			for {
				i := int(next.Add(1)) - 1
				if i >= len(c.objs) {
					break
				}
				r.object(int32(i))
				c.units[i] = slices.Clone(r.ids)
				if c.kept != nil && c.kept[i] != nil {
					c.kept[i].functions = slices.Clone(r.known)
				}
				c.mu.Lock()
				c.done++
				if c.opt.Progress != nil {
					c.opt.Progress(c.done, len(c.objs))
				}
				c.mu.Unlock()
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.stats.Objects += r.stats.Objects
			c.stats.NeverRun += r.stats.NeverRun
			c.stats.Bytes += r.stats.Bytes
			c.stats.Functions += r.stats.Functions
		})
	}
	wg.Wait()
}

// An objectReader is one goroutine's state while objects are read.
type objectReader struct {
	c           *collector
	origin      origin // of the counters under way
	names       sourceCache
	packer      packer
	notes, data []byte // the files, the memory used again
	counts      dataFunctions
	ids         []distinctID // of the functions of the notes
	known       []unitFunction
	stats       Stats
}

func (o *objectReader) object(unit int32) {
	o.origin, o.ids, o.known = origin{unit: unit}, o.ids[:0], o.known[:0]
	obj := o.c.objs[unit]
	var err error
	if obj.Bytes != nil { // whatever they are called
		o.notes = append(o.notes[:0], obj.Bytes...)
	} else if strings.HasSuffix(obj.Notes, LegacySuffix) {
		var ok bool
		if obj, ok = o.legacy(obj); !ok {
			return
		}
		o.c.objs[unit] = obj
	} else if o.notes, o.c.objs[unit].written, err = readFile(o.c.opt.Owners, obj.Notes, o.notes); err != nil {
		o.c.bad(Unreadable, obj.Notes, err)
		return
	}
	o.stats.Bytes += int64(len(o.notes))
	head, r := readNotesHead(o.notes)
	if r.err != nil {
		o.c.bad(Unreadable, obj.Notes, r.err)
		return
	}
	o.stats.Objects++
	if !head.Version.Known() {
		o.c.problem(UnknownVersion, obj.Notes, 4, "version %q is not known; read as the newest known, please check the counts", head.Version)
	}
	o.names.setDir(cmp.Or(head.Cwd, obj.Dir))
	ran, n := false, 0
	for i, file := range obj.Data {
		o.origin.data = int32(i)
		if o.data, err = ReadFile(o.c.opt.Owners, file, o.data); err != nil {
			o.c.bad(Unreadable, file, err)
		} else if o.index(file, head) {
			n = o.functions(obj, head, r, o.data, !ran)
			ran = true
		}
	}
	if !ran {
		o.counts.reset()
		n = o.functions(obj, head, r, nil, true)
	}
	if o.c.kept != nil {
		o.c.kept[unit] = &unitNotes{head: head, named: n > 0}
		return
	}
	if !o.c.readings(unit, head, o.known) && !ran && n > 0 {
		o.stats.NeverRun++
	}
}

// functions puts the functions of the notes, with the counts of the data that
// was indexed last, into the pool. first is false when the same
// notes went in before. It returns the number of functions.
func (o *objectReader) functions(obj Object, notes *Notes, r reader, data []byte, first bool) int {
	s := skimmer{r: &r, version: notes.Version, clang: endsAsClangs(o.notes), names: &o.names}
	n, mismatched := 0, 0
	o.ids, o.known = o.ids[:0], o.known[:0]
	readings := o.c.kept != nil || len(obj.Readings) > 0
	for s.next() {
		n++
		if s.artificial || !s.keep {
			continue
		}
		d := o.counts.find(s.ident)
		if d != nil && (d.lineChecksum != s.lineChecksum || d.cfgChecksum != s.cfgChecksum) {
			mismatched++
			d = nil
		}
		id, matches, err := o.c.pool.add(&s, &o.packer, o.origin, d, data)
		if !matches {
			mismatched++
		}
		if err == nil {
			o.ids = append(o.ids, id)
			if readings {
				o.known = append(o.known, unitFunction{s.ident, s.lineChecksum, s.cfgChecksum, id})
			}
		}
		if err != nil && first {
			o.c.problem(Damaged, obj.Notes, err.Offset, "%s; this function is left out, build the object anew", err.Msg)
		}
	}
	o.c.mismatched(obj.Notes, mismatched)
	if !first {
		return n
	}
	o.stats.Functions += n
	switch {
	case r.err != nil:
		o.c.problem(Damaged, obj.Notes, r.err.Offset, "%s; functions from there on are missing, build the object anew", r.err.Msg)
	case n == 0:
		o.c.problem(Empty, obj.Notes, -1, "the notes have no functions, as those of a source that has only data")
	}
	return n
}

// mismatched notes how many functions the data have otherwise than the notes.
func (c *collector) mismatched(notes string, functions int) {
	if functions > 0 {
		c.problem(Rebuilt, notes, -1, "%w", otherFunctions(functions))
	}
}

func otherFunctions(n int) error {
	return fmt.Errorf("%d functions have other checksums or counters in the data; their counts are left out, delete the .gcda files and run again", n)
}

// index lists in o.counts what a data file, whose bytes are o.data, holds. It reports
// whether its counts belong to the notes.
func (o *objectReader) index(file string, notes *Notes) bool {
	o.counts.reset()
	o.stats.Bytes += int64(len(o.data))
	head, r := readCountsHead(o.data)
	if r.err != nil {
		o.c.bad(Unreadable, file, r.err)
		return false
	}
	if !o.c.belong(file, head, notes) {
		return false
	}
	o.counts.list = indexCounts(&r, head.Version, o.counts.list)
	if r.err != nil {
		o.c.problem(Damaged, file, r.err.Offset, "%s; counts from there on are missing", r.err.Msg)
	}
	return true
}

// belong reports whether counts are of these notes.
func (c *collector) belong(file string, head *Counts, notes *Notes) bool {
	p := foreign(file, head, notes)
	if p != nil {
		c.problem(p.Kind, p.File, p.Offset, "%w", p.Err)
	}
	return p == nil
}

// foreign says why counts are not of these notes, nil if they are.
func foreign(file string, head *Counts, notes *Notes) *InputProblem {
	switch {
	case head.Version != notes.Version:
		return &InputProblem{Rebuilt, file, 4, fmt.Errorf("version %q, but the notes are of %q; counts left out, run the program that belongs to these notes", head.Version, notes.Version)}
	case head.Stamp != notes.Stamp:
		return &InputProblem{Rebuilt, file, 8, fmt.Errorf("stamp %08x, but the notes have %08x: rebuilt since the run; counts left out, delete the .gcda files and run again", head.Stamp, notes.Stamp)}
	}
	return nil
}

// endsAsClangs tells Clang's notes, which end with eight zero bytes behind the last
// record. That may end with as many, of GCC's at most with those.
func endsAsClangs(notes []byte) bool {
	return bytes.HasSuffix(notes, make([]byte, 12))
}

// ReadFile reads a whole file into the memory of buf.
func ReadFile(owners *input.Owners, name string, buf []byte) ([]byte, error) {
	b, _, err := readFile(owners, name, buf)
	return b, err
}

// readFile is ReadFile, and tells when the file was written.
func readFile(owners *input.Owners, name string, buf []byte) ([]byte, time.Time, error) {
	b, written, err := owners.ReadInto(buf, name, input.MostData)
	if errors.Is(err, syscall.EISDIR) {
		err = errors.New("is a directory, expected a notes or data file")
	}
	if b == nil {
		b = buf[:0]
	}
	return b, written, err
}
