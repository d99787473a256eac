//go:build linux

package live

import (
	"errors"
	"fmt"
	"slices"

	"footfall/formats/gcov"
)

// A History follows the counters of a process, or of the kernel, from look to
// look, and adds up what the process has counted. Counts never fall, but when the
// program itself sets its counters to zero:
//
//   - what a library had counted when it was seen last stays when it is closed,
//     and what it counts when it is loaded again comes on top;
//   - what libgcov adds to the counters in memory when it writes data files, the
//     counts of earlier runs in these, is left out, except where it had been added
//     before the first look;
//   - a baseline, or what Reset has made one, is subtracted as long as the
//     counters that it was taken of count on.
//
// Of all but that the events of Take tell.
//
// # What cannot be known
//
// What is counted between a look and the end of a library or process is not
// seen. That counters were set to zero is seen by their having fallen: a program
// that sets them to zero and has run all of its code again, as often, before
// the next look is not found out; nor is a library that is closed and
// opened again at the same place, if it has done so. Once is enough: code that runs
// when a program begins is not run again.
type History struct {
	all   []*followed
	seen  []*followed // of all, in the order of their coming
	byKey map[historyKey][]*followed
	looks int
	base  *Baseline       // that it began with, or nil
	fewer bool            // units of the baseline are not subtracted any more
	reset bool            // by the program
	said  map[string]bool // events of which one is enough
}

// A historyKey is that of units that may be the same.
type historyKey struct {
	image, name string
	stamp       uint32
}

// A followed is a unit over all of its loads.
type followed struct {
	unit Unit            // as it was read last
	zero *gcov.Counts    // what is not to be counted of it, nil for nothing
	pure bool            // zero was read after a dump: what is counted since is in no data file
	kept *gcov.Counts    // what is counted besides: of loads before, of the time before a dump
	look int             // that had it last; 0: none, it is of a baseline
	of   *BaselineObject // that zero is, or was until Reset; nil: it is subtracted no more
}

// NewHistory begins with a baseline, nil for none.
func NewHistory(base *Baseline) (*History, error) {
	h := &History{byKey: make(map[historyKey][]*followed), said: make(map[string]bool)}
	if base == nil {
		return h, nil
	}
	h.base = base
	loads := make(map[int]*Load)
	for i := range base.Loads {
		loads[base.Loads[i].ID] = &base.Loads[i]
	}
	var problems []error
	for i := range base.Objects {
		o := &base.Objects[i]
		c, err := gcov.ReadCounts(o.Counts)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: all counts, not those since the reset: %w", o.Name, err))
			continue
		}
		l := loads[o.Load]
		h.add(&followed{unit: Unit{Name: o.Name, Image: o.Image, Counts: c, Load: l}, zero: c, pure: l != nil && l.Dumped, of: o})
	}
	return h, errors.Join(problems...)
}

func (h *History) add(f *followed) {
	h.all = append(h.all, f)
	k := f.key()
	h.byKey[k] = append(h.byKey[k], f)
}

func (f *followed) key() historyKey { return keyOf(f.unit) }

func keyOf(u Unit) historyKey { return historyKey{u.Image, u.Name, u.Counts.Stamp} }

// A CounterEventKind is what happened to the counters of a load.
type CounterEventKind int

const (
	WasReset  CounterEventKind = iota // the program has set them to zero; counts fall
	Reloaded                          // the library was closed and loaded again
	Closed                            // the library was closed
	Dumped                            // the program has written its data files
	Uncertain                         // the same, before the first look or, with a baseline, since that: the counts are too high
)

// A CounterEvent is something that a reader of counts should know.
type CounterEvent struct {
	Kind CounterEventKind
	Load Load
}

func (e CounterEvent) String() string {
	switch e.Kind {
	case WasReset:
		if e.Load.Path == "" {
			return "counters of the kernel were set to zero by others: counts are those since then"
		}
		return fmt.Sprintf("%s: the program has set its counters to zero: counts are those since then", e.Load.Path)
	case Reloaded:
		return fmt.Sprintf("%s: it was closed and loaded again; what it counted between the last look and its end is not known", e.Load.Path)
	case Closed:
		return fmt.Sprintf("%s: it is closed; its counts stay as they were at the last look", e.Load.Path)
	case Dumped:
		return fmt.Sprintf("%s: the program has written its data files, by which the counts in them come into its memory: they are left out, and what was counted between the last look and then is, too", e.Load.Path)
	}
	return fmt.Sprintf("%s: the program has written its data files, by which the counts of earlier runs in them have come into its memory: they are in these counts (--reset: counts from now on)", e.Load.Path)
}

// A pairing is a unit of a look and what is known of it, nil for nothing.
type pairing struct {
	unit  Unit
	known *followed
}

