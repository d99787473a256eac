package gcov

import (
	"errors"
	"fmt"
	"slices"
)

// FinishRun completes counts that were read from memory to what the program
// writes when it ends, as its first run: the summary, the zeros that are not
// written, the end. largest is the largest counter of arcs in all objects that
// were linked together.
//
// Before GCC 9 the summary was one of the program, with figures that nothing
// in footfall reads; it tells the run and the largest counter only.
func (c *Counts) FinishRun(largest int64) {
	c.Summaries = []Summary{{Words: []uint32{1, uint32(largest)}}}
	if !c.Version.ObjectRuns() {
		low, high := uint32(largest), uint32(uint64(largest)>>32)
		// Checksum, number of counters, runs; sum, largest and sum of largest in
		// 64 bits each; since 4.8 the buckets that are there, of 252.
		words := []uint32{0, 0, 1, 0, 0, low, high, low, high}
		if c.Version.Number() >= 48 {
			words = append(words, make([]uint32, 8)...)
		}
		c.Summaries = []Summary{{Program: true, Words: words}}
	}
	c.Trailer = make([]byte, 4)
	c.OmitZeros()
}

func (c *Counts) OmitZeros() {
	if !c.Version.OmitsZeros() || c.FromClang() {
		return
	}
	for i := range c.Functions {
		for j := range c.Functions[i].Counters {
			k := &c.Functions[i].Counters[j]
			if k.Zeros == 0 && allZero(k.Values) && c.Version.operation(k.Kind) != opValues {
				k.Zeros += len(k.Values)
				k.Values = nil
			}
		}
	}
}

func allZero(values []int64) bool {
	for _, x := range values {
		if x != 0 {
			return false
		}
	}
	return true
}

// Clone returns a copy that shares nothing that Merge, Subtract and FinishRun
// change.
func (c *Counts) Clone() *Counts {
	d := *c
	d.Summaries = slices.Clone(c.Summaries)
	for i := range d.Summaries {
		d.Summaries[i].Words = slices.Clone(d.Summaries[i].Words)
	}
	d.Functions = slices.Clone(c.Functions)
	for i := range d.Functions {
		d.Functions[i].Counters = slices.Clone(d.Functions[i].Counters)
		for j := range d.Functions[i].Counters {
			k := &d.Functions[i].Counters[j]
			k.Values = slices.Clone(k.Values)
		}
	}
	return &d
}

// ErrOtherBuild is returned for counts that do not belong to the same compiled
// object.
var ErrOtherBuild = errors.New("counts of another build")

// matches tells whether two counts are of the same object.
func (c *Counts) matches(o *Counts) error {
	switch {
	case c.Version != o.Version:
		return fmt.Errorf("%w: version %q and %q", ErrOtherBuild, c.Version, o.Version)
	case c.Stamp != o.Stamp || c.Checksum != o.Checksum:
		return fmt.Errorf("%w: stamps %08x and %08x", ErrOtherBuild, c.Stamp, o.Stamp)
	case c.BigEndian != o.BigEndian || len(c.Functions) != len(o.Functions):
		return fmt.Errorf("%w: %d and %d functions", ErrOtherBuild, len(c.Functions), len(o.Functions))
	}
	for i := range c.Functions {
		f, g := &c.Functions[i], &o.Functions[i]
		if !f.Placeholder && !g.Placeholder && !f.Matches(g, c.Version) {
			return fmt.Errorf("%w: function %d (%#x) differs", ErrOtherBuild, i, f.Ident)
		}
	}
	return nil
}

func (f *FunctionCounts) Matches(g *FunctionCounts, v Version) bool {
	return f.Ident == g.Ident && f.LineChecksum == g.LineChecksum && f.CfgChecksum == g.CfgChecksum &&
		slices.EqualFunc(f.Counters, g.Counters, func(a, b Counters) bool {
			return a.Kind == b.Kind && (a.Len() == b.Len() || v.operation(a.Kind) == opValues)
		})
}

