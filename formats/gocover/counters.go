package gocover

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"

	"footfall/formats/cursor"
)

// A file of counters is
//
//	magic        "\x00cwm"
//	version      u32
//	hash         16 bytes, of the meta-data
//	flavor       u8, 1: numbers are u32, 2: ULEB128
//	big-endian   u8, numbers u32 are
//	             6 bytes
//
// and segments, of a run each; Go's own programs write one. All but the counters is little-endian.
//
//	functions    u64
//	             length u32 of the table of texts, u32 of the arguments
//	             a table of texts
//	arguments    ULEB128 numbers: how many, of each its name and value (of the texts); padded to 4 bytes
//	             of each function that ran: counters, package, function, the counters
//	footer       magic, 4 bytes, segments so far u32, 4 bytes
const (
	countersMagic   = "\x00cwm"
	countersVersion = 1
	countersHeader  = 32
	countersFooter  = 16

	flavorRaw  = 1
	flavorULEB = 2
)

// Counters are what one or more runs of a program have counted.
type Counters struct {
	Hash     Hash // of the meta-data
	Segments []CounterSegment
}

// A CounterSegment is a run.
type CounterSegment struct {
	// Arguments are what the run says of itself: argc, argv0 and so on, GOOS, GOARCH.
	Arguments map[string]string
	Functions []FunctionCounters
}

// FunctionCounters are those of a function, one a block.
type FunctionCounters struct {
	Package, Function uint32 // numbers in Meta
	Counts            []uint32
}

// IsCounters tells by the beginning of a file whether it is one of counters.
func IsCounters(head []byte) bool { return bytes.HasPrefix(head, []byte(countersMagic)) }

// ReadCounters reads a file of counters. Errors are FormatErrors; segments that are whole are returned beside one.
func ReadCounters(b []byte) (*Counters, error) {
	r := &reader{cursor.Reader{B: b, Order: binary.LittleEndian}}
	if magic := r.Bytes(4); r.Err == nil && string(magic) != countersMagic {
		r.At = 0
		r.Fail("%q, but counters of go build -cover begin with %q", magic, countersMagic)
	}
	if v := r.U32(); r.Err == nil && v != countersVersion {
		r.At -= 4
		r.Fail("version %d of counters: known is %d (Go 1.20 to 1.26)", v, countersVersion)
	}
	c := new(Counters)
	copy(c.Hash[:], r.Bytes(16))
	flavor, big := r.U8(), r.U8()
	r.Bytes(6)
	if r.Err == nil && flavor != flavorRaw && flavor != flavorULEB {
		r.At = countersHeader - 8
		r.Fail("counters of flavor %d: known are %d and %d", flavor, flavorRaw, flavorULEB)
	}
	for n := uint32(1); r.Err == nil; n++ {
		s := r.segment(flavor, big != 0)
		magic := r.Bytes(4)
		r.Bytes(4)
		number := r.U32()
		r.Bytes(4)
		if r.Err == nil && string(magic) != countersMagic {
			r.At -= countersFooter
			r.Fail("%q, but behind the counters of a run there is %q", magic, countersMagic)
		}
		if r.Err == nil && number != n {
			r.At -= countersFooter
			r.Fail("the end of run %d, where that of run %d is to be", number, n)
		}
		if r.Err != nil {
			return c, r.Err
		}
		if c.Segments = append(c.Segments, s); r.Left() == 0 {
			return c, nil
		}
	}
	return nil, r.Err
}

func (r *reader) segment(flavor uint8, big bool) CounterSegment {
	start := r.At
	n := r.U64()
	textBytes, argumentBytes := uint64(r.U32()), uint64(r.U32())
	texts := &reader{cursor.Reader{Base: r.At, B: r.Bytes(textBytes)}}
	arguments := &reader{cursor.Reader{Base: r.At, B: r.Bytes(argumentBytes)}}
	s := CounterSegment{Arguments: arguments.arguments(texts.texts())}
	if r.Err == nil {
		r.Err = cmp.Or(texts.Err, arguments.Err)
	}
	if pad := (start - r.At) & 3; r.Err == nil {
		r.Bytes(uint64(pad))
	}
	numbers := &reader{cursor.Reader{B: r.B, At: r.At, Err: r.Err, Order: binary.LittleEndian}}
	if big {
		numbers.Order = binary.BigEndian
	}
	number, size := numbers.Uleb32, uint64(1)
	if flavor == flavorRaw {
		number, size = func(string) uint32 { return numbers.U32() }, 4
	}
	if numbers.Fits("functions", n, 3*size) {
		s.Functions = make([]FunctionCounters, 0, n)
	}
	for range cap(s.Functions) {
		k := number("a number of counters")
		f := FunctionCounters{Package: number("a package"), Function: number("a function")}
		if !numbers.Fits("counters", uint64(k), size) {
			break
		}
		f.Counts = make([]uint32, k)
		for i := range f.Counts {
			f.Counts[i] = number("a counter")
		}
		s.Functions = append(s.Functions, f)
	}
	r.At, r.Err = numbers.At, numbers.Err
	return s
}

func (r *reader) arguments(texts []string) map[string]string {
	if len(r.B) == 0 {
		return nil
	}
	n := r.Uleb()
	if !r.Fits("arguments", n, 2) {
		return nil
	}
	list := make(map[string]string, n)
	for range n {
		name := r.text(texts, r.Uleb())
		list[name] = r.text(texts, r.Uleb())
	}
	return list
}

// Encode makes the file of one run, in the flavor that programs write. Go puts the texts of the arguments in an order
// that is another one each time; here it is that of their names.
func (s *CounterSegment) Encode(hash Hash) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(append([]byte(nil), countersMagic...), countersVersion)
	b = append(append(b, hash[:]...), flavorULEB, 0, 0, 0, 0, 0, 0, 0)

	names := slices.Sorted(maps.Keys(s.Arguments))
	index := map[string]uint64{"": 0}
	texts := []string{""}
	number := func(text string) uint64 {
		i, known := index[text]
		if !known {
			i = uint64(len(texts))
			index[text] = i
			texts = append(texts, text)
		}
		return i
	}
	arguments := binary.AppendUvarint(nil, uint64(len(names)))
	for _, name := range names {
		arguments = binary.AppendUvarint(arguments, number(name))
		arguments = binary.AppendUvarint(arguments, number(s.Arguments[name]))
	}
	table := appendTexts(nil, texts)
	for (len(table)+len(arguments))%4 != 0 {
		arguments = append(arguments, 0)
	}
	b = le.AppendUint64(b, uint64(len(s.Functions)))
	b = le.AppendUint32(le.AppendUint32(b, uint32(len(table))), uint32(len(arguments)))
	b = append(append(b, table...), arguments...)
	for i := range s.Functions {
		f := &s.Functions[i]
		for _, n := range [3]uint32{uint32(len(f.Counts)), f.Package, f.Function} {
			b = binary.AppendUvarint(b, uint64(n))
		}
		for _, n := range f.Counts {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	b = append(append(b, countersMagic...), 0, 0, 0, 0)
	return append(le.AppendUint32(b, 1), 0, 0, 0, 0)
}

func (f *FunctionCounters) String() string {
	return fmt.Sprintf("function %d of package %d", f.Function, f.Package)
}

// HashOfCounters reads from the head of a file of counters of which program they are.
func HashOfCounters(f io.ReaderAt) (h Hash, ok bool) {
	var head [8 + len(h)]byte
	if _, err := f.ReadAt(head[:], 0); err != nil || !IsCounters(head[:]) {
		return h, false
	}
	copy(h[:], head[8:])
	return h, true
}
