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
	gathered  []Region
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

// Load gives the functions of binaries the counts of a profile, as llvm-cov does: of several functions of one name
// in the same files the first counts.
func Load(binaries []*Binary, p *Profile, rules Rules) *Coverage {
	l := NewLoader(p, rules)
	for _, b := range binaries {
		l.Add(b)
	}
	return l.Coverage
}

// A Loader is Load of one binary after another, of which it keeps nothing. Most functions of C++ are inline ones that
// many units and binaries have: what was seen before is recognized before it is decoded.
type Loader struct {
	*Coverage
	// What is known of functions, by the hash of their name. Hashes are random: the map needs to be large.
	index map[uint64]int32
	named []namedFunction
	// Of names that have several, what has no room there.
	counted map[functionKey]*Counted
	seen    map[seenKey]struct{}
	// Files have numbers, and so have the files of a unit, and lists of several files: those below 0.
	numbers map[string]int32
	files   [][]string
	units   map[*unit][]int32
	several map[string]int32
	lists   [][]string

	unit      *unit // that was asked for last
	unitFiles []int32

	mapping    mapping
	evaluation evaluation
	key        []byte
	room       regionRoom
}

// A namedFunction is what is known of a name.
type namedFunction struct {
	counted *Counted // for one hash
	hash    uint64
	name    string  // "": not asked for so far, or no binary tells
	has     [2]bool // counts for hashes with csBit 0, 1
	several bool    // counts for other hashes, too
	seen    bool    // in the files of list
	list    int32
}

// A seenKey is a function, by its place in named, and a list of files.
type seenKey struct{ function, list int32 }

// csBit of a function's hash says, in profiles for the optimiser, that the counts are context-sensitive. In others it is
// chance: but since LLVM 15 counts are of another build only if it is the same, and else there are none.
const csBit = 60

// NewLoader returns a loader with the counts of a profile.
func NewLoader(p *Profile, rules Rules) *Loader {
	rules.Bytes, rules.OldBitmaps = p.SingleBytes(), p.OldBitmaps
	l := &Loader{
		Coverage: &Coverage{byFile: make(map[string][]*Function), rules: rules},
		index:    make(map[uint64]int32, 2*len(p.Counted)), named: make([]namedFunction, 0, 2*len(p.Counted)),
		counted: make(map[functionKey]*Counted), seen: make(map[seenKey]struct{}),
		numbers: make(map[string]int32), units: make(map[*unit][]int32), several: make(map[string]int32),
	}
	for i := range p.Counted {
		l.count(&p.Counted[i])
	}
	return l
}

// count takes counts. Of those of one name and hash the first are used.
func (l *Loader) count(c *Counted) {
	f := &l.named[l.of(c.NameHash)]
	if f.has[c.Hash>>csBit&1] = true; l.rules.Version < 15 {
		f.has = [2]bool{true, true}
	}
	switch {
	case f.counted == nil:
		f.counted, f.hash = c, c.Hash
	case f.hash == c.Hash:
	default:
		f.several = true
		if key := (functionKey{c.NameHash, c.Hash}); l.counted[key] == nil {
			l.counted[key] = c
		}
	}
}

// of is where in named the function is whose name has that hash.
func (l *Loader) of(hash uint64) int32 {
	i, ok := l.index[hash]
	if !ok {
		i = int32(len(l.named))
		l.named = append(l.named, namedFunction{})
		l.index[hash] = i
	}
	return i
}

// find gives the counts of a function. known tells whether there are any of that name, nil counts that there are none of
// that hash.
func (l *Loader) find(f *namedFunction, r *Record) (c *Counted, known bool) {
	switch {
	case f.counted != nil && f.hash == r.Hash:
		return f.counted, true
	case f.several:
		if c := l.counted[functionKey{r.NameHash, r.Hash}]; c != nil {
			return c, true
		}
	}
	return nil, f.has[r.Hash>>csBit&1]
}

// unitNumbers are those of a unit's files.
func (l *Loader) unitNumbers(u *unit) []int32 {
	if u == l.unit {
		return l.unitFiles
	}
	list := l.units[u]
	if list == nil && len(u.files) > 0 {
		for i, name := range u.files {
			n, ok := l.numbers[name]
			if !ok {
				n = int32(len(l.files))
				l.numbers[name] = n
				l.files = append(l.files, u.files[i:i+1:i+1])
			}
			list = append(list, n)
		}
		l.units[u] = list
	}
	l.unit, l.unitFiles = u, list
	return list
}

// listOf is the number of the list of a function's files, and the list.
func (l *Loader) listOf(r *Record, indices []int) (int32, []string) {
	numbers := l.unitNumbers(r.unit)
	if len(indices) == 1 {
		n := numbers[indices[0]]
		return n, l.files[n]
	}
	l.key = l.key[:0]
	for _, i := range indices {
		l.key = binary.LittleEndian.AppendUint32(l.key, uint32(numbers[i]))
	}
	n, ok := l.several[string(l.key)]
	if !ok {
		l.lists = append(l.lists, r.fileNames(indices))
		n = -int32(len(l.lists))
		l.several[string(l.key)] = n
	}
	return n, l.lists[-n-1]
}

