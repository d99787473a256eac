package llvm

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"strconv"
)

// This file writes profiles in text, see text.go.

// externalSymbol stands for a function that no profile names.
const externalSymbol = "** External Symbol **"

// Text returns the sum as the tools of an LLVM write it with merge -text; sparse leaves out functions in which nothing
// ran.
func (x *Indexer) Text(version int, sparse bool) []byte {
	var b bytes.Buffer
	for _, word := range []struct {
		flag uint64
		text string
	}{
		{FlagIR, "# IR level Instrumentation Flag\n:ir\n"},
		{FlagContext, "# CSIR level Instrumentation Flag\n:csir\n"},
		{FlagEntry, "# Always instrument the function entry block\n:entry_first\n"},
		{FlagSingleBytes, "# Instrument block coverage\n:single_byte_coverage\n"},
		{FlagLoopEntries, "# Always instrument the loop entry blocks\n:instrument_loop_entries\n"},
	} {
		if x.flags&word.flag != 0 && (word.flag != FlagIR || x.flags&FlagContext == 0) {
			b.WriteString(word.text)
		}
	}
	names := make(Names)
	list := x.byNames(version, sparse)
	for _, f := range list {
		names[f.hash] = f.name
	}
	for _, f := range list {
		for _, c := range f.counted {
			c := *c
			c.Name = f.name
			c.AppendText(&b, names)
		}
	}
	return b.Bytes()
}

// Names are those of the profile's functions, and of those that they call if the profile tells them.
func (p *Profile) Names() Names {
	names := make(Names, len(p.Counted))
	maps.Copy(names, p.targets)
	for i := range p.Counted {
		names[p.Counted[i].NameHash] = p.Counted[i].Name
	}
	return names
}

// target is the name of a function that was called, or of a table.
func (n Names) target(hash uint64) string { return cmp.Or(n[hash], externalSymbol) }

var kindNames = [...]string{"IPVK_IndirectCallTarget", "IPVK_MemOPSize", "IPVK_VTableTarget"}

// AppendText writes a function and its counts in text; names are those of functions that it calls.
func (c *Counted) AppendText(b *bytes.Buffer, names Names) {
	fmt.Fprintf(b, "%s\n# Func Hash:\n%d\n# Num Counters:\n%d\n# Counter Values:\n", c.Name, c.Hash, len(c.Counts))
	line := func(n uint64) { b.WriteString(strconv.FormatUint(n, 10)); b.WriteByte('\n') }
	for _, n := range c.Counts {
		line(n)
	}
	if len(c.Bitmap) > 0 {
		fmt.Fprintf(b, "# Num Bitmap Bytes:\n$%d\n# Bitmap Byte Values:\n", len(c.Bitmap))
		for _, bits := range c.Bitmap {
			fmt.Fprintf(b, "0x%x\n", bits)
		}
		b.WriteByte('\n')
	}
	kinds := 0
	for _, sites := range c.Values {
		if len(sites) > 0 {
			kinds++
		}
	}
	if kinds > 0 {
		fmt.Fprintf(b, "# Num Value Kinds:\n%d\n", kinds)
	}
	for kind, sites := range c.Values {
		if len(sites) == 0 {
			continue
		}
		fmt.Fprintf(b, "# ValueKind = %s:\n%d\n# NumValueSites:\n%d\n", kindNames[kind], kind, len(sites))
		for _, site := range sites {
			line(uint64(len(site)))
			for _, v := range site {
				if kind == MemorySizes {
					fmt.Fprintf(b, "%d:%d\n", v.Value, v.Count)
				} else {
					fmt.Fprintf(b, "%s:%d\n", names.target(v.Value), v.Count)
				}
			}
		}
	}
	b.WriteByte('\n')
}
