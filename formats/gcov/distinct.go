package gcov

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
)

// This file finds the functions that recur: it walks over the records of a
// function without decoding them, and keeps one copy of equal bytes with the
// sum of their counters.

// A skimmer walks over notes, function by function. It looks at every record,
// so it reads words by hand.
type skimmer struct {
	r       *reader // at the next function
	version Version
	clang   bool // wrote the notes
	names   *sourceCache

	raw  []byte // the records of the current function
	base int64  // their offset in the file

	ident, lineChecksum, cfgChecksum uint32
	artificial                       bool
	text                             []byte // the name of a source that it named last
	keep                             bool   // some source of it is kept
	relative                         bool   // some source of it depends on the directory
}

// next goes on to the next function; ok is false at the end of the notes, and
// where they cannot be read on, which the reader then says.
func (s *skimmer) next() (ok bool) {
	b, start := s.r.b, s.r.pos
	pos := start
	s.keep, s.relative, s.artificial, s.text = false, false, false, nil
	for len(b)-pos >= 8 {
		tag := s.wordAt(b[pos:])
		n := s.r.size(s.wordAt(b[pos+4:]))
		if tag == 0 || tag == TagFunction && pos > start || n > len(b)-pos-8 {
			break
		}
		data := b[pos+8 : pos+8+n]
		switch {
		case tag == TagFunction:
			s.head(data)
		case tag == TagLines && !(s.keep && s.relative):
			s.lines(data)
		}
		pos += 8 + n
	}
	s.raw, s.base, s.r.pos = b[start:pos], s.r.base+int64(start), pos
	if pos == start {
		s.r.next() // at the end, or says what is wrong here
	}
	return pos > start
}

// wordAt is the word that b starts with.
func (s *skimmer) wordAt(b []byte) uint32 {
	w := binary.LittleEndian.Uint32(b)
	if s.r.big {
		return bits.ReverseBytes32(w)
	}
	return w
}

func (s *skimmer) head(data []byte) {
	r := *s.r
	r.b, r.pos, r.err = data, 0, nil
	s.ident = r.word()
	s.lineChecksum = r.word()
	s.cfgChecksum = 0
	if s.version.HasCfgChecksum() {
		s.cfgChecksum = r.word()
	}
	r.text()
	if s.version.HasColumns() {
		s.artificial = r.word() != 0
	}
	s.source(r.source())
}

func (s *skimmer) source(name []byte) {
	id, relative := s.names.id(name)
	s.keep = s.keep || id != dropped
	s.relative = s.relative || relative
}

// lines looks at the sources that a record of lines names.
func (s *skimmer) lines(b []byte) {
	for pos := 4; len(b)-pos >= 8; {
		if binary.LittleEndian.Uint32(b[pos:]) != 0 { // in either order
			pos += 4
			continue
		}
		n := s.r.size(s.wordAt(b[pos+4:]))
		pos += 8
		if n == 0 || n > len(b)-pos {
			return
		}
		text := b[pos : pos+n]
		pos += n
		if bytes.Equal(text, s.text) { // mostly
			continue
		}
		s.text = text
		name := bytes.TrimRight(text, "\x00")
		if len(name) == 0 {
			name = []byte(EmptyName)
		}
		s.source(name)
	}
}

// A dataFunction says where in a data file the counters of a function are.
type dataFunction struct {
	ident, lineChecksum, cfgChecksum uint32
	big                              bool
	arcs, conditions                 span
}

// A span is n of something from a place on: counters at an offset, where at 0 they are all zero.
type span struct{ at, n int32 }

// counter is number i of the span in the bytes of a data file.
func (s span) counter(data []byte, i int, big bool) int64 {
	if s.at == 0 {
		return 0
	}
	return readCounter(data[int(s.at)+8*i:][:8], big)
}

func readCounter(p []byte, big bool) int64 {
	if big {
		return int64(binary.BigEndian.Uint32(p)) | int64(binary.BigEndian.Uint32(p[4:]))<<32
	}
	return int64(binary.LittleEndian.Uint64(p))
}

// indexCounts appends the functions of a data file to list.
func indexCounts(r *reader, v Version, list []dataFunction) []dataFunction {
	const few = 64 // bytes of most functions; a list that grows leaves as much memory behind as it has
	list = slices.Grow(list, (len(r.b)-r.pos)/few)
	open := false
	for {
		tag, length, data, ok := r.next()
		if !ok {
			return list
		}
		kind := CounterKind(tag)
		switch {
		case tag == TagFunction:
			if open = len(data.b) > 0; open {
				d := dataFunction{ident: data.word(), lineChecksum: data.word(), big: r.big}
				if v.HasCfgChecksum() {
					d.cfgChecksum = data.word()
				}
				list = append(list, d)
			}
		case open && (kind == KindArcs || kind == KindConditions):
			s := span{int32(data.base), int32(len(data.b) / 8)}
			if n := int32(length); n < 0 {
				s = span{0, int32(r.size(uint32(-int64(n))) / 8)}
			}
			if d := &list[len(list)-1]; kind == KindArcs {
				d.arcs = s
			} else {
				d.conditions = s
			}
		}
	}
}

