package gcov

import (
	"encoding/binary"
	"hash/maphash"
	"sync"
)

// This file finds the functions that recur: it walks over the records of a
// function without decoding them, and keeps one copy of equal bytes with the
// sum of their counters.

// A skimmer walks over notes, function by function.
type skimmer struct {
	r       *reader // at the next function
	version Version
	names   *sourceCache

	raw  []byte // the records of the current function
	base int64  // their offset in the file

	ident, lineChecksum, cfgChecksum uint32
	artificial                       bool
	keep                             bool // some source of it is kept
	relative                         bool // some source of it depends on the directory
}

// next goes on to the next function; ok is false at the end.
func (s *skimmer) next() (ok bool) {
	start := s.r.pos
	s.keep, s.relative, s.artificial = false, false, false
	for first := true; ; first = false {
		mark := s.r.pos
		tag, _, data, more := s.r.next()
		if !more {
			s.r.pos = mark
			break
		}
		if tag == tagFunction {
			if !first {
				s.r.pos = mark
				break
			}
			s.head(&data)
		} else if tag == tagLines && !(s.keep && s.relative) {
			s.lines(&data)
		}
	}
	s.raw, s.base = s.r.b[start:s.r.pos], s.r.base+int64(start)
	return len(s.raw) > 0
}

func (s *skimmer) head(r *reader) {
	s.ident = r.word()
	s.lineChecksum = r.word()
	s.cfgChecksum = 0
	if s.version.hasCfgChecksum() {
		s.cfgChecksum = r.word()
	}
	r.text()
	if s.version.hasColumns() {
		s.artificial = r.word() != 0
	}
	s.source(r.text())
}

func (s *skimmer) source(name []byte) {
	id, relative := s.names.id(name)
	s.keep = s.keep || id != dropped
	s.relative = s.relative || relative
}