// A loadChange is what became of a load since it was seen last.
type loadChange struct {
	load   *Load
	before *Load // nil: not known
	units  []pairing
	change gcov.ArcChange
	reset  bool // by the program
	anew   bool // another load of the library
}

// Take takes what [CountedProcess.Snapshot] has read. Units that are missing are those
// of libraries that are closed, or could not be read this time. Units whose data
// files are being written stay as they are. Without units, all libraries with
// counters are closed.
func (h *History) Take(units []Unit) []CounterEvent {
	h.looks++
	loads := h.pair(units)
	for _, l := range loads {
		l.judge()
	}
	h.groups(loads)
	var events []CounterEvent
	for _, l := range loads {
		for _, kind := range h.use(l) {
			e := CounterEvent{Kind: kind}
			if l.load != nil {
				e.Load = *l.load
			}
			events = h.tell(events, e)
		}
	}
	for _, f := range h.all {
		if l := f.unit.Load; f.look == h.looks-1 && h.looks > 1 && l != nil && !l.Program {
			events = h.tell(events, CounterEvent{Closed, *l})
		}
	}
	return events
}

// tell adds an event: of the loads of a group what concerns all of them once, of
// the program if it is one of them; what does not make counts fall once in all.
func (h *History) tell(events []CounterEvent, e CounterEvent) []CounterEvent {
	i := slices.IndexFunc(events, func(o CounterEvent) bool {
		return o.Kind == e.Kind && o.Load.Group == e.Load.Group && (e.Kind != Closed && e.Kind != Reloaded || o.Load.ID == e.Load.ID)
	})
	switch text := e.String(); {
	case i >= 0:
		if e.Load.Program {
			events[i] = e
		}
	case e.Kind == WasReset || !h.said[text]:
		h.said[text] = true
		events = append(events, e)
	}
	return events
}

// pair finds what is known of units. Those of the kernel are each a load of
// their own.
func (h *History) pair(units []Unit) []*loadChange {
	here := make(map[int]bool) // IDs of loads
	for _, u := range units {
		if u.Load != nil {
			here[u.Load.ID] = true
		}
	}
	var loads []*loadChange
	byID := make(map[int]*loadChange)
	taken := make(map[*followed]bool)
	for _, u := range units {
		f := h.known(u, here, taken)
		if f != nil {
			taken[f] = true
			if f.look > 0 && u.Load != nil && u.Load.Writing {
				f.look = h.looks
				continue
			}
		}
		var l *loadChange
		if u.Load != nil {
			l = byID[u.Load.ID]
		}
		if l == nil {
			l = &loadChange{load: u.Load}
			loads = append(loads, l)
			if u.Load != nil {
				byID[u.Load.ID] = l
			}
		}
		if f != nil && l.before == nil {
			l.before = f.unit.Load
			l.anew = f.look > 0 && u.Load != nil && f.unit.Load.ID != u.Load.ID || f.look == 0 && (l.moved() || h.looks > 1)
		}
		l.units = append(l.units, pairing{u, f})
	}
	return loads
}

// known returns what is followed of a unit: the same load of it, or one that is
// closed. Of a baseline the number of the load means nothing, its place does.
func (h *History) known(u Unit, here map[int]bool, taken map[*followed]bool) *followed {
	var other *followed
	for _, f := range h.byKey[keyOf(u)] {
		was := f.unit.Load
		switch {
		case taken[f]:
		case u.Load == nil || was == nil:
			return f
		case f.look > 0 && was.ID == u.Load.ID, f.look == 0 && was.At == u.Load.At:
			return f
		case f.look == 0 || !here[was.ID]:
			other = f
		}
	}
	return other
}

func (l *loadChange) moved() bool {
	return l.load != nil && l.before != nil && l.load.At != l.before.At
}

// judge finds out whether the counters of a load were set to zero since they
// were read last, or are of another load.
func (l *loadChange) judge() {
	if l.anew {
		return
	}
	for _, p := range l.units {
		if p.known == nil {
			continue
		}
		if n, err := p.unit.Counts.Since(p.known.unit.Counts); err == nil {
			l.change.Add(n)
		}
	}
	// Threads may put counters back, but few of them and only a little.
	restarted := l.change.Half > 0 || 2*l.change.Fell > l.change.Ran
	dumpedAndReset := false
	if l.load != nil && l.before != nil {
		dumpedAndReset = !l.load.Dumped && l.load.Counted && (l.before.Dumped || !l.before.Counted)
		restarted = restarted || dumpedAndReset || l.before.Dumped && !l.load.Dumped
	}
	if l.load == nil || l.load.Program || dumpedAndReset {
		l.reset = restarted
	} else {
		// It may be that the program has set its counters to zero; more often it
		// was closed and opened.
		l.anew = restarted
	}
}

