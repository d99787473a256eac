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
	problems []InputProblem
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

	// Of the last look.
	readings []Reading
	numbers  [][]int32 // which of a reading's functions are those of the notes, -1: none; nil: it is of other notes
	problems []InputProblem
}

// ran tells whether there are counts of the object.
func (of *unitNotes) ran() bool {
	return slices.ContainsFunc(of.numbers, func(n []int32) bool { return n != nil })
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

// Collect is [Collect] for objects that have readings and no data files. Of what is as it
// was the last time the files in the set are the same, see [coverage.Set.Keeps].
func (p *Program) Collect(objs []Object) (*coverage.Set, []InputProblem, Stats) {
	c := p.c
	used, known := p.add(objs)
	if c.looks == nil || !known || !slices.Equal(used, c.looks.used) {
		p.anew(used)
	} else if changed := p.changed(used); len(changed) > 0 {
		for _, id := range changed {
			c.recount(id)
		}
		if !c.again(changed) {
			p.tally()
		}
	}
	return c.looks.set, p.problemsOf(used), p.stats(used)
}

// anew takes the counters of the objects, whatever there was before.
func (p *Program) anew(used []int32) {
	c := p.c
	c.pool.forgetCounts()
	c.looks = newLooks(used)
	coverage.Parallel(len(used), func(i int) {
		of := c.kept[used[i]]
		if of == nil {
			return
		}
		c.match(used[i])
		for k := range of.functions {
			c.takeOne(used[i], int32(k))
		}
	})
	p.tally()
}

// tally solves and adds up all functions.
func (p *Program) tally() {
	c := p.c
	used := c.looks.used
	var wanted []bool // by distinctID; nil: all
	if len(used) < len(c.objs) {
		wanted = c.functionsOf(used)
	}
	users := c.looks.users
	c.looks = newLooks(used)
	c.looks.users = users
	c.stats = Stats{}
	workers := workersFor(len(used))
	c.looks.set = c.tally(workers, c.batches(wanted, workers))
	c.looks.distinct = c.stats.Distinct
}

// changed returns the functions whose counters are other ones than at the last look.
func (p *Program) changed(used []int32) []distinctID {
	var list []distinctID
	for _, unit := range used {
		if of := p.c.kept[unit]; of != nil {
			list = p.c.compare(list, unit)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// problemsOf are those of all notes so far, and of the readings of objects.
func (p *Program) problemsOf(used []int32) []InputProblem {
	list := slices.Clone(p.problems)
	for _, unit := range used {
		if of := p.c.kept[unit]; of != nil {
			list = append(list, of.problems...)
		}
	}
	return list
}

func (p *Program) stats(used []int32) Stats {
	s := Stats{Distinct: p.c.looks.distinct, Inconsistent: len(p.c.looks.torn)}
	for _, unit := range used {
		if of := p.c.kept[unit]; of != nil {
			s.Objects++
			s.Functions += len(of.functions)
			if of.named && !of.ran() {
				s.NeverRun++
			}
		}
	}
	return s
}

// add reads the notes that are not known, and returns the numbers of all of objs. all tells
// that none had to be read.
func (p *Program) add(objs []Object) (used []int32, all bool) {
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
	return used, len(c.objs) == known
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

// match finds out which functions of an object's readings are those of its notes.
func (c *collector) match(unit int32) {
	of, obj := c.kept[unit], &c.objs[unit]
	of.readings, of.numbers, of.problems = obj.Readings, make([][]int32, len(obj.Readings)), nil
	for i, r := range obj.Readings {
		if p := foreign(r.Name, r.Counts, of.head); p != nil {
			of.problems = append(of.problems, *p)
			continue
		}
		others := 0
		of.numbers[i], others = c.numbers(of.functions, r.Counts)
		if others > 0 {
			of.problems = append(of.problems, InputProblem{Rebuilt, obj.Notes, -1, otherFunctions(others)})
		}
	}
}

// numbers returns which of the counts are those of functions, -1 for none, and how many
// functions have others.
func (c *collector) numbers(functions []unitFunction, counts *Counts) (numbers []int32, others int) {
	at := countsFinder{list: counts.Functions}
	numbers = make([]int32, len(functions))
	for i := range functions {
		f := &functions[i]
		k := at.find(f.ident)
		if k >= 0 && !c.fit(f, &counts.Functions[k]) {
			others++
			k = -1
		}
		numbers[i] = int32(k)
	}
	return numbers, others
}

// fit tells whether counts are of the function: of as many arcs, unless they are none.
func (c *collector) fit(f *unitFunction, counts *FunctionCounts) bool {
	arcs := 0
	if k := counts.Of(KindArcs); k != nil {
		arcs = k.Len()
	}
	return counts.LineChecksum == f.lineChecksum && counts.CfgChecksum == f.cfgChecksum &&
		(arcs == 0 || arcs == int(c.pool.at(f.id).arcs)) // Clang leaves out the counters of a function that has none
}

// compare appends the functions of an object whose counters are others than at the last
// look, with those of now from then on.
func (c *collector) compare(list []distinctID, unit int32) []distinctID {
	of, readings := c.kept[unit], c.objs[unit].Readings
	if slices.EqualFunc(of.readings, readings, sameReading) {
		of.readings = readings
		return list
	}
	before, was := of.readings, of.numbers
	c.match(unit)
	for i := range of.functions {
		if len(before) != len(readings) || c.differ(i, before, was, of) {
			list = append(list, of.functions[i].id)
		}
	}
	return list
}

// sameReading tells whether two readings are known to have the same counts of functions.
func sameReading(a, b Reading) bool {
	x, y := a.Counts, b.Counts
	return a.Name == b.Name && x.Version == y.Version && x.Stamp == y.Stamp && len(x.Functions) == len(y.Functions) &&
		(len(x.Functions) == 0 || &x.Functions[0] == &y.Functions[0])
}

// differ tells whether function i of an object has other counters than before.
func (c *collector) differ(i int, before []Reading, was [][]int32, of *unitNotes) bool {
	for r := range of.readings {
		a, b := int32(-1), int32(-1)
		if was[r] != nil {
			a = was[r][i]
		}
		if of.numbers[r] != nil {
			b = of.numbers[r][i]
		}
		if a != b || a >= 0 && !sameCounters(&before[r].Counts.Functions[a], &of.readings[r].Counts.Functions[b]) {
			return true
		}
	}
	return false
}

func sameCounters(a, b *FunctionCounts) bool {
	if len(a.Counters) == 0 || len(a.Counters) == len(b.Counters) && &a.Counters[0] == &b.Counters[0] {
		return len(a.Counters) == len(b.Counters)
	}
	return slices.EqualFunc(a.Counters, b.Counters, func(x, y Counters) bool {
		switch {
		case x.Kind != y.Kind || x.Len() != y.Len():
			return false
		case x.Zeros > 0 && y.Zeros > 0:
			return true
		case x.Zeros > 0:
			return allZero(y.Values)
		case y.Zeros > 0:
			return allZero(x.Values)
		}
		return slices.Equal(x.Values, y.Values)
	})
}

// Same tells whether two files, or readings, are of one build and have the same counters.
func (c *Counts) Same(other *Counts) bool {
	if c.BigEndian != other.BigEndian || c.Version != other.Version || c.Stamp != other.Stamp || c.Checksum != other.Checksum || len(c.Functions) != len(other.Functions) {
		return false
	}
	if len(c.Functions) == 0 || &c.Functions[0] == &other.Functions[0] {
		return true
	}
	return slices.EqualFunc(c.Functions, other.Functions, func(a, b FunctionCounts) bool {
		return a.Placeholder == b.Placeholder && a.Ident == b.Ident && a.CfgChecksum == b.CfgChecksum && sameCounters(&a, &b)
	})
}

// takeOne adds the counters of a function in all readings of an object.
func (c *collector) takeOne(unit, function int32) {
	of := c.kept[unit]
	for r, numbers := range of.numbers {
		if numbers == nil || numbers[function] < 0 {
			continue
		}
		k := numbers[function]
		c.pool.take(of.functions[function].id, &of.readings[r].Counts.Functions[k], origin{unit, int32(r)}, k)
	}
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
	f := sh.at(id.number())
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
	c := sh.countersOf(f)
	ran := false
	for k, n := range arcs.Values {
		c[k] += n
		ran = ran || n != 0
	}
	if ran {
		f.runs = sh.run(run{from, number, false, f.runs})
	}
	if conditions.Len() == int(f.conditions) {
		for k, n := range conditions.Values {
			c[int(f.arcs)+k] |= n
		}
	}
	return true
}

// run keeps a run, and returns its number.
func (sh *shard) run(r run) int32 {
	if n := len(sh.free); n > 0 {
		i := sh.free[n-1]
		sh.free, sh.runs[i] = sh.free[:n-1], r
		return i
	}
	sh.runs = append(sh.runs, r)
	return int32(len(sh.runs) - 1)
}

// forgetCounts has all functions have run never.
func (p *pool) forgetCounts() {
	for i := range p.shards {
		sh := &p.shards[i]
		for _, block := range sh.counters {
			clear(block)
		}
		sh.runs, sh.free = sh.runs[:0], sh.free[:0]
		for k := range sh.n {
			sh.at(k).runs = -1
		}
	}
}
