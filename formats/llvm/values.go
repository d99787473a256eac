package llvm

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

// Kinds of values: the functions that a call called, the sizes of memcpy and the like, tables of virtual functions.
const (
	CallTargets = iota
	MemorySizes
	vtables
)

// hasSites tells whether a record says that there are values.
func hasSites(sites []byte, kinds int, order binary.ByteOrder) bool {
	for kind := range kinds {
		if order.Uint16(sites[2*kind:]) > 0 {
			return true
		}
	}
	return false
}

// rawValues are the values of a raw profile, in which functions and tables are known by their addresses.
type rawValues struct {
	functions map[uint64]uint64 // name hashes by address
	tables    []vtable          // by address
}

type vtable struct {
	hash, addr, size uint64
}

func newRawValues(s *rawSections, h *rawHead, l RecordLayout, order binary.ByteOrder) *rawValues {
	address := func(b []byte) uint64 {
		if h.pointer == 4 {
			return uint64(order.Uint32(b))
		}
		return order.Uint64(b)
	}
	v := &rawValues{functions: make(map[uint64]uint64)}
	for at := 0; at+l.Size <= len(s.records); at += l.Size {
		if addr := address(s.records[at+l.Function:]); addr != 0 {
			v.functions[addr] = order.Uint64(s.records[at:])
		}
	}
	// name hash u64, address, size u32
	size := align(8+h.pointer+4, 8)
	for at := 0; at+size <= len(s.vtables); at += size {
		b := s.vtables[at:]
		v.tables = append(v.tables, vtable{order.Uint64(b), address(b[8:]), uint64(order.Uint32(b[8+h.pointer:]))})
	}
	slices.SortFunc(v.tables, func(a, b vtable) int { return cmp.Compare(a.addr, b.addr) })
	return v
}

// named gives what is in the profile of all runs for an address of this one.
func (v *rawValues) named(kind int, value uint64) uint64 {
	switch kind {
	case CallTargets:
		return v.functions[value]
	case vtables:
		i, found := slices.BinarySearchFunc(v.tables, value, func(t vtable, addr uint64) int { return cmp.Compare(t.addr, addr) })
		if !found {
			i--
		}
		if i >= 0 && value-v.tables[i].addr < max(v.tables[i].size, 1) {
			return v.tables[i].hash
		}
		return 0
	}
	return value
}

// read reads the values of a record that has sites.
func (v *rawValues) read(r *reader, sites []byte, kinds int) (Values, error) {
	values, err := r.values(kinds, v.named)
	if err != nil {
		return nil, err
	}
	for len(values) < kinds {
		values = append(values, nil)
	}
	for kind := range kinds {
		if n := int(r.Order.Uint16(sites[2*kind:])); len(values[kind]) > n {
			return nil, fmt.Errorf("%d sites of kind %d, expected %d", len(values[kind]), kind, n)
		}
	}
	return values, nil
}

// values reads, in raw and indexed profiles,
//
//	size u32  number of kinds u32
//	for each kind that has sites:
//		kind u32  number of sites u32  number of values of each site u8
//		(padded to 8)  value u64  count u64  ...
func (r *reader) values(kinds int, named func(kind int, value uint64) uint64) (Values, error) {
	start := r.At
	size := uint64(r.U32())
	n := r.U32()
	if r.Err != nil {
		return nil, r.Err
	}
	if size < 8 || size-8 > r.Left() || uint64(n) > uint64(kinds) {
		r.At = start
		r.Fail("%d bytes of values of %d kinds", size, n)
		return nil, r.Err
	}
	end := start + int(size)
	var values Values
	for range n {
		kind, sites := r.U32(), r.U32()
		numbers := r.Bytes(uint64(sites))
		r.Bytes(uint64(-(r.At - start) & 7))
		if r.Err == nil && (uint64(kind) >= uint64(kinds) || r.At > end) {
			r.Fail("values of kind %d", kind)
		}
		if r.Err != nil {
			return nil, r.Err
		}
		for uint32(len(values)) <= kind {
			values = append(values, nil)
		}
		for _, number := range numbers {
			b := r.Bytes(16 * uint64(number))
			if r.Err != nil {
				return nil, r.Err
			}
			var site ValueSite
			for ; len(b) > 0; b = b[16:] {
				value := r.Order.Uint64(b)
				if named != nil {
					value = named(int(kind), value)
				}
				site = append(site, ValueCount{value, r.Order.Uint64(b[8:])})
			}
			values[kind] = append(values[kind], site)
		}
	}
	if r.At > end {
		r.Fail("values beyond their end")
		return nil, r.Err
	}
	r.At = end
	return values, nil
}
