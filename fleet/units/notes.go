package units

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"footfall/coverage"
	"footfall/fleet/store"
	"footfall/formats/gcov"
)

// Notes is the kind of units that are object files of GCC, or of Clang's --coverage. The program of one is its notes,
// before which stands which of the sources that they name count, and what these are called: that is decided where the
// program runs. Its counters are, function by function, those of the arcs that the compiler counts, and for each term of a
// condition, where these are noted, whether it was shown to be true, and to be false.
// What of the lines ran is found out from sums of these: counters only grow and may be added, whereas what
// is found out of a moment, at which a function had been entered and had not got further, need not be so a moment later.
const Notes = "gcno"

// A name is a source that notes name.
type name struct {
	recorded string
	shown    string
	keep     bool
}

// OfNotes returns the unit of an object, whose Bytes are the notes. source says what a source is called that was compiled in a
// directory, and whether it counts, see [gcov.CollectOptions].
func OfNotes(o gcov.Object, source func(cwd, name string) (shown string, keep bool)) (store.Unit, error) {
	layout, err := LayoutOf(o.Bytes)
	if err != nil {
		return store.Unit{}, fmt.Errorf("%s: %w", o.Notes, err)
	}
	var names []name
	_, _, _ = gcov.Collect([]gcov.Object{o}, gcov.CollectOptions{Source: func(cwd, recorded string) (string, bool) {
		n := name{recorded: recorded}
		if n.shown, n.keep = source(cwd, recorded); !n.keep {
			n.shown = ""
		}
		names = append(names, n)
		return recorded, n.keep
	}})
	slices.SortFunc(names, func(a, b name) int { return strings.Compare(a.recorded, b.recorded) })
	program := []byte{version}
	program = binary.AppendUvarint(program, uint64(len(names)))
	for _, n := range names {
		kept := byte(0)
		if n.keep {
			kept = 1
		}
		program = appendText(append(appendText(program, n.recorded), kept), n.shown)
	}
	return store.Unit{Kind: Notes, Name: o.Notes, Counters: layout.Counters, Program: append(program, o.Bytes...)}, nil
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// cursorOf reads the version that a program begins with.
func cursorOf(program []byte) *cursor {
	c := &cursor{b: program}
	if of := c.byte(); c.err == nil && of != version {
		c.fail("version %d is not known: a newer footfall wrote it", of)
	}
	return c
}

// readNotes returns the names of sources, and the notes, of a program.
func readNotes(program []byte) (names map[string]name, notes []byte, err error) {
	c := cursorOf(program)
	names = make(map[string]name)
	for n := c.number(); n > 0 && c.err == nil; n-- {
		one := name{recorded: c.text()}
		one.keep = c.byte() == 1
		one.shown = c.text()
		names[one.recorded] = one
	}
	return names, c.b[c.at:], c.err
}

// A cursor reads the beginning of a program of notes.
type cursor struct {
	b   []byte
	at  int
	err error
}

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("offset %d: %s", c.at, fmt.Sprintf(format, args...))
	}
}

func (c *cursor) byte() byte {
	if c.at == len(c.b) {
		c.fail("it ends too early")
		return 0
	}
	c.at++
	return c.b[c.at-1]
}

func (c *cursor) number() uint64 {
	n, size := binary.Uvarint(c.b[c.at:])
	if size <= 0 {
		c.fail("a number was expected")
		return 0
	}
	c.at += size
	return n
}

func (c *cursor) text() string {
	n := c.number()
	if n > uint64(len(c.b)-c.at) {
		c.fail("a text of %d bytes, where %d are left", n, len(c.b)-c.at)
		return ""
	}
	c.at += int(n)
	return string(c.b[c.at-int(n) : c.at])
}

// A Layout is where the counters of an object are in the vector of its unit.
type Layout struct {
	Version  gcov.Version
	Stamp    uint32
	Counters int // of the unit

	functions []function
}

// A function is where the counters of one are: those of arcs, and then those of terms.
type function struct {
	ident, lineChecksum, cfgChecksum uint32
	first, arcs                      int
	terms                            []uint8 // of each condition
}

