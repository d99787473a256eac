package change

import (
	"cmp"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"footfall/coverage"
	"footfall/input"
	"footfall/output"
	"footfall/report/exclude"
	"footfall/report/source"
)

// places finds the sources of a set by the names in a diff, which are relative
// to a directory that need not be known.
//
// There is one such directory for the whole diff. Where it is follows from what
// is there: of all directories that come into question it is the one below which
// the files of the diff are, with the lines that it inserted. What remains
// uncertain is a doubt, not a guess: no file is taken for another that only has
// its name.
type places struct {
	sources  *source.Sources
	top      string // of the diff, see Diff.Top
	set      map[string]bool
	paths    []string                  // the names of the set
	byBase   map[string][]string       // by their last part
	byFile   map[input.FileID][]string // by what they are, whatever they are called
	excluded map[string]bool
	moved    map[string]string // see relocated
	fits     map[fitKey]fit
}

type fitKey struct {
	f    *FileDiff
	path string
}

func newPlaces(set *coverage.Set, excluded exclude.Excluded, sources *source.Sources) *places {
	p := &places{
		sources: sources, set: make(map[string]bool), byBase: make(map[string][]string), byFile: make(map[input.FileID][]string),
		excluded: make(map[string]bool), moved: make(map[string]string), fits: make(map[fitKey]fit),
	}
	for _, name := range set.Names() {
		p.set[name] = true
		p.paths = append(p.paths, name)
		base := filepath.Base(name)
		p.byBase[base] = append(p.byBase[base], name)
		if id, ok := input.Identify(name); ok {
			p.byFile[id] = append(p.byFile[id], name)
		}
	}
	for _, e := range excluded.List {
		p.excluded[e.File] = true
	}
	return p
}

// A base says where the names in a diff begin: those below from are below dir.
type base struct {
	from string // "": all
	dir  string
}

// path returns where a name of the diff is, "" if that is outside of the base.
func (b base) path(name string) string {
	if name == "" {
		return ""
	}
	if filepath.IsAbs(name) && b.from == "" {
		return filepath.Clean(name)
	}
	if b.from == "" {
		return filepath.Join(b.dir, name)
	}
	rest, ok := source.Below(name, b.from)
	if !ok || rest == "" {
		return ""
	}
	return filepath.Join(b.dir, rest)
}

// A placement is which sources of a set the files of a diff are.
type placement struct {
	base
	files    map[string]*FileDiff // by the name in the set
	problems []source.Problem
	doubts   int
	unseen   int
}

// Kinds of problems of a diff.
const (
	noCoverage   = "changed files without coverage data"
	otherVersion = "sources that are not what the diff says"
	noPlace      = "changed files that cannot be told from others"
	untoldLines  = "changed files whose lines are not in the diff"
)

// place finds the files of the diff in the set, by their new names.
func (p *places) place(d *Diff) *placement {
	p.top = d.Top
	b, name, doubt := p.begin(d)
	r := &placement{base: b, files: make(map[string]*FileDiff)}
	if doubt != nil {
		r.doubt(noPlace, name, doubt)
		return r
	}
	var missing []*FileDiff
	for i := range d.Files {
		f := &d.Files[i]
		if f.New == "" || f.gone {
			p.deleted(d, r, f)
			continue
		}
		path := b.path(f.New)
		found := p.lookup(b, path)
		if f.untold != "" && f.untold != asBinary {
			if found = p.under(path); len(found) > 0 {
				r.doubt(untoldLines, f.New, errors.New(f.untold))
			}
			continue
		}
		if len(found) == 0 {
			missing = append(missing, f)
			continue
		}
		switch {
		case f.untold != "":
			r.doubt(untoldLines, f.New, errors.New(f.untold))
		case d.Here && p.compare(f, found[0]) == differs:
			r.doubt(otherVersion, found[0], errors.New("not what git compares: a filter of .gitattributes changes it, and lines may be taken for others"))
		case !d.Here && (p.compare(f, found[0]) == differs || p.compare(f, found[0]) == between && !f.inserts()):
			r.doubt(otherVersion, found[0], errors.New("not what the diff says: it was changed since, and lines may be taken for others"))
		}
		for _, path := range found {
			r.files[path] = f
		}
	}
	for _, name := range d.New {
		f := &FileDiff{New: name, Edits: allLines}
		for _, path := range p.lookup(b, b.path(name)) {
			r.files[path] = f
		}
	}
	around := p.around()
	for _, f := range missing {
		if f.inserts() {
			p.missing(d, r, f, around)
		}
	}
	if len(r.files) == 0 && len(r.problems) > 0 && r.doubts == 0 && !p.hasSources(b.dir) {
		r.doubt(noPlace, b.dir, errors.New("none of the sources of the report is where those of the diff are: --path-map or --root brings them together"))
	}
	return r
}

