package units

import (
	"encoding/binary"
	"fmt"
	"slices"

	"footfall/coverage"
	"footfall/fleet/store"
	"footfall/fleet/wire"
	"footfall/formats/llvm"
)

// Mapping is the kind of units that are functions of a binary with Clang's or Rust's source-based counters, of which it has one unit
// or several. The program of one is
//
//	version           1 byte
//	flags             1: counters only tell that something ran; 2: bits of bitmaps are numbered as LLVM 18 did
//	unknowns          number
//	counted functions number, of each its name's hash u64, hash u64, counters, bytes of its bitmap
//	mapping           see llvm.EncodePart, with the names of sources as they are shown where the program runs
//
// Its counters are, function by function, those that the compiler counts and one for each bit of its bitmap: how many
// processes had it set. Then, if they count, for each of the first ones what forked processes had of it from their parents
// (see llvm.Counted.Whole); if not, those of [Function.Unknown].
const Mapping = "llvm"

// Flags of a program.
const (
	flagSets       = 1
	flagOldBitmaps = 2
)

const (
	mostProgram     = 4 << 20 // bytes of one of profiles: what is made of it takes up to 16 times that
	somePartBytes   = 1 << 20 // of a unit that is made
	somePartVectors = 1 << 17
)

// A countedFunction is one that has counters.
type countedFunction struct {
	nameHash, hash   uint64
	counters, bitmap int
}

func (f *countedFunction) size() int { return f.counters + 8*f.bitmap }

// A ProfileLayout is where the counters of profiles of a binary are in the vectors of its units.
type ProfileLayout struct {
	sizes []int       // of the vectors
	at    []profileAt // by the number of a function in the profile
	sets  bool
	flags uint64
}

// A profileAt is where the counters of a function are; unit -1: it is not wanted.
type profileAt struct {
	countedFunction
	unit, first, whole int
}

// OfBinary returns the units of a binary, by the name of its file, whose program has made a raw profile p: with counters, which may be
// any; source is as in [llvm.CollectOptions], and dir where names are seen from of which the compiler did not say that.
func OfBinary(name string, b *llvm.Binary, p *llvm.Profile, dir string, source func(dir, name string) (path string, keep bool)) ([]store.Unit, *ProfileLayout, error) {
	m := unitMaker{name: name, dir: dir, source: source, profile: p, byName: make(map[uint64][]int)}
	m.layout = &ProfileLayout{at: make([]profileAt, len(p.Counted)), sets: p.SingleBytes(), flags: p.Flags}
	for i := range p.Counted {
		m.layout.at[i].unit = -1
		m.byName[p.Counted[i].NameHash] = append(m.byName[p.Counted[i].NameHash], i)
	}
	for _, r := range b.Records {
		if r.Wanted(dir, source) {
			if err := m.add(r); err != nil {
				return nil, nil, err
			}
		}
	}
	err := m.end()
	return m.units, m.layout, err
}

// A unitMaker makes units of a binary.
type unitMaker struct {
	name    string
	dir     string
	source  func(dir, name string) (string, bool)
	profile *llvm.Profile
	byName  map[uint64][]int
	layout  *ProfileLayout
	units   []store.Unit

	// Of the unit that is being made.
	records []*llvm.Record
	counted []countedFunction
	vector  int
	bytes   int
}

// add adds a function, with all that the profile has counted of its name: counters of another hash tell that its own are missing.
func (m *unitMaker) add(r *llvm.Record) error {
	if m.vector > somePartVectors || m.bytes > somePartBytes {
		if err := m.end(); err != nil {
			return err
		}
	}
	m.records = append(m.records, r)
	m.bytes += r.Size()
	start := len(m.counted)
	for _, i := range m.byName[r.NameHash] {
		c := &m.profile.Counted[i]
		one := countedFunction{c.NameHash, c.Hash, len(c.Counts), len(c.Bitmap)}
		same := func(f countedFunction) bool { return f.nameHash == one.nameHash && f.hash == one.hash }
		k := start + slices.IndexFunc(m.counted[start:], same)
		switch {
		case k < start:
			k = len(m.counted)
			m.counted = append(m.counted, one)
			m.vector += one.size()
		case m.counted[k] != one:
			continue // as where profiles are added, see llvm.Sum
		}
		m.layout.at[i] = profileAt{countedFunction: one, unit: len(m.units), first: k}
	}
	return nil
}

