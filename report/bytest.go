package report

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"footfall/coverage"
	"footfall/output"
)

// printTests writes a table of the tests, in the order in which they are worth
// running: each adds more lines to those before it than any other would.
func printTests(w io.Writer, r *Report) error {
	tests, lines := testsOf(r.Set)
	if len(tests) == 0 {
		_, err := fmt.Fprintln(w, errNoTests)
		return err
	}
	inOrder(tests)
	ran, together := r.Set.Totals().Lines.Covered, 0
	rows := [][]string{{"test", "lines", "", "only it", "adds", "together"}}
	for _, t := range tests {
		together += t.adds
		rows = append(rows, []string{
			output.Printable(t.name), strconv.Itoa(t.lines), coverage.Ratio{Covered: t.lines, Total: lines}.Rounded(), number(t.only), number(t.adds),
			coverage.Ratio{Covered: together, Total: lines}.Rounded(),
		})
	}
	var text strings.Builder
	writeRows(&text, rows, []int{1, 2, 3, 4, 5})
	useless := 0
	for _, t := range tests {
		if t.adds == 0 {
			useless++
		}
	}
	fmt.Fprintf(&text, "\n%d of %d lines ran in tests", together, lines)
	if ran > together {
		fmt.Fprintf(&text, ", %d more in none", ran-together)
	}
	if useless > 0 {
		fmt.Fprintf(&text, "; without those that add nothing it takes %d of %d tests", len(tests)-useless, len(tests))
	}
	text.WriteString("\n")
	_, err := io.WriteString(w, text.String())
	return err
}

var errNoTests = errors.New("no names of tests in the data: --test NAME gives one, for each test: footfall report --test NAME --output json=NAME.json; then name all of these files")

// number is empty for 0.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// A testSum is what a test ran of a set.
type testSum struct {
	name  string
	ran   bitset // lines of all files, numbered
	lines int    // how many
	only  int    // of these, ran in no other test
	adds  int    // of these, ran in no test that comes before
}

type bitset []uint64

// without counts what is in b and not in other.
func (b bitset) without(other bitset) int {
	n := 0
	for i, word := range b {
		n += bits.OnesCount64(word &^ other[i])
	}
	return n
}

func (b bitset) add(other bitset) {
	for i, word := range other {
		b[i] |= word
	}
}

// testsOf sums up the tests of a set; lines is the number of all lines in it.
func testsOf(set *coverage.Set) (tests []*testSum, lines int) {
	lines = set.Totals().Lines.Total
	byName := make(map[string]*testSum)
	counts := make([]int32, lines) // tests of each line
	sole := make([]*testSum, lines)
	first := 0 // number of the first line of the file
	for _, f := range set.All() {
		for _, test := range f.Tests {
			t := byName[test.Name]
			if t == nil {
				t = &testSum{name: test.Name, ran: make(bitset, (lines+63)/64)}
				byName[test.Name] = t
				tests = append(tests, t)
			}
			k := 0
			for line := range test.Hits.All() {
				for k < len(f.Lines) && f.Lines[k].Number < line {
					k++
				}
				if k == len(f.Lines) || f.Lines[k].Number != line {
					continue // excluded
				}
				i := first + k
				t.ran[i/64] |= 1 << (i % 64)
				t.lines++
				counts[i]++
				sole[i] = t
			}
		}
		first += len(f.Lines)
	}
	for i, n := range counts {
		if n == 1 {
			sole[i].only++
		}
	}
	return tests, lines
}

// inOrder sorts tests so that each adds the most to those before it. What a
// test adds never grows as others come before it, so that only the first of a
// queue needs to be looked at again.
func inOrder(tests []*testSum) {
	if len(tests) == 0 {
		return
	}
	queue := slices.Clone(tests)
	for _, t := range queue {
		t.adds = t.lines
	}
	q := (*testQueue)(&queue)
	heap.Init(q)
	covered := make(bitset, len(tests[0].ran))
	for i := range tests {
		for {
			t := queue[0]
			now := t.ran.without(covered)
			if now == t.adds {
				break
			}
			t.adds = now
			heap.Fix(q, 0)
		}
		tests[i] = heap.Pop(q).(*testSum)
		covered.add(tests[i].ran)
	}
}

// A testQueue has the test first that adds the most, and of several of these
// the one with most lines.
type testQueue []*testSum

func (q testQueue) Len() int { return len(q) }
func (q testQueue) Less(i, j int) bool {
	a, b := q[i], q[j]
	return cmp.Or(cmp.Compare(b.adds, a.adds), cmp.Compare(b.lines, a.lines), strings.Compare(a.name, b.name)) < 0
}
func (q testQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *testQueue) Push(x any)   { *q = append(*q, x.(*testSum)) }
func (q *testQueue) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	*q = (*q)[:last]
	return t
}

// A place is a source, or some lines of it.
type place struct {
	file        string
	first, last int32 // 0, 0: all
}