// deleted looks for a file that the diff deletes. What git says of the working tree is
// so, and another file may have the name, or have taken it.
func (p *places) deleted(d *Diff, r *placement, f *FileDiff) {
	if d.Here {
		return
	}
	for _, name := range []string{f.New, f.Old} {
		path := r.path(name)
		again := slices.ContainsFunc(d.Files, func(o FileDiff) bool { return o.New == name && !o.gone })
		for _, found := range p.lookup(r.base, path) {
			if !again && (p.undeleted(f, path) || p.undeleted(f, found)) {
				r.doubt(otherVersion, found, errors.New("deleted, says the diff, but it is there: the diff is the wrong way round, or was not applied"))
				return
			}
		}
	}
}

// undeleted tells whether path is the file that the diff deletes, or may be.
func (p *places) undeleted(f *FileDiff, path string) bool {
	if !input.IsFile(path) {
		return false
	}
	if len(f.deleted()) == 0 && f.blobs[0] == "" {
		return true // what was deleted is not told
	}
	text, err := p.sources.Read(path)
	return err != nil || f.isOld(text) || f.resembles(text)
}

// resembles tells whether half of what was deleted is in the text: another version of it, not
// another file of that name.
func (f *FileDiff) resembles(text []byte) bool {
	there := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		there[strings.TrimSpace(line)] = true
	}
	same, all := 0, 0
	for _, line := range f.deleted() {
		if line = strings.TrimSpace(line); strings.ContainsFunc(line, unicode.IsLetter) {
			if all++; there[line] {
				same++
			}
		}
	}
	return 2*same >= all && (all > 0 || f.hasDeleted(text))
}

// allLines make a file of none.
var allLines = coverage.Edits{{Old: 1, New: 1, Inserted: math.MaxInt32 - 1}}

func (r *placement) doubt(kind, name string, err error) {
	r.problems = append(r.problems, source.NewProblem(kind, name, err))
	r.doubts++
}

// missing looks for a changed file that is not where the diff begins: in the
// directory of another part of a diff, or where another version was checked out.
func (p *places) missing(d *Diff, r *placement, f *FileDiff, around string) {
	path := r.path(f.New)
	var others []string
	if path == "" || !isThere(path) {
		for _, c := range p.byBase[filepath.Base(f.New)] {
			_, own := source.Below(c, d.Top)
			if r.files[c] == nil && !(own && d.Top != "") && p.compare(f, c) >= unknown {
				others = append(others, c)
			}
		}
	}
	path = cmp.Or(path, filepath.Join(p.sources.Root(), f.New))
	switch {
	case len(others) == 1 && p.compare(f, others[0]) == fits:
		r.files[others[0]] = f
		return
	case len(others) > 0 && p.sources.Excludes(path):
		return
	case len(others) > 0:
		r.doubt(noPlace, f.New, fmt.Errorf("perhaps %s, perhaps a file without coverage data: --path-map or --root tells where it is, --exclude that it does not matter", p.sources.Shown(others[0])))
		return
	}
	if _, wanted := p.sources.Resolve("/", path); !wanted || !isSource(f.New) || p.excluded[path] {
		return
	}
	r.problems = append(r.problems, source.NewProblem(noCoverage, f.New, errors.New("no coverage data of this changed file: it was not compiled with coverage, or is left out of the report")))
	if IsUnit(f.New) && inside(path, around) {
		r.unseen++
	}
}

// inside tells whether a file is in a directory, by whatever names.
func inside(path, dir string) bool {
	if _, in := source.Below(path, dir); in {
		return true
	}
	path, err1 := filepath.EvalSymlinks(filepath.Dir(path))
	dir, err2 := filepath.EvalSymlinks(dir)
	_, in := source.Below(path, dir)
	return in && err1 == nil && err2 == nil
}

