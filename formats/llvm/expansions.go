package llvm

import (
	"cmp"
	"slices"

	"footfall/coverage"
)

// This file finds what of macros, and of files that are included, ran where they are used. What several functions
// expand at one place, as instances of a template do, is one with the sum of their counts.

// An expandedFile is a file of a function that one of its regions expands.
type expandedFile struct {
	of   *expandedFunction
	file int
}

// An expandedFunction is a function with expansions.
type expandedFunction struct {
	*countedFunction
	code       [][]*Region // by file
	expansions [][]*Region
	seen       []bool // files that were expanded: bytes may say that several places expand one
}

// expansions gives the file what is expanded in it.
func (b *fileBuilder) expansions() {
	var list []expandedFile
	for _, f := range b.functions {
		if !b.isMain(f) || !slices.ContainsFunc(f.Regions, func(g Region) bool { return g.Kind == Expansion }) {
			continue
		}
		e := &expandedFunction{f, make([][]*Region, len(f.Files)), make([][]*Region, len(f.Files)), make([]bool, len(f.Files))}
		for i := range f.Regions {
			g := &f.Regions[i]
			if e.code[g.File] = append(e.code[g.File], g); g.Kind == Expansion {
				e.expansions[g.File] = append(e.expansions[g.File], g)
			}
		}
		e.seen[f.Main] = true
		list = append(list, expandedFile{e, f.Main})
	}
	b.file.Expansions = b.within(list, 0)
}

// within are the expansions in a text that several functions have.
func (b *fileBuilder) within(texts []expandedFile, depth int) []coverage.Expansion {
	if depth == coverage.DeepestExpansion {
		return nil
	}
	type key struct {
		at   place
		path int32
	}
	groups := make(map[key][]expandedFile)
	var order []key
	for _, t := range texts {
		for _, g := range t.of.expansions[t.file] {
			path := t.of.paths[g.Expanded]
			if path < 0 || t.of.seen[g.Expanded] {
				continue // it is not wanted, as a system header is not
			}
			t.of.seen[g.Expanded] = true
			k := key{g.start(), path}
			if groups[k] == nil {
				order = append(order, k)
			}
			groups[k] = append(groups[k], expandedFile{t.of, g.Expanded})
		}
	}
	slices.SortFunc(order, func(x, y key) int {
		return cmp.Or(comparePlaces(x.at, y.at), cmp.Compare(b.names[x.path], b.names[y.path]))
	})
	list := make([]coverage.Expansion, 0, len(order))
	for _, k := range order {
		e := coverage.Expansion{Line: int32(k.at.line), Column: column(k.at.column), File: b.names[k.path]}
		var regions []*Region
		for _, t := range groups[k] {
			regions = append(regions, t.of.code[t.file]...)
		}
		last := int32(0)
		lineCounts(segments(regions, &setRules), &setRules, func(l LineCount) {
			e.Lines = e.Lines.Add(&last, int32(l.Number), clamp(l.Count))
		})
		e.Within = b.within(groups[k], depth+1)
		list = append(list, e)
	}
	if len(list) == 0 {
		return nil
	}
	return list
}
