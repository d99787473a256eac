package llvm

import (
	"cmp"
	"io"
	"slices"
	"strconv"
)

// A LcovOptions says what WriteLcov leaves out.
type LcovOptions struct {
	// Files are those that are written, in that order.
	Files []string
	// SkipFunctions, SkipBranches leave out what they name.
	SkipFunctions, SkipBranches bool
	SummaryOnly                 bool
	// UnifyInstances adds the branches of instances.
	UnifyInstances bool
}

// WriteLcov writes a tracefile as llvm-cov export -format=lcov of the version does.
func (c *Coverage) WriteLcov(w io.Writer, o LcovOptions) error {
	t := lcovWriter{coverage: c, options: &o, w: w}
	for _, name := range o.Files {
		t.name = name
		if t.file(); t.err != nil {
			return t.err
		}
	}
	t.flush()
	return t.err
}

type lcovWriter struct {
	coverage *Coverage
	options  *LcovOptions
	name     string // of the file
	w        io.Writer
	buf      []byte
	list     []lcovBranch
	expanded []lcovBranch
	places   []place // of branches, which keep theirs when there is no more room
	err      error
}

// flush writes what there is, and after an error nothing more.
func (t *lcovWriter) flush() {
	if t.err == nil {
		_, t.err = t.w.Write(t.buf)
	}
	t.buf = t.buf[:0]
}

// flushMuch flushes if there is much.
func (t *lcovWriter) flushMuch() {
	if len(t.buf) > 1<<16 {
		t.flush()
	}
}

func (t *lcovWriter) record(tag string, numbers ...uint64) {
	t.buf = append(t.buf, tag...)
	for i, n := range numbers {
		if i > 0 {
			t.buf = append(t.buf, ',')
		}
		t.buf = strconv.AppendUint(t.buf, n, 10)
	}
	t.buf = append(t.buf, '\n')
}

func (t *lcovWriter) named(tag string, n uint64, name string) {
	t.flushMuch()
	t.buf = append(t.buf, tag...)
	t.buf = strconv.AppendUint(t.buf, n, 10)
	t.buf = append(append(append(t.buf, ','), name...), '\n')
}

func (t *lcovWriter) file() {
	t.flushMuch()
	c, o := t.coverage, t.options
	t.buf = append(append(append(t.buf, "SF:"...), t.name...), '\n')
	summary := c.FileSummary(t.name)
	whole := !o.SummaryOnly
	if whole && !o.SkipFunctions {
		t.functions()
	}
	t.record("FNF:", uint64(summary.Functions.Total))
	t.record("FNH:", uint64(summary.Functions.Covered))
	if whole {
		lineCounts(c.segments(t.name), &c.rules, func(l LineCount) { t.record("DA:", uint64(l.Number), l.Count) })
	}
	if c.rules.Version >= 12 && !o.SkipBranches {
		if whole {
			t.branches()
		}
		t.record("BRF:", uint64(summary.Branches.Total))
		t.record("BRH:", uint64(summary.Branches.Covered))
	}
	t.record("LF:", uint64(summary.Lines.Total))
	t.record("LH:", uint64(summary.Lines.Covered))
	t.buf = append(t.buf, "end_of_record\n"...)
}

func (t *lcovWriter) functions() {
	var list []*Function
	for _, f := range t.coverage.byFile[t.name] {
		if f.Files[0] == t.name && len(f.Regions) > 0 {
			list = append(list, f)
		}
	}
	for _, f := range list {
		t.named("FN:", uint64(f.Regions[0].Line), f.Name)
	}
	for _, f := range list {
		t.named("FNDA:", f.Count, f.Name)
	}
}

// An lcovBranch is a branch at a place of the file, see expandedBranch.
type lcovBranch struct {
	expandedBranch
	count, other uint64
	position     int // among those of the file, or else among those of expansions: both from 0
}

// branches writes branches by lines, those of expansions on the line of the outermost one.
func (t *lcovWriter) branches() {
	rules := &t.coverage.rules
	t.places = t.places[:0]
	list, expanded := t.list[:0], t.expanded[:0]
	add := func(to []lcovBranch, b expandedBranch, position int) []lcovBranch {
		if rules.Version >= 21 && b.FoldTrue && b.FoldFalse {
			return to
		}
		return append(to, lcovBranch{b, b.Count, b.FalseCount, position})
	}
	position := 0 // of those in expansions, also of constant ones
	for _, f := range t.coverage.byFile[t.name] {
		main := f.Main >= 0 && f.Files[f.Main] == t.name
		for i := range f.Branches {
			// Since LLVM 21 also those in bodies of macros.
			if b := &f.Branches[i]; main && b.File == f.Main || rules.Version >= 21 && f.Files[b.File] == t.name {
				t.places = append(t.places, b.start())
				list = add(list, expandedBranch{b, t.places[len(t.places)-1:]}, len(list))
			}
		}
		if !main {
			continue
		}
		for _, b := range f.expandedBranches(f.Main) {
			expanded = add(expanded, b, position)
			position++
		}
	}
	list = append(list, expanded...)
	t.list, t.expanded = list, expanded
	t.writeBranches(t.ordered(list))
}

