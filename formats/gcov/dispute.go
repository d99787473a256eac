package gcov

import (
	"maps"
	"slices"
	"sync"

	"footfall/coverage"
	"footfall/input"
)

// A line is in dispute if blocks that name it in passing ran, while none of those
// ran that are attached to it in some unit. Did it run? It depends on which functions
// were in one unit: where none is attached, those that pass decide.
//
// It is settled as in court. What each distinct function has on such a line is its
// claim. Each unit hears the claims of the functions that ran there: a claim is
// heard if nothing in this unit is attached to the line, or if the line is the
// function's own, as in a group. A claim that is heard wherever its function ran
// decides: the line ran. One that is heard in some of these units only says
// nothing yet, since the counters are sums over all units; so in the units that
// hear it, its counters are read again.

// findDisputes lists the lines in dispute. It reports whether there are any.
func (t *tally) findDisputes() bool {
	some := false
	for _, file := range t.used {
		f := t.files[file]
		if !f.passed {
			continue
		}
		for k, p := range f.all {
			for i := range p {
				if l := &p[i]; l.attached && !l.ran && l.passed > 0 {
					n := int(k<<pageBits) + i
					if t.looks != nil && !t.looks.all(file, uint32(n)) {
						continue
					}
					for n/64 >= len(f.disputes) {
						f.disputes = append(f.disputes, 0)
					}
					f.disputes[n/64] |= 1 << (n % 64)
					some = true
				}
			}
		}
	}
	return some
}

// disputed tells whether the line is in dispute; of most lines it is asked, so it looks at
// bits alone.
func (t *tally) disputed(file int32, n uint32) bool {
	if file == dropped || int(file) >= len(t.files) || t.files[file] == nil {
		return false
	}
	list := t.files[file].disputes
	return int(n/64) < len(list) && list[n/64]>>(n%64)&1 != 0
}

// disputedWithin tells whether a line may be in dispute, of the first to the last.
func (t *tally) disputedWithin(file int32, first, last uint32) bool {
	if file == dropped || int(file) >= len(t.files) || t.files[file] == nil {
		return false
	}
	list := t.files[file].disputes
	for i := int(first / 64); i <= int(last/64) && i < len(list); i++ {
		if list[i] != 0 {
			return true
		}
	}
	return false
}

// A claim is what a function says of a line in dispute.
type claim struct {
	line *lineTally
	own  bool    // it is within the function
	ends bool    // some block of it ends there
	pass []int32 // the blocks that name it and ran, if none ends there
	// In some unit these may have run and decide, in some they do not.
	heard, unheard bool
}

// claims are those of the distinct functions that have any.
type claims map[distinctID][]claim

// A runOf is one of a function that has claims.
type runOf struct {
	id distinctID
	run
}

// settleDisputes decides about the lines in dispute.
func (c *collector) settleDisputes(t *tally, work batch, workers int) {
	if !t.findDisputes() {
		return
	}
	all, ran := c.claims(t, work, workers)
	c.hear(all, ran, workers)
	for _, list := range all {
		for i := range list {
			if cl := &list[i]; cl.heard && !cl.unheard {
				cl.line.ran = true
			}
		}
	}
	for unit, runs := range ran {
		c.hearAgain(all, unit, runs)
	}
}

// claims collects the claims of all functions, and by unit the runs of those that pass a line
// in dispute.
func (c *collector) claims(t *tally, work batch, workers int) (all claims, ran map[int32][]runOf) {
	parts := work.split(workers)
	found := make([]claims, len(parts))
	coverage.Parallel(len(parts), func(i int) {
		found[i] = make(claims)
		var w witness
		for _, ref := range parts[i] {
			id := ref.id
			if d := c.pool.at(id); d.last > 0 && !t.disputedWithin(d.file, d.first, d.last) {
				continue
			}
			w.unpackLines(c.pool.bytes(id))
			list := w.claims(t)
			if len(list) == 0 {
				continue
			}
			w.solve(c.pool.bytes(id), c.pool.counts(id))
			for k := range list {
				list[k].pass = slices.DeleteFunc(list[k].pass, func(b int32) bool { return w.flow.Blocks[b].Count <= 0 })
			}
			found[i][id] = list
		}
	})
	all, ran = make(claims), make(map[int32][]runOf)
	for _, part := range found {
		for id, list := range part {
			all[id] = list
			if !slices.ContainsFunc(list, func(cl claim) bool { return len(cl.pass) > 0 }) {
				continue
			}
			sh := &c.pool.shards[id.shard()]
			for r := c.pool.at(id).runs; r >= 0; r = sh.runs[r].next {
				unit := sh.runs[r].unit
				ran[unit] = append(ran[unit], runOf{id, sh.runs[r]})
			}
		}
	}
	return all, ran
}