// around returns the directory in which code without coverage data would be
// missed in the report: that of the root and all sources.
func (p *places) around() string {
	dir := p.sources.Root()
	for _, path := range p.paths {
		for {
			if _, in := source.Below(path, dir); in {
				break
			}
			dir = filepath.Dir(dir)
		}
	}
	return dir
}

// lookup returns the names that the set has for a path: its own, those of links
// to the same file, and where it was when the set was made elsewhere.
func (p *places) lookup(b base, path string) []string {
	if path == "" {
		return nil
	}
	var found []string
	for _, name := range p.namesOf(path) {
		if p.set[name] {
			found = append(found, name)
		}
	}
	if id, ok := input.Identify(path); ok {
		for _, other := range p.byFile[id] {
			if other != path {
				found = append(found, other)
			}
		}
	}
	if rest, ok := source.Below(path, b.dir); ok && len(found) == 0 && b.from == "" && (b.dir == p.top || b.dir == p.sources.Root()) {
		if dir := p.relocated(b.dir); dir != "" && p.set[filepath.Join(dir, rest)] {
			found = append(found, filepath.Join(dir, rest))
		}
	}
	return found
}

// namesOf returns a path, and as what reports have it that cannot write it.
func (p *places) namesOf(path string) []string {
	names := []string{path}
	for _, set := range output.Charsets() {
		if name := set.Escape(path); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// under returns the names of the set that are a path or below it.
func (p *places) under(path string) []string {
	if path == "" {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(p.paths), func(name string) bool {
		_, in := source.Below(name, path)
		return !in
	})
}

// relocated returns the directory that stands for dir in the names of a set that
// was made elsewhere, "" if there is none: no source of the set is in dir, but
// most have the names of files in it.
func (p *places) relocated(dir string) string {
	if found, ok := p.moved[dir]; ok {
		return found
	}
	p.moved[dir] = ""
	if p.hasSources(dir) {
		return ""
	}
	votes := make(map[string]int)
	best := ""
	for _, path := range p.paths {
		for _, above := range slices.Backward(ancestors(filepath.Dir(path))) { // the longest rest first
			if rest, _ := source.Below(path, above); input.IsFile(filepath.Join(dir, rest)) {
				if votes[above]++; votes[above] > votes[best] {
					best = above
				}
				break
			}
		}
	}
	if 2*votes[best] > len(p.paths) {
		p.moved[dir] = best
	}
	return p.moved[dir]
}

// ancestors returns an absolute directory and those above it.
func ancestors(dir string) []string {
	dirs := []string{dir}
	for dir != "/" {
		dir = filepath.Dir(dir)
		dirs = append(dirs, dir)
	}
	return dirs
}

// hasSources tells whether a source of the set is in a directory.
func (p *places) hasSources(dir string) bool {
	if slices.ContainsFunc(p.paths, func(path string) bool { _, in := source.Below(path, dir); return in }) {
		return true
	}
	seen := make(map[string]bool)
	return slices.ContainsFunc(p.paths, func(path string) bool {
		d := filepath.Dir(path)
		known := seen[d]
		seen[d] = true
		return !known && inside(path, dir)
	})
}

// begin returns where the names in the diff begin, or what is uncertain about
// that, with the name of a file in the diff.
func (p *places) begin(d *Diff) (b base, name string, doubt error) {
	if d.Top != "" {
		return base{dir: d.Top}, "", nil
	}
	var files []*FileDiff
	for i := range d.Files {
		if d.Files[i].New != "" && !d.Files[i].gone {
			files = append(files, &d.Files[i])
		}
	}
	best := standing{base: base{dir: p.sources.Root()}}
	var equal []standing // to the best one
	for _, bases := range [](func([]*FileDiff) []base){p.likelyBases, p.otherBases} {
		if best.agree == len(files) {
			break
		}
		for _, b := range bases(files) {
			s := p.stand(b, files)
			if s.there == 0 || b.from != "" && b.dir != p.sources.Root() && s.fits == 0 {
				continue
			}
			switch n := s.compare(best); {
			case n > 0:
				best, equal = s, nil
			case n == 0:
				equal = append(equal, s)
			}
		}
	}
	// Diffs are mostly made at the root or at the top of the checkout around it;
	// between these two, if both fit, nothing decides.
	home := func(b base) bool {
		_, above := source.Below(p.sources.Root(), b.dir)
		return b.from == "" && above
	}
	for _, other := range equal {
		if home(best.base) && best.known > 0 && !home(other.base) {
			continue
		}
		if f := p.differ(best.base, other.base, files); f != nil {
			return best.base, f.New, fmt.Errorf("perhaps %s, perhaps %s: --root tells where the names in a diff begin", p.sources.Shown(best.path(f.New)), p.sources.Shown(other.path(f.New)))
		}
	}
	atRoot := best.base == base{dir: p.sources.Root()}
	if best.known == 0 || atRoot || best.fits > 0 || best.from == "" && (best.onDisk == best.meant || best.known > 1) || p.onlyBlank(best.base, files) {
		return best.base, "", nil
	}
	for _, f := range files {
		if found := p.lookup(best.base, best.path(f.New)); len(found) > 0 && !f.isEmpty() {
			name, doubt = f.New, fmt.Errorf("perhaps %s, of which nothing but the name tells: --path-map %s=DIR says where its sources are", found[0], best.dir)
			break
		}
	}
	if doubt == nil { // of files that may be empty now: wherever they are, they have no new lines
		return base{dir: p.sources.Root()}, "", nil
	}
	return best.base, name, doubt
}

// onlyBlank tells whether a diff has no new lines but of white space, and each of its
// files is below a base what the diff shows of it. Blank lines are like any others,
// so what is around them tells.
func (p *places) onlyBlank(b base, files []*FileDiff) bool {
	for _, f := range files {
		path := b.path(f.New)
		if !f.insertsBlank() || !f.showsText() || !input.IsFile(path) || p.compare(f, path) != unknown {
			return false
		}
	}
	return true
}

// A standing is what speaks for a base.
type standing struct {
	base
	complete bool // all files of the diff are there,
	there    int  // or so many
	onDisk   int
	meant    int // which have to be there, if the base is right
	agree    int // which do not differ from the diff
	fits     int // which have lines that the diff inserted
	known    int // which are in the set
}

func (s *standing) compare(o standing) int {
	rank := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(s.complete), rank(o.complete)), cmp.Compare(s.agree, o.agree), cmp.Compare(s.fits, o.fits), cmp.Compare(s.there, o.there), cmp.Compare(rank(s.from == ""), rank(o.from == "")))
}

