package change

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"footfall/coverage"
	"footfall/report/exclude"
	"footfall/report/source"
)

// A Comparison is the coverage of two versions of sources.
type Comparison struct {
	// Files are those that one of the versions has, by name.
	Files   []*coverage.FileComparison
	Tallies coverage.Tallies

	diffs    map[*coverage.FileComparison]*FileDiff
	pairs    *pairs
	problems []source.Problem
	doubts   int // see Patch
}

// Compare compares the coverage of two versions. d tells how the sources
// differ; nil: they are taken as equal. excluded is what was taken out of new.
func Compare(old, new *coverage.Set, d *Diff, excluded exclude.Excluded, sources *source.Sources) *Comparison {
	c := &Comparison{pairs: newPairs(old, new), diffs: make(map[*coverage.FileComparison]*FileDiff)}
	changes := &placement{}
	gone := make(map[string]*FileDiff) // deleted ones, by the name of the old version
	if d != nil {
		changes = newPlaces(new, excluded, sources).place(d)
		c.problems, c.doubts = changes.problems, changes.doubts
		gone = c.deleted(d, changes.base, newPlaces(old, exclude.Excluded{}, sources))
	}
	compared := make(map[string]bool)
	for _, f := range new.All() {
		before, change := f.Name, changes.files[f.Name]
		if change == nil {
			change = &FileDiff{}
		} else if change.Old != change.New {
			before = changes.before(f.Name, change)
		}
		was := c.pairs.old(before)
		if was != nil {
			compared[was.Name] = true
		}
		c.add(coverage.CompareFiles(was, f, change.Edits), change)
	}
	for _, name := range old.Names() {
		if compared[name] {
			continue
		}
		change := gone[name]
		if change == nil {
			change = &FileDiff{}
		}
		c.add(coverage.CompareFiles(old.File(name), nil, change.Edits), change)
	}
	slices.SortFunc(c.Files, func(a, b *coverage.FileComparison) int { return cmp.Compare(c.Name(a), c.Name(b)) })
	return c
}

// Problems are changed sources without coverage data, and all that leaves in
// doubt which lines were changed.
func (c *Comparison) Problems() []source.Problem { return c.problems }

// Doubts is the number of changed files of which it is not known which lines of the
// report they changed.
func (c *Comparison) Doubts() int { return c.doubts }

// deleted finds the deleted files of the diff, by the names that they have in
// the old version.
func (c *Comparison) deleted(d *Diff, b base, old *places) map[string]*FileDiff {
	gone := make(map[string]*FileDiff)
	for i := range d.Files {
		f := &d.Files[i]
		if f.New != "" {
			continue
		}
		path := b.path(f.Old)
		for _, name := range old.lookup(b, path) {
			gone[name] = f
		}
		if was := c.pairs.old(path); was != nil {
			gone[was.Name] = f
		}
	}
	return gone
}

// before returns the name that a file with another one in the old version had
// there, in the set that the file is in; "" if it is new.
func (r *placement) before(name string, f *FileDiff) string {
	cut := func(s string) string {
		if rest, ok := source.Below(s, r.from); ok && r.from != "" {
			return rest
		}
		return s
	}
	if dir, ok := strings.CutSuffix(name, cut(f.New)); ok && f.Old != "" {
		return dir + cut(f.Old)
	}
	return r.path(f.Old)
}

func (c *Comparison) add(f *coverage.FileComparison, d *FileDiff) {
	c.diffs[f] = d
	c.Files = append(c.Files, f)
	c.Tallies.Add(f.Tallies)
}

// Edits make the new version of a file of the old one.
func (c *Comparison) Edits(f *coverage.FileComparison) coverage.Edits { return c.diffs[f].Edits }

// Deleted is the text of a line of the old version that the i-th edit deletes, counted from
// 0; "" where the diff does not tell.
func (c *Comparison) Deleted(f *coverage.FileComparison, i, line int) string {
	d := c.diffs[f]
	if i >= len(d.removed) || line >= len(d.removed[i]) {
		return ""
	}
	return d.removed[i][line]
}

// Name is that of the new version of a file, or what it would be.
func (c *Comparison) Name(f *coverage.FileComparison) string {
	if f.New != nil {
		return f.New.Name
	}
	return c.Now(f.Old.Name)
}

// Now returns the name that an old file has in the new version, if it was not renamed.
func (c *Comparison) Now(old string) string { return c.pairs.now(old) }

// pairs finds the old version of a file by its name, also where the old version
// lay in another directory.
type pairs struct {
	set            *coverage.Set // the old one
	names          map[string]bool
	oldDir, newDir string // one stands for the other; equal: nothing does
}

// newPairs looks for the two directories that bring together most of the files
// whose names are in one of the sets only.
func newPairs(old, new *coverage.Set) *pairs {
	p := &pairs{set: old, names: make(map[string]bool)}
	inNew := make(map[string]bool)
	for _, name := range new.Names() {
		inNew[name] = true
	}
	byBase := make(map[string][]string) // old names that are not in the new set
	for _, name := range old.Names() {
		p.names[name] = true
		if base := filepath.Base(name); !inNew[name] {
			byBase[base] = append(byBase[base], name)
		}
	}
	votes := make(map[[2]string]int)
	var best [2]string
	for _, name := range new.Names() {
		if p.names[name] {
			continue
		}
		was, longest := "", 0
		for _, candidate := range byBase[filepath.Base(name)] {
			if n := source.CommonSuffix(candidate, name); n > longest {
				was, longest = candidate, n
			}
		}
		if was == "" {
			continue
		}
		dirs := [2]string{withoutLast(was, longest), withoutLast(name, longest)}
		votes[dirs]++
		if n := cmp.Or(cmp.Compare(votes[dirs], votes[best]), cmp.Compare(best[0], dirs[0])); n > 0 {
			best = dirs
		}
	}
	p.oldDir, p.newDir = best[0], best[1]
	return p
}

// old returns the file that had the name in the old version, nil if there is
// none.
func (p *pairs) old(name string) *coverage.File {
	if f := p.set.File(name); f != nil {
		return f
	}
	if rest, ok := strings.CutPrefix(name, p.newDir+"/"); ok && p.oldDir != p.newDir {
		return p.set.File(p.oldDir + "/" + rest)
	}
	return nil
}

// now returns the name that an old file has in the new version, if it was not
// renamed.
func (p *pairs) now(name string) string {
	if rest, ok := strings.CutPrefix(name, p.oldDir+"/"); ok && p.oldDir != p.newDir {
		return p.newDir + "/" + rest
	}
	return name
}

// Included returns the number of files where an unchanged line has code in one
// version only.
func (c *Comparison) Included() int {
	n := 0
	for _, f := range c.Files {
		l := &f.Tallies.Lines
		if f.Old != nil && f.New != nil && l[coverage.UIC]+l[coverage.GIC]+l[coverage.EUB]+l[coverage.ECB] > 0 {
			n++
		}
	}
	return n
}
