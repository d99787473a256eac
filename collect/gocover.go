package collect

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strings"

	"footfall/coverage"
	"footfall/formats/gocover"
	"footfall/formats/tracefiles"
	"footfall/input"
	"footfall/report"
	"footfall/report/source"
)

// This file collects what programs of go build -cover have written.

// goPrograms adds them to the sum.
func (r *Result) goPrograms(sum *coverage.Sum) {
	for _, p := range r.Objects.Go {
		pod, err := r.readGo(p)
		if err != nil {
			r.Problems = append(r.Problems, goProblem(p.Meta, err))
		}
		if pod == nil {
			continue
		}
		set, problems := report.ReadGo(p.Meta, goSources(pod), report.ReadOptions{Sources: r.options.reportSources(), Test: r.options.Test})
		sum.Take(set)
		r.Problems = append(r.Problems, problems...)
	}
}

func goProblem(file string, err error) source.Problem {
	problem := source.NewProblem(source.Damaged, file, source.WithoutPath(err))
	var format *gocover.FormatError
	if errors.As(err, &format) {
		problem.Offset = format.Offset
		problem.Err = format.Err
	}
	return problem
}

// readGo reads a program and adds up its counts.
func (r *Result) readGo(p source.GoProgram) (*gocover.Pod, error) {
	read := func(name string) ([]byte, error) {
		b, _, err := r.options.Sources.Owners.ReadInto(nil, name, min(mostProfile, input.Most()))
		return b, err
	}
	b, err := read(p.Meta)
	if err != nil {
		return nil, err
	}
	meta, err := gocover.ReadMeta(b)
	if err != nil {
		return nil, err
	}
	pod := gocover.NewPod(meta)
	for _, name := range p.Counters {
		b, err := read(name)
		if err != nil {
			r.Problems = append(r.Problems, goProblem(name, err))
			continue
		}
		c, err := gocover.ReadCounters(b)
		if err != nil {
			r.Problems = append(r.Problems, goProblem(name, err))
		}
		if c == nil {
			continue
		}
		for _, err := range pod.Add(c) {
			r.Problems = append(r.Problems, source.NewProblem(source.OtherProfile, name, err))
		}
	}
	return pod, nil
}

// goSources are what the program counted, by sources.
func goSources(pod *gocover.Pod) []tracefiles.GoSource {
	index := make(map[string]int)
	var list []tracefiles.GoSource
	pod.Each(func(pkg *gocover.Package, f *gocover.Function, count func(int) uint32) {
		i, known := index[f.File]
		if !known {
			i = len(list)
			index[f.File] = i
			list = append(list, tracefiles.GoSource{Name: f.File})
		}
		s := &list[i]
		for k, u := range f.Units {
			s.Blocks = append(s.Blocks, tracefiles.GoBlock{
				StartLine: u.StartLine, StartColumn: u.StartColumn, EndLine: u.EndLine, EndColumn: u.EndColumn, Count: int64(count(k)),
			})
		}
		if !f.Literal && len(f.Units) > 0 {
			s.Functions = append(s.Functions, goFunction(pkg, f, int64(count(0))))
		}
	})
	slices.SortFunc(list, func(a, b tracefiles.GoSource) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func goFunction(pkg *gocover.Package, f *gocover.Function, count int64) tracefiles.GoFunction {
	out := tracefiles.GoFunction{Name: pkg.Name + "." + strings.TrimPrefix(f.Name, "*"), StartLine: math.MaxInt32, Count: count}
	for _, u := range f.Units {
		out.StartLine, out.EndLine = min(out.StartLine, line(u.StartLine)), max(out.EndLine, line(u.EndLine))
	}
	return out
}

// line is a number of a line, of which there are fewer than 2^31.
func line(n uint32) int32 { return int32(min(n, math.MaxInt32)) }
