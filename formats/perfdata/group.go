package perfdata

import "maps"

// A group of events of which one alone is sampled, such as {cycles,instructions}:S, has
// in each sample how far all of them have come. What has come since the sample before
// stands for the place of this one.
//
// Pieces of a file are decoded in any order, and know of none before them. So Scan notes
// how far counters were at the begin of each piece.

// A counter is one of those that an event has, by its ID: for a CPU or a thread. Where
// threads inherit it, each counts for itself.
type counter struct {
	id  uint64
	tid int
}

// A reading is how far a counter has come.
type reading struct {
	id, value uint64
}

// Bits of read_format.
const (
	readEnabled = 1 << iota
	readRunning
	readID
	readGroup
	readLost
)

// readings takes what PERF_SAMPLE_READ has, without the values of counters that have no ID.
//
//	u64 value, {u64 enabled}, {u64 running}, {u64 ID}, {u64 lost}
//	u64 n, {u64 enabled}, {u64 running}, n of: u64 value, {u64 ID}, {u64 lost}    of a group
func readings(c *cursor, format uint64, all []reading) []reading {
	has := func(bit uint64) bool { return format&bit != 0 }
	times := func() {
		if has(readEnabled) {
			c.take(8)
		}
		if has(readRunning) {
			c.take(8)
		}
	}
	n := uint64(1)
	if has(readGroup) {
		n = c.u64()
		times()
	}
	for ; n > 0 && !c.bad; n-- {
		r := reading{value: c.u64()}
		if !has(readGroup) {
			times()
		}
		if has(readID) {
			r.id = c.u64()
		}
		if has(readLost) {
			c.take(8)
		}
		if has(readID) && !c.bad {
			all = append(all, r)
		}
	}
	return all
}

// counter is that of a reading of the current sample.
func (d *Decoder) counter(r reading) counter {
	const inherit = 1 << 1
	c := counter{id: r.id}
	if d.s.Event.flags&inherit != 0 {
		c.tid = d.s.TID
	}
	return c
}

// follow notes for Scan how far the counters of a sample were before its chunk.
func (d *Decoder) follow(c Chunk, r record) {
	if _, ok := d.begin(r, &cursor{b: r.body, order: d.f.Order}); !ok {
		return
	}
	for _, reading := range d.readings {
		at, of := d.f.counted[c.Order], d.counter(reading)
		if at == nil {
			at = make(map[counter]uint64)
			d.f.counted[c.Order] = at
		}
		if _, ok := at[of]; !ok {
			at[of] = d.counted[of]
		}
		d.counted[of] = max(d.counted[of], reading.value)
	}
}

// resume has the counters as they were before the chunk.
func (d *Decoder) resume(c Chunk) {
	d.counted = maps.Clone(d.f.counted[c.Order])
	if d.counted == nil {
		d.counted = make(map[counter]uint64)
	}
}

// each calls visit with a sample of each event that has come further.
func (d *Decoder) each(visit func(*Sample)) {
	leader := d.s.Event
	for _, r := range d.readings {
		of := d.counter(r)
		before := d.counted[of]
		e := d.f.byID[r.id]
		if e == nil || r.value <= before {
			continue
		}
		d.counted[of] = r.value
		d.s.Event, d.s.Period = e, r.value-before
		visit(&d.s)
		d.s.Event = leader
	}
}
