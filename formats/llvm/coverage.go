package llvm

import (
	"slices"
	"strings"
)

// A Region is a part of a source file, with counts.
type Region struct {
	Kind                RegionKind
	File, Expanded      int // of the function's files; Expanded: the file that an Expansion leads to
	Line, Column        uint32
	EndLine, EndColumn  uint32
	Count, FalseCount   uint64 // FalseCount of a Branch or Condition
	FoldTrue, FoldFalse bool   // that way of a branch is constant: its counter is no counter
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

// Coverage is functions with their counts.
type Coverage struct {
	Functions  []*Function
	Mismatches []Mismatch
	// Damaged are functions whose mapping cannot be used, with the reason.
	Damaged []Damage

	byFile map[string][]*Function
	rules  Rules
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

// index makes a lookup of a profile: by name and hash, the first of a pair.
func (p *Profile) index() lookup {
	counted := make(map[functionKey]*Counted, len(p.Counted))
	names := make(map[uint64]bool, len(p.Counted))
	for i := range p.Counted {
		c := &p.Counted[i]
		key := functionKey{c.NameHash, c.Hash}
		if counted[key] == nil {
			counted[key] = c
		}
		names[c.NameHash] = true
	}
	return func(r *Record) (counts []uint64, bitmap []byte, known, ok bool) {
		if c := counted[functionKey{r.NameHash, r.Hash}]; c != nil {
			return c.Counts, c.Bitmap, true, true
		}
		return nil, nil, names[r.NameHash], false
	}
}

// Load gives the functions of binaries the counts of a profile, as llvm-cov does: of several functions of one name
// in the same files the first counts.
func Load(binaries []*Binary, p *Profile, rules Rules) *Coverage {
	rules.Bytes, rules.OldBitmaps = p.SingleBytes(), p.OldBitmaps
	c := &Coverage{byFile: make(map[string][]*Function), rules: rules}
	find := p.index()
	seen := make(map[string]bool)
	for _, b := range binaries {
		for _, r := range b.Records {
			f, err := c.function(b, r, find)
			if err != nil {
				c.Damaged = append(c.Damaged, Damage{r.Name, b.Name, err})
				continue
			}
			if f == nil {
				continue
			}
			key := strings.Join(f.Files, "\x00") + "\x01" + f.Name
			if !seen[key] {
				seen[key] = true
				c.add(f)
			}
		}
	}
	return c
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

// function makes a function of a record; nil: it is left out.
func (c *Coverage) function(b *Binary, r *Record, find lookup) (*Function, error) {
	counts, bitmap, known, ok := find(r)
	if known && !ok {
		c.Mismatches = append(c.Mismatches, Mismatch{r.Name, r.Hash, b.Name})
		return nil, nil
	}
	m, err := r.decode()
	if err != nil {
		return nil, err
	}
	if !known {
		counts, bitmap = m.zeros()
	}
	if len(m.regions) == 1 && m.regions[0].count.isZero() && len(counts) > 0 && counts[0] > 0 {
		return nil, nil // another unit uses it, and has counted
	}
	return m.function(r, counts, bitmap, &c.rules)
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
func (m *mapping) function(r *Record, counts []uint64, bitmap []byte, rules *Rules) (*Function, error) {
	f := &Function{Hash: r.Hash, record: r}
	for _, i := range m.files {
		f.Files = append(f.Files, r.unit.files[i])
	}
	f.Name = r.shownName(f.Files)
	e := &evaluation{expressions: m.expressions, counts: counts}
	f.Regions = make([]Region, 0, len(m.regions))
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
