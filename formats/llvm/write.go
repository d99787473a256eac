package llvm

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/bits"
	"slices"
)

// This file writes indexed profiles as llvm-profdata merge of each version does, in its order.

// An Indexer adds profiles up, in the order in which they are read, to be written as one. The zero Indexer is ready.
type Indexer struct {
	functions []*indexedFunction // as they were first seen
	byName    map[string]*indexedFunction
	flags     uint64
	any       bool
	old       bool // see Profile.OldBitmaps
	ids       []string
}

// An indexedFunction is a name with counts for one or several hashes.
type indexedFunction struct {
	name    string
	hash    uint64
	counted []*Counted
}

// Errors of Add, of one function or of all.
var (
	ErrOtherKind   = errors.New("its counts are of another kind")
	ErrOtherNumber = errors.New("its number of counters is another one")
)

// Add adds a profile, which is the Indexer's from then on. The names are of functions that cannot be added.
func (x *Indexer) Add(p *Profile) (others []string, err error) {
	if x.byName == nil {
		x.byName = make(map[string]*indexedFunction)
	}
	if x.any && (x.flags^p.Flags)&kindFlags != 0 {
		return nil, ErrOtherKind
	}
	x.any, x.flags, x.old = true, x.flags|p.Flags, x.old || p.OldBitmaps
	for _, id := range p.BuildIDs {
		if !slices.Contains(x.ids, id) {
			x.ids = append(x.ids, id)
		}
	}
	for i := range p.Counted {
		c := &p.Counted[i]
		f := x.byName[c.Name]
		if f == nil {
			f = &indexedFunction{name: c.Name, hash: HashOf(c.Name)}
			x.byName[c.Name] = f
			x.functions = append(x.functions, f)
		}
		if !f.add(c) {
			others = append(others, c.Name)
		}
	}
	return others, nil
}

// Profile is the sum as a profile.
func (x *Indexer) Profile() *Profile {
	p := &Profile{Format: Indexed, Flags: x.flags, BuildIDs: x.ids, OldBitmaps: x.old}
	for _, f := range x.functions {
		for _, c := range f.counted {
			c := *c
			c.Name, c.NameHash = f.name, f.hash
			p.Counted = append(p.Counted, c)
		}
	}
	return p
}

// Scale multiplies all counts.
func (p *Profile) Scale(weight uint64) {
	if weight == 1 {
		return
	}
	times := func(n *uint64) {
		if high, low := bits.Mul64(*n, weight); high > 0 || low > mostCount {
			*n = mostCount
		} else {
			*n = low
		}
	}
	for i := range p.Counted {
		c := &p.Counted[i]
		for k := range c.Counts {
			times(&c.Counts[k])
		}
		for _, sites := range c.Values {
			for _, site := range sites {
				for k := range site {
					times(&site[k].Count)
				}
			}
		}
	}
}

func (f *indexedFunction) add(c *Counted) bool {
	for _, have := range f.counted {
		if have.Hash != c.Hash {
			continue
		}
		if len(have.Counts) != len(c.Counts) || len(have.Bitmap) != len(c.Bitmap) {
			return false
		}
		have.add(c)
		have.Values = have.Values.merge(c.Values)
		return true
	}
	c.Values.byCount()
	f.counted = append(f.counted, c)
	return true
}

// merge adds values of the same sites.
func (v Values) merge(o Values) Values {
	for kind := range o {
		if kind == len(v) {
			v = append(v, nil)
		}
		for i, site := range o[kind] {
			if i == len(v[kind]) {
				v[kind] = append(v[kind], nil)
			}
			v[kind][i] = v[kind][i].merge(site)
		}
	}
	v.byCount()
	return v
}

func (s Site) merge(o Site) Site {
	all := slices.Concat(s, o)
	slices.SortStableFunc(all, func(a, b ValueCount) int { return cmp.Compare(a.Value, b.Value) })
	out := all[:0]
	for _, v := range all {
		if n := len(out); n > 0 && out[n-1].Value == v.Value {
			out[n-1].Count = add(out[n-1].Count, v.Count)
		} else {
			out = append(out, v)
		}
	}
	return out
}

// byCount sorts the values of each site, the most frequent first.
func (v Values) byCount() {
	for _, sites := range v {
		for _, site := range sites {
			slices.SortStableFunc(site, func(a, b ValueCount) int { return cmp.Compare(b.Count, a.Count) })
		}
	}
}

// ran tells whether something was counted.
func (f *indexedFunction) ran(bitmaps bool) bool {
	return slices.ContainsFunc(f.counted, func(c *Counted) bool {
		return slices.ContainsFunc(c.Counts, func(n uint64) bool { return n > 0 }) ||
			bitmaps && slices.ContainsFunc(c.Bitmap, func(b byte) bool { return b > 0 })
	})
}

