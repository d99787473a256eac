package watch

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"footfall/coverage"
	"footfall/demangle"
	"footfall/input"
)

// A sampler reads the coverage and compares it with what it has read before.
type sampler struct {
	source Source
	shown  func(string) string
	now    func() time.Time

	mu            sync.Mutex // held while a function of the source runs
	closed        bool
	start, before *coverage.Set // of the first tick, and of the one before
	startAt       time.Time
	beforeAt      time.Time
	number        int
	names         map[string]string // of files and functions, as shown
	sums          sums

	compared  map[string]*compared // by name of the file
	functions int                  // rows of the last picture
}

func newSampler(src Source, shown func(string) string) *sampler {
	return &sampler{source: src, shown: shown, now: time.Now, names: make(map[string]string), compared: make(map[string]*compared)}
}

// A sampled is the message that a sampler has done its work.
type sampled struct {
	picture *picture
	err     error
	took    time.Duration
	said    []string
	title   string // "": as before

	reset    bool  // counts were to start from zero
	resetErr error // but did not
}

// A picture is the coverage at a tick, and how it differs from before. It does
// not change.
type picture struct {
	number             int
	seconds            float64       // since the tick before; 0: there is none
	since              time.Duration // the start
	now, before, start *coverage.Set
	totals             coverage.Totals
	newTick, newStart  int     // lines covered for the first time
	runs               float64 // of lines, since the tick before
	files, functions   []row
}

// rate returns how many n are in a second, of those since the tick before.
func (p *picture) rate(n float64) float64 {
	if p.seconds <= 0 {
		return 0
	}
	return n / p.seconds
}

// A row is a file or a function. Sums of counts are floating point numbers,
// which are exact up to 2^53 and cannot overflow.
type row struct {
	key      key
	name     string
	lines    coverage.Ratio
	newTick  int // lines covered since the tick before
	newStart int // and since the start
	runs     float64

	// Of a file.
	functions, branches coverage.Ratio

	// Of a function.
	place  string // file and line
	count  int64  // calls
	called int64  // calls since the tick before
}

// A key identifies a row from tick to tick. Files have a file name only.
type key struct {
	file         string
	line, column int32
	function     string
}

// sample reads the coverage.
func (s *sampler) sample() sampled {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locked()
}

// reset starts counts from zero, and reads.
func (s *sampler) reset() sampled {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		if err := s.source.Reset(); err != nil {
			return sampled{reset: true, resetErr: err}
		}
	}
	s.start, s.before = nil, nil
	done := s.locked()
	done.reset = true
	return done
}

// open reads a source.
func (s *sampler) open(name string) *source {
	s.mu.Lock()
	defer s.mu.Unlock()
	shown, read := s.fileName(name), s.source.ReadFile
	if read == nil {
		read = input.ReadSource
	}
	if s.closed {
		return newSource(name, shown, nil, nil)
	}
	text, err := read(name)
	return newSource(name, shown, text, err)
}

// snapshot writes files.
func (s *sampler) snapshot() saved {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return saved{}
	}
	where, err := s.source.Snapshot()
	return saved{where, err}
}

// close waits for the function of the source that runs, and lets no other
// begin.
func (s *sampler) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

func (s *sampler) locked() sampled {
	if s.closed {
		return sampled{picture: &picture{}}
	}
	at := s.now() // counts are read first, then solved: this is closer than the end
	set, err := s.source.Next()
	var said []string
	if s.source.Said != nil {
		said = s.source.Said()
	}
	title := ""
	if s.source.TitleNow != nil {
		title = s.source.TitleNow()
	}
	if err != nil {
		return sampled{err: err, took: s.now().Sub(at), said: said, title: title}
	}
	if s.start == nil {
		s.start, s.startAt = set, at
	}
	p := &picture{now: set, before: s.before, start: s.start, since: at.Sub(s.startAt)}
	if s.before != nil {
		p.seconds = at.Sub(s.beforeAt).Seconds()
	}
	s.number++
	p.number = s.number
	s.compare(p)
	s.before, s.beforeAt = set, at
	return sampled{picture: p, took: s.now().Sub(at), said: said, title: title}
}

// compare fills in what follows from the sets of p.
func (s *sampler) compare(p *picture) {
	p.files = make([]row, 0, p.now.Len())
	p.functions = make([]row, 0, s.functions)
	for i, name := range p.now.Names() {
		c := s.compared[name]
		still := p.now.Keeps(p.before, i)
		if c == nil || !c.still || !still {
			c = s.compareFile(p, p.now.At(i))
			c.still = still
			s.compared[name] = c
		}
		p.files = append(p.files, c.file)
		p.functions = append(p.functions, c.functions...)
		p.totals.Add(c.totals)
		p.newTick += c.file.newTick
		p.newStart += c.file.newStart
		p.runs += c.file.runs
	}
	s.functions = len(p.functions)
}

// compared is what comes of a file. If that was the same at the tick before, and is again,
// so is this; behind a reset there is no tick before.
type compared struct {
	still     bool
	file      row
	functions []row
	totals    coverage.Totals
}

func (s *sampler) compareFile(p *picture, f *coverage.File) *compared {
	b, first := file(p.before, f.Name), p.start.File(f.Name)
	s.sums.add(f, b, first, p.before != nil)

	c := &compared{totals: f.Totals()}
	c.file = row{key: key{file: f.Name}, name: s.fileName(f.Name)}
	s.sums.lines(&c.file, 0, len(f.Lines))
	c.file.functions, c.file.branches = c.totals.Functions, c.totals.Branches
	c.functions = s.compareFunctions(make([]row, 0, len(f.Functions)), f, b, c.file.name, p.before != nil)
	return c
}