// groups has all loads be reset that the program sets to zero together. A
// library whose counters have fallen since a baseline shows that it did so, if
// nothing in the program shows that it did not.
func (h *History) groups(loads []*loadChange) {
	reset := make(map[int]bool)
	for _, l := range loads {
		if l.load == nil {
			continue
		}
		if l.reset {
			reset[l.load.Group] = true
		} else if l.anew && h.looks == 1 && !l.moved() {
			for _, o := range loads {
				if o.load != nil && o.load.Program && o.load.Group == l.load.Group && o.change.Same == 0 {
					reset[l.load.Group] = true
				}
			}
		}
	}
	for _, l := range loads {
		if l.load != nil && reset[l.load.Group] && l.before != nil {
			l.reset, l.anew = true, false
		}
	}
}

// use takes the units of a load. It returns what is to be told.
func (h *History) use(l *loadChange) []CounterEventKind {
	var kinds []CounterEventKind
	now := l.load
	earlier := now != nil && (now.Earlier || now.Writing)
	dumped := now != nil && now.Dumped && l.before != nil && !l.before.Dumped
	switch {
	case l.reset:
		kinds = append(kinds, WasReset)
		h.reset = true
	case l.anew && l.before != nil:
		kinds = append(kinds, Reloaded)
	}
	// What libgcov has added is not known, but when: since the last look.
	hold := h.looks > 1 && earlier && (dumped || l.before == nil || l.reset || l.anew)
	switch {
	case hold:
		kinds = append(kinds, Dumped)
	case earlier && !(l.before != nil && l.before.Dumped && !l.reset && !l.anew):
		kinds = append(kinds, Uncertain)
	}
	for _, p := range l.units {
		f := p.known
		if f == nil {
			f = &followed{unit: p.unit}
			h.add(f)
		}
		if (l.reset || l.anew) && f.of != nil {
			f.of, h.fewer = nil, true
		}
		switch {
		case l.reset:
			f.kept, f.zero, f.pure = nil, nil, false
		case l.anew && f.look > 0, hold && p.known != nil:
			f.kept, f.zero, f.pure = f.counts(), nil, false
		case l.anew:
			f.zero, f.pure = nil, false
		}
		if f.look == 0 {
			h.seen = append(h.seen, f)
		}
		f.unit = p.unit
		if hold {
			f.zero, f.pure = p.unit.Counts, true
		}
		f.look = h.looks
	}
	return kinds
}

// counts is what was counted of a unit. It is not to be changed.
func (f *followed) counts() *gcov.Counts {
	if f.zero == nil && f.kept == nil {
		return f.unit.Counts
	}
	c := f.unit.Counts.Clone()
	if f.zero != nil {
		if err := c.Subtract(f.zero); err != nil {
			c = f.unit.Counts.Clone() // of another build: the key would be another
		}
	}
	if f.kept != nil {
		_ = c.Merge(f.kept) // of the same build, too
		c.FinishRun(c.Largest())
	}
	return c
}

// Units returns what was counted since the baseline, or else since the process
// began to count, of all units that there were since the first look, in the order
// of their coming: a unit keeps its place. The counts are not to be changed, and
// stay as they are. The loads are those of the counts: what they tell of data files
// does not concern what was counted since the program has written them.
func (h *History) Units() []Unit {
	var units []Unit
	loads := make(map[*Load]*Load)
	for _, f := range h.seen {
		u := f.unit
		u.Counts, u.Gone = f.counts(), f.look < h.looks
		if f.pure {
			if loads[u.Load] == nil {
				l := *u.Load
				l.Dumped, l.Earlier = false, false
				loads[u.Load] = &l
			}
			u.Load = loads[u.Load]
		}
		units = append(units, u)
	}
	return units
}

// Reset makes units start from zero, nil for all.
func (h *History) Reset(match func(Unit) bool) {
	for _, f := range h.all {
		if match == nil || match(f.unit) {
			f.kept, f.zero = nil, f.unit.Counts
			f.pure = f.unit.Load != nil && f.unit.Load.Dumped
		}
	}
}

// Baseline returns what is still to be subtracted of the baseline that the
// History began with, nil for nothing, and whether that has become less: the
// program has set the rest to zero itself.
func (h *History) Baseline() (b *Baseline, less bool) {
	if h.base == nil {
		return nil, false
	}
	b = &Baseline{Time: h.base.Time, Loads: h.base.Loads}
	for _, f := range h.all {
		if f.of != nil {
			b.Objects = append(b.Objects, *f.of)
		}
	}
	if len(b.Objects) == 0 {
		b = nil
	}
	return b, h.fewer
}

// WasReset tells whether the program has set counters to zero.
func (h *History) WasReset() bool { return h.reset }