// LayoutOf returns the layout of notes.
func LayoutOf(notes []byte) (*Layout, error) {
	l, _, err := layoutOf(notes)
	return l, err
}

func layoutOf(notes []byte) (*Layout, *gcov.Notes, error) {
	n, err := gcov.ReadNotes(notes)
	if n == nil {
		return nil, nil, err
	}
	// What is wrong later on ends the notes there for everybody who reads them.
	l := &Layout{Version: n.Version, Stamp: n.Stamp, functions: make([]function, 0, len(n.Functions))}
	for _, f := range n.Functions {
		of := function{ident: f.Ident, lineChecksum: f.LineChecksum, cfgChecksum: f.CfgChecksum, first: l.Counters, arcs: f.Counters()}
		l.Counters += of.arcs
		for _, d := range f.Conditions {
			terms := uint8(min(d.Terms, 64)) // a bit each of a mask
			of.terms = append(of.terms, terms)
			l.Counters += 2 * int(terms)
		}
		l.functions = append(l.functions, of)
	}
	return l, n, nil
}

// errOther is returned for counters of another compilation.
var errOther = errors.New("its counters are of another compilation than its notes")

// Vector returns the counters as those of the unit. Functions that the linker has left out have counted nothing.
func (l *Layout) Vector(c *gcov.Counts) ([]uint64, error) {
	if c.Version != l.Version || c.Stamp != l.Stamp {
		return nil, errOther
	}
	hits := make([]uint64, l.Counters)
	known := make(map[uint32]int, len(l.functions))
	for i := range l.functions {
		known[l.functions[i].ident] = i
	}
	for i := range c.Functions {
		f := &c.Functions[i]
		arcs := f.Of(gcov.KindArcs)
		if f.Placeholder || arcs == nil {
			continue
		}
		at, is := known[f.Ident]
		if !is {
			return nil, errOther
		}
		of := &l.functions[at]
		if of.lineChecksum != f.LineChecksum || of.cfgChecksum != f.CfgChecksum || of.arcs != arcs.Len() {
			return nil, errOther
		}
		for k := range of.arcs {
			hits[of.first+k] = uint64(max(arcs.At(k), 0))
		}
		if masks := f.Of(gcov.KindConditions); masks != nil && masks.Len() == 2*len(of.terms) {
			of.eachTerm(func(mask, bit, counter int) {
				hits[counter] = uint64(masks.At(mask)) >> bit & 1
			})
		}
	}
	return hits, nil
}

// eachTerm calls use for each counter of a term: which bit of which mask it is.
func (f *function) eachTerm(use func(mask, bit, counter int)) {
	at := f.first + f.arcs
	for i, terms := range f.terms {
		for mask := 2 * i; mask < 2*i+2; mask++ {
			for bit := range int(terms) {
				use(mask, bit, at)
				at++
			}
		}
	}
}

// counts are the counters of a vector, as they are in the memory of a program.
func (l *Layout) counts(bigEndian bool, hits []uint64) *gcov.Counts {
	c := &gcov.Counts{BigEndian: bigEndian, Version: l.Version, Stamp: l.Stamp}
	for i := range l.functions {
		of := &l.functions[i]
		values := make([]int64, of.arcs)
		for k := range values {
			values[k] = toCount(hits[of.first+k])
		}
		counters := []gcov.Counters{{Kind: gcov.KindArcs, Values: values}}
		if len(of.terms) > 0 {
			masks := make([]int64, 2*len(of.terms))
			of.eachTerm(func(mask, bit, counter int) {
				if hits[counter] > 0 {
					masks[mask] |= 1 << bit
				}
			})
			counters = append(counters, gcov.Counters{Kind: gcov.KindConditions, Values: masks})
		}
		c.Functions = append(c.Functions, gcov.FunctionCounts{Ident: of.ident, LineChecksum: of.lineChecksum, CfgChecksum: of.cfgChecksum, Counters: counters})
	}
	return c
}