// A witness tells what a function says.
type witness struct {
	unpacked
	flow Flow
}

// claims are those of the function, with all blocks that pass a line.
func (w *witness) claims(t *tally) []claim {
	var list []claim
	for i := range w.places {
		p := &w.places[i]
		end := w.end(p)
		for _, n := range w.lines[p.line:p.last] {
			if !t.disputed(p.file, n) {
				continue
			}
			l := &t.files[p.file].have(n >> pageBits)[n&(1<<pageBits-1)] // at is for one goroutine
			k := slices.IndexFunc(list, func(cl claim) bool { return cl.line == l })
			if k < 0 {
				k = len(list)
				own := w.contains(p.file, n)
				list = append(list, claim{line: l, own: own})
			}
			if cl := &list[k]; w.mentions() || w.attaches(p.block) && n == end {
				cl.ends, cl.pass = true, nil
			} else if !cl.ends {
				cl.pass = append(cl.pass, int32(p.block))
			}
		}
	}
	return list
}

func (w *witness) solve(packed []byte, counters []int64) {
	w.unpack(packed, &w.flow)
	w.flow.Solve(counters)
}

// decides returns what tells whether a claim of a function decides in a unit.
func (c *collector) decides(all claims, unit int32) func(id distinctID, cl *claim) bool {
	begin := make(map[position]int) // how many functions of the unit begin there
	for _, id := range c.units[unit] {
		d := c.pool.at(id)
		begin[position{d.file, d.line}]++
	}
	private := func(id distinctID, cl *claim) bool {
		d := c.pool.at(id)
		return cl.own && begin[position{d.file, d.line}] > 1
	}
	attached := make(map[*lineTally]bool)
	for _, id := range c.units[unit] {
		for i := range all[id] {
			if cl := &all[id][i]; cl.ends && !private(id, cl) {
				attached[cl.line] = true
			}
		}
	}
	return func(id distinctID, cl *claim) bool { return private(id, cl) || !attached[cl.line] }
}

// hear says which of the claims decide, of the functions that ran, by unit. Of the runs it keeps those that have any.
func (c *collector) hear(all claims, ran map[int32][]runOf, workers int) {
	units := slices.Collect(maps.Keys(ran))
	var mu sync.Mutex
	each(workers, len(units), func(i int) {
		unit := units[i]
		decides := c.decides(all, unit)
		mu.Lock()
		defer mu.Unlock()
		ran[unit] = slices.DeleteFunc(ran[unit], func(r runOf) bool { return !heard(all[r.id], r.id, decides) })
	})
}

// heard tells whether some claim of a function decides in a unit.
func heard(list []claim, id distinctID, decides func(id distinctID, cl *claim) bool) (some bool) {
	for i := range list {
		switch cl := &list[i]; {
		case len(cl.pass) == 0:
		case decides(id, cl):
			cl.heard, some = true, true
		default:
			cl.unheard = true
		}
	}
	return some
}

// hearAgain looks at claims that decide in this unit and not in others: the counters in
// this one tell.
func (c *collector) hearAgain(all claims, unit int32, ran []runOf) {
	var decides func(id distinctID, cl *claim) bool
	var w witness
	for _, r := range ran {
		solved := false
		for i := range all[r.id] {
			cl := &all[r.id][i]
			if len(cl.pass) == 0 || cl.line.ran {
				continue
			}
			if decides == nil {
				decides = c.decides(all, unit)
			}
			if !decides(r.id, cl) {
				continue
			}
			if !solved {
				counters, ok := c.counters(r)
				if !ok {
					break // the file has changed meanwhile
				}
				w.solve(c.pool.bytes(r.id), counters)
				solved = true
			}
			cl.line.ran = slices.ContainsFunc(cl.pass, func(b int32) bool { return w.flow.Blocks[b].Count > 0 })
		}
	}
}

// counters reads those of one run again.
func (c *collector) counters(r runOf) (counters []int64, ok bool) {
	obj := c.objs[r.unit]
	if i := int(r.data) - len(obj.Data); i >= 0 {
		return obj.Readings[i].Counts.Functions[r.at].Of(KindArcs).Values, true
	}
	f, err := input.Open(obj.Data[r.data])
	if err != nil {
		return nil, false
	}
	defer f.Close()
	b := make([]byte, 8*c.pool.at(r.id).arcs)
	if _, err := f.ReadAt(b, int64(r.at)); err != nil {
		return nil, false
	}
	for ; len(b) > 0; b = b[8:] {
		counters = append(counters, readCounter(b[:8], r.big))
	}
	return counters, true
}