// end makes a unit of the functions.
func (m *unitMaker) end() error {
	if len(m.records) == 0 {
		return nil
	}
	number := len(m.units)
	u := store.Unit{Kind: Mapping, Name: m.name}
	if number > 0 {
		u.Name = fmt.Sprintf("%s (%d)", m.name, number+1)
	}
	o := mapped{counted: m.counted, sets: m.layout.sets, oldBitmaps: m.profile.OldBitmaps}
	part := llvm.EncodePart(m.records, m.dir, m.source)
	var err error
	if o.binary, err = llvm.ReadPart(part); err != nil {
		return err
	}
	if o.sets {
		o.unknowns = len(o.functions())
	}
	at := o.place()
	u.Counters = at.size
	u.Program = append(o.head(), part...)
	for i := range m.layout.at {
		if f := &m.layout.at[i]; f.unit == number {
			f.first, f.whole = at.first[f.first], at.whole[f.first]
		}
	}
	if len(u.Program) > mostProgram || u.Counters > wire.MostCounters {
		return fmt.Errorf("%s: a function of %d bytes and %d counters, which is too large", m.name, len(u.Program), u.Counters)
	}
	m.units, m.layout.sizes = append(m.units, u), append(m.layout.sizes, u.Counters)
	m.records, m.counted, m.vector, m.bytes = nil, nil, 0, 0
	return nil
}

// Vectors returns the counters of a profile as those of the units; parents is what forked processes had of the counts of their
// parents, nil: nothing. Numbers wrap as those of the profile do.
func (l *ProfileLayout) Vectors(p, parents *llvm.Profile) ([][]uint64, error) {
	all := make([][]uint64, len(l.sizes))
	for i, n := range l.sizes {
		all[i] = make([]uint64, n)
	}
	if len(p.Counted) != len(l.at) || parents != nil && len(parents.Counted) != len(l.at) || p.Flags != l.flags {
		return nil, errOther
	}
	for i := range l.at {
		at, c := &l.at[i], &p.Counted[i]
		if at.unit < 0 {
			continue
		}
		if c.NameHash != at.nameHash || c.Hash != at.hash || len(c.Counts) != at.counters || len(c.Bitmap) != at.bitmap {
			return nil, errOther
		}
		to := all[at.unit]
		for k, n := range c.Counts {
			to[at.first+k] += n
		}
		for k := range 8 * at.bitmap {
			to[at.first+at.counters+k] += uint64(c.Bitmap[k/8]) >> (k % 8) & 1
		}
		if parents != nil && !l.sets && len(parents.Counted[i].Counts) == at.counters {
			for k, n := range parents.Counted[i].Counts {
				to[at.whole+k] += n
			}
		}
	}
	return all, nil
}

// A mapped is a unit of the kind Mapping.
type mapped struct {
	binary     *llvm.Binary
	counted    []countedFunction
	sets       bool
	oldBitmaps bool
	unknowns   int
}

// head is what comes before the mapping.
func (o *mapped) head() []byte {
	flags := byte(0)
	if o.sets {
		flags |= flagSets
	}
	if o.oldBitmaps {
		flags |= flagOldBitmaps
	}
	b := binary.AppendUvarint([]byte{version, flags}, uint64(o.unknowns))
	b = binary.AppendUvarint(b, uint64(len(o.counted)))
	for i := range o.counted {
		f := &o.counted[i]
		b = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, f.nameHash), f.hash)
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(f.counters)), uint64(f.bitmap))
	}
	return b
}

// places say where in the vector of a unit counters begin.
type places struct {
	first, whole []int // of each function; whole without sets
	unknown      int   // with sets
	size         int
}