// Add loads the functions of a binary.
func (l *Loader) Add(b *Binary) {
	for _, r := range b.Records {
		if err := l.load(b, r); err != nil {
			l.Damaged = append(l.Damaged, Damage{r.Name(), b.Name, err})
		}
	}
}

// load adds a function, unless it is left out.
func (l *Loader) load(b *Binary, r *Record) error {
	at := l.of(r.NameHash)
	c, known := l.find(&l.named[at], r)
	if known && c == nil {
		l.Mismatches = append(l.Mismatches, Mismatch{r.Name(), r.Hash, b.Name})
		return nil
	}
	m := &l.mapping
	d := &reader{cursor.Reader{B: r.mapping}}
	if m.files = d.fileIndices(m.files[:0], r.unit); d.Err != nil {
		return d.Err
	}
	list, files := l.listOf(r, m.files)
	f := &l.named[at]
	if f.name == "" {
		f.name = r.Name()
	}
	shown := shownName(f.name, files)
	if shown != f.name || shown == "" {
		// Another name may look the same.
		at = l.of(HashOf(shown))
		f = &l.named[at]
	}
	if l.hasSeen(at, list) {
		return nil
	}
	if err := r.decodeInto(m); err != nil {
		return err
	}
	var counts []uint64
	var bitmap []byte
	if known {
		counts, bitmap = c.Counts, c.Bitmap
	} else {
		counts = m.zeros()
	}
	if len(m.regions) == 1 && m.regions[0].count.isZero() && len(counts) > 0 && counts[0] > 0 {
		return nil // another unit uses it, and has counted
	}
	function, err := m.function(r.Hash, shown, files, &l.evaluation, counts, bitmap, &l.rules, &l.room)
	if err != nil {
		return err
	}
	if !f.seen {
		f.seen, f.list = true, list
	} else {
		l.seen[seenKey{at, list}] = struct{}{}
	}
	l.add(function)
	return nil
}

// hasSeen tells whether a function was loaded, in these files.
func (l *Loader) hasSeen(function, list int32) bool {
	f := &l.named[function]
	if !f.seen || f.list == list {
		return f.seen
	}
	_, seen := l.seen[seenKey{function, list}]
	return seen
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
func (m *mapping) zeros() []uint64 {
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
	for i := range m.regions {
		each(m.regions[i].count)
		each(m.regions[i].other)
	}
	switch {
	case most > 1<<20:
		return nil // then no counter is there, and the function is damaged
	case most <= len(someZeros):
		return someZeros[:most:most]
	}
	return make([]uint64, most)
}

var someZeros [256]uint64 // for reading

// A regionRoom is where regions of functions are made, many at a time.
type regionRoom struct{ left []Region }

func (s *regionRoom) take(n int) []Region {
	if s == nil || n > len(s.left) && n > mostTogether/4 {
		return make([]Region, 0, n)
	}
	if n > len(s.left) {
		s.left = make([]Region, mostTogether)
	}
	list := s.left[:0:n]
	s.left = s.left[n:]
	return list
}

// function computes the counts of all regions, in room, which may be nil.
func (m *mapping) function(hash uint64, name string, files []string, e *evaluation, counts []uint64, bitmap []byte, rules *Rules, room *regionRoom) (*Function, error) {
	f := &Function{Hash: hash, Files: files, Name: name}
	e.begin(m.expressions, counts)
	code, branches := 0, 0
	for i := range m.regions {
		switch m.regions[i].kind {
		case Branch, Condition:
			branches++
		case Decision:
		default:
			code++
		}
	}
	f.Regions, f.Branches = room.take(code), room.take(branches)
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
		region := Region{
			Kind: g.kind, File: g.file, Expanded: g.expanded, Line: g.start.line, Column: g.start.column,
			EndLine: g.end.line, EndColumn: g.end.column, Count: uint64(count),
		}
		if g.kind >= Branch {
			other, err := e.value(g.other)
			if err != nil {
				return nil, err
			}
			region.FalseCount = uint64(other)
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
func shownName(name string, files []string) string {
	if len(files) > 0 && files[0] != "" {
		if rest, ok := strings.CutPrefix(name, files[0]); ok && rest != "" {
			return rest[1:]
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

// last is the end of what is code in a file of the function, which goes on after the first region where this is only the
// signature, as of Rust.
func (f *Function) last(file int) (end place) {
	for i := range f.Regions {
		if g := &f.Regions[i]; g.File == file && g.Kind != Skipped && end.less(g.end()) {
			end = g.end()
		}
	}
	return end
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
	elsewhere := false
	for i := range f.Branches {
		elsewhere = elsewhere || f.Branches[i].File != file
	}
	if !elsewhere {
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
