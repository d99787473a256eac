package gocover

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// Counters are counts of processes of one program.
type Counters struct {
	Hash     Hash // of the Meta
	Segments []Segment
}

// A Segment is the counts of a process.
type Segment struct {
	Arguments map[string]string // argc, argv0 ..., GOOS, GOARCH
	Counted   []Counted
}

// Counted are the counts of a function; those that were not called have none.
type Counted struct {
	Package, Function uint32 // numbers of the Meta
	Counts            []uint32
}

// How numbers of counts are written.
const (
	rawNumbers  = 1
	ulebNumbers = 2
)

// footer is its size in bytes.
const footer = 16

// ReadCounters reads a covcounters file:
//
//	magic 4, version u32, hash 16, how numbers are written u8, 1 for big-endian u8, 0 6
//	for each segment:
//		functions u64, bytes of texts u32, of arguments u32; texts; arguments: their number ULEB, two texts each
//		(padded to 4) for each function: number of counters, package, function, counters
//		magic 4, 0 4, segments so far u32, 0 4
//
// Segments before what is wrong are returned beside the error.
func ReadCounters(b []byte) (*Counters, error) {
	r := &reader{b: b}
	if magic := r.bytes(4); r.err == nil && [4]byte(magic) != countersMagic {
		r.at = 0
		r.fail("% x where a covcounters file begins with % x", magic, countersMagic)
	}
	if v := r.u32(); r.err == nil && v != version {
		r.at -= 4
		r.fail("version %d of covcounters files: known is %d (Go 1.20 and later)", v, version)
	}
	c := new(Counters)
	copy(c.Hash[:], r.bytes(16))
	how, big := r.u8(), r.u8()
	r.bytes(6)
	if r.err == nil && how != rawNumbers && how != ulebNumbers {
		r.fail("counts are written in way %d: known are 1 (raw) and 2 (ULEB)", how)
	}
	number := r.uleb32
	switch {
	case how == rawNumbers && big != 0:
		number = func() uint32 {
			if b := r.bytes(4); b != nil {
				return binary.BigEndian.Uint32(b)
			}
			return 0
		}
	case how == rawNumbers:
		number = r.u32
	}
	for r.err == nil && (r.left() > 0 || len(c.Segments) == 0) {
		s := r.segment(number)
		end := r.bytes(footer)
		if r.err == nil && [4]byte(end) != countersMagic {
			r.at -= footer
			r.fail("% x where a segment ends with % x", end[:4], countersMagic)
		}
		if r.err == nil {
			c.Segments = append(c.Segments, s)
		}
	}
	return c, r.err
}

func (r *reader) segment(number func() uint32) (s Segment) {
	n := r.u64()
	textBytes, argumentBytes := uint64(r.u32()), uint64(r.u32())
	at := r.at
	texts := &reader{b: r.bytes(textBytes)}
	list := texts.strings()
	arguments := &reader{b: r.bytes(argumentBytes)}
	s.Arguments = make(map[string]string)
	pairs := arguments.uleb()
	for range min(pairs, arguments.left()/2) {
		key, value := arguments.uleb(), arguments.uleb()
		if key >= uint64(len(list)) || value >= uint64(len(list)) {
			arguments.fail("texts %d and %d of %d", key, value, len(list))
			break
		}
		s.Arguments[list[key]] = list[value]
	}
	for _, part := range []*reader{texts, arguments} {
		if f, ok := part.err.(*FormatError); ok && r.err == nil {
			r.err = &FormatError{int64(at), fmt.Errorf("arguments of the program: %w", f.Err)}
		}
	}
	r.bytes(min(uint64(-r.at&3), r.left()))
	if n > r.left()/3 {
		r.fail("%d functions in %d bytes", n, r.left())
	}
	for range n {
		if r.err != nil {
			break
		}
		counters := number()
		c := Counted{Package: number(), Function: number()}
		if uint64(counters) > r.left() {
			r.fail("%d counters in %d bytes", counters, r.left())
			break
		}
		c.Counts = make([]uint32, counters)
		for i := range c.Counts {
			c.Counts[i] = number()
		}
		s.Counted = append(s.Counted, c)
	}
	return s
}

// Command are the arguments with which the program was called, nil if that is not known.
func (s *Segment) Command() []string {
	n, err := strconv.Atoi(s.Arguments["argc"])
	if err != nil || n < 0 || n > len(s.Arguments) {
		return nil
	}
	list := make([]string, n)
	for i := range list {
		list[i] = s.Arguments[fmt.Sprintf("argv%d", i)]
	}
	return list
}
