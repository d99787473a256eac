package gocover

import (
	"cmp"
	"math"
	"path"
	"slices"
	"strings"

	"footfall/coverage"
)

// A CollectOptions says how Collect works.
type CollectOptions struct {
	// Source says which file a source is that the meta-data of a program name, and whether it is wanted.
	Source func(p *Pod, name string) (path string, keep bool)
	// Read returns a source, nil if it is not there.
	Read func(path string) *Source
	// Wanted tells which packages are, by their import paths; nil: all.
	Wanted func(pkg string) bool
}

// Stats are what Collect found.
type Stats struct {
	Packages, Functions int
	Missing             []string // sources that are not there
	Differ              []string // sources that are not those that were compiled
	TooLong             []string // sources with more lines than the meta-data are likely to be for
}

// Collect makes a set of what programs have run. What several of them have in common, functions of the same blocks,
// counts together, as often as it ran in all.
func Collect(pods []*Pod, o CollectOptions) (*coverage.Set, Stats) {
	c := collector{options: o, files: make(map[string]*file), paths: make(map[sourceKey]string)}
	packages := make(map[string]bool)
	for _, p := range pods {
		for i := range p.Packages {
			pkg := &p.Packages[i]
			c.read += int64(len(pkg.Bytes))
			if o.Wanted != nil && !o.Wanted(pkg.Path) {
				continue
			}
			packages[pkg.Path] = true
			for k := range pkg.Functions {
				c.add(p, pkg, &pkg.Functions[k], p.Counts[i][k])
			}
		}
	}
	c.stats.Packages = len(packages)
	var sum coverage.Sum
	for _, name := range c.order {
		if f := c.files[name]; f != nil {
			sum.Add(c.build(f))
		}
	}
	return sum.Set(), c.stats
}

type collector struct {
	options CollectOptions
	files   map[string]*file // by path
	order   []string         // of paths
	paths   map[sourceKey]string
	read    int64 // bytes of meta-data
	liner   Liner
	stats   Stats
}

// A file is a source with all blocks in it.
type file struct {
	path      string
	pkg       string // name of the package
	units     map[CoverableUnit]int
	blocks    []Block
	ran       []bool // of blocks: how often is not known
	whole     bool   // only functions are counted, not their blocks
	functions map[functionKey]*compiled
	order     []*compiled
}

type functionKey struct {
	name  string
	first CoverableUnit
}

// A compiled function is one as meta-data tell of it.
type compiled struct {
	name    string
	literal bool
	blocks  []int // of the file
}

// A sourceKey is a source as a program names it.
type sourceKey struct {
	program *Pod
	name    string
}

// path is "" for a source that is not wanted.
func (c *collector) path(p *Pod, name string) string {
	key := sourceKey{p, name}
	at, known := c.paths[key]
	if !known {
		if found, keep := c.options.Source(p, name); keep {
			at = found
		}
		c.paths[key] = at
	}
	return at
}

func (c *collector) add(p *Pod, pkg *Package, fn *FuncDesc, counts []uint64) {
	at := c.path(p, fn.File)
	if at == "" {
		return
	}
	f := c.files[at]
	if f == nil {
		f = &file{path: at, pkg: cmp.Or(pkg.Name, path.Base(pkg.Path)), units: make(map[CoverableUnit]int), functions: make(map[functionKey]*compiled)}
		c.files[at] = f
		c.order = append(c.order, at)
	}
	key := functionKey{name: fn.Name}
	if len(fn.Units) > 0 {
		key.first = fn.Units[0]
	}
	of := f.functions[key]
	isNew := of == nil
	if isNew {
		of = &compiled{name: fn.Name, literal: fn.Literal}
		f.functions[key] = of
		f.order = append(f.order, of)
		c.stats.Functions++
	}
	f.whole = f.whole || p.Granularity == PerFunction
	for i, u := range fn.Units {
		var n uint64
		if counts != nil {
			n = counts[i]
		}
		if k := f.block(u, p.Mode, n); k >= 0 && isNew {
			of.blocks = append(of.blocks, k)
		}
	}
}

