//go:build linux

package live

import (
	"fmt"
	"math"

	"footfall/process"
)

// Value profiles (-fprofile-generate, or asked for by hand): a record says how
// many sites of each kind its function has, and leads to a row of lists, one for
// each site, null until the first value is seen.
//
//	node    value u64  count u64  next pointer
//
// In the file, for each record that has sites:
//
//	size u32  number of kinds u32
//	for each kind that has sites:
//		kind u32  number of sites u32  number of values of each site u8
//		(padded to 8)  value u64  count u64  ...

// A siteValues is what was seen at a site.
type siteValues struct {
	next  uint64
	pairs []uint64
	nodes []uint64 // where they are
}

// A recordValues is the sites of a record, by kind.
type recordValues struct {
	sites []int // number of each kind
	table uint64
	lists []*siteValues
}

// maxSites is how many sites in an image are believed.
const maxSites = 1 << 20

// values makes the last part of a profile: what the lists hold to which the
// records lead.
func (p *llvmSections) values(data []byte, mem memory) ([]byte, error) {
	records, err := p.readValues(data, mem)
	if err != nil {
		return nil, err
	}
	var b []byte
	for i := range records {
		b = p.appendValues(b, &records[i])
	}
	return b, nil
}

// readValues reads the lists of all sites.
func (p *llvmSections) readValues(data []byte, mem memory) ([]recordValues, error) {
	records, err := p.valueRecords(data)
	if err != nil || len(records) == 0 {
		return nil, err
	}
	if err := p.heads(records, mem); err != nil {
		return nil, err
	}
	var open []*siteValues
	for i := range records {
		open = append(open, records[i].lists...)
	}
	return records, p.follow(open, mem)
}

// valueRecords returns the records that have sites.
func (p *llvmSections) valueRecords(data []byte) ([]recordValues, error) {
	l := p.raw.Record(p.pointer)
	var records []recordValues
	total := 0
	for ; len(data) >= l.Size; data = data[l.Size:] {
		r := recordValues{table: p.address(data[l.Values:])}
		n := 0
		for kind := range l.Kinds {
			sites := int(p.order.Uint16(data[l.Sites+2*kind:]))
			r.sites = append(r.sites, sites)
			n += sites
		}
		if n == 0 {
			continue
		}
		if total += n; total > maxSites {
			return nil, errTooMany
		}
		for range n {
			r.lists = append(r.lists, new(siteValues))
		}
		records = append(records, r)
	}
	return records, nil
}

// heads reads where the lists begin.
func (p *llvmSections) heads(records []recordValues, mem memory) error {
	var ranges []process.MemoryRange
	var lists [][]*siteValues
	for i := range records {
		if r := &records[i]; r.table != 0 {
			ranges = append(ranges, process.MemoryRange{Addr: r.table, Bytes: make([]byte, p.pointer*len(r.lists))})
			lists = append(lists, r.lists)
		}
	}
	if err := mem.ReadRanges(ranges); err != nil {
		return err
	}
	for i, sites := range lists {
		for j, s := range sites {
			s.next = p.address(ranges[i].Bytes[p.pointer*j:])
		}
	}
	return nil
}

// follow reads all lists at once: the first nodes, the second ones, and so on.
// The program writes no more than 255 of a site.
func (p *llvmSections) follow(open []*siteValues, mem memory) error {
	size, left := 16+p.pointer, maxValues
	for range math.MaxUint8 {
		n := 0
		for _, s := range open {
			if s.next != 0 {
				open[n] = s
				n++
			}
		}
		if open = open[:n]; n == 0 {
			return nil
		}
		if left -= n; left < 0 {
			return errTooMany
		}
		b := make([]byte, size*n)
		ranges := make([]process.MemoryRange, n)
		for i, s := range open {
			ranges[i] = process.MemoryRange{Addr: s.next, Bytes: b[i*size : (i+1)*size]}
		}
		if err := mem.ReadRanges(ranges); err != nil {
			return fmt.Errorf("lists: %w", err)
		}
		for i, s := range open {
			node := ranges[i].Bytes
			s.nodes = append(s.nodes, s.next)
			s.pairs = append(s.pairs, p.order.Uint64(node), p.order.Uint64(node[8:]))
			s.next = p.address(node[16:])
		}
	}
	return nil
}

func (p *llvmSections) appendValues(b []byte, r *recordValues) []byte {
	start := len(b)
	b = p.order.AppendUint32(b, 0) // the size, below
	b = p.order.AppendUint32(b, 0)
	kinds, lists := uint32(0), r.lists
	for kind, n := range r.sites {
		if n == 0 {
			continue
		}
		kinds++
		b = p.order.AppendUint32(b, uint32(kind))
		b = p.order.AppendUint32(b, uint32(n))
		for _, s := range lists[:n] {
			b = append(b, byte(len(s.pairs)/2))
		}
		b = append(b, make([]byte, -(len(b)-start)&7)...)
		for _, s := range lists[:n] {
			for _, x := range s.pairs {
				b = p.order.AppendUint64(b, x)
			}
		}
		lists = lists[n:]
	}
	p.order.PutUint32(b[start:], uint32(len(b)-start))
	p.order.PutUint32(b[start+4:], kinds)
	return b
}