// compareFunctions adds a row for each function of f.
func (s *sampler) compareFunctions(rows []row, f, before *coverage.File, shown string, known bool) []row {
	var old []*coverage.Function
	if before != nil {
		old = before.Functions
	}
	for i, fn := range f.Functions {
		r := row{
			key:   key{f.Name, fn.StartLine, fn.StartColumn, fn.Name},
			name:  s.functionName(fn),
			place: shown + ":" + strconv.Itoa(int(fn.StartLine)),
			count: fn.Count,
		}
		var b *coverage.Function
		b, old = match(old, fn, compareFunctions)
		switch {
		case b != nil:
			r.called = max(0, fn.Count-b.Count)
		case known:
			r.called = fn.Count // of a library that came since
		}
		from, to := body(f, i)
		s.sums.lines(&r, from, to)
		rows = append(rows, r)
	}
	return rows
}

// body returns which lines of f belong to its i-th function. Where its end is
// not known it goes on to the next.
func body(f *coverage.File, i int) (from, to int) {
	end := f.Functions[i].EndLine
	if end == 0 && i+1 < len(f.Functions) {
		end = f.Functions[i+1].StartLine - 1
	}
	from = lineIndex(f, f.Functions[i].StartLine)
	to = len(f.Lines)
	if end > 0 {
		to = lineIndex(f, end+1)
	}
	return from, max(from, to)
}

// lineIndex returns the index of the first line of f from number on.
func lineIndex(f *coverage.File, number int32) int {
	i, _ := slices.BinarySearchFunc(f.Lines, number, func(l coverage.Line, n int32) int { return cmp.Compare(l.Number, n) })
	return i
}

// match returns the element of sorted that is like e, if any, and the elements
// from it on.
func match[T any](sorted []*T, e *T, compare func(a, b *T) int) (*T, []*T) {
	for i, s := range sorted {
		switch c := compare(s, e); {
		case c == 0:
			return s, sorted[i:]
		case c > 0:
			return nil, sorted[i:]
		}
	}
	return nil, nil
}

func compareFunctions(a, b *coverage.Function) int {
	return cmp.Or(
		cmp.Compare(a.StartLine, b.StartLine),
		cmp.Compare(a.StartColumn, b.StartColumn),
		cmp.Compare(a.Name, b.Name))
}

// sums has, for the lines of a file, the sum of all before each one, so that
// those of functions, which may overlap, are differences. It is used for file
// after file.
type sums struct {
	covered, newTick, newStart []int
	runs                       []float64
}

// add sums up f. The other two are the same file at the tick before and at the
// start, or nil where it was not there; known tells if there was a tick before.
func (s *sums) add(f, before, start *coverage.File, known bool) {
	n := len(f.Lines) + 1
	s.covered = slices.Grow(s.covered[:0], n)[:n]
	s.newTick = slices.Grow(s.newTick[:0], n)[:n]
	s.newStart = slices.Grow(s.newStart[:0], n)[:n]
	s.runs = slices.Grow(s.runs[:0], n)[:n]
	s.covered[0], s.newTick[0], s.newStart[0], s.runs[0] = 0, 0, 0, 0
	ran, first := countsOf(before), countsOf(start)
	for i := range f.Lines {
		l := &f.Lines[i]
		covered, newTick, newStart := 0, 0, 0
		old, initial := ran(l.Number), first(l.Number)
		if l.Count > 0 {
			covered = 1
			if known && old <= 0 {
				newTick = 1
			}
			if initial <= 0 {
				newStart = 1
			}
		}
		runs := 0.0
		if known {
			runs = float64(max(0, l.Count-max(0, old)))
		}
		s.covered[i+1] = s.covered[i] + covered
		s.newTick[i+1] = s.newTick[i] + newTick
		s.newStart[i+1] = s.newStart[i] + newStart
		s.runs[i+1] = s.runs[i] + runs
	}
}

// lines fills in what the lines from one index to another add up to.
func (s *sums) lines(r *row, from, to int) {
	r.lines = coverage.Ratio{Covered: s.covered[to] - s.covered[from], Total: to - from}
	r.newTick = s.newTick[to] - s.newTick[from]
	r.newStart = s.newStart[to] - s.newStart[from]
	r.runs = s.runs[to] - s.runs[from]
}

// countsOf returns a function for the counts of the lines of f, 0 for those
// that f has not, to be called with ascending numbers.
func countsOf(f *coverage.File) func(number int32) int64 {
	if f == nil {
		return func(int32) int64 { return 0 }
	}
	lines := f.Lines
	return func(number int32) int64 {
		for len(lines) > 0 && lines[0].Number < number {
			lines = lines[1:]
		}
		if len(lines) > 0 && lines[0].Number == number {
			return lines[0].Count
		}
		return 0
	}
}

// fileName and functionName return names to show, the same string each time.
func (s *sampler) fileName(name string) string {
	return s.remember("/"+name, func() string { return clean(s.shown(name)) })
}

func (s *sampler) functionName(fn *coverage.Function) string {
	key := fn.Name
	if n := len(fn.Instances); n > 1 {
		// Instances only come, with libraries, so their number tells whether there are others.
		key = fmt.Sprint(key, " ", n)
	}
	return s.remember(key, func() string { return clean(demangle.Title(fn.Symbols())) })
}

func (s *sampler) remember(name string, shown func() string) string {
	known, ok := s.names[name]
	if !ok {
		known = shown()
		s.names[name] = known
	}
	return known
}

// file returns the file of that name in s; nil: there is none.
func file(s *coverage.Set, name string) *coverage.File {
	if s == nil {
		return nil
	}
	return s.File(name)
}
