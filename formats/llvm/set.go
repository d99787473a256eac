package llvm

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"footfall/coverage"

	"footfall/formats/cursor"
)

// This file makes a coverage.Set. Functions that several binaries have, byte for byte, are one with the sum of their
// counts. One that binaries have in several versions, as compiled with other options, is counted as often: other than
// llvm-cov, which takes the first, nothing is left out. Names of local functions are those of the linker, without
// that of their file.

// setRules are those of the newest llvm-cov.
var setRules = Rules{Version: 23}

// An Image is a binary with its own counts.
type Image struct {
	*Binary
	// Dir is where names of files are seen from if the compiler did not say where it ran.
	Dir string
	// Built is when it was written.
	Built time.Time
	// Counts are those of profiles that belong to it; nil: there are none.
	Counts *Sum
}

// A CollectOptions says how Collect works.
type CollectOptions struct {
	// Source says which file a name is that was recorded in a directory, and whether it is wanted.
	Source func(dir, name string) (path string, keep bool)
	// Built, unless nil, is told of each wanted file when a binary with code of it was written.
	Built func(path string, t time.Time)
	// Shared are counts of which is not known which binary counted: each counts for a function once.
	Shared []Shared
}

// Shared are counts of several binaries together.
type Shared struct {
	*Sum
	// Of tells whether a binary may be one of them; nil: all may.
	Of func(*Binary) bool
}

// Stats are what Collect found.
type Stats struct {
	Functions  int // distinct ones
	Impossible int // of these, with negative counts: of threads, or of code that was left otherwise
	OldBitmaps int // of these, whose bitmaps (MC/DC) of LLVM 18 could not be added to others, and were left out
	Mismatches []Mismatch
	Damaged    []Damage
}

// Collect returns the coverage of images.
func Collect(images []Image, o CollectOptions) (*coverage.Set, Stats) {
	c := newCollector(o)
	for _, im := range images {
		c.image(im)
	}
	functions := c.evaluate()
	return c.set(functions), c.stats
}

func newCollector(o CollectOptions) *collector {
	return &collector{options: o, distinct: make(map[distinctKey]*distinct), seed: maphash.MakeSeed(), files: make(map[fileKey]int32), paths: make(map[string]int32)}
}

type collector struct {
	options  CollectOptions
	seed     maphash.Seed
	distinct map[distinctKey]*distinct
	order    []*distinct
	files    map[fileKey]int32 // numbers of paths, -1: not wanted
	paths    map[string]int32
	names    []string // of paths
	real     map[variantKey]bool
	stats    Stats
}

type fileKey struct{ dir, name string }

type distinctKey struct{ name, hash, mapping uint64 }

// A distinct function is a function with the sum of its counts.
type distinct struct {
	record *Record
	binary string
	files  []int32 // numbers of the paths of its files
	counts []uint64
	whole  []uint64 // see Counted.Whole
	bitmap []byte
	shared []bool // which of the shared counts are in
	known  bool   // some profile has its name
	fits   bool   // and its hash
	old    bool   // see Profile.OldBitmaps
	mixed  bool   // bitmaps were left out
	layer  int
}

// path is the number of a file, -1 if it is not wanted.
func (c *collector) path(u *unit, i int, dir string) int32 {
	key := fileKey{u.from(dir), u.files[i]}
	if n, ok := c.files[key]; ok {
		return n
	}
	path, keep := c.options.Source(key.dir, key.name)
	n, ok := c.paths[path]
	switch {
	case !keep:
		n = -1
	case !ok:
		n = int32(len(c.names))
		c.names = append(c.names, path)
		c.paths[path] = n
	}
	c.files[key] = n
	return n
}

