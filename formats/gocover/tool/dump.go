package tool

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"footfall/formats/gocover"
)

// A dump is one of the commands that print.
type dump struct {
	*run
	adder
	counts    map[functionKey][]uint32
	functions []int // of each package of the pod
	mode      gocover.Mode
	packages  map[string]*packageUnits
	current   *packageUnits
	out       *os.File
}

// packageUnits are the blocks of a package, of all programs that have it.
type packageUnits struct {
	functions []functionName
	index     map[functionName]int
	counts    map[unit]uint32
	order     []unit
}

type functionName struct {
	file, name string
	literal    bool
}

// A unit is a block of a function.
type unit struct {
	function int
	gocover.CoverableUnit
}

func (r *run) newDump() (*dump, error) {
	if r.dirs == "" {
		return nil, &usageError{"select input directories with '-i' option"}
	}
	d := &dump{run: r, adder: adder{relaxed: r.command != "textfmt"}, packages: make(map[string]*packageUnits)}
	if r.command == "textfmt" && r.out == "" {
		return nil, &usageError{"select output file name with '-o' option"}
	}
	if r.out != "" {
		var err error
		if d.out, err = os.Create(r.out); err != nil {
			return nil, &usageError{fmt.Sprintf("unable to open textfmt output file %q: %v", r.out, err)}
		}
	}
	return d, nil
}

func (d *dump) pod(p *pod) error {
	d.counts, d.functions = make(map[functionKey][]uint32), nil
	if err := d.program(p.metaFile, p.meta); err != nil {
		return err
	}
	if d.mode == 0 {
		d.mode = p.meta.Mode
	}
	for i := range p.meta.Packages {
		d.functions = append(d.functions, len(p.meta.Packages[i].Functions))
	}
	return nil
}

func (d *dump) file(string, int, map[string]string) {}

func (d *dump) counters(f *gocover.FunctionCounters) error {
	n := 0
	if uint64(f.Package) < uint64(len(d.functions)) {
		n = d.functions[f.Package]
	}
	if n == 0 || uint64(f.Function) > uint64(n) {
		d.warn("func payload inconsistency: id [p=%d,f=%d] nf=%d len(ctrs)=%d in VisitFuncCounterData, ignored", f.Package, f.Function, n, len(f.Counts))
		return nil
	}
	return d.added(&d.adder, d.counts, f)
}

func (d *dump) endCounters() {}

func (d *dump) pkg(_ int, p *gocover.Package) error {
	if d.current = d.packages[p.Path]; d.current == nil {
		d.current = &packageUnits{index: make(map[functionName]int), counts: make(map[unit]uint32)}
		d.packages[p.Path] = d.current
	}
	return nil
}

func tooFewCounts(counts []uint32, f *gocover.FuncDesc) error {
	return fmt.Errorf("%d counters for the %d blocks of %s in %s", len(counts), len(f.Units), f.Name, f.File)
}

func (d *dump) function(pkg, index int, f *gocover.FuncDesc) error {
	counts := d.counts[functionKey{uint32(pkg), uint32(index)}]
	if counts != nil && len(counts) < len(f.Units) {
		return tooFewCounts(counts, f)
	}
	p := d.current
	name := functionName{f.File, f.Name, f.Literal}
	k, known := p.index[name]
	if !known && len(f.Units) > 0 {
		k = len(p.functions)
		p.index[name] = k
		p.functions = append(p.functions, name)
	}
	for i, u := range f.Units {
		var n uint32
		if counts != nil {
			n = counts[i]
		}
		key := unit{k, u}
		was, known := p.counts[key]
		if !known {
			p.order = append(p.order, key)
		}
		if d.mode == gocover.Set {
			p.counts[key] = min(was|n, 1)
		} else {
			p.counts[key], _ = saturating(was, n)
		}
	}
	return nil
}

func (d *dump) endPod() error { return nil }

func (d *dump) finish() error {
	if d.out != nil {
		defer d.out.Close()
	}
	if d.command == "pkglist" {
		for _, path := range slices.Sorted(maps.Keys(d.packages)) {
			fmt.Fprintf(d.Stdout, "%s\n", path)
		}
		return nil
	}
	if d.mode == 0 {
		return nil
	}
	switch d.command {
	case "percent":
		d.percent()
	case "func":
		d.perFunction()
	}
	if d.out != nil {
		if err := d.text(d.out); err != nil {
			return fmt.Errorf("writing to %s: %v", d.run.out, err)
		}
	}
	return nil
}

// sorted are the blocks of a package in the order of the source.
func (p *packageUnits) sorted() []unit {
	list := slices.Clone(p.order)
	slices.SortStableFunc(list, func(a, b unit) int {
		return cmp.Or(strings.Compare(p.functions[a.function].file, p.functions[b.function].file), cmp.Compare(a.Line, b.Line), cmp.Compare(a.EndLine, b.EndLine),
			cmp.Compare(a.Column, b.Column), cmp.Compare(a.EndColumn, b.EndColumn), cmp.Compare(a.Statements, b.Statements))
	})
	return list
}

// text writes a text profile.
func (d *dump) text(w io.Writer) error {
	b := fmt.Appendf(nil, "mode: %v\n", d.mode)
	for _, path := range slices.Sorted(maps.Keys(d.packages)) {
		p := d.packages[path]
		for _, u := range p.sorted() {
			b = fmt.Appendf(b, "%s:%d.%d,%d.%d %d %d\n", p.functions[u.function].file, u.Line, u.Column, u.EndLine, u.EndColumn, u.Statements, p.counts[u])
		}
	}
	_, err := w.Write(b)
	return err
}

func (d *dump) percent() {
	for _, path := range slices.Sorted(maps.Keys(d.packages)) {
		var all, covered uint64
		for u, n := range d.packages[path].counts {
			all += uint64(u.Statements)
			if n != 0 {
				covered += uint64(u.Statements)
			}
		}
		fmt.Fprintf(d.Stdout, "\t%s\t\t", path)
		if all != 0 {
			fmt.Fprintf(d.Stdout, "coverage: %.1f%% of statements\n", share(covered, all))
		}
	}
}

func share(covered, all uint64) float64 { return 100 * float64(covered) / float64(max(all, 1)) }

// perFunction prints the functions of packages. Literals are not functions: their statements are in the total only.
func (d *dump) perFunction() {
	w := tabwriter.NewWriter(d.Stdout, 1, 8, 1, '\t', 0)
	defer w.Flush()
	var all, covered uint64
	for _, path := range slices.Sorted(maps.Keys(d.packages)) {
		p := d.packages[path]
		var own, ownCovered uint64
		line := uint32(0)
		var of functionName
		end := func() {
			if !of.literal {
				fmt.Fprintf(w, "%s:%d:\t%s\t%.1f%%\n", of.file, line, of.name, share(ownCovered, own))
			}
			all, covered = all+own, covered+ownCovered
			own, ownCovered = 0, 0
		}
		list := p.sorted()
		for i, u := range list {
			name := p.functions[u.function]
			if i > 0 && name.name != of.name {
				end()
			}
			if i == 0 || name.name != of.name {
				of, line = name, u.Line
			}
			own += uint64(u.Statements)
			if p.counts[u] != 0 {
				ownCovered += uint64(u.Statements)
			}
		}
		if len(list) > 0 {
			end()
		}
	}
	fmt.Fprintf(w, "total\t(statements)\t%.1f%%\n", share(covered, all))
}
