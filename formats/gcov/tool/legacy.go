package tool

import (
	"path/filepath"

	"footfall/formats/gcov"
)

// legacy prints a file of GCC before 3.4 in words of our own. It returns false
// for another file.
func (d *dumper) legacy(name string, b []byte) bool {
	var err error
	switch ext := filepath.Ext(name); {
	case ext == ".bb":
		var tokens []gcov.LegacyToken
		tokens, err = gcov.ReadLegacyLines(b)
		d.legacyLines(name, tokens)
	case ext == ".bbg":
		var graphs []*gcov.LegacyGraph
		graphs, err = gcov.ReadLegacyGraphs(b, gcov.NamedGraph(b))
		d.legacyGraphs(name, graphs)
	case ext == ".da":
		var c *gcov.LegacyCounts
		c, err = gcov.ReadLegacyCounts(b)
		d.legacyCounts(name, c)
	case gcov.IsLegacyDump(b):
		var list []gcov.LegacyObject
		list, err = gcov.ReadLegacyDump(b)
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

func (d *dumper) legacyLines(name string, tokens []gcov.LegacyToken) {
	block := 0
	open := false
	for _, t := range tokens {
		switch {
		case t.Number == gcov.TokenFunction:
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
			if t.Number == gcov.TokenFile {
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

func (d *dumper) legacyGraphs(name string, graphs []*gcov.LegacyGraph) {
	for i, g := range graphs {
		d.printf("%s:FUNCTION %d", name, i)
		if g.Name != "" {
			d.printf(" `%s', checksum=%d", g.Name, g.Checksum)
		}
		d.printf(" %d blocks, %d arcs, %d counted\n", g.Blocks, len(g.Arcs), g.Counted)
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

func (d *dumper) legacyCounts(name string, c *gcov.LegacyCounts) {
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
