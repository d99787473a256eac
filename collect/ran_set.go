//go:build linux

package collect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"footfall/coverage"
	"footfall/report/source"
)

// Result makes a set of what ran. A function counts 1 if it ran: how often is not known. Those
// of which it is not known whether they ran are left out, and their number is a problem.
//
// Functions are in the file where their source begins. Of a program without debug information
// that is the program's own file, and the line of a function is its number there, by address.
func (r *Ran) Result(o Options) (*Result, error) {
	r.Settle()
	o.Sources.Texts = make(map[string][]byte)
	result := &Result{Set: new(coverage.Set), Objects: new(source.Objects), options: o, made: time.Now()}
	files := make(map[string]*coverage.File)
	for _, p := range r.programs {
		unknown := 0
		for n, fn := range p.Functions {
			if fn.Unknown != "" {
				unknown++
				continue
			}
			name, line := fn.File, fn.Line
			if name == "" {
				name, line = p.Path, n+1
			}
			path, keep := o.Sources.Resolve("/", name)
			if !keep {
				continue
			}
			f := files[path]
			if f == nil {
				f = &coverage.File{Name: path}
				files[path] = f
			}
			f.Functions = append(f.Functions, fn.covered(line))
			if fn.File == "" && o.Sources.Texts[path] == nil {
				o.Sources.Texts[path] = p.list()
			}
		}
		if unknown > 0 {
			result.Problems = append(result.Problems, source.NewProblem(source.Undecided, p.Path, fmt.Errorf("of %d of its %d functions it is not known whether they ran: they are left out", unknown, len(p.Functions))))
		}
	}
	var sum coverage.Sum
	for _, f := range files {
		slices.SortStableFunc(f.Functions, func(a, b *coverage.Function) int {
			return cmp.Or(cmp.Compare(a.StartLine, b.StartLine), cmp.Compare(a.Name, b.Name))
		})
		f.Functions = joinInstances(f.Functions)
	}
	for _, f := range files {
		sum.Take(coverage.NewSet(f))
	}
	result.Set = sum.Set()
	result.Finish()
	for _, p := range result.Problems {
		r.say("%v", p)
	}
	return result, nil
}

// covered is the function in a set.
func (fn *RanFunction) covered(line int) *coverage.Function {
	name := cmp.Or(fn.Symbol, fn.Name)
	f := &coverage.Function{Name: name, StartLine: int32(line)}
	if fn.Ran {
		f.Count = 1
	}
	f.Instances = []coverage.Instance{{Name: name, Count: f.Count}}
	return f
}

// joinInstances makes one of functions that begin on one line and have one name, as those of headers
// of C do in each unit, or names of C++ or Rust: instances of a template, constructors. They are sorted.
func joinInstances(functions []*coverage.Function) []*coverage.Function {
	var joined []*coverage.Function
	for _, fn := range functions {
		last := len(joined) - 1
		if last < 0 || joined[last].StartLine != fn.StartLine || joined[last].Name != fn.Name && !(isMangled(joined[last].Name) && isMangled(fn.Name)) {
			joined = append(joined, fn)
			continue
		}
		of := joined[last]
		of.Count = max(of.Count, fn.Count)
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
		text = fmt.Appendf(text, "%#x  %6d bytes  %s\n", fn.Addr, fn.Size, fn.Name)
	}
	return text
}