func (p *places) stand(b base, files []*FileDiff) standing {
	s := standing{base: b}
	for _, f := range files {
		path := b.path(f.New)
		found, onDisk := p.lookup(b, path), path != "" && isThere(path)
		if f.untold != asOnlyIn || onDisk || len(found) > 0 { // others may be in the old version only
			s.meant++
		}
		if len(found) == 0 && !onDisk {
			continue
		}
		s.there++
		if onDisk {
			s.onDisk++
		}
		if len(found) > 0 {
			s.known++
		}
		if fit := p.compare(f, path); fit >= unknown {
			s.agree++
			if fit == fits {
				s.fits++
			}
		}
	}
	s.complete = s.there == len(files)
	return s
}

// mostBases limits how many are looked at.
const mostBases = 32

// likelyBases are the root, the directories above it, and those where names of
// the diff and of the set end alike.
func (p *places) likelyBases(files []*FileDiff) []base {
	var all []base
	for _, dir := range ancestors(p.sources.Root()) {
		all = append(all, base{dir: dir})
	}
	votes := make(map[base]int)
	for _, f := range files {
		for _, c := range p.byBase[filepath.Base(f.New)] {
			n := source.CommonSuffix(f.New, c)
			votes[base{withoutLast(f.New, n), cmp.Or(withoutLast(c, n), "/")}]++
		}
	}
	var voted []base
	for b := range votes {
		if !slices.Contains(all, b) {
			voted = append(voted, b)
		}
	}
	slices.SortFunc(voted, func(a, b base) int {
		return cmp.Or(cmp.Compare(votes[b], votes[a]), cmp.Compare(a.from, b.from), cmp.Compare(a.dir, b.dir))
	})
	return append(all, voted[:min(len(voted), mostBases)]...)
}

// mostLooks limits how many names are looked for on disk to find those bases.
const mostLooks = 1 << 14