// image adds the functions of an image.
func (c *collector) image(im Image) {
	numbers := make(map[*unit][]int32)
	var buf []byte
	for _, r := range im.Records {
		of := numbers[r.unit]
		if of == nil {
			for i := range r.unit.files {
				n := c.path(r.unit, i, im.Dir)
				if of = append(of, n); n >= 0 && c.options.Built != nil {
					c.options.Built(c.names[n], im.Built)
				}
			}
			numbers[r.unit] = of
		}
		d := &reader{cursor.Reader{B: r.mapping}}
		indices := d.fileIndices(nil, r.unit)
		if d.Err != nil {
			c.stats.Damaged = append(c.stats.Damaged, Damage{r.Name(), im.Name, d.Err})
			continue
		}
		files := make([]int32, len(indices))
		buf = buf[:0]
		for i, index := range indices {
			files[i] = of[index]
			buf = binary.LittleEndian.AppendUint32(buf, uint32(files[i]))
		}
		buf = append(buf, r.mapping[d.At:]...)
		key := distinctKey{r.NameHash, r.Hash, maphash.Bytes(c.seed, buf)}
		f := c.distinct[key]
		if f == nil {
			f = &distinct{record: r, binary: im.Name, files: files}
			c.distinct[key] = f
			c.order = append(c.order, f)
		}
		f.take(im.Counts, r)
		for i := range c.options.Shared {
			f.share(c.options.Shared, i, im.Binary, r)
		}
	}
}

// share takes shared counts, which are many that have the same build IDs, once.
func (f *distinct) share(all []Shared, i int, b *Binary, r *Record) {
	if f.shared == nil {
		f.shared = make([]bool, len(all))
	}
	if s := &all[i]; !f.shared[i] && (s.Of == nil || s.Of(b)) {
		f.shared[i] = true
		f.take(s.Sum, r)
	}
}

// take adds the counts of a sum.
func (f *distinct) take(s *Sum, r *Record) {
	c, known := s.find(r)
	f.known = f.known || known
	if c == nil {
		return
	}
	f.fits = true
	bitmap := c.Bitmap
	if f.counts == nil {
		f.counts, f.whole, f.bitmap, f.old = slices.Clone(c.Counts), slices.Clone(c.Whole), slices.Clone(bitmap), s.old
		return
	}
	if len(f.counts) != len(c.Counts) {
		return
	}
	sum := Counted{Counts: f.counts, Whole: f.whole}
	sum.add(&Counted{Counts: c.Counts, Whole: c.Whole})
	f.whole = sum.Whole
	switch {
	case len(bitmap) == 0:
	case len(f.bitmap) == 0:
		f.bitmap, f.old = slices.Clone(bitmap), s.old
	case f.old != s.old:
		// Their bits are other ones: those of newer versions stay.
		if f.mixed = true; f.old {
			f.bitmap, f.old = slices.Clone(bitmap), false
		}
	case len(f.bitmap) == len(bitmap):
		for i, bits := range bitmap {
			f.bitmap[i] |= bits
		}
	}
}

// variantKey is a function of a source.
type variantKey struct {
	name uint64
	file int32
}

func (f *distinct) variant() variantKey {
	key := variantKey{f.record.NameHash, -1}
	if len(f.files) > 0 {
		key.file = f.files[0]
	}
	return key
}

// A counted function is one with the numbers of its files.
type countedFunction struct {
	*Function
	record     *Record
	paths      []int32
	symbol     string
	layer      int
	impossible bool
	unused     bool // it is a dummy of its unit
}

