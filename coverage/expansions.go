package coverage

import (
	"cmp"
	"slices"
)

// An Expansion is a macro, or a file that is included, at the place of a [File] where it is used: which lines of its text
// ran there, and how often. Only data with regions tell (Clang's source-based coverage).
type Expansion struct {
	// 1-based, in the file, or in the text of the expansion that this one is within.
	Line, Column int32
	// File is where its text is, resolved as names of files are.
	File string
	// Lines are those of its text with code, with 0 for those that did not run.
	Lines Hits
	// Within are the expansions in its text, in the order of a File's.
	Within []Expansion
}

// DeepestExpansion is how deep expansions are kept that are within others.
const DeepestExpansion = 100

// CompareExpansions orders expansions as those of a [File] are. It returns 0 for the same one.
func CompareExpansions(a, b Expansion) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.File, b.File))
}

func mergeExpansions(a, b []Expansion) []Expansion {
	if len(b) == 0 {
		return a
	}
	return mergeSorted(a, b, CompareExpansions, Expansion.clone, func(a, b Expansion) Expansion {
		a.Lines, a.Within = a.Lines.Merge(b.Lines), mergeExpansions(a.Within, b.Within)
		return a
	})
}

// clone copies what is changed by merging: hits never are.
func (e Expansion) clone() Expansion {
	e.Within = cloneExpansions(e.Within)
	return e
}

func cloneExpansions(list []Expansion) []Expansion {
	list = slices.Clone(list)
	for i := range list {
		list[i] = list[i].clone()
	}
	return list
}

func (p *packer) expansions(list []Expansion) {
	p.count(len(list))
	line := int32(0)
	for i := range list {
		e := &list[i]
		p.number(int64(e.Line - line))
		line = e.Line
		p.number(int64(e.Column))
		p.text(e.File)
		p.text(string(e.Lines))
		p.expansions(e.Within)
	}
}

func (u *unpacker) expansions() []Expansion {
	n := u.count()
	if n == 0 {
		return nil
	}
	list, line := make([]Expansion, n), int32(0)
	for i := range list {
		line += u.small()
		list[i] = Expansion{Line: line, Column: u.small(), File: u.text(), Lines: u.hits(), Within: u.expansions()}
	}
	return list
}