// Merge adds the counts of earlier runs, those of a data file, as the program
// does when it ends. On an error c is unchanged. Value profiles from before GCC
// 7 cannot be merged.
func (c *Counts) Merge(earlier *Counts) error {
	if err := c.matches(earlier); err != nil {
		return err
	}
	for _, f := range c.Functions {
		for _, k := range f.Counters {
			if c.Version.operation(k.Kind) == opOther && !c.Version.knowsOldValues() {
				return fmt.Errorf("version %q: value profiles (-fprofile-generate) of GCC before 7 cannot be merged", c.Version)
			}
		}
	}
	c.OrderValues()
	for i := range c.Functions {
		f, g := &c.Functions[i], &earlier.Functions[i]
		switch {
		case g.Placeholder:
		case f.Placeholder:
			*f = *g
		default:
			for j := range f.Counters {
				if op := c.Version.operation(f.Counters[j].Kind); op != opOther {
					f.Counters[j].merge(&g.Counters[j], op)
				} else {
					c.mergeOldValues(&f.Counters[j], &g.Counters[j])
				}
			}
		}
	}
	c.mergeSummaries(earlier)
	c.OmitZeros()
	return nil
}

func (c *Counts) mergeSummaries(earlier *Counts) {
	for i := range min(len(c.Summaries), len(earlier.Summaries)) {
		to, from := c.Summaries[i].Words, earlier.Summaries[i].Words
		switch {
		case c.Version.ObjectRuns() && len(to) > 1 && len(from) > 1:
			to[0] += from[0]
			to[1] += from[1]
		case (c.Summaries[i].Program || c.FromClang()) && len(to) > 2 && len(from) > 2:
			to[2] += from[2]
		}
	}
}

// expand writes zeros out.
func (c *Counters) expand() {
	if c.Zeros > 0 {
		c.Values, c.Zeros = make([]int64, c.Zeros), 0
	}
}

func (c *Counters) merge(earlier *Counters, op operation) {
	if earlier.Zeros > 0 {
		return
	}
	c.expand()
	switch op {
	case opValues:
		c.mergeValues(earlier)
		return
	case opFirst:
		for i, x := range earlier.Values {
			if x != 0 && (c.Values[i] == 0 || x < c.Values[i]) {
				c.Values[i] = x
			}
		}
	case opOr:
		for i, x := range earlier.Values {
			c.Values[i] |= x
		}
	default:
		for i, x := range earlier.Values {
			c.Values[i] += x
		}
	}
}

// A valueSite is what was seen at one place of a value profile.
type valueSite struct {
	total int64 // negative: values were dropped
	seen  []valueCount
}

type valueCount struct{ value, count int64 }

// maxValues is the number of different values that programs remember of a
// site.
const maxValues = 32

// sites splits values: total, n, n pairs of value and count, and again. ok is
// false where they do not add up.
func (c *Counters) sites() (sites []valueSite, ok bool) {
	v := c.Values
	for len(v) >= 2 {
		n := v[1]
		s := valueSite{total: v[0]}
		if v = v[2:]; n < 0 || n > int64(len(v)/2) {
			return nil, false
		}
		for range n {
			s.seen = append(s.seen, valueCount{v[0], v[1]})
			v = v[2:]
		}
		sites = append(sites, s)
	}
	return sites, len(v) == 0
}

func (c *Counters) setSites(sites []valueSite) {
	c.Values = c.Values[:0:0]
	for _, s := range sites {
		c.Values = append(c.Values, s.total, int64(len(s.seen)))
		for _, p := range s.seen {
			c.Values = append(c.Values, p.value, p.count)
		}
	}
}

func (c *Counters) mergeValues(earlier *Counters) {
	to, ok1 := c.sites()
	from, ok2 := earlier.sites()
	if !ok1 || !ok2 || len(to) != len(from) {
		return
	}
	for i := range to {
		to[i].merge(&from[i])
	}
	c.setSites(to)
}

// merge does as programs do: a new value takes its place behind the others, or
// that of the rarest.
func (s *valueSite) merge(earlier *valueSite) {
	dropped := earlier.total < 0
	s.total += max(earlier.total, -earlier.total)
	for _, p := range earlier.seen {
		i := slices.IndexFunc(s.seen, func(q valueCount) bool { return q.value == p.value })
		switch {
		case i >= 0:
			s.seen[i].count += p.count
		case len(s.seen) < maxValues:
			s.seen = append(s.seen, p)
		default:
			rarest := 0
			for j := range s.seen {
				if s.seen[j].count < s.seen[rarest].count {
					rarest = j
				}
			}
			if s.seen[rarest].count--; s.seen[rarest].count < p.count {
				s.seen[rarest] = p
			}
			dropped = true
		}
	}
	if dropped {
		s.total = -s.total
	}
}