// place finds them.
func (o *mapped) place() places {
	p := places{first: make([]int, len(o.counted)), whole: make([]int, len(o.counted))}
	for i := range o.counted {
		p.first[i] = p.size
		p.size += o.counted[i].size()
	}
	p.unknown = p.size
	if o.sets {
		p.size += o.unknowns
		return p
	}
	for i := range o.counted {
		p.whole[i] = p.size
		p.size += o.counted[i].counters
	}
	return p
}

// programOf begins to read the program of a unit of profiles, of which what is made takes memory.
func programOf(u *store.Unit) (*cursor, error) {
	if len(u.Program) > mostProgram {
		return nil, fmt.Errorf("%d bytes, where at most %d are read", len(u.Program), mostProgram)
	}
	return cursorOf(u.Program), nil
}

// mappedOf reads a unit.
func mappedOf(u *store.Unit) (*mapped, error) {
	c, err := programOf(u)
	if err != nil {
		return nil, err
	}
	flags := c.byte()
	if c.err == nil && flags&^(flagSets|flagOldBitmaps) != 0 {
		c.fail("flags %#x are not known", flags)
	}
	o := &mapped{sets: flags&flagSets != 0, oldBitmaps: flags&flagOldBitmaps != 0, unknowns: c.small(wire.MostCounters)}
	left := wire.MostCounters
	for n := c.number(); n > 0 && c.err == nil; n-- {
		f := countedFunction{nameHash: c.word(), hash: c.word(), counters: c.small(left), bitmap: c.small(left / 8)}
		if left -= 2*f.counters + 8*f.bitmap; left < 0 {
			c.fail("there are more than %d counters", wire.MostCounters)
		}
		o.counted = append(o.counted, f)
	}
	if size := o.place().size; c.err == nil && size != u.Counters {
		c.fail("it says that it has %d counters, where its functions have %d", u.Counters, size)
	}
	if c.err != nil {
		return nil, c.err
	}
	if o.binary, err = llvm.ReadPart(c.b[c.at:]); err != nil {
		return nil, err
	}
	return o, o.binary.Check()
}

// A mappedSum is a unit of the kind Mapping as it is collected.
type mappedSum struct{ image llvm.Image }

// sum is what of the unit ran, by counters: of functions of which it is not known, there is nothing.
func (o *mapped) sum(hits []uint64) (*mappedSum, error) {
	b := o.binary
	if o.unknowns > 0 && hits != nil {
		b = o.known(hits)
	}
	p := &llvm.Profile{Format: llvm.Raw, OldBitmaps: o.oldBitmaps}
	if o.sets {
		p.Flags = llvm.FlagSingleBytes
	}
	at := o.place()
	for i := range o.counted {
		f := &o.counted[i]
		c := llvm.Counted{NameHash: f.nameHash, Hash: f.hash, Counts: make([]uint64, f.counters), Bitmap: make([]byte, f.bitmap)}
		if hits != nil {
			o.fill(&c, hits[at.first[i]:])
		}
		if hits != nil && !o.sets {
			inherit(&c, hits[at.whole[i]:at.whole[i]+f.counters])
		}
		p.Counted = append(p.Counted, c)
	}
	sum := llvm.NewSum()
	if _, err := sum.Add(p); err != nil {
		return nil, err
	}
	return &mappedSum{llvm.Image{Binary: b, Counts: sum}}, nil
}

func (o *mapped) fill(c *llvm.Counted, hits []uint64) {
	for k := range c.Counts {
		if c.Counts[k] = hits[k]; o.sets {
			c.Counts[k] = min(hits[k], 1)
		}
	}
	for k := range 8 * len(c.Bitmap) {
		if hits[len(c.Counts)+k] > 0 {
			c.Bitmap[k/8] |= 1 << (k % 8)
		}
	}
}

// inherit notes what forked processes had from their parents.
func inherit(c *llvm.Counted, parents []uint64) {
	if counted(parents) {
		c.Whole = slices.Clone(c.Counts)
		store.Add(c.Whole, parents)
	}
}

