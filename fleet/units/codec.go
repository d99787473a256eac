package units

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"footfall/coverage"
)

// version is the first byte of a program.
const version = 1

// A codec writes a program and its counters, or reads them: what a file consists of is said once, for
// both. Numbers are those of encoding/binary.AppendVarint, texts and lists have their lengths before them.
type codec struct {
	encoding bool
	program  []byte // as far as it is written; or all of it
	at       int    // what has been read of it
	hits     []uint64
	left     int   // how many are to be read; where there are no hits they are 0
	lines    []int // where the counters of each line begin
	err      error
}

func (c *codec) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("offset %d: %s", c.at, fmt.Sprintf(format, args...))
	}
}

func (c *codec) number(n *int32) {
	if c.encoding {
		c.program = binary.AppendVarint(c.program, int64(*n))
		return
	}
	v, size := binary.Varint(c.program[c.at:])
	if size <= 0 || v < math.MinInt32 || v > math.MaxInt32 {
		c.fail("a number of 32 bits was expected")
		v, size = 0, 0
	}
	c.at += size
	*n = int32(v)
}

// beyond is a number that is written as the distance from another.
func (c *codec) beyond(n *int32, from int32) {
	distance := *n - from
	c.number(&distance)
	if !c.encoding {
		*n = from + distance
	}
}

// length is a number of things that have at least a byte each.
func (c *codec) length(n int) int {
	size := int32(n)
	c.number(&size)
	if !c.encoding && (size < 0 || int(size) > len(c.program)-c.at) {
		c.fail("%d more were expected, where %d bytes are left", size, len(c.program)-c.at)
		return 0
	}
	return int(size)
}

func (c *codec) text(s *string) {
	n := c.length(len(*s))
	if c.encoding {
		c.program = append(c.program, *s...)
		return
	}
	*s = string(c.program[c.at : c.at+n])
	c.at += n
}

// flags are up to 8 bits.
func (c *codec) flags(bits ...*bool) {
	if c.encoding {
		b := byte(0)
		for i, bit := range bits {
			if *bit {
				b |= 1 << i
			}
		}
		c.program = append(c.program, b)
		return
	}
	if c.at == len(c.program) {
		c.fail("it ends too early")
		return
	}
	b := c.program[c.at]
	c.at++
	for i, bit := range bits {
		*bit = b&(1<<i) != 0
	}
	if b>>len(bits) != 0 {
		c.fail("flags %#x are not known", b)
	}
}

// hit is a counter; what is returned is h if it is written.
func (c *codec) hit(h uint64) uint64 {
	if c.encoding {
		c.hits = append(c.hits, h)
		return h
	}
	if c.left == 0 {
		c.fail("there are too few counters")
		return 0
	}
	c.left--
	if c.hits == nil {
		return 0
	}
	return c.hits[len(c.hits)-c.left-1]
}

func (c *codec) count(n *int64) {
	if h := c.hit(uint64(max(*n, 0))); !c.encoding {
		*n = toCount(h)
	}
}

// shown is whether something was seen.
func (c *codec) shown(b *bool) {
	h := uint64(0)
	if *b {
		h = 1
	}
	if h = c.hit(h); !c.encoding {
		*b = h > 0
	}
}

// most are counters for the values from 1 to of, where what holds is the greatest that was seen.
func (c *codec) most(n *int32, of int32) {
	if !c.encoding && int(of) > c.left {
		c.fail("%d counters were expected, where %d are left", of, c.left)
		return
	}
	seen := min(*n, of) // more cannot be, but may be said
	for v := int32(1); v <= of; v++ {
		is := v == seen
		c.shown(&is)
		if is && !c.encoding {
			*n = v
		}
	}
}

// list calls each for the elements of a list, which grows as they are read.
func list[T any](c *codec, l *[]T, each func(*T)) {
	n := c.length(len(*l))
	if !c.encoding {
		*l = slices.Grow(*l, min(n, 1024)) // more only as they are there
	}
	for i := 0; i < n && c.err == nil; i++ {
		if !c.encoding {
			*l = append(*l, *new(T))
		}
		each(&(*l)[i])
	}
}

func (c *codec) file(f *coverage.File) {
	of := int32(version)
	c.number(&of)
	if of != version {
		c.fail("version %d is not known: a newer footfall wrote it", of)
	}
	line := int32(0)
	list(c, &f.Functions, func(fn **coverage.Function) {
		if *fn == nil {
			*fn = new(coverage.Function)
		}
		c.function(*fn, line)
		line = (*fn).StartLine
	})
	line = 0
	list(c, &f.Lines, func(l *coverage.Line) {
		c.beyond(&l.Number, line)
		if !c.encoding && l.Number <= line {
			c.fail("line %d comes after %d", l.Number, line)
		}
		line = l.Number
		c.line(l)
	})
}

