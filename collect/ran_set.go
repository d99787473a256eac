//go:build linux

package collect

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"footfall/collect/find"
	"footfall/coverage"
	"footfall/report/exclude"
	"footfall/report/source"
)

// Result makes a set of what ran. A function or line counts 1 if it ran: how often is not known.
// Functions of which it is not known whether they ran are left out, and their number is a problem;
// lines are excluded.
//
// Functions are in the file where their source begins. Of a program without debug information
// that is the program's own file, and the line of a function is its number there, by address.
func (r *Ran) Result(o Options) (*Result, error) {
	r.Settle()
	o.Sources.Texts = make(map[string][]byte)
	result := &Result{Set: new(coverage.Set), Objects: new(find.Objects), options: o, made: time.Now()}
	files := make(map[string]*coverage.File)
	fileAt := func(path string, keep bool) *coverage.File {
		if keep && files[path] == nil {
			files[path] = &coverage.File{Name: path}
		}
		return files[path]
	}
	file := func(name string) *coverage.File { return fileAt(o.Sources.Resolve("/", name)) }
	for _, p := range r.programs {
		defer p.names.open()()
		unknown := 0
		for n, fn := range p.Functions {
			if fn.Unknown != 0 {
				unknown++
				continue
			}
			path, line, keep := p.home(n, o.Sources)
			f := fileAt(path, keep)
			if f == nil {
				continue
			}
			f.Functions = append(f.Functions, fn.covered(line))
			if path == p.Path && o.Sources.Texts[f.Name] == nil {
				o.Sources.Texts[f.Name] = p.list()
			}
		}
		if unknown > 0 {
			result.Problems = append(result.Problems, source.NewProblem(source.Undecided, p.Path, fmt.Errorf("of %d of its %d functions it is not known whether they ran: they are left out", unknown, len(p.Functions))))
		}
	}
	var unknown exclude.Excluded
	r.addLines(file, &unknown)
	var sum coverage.Sum
	for _, f := range files {
		slices.SortStableFunc(f.Functions, func(a, b *coverage.Function) int {
			return cmp.Or(cmp.Compare(a.StartLine, b.StartLine), cmp.Compare(a.Name, b.Name))
		})
		f.Functions = joinInstances(f.Functions, nil)
	}
	for _, f := range files {
		if len(f.Functions)+len(f.Lines) == 0 {
			continue
		}
		sum.Take(coverage.NewSet(f))
	}
	result.Set = sum.Set()
	result.Finish()
	result.Excluded.List = append(result.Excluded.List, unknown.List...)
	result.Excluded.Totals.Add(unknown.Totals)
	slices.SortStableFunc(result.Excluded.List, func(a, b exclude.Exclusion) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.First, b.First))
	})
	var problems strings.Builder
	source.PrintProblems(&problems, result.Problems, r.options.Verbose)
	if text := problems.String(); !r.said[text] {
		r.said[text] = true
		fmt.Fprint(r.options.Stderr, text)
	}
	return result, nil
}

// home is where function number n is, and whether that is in the report: in a source, or else in the program's file, and there its
// number from 1 on.
func (p *RanProgram) home(n int, sources *source.Sources) (path string, line int, keep bool) {
	if fn := p.Functions[n]; fn.source != 0 && fn.Line > 0 {
		path, keep = sources.Resolve("/", fn.File())
		return path, int(fn.Line), keep
	}
	return p.Path, n + 1, sources.Keeps(p.Path)
}

// A RanFile is the functions of a program that are in a source, or that have none. No counts are set.
type RanFile struct {
	*coverage.File
	// Members are, of each of its functions, the numbers of those of the program that it consists of.
	Members [][]int32
}

// Known is the same number, which is not 0, as long as the same is known of the same functions: which of them ran, and of which that
// is not known.
func (p *RanProgram) Known() uint64 {
	var h maphash.Hash
	h.SetSeed(knownSeed)
	bits := make([]byte, len(p.Functions))
	for i, fn := range p.Functions {
		if fn.Ran {
			bits[i] = 1
		} else if fn.Unknown != 0 {
			bits[i] = 2
		}
	}
	_, _ = h.Write(bits)
	return h.Sum64() | 1
}

