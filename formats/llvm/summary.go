package llvm

import (
	"cmp"
	"slices"
)

// A Ratio is how many of a number of things were covered.
type Ratio struct{ Covered, Total int }

func (r *Ratio) count(covered bool) {
	r.Total++
	if covered {
		r.Covered++
	}
}

// Percent is how many of a hundred, 0 if there is none.
func (r Ratio) Percent() float64 {
	if r.Total == 0 {
		return 0
	}
	return float64(r.Covered) / float64(r.Total) * 100
}

func (r *Ratio) add(o Ratio) { r.Covered, r.Total = r.Covered+o.Covered, r.Total+o.Total }

func (r *Ratio) most(o Ratio) { r.Covered, r.Total = max(r.Covered, o.Covered), max(r.Total, o.Total) }

// A Summary is the totals of a function or file, as llvm-cov counts them.
type Summary struct {
	Regions, Lines, Branches, Conditions Ratio
	Functions, Instantiations            Ratio
}

// Add adds o.
func (s *Summary) Add(o Summary) {
	s.Regions.add(o.Regions)
	s.Lines.add(o.Lines)
	s.Branches.add(o.Branches)
	s.Conditions.add(o.Conditions)
	s.Functions.add(o.Functions)
	s.Instantiations.add(o.Instantiations)
}

// most keeps, of each number, the larger one.
func (s *Summary) most(o Summary) {
	s.Regions.most(o.Regions)
	s.Lines.most(o.Lines)
	s.Branches.most(o.Branches)
	s.Conditions.most(o.Conditions)
}

// Summary sums up a function.
func (c *Coverage) Summary(f *Function) Summary {
	var s Summary
	for i := range f.Regions {
		if g := &f.Regions[i]; g.Kind == Code {
			s.Regions.count(g.Count > 0)
		}
	}
	if f.Main < 0 {
		return s
	}
	var list []Segment
	if len(f.Files) == 1 {
		list = c.segmenter.ofFunction(f.Regions, &c.rules)
	} else {
		c.room = f.appendRegionsIn(c.room[:0], f.Main)
		list = c.segmenter.segments(c.room, &c.rules)
	}
	lineCounts(list, &c.rules, func(l LineCount) { s.Lines.count(l.Count > 0) })
	c.branchesIn(f, f.Main, &s.Branches)
	for i := range f.Decisions {
		d := &f.Decisions[i]
		if d.File != f.Main {
			continue
		}
		for _, t := range d.Conditions {
			if !t.Folded {
				s.Conditions.count(t.Covered)
			}
		}
	}
	return s
}

func (f *Function) regionsIn(file int) []*Region {
	return f.appendRegionsIn(make([]*Region, 0, len(f.Regions)), file)
}

func (f *Function) appendRegionsIn(list []*Region, file int) []*Region {
	for i := range f.Regions {
		if f.Regions[i].File == file {
			list = append(list, &f.Regions[i])
		}
	}
	return list
}

// deepest is how deep expansions nest that are followed.
const deepest = 1000

// branchesIn counts the branches in a file of the function and in what is expanded there.
func (c *Coverage) branchesIn(f *Function, file int, r *Ratio) {
	for i := range f.Branches {
		if b := &f.Branches[i]; b.File == file {
			c.rules.countBranch(b, r)
		}
	}
	for _, e := range f.expandedBranches(file) {
		c.rules.countBranch(e.Region, r)
	}
}

// ways tells which ways of a branch are none that counts: they are constant.
func (v *Rules) ways(b *Region) (foldTrue, foldFalse bool) {
	if v.Version >= 21 {
		return b.FoldTrue, b.FoldFalse
	}
	both := b.FoldTrue && b.FoldFalse
	return both, both
}

func (v *Rules) countBranch(b *Region, r *Ratio) {
	foldTrue, foldFalse := v.ways(b)
	if !foldTrue {
		r.count(b.Count > 0)
	}
	if !foldFalse {
		r.count(b.FalseCount > 0)
	}
}

// A Group is functions that begin at one place of a file: instances of a template, copies of a constructor.
type Group struct {
	Line, Column uint32
	Instances    []*Function
}

// Groups are the functions of a file, by place.
func (c *Coverage) Groups(file string) []Group {
	index := make(map[place]int)
	var groups []Group
	for _, f := range c.byFile[file] {
		if f.Main < 0 || f.Files[f.Main] != file {
			continue
		}
		first := f.first(f.Main)
		if first == nil {
			continue
		}
		at := first.start()
		i, ok := index[at]
		if !ok {
			i = len(groups)
			index[at] = i
			groups = append(groups, Group{Line: at.line, Column: at.column})
		}
		groups[i].Instances = append(groups[i].Instances, f)
	}
	slices.SortFunc(groups, func(a, b Group) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column)) })
	return groups
}

// GroupSummary sums up functions of one place: the maximum of each number.
func (c *Coverage) GroupSummary(list []*Function) Summary {
	var s Summary
	var count uint64
	for _, f := range list {
		s.most(c.Summary(f))
		s.Instantiations.count(f.Count > 0)
		count += f.Count
	}
	s.Functions.count(count > 0)
	return s
}

// FileSummary sums up a file: its groups, not its lines.
func (c *Coverage) FileSummary(file string) Summary {
	var s Summary
	for _, g := range c.Groups(file) {
		s.Add(c.GroupSummary(g.Instances))
	}
	return s
}

// Segments are those of a file, from all regions in it of all functions.
func (c *Coverage) Segments(file string) []Segment { return slices.Clone(c.segments(file)) }

// segments is Segments, until other ones are made.
func (c *Coverage) segments(file string) []Segment {
	s := &c.segmenter
	regions := c.gather(c.gathered[:0], file)
	c.gathered = regions
	return s.ofFunction(regions, &c.rules)
}

// gather returns the regions in a file of all functions. Instances of a template have the same: theirs are added up, so
// that fewer have to be sorted, or none where functions follow each other.
func (c *Coverage) gather(regions []Region, file string) []Region {
	type functionKey struct {
		start, end uint64
		number     int
		of         *Function
	}
	keys := make([]functionKey, 0, len(c.byFile[file]))
	for i, f := range c.byFile[file] {
		for k := range f.Regions {
			if g := &f.Regions[k]; f.Files[g.File] == file {
				key := g.key()
				keys = append(keys, functionKey{key.start, key.end, i, f})
				break
			}
		}
	}
	slices.SortFunc(keys, func(a, b functionKey) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end), cmp.Compare(len(a.of.Regions), len(b.of.Regions)), cmp.Compare(a.number, b.number))
	})
	last := 0 // where the regions of the function before begin
	for _, key := range keys {
		from := len(regions)
		for i := range key.of.Regions {
			if g := &key.of.Regions[i]; key.of.Files[g.File] == file {
				regions = append(regions, *g)
			}
		}
		if sameRanges(regions[last:from], regions[from:]) {
			for i := range from - last {
				regions[last+i].combine(&regions[from+i], &c.rules)
			}
			regions = regions[:from]
			continue
		}
		last = from
	}
	return regions
}

// sameRanges tells whether regions are of the same kinds and cover the same, one by one.
func sameRanges(a, b []Region) bool {
	return slices.EqualFunc(a, b, func(a, b Region) bool {
		return a.Line == b.Line && a.Column == b.Column && a.EndLine == b.EndLine && a.EndColumn == b.EndColumn && a.Kind == b.Kind
	})
}
