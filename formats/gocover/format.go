package gocover

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// A Profile is the counts of programs by packages: those that programs have in common are one.
type Profile struct {
	Mode Mode
	// Strict is set if programs of different modes are not to be added.
	Strict bool

	granularity Granularity
	packages    map[string]*profiled
}

// A profiled package is the units of a package.
type profiled struct {
	functions []function
	index     map[function]int
	counts    map[unit]uint32
}

type function struct {
	file, name string
	literal    bool
}

type unit struct {
	function int
	Unit
}

// Add adds a program, of which name is the covmeta file; only packages that are wanted, nil: all.
func (p *Profile) Add(name string, pod *Pod, wanted func(path string) bool) error {
	const clash = "counter %s clash while reading meta-data file %s: previous file had %v, new file has %v"
	switch {
	case p.packages == nil:
		p.Mode, p.granularity, p.packages = pod.Mode, pod.Granularity, make(map[string]*profiled)
	case p.granularity != pod.Granularity:
		return fmt.Errorf(clash, "granularity", name, p.granularity, pod.Granularity)
	case p.Mode != pod.Mode && p.Strict:
		return fmt.Errorf(clash, "mode", name, p.Mode, pod.Mode)
	}
	p.Mode = max(p.Mode, pod.Mode)
	pod.Each(func(pkg *Package, f *Function, count func(int) uint32) {
		if wanted != nil && !wanted(pkg.Path) {
			return
		}
		to := p.packages[pkg.Path]
		if to == nil {
			to = &profiled{index: make(map[function]int), counts: make(map[unit]uint32)}
			p.packages[pkg.Path] = to
		}
		to.add(f, count, p.Mode)
	})
	for i := range pod.Packages {
		// Those without functions are there, too.
		if path := pod.Packages[i].Path; p.packages[path] == nil && (wanted == nil || wanted(path)) {
			p.packages[path] = &profiled{index: make(map[function]int), counts: make(map[unit]uint32)}
		}
	}
	return nil
}

func (p *profiled) add(f *Function, count func(int) uint32, mode Mode) {
	key := function{f.File, f.Name, f.Literal}
	i, known := p.index[key]
	if !known {
		i = len(p.functions)
		p.functions = append(p.functions, key)
		p.index[key] = i
	}
	for k := range f.Units {
		at := unit{i, f.Units[k]}
		p.counts[at], _ = added(p.counts[at], count(k), mode)
	}
}

// sorted are the units, by files and places.
func (p *profiled) sorted() []unit {
	return slices.SortedFunc(maps.Keys(p.counts), func(a, b unit) int {
		return cmp.Or(cmp.Compare(p.functions[a.function].file, p.functions[b.function].file),
			cmp.Compare(a.StartLine, b.StartLine), cmp.Compare(a.EndLine, b.EndLine),
			cmp.Compare(a.StartColumn, b.StartColumn), cmp.Compare(a.EndColumn, b.EndColumn),
			cmp.Compare(a.Statements, b.Statements), cmp.Compare(a.function, b.function))
	})
}

// Packages are the paths of the packages, ascending.
func (p *Profile) Packages() []string { return slices.Sorted(maps.Keys(p.packages)) }

// WriteText writes the profile as go tool covdata textfmt and go test -coverprofile do.
func (p *Profile) WriteText(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "mode: %v\n", p.Mode); err != nil {
		return err
	}
	for _, path := range p.Packages() {
		pkg := p.packages[path]
		for _, u := range pkg.sorted() {
			if _, err := fmt.Fprintf(w, "%s:%d.%d,%d.%d %d %d\n", pkg.functions[u.function].file, u.StartLine, u.StartColumn, u.EndLine, u.EndColumn,
				u.Statements, pkg.counts[u]); err != nil {
				return err
			}
		}
	}
	return nil
}

// WritePercent writes how much of each package was covered, as go tool covdata percent does.
func (p *Profile) WritePercent(w io.Writer) error {
	for _, path := range p.Packages() {
		var covered, total uint64
		for u, count := range p.packages[path].counts {
			total += uint64(u.Statements)
			if count > 0 {
				covered += uint64(u.Statements)
			}
		}
		line := fmt.Sprintf("\t%s\t\t", path)
		if total > 0 { // else covdata ends no line
			line += fmt.Sprintf("coverage: %.1f%% of statements\n", percent(covered, total))
		}
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	return nil
}

func percent(covered, total uint64) float64 { return 100 * float64(covered) / float64(max(total, 1)) }

// WriteFunctions writes how much of each function was covered, as go tool covdata func does: what follows the first unit of a
// function in its file, up to one of another name, is that function's; literals are in the total only.
func (p *Profile) WriteFunctions(w io.Writer) error {
	tabs := tabwriter.NewWriter(w, 1, 8, 1, '\t', 0)
	var allCovered, all uint64
	for _, path := range p.Packages() {
		pkg := p.packages[path]
		var first unit
		var covered, total uint64
		end := func() {
			if f := pkg.functions[first.function]; !f.literal {
				fmt.Fprintf(tabs, "%s:%d:\t%s\t%.1f%%\n", f.file, first.StartLine, f.name, percent(covered, total))
			}
			allCovered, all = allCovered+covered, all+total
			covered, total = 0, 0
		}
		units := pkg.sorted()
		for i, u := range units {
			switch {
			case i == 0:
				first = u
			case pkg.functions[first.function].name != pkg.functions[u.function].name:
				end()
				first = u
			}
			total += uint64(u.Statements)
			if pkg.counts[u] > 0 {
				covered += uint64(u.Statements)
			}
		}
		if len(units) > 0 {
			end()
		}
	}
	fmt.Fprintf(tabs, "total\t(statements)\t%.1f%%\n", percent(allCovered, all))
	return tabs.Flush()
}