// Subtract leaves of c what was counted since base was read from the same
// program, whose counters must not have been set to zero in between: [Counts.Since]
// tells. Threads that count at the same time may put a counter back a little:
// it is 0 then.
//
// What is no sum cannot be told apart: of bits (conditions, paths) and times
// those are left that were not there before.
func (c *Counts) Subtract(base *Counts) error {
	if err := c.matches(base); err != nil {
		return err
	}
	for i := range c.Functions {
		f, g := &c.Functions[i], &base.Functions[i]
		if f.Placeholder || g.Placeholder {
			continue
		}
		for j := range f.Counters {
			f.Counters[j].subtract(&g.Counters[j], c.Version.operation(f.Counters[j].Kind))
		}
	}
	c.OmitZeros()
	return nil
}

// An ArcChange says how counters of arcs differ from what they were before.
type ArcChange struct {
	Ran  int // that were not 0 before; the others are some of these
	Same int
	Fell int
	Half int // that fell to less than half
}

// Since compares c with what was read from the same program before.
func (c *Counts) Since(before *Counts) (ArcChange, error) {
	var n ArcChange
	if err := c.matches(before); err != nil {
		return n, err
	}
	for i := range c.Functions {
		f, g := &c.Functions[i], &before.Functions[i]
		if f.Placeholder || g.Placeholder {
			continue
		}
		now, old := f.Of(KindArcs), g.Of(KindArcs)
		if now == nil || old == nil {
			continue
		}
		for k, x := range old.Values {
			if x == 0 {
				continue
			}
			n.Ran++
			switch y := now.At(k); {
			case y == x:
				n.Same++
			case y < x:
				n.Fell++
				if y < x-x/2 {
					n.Half++
				}
			}
		}
	}
	return n, nil
}

// Add adds up changes of several objects.
func (n *ArcChange) Add(o ArcChange) {
	n.Ran += o.Ran
	n.Same += o.Same
	n.Fell += o.Fell
	n.Half += o.Half
}

func (c *Counters) subtract(base *Counters, op operation) {
	if c.Zeros > 0 || base.Zeros > 0 {
		return
	}
	switch op {
	case opAdd:
		for i, x := range base.Values {
			c.Values[i] -= x
		}
		if c.Kind == KindArcs {
			for i, x := range c.Values {
				c.Values[i] = max(0, x)
			}
		}
	case opOr:
		for i, x := range base.Values {
			c.Values[i] &^= x
		}
	case opFirst:
		for i, x := range base.Values {
			if x != 0 {
				c.Values[i] = 0
			}
		}
	case opValues:
		c.subtractValues(base)
	}
}

func (c *Counters) subtractValues(base *Counters) {
	to, ok1 := c.sites()
	from, ok2 := base.sites()
	if !ok1 || !ok2 || len(to) != len(from) {
		return
	}
	for i := range to {
		to[i].total -= from[i].total
		for _, p := range from[i].seen {
			if j := slices.IndexFunc(to[i].seen, func(q valueCount) bool { return q.value == p.value }); j >= 0 {
				to[i].seen[j].count -= p.count
			}
		}
		to[i].seen = slices.DeleteFunc(to[i].seen, func(p valueCount) bool { return p.count <= 0 })
	}
	c.setSites(to)
}

// Largest is the largest counter of arcs.
func (c *Counts) Largest() int64 {
	var largest int64
	for i := range c.Functions {
		if arcs := c.Functions[i].Of(KindArcs); arcs != nil {
			for _, x := range arcs.Values {
				largest = max(largest, x)
			}
		}
	}
	return largest
}

// Compiler says who made the program: "GCC 12", or "Clang", whose data does not
// tell its version.
func (c *Counts) Compiler() string {
	if c.FromClang() {
		return "Clang"
	}
	return fmt.Sprintf("GCC %d", c.Version.Major())
}