var knownSeed = maphash.MakeSeed()

// Files returns the functions of a program as Result has them, by file, those included of which it is not known whether they
// ran. The files are called as sources says.
func (p *RanProgram) Files(sources *source.Sources) (files []RanFile) {
	defer p.names.open()()
	numbers := make(map[string]int)
	members := make(ranMembers, len(p.Functions))
	for n, fn := range p.Functions {
		path, line, keep := p.home(n, sources)
		if !keep {
			continue
		}
		i, known := numbers[path]
		if !known {
			i = len(files)
			numbers[path] = i
			files = append(files, RanFile{File: &coverage.File{Name: sources.Shown(path)}})
		}
		covered := fn.covered(line)
		covered.Count, covered.Instances[0].Count = 0, 0
		members[covered] = []int32{int32(n)}
		files[i].Functions = append(files[i].Functions, covered)
	}
	for i := range files {
		f := &files[i]
		slices.SortStableFunc(f.Functions, coverage.CompareFunctions)
		var united []*coverage.Function
		for _, fn := range joinInstances(f.Functions, members) {
			if last := len(united) - 1; last >= 0 && coverage.CompareFunctions(united[last], fn) == 0 { // parts that a compiler has made
				united[last].Merge(fn)
				members.join(united[last], fn)
			} else {
				united = append(united, fn)
			}
		}
		for _, fn := range united {
			slices.SortFunc(fn.Instances, func(a, b coverage.Instance) int { return strings.Compare(a.Name, b.Name) })
			f.Members = append(f.Members, members[fn])
		}
		f.Functions = united
	}
	return files
}

// ranMembers are the numbers of the functions that others consist of; nil: that is not wanted.
type ranMembers map[*coverage.Function][]int32

// join makes the members of one function those of another, too.
func (m ranMembers) join(of, fn *coverage.Function) {
	if m != nil {
		m[of] = append(m[of], m[fn]...)
		delete(m, fn)
	}
}

// InstanceName is the name that the function has as an instance.
func (fn *RanFunction) InstanceName() string {
	if symbol := fn.Symbol(); symbol != "" {
		return symbol
	}
	return fn.Name()
}

// covered is the function in a set.
func (fn *RanFunction) covered(line int) *coverage.Function {
	name := fn.InstanceName()
	f := &coverage.Function{Name: name, StartLine: int32(line)}
	if fn.Ran {
		f.Count = 1
	}
	f.Instances = []coverage.Instance{{Name: name, Count: f.Count}}
	return f
}

// joinInstances makes one of functions that begin on one line and have one name, as those of headers
// of C do in each unit, or names of C++ or Rust: instances of a template, constructors. They are sorted.
func joinInstances(functions []*coverage.Function, members ranMembers) []*coverage.Function {
	var joined []*coverage.Function
	for _, fn := range functions {
		last := len(joined) - 1
		if last < 0 || joined[last].StartLine != fn.StartLine || joined[last].Name != fn.Name && !(isMangled(joined[last].Name) && isMangled(fn.Name)) {
			joined = append(joined, fn)
			continue
		}
		of := joined[last]
		of.Count = max(of.Count, fn.Count)
		members.join(of, fn)
		if i := &of.Instances[len(of.Instances)-1]; i.Name == fn.Name {
			i.Count = max(i.Count, fn.Count)
		} else {
			of.Instances = append(of.Instances, fn.Instances...)
		}
	}
	return joined
}

func isMangled(name string) bool {
	return strings.HasPrefix(name, "_Z") || strings.HasPrefix(name, "_R")
}

// list is what stands for the source of a program without debug information: its functions, one a line.
func (p *RanProgram) list() (text []byte) {
	for _, fn := range p.Functions {
		text = fmt.Appendf(text, "%#x  %6d bytes  %s\n", fn.Addr, fn.Size, fn.Name())
	}
	return text
}
