package gcov

import (
	"errors"
	"os"
	"strings"
)

// Reports know one form of notes and data: what GCC 2.91 to 3.3 wrote is
// brought into that of GCC 3.4, the oldest of it, and then read like the rest.

var legacyAsVersion = MakeVersion(3, 4)

// LegacySuffix is that of the notes of GCC before 3.4, as they stand in
// [Object].Notes.
const LegacySuffix = ".bb"

// legacy reads an object of GCC before 3.4: it puts the notes into o.notes, and
// returns the object with its data as images.
func (o *objectReader) legacy(obj Object) (Object, bool) {
	stem := strings.TrimSuffix(obj.Notes, LegacySuffix)
	bb, err := ReadFile(o.c.opt.Owners, obj.Notes, nil)
	if err != nil {
		o.c.bad(Unreadable, obj.Notes, err)
		return obj, false
	}
	bbg, err := ReadFile(o.c.opt.Owners, stem+".bbg", nil)
	if err != nil {
		o.c.bad(Unreadable, stem+".bbg", err)
		return obj, false
	}
	notes, err := ReadLegacyNotes(bb, bbg)
	if err != nil {
		file := obj.Notes
		if strings.HasPrefix(err.Error(), ".bbg") {
			file = stem + ".bbg"
		}
		o.c.bad(Damaged, file, err)
	}
	o.notes = notes.modern().Encode()
	o.stats.Bytes += int64(len(bb) + len(bbg) - len(o.notes))
	for _, file := range obj.Data {
		if counts, ok := o.legacyData(notes, file); ok {
			obj.Readings = append(obj.Readings, Reading{Name: file, Counts: counts})
		}
	}
	obj.Data = nil
	return obj, true
}

// legacyData reads a .da file.
func (o *objectReader) legacyData(notes *LegacyNotes, file string) (*Counts, bool) {
	b, err := ReadFile(o.c.opt.Owners, file, nil)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			o.c.bad(Unreadable, file, err)
		}
		return nil, false
	}
	counts, err := ReadLegacyCounts(b)
	if err != nil {
		o.c.bad(Damaged, file, err)
	} else if err := counts.Fits(notes); err != nil {
		o.c.bad(Rebuilt, file, err)
		if !counts.Named || !notes.Named {
			return nil, false
		}
	}
	return counts.modern(notes), true
}

// modern returns the notes as GCC 3.4 would write them. The arc from the exit to
// the entry is not among its arcs.
func (n *LegacyNotes) modern() *Notes {
	out := &Notes{Version: legacyAsVersion}
	source := ""
	for i, f := range n.BySite {
		fn := &FunctionGraph{
			Ident: uint32(i), LineChecksum: uint32(f.Graph.Checksum), Name: f.Name,
			Blocks: f.Graph.Blocks, BlockFlags: make([]uint32, f.Graph.Blocks), hasBlocks: true,
		}
		for _, a := range f.Graph.Arcs {
			if int(a.Src) != f.Graph.Blocks-1 {
				fn.Arcs = append(fn.Arcs, a)
			}
		}
		source = fn.locate(f.Lines, source)
		if fn.Source != "" && !registersCounters(f.Name) {
			out.Functions = append(out.Functions, fn)
		}
	}
	return out
}

// registersCounters tells whether a function is the constructor that GCC 2.91
// adds to each object.
func registersCounters(name string) bool {
	return strings.HasPrefix(name, "_GLOBAL_.I.") && strings.HasSuffix(name, "GCOV")
}

// locate takes the lines of the blocks. source is the file that was named last,
// and the one named last is returned.
func (fn *FunctionGraph) locate(tokens []LegacyToken, source string) string {
	block := 0
	open := false // a location of this block and source
	for _, t := range tokens {
		switch {
		case t.Number == TokenFile:
			source, open = t.Name, false
		case t.Number == 0:
			if n := len(fn.Locations); n > 0 {
				fn.Locations[n-1].closes = true
			}
			block++
			open = false
		case block < fn.Blocks && source != "":
			if fn.Source == "" {
				fn.Source, fn.StartLine = source, uint32(t.Number)
			}
			if !open {
				fn.Locations = append(fn.Locations, Location{Block: uint32(block), Source: source})
				open = true
			}
			l := &fn.Locations[len(fn.Locations)-1]
			l.Lines = append(l.Lines, uint32(t.Number))
		}
	}
	return source
}

// modern returns the counts as a program of GCC 3.4 would write them.
func (c *LegacyCounts) modern(n *LegacyNotes) *Counts {
	out := &Counts{Version: legacyAsVersion, Trailer: make([]byte, 4)}
	for i, f := range n.BySite {
		values, ok := c.Of(n, i)
		if !ok || registersCounters(f.Name) {
			continue
		}
		out.Functions = append(out.Functions, FunctionCounts{
			Ident: uint32(i), LineChecksum: uint32(f.Graph.Checksum),
			Counters: []Counters{{Kind: KindArcs, Values: values}},
		})
	}
	return out
}