// indexedVersionOf is the version that the tools of an LLVM write.
func indexedVersionOf(version int) uint64 {
	switch {
	case version < 11:
		return 5
	case version < 12:
		return 6
	case version < 15:
		return 7
	case version < 16:
		return 8
	case version < 17:
		return 9
	case version < 18:
		return 10
	case version < 19:
		return 11
	case version < 22:
		return 12
	case version < 23:
		return 13
	}
	return 14
}

// ordered are the functions in the order in which an LLVM puts them into the table.
func (x *Indexer) ordered(version int, sparse bool) []*indexedFunction {
	list := slices.Clone(x.functions)
	if version >= 17 {
		slices.SortFunc(list, func(a, b *indexedFunction) int { return cmp.Compare(a.name, b.name) })
	} else {
		list = stringMapOrder(list)
	}
	if sparse {
		list = slices.DeleteFunc(list, func(f *indexedFunction) bool { return !f.ran(version >= 18) })
	}
	return list
}

// stringMapOrder is the order in which LLVM's StringMap up to 16 has them: by buckets of a hash (h * 33 + c), of which
// there are 16 at first and twice as many whenever more than three quarters are taken.
func stringMapOrder(list []*indexedFunction) []*indexedFunction {
	buckets := make([]*indexedFunction, 16)
	put := func(to []*indexedFunction, f *indexedFunction) {
		at := int(djb(f.name)) & (len(to) - 1)
		for step := 1; to[at] != nil; step++ {
			at = (at + step) & (len(to) - 1)
		}
		to[at] = f
	}
	for i, f := range list {
		put(buckets, f)
		if 4*(i+1) > 3*len(buckets) {
			larger := make([]*indexedFunction, 2*len(buckets))
			for _, f := range buckets {
				if f != nil {
					put(larger, f)
				}
			}
			buckets = larger
		}
	}
	return slices.DeleteFunc(buckets, func(f *indexedFunction) bool { return f == nil })
}

func djb(name string) uint32 {
	h := uint32(0)
	for i := range len(name) {
		h = h*33 + uint32(name[i])
	}
	return h
}

// Index returns the profile as the tools of an LLVM write it; sparse leaves out functions in which nothing ran.
func (x *Indexer) Index(llvm int, sparse bool) []byte {
	version := indexedVersionOf(llvm)
	list := x.ordered(llvm, sparse)
	le := binary.LittleEndian
	b := slices.Clone(indexedMagic)
	word := func(n uint64) { b = le.AppendUint64(b, n) }
	pad := func() { b = append(b, make([]byte, -len(b)&7)...) }
	word(version | x.flags)
	word(0)
	word(0)
	tableAt := len(b)
	word(0)
	idsAt, vtablesAt := 0, 0
	for _, part := range []struct {
		since uint64
		at    *int
	}{{8, nil}, {9, &idsAt}, {10, nil}, {12, &vtablesAt}} {
		if version >= part.since {
			if part.at != nil {
				*part.at = len(b)
			}
			word(0)
		}
	}
	for _, n := range summarise(list) {
		word(n)
	}
	t := newHashTable(list)
	offsets := make([]uint64, len(t))
	for i, bucket := range t {
		if len(bucket) == 0 {
			continue
		}
		offsets[i] = uint64(len(b))
		b = le.AppendUint16(b, uint16(len(bucket)))
		for _, f := range bucket {
			data := f.encode(version)
			word(f.hash)
			word(uint64(len(f.name)))
			word(uint64(len(data)))
			b = append(append(b, f.name...), data...)
		}
	}
	pad()
	le.PutUint64(b[tableAt:], uint64(len(b)))
	word(uint64(len(t)))
	word(uint64(len(list)))
	for _, n := range offsets {
		word(n)
	}
	if idsAt > 0 {
		le.PutUint64(b[idsAt:], uint64(len(b)))
		b = x.appendIDs(b)
	}
	if vtablesAt > 0 {
		le.PutUint64(b[vtablesAt:], uint64(len(b)))
		word(0)
	}
	return b
}

func (x *Indexer) appendIDs(b []byte) []byte {
	var all []byte
	for _, id := range slices.Sorted(slices.Values(x.ids)) {
		raw, _ := hex.DecodeString(id)
		all = binary.LittleEndian.AppendUint64(all, uint64(len(raw)))
		all = append(all, raw...)
		all = append(all, make([]byte, -len(raw)&7)...)
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(len(all)))
	return append(b, all...)
}

