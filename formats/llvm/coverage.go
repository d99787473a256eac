package llvm

import (
	"encoding/binary"
	"slices"
	"strings"

	"footfall/formats/cursor"
)

// A Region is a part of a source file, with counts.
type Region struct {
	Kind                RegionKind
	FoldTrue, FoldFalse bool // that way of a branch is constant: its counter is no counter
	File, Expanded      int  // of the function's files; Expanded: the file that an Expansion leads to
	Line, Column        uint32
	EndLine, EndColumn  uint32
	Count, FalseCount   uint64 // FalseCount of a Branch or Condition
}

func (r *Region) start() place { return place{r.Line, r.Column} }
func (r *Region) end() place   { return place{r.EndLine, r.EndColumn} }

// A Function is a function of a binary, with the counts of its regions.
type Function struct {
	Name      string // without the name of a file that those of local functions begin with, if it is Files[0]
	Hash      uint64
	Count     uint64
	Files     []string
	Regions   []Region // Code, Expansion, Skipped, Gap
	Branches  []Region // Branch, Condition
	Decisions []MCDC
	// Main is the file that it is defined in: the first that is not expanded; -1: there is none.
	Main int

	record *Record
}

// A Mismatch is a function whose counts are of another build than the binary.
type Mismatch struct {
	Name   string
	Hash   uint64 // that of the binary
	Binary string
}

// Coverage is functions with their counts. It is for one goroutine.
type Coverage struct {
	Functions  []*Function
	Mismatches []Mismatch
	// Damaged are functions whose mapping cannot be used, with the reason.
	Damaged []Damage

	byFile map[string][]*Function
	rules  Rules

	segmenter segmenter // for what is counted and forgotten: its room, and that of the regions
	room      []*Region
}

// A Damage is what is wrong with a function.
type Damage struct {
	Name, Binary string
	Err          error
}

// Rules are what differs between versions of llvm-cov.
type Rules struct {
	// Version is the LLVM: 9 to 23.
	Version int
	// Bytes is set if counts only say that something ran.
	Bytes bool
	// OldBitmaps: see Profile.
	OldBitmaps bool
}

// A lookup gives the counts of a function of a binary. known tells whether there are any of that name, ok whether
// also of that hash.
type lookup func(r *Record) (counts []uint64, bitmap []byte, known, ok bool)

// csBit of a function's hash says, in profiles for the optimiser, that the counts are context-sensitive. In others it is
// chance: but since LLVM 15 counts are of another build only if it is the same, and else there are none.
const csBit = 60

// index makes a lookup of a profile for a version: by name and hash, the first of a pair.
func (p *Profile) index(version int) lookup {
	counted := make(map[functionKey]*Counted, len(p.Counted))
	names := make(map[uint64][2]bool, len(p.Counted)) // with that bit of a hash 0, 1
	for i := range p.Counted {
		c := &p.Counted[i]
		key := functionKey{c.NameHash, c.Hash}
		if counted[key] == nil {
			counted[key] = c
		}
		has := names[c.NameHash]
		if has[c.Hash>>csBit&1] = true; version < 15 {
			has = [2]bool{true, true}
		}
		names[c.NameHash] = has
	}
	return func(r *Record) (counts []uint64, bitmap []byte, known, ok bool) {
		if c := counted[functionKey{r.NameHash, r.Hash}]; c != nil {
			return c.Counts, c.Bitmap, true, true
		}
		return nil, nil, names[r.NameHash][r.Hash>>csBit&1], false
	}
}

// Load gives the functions of binaries the counts of a profile, as llvm-cov does: of several functions of one name
// in the same files the first counts.
func Load(binaries []*Binary, p *Profile, rules Rules) *Coverage {
	rules.Bytes, rules.OldBitmaps = p.SingleBytes(), p.OldBitmaps
	c := &Coverage{byFile: make(map[string][]*Function), rules: rules}
	l := loader{Coverage: c, find: p.index(rules.Version), known: make(map[string]uint32), lists: make(map[string][]string), seen: make(map[string]bool)}
	for _, b := range binaries {
		l.units = make(map[*unit][]uint32)
		for _, r := range b.Records {
			if err := l.load(b, r); err != nil {
				c.Damaged = append(c.Damaged, Damage{r.Name, b.Name, err})
			}
		}
	}
	return c
}