// parsePlace reads FILE, FILE:LINE or FILE:FROM-TO.
func parsePlace(s string) (place, error) {
	p := place{file: s}
	if colon := strings.LastIndexByte(s, ':'); colon >= 0 {
		from, to, isRange := strings.Cut(s[colon+1:], "-")
		if !isRange {
			to = from
		}
		first, err1 := strconv.ParseInt(from, 10, 32)
		last, err2 := strconv.ParseInt(to, 10, 32)
		if err1 == nil && err2 == nil {
			p = place{s[:colon], int32(first), int32(last)}
			if first < 1 || last < first {
				return place{}, fmt.Errorf("%q: lines are counted from 1, the first is named first", s)
			}
		}
	}
	if p.file == "" {
		return place{}, fmt.Errorf("%q: expected FILE, FILE:LINE or FILE:FROM-TO", s)
	}
	return p, nil
}

// CheckTestsFor tells whether PrintTestsFor understands where.
func CheckTestsFor(where string) error {
	_, err := parsePlace(where)
	return err
}

func hasTests(set *coverage.Set) bool {
	for _, f := range set.All() {
		if len(f.Tests) > 0 {
			return true
		}
	}
	return false
}

// PrintTestsFor writes which tests ran FILE, FILE:LINE or FILE:FROM-TO, those
// that ran most of the lines first. A file may be named by the end of its path.
func (r *Report) PrintTestsFor(w io.Writer, where string) error {
	p, err := parsePlace(where)
	if err != nil {
		return err
	}
	if !hasTests(r.Set) {
		return errNoTests
	}
	f, err := r.fileNamed(p.file)
	if err != nil {
		return err
	}
	if p.last == 0 {
		p.first, p.last = 1, 1<<31-1
	}
	lines := withoutTests(f)
	var all, none coverage.Ratio
	var runs, noneRuns int64
	for i := range lines {
		if n := lines[i].Number; n < p.first || n > p.last {
			continue
		}
		all.Total++
		runs = max(runs, f.Lines[i].Count)
		noneRuns = max(noneRuns, lines[i].Count)
		if f.Lines[i].Count > 0 {
			all.Covered++
		}
		if lines[i].Count > 0 {
			none.Covered++
		}
	}
	shown := output.Printable(strings.Replace(where, p.file, r.Shown(f.Name), 1))
	if all.Total == 0 {
		return fmt.Errorf("%s: no code there", shown)
	}
	return writeTestsFor(w, shown, f, p, all, testRow{"(no test)", none.Covered, noneRuns})
}

// A testRow is what one test ran of a place: the number of lines, and how often
// the one that ran most.
type testRow struct {
	name  string
	lines int
	runs  int64
}

func writeTestsFor(w io.Writer, shown string, f *coverage.File, p place, all coverage.Ratio, none testRow) error {
	var found []testRow
	code := make(map[int32]bool)
	for _, l := range f.Lines {
		code[l.Number] = true
	}
	for _, t := range f.Tests {
		row := testRow{name: output.Printable(t.Name)}
		for line, count := range t.Hits.All() {
			if line >= p.first && line <= p.last && code[line] {
				row.lines++
				row.runs = max(row.runs, count)
			}
		}
		if row.lines > 0 {
			found = append(found, row)
		}
	}
	slices.SortStableFunc(found, func(a, b testRow) int {
		return cmp.Or(cmp.Compare(b.lines, a.lines), cmp.Compare(b.runs, a.runs))
	})
	if none.lines > 0 {
		found = append(found, none)
	}
	var text strings.Builder
	one := p.first == p.last
	switch {
	case one && all.Covered == 0:
		fmt.Fprintf(&text, "%s never ran\n", shown)
	case one:
		fmt.Fprintf(&text, "%s ran in:\n", shown)
	default:
		fmt.Fprintf(&text, "%s: %d of %d lines ran\n", shown, all.Covered, all.Total)
	}
	rows := [][]string{{"lines", "runs", "test"}}
	for _, t := range found {
		rows = append(rows, []string{strconv.Itoa(t.lines), strconv.FormatInt(t.runs, 10), t.name})
	}
	if one {
		for i := range rows {
			rows[i] = rows[i][1:]
		}
	}
	if len(found) > 0 {
		writeRows(&text, rows, []int{0, len(rows[0]) - 2})
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// fileNamed returns the file of that name, or the only one whose path ends so.
func (r *Report) fileNamed(name string) (*coverage.File, error) {
	var found []string
	clean := filepath.Clean(name)
	for _, path := range r.Set.Names() {
		if path == clean || r.Shown(path) == clean {
			return r.Set.File(path), nil
		}
		if strings.HasSuffix(path, "/"+strings.TrimPrefix(clean, "/")) {
			found = append(found, path)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("%s: no such source in the data", name)
	case 1:
		return r.Set.File(found[0]), nil
	}
	return nil, fmt.Errorf("%s may be %s or %s: name more of the path", name, r.Shown(found[0]), r.Shown(found[1]))
}
