// Package coverage holds what ran: files, functions, lines, branches, calls
// and conditions with their counts, whatever compiler or process they came
// from.
//
// Every reader of coverage data (package gcov today) fills a [Set], every
// output (package report) prints one. The package reads and writes no format
// and knows no compiler. A Set is plain data: it may be read from several
// goroutines at once, and changed by one.
//
// # Columns
//
// GCC and Clang's --coverage know lines only. Clang's source-based coverage
// knows regions with columns. Positions are therefore kept as line and column
// from the start (column 0 means "not known"): functions have both, and
// branches and conditions carry a Column, so that two on one line can be told
// apart by a reader that knows it.
package coverage

import (
	"cmp"
	"iter"
	"slices"
)

// A File is one source file.
type File struct {
	// Name is the resolved path of the source: absolute where the working
	// directory of the compiler is known.
	Name string
	// Functions that start in this file, by start line, column and name.
	// Instances of one template, and the copies that a compiler makes of one
	// constructor or inline function, are one Function.
	Functions []*Function
	// Lines that have code, by ascending Number, each number once.
	Lines []Line
	// Tests, by ascending Name, each name once, say what of the counts of Lines
	// is theirs. Most coverage knows none.
	Tests []Test
	// Expansions by ascending Line and Column, then File.
	Expansions []Expansion
	// Told are functions as they were before [Set.Reconcile] made one of several:
	// of each line where it did, all that start there, in the order of Functions.
	// [Merge] goes on with these.
	Told []*Function
}

// A Function is one function of the source.
type Function struct {
	// 1-based; column 0: not known. Line 0 is that of calls of which it is not
	// known where the function starts, until [Set.Reconcile].
	StartLine, StartColumn int32
	EndLine, EndColumn     int32
	// Name is that of the first instance, as the linker knows it.
	Name string
	// Count is the number of calls of all instances together. For a function
	// that ran only where it was inlined it is the count of its first line.
	Count int64
	// Blocks and BlocksExecuted are those of the instance with the most
	// blocks executed.
	Blocks, BlocksExecuted int32
	// Regions are the parts of the source that are counted by themselves, as LLVM and Rust count them, and RegionsRun
	// those of them that ran: the most of any instance. 0: data of others do not tell.
	Regions, RegionsRun int32
	// Unused is set where it is known that no program has code of it, since nothing uses it (LLVM, Rust).
	Unused bool
	// Instances, one or more, by ascending Name, each name once.
	Instances []Instance
}

// Symbols are the names of the instances, the first of which is f.Name.
func (f *Function) Symbols() []string {
	list := []string{f.Name}
	for i := range f.Instances {
		if name := f.Instances[i].Name; name != f.Name {
			list = append(list, name)
		}
	}
	return list
}

// LinesOf returns the lines with code of the i-th function of f. Where its end is not
// known it goes on to the next function.
func (f *File) LinesOf(i int) []Line {
	fn := f.Functions[i]
	end := fn.EndLine
	if end == 0 && i+1 < len(f.Functions) {
		end = f.Functions[i+1].StartLine - 1
	}
	byNumber := func(l Line, n int32) int { return cmp.Compare(l.Number, n) }
	from, _ := slices.BinarySearchFunc(f.Lines, fn.StartLine, byNumber)
	to := len(f.Lines)
	if end > 0 {
		to, _ = slices.BinarySearchFunc(f.Lines, end+1, byNumber)
	}
	return f.Lines[from:max(from, to)]
}

// An Instance is a function as the linker knows it: one instantiation of a
// template, one clone of a constructor.
type Instance struct {
	Name                   string
	Count                  int64
	Blocks, BlocksExecuted int32
	// Lines are those of the function in this instance, with 0 for what did not
	// run. They are known where a function has several instances.
	Lines Hits
}

// A Line is a source line that has code.
type Line struct {
	Number int32
	// Unexecuted is set on an executed line some block of which never ran.
	Unexecuted bool
	// Exceptional is set on a line that only exceptions can reach.
	Exceptional bool
	// Uncounted is set on a line of which only Branches and Conditions are known
	// until [Set.Reconcile]: tracefiles have these apart from counts of lines.
	Uncounted bool
	// Count says how often the line ran: the count of the block on it that
	// ran most, summed over the instances of a function. It is more than 0
	// exactly if the compiler's own tool says that the line ran.
	Count      int64
	Branches   []Branch
	Calls      []Call
	Conditions []Condition
	// Told are Branches as they were before [Set.Reconcile] gave those that are
	// in lists to others, nil where it did not (of most lines, which is why it is
	// a pointer). [Merge] goes on with these.
	Told *[]Branch
}

// A Branch is one way out of a block that has several.
type Branch struct {
	// Block numbers the deciding blocks of the line from 0 in the order of
	// the compiler; branches of one decision have the same Block.
	Block  int32
	Column int32 // 0: not known
	// To is the line on which the code ends that this way leads to; 0: not
	// known, or not in this file.
	To int32
	// Count is how often this way was taken.
	Count int64
	// Evaluated tells whether the deciding block ran at all.
	Evaluated bool
	// Fallthrough is the way to the next instruction, Throw the way of an
	// exception out of a call.
	Fallthrough, Throw bool
	// List is set where the branches of one Block may be those of several
	// decisions, as in tracefiles of lcov 1. They come last on a line.
	List bool
	// Guessed is set where it is known how many branches of the line were taken,
	// but not which: the first ones are said to be.
	Guessed bool
	// Exception is set where the decision is made by exceptions alone: a call
	// that either returns or throws. Such branches are left out of totals
	// unless asked for.
	Exception bool
}

// Decisions yields the branches of each decision of a line.
func Decisions(branches []Branch) iter.Seq[[]Branch] {
	return func(yield func([]Branch) bool) {
		for len(branches) > 0 {
			n := 1
			for n < len(branches) && branches[n].Block == branches[0].Block {
				n++
			}
			if !yield(branches[:n]) {
				return
			}
			branches = branches[n:]
		}
	}
}

// A Call is a call on the line.
type Call struct {
	// Count is how often the call was made, Returned how often it came back.
	Count, Returned int64
}

// A Condition is a decision of several terms; Terms has one entry a term, in
// the order of the source.
type Condition struct {
	Column int32 // 0: not known
	Terms  []Term
}

// A Term is one operand of a condition: True and False tell whether it has
// been shown to decide the outcome alone with that value (masking MC/DC).
type Term struct {
	True, False bool
}

// DeleteFunctions takes out the functions that out wants.
func (f *File) DeleteFunctions(out func(*Function) bool) {
	deleted := make(map[int32]bool) // lines
	f.Functions = slices.DeleteFunc(f.Functions, func(fn *Function) bool {
		if !out(fn) {
			return false
		}
		deleted[fn.StartLine] = true
		return true
	})
	// What was told of a line is not what is left.
	f.Told = slices.DeleteFunc(f.Told, func(fn *Function) bool { return deleted[fn.StartLine] })
}

// DeleteBranches takes out the branches that out wants.
func (l *Line) DeleteBranches(out func(Branch) bool) {
	if n := len(l.Branches); n > 0 {
		if l.Branches = slices.DeleteFunc(l.Branches, out); len(l.Branches) < n {
			l.Told = nil
		}
	}
}