// A loader loads functions. Most of those of C++ are inline ones that many units and binaries have: what was seen
// before is recognized before it is decoded.
type loader struct {
	*Coverage
	find lookup
	// Files have numbers, and so have the files of a unit; lists are those of functions, by numbers.
	known map[string]uint32
	units map[*unit][]uint32
	lists map[string][]string
	seen  map[string]bool // by numbers of files and name

	mapping    mapping
	evaluation evaluation
	key        []byte
}

// numbers are those of a unit's files.
func (l *loader) numbers(u *unit) []uint32 {
	list := l.units[u]
	if list == nil && len(u.files) > 0 {
		for _, name := range u.files {
			n, ok := l.known[name]
			if !ok {
				n = uint32(len(l.known))
				l.known[name] = n
			}
			list = append(list, n)
		}
		l.units[u] = list
	}
	return list
}

// load adds a function, unless it is left out.
func (l *loader) load(b *Binary, r *Record) error {
	counts, bitmap, known, ok := l.find(r)
	if known && !ok {
		l.Mismatches = append(l.Mismatches, Mismatch{r.Name, r.Hash, b.Name})
		return nil
	}
	m := &l.mapping
	d := &reader{cursor.Reader{B: r.mapping}}
	numbers := l.numbers(r.unit)
	m.files, l.key = d.fileIndices(m.files[:0], r.unit), l.key[:0]
	if d.Err != nil {
		return d.Err
	}
	for _, i := range m.files {
		l.key = binary.LittleEndian.AppendUint32(l.key, numbers[i])
	}
	files, ok := l.lists[string(l.key)]
	if !ok {
		files = r.fileNames(m.files)
		l.lists[string(l.key)] = files
	}
	l.key = append(l.key, r.shownName(files)...)
	if l.seen[string(l.key)] {
		return nil
	}
	if err := r.decodeInto(m); err != nil {
		return err
	}
	if !known {
		counts, bitmap = m.zeros()
	}
	if len(m.regions) == 1 && m.regions[0].count.isZero() && len(counts) > 0 && counts[0] > 0 {
		return nil // another unit uses it, and has counted
	}
	f, err := m.function(r, files, &l.evaluation, counts, bitmap, &l.rules)
	if err != nil {
		return err
	}
	l.seen[string(l.key)] = true
	l.add(f)
	return nil
}

func (c *Coverage) add(f *Function) {
	c.Functions = append(c.Functions, f)
	for _, name := range f.Files {
		if list := c.byFile[name]; len(list) == 0 || list[len(list)-1] != f { // files recur
			c.byFile[name] = append(list, f)
		}
	}
}

