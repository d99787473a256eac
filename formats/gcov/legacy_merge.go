package gcov

import (
	"bytes"
	"fmt"
)

// Merge adds the counts of other runs as programs do when they end: where all
// agrees. Until GCC 3.2 that is the number of counters.
func (c *LegacyCounts) Merge(o *LegacyCounts) error {
	switch {
	case c.Named != o.Named:
		return fmt.Errorf("%w: GCC %s and %s", ErrOtherBuild, legacyName(c.Named), legacyName(o.Named))
	case !c.Named && len(c.Values) != len(o.Values):
		return fmt.Errorf("%w: %d and %d counters", ErrOtherBuild, len(c.Values), len(o.Values))
	case !c.Named:
		for i, x := range o.Values {
			c.Values[i] += x
		}
		return nil
	}
	// Readers add up blocks.
	c.Blocks = append(c.Blocks, o.Blocks...)
	c.fold()
	return nil
}

// All returns the counters of all functions.
func (c *LegacyCounts) All() [][]int64 {
	list := [][]int64{c.Values}
	for _, k := range c.Blocks {
		for _, f := range k.Functions {
			list = append(list, f.Values)
		}
	}
	return list
}

// fold makes one block of those that have the same functions.
func (c *LegacyCounts) fold() {
	kept := c.Blocks[:0:0]
	for _, k := range c.Blocks {
		i := 0
		for i < len(kept) && !kept[i].add(&k) {
			i++
		}
		if i == len(kept) {
			kept = append(kept, k.clone())
		}
	}
	c.Blocks = kept
}

func (k *LegacyBlock) clone() LegacyBlock {
	d := LegacyBlock{Extension: bytes.Clone(k.Extension)}
	for _, f := range k.Functions {
		f.Values = append([]int64(nil), f.Values...)
		d.Functions = append(d.Functions, f)
	}
	return d
}

// add adds o if it has the same functions.
func (k *LegacyBlock) add(o *LegacyBlock) bool {
	if len(k.Functions) != len(o.Functions) || len(k.Extension) != len(o.Extension) {
		return false
	}
	for i := range k.Functions {
		f, g := &k.Functions[i], &o.Functions[i]
		if f.Name != g.Name || f.Checksum != g.Checksum || len(f.Values) != len(g.Values) {
			return false
		}
	}
	var sum, largest int64
	for i := range k.Functions {
		for j, x := range o.Functions[i].Values {
			v := &k.Functions[i].Values[j]
			*v += x
			sum += *v
			largest = max(largest, *v)
		}
	}
	k.extend(o, sum, largest)
	return true
}

// extend updates the figures: those of the program add up, those of the object
// are counted anew.
//
//	program: counters (4 bytes), sum, largest (8 each); object: the same
func (k *LegacyBlock) extend(o *LegacyBlock, sum, largest int64) {
	if len(k.Extension) != 40 {
		return
	}
	a, b := &legacyReader{b: k.Extension, pos: 4}, &legacyReader{b: o.Extension, pos: 4}
	program := [2]int64{a.counter() + b.counter(), max(a.counter(), b.counter())}
	w := appendCounter(bytes.Clone(k.Extension[:4]), program[0])
	w = append(appendCounter(w, program[1]), k.Extension[20:24]...)
	k.Extension = appendCounter(appendCounter(w, sum), largest)
}
