// Package units is what coverage becomes in a store of a fleet, and what becomes coverage again.
//
// What was pushed are source files, each a [store.Unit] of the kind [Lines]; what an agent has read of programs of GCC are object files,
// of the kind [Notes], of source-based counters functions of a binary, of the kind [Mapping], of programs of Go packages, of the
// kind [GoPackage]; what it has seen to run of programs without counters are functions, of the kind [Ran]. The text of sources, for who
// sends it, is of the kind [store.Text].
//
// # Source files
//
// A source file is a unit of the kind Lines. Its program is what the file is made of, without counts:
// which lines have code, functions and their instances, branches, calls, conditions. Its counters are the
// counts of these, in order. They mean the same when they are added up as [coverage.Merge] of the files means: what is
// no number in coverage, as that a term of a condition was shown, is a counter that is not 0.
//
// Files of one name may be several units: other builds have other code, and what readers know of a file
// may differ from run to run. What they are together is what [coverage.Merge] makes of them, see [Sum].
package units

import (
	"fmt"
	"math"
	"slices"

	"footfall/coverage"
	"footfall/fleet/store"
	"footfall/fleet/wire"
	"footfall/report"
	"footfall/report/source"
)

// Lines is the kind of units that are source files.
const Lines = "lines"

// A Counted is a unit and its counters.
type Counted struct {
	Unit  store.Unit
	Hits  []uint64
	lines []int // the number of each line's first counter
}

// Of returns the unit of a file, which stays as it is. What only tests say is not in it, see [Split].
func Of(f *coverage.File) Counted {
	f = unreconciled(f)
	c := &codec{encoding: true, program: make([]byte, 0, sizeOf(f)), hits: slices.Grow([]uint64(nil), 2*len(f.Functions)+len(f.Lines))}
	c.file(f)
	return Counted{store.Unit{Kind: Lines, Name: f.Name, Counters: len(c.hits), Program: c.program}, c.hits, c.lines}
}

// sizeOf is about how many bytes the program of a file has.
func sizeOf(f *coverage.File) int {
	const ofLine, ofFunction, ofInstance = 4, 24, 8 // but for names
	size := ofLine * len(f.Lines)
	for _, fn := range f.Functions {
		size += ofFunction + len(fn.Name)
		for i := range fn.Instances {
			size += ofInstance + len(fn.Instances[i].Name)
		}
	}
	return size
}

// unreconciled is the file as it was before [coverage.Set.Reconcile], which is for who has everything.
func unreconciled(f *coverage.File) *coverage.File {
	told := len(f.Told) > 0
	for i := range f.Lines {
		told = told || f.Lines[i].Told != nil
	}
	if !told {
		return f
	}
	before := &coverage.File{Name: f.Name}
	before.Merge(f)
	return before
}

// Files returns what of a unit with counters, which may be anybody's sums, ran: a file, or all that an object file was
// made of. Counts that are too large for coverage are the largest that it has.
func Files(u *store.Unit, hits []uint64) ([]*coverage.File, error) {
	if hits == nil {
		hits = []uint64{} // which is not enough
	}
	if !IsSource(u.Kind) {
		var sum Sum
		if err := sum.Add(store.Total{Unit: *u, Hits: hits}); err != nil {
			return nil, err
		}
		return sum.Take().Files(), nil
	}
	f, err := fileOf(u, hits)
	if err == nil && u.Kind == Ran {
		once(f)
	}
	return []*coverage.File{f}, err
}

// IsSource tells whether units of a kind are sources, by whose names they are known; others tell of several sources.
func IsSource(kind string) bool { return kind != Notes && kind != Mapping && kind != GoPackage }

// fileOf is Files of a unit of the kind Lines or Ran, whose counters may be other numbers of counters.
func fileOf(u *store.Unit, hits []uint64) (*coverage.File, error) {
	f, err := decode(u, hits)
	if err != nil {
		return nil, fmt.Errorf("unit %s: %w", u.Name, err)
	}
	return f, nil
}