// dataFunctions are the counts of one data file.
type dataFunctions struct {
	list   []dataFunction
	cursor int
	index  []int32 // by ident, numbers in the list from 1; made when the order of the list does not help
	salt   uint32  // of the index, odd
}

// reset makes room for the next file.
func (d *dataFunctions) reset() { d.list, d.cursor, d.index = d.list[:0], 0, d.index[:0] }

// find returns the counts of a function, nil when there are none. Notes and
// data list functions in the same order, save for those that the linker
// dropped.
func (d *dataFunctions) find(ident uint32) *dataFunction {
	if d.cursor < len(d.list) && d.list[d.cursor].ident == ident {
		d.cursor++
		return &d.list[d.cursor-1]
	}
	if len(d.list) == 0 {
		return nil
	}
	if len(d.index) == 0 {
		d.makeIndex()
	}
	i := d.index[d.slot(ident)]
	if i == 0 {
		return nil
	}
	d.cursor = int(i)
	return &d.list[i-1]
}

// makeIndex makes a hash table of which at most half is in use. What is in the list is up to
// others, so nobody can know beforehand which numbers meet.
func (d *dataFunctions) makeIndex() {
	d.salt = rand.Uint32() | 1
	d.index = Resize(d.index, 2<<bits.Len(uint(len(d.list)-1)))
	for i := range d.list {
		d.index[d.slot(d.list[i].ident)] = int32(i + 1)
	}
}

// slot is where the index has a function, or could have it.
func (d *dataFunctions) slot(ident uint32) uint32 {
	mask := uint32(len(d.index) - 1)
	for k := uint32(uint64(ident*d.salt) * uint64(len(d.index)) >> 32); ; k = (k + 1) & mask {
		if i := d.index[k]; i == 0 || d.list[i-1].ident == ident {
			return k
		}
	}
}

// A pool holds the distinct functions of all objects. It is split in shards by
// hash, so that goroutines rarely meet.
type pool struct {
	seed   maphash.Seed
	shards [shardCount]shard

	mu     sync.Mutex
	packed [][]byte // blocks of packed functions, each of one goroutine
}

// block makes room for packed functions.
func (p *pool) block(size int) (number int32, room []byte) {
	room = make([]byte, size)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.packed = append(p.packed, room)
	return int32(len(p.packed) - 1), room
}

const shardCount = 64

// A shard of the pool. The functions lie packed one behind the other, those of a unit
// together, and so do their counters: many functions are few objects for the garbage collector.
type shard struct {
	mu       sync.Mutex
	index    map[[2]uint64]int32
	list     [][]distinct // blocks of listBlock
	n        int          // how many there are
	counters [][]int64    // blocks of counterBlock, or of as many as a function has beyond
	taken    int          // of the last block
	runs     []run
	free     []int32 // runs that are not in use
}

// What there is of a shard stays where it is when more comes, in blocks: a list that
// grows leaves as much memory behind as it has.
const (
	listBlock    = 32
	counterBlock = 256
)

// at is function number i.
func (sh *shard) at(i int) *distinct { return &sh.list[uint(i)/listBlock][uint(i)%listBlock] }

// add adds a function, and returns its number.
func (sh *shard) add(d distinct) int32 {
	if sh.n%listBlock == 0 {
		sh.list = append(sh.list, make([]distinct, listBlock))
	}
	*sh.at(sh.n) = d
	sh.n++
	return int32(sh.n - 1)
}

// room makes room for n counters, and returns where countersOf finds them.
func (sh *shard) room(n int) uint32 {
	if last := len(sh.counters) - 1; last < 0 || len(sh.counters[last])-sh.taken < n {
		sh.counters, sh.taken = append(sh.counters, make([]int64, max(n, counterBlock))), 0
	}
	at := uint32((len(sh.counters)-1)*counterBlock + sh.taken)
	sh.taken += n
	return at
}

// countersOf are the sums of the counters of a function: of its arcs, then of its conditions.
func (sh *shard) countersOf(d *distinct) []int64 {
	n := int(d.arcs + d.conditions)
	if n == 0 {
		return nil
	}
	return sh.counters[d.counters/counterBlock][d.counters%counterBlock:][:n]
}

// A run says where counters of a function are that are not all zero.
type run struct {
	origin
	at   int32 // their offset in the data file, the number of the function in a Reading
	big  bool
	next int32 // index in shard.runs of another one, -1 at the end
}

// An origin is a data file or a reading of an object.
type origin struct {
	unit int32 // number of the object
	data int32 // index in its Data, then in its Readings
}

// A distinct is a function unlike all others.
type distinct struct {
	file       int32  // number of its source, or dropped
	home       int32  // that of the first one that it names, and is not dropped
	sum        uint32 // checksum of its bytes, the same in every run
	shape      uint32 // hash of all of the packed function but its name, another one in every run
	block      int32  // of pool.packed
	at, size   int32  // in the block
	counters   uint32 // where they are, see shard.room
	arcs       int32
	conditions int32
	runs       int32  // index in shard.runs, -1 when no counter is other than zero
	line       uint32 // where it begins
	// What it names of its source, when it has been added up; last 0: nothing else is
	// known, or it names other sources, too.
	first, last uint32
}

