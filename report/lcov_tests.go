package report

import (
	"cmp"
	"slices"
	"strings"

	"footfall/coverage"
)

// onlyTest returns the name of the test that all counts of f are of, "" if
// there is none.
func onlyTest(f *coverage.File) string {
	if len(f.Tests) != 1 || slices.ContainsFunc(withoutTests(f), func(l coverage.Line) bool { return l.Count > 0 }) {
		return ""
	}
	return f.Tests[0].Name
}

// withoutTests returns the lines of f with the counts that are of no test.
func withoutTests(f *coverage.File) []coverage.Line {
	if len(f.Tests) == 0 {
		return f.Lines
	}
	lines := slices.Clone(f.Lines)
	for _, test := range f.Tests {
		rest := lines
		for number, count := range test.Hits.All() {
			i, found := slices.BinarySearchFunc(rest, number, func(l coverage.Line, n int32) int { return cmp.Compare(l.Number, n) })
			if rest = rest[i:]; found {
				rest[0].Count = max(rest[0].Count-count, 0)
			}
		}
	}
	return lines
}

// tests writes a record for each test: the lines that ran. Functions and
// branches are not known by test; they are in the record of no test, whose lines
// have the counts that are of none, so that all records together are the sum.
func (t *tracefile) tests(f *coverage.File) {
	for _, test := range f.Tests {
		t.begin(test.Name, f.Name)
		var total coverage.Ratio
		rest := f.Lines
		for number, count := range test.Hits.All() {
			i, found := slices.BinarySearchFunc(rest, number, func(l coverage.Line, n int32) int { return cmp.Compare(l.Number, n) })
			if rest = rest[i:]; found { // what was excluded is not
				t.record("DA:", "", int64(number), count)
				total.Total++
			}
		}
		total.Covered = total.Total
		t.ratio("LF:", "LH:", total)
		t.buf = append(t.buf, "end_of_record\n"...)
	}
}

// begin writes the head of a record. lcov cuts names of tests at a comma.
func (t *tracefile) begin(test, file string) {
	t.buf = append(t.buf, "TN:"...)
	if test != "" {
		t.buf = append(t.buf, strings.NewReplacer(",", "_", "\n", "_", "\r", "_").Replace(test)...)
	}
	t.buf = append(append(append(t.buf, "\nSF:"...), oneLine(file)...), '\n')
}
