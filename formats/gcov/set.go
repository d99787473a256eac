package gcov

import (
	"cmp"
	"slices"
	"strings"

	"footfall/coverage"
)

// This file joins the tallies of several goroutines and makes a Set of them.

// merge adds another tally of the same collector, which must not be used
// after. Few sources are in both.
func (t *tally) merge(o *tally) {
	t.inconsistent += o.inconsistent
	t.contradict = append(t.contradict, o.contradict...)
	for key, f := range o.functions {
		if have := t.functions[key]; have != nil {
			have.instances = append(have.instances, f.instances...)
			f.same = have
		} else {
			t.functions[key] = f
		}
	}
	for _, file := range o.used {
		f := o.files[file]
		if int(file) >= len(t.files) || t.files[file] == nil {
			t.source(file)
			t.files[file] = f
			continue
		}
		t.files[file].passed = t.files[file].passed || f.passed
		for k, p := range f.all {
			for i := range p {
				if p[i].current != 0 {
					t.mergeLine(t.files[file].at(k<<pageBits|uint32(i)), &p[i])
				}
			}
		}
	}
	for at, terms := range o.conditions {
		at.function = at.function.merged()
		sum := t.conditions[at]
		for i, term := range terms {
			if i == len(sum) {
				sum = append(sum, coverage.Term{})
			}
			sum[i].True = sum[i].True || term.True
			sum[i].False = sum[i].False || term.False
		}
		t.conditions[at] = sum
	}
}

// merged is the function that f became part of, f itself if none.
func (f *functionTally) merged() *functionTally {
	if f != nil && f.same != nil {
		return f.same
	}
	return f
}

func (t *tally) mergeLine(l, from *lineTally) {
	if l.current == 0 {
		l.current = -1 // none of this tally
	}
	l.count += from.count
	l.passed += from.passed
	l.attached = l.attached || from.attached
	l.ran = l.ran || from.ran
	l.reached = l.reached || from.reached
	l.unexecuted = l.unexecuted || from.unexecuted
	l.inlined = l.inlined || from.inlined
	for src := from.group; src != nil; src = src.next {
		gr := t.group(l, src.function.merged())
		gr.branch, gr.call = 0, 0
		for _, b := range src.branches {
			t.addBranch(gr, b)
		}
		for _, c := range src.calls {
			t.addCall(gr, c)
		}
	}
}

// made makes files of the tally.
func (t *tally) made(workers int) []*coverage.File {
	t.list(workers)
	files := make([]*coverage.File, 0, len(t.used))
	for _, file := range t.used {
		f := t.files[file]
		if raised := countInlined(f.made.Functions, f.inlined); t.looks != nil {
			t.looks.keep(file, f.inlined, raised)
		}
		files = append(files, f.made)
	}
	return files
}

// list makes a file of each source of which the tally has something. The counts of functions
// are those of calls.
func (t *tally) list(workers int) {
	for _, f := range t.functions {
		source := t.source(f.key.file)
		source.functions = append(source.functions, f)
	}
	each(workers, len(t.used), func(i int) {
		f := t.files[t.used[i]]
		f.made = &coverage.File{Name: t.sources.list[t.used[i]], Lines: f.list(), Functions: listFunctions(f.functions)}
	})
	t.addConditions()
}

// listFunctions returns the functions of a file in order.
func listFunctions(functions []*functionTally) []*coverage.Function {
	if len(functions) == 0 {
		return nil
	}
	results, list := make([]coverage.Function, len(functions)), make([]*coverage.Function, len(functions))
	for i, f := range functions {
		results[i] = f.function()
		list[i] = &results[i]
	}
	slices.SortFunc(list, coverage.CompareFunctions)
	return list
}

// list returns the lines in order.
func (f *fileTally) list() []coverage.Line {
	n := 0
	var room ways
	for _, p := range f.all {
		for i := range p {
			if l := &p[i]; l.current != 0 {
				n++
				room.count(l)
			}
		}
	}
	if n == 0 {
		return nil
	}
	room.make()
	lines := make([]coverage.Line, n)
	n = 0
	for k, p := range f.all {
		for i := range p {
			l := &p[i]
			if l.current == 0 {
				continue
			}
			out := &lines[n] // written in place: it is large
			n++
			out.Number, out.Count = int32(k<<pageBits|uint32(i)), l.count
			out.Unexecuted, out.Exceptional = l.unexecuted, !l.reached
			if l.denied() {
				out.Count, out.Unexecuted = 0, false
			} else if l.inlined {
				f.inlined = append(f.inlined, inlinedLine{out.Number, l.count})
			}
			if l.group != nil {
				room.fill(out, l)
			}
		}
	}
	return lines
}

// An inlinedLine is a line that ran as part of a function that it does not stand in.
type inlinedLine struct {
	number int32
	count  int64
}