func (d *distinct) executed() bool { return d.runs >= 0 }

// A distinctID is the number of a distinct function in its shard, and the shard.
type distinctID int32

func makeDistinctID(shard, number int32) distinctID {
	return distinctID(number*shardCount + shard)
}

func (id distinctID) shard() int  { return int(id) % shardCount }
func (id distinctID) number() int { return int(id) / shardCount }

func (p *pool) at(id distinctID) *distinct { return p.shards[id.shard()].at(id.number()) }

// bytes are those of the packed function.
func (p *pool) bytes(id distinctID) []byte {
	d := p.at(id)
	return p.packed[d.block][d.at : d.at+d.size]
}

// counts are the sums of the counters of the function's arcs.
func (p *pool) counts(id distinctID) []int64 {
	d := p.at(id)
	return p.shards[id.shard()].countersOf(d)[:d.arcs]
}

func newPool() *pool {
	p := &pool{seed: maphash.MakeSeed()}
	for i := range p.shards {
		p.shards[i].index = make(map[[2]uint64]int32)
	}
	return p
}

// identEnd is the end of what may differ in functions that are the same: tag,
// length and ident.
const identEnd = 12

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// key is the same for functions that are the same but for their ident: a hash of all of it, and
// what the compiler has as checksums. With a million functions of the same checksums two that
// differ meet in one of 10^7 runs, and there are never so many.
func (p *pool) key(s *skimmer) [2]uint64 {
	where := uint64(s.version) << 1
	if s.r.big {
		where |= 1
	}
	if s.relative {
		where ^= uint64(s.names.dir+1) << 33
	}
	where *= 0x9e3779b97f4a7c15 // the odd number nearest to 2^64 by the golden ratio
	return [2]uint64{
		maphash.Bytes(p.seed, s.raw[min(identEnd, len(s.raw)):]) ^ where,
		uint64(s.lineChecksum)<<32 | uint64(s.cfgChecksum) + where + uint64(len(s.raw)),
	}
}

// add puts the skimmer's function into the pool, or adds its counters to those
// of its like. counts is nil for a function that did not run. matches is false
// when the data has another number of counters than the notes.
func (p *pool) add(s *skimmer, pk *packer, from origin, counts *dataFunction, data []byte) (id distinctID, matches bool, err *FormatError) {
	key := p.key(s)
	at := key[0] % shardCount
	sh := &p.shards[at]
	sh.mu.Lock()
	i, ok := sh.index[key]
	if !ok {
		sh.mu.Unlock() // others need not wait while it is packed
		f, err := p.pack(s, pk)
		if err != nil {
			return -1, true, err
		}
		sh.mu.Lock()
		if i, ok = sh.index[key]; !ok { // still
			i = sh.keep(key, f)
		}
	}
	defer sh.mu.Unlock()
	id = makeDistinctID(int32(at), i)
	if counts == nil {
		return id, true, nil
	}
	f := sh.at(int(i))
	if counts.arcs.n != f.arcs {
		return id, counts.arcs.n == 0, nil // Clang leaves out the counters of a function that has none
	}
	c := sh.countersOf(f)
	ran := false
	if counts.arcs.at != 0 {
		for k := range c[:f.arcs] {
			n := counts.arcs.counter(data, k, counts.big)
			c[k] += n
			ran = ran || n != 0
		}
	}
	if ran {
		f.runs = sh.run(run{from, counts.arcs.at, counts.big, f.runs})
	}
	if counts.conditions.n == f.conditions {
		for k := range c[f.arcs:] {
			c[int(f.arcs)+k] |= counts.conditions.counter(data, k, counts.big)
		}
	}
	return id, true, nil
}

// pack packs the function.
func (p *pool) pack(s *skimmer, pk *packer) (distinct, *FormatError) {
	b, err := pk.pack(s)
	if err != nil {
		return distinct{}, err
	}
	if len(pk.room)-pk.taken < len(b) {
		pk.block, pk.room = p.block(max(len(b), 1<<16))
		pk.taken = 0
	}
	at := pk.taken
	pk.taken += copy(pk.room[at:], b)
	_, shape := cutName(b)
	return distinct{
		file: pk.file, home: pk.home, sum: crc32.Checksum(s.raw[min(identEnd, len(s.raw)):], castagnoli),
		shape: uint32(maphash.Bytes(p.seed, shape)), block: pk.block, at: int32(at), size: int32(len(b)),
		arcs: int32(pk.counters), conditions: int32(2 * pk.decisionCount), runs: -1, line: pk.startLine,
	}, nil
}

// keep takes a function into the shard, with room for its counters, and returns its number.
func (sh *shard) keep(key [2]uint64, f distinct) int32 {
	f.counters = sh.room(int(f.arcs + f.conditions))
	i := sh.add(f)
	sh.index[key] = i
	return i
}
