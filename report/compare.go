package report

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"footfall/coverage"
)

// A Comparison is the coverage of two versions of sources.
type Comparison struct {
	// Files are those that one of the versions has, by name.
	Files   []*coverage.FileComparison
	Tallies coverage.Tallies
	Shown   func(path string) string // the name to show for a source
	// ExceptionBranches counts branches that only an exception decides, as
	// others.
	ExceptionBranches bool

	pairs    *pairs
	problems []Problem
	doubts   int // see Patch
}

// Compare compares the coverage of two versions. d tells how the sources
// differ; nil: they are taken as equal. excluded is what was taken out of new.
func Compare(old, new *coverage.Set, d *SourceDiff, excluded Excluded, sources *Sources) *Comparison {
	c := &Comparison{Shown: sources.Shown, pairs: newPairs(old, new)}
	changes := &placement{}
	gone := make(map[string]*FileDiff) // deleted ones, by the name of the old version
	if d != nil {
		changes = newPlaces(new, excluded, sources).place(d)
		c.problems, c.doubts = changes.problems, changes.doubts
		gone = c.deleted(d, changes.base, newPlaces(old, Excluded{}, sources))
	}
	compared := make(map[string]bool)
	for _, f := range new.Files {
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
		c.add(coverage.CompareFiles(was, f, change.Edits))
	}
	for _, f := range old.Files {
		if compared[f.Name] {
			continue
		}
		change := gone[f.Name]
		if change == nil {
			change = &FileDiff{}
		}
		c.add(coverage.CompareFiles(f, nil, change.Edits))
	}
	slices.SortFunc(c.Files, func(a, b *coverage.FileComparison) int { return cmp.Compare(c.name(a), c.name(b)) })
	return c
}

// Problems are changed sources without coverage data, and all that leaves in
// doubt which lines were changed.
func (c *Comparison) Problems() []Problem { return c.problems }

// deleted finds the deleted files of the diff, by the names that they have in
// the old version.
func (c *Comparison) deleted(d *SourceDiff, b base, old *places) map[string]*FileDiff {
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
		if rest, ok := below(s, r.from); ok && r.from != "" {
			return rest
		}
		return s
	}
	if dir, ok := strings.CutSuffix(name, cut(f.New)); ok && f.Old != "" {
		return dir + cut(f.Old)
	}
	return r.path(f.Old)
}

func (c *Comparison) add(f *coverage.FileComparison) {
	c.Files = append(c.Files, f)
	c.Tallies.Add(f.Tallies)
}

// name is that of the new version of a file, or what it would be.
func (c *Comparison) name(f *coverage.FileComparison) string {
	if f.New != nil {
		return f.New.Name
	}
	return c.pairs.now(f.Old.Name)
}

// pairs finds the old version of a file by its name, also where the old version
// lay in another directory.
type pairs struct {
	files          map[string]*coverage.File // old ones
	oldDir, newDir string                    // one stands for the other; equal: nothing does
}

// newPairs looks for the two directories that bring together most of the files
// whose names are in one of the sets only.
func newPairs(old, new *coverage.Set) *pairs {
	p := &pairs{files: make(map[string]*coverage.File)}
	inNew := make(map[string]bool)
	for _, f := range new.Files {
		inNew[f.Name] = true
	}
	byBase := make(map[string][]string) // old names that are not in the new set
	for _, f := range old.Files {
		p.files[f.Name] = f
		if base := filepath.Base(f.Name); !inNew[f.Name] {
			byBase[base] = append(byBase[base], f.Name)
		}
	}
	votes := make(map[[2]string]int)
	var best [2]string
	for _, f := range new.Files {
		if p.files[f.Name] != nil {
			continue
		}
		was, longest := "", 0
		for _, candidate := range byBase[filepath.Base(f.Name)] {
			if n := commonSuffix(candidate, f.Name); n > longest {
				was, longest = candidate, n
			}
		}
		if was == "" {
			continue
		}
		dirs := [2]string{withoutLast(was, longest), withoutLast(f.Name, longest)}
		votes[dirs]++
		if n := cmp.Or(cmp.Compare(votes[dirs], votes[best]), cmp.Compare(best[0], dirs[0])); n > 0 {
			best = dirs
		}
	}
	p.oldDir, p.newDir = best[0], best[1]
	return p
}

// withoutLast returns a path without its last n components.
func withoutLast(path string, n int) string {
	for range n {
		path = path[:max(strings.LastIndexByte(path, '/'), 0)]
	}
	return path
}

// old returns the file that had the name in the old version, nil if there is
// none.
func (p *pairs) old(name string) *coverage.File {
	if f := p.files[name]; f != nil {
		return f
	}
	if rest, ok := strings.CutPrefix(name, p.newDir+"/"); ok && p.oldDir != p.newDir {
		return p.files[p.oldDir+"/"+rest]
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
