package coverage

import (
	"cmp"
	"slices"
)

// A Test is what one test, known by its name, ran of a file.
type Test struct {
	Name string // not empty
	Hits Hits
}

// mergeTest adds what a test ran. There may be thousands of tests, and one more
// with each set that is merged.
func (f *File) mergeTest(t Test) {
	i, found := slices.BinarySearchFunc(f.Tests, t.Name, func(t Test, name string) int { return cmp.Compare(t.Name, name) })
	if found {
		f.Tests[i].Hits = f.Tests[i].Hits.Merge(t.Hits)
		return
	}
	f.Tests = slices.Insert(f.Tests, i, Test{t.Name, slices.Clone(t.Hits)})
}

// NameTest makes all that f has covered the work of one test. Tests that it
// knows keep what is theirs.
func (f *File) NameTest(name string) {
	if len(f.Tests) > 0 {
		return
	}
	if hits := AppendHits(nil, f.Lines); len(hits) > 0 {
		f.Tests = []Test{{Name: name, Hits: hits}}
	}
}
