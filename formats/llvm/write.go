package llvm

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
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
	bitmaps   bool // there are any
	ids       []string
	hasID     map[string]bool
	last      []lastAdded // of the profile that was added last
}

// lastAdded is where a function went.
type lastAdded struct {
	nameHash uint64
	function *indexedFunction
}

// An indexedFunction is a name with counts for one or several hashes.
type indexedFunction struct {
	name    string
	hash    uint64
	counted []*Counted
	byHash  map[uint64]*Counted // if they are many
}

// fewHashes are gone through one by one.
const fewHashes = 8

// of finds the counts for a hash, nil if there are none.
func (f *indexedFunction) of(hash uint64) *Counted {
	if f.byHash != nil {
		return f.byHash[hash]
	}
	for _, c := range f.counted {
		if c.Hash == hash {
			return c
		}
	}
	return nil
}

// with adds counts for a hash that is not there.
func (f *indexedFunction) with(c *Counted) {
	f.counted = append(f.counted, c)
	switch {
	case f.byHash != nil:
		f.byHash[c.Hash] = c
	case len(f.counted) > fewHashes:
		f.byHash = make(map[uint64]*Counted)
		for _, c := range f.counted {
			f.byHash[c.Hash] = c
		}
	}
}

// Errors of Add, of one function or of all.
var (
	ErrOtherKind   = errors.New("its counts are of another kind")
	ErrOtherNumber = errors.New("its number of counters is another one")
	ErrOldBitmaps  = errors.New("its bitmaps (MC/DC) are numbered as LLVM 18 did, and others are not")
)

// A NotAdded is a function that could not be added to what was there of it.
type NotAdded struct {
	Name string
	Difference
}

// A Difference is why.
type Difference int

// Differences.
const (
	added         Difference = iota
	OtherCounters            // another number of counters
	OtherBitmap              // bitmaps of another size
	Overflow                 // a sum is larger than counts can be, and is now the largest that there is
)

// Add adds a profile, which is the Indexer's from then on. The names are of functions that cannot be added.
func (x *Indexer) Add(p *Profile) (others []NotAdded, err error) { return x.AddWeighted(p, 1) }