// lines looks at the sources that a record of lines names.
func (s *skimmer) lines(r *reader) {
	r.word()
	for r.err == nil {
		if r.word() != 0 {
			continue
		}
		name := r.text()
		if len(name) == 0 {
			break
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

// A span is n counters at an offset; at 0 they are all zero.
type span struct{ at, n int32 }

// counter is number i of the span in the bytes of a data file.
func (s span) counter(data []byte, i int, big bool) int64 {
	if s.at == 0 {
		return 0
	}
	p := data[int(s.at)+8*i:][:8]
	if big {
		return int64(binary.BigEndian.Uint32(p)) | int64(binary.BigEndian.Uint32(p[4:]))<<32
	}
	return int64(binary.LittleEndian.Uint64(p))
}

// indexCounts appends the functions of a data file to list.
func indexCounts(r *reader, v Version, list []dataFunction) []dataFunction {
	open := false
	for {
		tag, length, data, ok := r.next()
		if !ok {
			return list
		}
		kind := counterKind(tag)
		switch {
		case tag == tagFunction:
			if open = len(data.b) > 0; open {
				d := dataFunction{ident: data.word(), lineChecksum: data.word(), big: r.big}
				if v.hasCfgChecksum() {
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
	index  map[uint32]int32 // by ident, made when the order of the list does not help
}

// reset makes room for the next file.
func (d *dataFunctions) reset() {
	d.list, d.cursor = d.list[:0], 0
	clear(d.index)
}

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
		if d.index == nil {
			d.index = make(map[uint32]int32, len(d.list))
		}
		for i := range d.list {
			d.index[d.list[i].ident] = int32(i)
		}
	}
	i, ok := d.index[ident]
	if !ok {
		return nil
	}
	d.cursor = int(i) + 1
	return &d.list[i]
}

// A pool holds the distinct functions of all objects. It is split in shards by
// hash, so that goroutines rarely meet.
type pool struct {
	seeds  [2]maphash.Seed
	shards [64]shard

	mu    sync.Mutex
	units []unit
	ids   map[unit]int32
}

// A unit is what the meaning of a function's bytes depends on besides them.
type unit struct {
	version Version
	big     bool
	cwd     string
}

// A shard of the pool. The bytes and counters of its functions lie one behind
// the other, so that many functions are few objects for the garbage collector.
type shard struct {
	mu       sync.Mutex
	index    map[[2]uint64]int32
	list     []distinct
	raw      [][]byte // blocks of notes
	counters []int64
}

// A distinct is a function unlike all others.
type distinct struct {
	unit       int32
	object     int32 // the object in which it was first seen
	base       int64 // its offset in that one's notes
	block      int32 // of shard.raw
	at, size   int32 // in the block
	counters   int32 // index in shard.counters of those of arcs, those of conditions follow
	arcs       int32
	conditions int32
	executed   bool // some counter is not zero
}

func newPool() *pool {
	p := &pool{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, ids: make(map[unit]int32)}
	for i := range p.shards {
		p.shards[i].index = make(map[[2]uint64]int32)
	}
	return p
}

// unit numbers what functions have in common.
func (p *pool) unit(u unit) int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	id, ok := p.ids[u]
	if !ok {
		id = int32(len(p.units))
		p.units = append(p.units, u)
		p.ids[u] = id
	}
	return id
}

// key is the same for functions that are the same but for their ident. Two
// hashes make 128 bits: with a million functions two that differ meet in one
// of 10^26 runs.
func (p *pool) key(s *skimmer, unit int32) [2]uint64 {
	const ident = 12 // bytes of tag, length and ident
	same := s.raw[min(ident, len(s.raw)):]
	where := uint64(s.version) << 1
	if s.r.big {
		where |= 1
	}
	if s.relative {
		where ^= uint64(unit+1) << 33
	}
	where *= 0x9e3779b97f4a7c15 // the odd number nearest to 2^64 by the golden ratio
	return [2]uint64{maphash.Bytes(p.seeds[0], same) ^ where, maphash.Bytes(p.seeds[1], same) + where}
}

// add puts the skimmer's function into the pool, or adds its counters to those
// of its like. d is nil for a function that did not run. It reports false when
// the data has another number of counters than the notes.
func (p *pool) add(s *skimmer, object, unit int32, d *dataFunction, data []byte) bool {
	key := p.key(s, unit)
	sh := &p.shards[key[0]%uint64(len(p.shards))]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	i, ok := sh.index[key]
	if !ok {
		i = int32(len(sh.list))
		sh.index[key] = i
		sh.list = append(sh.list, sh.keep(s, object, unit))
	}
	if d == nil {
		return true
	}
	f := &sh.list[i]
	if d.arcs.n != f.arcs {
		return d.arcs.n == 0 // Clang leaves out the counters of functions without any
	}
	c := sh.counters[f.counters:][:f.arcs+f.conditions]
	if d.arcs.at != 0 {
		for k := range c[:f.arcs] {
			n := d.arcs.counter(data, k, d.big)
			c[k] += n
			f.executed = f.executed || n != 0
		}
	}
	if d.conditions.n == f.conditions {
		for k := range c[f.arcs:] {
			c[int(f.arcs)+k] |= d.conditions.counter(data, k, d.big)
		}
	}
	return true
}

// keep copies the function's bytes and makes room for its counters.
func (sh *shard) keep(s *skimmer, object, unit int32) distinct {
	last := len(sh.raw) - 1
	if last < 0 || cap(sh.raw[last])-len(sh.raw[last]) < len(s.raw) {
		sh.raw = append(sh.raw, make([]byte, 0, max(len(s.raw), 1<<15)))
		last++
	}
	at := len(sh.raw[last])
	sh.raw[last] = append(sh.raw[last], s.raw...)
	f := distinct{unit: unit, object: object, base: s.base, block: int32(last), at: int32(at), size: int32(len(s.raw)), counters: int32(len(sh.counters))}
	f.arcs, f.conditions = s.counters()
	sh.counters = append(sh.counters, make([]int64, f.arcs+f.conditions)...)
	return f
}

// counters is how many counters the function has for arcs and conditions.
func (s *skimmer) counters() (arcs, conditions int32) {
	r := *s.r
	r.b, r.pos, r.err = s.raw, 0, nil
	for {
		tag, _, data, ok := r.next()
		if !ok {
			return arcs, conditions
		}
		switch tag {
		case tagArcs:
			for data.word(); len(data.b)-data.pos >= 8; {
				data.word()
				if data.word()&ArcTree == 0 {
					arcs++
				}
			}
		case tagConditions:
			conditions = int32(len(data.b) / 8 * 2)
		}
	}
}