// otherBases are the directories in which sources are, and below which files of the
// diff are: it may be of files there that are not in the set.
func (p *places) otherBases(files []*FileDiff) []base {
	var all []base
	seen := make(map[string]bool)
	looks := 0
	has := func(dir string) bool {
		return slices.ContainsFunc(files, func(f *FileDiff) bool {
			looks++
			return looks <= mostLooks && isThere(filepath.Join(dir, f.New))
		})
	}
	for _, path := range p.paths {
		for _, dir := range ancestors(filepath.Dir(path)) {
			if seen[dir] || len(all) == mostBases {
				break
			}
			seen[dir] = true
			if has(dir) {
				all = append(all, base{dir: dir})
			}
		}
	}
	return all
}

// differ returns a file of the diff that two bases make two sources, nil if there
// is none.
func (p *places) differ(a, b base, files []*FileDiff) *FileDiff {
	for _, f := range files {
		inA, inB := p.lookup(a, a.path(f.New)), p.lookup(b, b.path(f.New))
		slices.Sort(inA)
		slices.Sort(inB)
		if f.inserts() && !slices.Equal(inA, inB) {
			return f
		}
	}
	return nil
}

// A fit tells whether a source is the new version that a diff is of.
type fit int

const (
	differs fit = iota // it does not have the lines that were inserted
	between            // it has these, between others
	unknown            // it cannot be read, or there is nothing to see
	fits
)

// compare looks for the inserted lines in a source.
func (p *places) compare(f *FileDiff, path string) fit {
	key := fitKey{f, path}
	found, ok := p.fits[key]
	if !ok {
		found = f.compare(path)
		p.fits[key] = found
	}
	return found
}

func (f *FileDiff) compare(path string) fit {
	if !input.IsFile(path) {
		return unknown
	}
	text, err := input.ReadFile(path, input.MostSource)
	if err != nil {
		return unknown
	}
	if f.isOld(text) || f.isUndeleted(text) {
		return differs
	}
	lines := strings.Split(string(text), "\n")
	result := unknown
	for k, e := range f.Edits {
		for i, want := range f.inserted[k] {
			n := int(e.New) - 1 + i
			if n >= len(lines) || strings.TrimRight(lines[n], "\r") != strings.TrimRight(want, "\r") {
				return differs
			}
			if isDistinct(want) {
				result = fits
			}
		}
	}
	for _, c := range f.context {
		if int(c.number) > len(lines) || !slices.Equal(strings.Fields(lines[c.number-1]), strings.Fields(c.text)) {
			return between
		}
	}
	return result
}

// showsText tells whether the diff shows a line that did not change by which a source could be known.
func (f *FileDiff) showsText() bool {
	return slices.ContainsFunc(f.context, func(c contextLine) bool { return isDistinct(c.text) })
}

// isDistinct tells whether a line says more than most sources do somewhere.
func isDistinct(line string) bool { return len(strings.TrimSpace(line)) > len("} //") }

// isOld tells whether text is the old version, by the names that git gives to contents.
// Where lines were only deleted, such as in a diff that is the wrong way round, the new
// version has nothing by which it could be known.
func (f *FileDiff) isOld(text []byte) bool {
	const enough = 7 // digits of a name that was made shorter
	if len(f.blobs[0]) < enough || f.blobs[0] == f.blobs[1] {
		return false
	}
	blob := slices.Concat([]byte(fmt.Sprintf("blob %d\x00", len(text))), text)
	one, two := sha1.Sum(blob), sha256.Sum256(blob) // git decides between them by repository
	return strings.HasPrefix(hex.EncodeToString(one[:]), f.blobs[0]) || strings.HasPrefix(hex.EncodeToString(two[:]), f.blobs[0])
}

// isUndeleted tells the same where git's names are not known and nothing but the lines of
// the text was deleted.
func (f *FileDiff) isUndeleted(text []byte) bool {
	return f.blobs[1] == "" && f.isEmpty() && f.hasDeleted(text)
}

// hasDeleted tells whether the lines that were deleted are the whole text.
func (f *FileDiff) hasDeleted(text []byte) bool {
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	return slices.EqualFunc(lines, f.deleted(), func(a, b string) bool { return strings.TrimRight(a, "\r") == strings.TrimRight(b, "\r") })
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// withoutLast returns a path without its last n components.
func withoutLast(path string, n int) string {
	for range n {
		path = path[:max(strings.LastIndexByte(path, '/'), 0)]
	}
	return path
}