// Functions returns the functions of a unit, but for those that start elsewhere.
func Functions(u *store.Unit) ([]CountedFunction, error) {
	var list []CountedFunction
	var err error
	switch u.Kind {
	case Notes:
		list, err = functionsOfNotes(u)
	case Mapping:
		list, err = functionsOfMapping(u)
	case GoPackage:
		list, err = functionsOfPackage(u)
	case Ran:
		return functionsOfRan(u)
	default:
		return functionsOfLines(u)
	}
	if err != nil {
		return nil, fmt.Errorf("unit %s: %w", u.Name, err)
	}
	return list, nil
}

// functionsOfLines finds the counters of each function by having the first counter be 1, the next 2, and so on: they are its
// own and those of its lines.
func functionsOfLines(u *store.Unit) (list []CountedFunction, err error) {
	numbers := make([]uint64, u.Counters)
	for i := range numbers {
		numbers[i] = uint64(i) + 1
	}
	f, err := fileOf(u, numbers)
	if err != nil {
		return nil, err
	}
	for i, fn := range f.Functions {
		if fn.StartLine == 0 {
			continue // calls of what starts elsewhere
		}
		lines := f.LinesOf(i)
		one := CountedFunction{Function: fn, File: u.Name, Lines: len(lines), Counters: make([]int32, 0, len(lines)+1), Unknown: -1}
		counts := func(n int64) bool {
			if n >= 1 && n <= int64(u.Counters) {
				one.Counters = append(one.Counters, int32(n-1))
				return true
			}
			return false
		}
		ok := counts(fn.Count)
		for k := range lines {
			if !lines[k].Uncounted {
				ok = counts(lines[k].Count) && ok
			}
		}
		if !ok {
			return nil, fmt.Errorf("unit %s: function %q is twice at the same place", u.Name, fn.Name)
		}
		list = append(list, one)
	}
	return list, nil
}

func decode(u *store.Unit, hits []uint64) (*coverage.File, error) {
	if hits != nil && len(hits) != u.Counters {
		return nil, fmt.Errorf("%d counters, where it has %d", len(hits), u.Counters)
	}
	if u.Kind != Lines && u.Kind != Ran {
		return nil, fmt.Errorf("its kind is %q, where one of %q was expected: a newer footfall wrote it", u.Kind, []string{Lines, Notes, Mapping, GoPackage, Ran})
	}
	c := &codec{program: u.Program, hits: hits, left: u.Counters}
	f := &coverage.File{Name: u.Name}
	c.file(f)
	if u.Kind == Ran && c.err == nil {
		c.unknowns(f)
	}
	if c.err == nil && len(c.program) > c.at {
		c.fail("%d more bytes than there should be", len(c.program)-c.at)
	}
	if c.err == nil && c.left > 0 {
		c.fail("%d counters more than there are things that are counted", c.left)
	}
	if c.err != nil {
		return nil, c.err
	}
	f.Normalize()
	return f, nil
}

// Check tells whether a unit can become coverage again. It is for units from elsewhere.
func Check(u *store.Unit) error {
	if u.Counters < 0 || u.Counters > wire.MostCounters {
		return fmt.Errorf("unit %s: %d counters, where at most %d can be kept", u.Name, u.Counters, wire.MostCounters)
	}
	var err error
	switch u.Kind {
	case Notes:
		_, err = objectOf(u, nil)
	case Mapping:
		_, err = sumOfMapping(u, nil)
	case GoPackage:
		_, err = sumOfPackage(u, nil)
	case store.Text:
		_, err = TextOf(u)
	default:
		_, err = decode(u, nil)
	}
	if err != nil {
		return fmt.Errorf("unit %s: %w", u.Name, err)
	}
	return nil
}

// A Sum makes a set of what a store adds up. The zero Sum is empty. It is for one goroutine.
type Sum struct {
	sum      coverage.Sum
	objects  []object
	mappings []*mappedSum
	packages []*podSum
}

// Add adds a unit, which has its program, and its counters. It is what [store.Reader]'s Totals calls.
func (s *Sum) Add(t store.Total) error {
	var err error
	switch t.Unit.Kind {
	case Notes:
		err = take(&s.objects, &t, objectOf)
	case Mapping:
		err = take(&s.mappings, &t, sumOfMapping)
	case GoPackage:
		err = take(&s.packages, &t, sumOfPackage)
	default:
		var files []*coverage.File
		if files, err = Files(&t.Unit, t.Hits); err == nil {
			s.sum.Add(files[0])
		}
		return err
	}
	if err != nil {
		return fmt.Errorf("unit %s: %w", t.Unit.Name, err)
	}
	return nil
}

