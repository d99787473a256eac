package gcov

import (
	"slices"

	"footfall/coverage"
)

// A Program is the notes of objects, read once, from which counters of any time make
// coverage. It is for one goroutine at a time.
type Program struct {
	c     *collector
	index map[programKey]int32 // in c.objs
	// What was wrong with notes, which is told each time.
	problems []Problem
}

// A programKey tells notes from those of another build at the same place.
type programKey struct {
	notes string
	stamp uint32
}

// unitNotes is what is kept of the notes of an object.
type unitNotes struct {
	head      *Notes // without functions
	named     bool   // it has functions
	functions []unitFunction
}

// A unitFunction is a function of an object: what data call it, and which of the
// distinct ones it is.
type unitFunction struct {
	ident, lineChecksum, cfgChecksum uint32
	id                               distinctID
}

// NewProgram returns one without notes: those of an object are read when its first
// counters come.
func NewProgram(opt CollectOptions) *Program {
	return &Program{c: newCollector(opt), index: make(map[programKey]int32)}
}

// Collect is [Collect] for objects that have readings and no data files.
func (p *Program) Collect(objs []Object) (*coverage.Set, []Problem, Stats) {
	c := p.c
	used := p.add(objs)
	c.pool.forgetCounts()
	c.problems, c.stats = slices.Clone(p.problems), Stats{}
	workers := workersFor(len(used))
	ran := make([]bool, len(used))
	parallel(len(used), func(i int) {
		unit := used[i]
		if of := c.kept[unit]; of != nil {
			ran[i] = c.readings(unit, of.head, of.functions)
		}
	})
	var wanted []bool // by distinctID; nil: all
	if len(used) < len(c.objs) {
		wanted = c.functionsOf(used)
	}
	for i, unit := range used {
		if of := c.kept[unit]; of != nil {
			c.stats.Objects++
			c.stats.Functions += len(of.functions)
			if !ran[i] && of.named {
				c.stats.NeverRun++
			}
		}
	}
	set := c.tally(workers, c.pool.bySource(c.sources.list, wanted))
	return set, c.problems, c.stats
}

// add reads the notes that are not known, and returns the numbers of all of objs.
func (p *Program) add(objs []Object) (used []int32) {
	c, known := p.c, len(p.c.objs)
	for _, obj := range objs {
		key := programKey{notes: obj.Notes}
		if len(obj.Readings) > 0 {
			key.stamp = obj.Readings[0].Counts.Stamp
		}
		unit, ok := p.index[key]
		if !ok {
			unit = int32(len(c.objs))
			p.index[key] = unit
			c.objs = append(c.objs, obj)
		}
		c.objs[unit].Readings = obj.Readings
		used = append(used, unit)
	}
	if len(c.objs) > known {
		c.units = append(c.units, make([][]distinctID, len(c.objs)-known)...)
		c.kept = append(c.kept, make([]*unitNotes, len(c.objs)-known)...)
		c.problems = nil
		c.read(known, workersFor(len(c.objs)-known))
		p.problems = append(p.problems, c.problems...)
		if c.opt.Built != nil {
			c.tellBuilt()
		}
	}
	return used
}

// functionsOf tells which of the distinct functions objects have.
func (c *collector) functionsOf(units []int32) []bool {
	var wanted []bool
	for _, unit := range units {
		for _, id := range c.units[unit] {
			if n := int(id) + 1; n > len(wanted) {
				wanted = slices.Grow(wanted, n-len(wanted))[:n]
			}
			wanted[id] = true
		}
	}
	return wanted
}

// readings adds the counters of an object's readings, whose notes have the functions.
// It reports whether any belongs to them.
func (c *collector) readings(unit int32, head *Notes, functions []unitFunction) (ran bool) {
	obj := &c.objs[unit]
	for i, r := range obj.Readings {
		if c.belong(r.Name, r.Counts, head) {
			ran = true
			c.mismatched(obj.Notes, c.take(functions, r.Counts, origin{unit, int32(len(obj.Data) + i)}))
		}
	}
	return ran
}

// take adds counters to those of the functions. It returns how many functions have others.
func (c *collector) take(functions []unitFunction, counts *Counts, from origin) (mismatched int) {
	at := countsFinder{list: counts.Functions}
	for i := range functions {
		f := &functions[i]
		k := at.find(f.ident)
		if k < 0 {
			continue
		}
		data := &counts.Functions[k]
		if data.LineChecksum != f.lineChecksum || data.CfgChecksum != f.cfgChecksum || !c.pool.take(f.id, data, from, int32(k)) {
			mismatched++
		}
	}
	return mismatched
}

// A countsFinder finds functions in counts, which mostly have the order of the notes.
type countsFinder struct {
	list   []FunctionCounts
	cursor int
	index  map[uint32]int // by ident, made when the order does not help
}

// find returns the number of the function, -1 if there is none.
func (f *countsFinder) find(ident uint32) int {
	k := f.cursor
	if k >= len(f.list) || f.list[k].Ident != ident || f.list[k].Placeholder {
		if f.index == nil {
			f.index = make(map[uint32]int, len(f.list))
			for i := range f.list {
				if !f.list[i].Placeholder {
					f.index[f.list[i].Ident] = i
				}
			}
		}
		var ok bool
		if k, ok = f.index[ident]; !ok {
			return -1
		}
	}
	f.cursor = k + 1
	return k
}

// take adds the counters of function number of a reading. It returns false if there are
// not as many as the notes have arcs.
func (p *pool) take(id distinctID, data *FunctionCounts, from origin, number int32) (matches bool) {
	sh := &p.shards[id.shard()]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	f := &sh.list[id.number()]
	var arcs, conditions Counters
	if k := data.Of(KindArcs); k != nil {
		arcs = *k
	}
	if k := data.Of(KindConditions); k != nil {
		conditions = *k
	}
	if arcs.Len() != int(f.arcs) {
		return arcs.Len() == 0 // Clang leaves out the counters of a function that has none
	}
	c := sh.counters[f.counters:][:f.arcs+f.conditions]
	ran := false
	for k, n := range arcs.Values {
		c[k] += n
		ran = ran || n != 0
	}
	if ran {
		sh.runs = append(sh.runs, run{from, number, false, f.runs})
		f.runs = int32(len(sh.runs) - 1)
	}
	if conditions.Len() == int(f.conditions) {
		for k, n := range conditions.Values {
			c[int(f.arcs)+k] |= n
		}
	}
	return true
}

// forgetCounts has all functions have run never.
func (p *pool) forgetCounts() {
	for i := range p.shards {
		sh := &p.shards[i]
		clear(sh.counters)
		sh.runs = sh.runs[:0]
		for k := range sh.list {
			sh.list[k].runs = -1
		}
	}
}