// Files are the names of all files, ascending.
func (c *Coverage) Files() []string {
	var names []string
	for name := range c.byFile {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// zeros are counts of a function that no profile knows: nothing ran.
func (m *mapping) zeros() (counts []uint64, bitmap []byte) {
	most := 0
	each := func(c counter) {
		if c.kind() == countCounter {
			most = max(most, c.index()+1)
		}
	}
	for _, x := range m.expressions {
		each(x.left)
		each(x.right)
	}
	for _, g := range m.regions {
		each(g.count)
		each(g.other)
	}
	if most > 1<<20 {
		return nil, nil // then no counter is there, and the function is damaged
	}
	return make([]uint64, most), nil
}

// function computes the counts of all regions.
func (m *mapping) function(r *Record, files []string, e *evaluation, counts []uint64, bitmap []byte, rules *Rules) (*Function, error) {
	f := &Function{Hash: r.Hash, record: r, Files: files, Name: r.shownName(files)}
	e.begin(m.expressions, counts)
	code := 0
	for i := range m.regions {
		code += int(b2u(m.regions[i].kind < Branch))
	}
	f.Regions, f.Branches = make([]Region, 0, code), make([]Region, 0, len(m.regions)-code)
	open := decisions{bitmap: bitmap, rules: rules}
	for i := range m.regions {
		g := &m.regions[i]
		if g.kind == Decision {
			open.begin(g)
			continue
		}
		count, err := e.value(g.count)
		if err != nil {
			return nil, err
		}
		other, err := e.value(g.other)
		if err != nil {
			return nil, err
		}
		region := Region{
			Kind: g.kind, File: g.file, Expanded: g.expanded, Line: g.start.line, Column: g.start.column,
			EndLine: g.end.line, EndColumn: g.end.column, Count: uint64(count), FalseCount: uint64(other),
		}
		if g.kind >= Branch {
			region.FoldTrue, region.FoldFalse = g.count.isZero(), g.other.isZero()
			f.Branches = append(f.Branches, region)
			if g.kind == Condition {
				open.condition(g, f)
			}
			continue
		}
		if len(f.Regions) == 0 {
			f.Count = region.Count
		}
		if g.kind == Expansion {
			open.expansion(g)
		}
		f.Regions = append(f.Regions, region)
	}
	f.Main = f.mainFile()
	return f, nil
}

// fileNames are those of the files of a function.
func (r *Record) fileNames(indices []int) []string {
	names := make([]string, len(indices))
	for i, index := range indices {
		names[i] = r.unit.files[index]
	}
	return names
}

// shownName is the name without that of the file which those of local functions begin with.
func (r *Record) shownName(files []string) string {
	name := r.Name
	if len(files) > 0 && files[0] != "" {
		if rest, ok := strings.CutPrefix(name, files[0]); ok && rest != "" {
			name = rest[1:]
		}
	}
	return name
}

// mainFile is the first file that is not expanded.
func (f *Function) mainFile() int {
	if len(f.Files) == 1 && !slices.ContainsFunc(f.Regions, func(g Region) bool { return g.Kind == Expansion }) {
		return 0
	}
	expanded := make([]bool, len(f.Files))
	for i := range f.Regions {
		if g := &f.Regions[i]; g.Kind == Expansion {
			expanded[g.Expanded] = true
		}
	}
	return slices.Index(expanded, false)
}

// first is the first region in a file of the function, nil if there is none.
func (f *Function) first(file int) *Region {
	for i := range f.Regions {
		if f.Regions[i].File == file {
			return &f.Regions[i]
		}
	}
	return nil
}

// An Expansions is a way from a file of a function through expansions, to their branches.
type expandedBranch struct {
	*Region
	path []place // of expansions, from the function's main file on; the branch's own if there are none
}

// mostExpanded is how many steps are taken through the expansions of a function of so many regions: each file is expanded
// in one place, but bytes may say that two lead to each, of which there are more paths than can be walked.
func mostExpanded(regions int) int { return 1<<12 + 64*regions }

// expandedBranches are the branches of what is expanded in the file of a function, innermost first.
func (f *Function) expandedBranches(file int) []expandedBranch {
	if !slices.ContainsFunc(f.Regions, func(g Region) bool { return g.Kind == Expansion }) {
		return nil
	}
	e := expander{expansions: make([][]*Region, len(f.Files)), branches: make([][]*Region, len(f.Files)), left: mostExpanded(len(f.Regions) + len(f.Branches))}
	for i := range f.Regions {
		if g := &f.Regions[i]; g.Kind == Expansion && g.Expanded != g.File {
			e.expansions[g.File] = append(e.expansions[g.File], g)
		}
	}
	for i := range f.Branches {
		b := &f.Branches[i]
		e.branches[b.File] = append(e.branches[b.File], b)
	}
	e.follow(file, nil)
	return e.list
}

type expander struct {
	expansions, branches [][]*Region // by file
	list                 []expandedBranch
	left                 int
}

func (e *expander) follow(file int, path []place) {
	if len(path) > deepest {
		return
	}
	for _, g := range e.expansions[file] {
		if e.left -= len(path) + 1 + len(e.branches[g.Expanded]); e.left < 0 {
			return
		}
		inner := append(slices.Clip(path), g.start())
		e.follow(g.Expanded, inner)
		for _, b := range e.branches[g.Expanded] {
			e.list = append(e.list, expandedBranch{b, inner})
		}
	}
}