// AddWeighted is Add of a profile whose counts count so many times.
func (x *Indexer) AddWeighted(p *Profile, weight uint64) (others []NotAdded, err error) {
	if x.byName == nil {
		x.byName, x.hasID = make(map[string]*indexedFunction), make(map[string]bool)
	}
	if x.any && (x.flags^p.Flags)&kindFlags != 0 {
		return nil, ErrOtherKind
	}
	bitmaps := p.hasBitmaps()
	if x.bitmaps && bitmaps && x.old != p.OldBitmaps {
		return nil, ErrOldBitmaps
	}
	if !x.any || bitmaps {
		x.old, x.bitmaps = p.OldBitmaps, bitmaps
	}
	x.any, x.flags = true, x.flags|p.Flags
	for _, id := range p.BuildIDs {
		if !x.hasID[id] {
			x.hasID[id] = true
			x.ids = append(x.ids, id)
		}
	}
	// Profiles of one program have the same functions in the same order.
	same := len(x.last) == len(p.Counted)
	if !same {
		x.last = make([]lastAdded, len(p.Counted))
	}
	for i := range p.Counted {
		c := &p.Counted[i]
		last := &x.last[i]
		if !same || last.nameHash != c.NameHash || last.function.name != c.Name {
			f := x.byName[c.Name]
			if f == nil {
				f = &indexedFunction{name: c.Name, hash: HashOf(c.Name)}
				x.byName[c.Name] = f
				x.functions = append(x.functions, f)
			}
			*last = lastAdded{c.NameHash, f}
		}
		if d := last.function.add(c, weight); d != added {
			others = append(others, NotAdded{c.Name, d})
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

// times multiplies a count.
func times(n, weight uint64) uint64 {
	if high, low := bits.Mul64(n, weight); high == 0 && low <= mostCount {
		return low
	}
	return mostCount
}

// scale multiplies all counts.
func (c *Counted) scale(weight uint64) {
	if weight == 1 {
		return
	}
	for k := range c.Counts {
		c.Counts[k] = times(c.Counts[k], weight)
	}
	for _, sites := range c.Values {
		for _, site := range sites {
			for k := range site {
				site[k].Count = times(site[k].Count, weight)
			}
		}
	}
}

func (f *indexedFunction) add(c *Counted, weight uint64) Difference {
	have := f.of(c.Hash)
	switch {
	case have == nil:
		c.scale(weight)
		c.Values.byCount()
		f.with(c)
		return added
	case len(have.Counts) != len(c.Counts):
		return OtherCounters
	case len(have.Bitmap) != len(c.Bitmap):
		return OtherBitmap
	}
	values := c.Values
	c.Values = nil
	c.scale(weight)
	overflow := have.add(c)
	if values != nil {
		have.Values = have.Values.merge(values, weight)
	}
	if overflow {
		return Overflow
	}
	return added
}

// merge adds values of the same sites.
func (v Values) merge(o Values, weight uint64) Values {
	for kind := range o {
		if kind == len(v) {
			v = append(v, nil)
		}
		for i, site := range o[kind] {
			if i == len(v[kind]) {
				v[kind] = append(v[kind], nil)
			}
			v[kind][i] = v[kind][i].merge(site, weight)
		}
	}
	v.byCount()
	return v
}

// merge adds a site. Values that only it has are not multiplied, as LLVM does not.
func (s ValueSite) merge(o ValueSite, weight uint64) ValueSite {
	byValue := func(a, b ValueCount) int { return cmp.Compare(a.Value, b.Value) }
	slices.SortStableFunc(s, byValue)
	slices.SortStableFunc(o, byValue)
	out := make(ValueSite, 0, len(s)+len(o))
	for len(s) > 0 && len(o) > 0 {
		switch {
		case s[0].Value < o[0].Value:
			out, s = append(out, s[0]), s[1:]
		case s[0].Value > o[0].Value:
			out, o = append(out, o[0]), o[1:]
		default:
			out = append(out, ValueCount{s[0].Value, add(s[0].Count, times(o[0].Count, weight))})
			s, o = s[1:], o[1:]
		}
	}
	return append(append(out, s...), o...)
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
	if version >= 17 {
		return x.byNames(version, sparse)
	}
	return x.thatRan(stringMapOrder(x.functions), version, sparse)
}

// byNames are the functions in the order of their names.
func (x *Indexer) byNames(version int, sparse bool) []*indexedFunction {
	list := slices.Clone(x.functions)
	slices.SortFunc(list, func(a, b *indexedFunction) int { return cmp.Compare(a.name, b.name) })
	return x.thatRan(list, version, sparse)
}

func (x *Indexer) thatRan(list []*indexedFunction, version int, sparse bool) []*indexedFunction {
	if !sparse {
		return list
	}
	return slices.DeleteFunc(list, func(f *indexedFunction) bool { return !f.ran(version >= 18) })
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

// summarise makes the words of the summary.
func summarise(list []*indexedFunction) []uint64 {
	var s Counts
	for _, f := range list {
		for _, c := range f.counted {
			if c.Hash>>60&1 == 0 { // others are taken for context-sensitive by LLVM
				s.Add(c)
			}
		}
	}
	words := []uint64{6, uint64(len(cutoffs)), s.Functions, s.Blocks, s.MostEntry, max(s.MostEntry, s.MostInner), s.MostInner, s.Total}
	for _, c := range s.Cutoffs(cutoffs) {
		words = append(words, c.Cutoff, c.Count, c.Blocks)
	}
	return words
}

// Counts sum up functions: how many there are, and how large their counts.
type Counts struct {
	Functions, Blocks    uint64
	MostEntry, MostInner uint64 // the largest first count of a function, and other one
	Total                uint64

	times map[uint64]uint64
}

// Add adds a function, one without counts not.
func (s *Counts) Add(c *Counted) {
	if s.times == nil {
		s.times = make(map[uint64]uint64)
	}
	if len(c.Counts) > 0 {
		s.Functions++
	}
	for i, n := range c.Counts {
		if n == math.MaxUint64 { // it says that there is none
			continue
		}
		s.Blocks++
		s.Total += n
		s.times[n]++
		if i == 0 {
			s.MostEntry = max(s.MostEntry, n)
		} else {
			s.MostInner = max(s.MostInner, n)
		}
	}
}

// A Cutoff is how many of the largest counts make up a part of all, in millionths, and the smallest of them.
type Cutoff struct{ Cutoff, Count, Blocks uint64 }

// Cutoffs are those for parts, ascending.
func (s *Counts) Cutoffs(parts []uint64) []Cutoff {
	counts := make([]uint64, 0, len(s.times))
	for n := range s.times {
		counts = append(counts, n)
	}
	slices.SortFunc(counts, func(a, b uint64) int { return cmp.Compare(b, a) })
	var list []Cutoff
	var sum, count, seen uint64
	for _, part := range parts {
		high, low := bits.Mul64(s.Total, part)
		wanted := uint64(math.MaxUint64)
		if high < 1_000_000 {
			wanted, _ = bits.Div64(high, low, 1_000_000)
		}
		for sum < wanted && len(counts) > 0 {
			count = counts[0]
			sum += count * s.times[count]
			seen += s.times[count]
			counts = counts[1:]
		}
		list = append(list, Cutoff{part, count, seen})
	}
	return list
}

// DefaultCutoffs are the parts of the summary of an indexed profile.
func DefaultCutoffs() []uint64 { return slices.Clone(cutoffs) }