// evaluate computes the counts of the functions' regions.
func (c *collector) evaluate() []*countedFunction {
	c.real = make(map[variantKey]bool)
	for _, f := range c.order {
		if !f.record.dummy {
			c.real[f.variant()] = true
		}
	}
	layers := make(map[variantKey]int)
	var list []*distinct
	for _, f := range c.order {
		switch {
		case f.record.dummy && (f.known || c.real[f.variant()]):
			continue // another unit uses it
		case f.known && !f.fits:
			c.stats.Mismatches = append(c.stats.Mismatches, Mismatch{f.record.Name(), f.record.Hash, f.binary})
			continue
		case !slices.ContainsFunc(f.files, func(n int32) bool { return n >= 0 }):
			continue
		}
		v := f.variant()
		f.layer = layers[v]
		layers[v]++
		list = append(list, f)
	}
	functions := make([]*countedFunction, len(list))
	failed := make([]error, len(list))
	coverage.Parallel(len(list), func(i int) { functions[i], failed[i] = list[i].evaluate() })
	room := uint64(1 << 22)
	for i, f := range functions {
		if room += 64 * uint64(len(list[i].record.mapping)); f == nil {
			continue
		}
		if n := f.lines(); n <= room {
			room -= n
		} else {
			functions[i], failed[i] = nil, fmt.Errorf("%d lines, far more than its bytes are for", n)
		}
	}
	for i, err := range failed {
		if err != nil {
			c.stats.Damaged = append(c.stats.Damaged, Damage{list[i].record.Name(), list[i].binary, err})
		} else if functions[i] != nil {
			c.stats.Impossible += int(b2u(functions[i].impossible))
			c.stats.OldBitmaps += int(b2u(list[i].mixed))
		}
	}
	functions = slices.DeleteFunc(functions, func(f *countedFunction) bool { return f == nil })
	c.stats.Functions = len(functions)
	return functions
}

func (f *distinct) evaluate() (*countedFunction, error) {
	m, err := f.record.decode()
	if err != nil {
		return nil, err
	}
	counts, bitmap := f.counts, f.bitmap
	if counts == nil {
		counts = m.zeros()
	}
	if len(m.regions) == 1 && m.regions[0].count.isZero() && len(counts) > 0 && counts[0] > 0 {
		return nil, nil // another unit uses it, and has counted
	}
	rules := setRules
	rules.OldBitmaps = f.old
	files, name := f.record.fileNames(m.files), f.record.Name()
	function, err := m.function(f.record.Hash, shownName(name, files), files, &evaluation{}, counts, bitmap, &rules, nil)
	if err != nil || function.Main < 0 {
		return nil, err
	}
	if f.whole != nil {
		whole, err := m.function(f.record.Hash, shownName(name, files), files, &evaluation{}, f.whole, bitmap, &rules, nil)
		if err == nil {
			function.ranBy(whole)
		}
	}
	cf := &countedFunction{Function: function, record: f.record, paths: f.files, layer: f.layer, symbol: symbol(name), unused: f.record.dummy}
	if !slices.ContainsFunc(counts, func(n uint64) bool { return n > math.MaxInt64 }) { // else they are that large
		cf.possible()
	}
	return cf, nil
}

// ranBy has what ran by other counts of the function have run once, unless it has more often.
func (f *Function) ranBy(whole *Function) {
	once := func(n *uint64, whole uint64) {
		if int64(*n) <= 0 && int64(whole) > 0 {
			*n = 1
		}
	}
	for _, lists := range [][2][]Region{{f.Regions, whole.Regions}, {f.Branches, whole.Branches}} {
		for i := range min(len(lists[0]), len(lists[1])) {
			once(&lists[0][i].Count, lists[1][i].Count)
			once(&lists[0][i].FalseCount, lists[1][i].FalseCount)
		}
	}
	once(&f.Count, whole.Count)
}

// possible takes 0 for counts below it, which come from counters that were read or written in between.
func (f *countedFunction) possible() {
	for _, list := range [][]Region{f.Regions, f.Branches} {
		for i := range list {
			for _, n := range []*uint64{&list[i].Count, &list[i].FalseCount} {
				if int64(*n) < 0 {
					*n, f.impossible = 0, true
				}
			}
		}
	}
	if int64(f.Count) < 0 {
		f.Count = 0
	}
}