// countInlined gives functions that were never called, but ran where they were
// inlined, the count of their first line that did. A line which another
// function around it may have run as well, as with a lambda, tells nothing. It returns the
// numbers of these functions.
func countInlined(functions []*coverage.Function, inlined []inlinedLine) (raised []int32) {
	if len(inlined) == 0 {
		return nil
	}
	end := int32(0) // of the functions so far
	for i, fn := range functions {
		first := fn.StartLine
		if first <= end || i+1 < len(functions) && functions[i+1].StartLine == first { // or beside it, by a macro
			first++
		}
		end = max(end, fn.EndLine)
		if fn.Count != 0 {
			continue
		}
		k, _ := slices.BinarySearchFunc(inlined, first, func(l inlinedLine, n int32) int { return cmp.Compare(l.number, n) })
		for ; k < len(inlined) && inlined[k].number <= min(fn.EndLine, fn.StartLine+maxInlined) && fn.Count == 0; k++ {
			fn.Count = inlined[k].count
			fn.Instances[0].Count = fn.Count
		}
		if fn.Count != 0 {
			raised = append(raised, int32(i))
		}
	}
	return raised
}

// maxInlined is the number of lines in which an inlined function must show.
const maxInlined = 1000

// ways are the branches and calls of the lines of a file, in memory that these share.
type ways struct {
	branches     []coverage.Branch
	calls        []coverage.Call
	branch, call int // how many there are to be
	groups       []*group
}

func (w *ways) count(l *lineTally) {
	for gr := l.group; gr != nil; gr = gr.next {
		w.branch += len(gr.branches)
		w.call += len(gr.calls)
	}
}

func (w *ways) make() {
	w.branches, w.calls = make([]coverage.Branch, 0, w.branch), make([]coverage.Call, 0, w.call)
}

// fill fills in the branches and calls of a line, function by function in the
// order of the source.
func (w *ways) fill(out *coverage.Line, l *lineTally) {
	w.groups = w.groups[:0]
	for gr := l.group; gr != nil; gr = gr.next {
		w.groups = append(w.groups, gr)
	}
	if len(w.groups) > 1 {
		slices.SortFunc(w.groups, func(a, b *group) int { return a.function.compare(b.function) })
	}
	branches, calls := len(w.branches), len(w.calls)
	block := int32(-1)
	for _, gr := range w.groups {
		w.calls = append(w.calls, gr.calls...)
		last := int32(-1)
		for i := range gr.branches {
			b := &gr.branches[i]
			if b.block != last {
				last = b.block
				block++
			}
			w.branches = append(w.branches, coverage.Branch{Block: block, To: b.to, Count: b.count, Evaluated: b.evaluated, Fallthrough: b.falls, Throw: b.throw, Exception: b.exception})
		}
	}
	if n := len(w.branches); n > branches {
		out.Branches = w.branches[branches:n:n]
	}
	if n := len(w.calls); n > calls {
		out.Calls = w.calls[calls:n:n]
	}
}

// compare orders functions by their place in the source; nil, for what was
// inlined, comes last.
func (f *functionTally) compare(o *functionTally) int {
	switch {
	case f == o:
		return 0
	case f == nil:
		return 1
	case o == nil:
		return -1
	}
	x, y := &f.key, &o.key
	return cmp.Or(cmp.Compare(x.file, y.file), cmp.Compare(x.line, y.line), cmp.Compare(x.column, y.column), strings.Compare(x.name, y.name))
}

// function is the sum of a function's instances.
func (f *functionTally) function() coverage.Function {
	slices.SortFunc(f.instances, func(a, b coverage.Instance) int { return strings.Compare(a.Name, b.Name) })
	out := coverage.Function{
		StartLine: int32(f.key.line), StartColumn: int32(f.key.column),
		EndLine: int32(f.endLine), EndColumn: int32(f.endColumn),
	}
	list := f.instances[:0]
	for _, in := range f.instances {
		if n := len(list); n > 0 && list[n-1].Name == in.Name { // compiled in different ways
			list[n-1].Count += in.Count
			list[n-1].BlocksExecuted = max(list[n-1].BlocksExecuted, in.BlocksExecuted)
			list[n-1].Blocks = max(list[n-1].Blocks, in.Blocks)
			list[n-1].Lines = list[n-1].Lines.Merge(in.Lines)
			continue
		}
		list = append(list, in)
	}
	if len(list) == 1 {
		list[0].Lines = nil
	}
	out.Instances = list
	out.Name = list[0].Name
	for i, in := range list {
		out.Count += in.Count
		if i == 0 || in.BlocksExecuted > out.BlocksExecuted {
			out.Blocks, out.BlocksExecuted = in.Blocks, in.BlocksExecuted
		}
	}
	return out
}

func (t *tally) addConditions() {
	keys := make([]conditionKey, 0, len(t.conditions))
	for at := range t.conditions {
		keys = append(keys, at)
	}
	slices.SortFunc(keys, func(a, b conditionKey) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), a.function.compare(b.function), cmp.Compare(a.number, b.number))
	})
	for _, at := range keys {
		lines := t.files[at.file].made.Lines
		i, ok := slices.BinarySearchFunc(lines, int32(at.line), func(l coverage.Line, n int32) int { return cmp.Compare(l.Number, n) })
		if ok {
			lines[i].Conditions = append(lines[i].Conditions, coverage.Condition{Terms: t.conditions[at]})
		}
	}
}