// known is the binary without the functions of which it is not known whether they ran.
func (o *mapped) known(hits []uint64) *llvm.Binary {
	unknown := make(map[*llvm.Record]bool)
	for _, fn := range o.functions() {
		if fn.Unknown >= 0 && hits[fn.Unknown] > 0 && !slices.ContainsFunc(fn.Counters, func(c int32) bool { return hits[c] > 0 }) {
			for _, r := range fn.records {
				unknown[r] = true
			}
		}
	}
	return o.binary.With(func(r *llvm.Record) bool { return !unknown[r] })
}

// A placedFunction is one of a report with what it is made of.
type placedFunction struct {
	CountedFunction
	records []*llvm.Record
}

// functions are those of the unit, in the order in which Unknown counts them.
func (o *mapped) functions() (list []placedFunction) {
	type place struct {
		file         string
		line, column int32
		symbol       string
	}
	image := llvm.Image{Binary: o.binary}
	from := make(map[place][]*llvm.Record)
	for _, p := range llvm.Place(image, llvm.KeptOfPart) {
		key := place{p.File, p.Line, p.Column, p.Symbol}
		from[key] = append(from[key], p.Record)
	}
	at := o.place()
	byKey := make(map[[2]uint64]int)
	for i := range o.counted {
		byKey[[2]uint64{o.counted[i].nameHash, o.counted[i].hash}] = i
	}
	set, _ := llvm.Collect([]llvm.Image{image}, llvm.CollectOptions{Source: llvm.KeptOfPart})
	for _, file := range set.All() {
		for i, fn := range file.Functions {
			one := placedFunction{CountedFunction: CountedFunction{Function: fn, File: file.Name, Lines: len(file.LinesOf(i)), Unknown: -1}}
			for _, in := range fn.Instances {
				one.records = append(one.records, from[place{file.Name, fn.StartLine, fn.StartColumn, in.Name}]...)
			}
			for _, r := range one.records {
				if k, known := byKey[[2]uint64{r.NameHash, r.Hash}]; known {
					for c := range o.counted[k].counters {
						one.Counters = append(one.Counters, int32(at.first[k]+c))
					}
				}
			}
			if len(list) < o.unknowns {
				one.Unknown = int32(at.unknown + len(list))
			}
			list = append(list, one)
		}
	}
	return list
}

// functionsOfMapping are those of a unit of the kind Mapping.
func functionsOfMapping(u *store.Unit) (list []CountedFunction, err error) {
	o, err := mappedOf(u)
	if err != nil {
		return nil, err
	}
	for _, fn := range o.functions() {
		list = append(list, fn.CountedFunction)
	}
	return list, nil
}

// ofMappings returns what units have run, all together as a report of their profiles has it.
func ofMappings(list []*mappedSum) *coverage.Set {
	images := make([]llvm.Image, len(list))
	for i := range list {
		images[i] = list[i].image
	}
	set, _ := llvm.Collect(images, llvm.CollectOptions{Source: llvm.KeptOfPart})
	return set
}

// sumOfMapping reads a unit and its counters; without hits it has not run.
func sumOfMapping(u *store.Unit, hits []uint64) (*mappedSum, error) {
	o, err := mappedOf(u)
	if err != nil {
		return nil, err
	}
	if hits != nil && len(hits) != u.Counters {
		return nil, fmt.Errorf("%d counters, where it has %d", len(hits), u.Counters)
	}
	return o.sum(hits)
}

// word reads 8 bytes.
func (c *cursor) word() uint64 {
	if len(c.b)-c.at < 8 {
		c.fail("it ends too early")
		return 0
	}
	c.at += 8
	return binary.LittleEndian.Uint64(c.b[c.at-8:])
}

// small reads a number up to most.
func (c *cursor) small(most int) int {
	n := c.number()
	if n > uint64(max(most, 0)) {
		c.fail("%d, where at most %d was expected", n, most)
		return 0
	}
	return int(n)
}