// lines is how many lines the function has at most: a region of a few bytes may have many.
func (f *countedFunction) lines() (n uint64) {
	low, high := make([]uint32, len(f.Files)), make([]uint32, len(f.Files))
	for i := range f.Regions {
		g := &f.Regions[i]
		if low[g.File] == 0 {
			low[g.File] = g.Line
		}
		low[g.File], high[g.File] = min(low[g.File], g.Line), max(high[g.File], g.EndLine)
	}
	for i := range low {
		n += uint64(high[i]-low[i]) + 1
	}
	return n
}

// symbol is the name that the linker knows: those of local functions begin with the name of the file that was compiled,
// as it was given to the compiler, and : or ;. Methods of Objective-C have a : too, and a [ before it.
func symbol(name string) string {
	if i := strings.IndexAny(name, ":;["); i > 0 && name[i] != '[' && i+1 < len(name) && path.Ext(name[:i]) != "" {
		return name[i+1:]
	}
	return name
}

// set makes the files of all functions.
func (c *collector) set(functions []*countedFunction) *coverage.Set {
	type part struct {
		path  int32
		layer int
	}
	parts := make(map[part][]*countedFunction)
	for _, f := range functions {
		for i, path := range f.paths {
			if path >= 0 && !slices.Contains(f.paths[:i], path) {
				key := part{path, f.layer}
				parts[key] = append(parts[key], f)
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(parts), func(a, b part) int { return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.layer, b.layer)) })
	files := make([]*coverage.File, len(keys))
	coverage.Parallel(len(keys), func(i int) {
		b := fileBuilder{names: c.names, path: keys[i].path, functions: parts[keys[i]], file: &coverage.File{Name: c.names[keys[i].path]}}
		files[i] = b.build()
	})
	var sum coverage.Sum
	for _, f := range files {
		if len(f.Lines)+len(f.Functions) > 0 {
			sum.Add(f)
		}
	}
	return sum.Set()
}

// A fileBuilder makes a file of the functions with regions in it.
type fileBuilder struct {
	names     []string // of paths
	path      int32
	functions []*countedFunction
	file      *coverage.File
}

func (b *fileBuilder) build() *coverage.File {
	var regions []*Region
	for _, f := range b.functions {
		for i := range f.Regions {
			if f.paths[f.Regions[i].File] == b.path {
				regions = append(regions, &f.Regions[i])
			}
		}
	}
	lineCounts(segments(regions, &setRules), &setRules, func(l LineCount) {
		count := clamp(l.Count)
		b.file.Lines = append(b.file.Lines, coverage.Line{Number: int32(l.Number), Count: count, Unexecuted: l.Missed && count > 0})
	})
	b.groups()
	b.branches()
	b.conditions()
	b.expansions()
	return b.file
}