// ordered puts branches in the order in which they are written, and makes one of those of instances if that was asked for.
func (t *lcovWriter) ordered(list []lcovBranch) []lcovBranch {
	switch {
	case t.coverage.rules.Version < 21:
		at := func(b *lcovBranch) place { return place{b.path[0].line, b.Column} }
		introsort(list, func(a, b *lcovBranch) bool { return at(a).less(at(b)) })
	case t.options.UnifyInstances:
		slices.SortStableFunc(list, func(a, b lcovBranch) int { return slices.CompareFunc(a.path, b.path, comparePlaces) })
		return unified(list)
	default:
		introsort(list, func(a, b *lcovBranch) bool {
			return cmp.Or(slices.CompareFunc(a.path, b.path, comparePlaces), cmp.Compare(a.position, b.position)) < 0
		})
	}
	return list
}

func comparePlaces(a, b place) int {
	return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column))
}

// unified adds the counts of branches of the same path: of instances, and of one expansion.
func unified(list []lcovBranch) []lcovBranch {
	var out []lcovBranch
	for i := range list {
		b := &list[i]
		if n := len(out); n > 0 && slices.Equal(out[n-1].path, b.path) {
			out[n-1].count, out[n-1].other = out[n-1].count+b.count, out[n-1].other+b.other
			continue
		}
		out = append(out, *b)
	}
	return out
}

func (t *lcovWriter) writeBranches(list []lcovBranch) {
	line, pair, index := uint32(0), uint64(0), uint64(0)
	for i := range list {
		b := &list[i]
		if at := b.path[0].line; at != line {
			line, pair, index = at, 0, 0
		}
		if b.FoldTrue && b.FoldFalse {
			continue
		}
		// llvm-cov keeps 32 bits of a count here.
		counts := [2]uint32{uint32(b.count), uint32(b.other)}
		for _, count := range counts {
			t.buf = append(t.buf, "BRDA:"...)
			for _, n := range [3]uint64{uint64(line), pair, index} {
				t.buf = append(strconv.AppendUint(t.buf, n, 10), ',')
			}
			if counts[0] == 0 && counts[1] == 0 {
				t.buf = append(t.buf, '-')
			} else {
				t.buf = strconv.AppendUint(t.buf, uint64(count), 10)
			}
			t.buf = append(t.buf, '\n')
			index++
		}
		pair++
	}
}

// introsort sorts as std::sort of GCC's library does, by which llvm-cov orders branches: those that are
// equal come out in its order. Quicksort by the median of three, a heap where that gets too deep, and insertion at
// the end.
func introsort[T any](list []T, less func(a, b *T) bool) {
	depth := 0
	for n := len(list); n > 1; n >>= 1 {
		depth++
	}
	quicksort(list, 2*depth, less)
	for i := 1; i < len(list); i++ {
		for j := i; j > 0 && less(&list[j], &list[j-1]); j-- {
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
}

func quicksort[T any](list []T, depth int, less func(a, b *T) bool) {
	const short = 16
	for len(list) > short {
		if depth == 0 {
			heapsort(list, less)
			return
		}
		depth--
		n := len(list)
		a, b, c := 1, n/2, n-1
		median := b
		switch {
		case less(&list[a], &list[b]):
			if !less(&list[b], &list[c]) {
				if median = a; less(&list[a], &list[c]) {
					median = c
				}
			}
		case less(&list[a], &list[c]):
			median = a
		case less(&list[b], &list[c]):
			median = c
		}
		list[0], list[median] = list[median], list[0]
		i, j := 1, n
		for {
			for less(&list[i], &list[0]) {
				i++
			}
			for j--; less(&list[0], &list[j]); j-- {
			}
			if i >= j {
				break
			}
			list[i], list[j] = list[j], list[i]
			i++
		}
		quicksort(list[i:], depth, less)
		list = list[:i]
	}
}

// heapsort sorts by a heap of which the largest is the root; an element goes down to a leaf before it rises to its
// place.
func heapsort[T any](list []T, less func(a, b *T) bool) {
	adjust := func(hole, n int, value T) {
		top := hole
		child := hole
		for child < (n-1)/2 {
			child = 2 * (child + 1)
			if less(&list[child], &list[child-1]) {
				child--
			}
			list[hole] = list[child]
			hole = child
		}
		if n%2 == 0 && child == (n-2)/2 {
			child = 2*child + 1
			list[hole] = list[child]
			hole = child
		}
		for parent := (hole - 1) / 2; hole > top && less(&list[parent], &value); parent = (hole - 1) / 2 {
			list[hole] = list[parent]
			hole = parent
		}
		list[hole] = value
	}
	n := len(list)
	for i := (n - 2) / 2; i >= 0; i-- {
		adjust(i, n, list[i])
	}
	for end := n - 1; end > 0; end-- {
		value := list[end]
		list[end] = list[0]
		adjust(0, end, value)
	}
}