func (c *codec) function(f *coverage.Function, before int32) {
	c.beyond(&f.StartLine, before)
	c.number(&f.StartColumn)
	c.beyond(&f.EndLine, f.StartLine)
	c.number(&f.EndColumn)
	c.text(&f.Name)
	c.count(&f.Count)
	name := ""
	list(c, &f.Instances, func(in *coverage.Instance) {
		c.instance(in, f.Name)
		if !c.encoding && in.Name <= name {
			c.fail("instance %q comes after %q", in.Name, name)
		}
		name = in.Name
	})
	if len(f.Instances) == 0 && !c.encoding {
		c.fail("function %q has no instance", f.Name)
	}
	executed, blocks := mostExecuted(f.Instances)
	same := f.BlocksExecuted == executed && f.Blocks == blocks // with that of an instance, as mostly
	regions := f.Regions > 0
	c.flags(&same, &regions)
	switch {
	case !same:
		c.number(&f.Blocks)
		c.most(&f.BlocksExecuted, f.Blocks)
	case !c.encoding:
		f.BlocksExecuted, f.Blocks = mostExecuted(f.Instances)
	}
	if regions {
		c.number(&f.Regions)
		c.most(&f.RegionsRun, f.Regions)
	}
}

// mostExecuted is of the instance with the most blocks executed.
func mostExecuted(instances []coverage.Instance) (executed, blocks int32) {
	for i := range instances {
		if in := &instances[i]; in.BlocksExecuted > executed || in.BlocksExecuted == executed && in.Blocks > blocks {
			executed, blocks = in.BlocksExecuted, in.Blocks
		}
	}
	return executed, blocks
}

func (c *codec) instance(in *coverage.Instance, function string) {
	same, lines := in.Name == function, len(in.Lines) > 0
	c.flags(&same, &lines)
	switch {
	case !same:
		c.text(&in.Name)
	case !c.encoding:
		in.Name = function
	}
	c.count(&in.Count)
	c.number(&in.Blocks)
	c.most(&in.BlocksExecuted, in.Blocks)
	if lines {
		c.instanceLines(&in.Lines)
	}
}

func (c *codec) instanceLines(hits *coverage.Hits) {
	type lineCount struct {
		line  int32
		count int64
	}
	var all []lineCount
	for line, count := range hits.All() {
		all = append(all, lineCount{line, count})
	}
	var read coverage.Hits
	last, before := int32(0), int32(0)
	list(c, &all, func(l *lineCount) {
		c.beyond(&l.line, before)
		if !c.encoding && l.line <= before {
			c.fail("line %d comes after %d", l.line, before)
			return
		}
		before = l.line
		c.count(&l.count)
		if !c.encoding {
			read = read.Add(&last, l.line, l.count)
		}
	})
	if !c.encoding {
		*hits = read
	}
}

func (c *codec) line(l *coverage.Line) {
	branches, calls, conditions := len(l.Branches) > 0, len(l.Calls) > 0, len(l.Conditions) > 0
	c.flags(&l.Exceptional, &l.Uncounted, &branches, &calls, &conditions)
	if c.encoding {
		c.lines = append(c.lines, len(c.hits))
	}
	c.count(&l.Count)
	whole := l.Count > 0 && !l.Unexecuted
	c.shown(&whole)
	if !c.encoding {
		l.Unexecuted = l.Count > 0 && !whole
	}
	if branches {
		c.branches(l)
	}
	if calls {
		list(c, &l.Calls, func(call *coverage.Call) {
			reserved := false // a byte for each, as lists have
			c.flags(&reserved)
			c.count(&call.Count)
			c.count(&call.Returned)
		})
	}
	if conditions {
		list(c, &l.Conditions, func(condition *coverage.Condition) {
			c.number(&condition.Column)
			list(c, &condition.Terms, func(t *coverage.Term) {
				reserved := false
				c.flags(&reserved)
				c.shown(&t.True)
				c.shown(&t.False)
			})
		})
	}
}

// branches are those of a line. That they were evaluated is mostly the same for all of a decision.
func (c *codec) branches(l *coverage.Line) {
	var before coverage.Branch
	first := true
	list(c, &l.Branches, func(b *coverage.Branch) {
		c.number(&b.Block)
		same := !first && b.Block == before.Block && b.Evaluated == before.Evaluated
		place := b.Column != 0 || b.To != 0
		c.flags(&b.Fallthrough, &b.Throw, &b.List, &b.Guessed, &b.Exception, &place, &same)
		if place {
			c.number(&b.Column)
			c.number(&b.To)
		}
		c.count(&b.Count)
		switch {
		case !same:
			c.shown(&b.Evaluated)
		case !c.encoding:
			b.Evaluated = before.Evaluated
		}
		before, first = *b, false
	})
}