// clamp is a count as coverage has it.
func clamp(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// isMain tells whether a function is defined in the file.
func (b *fileBuilder) isMain(f *countedFunction) bool { return f.paths[f.Main] == b.path }

// groups makes functions of those that begin at one place.
func (b *fileBuilder) groups() {
	index := make(map[place]*coverage.Function)
	instances := make(map[place]map[string][]*countedFunction)
	for _, f := range b.functions {
		first := f.first(f.Main)
		if !b.isMain(f) || first == nil {
			continue
		}
		at := first.start()
		if index[at] == nil {
			index[at] = &coverage.Function{
				Unused: true, StartLine: int32(first.Line), StartColumn: column(first.Column),
			}
			instances[at] = make(map[string][]*countedFunction)
		}
		if end := f.last(f.Main); end.line > uint32(index[at].EndLine) {
			index[at].EndLine, index[at].EndColumn = int32(end.line), column(end.column)
		}
		index[at].Unused = index[at].Unused && f.unused
		instances[at][f.symbol] = append(instances[at][f.symbol], f)
	}
	for at, fn := range index {
		for _, name := range slices.Sorted(maps.Keys(instances[at])) {
			in := instanceOf(name, instances[at][name], len(instances[at]) > 1)
			fn.Instances = append(fn.Instances, in)
			fn.Count = clamp(add(uint64(fn.Count), uint64(in.Count)))
			if in.BlocksExecuted > fn.BlocksExecuted || fn.Blocks == 0 {
				fn.Blocks, fn.BlocksExecuted = in.Blocks, in.BlocksExecuted
			}
			fn.Regions, fn.RegionsRun = max(fn.Regions, in.Blocks), max(fn.RegionsRun, in.BlocksExecuted)
		}
		fn.Name = fn.Instances[0].Name
		b.file.Functions = append(b.file.Functions, fn)
	}
	slices.SortFunc(b.file.Functions, coverage.CompareFunctions)
}

// column is one that is known; whole lines end at the largest number.
func column(n uint32) int32 {
	if n > math.MaxInt32 {
		return 0
	}
	return int32(n)
}

// instanceOf adds up functions of one name, which are local ones of several units.
func instanceOf(name string, list []*countedFunction, lines bool) coverage.Instance {
	in := coverage.Instance{Name: name}
	var own []coverage.Line
	for _, f := range list {
		in.Count = clamp(add(uint64(in.Count), f.Count))
		ratio := Ratio{}
		for i := range f.Regions {
			if g := &f.Regions[i]; g.Kind == Code {
				ratio.count(g.Count > 0)
			}
		}
		if in.Blocks == 0 || int32(ratio.Covered) > in.BlocksExecuted {
			in.Blocks, in.BlocksExecuted = int32(ratio.Total), int32(ratio.Covered)
		}
		if !lines {
			continue
		}
		lineCounts(segments(f.regionsIn(f.Main), &setRules), &setRules, func(l LineCount) {
			i, found := slices.BinarySearchFunc(own, int32(l.Number), func(o coverage.Line, n int32) int { return cmp.Compare(o.Number, n) })
			if !found {
				own = slices.Insert(own, i, coverage.Line{Number: int32(l.Number)})
			}
			own[i].Count = clamp(add(uint64(own[i].Count), l.Count))
		})
	}
	if lines {
		last := int32(0)
		for _, l := range own {
			in.Lines = in.Lines.Add(&last, l.Number, l.Count)
		}
	}
	return in
}

// line is that of a number, or the last one before it with code: a macro may be used on a line of a statement that
// has none of its own. It is nil if there is none.
func (b *fileBuilder) line(n uint32) *coverage.Line {
	i, found := slices.BinarySearchFunc(b.file.Lines, int32(n), func(l coverage.Line, n int32) int { return cmp.Compare(l.Number, n) })
	if !found {
		i--
	}
	if i < 0 {
		return nil
	}
	return &b.file.Lines[i]
}

// A placed branch is one with the place of the expansions that lead to it.
type placedBranch struct {
	path               []place // at least one
	at, end            place
	nth                int // of those at this place in its function: the operands of a macro have one
	count, other       uint64
	foldTrue, foldElse bool
}

func comparePlaced(a, b placedBranch) int {
	return cmp.Or(slices.CompareFunc(a.path, b.path, comparePlaces), comparePlaces(a.at, b.at), comparePlaces(a.end, b.end), cmp.Compare(a.nth, b.nth))
}

// branches gives lines their branches, those of macros where they are used. Instances are added.
func (b *fileBuilder) branches() {
	var list []placedBranch
	for _, f := range b.functions {
		if !b.isMain(f) {
			continue
		}
		from := len(list)
		put := func(r *Region, path []place) {
			foldTrue, foldElse := setRules.ways(r)
			list = append(list, placedBranch{path, r.start(), r.end(), 0, r.Count, r.FalseCount, foldTrue, foldElse})
		}
		for i := range f.Branches {
			if r := &f.Branches[i]; r.File == f.Main {
				put(r, []place{r.start()})
			}
		}
		for _, e := range f.expandedBranches(f.Main) {
			put(e.Region, e.path)
		}
		own := list[from:]
		slices.SortStableFunc(own, comparePlaced)
		for i := 1; i < len(own); i++ {
			previous := own[i-1]
			if previous.nth = 0; comparePlaced(previous, own[i]) == 0 {
				own[i].nth = own[i-1].nth + 1
			}
		}
	}
	slices.SortStableFunc(list, comparePlaced)
	for len(list) > 0 {
		n := 1
		sum := list[0]
		for ; n < len(list) && comparePlaced(list[n], sum) == 0; n++ {
			sum.count, sum.other = add(sum.count, list[n].count), add(sum.other, list[n].other)
			sum.foldTrue, sum.foldElse = sum.foldTrue && list[n].foldTrue, sum.foldElse && list[n].foldElse
		}
		list = list[n:]
		if l := b.line(sum.path[0].line); l != nil {
			l.Branches = appendWays(l.Branches, &sum)
		}
	}
}

func appendWays(branches []coverage.Branch, b *placedBranch) []coverage.Branch {
	block := int32(0)
	if n := len(branches); n > 0 {
		block = branches[n-1].Block + 1
	}
	way := coverage.Branch{Block: block, Column: column(b.path[0].column), Evaluated: add(b.count, b.other) > 0}
	if !b.foldTrue {
		way.Count = clamp(b.count)
		branches = append(branches, way)
	}
	if !b.foldElse {
		way.Count = clamp(b.other)
		branches = append(branches, way)
	}
	return branches
}

// conditions gives lines their decisions of several conditions.
func (b *fileBuilder) conditions() {
	type key struct{ outer, at, end place }
	found := make(map[key]*coverage.Condition)
	var order []key
	for _, f := range b.functions {
		if !b.isMain(f) || len(f.Decisions) == 0 {
			continue
		}
		outer := f.outerPlaces()
		for i := range f.Decisions {
			d := &f.Decisions[i]
			k := key{outer[d.File], place{d.Line, d.Column}, place{d.EndLine, d.EndColumn}}
			if d.File == f.Main {
				k.outer = k.at
			}
			c := found[k]
			if c == nil {
				c = &coverage.Condition{Column: column(k.outer.column)}
				found[k] = c
				order = append(order, k)
			}
			c.Terms = mergeTerms(c.Terms, d.Conditions)
		}
	}
	slices.SortFunc(order, func(a, b key) int {
		return cmp.Or(comparePlaces(a.outer, b.outer), comparePlaces(a.at, b.at), comparePlaces(b.end, a.end))
	})
	for _, k := range order {
		if l := b.line(k.outer.line); l != nil && len(found[k].Terms) > 0 {
			l.Conditions = append(l.Conditions, *found[k])
		}
	}
}

// mergeTerms adds what was shown of conditions, of which those that are constant do not count, in the order of the source.
func mergeTerms(terms []coverage.Term, conditions []MCDCCondition) []coverage.Term {
	conditions = slices.Clone(conditions)
	slices.SortStableFunc(conditions, func(a, b MCDCCondition) int {
		return comparePlaces(place{a.Line, a.Column}, place{b.Line, b.Column})
	})
	n := 0
	for _, c := range conditions {
		if c.Folded {
			continue
		}
		if n == len(terms) {
			terms = append(terms, coverage.Term{})
		}
		if c.Covered {
			terms[n] = coverage.Term{True: true, False: true}
		}
		n++
	}
	return terms
}

// outerPlaces are, for each file of a function, where in the main file the expansion is that leads to it.
func (f *Function) outerPlaces() []place {
	outer := make([]place, len(f.Files))
	for range f.Files { // expansions nest at most so deep
		changed := false
		for i := range f.Regions {
			g := &f.Regions[i]
			if g.Kind != Expansion || outer[g.Expanded] != (place{}) {
				continue
			}
			at := outer[g.File]
			if g.File == f.Main {
				at = g.start()
			}
			if at != (place{}) {
				outer[g.Expanded], changed = at, true
			}
		}
		if !changed {
			break
		}
	}
	return outer
}