// An object is a unit of notes as gcov takes it.
type object struct {
	gcov.Object
	cwd   string          // in which its names were recorded, or what stands for that
	names map[string]name // of sources, as they were recorded
}

// objectOf returns what is to be collected of a unit; without hits it has not run.
func objectOf(u *store.Unit, hits []uint64) (object, error) {
	names, notes, err := readNotes(u.Program)
	if err != nil {
		return object{}, err
	}
	layout, n, err := layoutOf(notes)
	switch {
	case err != nil:
		return object{}, err
	case layout.Counters != u.Counters:
		return object{}, fmt.Errorf("it says that it has %d counters, where the notes have %d", u.Counters, layout.Counters)
	case hits != nil && len(hits) != u.Counters:
		return object{}, fmt.Errorf("%d counters, where it has %d", len(hits), u.Counters)
	}
	o := object{gcov.Object{Notes: u.Name, Bytes: notes, Dir: u.Name}, cmp.Or(n.Cwd, u.Name), names}
	if hits != nil {
		o.Readings = []gcov.Reading{{Name: u.Name, Counts: layout.counts(n.BigEndian, hits)}}
	}
	return o, nil
}

// A recording is the name of a source, in the directory where it was recorded; absolute ones are the same in all.
type recording struct{ cwd, name string }

func recordingOf(cwd, name string) recording {
	if path.IsAbs(name) {
		cwd = ""
	}
	return recording{cwd, name}
}

// ofNotes returns what units of notes have run, all together as gcov has it of their data files.
func ofNotes(objects []object) *coverage.Set {
	var sum coverage.Sum
	for len(objects) > 0 {
		// What one calls a source is what all do, but for agents with different roots.
		names, group, others := make(map[recording]name), []gcov.Object(nil), []object(nil)
		for i := range objects {
			if !objects[i].agrees(names) {
				others = append(others, objects[i])
				continue
			}
			for recorded, n := range objects[i].names {
				names[recordingOf(objects[i].cwd, recorded)] = n
			}
			group = append(group, objects[i].Object)
		}
		set, _, _ := gcov.Collect(group, gcov.CollectOptions{Source: func(cwd, recorded string) (string, bool) {
			n := names[recordingOf(cwd, recorded)]
			return n.shown, n.keep
		}})
		sum.Take(set)
		objects = others
	}
	return sum.Set()
}

func (o *object) agrees(names map[recording]name) bool {
	for recorded, n := range o.names {
		if known, is := names[recordingOf(o.cwd, recorded)]; is && known != n {
			return false
		}
	}
	return true
}

// A CountedFunction is one of a unit, and which of the unit's counters count only when it runs.
type CountedFunction struct {
	*coverage.Function
	File     string // as the unit names it
	Lines    int    // that have code
	Counters []int32
	Unknown  int32 // the counter that says that it was not known whether it ran; -1: that is known of all
}

// functionsOfNotes are those of a unit of notes.
func functionsOfNotes(u *store.Unit) ([]CountedFunction, error) {
	o, err := objectOf(u, nil)
	if err != nil {
		return nil, err
	}
	layout, n, err := layoutOf(o.Bytes)
	if err != nil {
		return nil, err
	}
	type place struct {
		file   string
		line   int32
		symbol string
	}
	counters := make(map[place][]int32)
	for i, f := range n.Functions {
		source := o.names[f.Source]
		if f.Artificial || !source.keep {
			continue
		}
		at, of := place{source.shown, int32(f.StartLine), f.Name}, &layout.functions[i]
		for k := range of.arcs {
			counters[at] = append(counters[at], int32(of.first+k))
		}
	}
	var list []CountedFunction
	for _, file := range ofNotes([]object{o}).All() {
		for i, fn := range file.Functions {
			one := CountedFunction{Function: fn, File: file.Name, Lines: len(file.LinesOf(i)), Unknown: -1}
			for _, symbol := range fn.Symbols() {
				one.Counters = append(one.Counters, counters[place{file.Name, fn.StartLine, symbol}]...)
			}
			if len(one.Counters) > 0 { // of others nothing can be said
				list = append(list, one)
			}
		}
	}
	return list, nil
}