// newHashTable has 64 buckets, twice as many whenever three quarters as many entries come, and in the end about as
// many as entries. A new one becomes the head of its bucket.
func newHashTable(list []*indexedFunction) [][]*indexedFunction {
	put := func(table [][]*indexedFunction, f *indexedFunction) {
		at := f.hash & uint64(len(table)-1)
		table[at] = slices.Insert(table[at], 0, f)
	}
	resized := func(table [][]*indexedFunction, size int) [][]*indexedFunction {
		other := make([][]*indexedFunction, size)
		for _, bucket := range table {
			for _, f := range bucket {
				put(other, f)
			}
		}
		return other
	}
	table := make([][]*indexedFunction, 64)
	for i, f := range list {
		if 4*(i+1) >= 3*len(table) {
			table = resized(table, 2*len(table))
		}
		put(table, f)
	}
	size := 1
	if n := len(list); n > 2 {
		size = 1 << bits.Len(uint(4*n/3))
	}
	if size != len(table) {
		table = resized(table, size)
	}
	return table
}

// encode makes the data of a function, see readCounted.
func (f *indexedFunction) encode(version uint64) []byte {
	le := binary.LittleEndian
	var b []byte
	for _, c := range f.counted {
		b = le.AppendUint64(b, c.Hash)
		b = le.AppendUint64(b, uint64(len(c.Counts)))
		for _, n := range c.Counts {
			b = le.AppendUint64(b, n)
		}
		switch {
		case version >= 14:
			b = le.AppendUint64(b, uint64(len(c.Bitmap)))
			b = append(append(b, c.Bitmap...), make([]byte, -len(c.Bitmap)&7)...)
			b = le.AppendUint64(b, 0)
		case version >= 11:
			b = le.AppendUint64(b, uint64(len(c.Bitmap)))
			for _, n := range c.Bitmap {
				b = le.AppendUint64(b, uint64(n))
			}
		}
		b = c.Values.encode(b)
	}
	return b
}

// encode appends values, see reader.values.
func (v Values) encode(b []byte) []byte {
	le := binary.LittleEndian
	var all bytes.Buffer
	kinds := uint32(0)
	for kind, sites := range v {
		if len(sites) == 0 {
			continue
		}
		kinds++
		var part []byte
		part = le.AppendUint32(part, uint32(kind))
		part = le.AppendUint32(part, uint32(len(sites)))
		for _, s := range sites {
			part = append(part, byte(min(len(s), 255)))
		}
		part = append(part, make([]byte, -len(part)&7)...)
		for _, s := range sites {
			for _, value := range s[:min(len(s), 255)] {
				part = le.AppendUint64(part, value.Value)
				part = le.AppendUint64(part, value.Count)
			}
		}
		all.Write(part)
	}
	b = le.AppendUint32(b, uint32(8+all.Len()))
	b = le.AppendUint32(b, kinds)
	return append(b, all.Bytes()...)
}

// cutoffs of the summary, in millionths of all counts.
var cutoffs = []uint64{
	10_000, 100_000, 200_000, 300_000, 400_000, 500_000, 600_000, 700_000, 800_000, 900_000, 950_000, 990_000, 999_000, 999_900, 999_990, 999_999,
}

// summarise makes the summary: functions, counts, and for each cutoff the smallest of the largest counts that reach it.
func summarise(list []*indexedFunction) []uint64 {
	var functions, blocks, mostEntry, most, mostInner, total uint64
	times := make(map[uint64]uint64)
	for _, f := range list {
		for _, c := range f.counted {
			if c.Hash>>60&1 != 0 || len(c.Counts) == 0 { // taken for context-sensitive by LLVM
				continue
			}
			functions++
			for i, n := range c.Counts {
				blocks++
				total += n
				most = max(most, n)
				times[n]++
				if i == 0 {
					mostEntry = max(mostEntry, n)
				} else {
					mostInner = max(mostInner, n)
				}
			}
		}
	}
	words := []uint64{6, uint64(len(cutoffs)), functions, blocks, mostEntry, most, mostInner, total}
	counts := make([]uint64, 0, len(times))
	for n := range times {
		counts = append(counts, n)
	}
	slices.SortFunc(counts, func(a, b uint64) int { return cmp.Compare(b, a) })
	var sum, count, seen uint64
	for _, cutoff := range cutoffs {
		high, low := bits.Mul64(total, cutoff)
		wanted, _ := bits.Div64(high, low, 1_000_000)
		for sum < wanted && len(counts) > 0 {
			count = counts[0]
			sum += count * times[count]
			seen += times[count]
			counts = counts[1:]
		}
		words = append(words, cutoff, count, seen)
	}
	return words
}
