package gcov

import (
	"encoding/binary"
	"path/filepath"
	"strings"
)

// A LegacyObject is the part of one object in the dump of all that the GCOV
// patch for Linux of 2002 shows as /proc/gcov/vmlinux. Each has a word of 8
// bytes, the path of its .da file, padded with zeros to 8 bytes, and what would
// be in that file.
//
// The patch as it was posted takes the offset of a counter in this dump without
// the head before it: of each object the first counters are those that belong
// further on, and the last come from behind it.
type LegacyObject struct {
	Path   string
	Counts *LegacyCounts
}

// ReadLegacyDump decodes such a dump. On an error the objects are those before
// it.
func ReadLegacyDump(b []byte) ([]LegacyObject, error) {
	r := &legacyReader{b: b}
	var list []LegacyObject
	for r.pos < len(b) {
		r.counter() // the length of the path, or of all: it is not needed
		start := r.pos
		for r.pos < len(b) && b[r.pos] != 0 {
			r.pos++
		}
		path := string(b[start:r.pos])
		if r.pos = start + (len(path)/8+1)*8; r.err == nil && (r.pos > len(b) || !strings.HasSuffix(path, ".da")) {
			r.fail(start, "expected the path of a .da file, found %.40q", path)
		}
		at := r.pos
		n := r.counter()
		if r.err == nil && (n < 0 || n > int64(len(b)-r.pos)/8) {
			r.fail(at, "%d counters of %s, but only %d bytes are left", n, path, len(b)-r.pos)
		}
		if r.err != nil {
			break
		}
		c := &LegacyCounts{}
		for range n {
			c.Values = append(c.Values, r.counter())
		}
		list = append(list, LegacyObject{path, c})
	}
	return list, r.result()
}

// isLegacyDump tells whether a file begins like one.
func isLegacyDump(b []byte) bool {
	if len(b) < 24 || binary.LittleEndian.Uint64(b) > 1<<16 {
		return false
	}
	path, _, ok := strings.Cut(string(b[8:min(len(b), 8+4096)]), "\x00")
	return ok && strings.HasSuffix(path, ".da")
}

// legacy prints a file of GCC before 3.4 in words of our own. It returns false
// for another file.
func (d *dumper) legacy(name string, b []byte) bool {
	var err error
	switch ext := filepath.Ext(name); {
	case ext == ".bb":
		var tokens []LegacyToken
		tokens, err = readLegacyLines(b)
		d.legacyLines(name, tokens)
	case ext == ".bbg":
		var graphs []*LegacyGraph
		graphs, err = readLegacyGraphs(b, namedGraph(b))
		d.legacyGraphs(name, graphs)
	case ext == ".da":
		var c *LegacyCounts
		c, err = ReadLegacyCounts(b)
		d.legacyCounts(name, c)
	case isLegacyDump(b):
		var list []LegacyObject
		list, err = ReadLegacyDump(b)
		d.printf("%s:counters of %d objects, as /proc/gcov/vmlinux of the GCOV patch shows them\n", name, len(list))
		d.printf("%s:warning:unless the patch was mended, counts here are not in their places: use the files of single objects\n", name)
		for _, o := range list {
			d.printf("%s:OBJECT %s\n", name, o.Path)
			d.legacyCounts(name, o.Counts)
		}
	default:
		return false
	}
	if err != nil {
		d.printf("%s:%v\n", name, err)
	}
	return true
}

func (d *dumper) legacyLines(name string, tokens []LegacyToken) {
	block := 0
	open := false
	for _, t := range tokens {
		switch {
		case t.Number == tokenFunction:
			if open {
				d.printf("\n")
			}
			d.printf("%s:FUNCTION `%s'\n", name, t.Name)
			block, open = 0, false
		case !d.contents:
		case t.Number == 0:
			if open {
				d.printf("\n")
			}
			block++
			open = false
		default:
			if !open {
				d.printf("%s:  block %d:", name, block)
				open = true
			}
			if t.Number == tokenFile {
				d.printf(" `%s'", t.Name)
			} else {
				d.printf(" %d", t.Number)
			}
		}
	}
	if open {
		d.printf("\n")
	}
}

func (d *dumper) legacyGraphs(name string, graphs []*LegacyGraph) {
	for i, g := range graphs {
		d.printf("%s:FUNCTION %d", name, i)
		if g.Name != "" {
			d.printf(" `%s', checksum=%d", g.Name, g.Checksum)
		}
		d.printf(" %d blocks, %d arcs, %d counted\n", g.Blocks, len(g.Arcs), g.counted)
		last := int64(-1)
		for _, a := range g.Arcs {
			if !d.contents {
				break
			}
			if int64(a.Src) != last {
				if last >= 0 {
					d.printf("\n")
				}
				d.printf("%s:  block %d:", name, a.Src)
				last = int64(a.Src)
			}
			d.arc(a.Dst, a.Flags)
		}
		if last >= 0 {
			d.printf("\n")
		}
	}
}

func (d *dumper) legacyCounts(name string, c *LegacyCounts) {
	if !c.Named {
		d.printf("%s:COUNTERS %d counts\n", name, len(c.Values))
		d.legacyValues(name, c.Values)
	}
	for i, k := range c.Blocks {
		d.printf("%s:BLOCK %d of %d functions, extension of %d bytes\n", name, i, len(k.Functions), len(k.Extension))
		for _, f := range k.Functions {
			d.printf("%s:FUNCTION `%s', checksum=%d %d counts\n", name, f.Name, f.Checksum, len(f.Values))
			d.legacyValues(name, f.Values)
		}
	}
}

func (d *dumper) legacyValues(name string, values []int64) {
	for i, x := range values {
		if !d.contents {
			return
		}
		if i%8 == 0 {
			if i > 0 {
				d.printf("\n")
			}
			d.printf("%s:  %2d:", name, i)
		}
		d.printf(" %d", x)
	}
	if d.contents && len(values) > 0 {
		d.printf("\n")
	}
}