const mostLine = 1 << 24 // of a source

// block adds a count to a block, and returns its number in the file, -1 for what can be none.
func (f *file) block(u CoverableUnit, mode Mode, n uint64) int {
	if max(u.Line, u.EndLine) > mostLine || u.Line == 0 || u.EndLine < u.Line || max(u.Column, u.EndColumn) > math.MaxInt32 {
		return -1
	}
	k, known := f.units[u]
	if !known {
		k = len(f.blocks)
		f.units[u] = k
		f.blocks = append(f.blocks, Block{
			Start: Position{int32(u.Line), int32(u.Column)}, End: Position{int32(u.EndLine), int32(u.EndColumn)},
		})
		f.ran = append(f.ran, false)
	}
	if mode == Set {
		f.ran[k] = f.ran[k] || n > 0
	} else {
		// Both have 63 bits: the sum has at most 64.
		sum := uint64(f.blocks[k].Count) + min(n, math.MaxInt64)
		f.blocks[k].Count = int64(min(sum, math.MaxInt64))
	}
	return k
}

func (c *collector) build(f *file) *coverage.File {
	out := &coverage.File{Name: f.path}
	for k, ran := range f.ran {
		if ran {
			f.blocks[k].Count = max(f.blocks[k].Count, 1)
		}
	}
	source := c.options.Read(f.path)
	if source == nil {
		c.stats.Missing = append(c.stats.Missing, f.path)
	}
	if source != nil && !f.whole && !f.isOf(source) {
		c.stats.Differ = append(c.stats.Differ, f.path)
	}
	var functions []coverage.Function
	if source == nil || f.whole {
		functions = f.compiled() // before lines: these sort the blocks
	}
	lines, _, beyond := c.liner.Lines(f.blocks, source, c.read)
	if beyond > 0 {
		c.stats.TooLong = append(c.stats.TooLong, f.path)
	}
	if functions == nil {
		functions = source.Functions(f.blocks)
	}
	out.Lines = lines
	for i := range functions {
		out.Functions = append(out.Functions, &functions[i])
	}
	out.Normalize()
	return out
}

// isOf tells whether all functions begin where functions of the source do.
func (f *file) isOf(s *Source) bool {
	for _, fn := range f.order {
		if len(fn.blocks) > 0 && !s.Has(f.blocks[slices.MinFunc(fn.blocks, f.byStart)].Start) {
			return false
		}
	}
	return true
}

func (f *file) byStart(a, b int) int { return f.blocks[a].Start.Compare(f.blocks[b].Start) }

// compiled are the functions as meta-data tell of them: from the first block to the end of the last.
func (f *file) compiled() []coverage.Function {
	list := []coverage.Function{}
	for _, fn := range f.order {
		if len(fn.blocks) == 0 {
			continue
		}
		slices.SortFunc(fn.blocks, f.byStart)
		first := &f.blocks[fn.blocks[0]]
		end, ran := first.End, int32(0)
		for _, k := range fn.blocks {
			b := &f.blocks[k]
			if b.Count > 0 {
				ran++
			}
			if b.End.Compare(end) > 0 {
				end = b.End
			}
		}
		name := f.pkg + "." + shownName(fn.name)
		list = append(list, coverage.Function{
			Name: name, StartLine: first.Start.Line, EndLine: end.Line, Count: first.Count, Blocks: int32(len(fn.blocks)), BlocksExecuted: ran,
			Instances: []coverage.Instance{{Name: name, Count: first.Count, Blocks: int32(len(fn.blocks)), BlocksExecuted: ran}},
		})
	}
	return list
}

// shownName makes (*server).handle of *server.handle.
func shownName(name string) string {
	if receiver, method, ok := strings.Cut(name, "."); ok && strings.HasPrefix(receiver, "*") {
		return "(" + receiver + ")." + method
	}
	return name
}