// take adds what a unit is with its counters to those of its kind.
func take[T any](list *[]T, t *store.Total, read func(*store.Unit, []uint64) (T, error)) error {
	hits := t.Hits
	if hits == nil {
		hits = []uint64{} // which is not enough
	}
	one, err := read(&t.Unit, hits)
	if err == nil {
		*list = append(*list, one)
	}
	return err
}

// Take returns what was added, not reconciled. The sum is empty then.
func (s *Sum) Take() *coverage.Set {
	for _, set := range []*coverage.Set{ofNotes(s.objects), ofMappings(s.mappings), ofPackages(s.packages)} {
		s.sum.Take(set)
	}
	s.objects, s.mappings, s.packages = nil, nil, nil
	return s.sum.Set()
}

// Set returns what was added, reconciled as what report prints, and what is wrong with it. The sum is
// empty then.
func (s *Sum) Set() (*coverage.Set, []source.Problem) {
	set := s.Take()
	return set, report.Reconcile(set)
}

// A Part is what one test has counted, or, without a name, what no test has.
type Part struct {
	Test   string
	packed []packed
}

// A packed is a unit's counters, of which there are many if there are many tests.
type packed struct {
	unit     store.Hash
	counters int
	hits     []byte
}

// Usage returns the counters of the part.
func (p *Part) Usage() []store.Usage {
	list := make([]store.Usage, len(p.packed))
	for i, one := range p.packed {
		hits, err := store.UnpackVector(one.hits, one.counters)
		if err != nil {
			panic(err) // it was packed by us
		}
		list[i] = store.Usage{Unit: one.unit, Hits: hits}
	}
	return list
}

// Split returns the units of a set, and their counters test by test. Where several tests ran a file
// only the lines are known of each; functions, branches and what else was counted there are in the part
// without a name, and so are lines that ran more often than all tests together. There is at least one part, if with
// nothing: that somebody looked is worth knowing.
func Split(set *coverage.Set) (list []store.Unit, parts []Part) {
	number := make(map[string]int)
	add := func(test string, unit store.Hash, hits []uint64) {
		if !counted(hits) {
			return
		}
		i, known := number[test]
		if !known {
			i = len(parts)
			number[test] = i
			parts = append(parts, Part{Test: test})
		}
		parts[i].packed = append(parts[i].packed, packed{unit, len(hits), store.PackVector(hits)})
	}
	for _, f := range set.All() {
		c := Of(f)
		list = append(list, c.Unit)
		hash := c.Unit.Hash()
		if len(f.Tests) == 1 && c.ranAll(f, f.Tests[0].Hits) {
			add(f.Tests[0].Name, hash, c.Hits)
			continue
		}
		for _, t := range f.Tests {
			add(t.Name, hash, c.take(f, t.Hits))
		}
		add("", hash, c.Hits)
	}
	if len(parts) == 0 {
		parts = []Part{{}}
	}
	return list, parts
}

// ranAll tells whether hits are all of the counts of lines.
func (c *Counted) ranAll(f *coverage.File, hits coverage.Hits) bool {
	ran := coverage.AppendHits(nil, f.Lines)
	return string(ran) == string(hits)
}

// take takes the hits of a test out of the counters of the lines. Whether a whole line ran is not known of
// a test: it is said of it what is said of all.
func (c *Counted) take(f *coverage.File, hits coverage.Hits) []uint64 {
	out := make([]uint64, len(c.Hits))
	i := 0
	for line, count := range hits.All() {
		for i < len(f.Lines) && f.Lines[i].Number < line {
			i++
		}
		if i == len(f.Lines) || f.Lines[i].Number != line || count <= 0 {
			continue
		}
		at := c.lines[i]
		out[at] = uint64(count)
		c.Hits[at] -= min(c.Hits[at], uint64(count))
		if f.Lines[i].Count > 0 && !f.Lines[i].Unexecuted {
			out[at+1] = 1
		}
	}
	return out
}

func counted(hits []uint64) bool {
	for _, h := range hits {
		if h > 0 {
			return true
		}
	}
	return false
}

func toCount(h uint64) int64 { return int64(min(h, math.MaxInt64)) }
