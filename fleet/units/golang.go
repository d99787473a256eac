package units

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"footfall/coverage"
	"footfall/fleet/store"
	"footfall/fleet/wire"
	"footfall/formats/gocover"
)

// GoPackage is the kind of units that are packages of programs of Go. The program of one is
//
//	version      1 byte
//	mode         1 byte, granularity 1 byte, see gocover.Meta
//	sources      number, of each how meta-data name it, what it is called (nothing: it does not count), and what is needed of it to make
//	             lines and functions of blocks (nothing: it was not there), see gocover.Source.Encode
//	package      as the compiler wrote it
//
// Its counters are those of the blocks, function by function; where they only tell that a block ran, as many processes as ran it,
// and then those of [Function.Unknown], one for each function.
const GoPackage = "go"

// A GoSource is how a source of a package is called, and what is known of it.
type GoSource struct {
	Shown string // "": it does not count
	*gocover.Source
}

// OfPackage returns the unit of a package.
func OfPackage(p *gocover.Package, mode gocover.Mode, granularity gocover.Granularity, source func(name string) GoSource) (store.Unit, error) {
	o := goPackage{mode: mode, granularity: granularity, Package: p}
	for i := range p.Functions {
		name := p.Functions[i].File
		if o.source(name) < 0 {
			s := source(name)
			o.sources = append(o.sources, goSource{name: name, shown: s.Shown})
			if s.Source != nil && s.Shown != "" {
				o.sources[len(o.sources)-1].encoded = s.Encode()
			}
		}
	}
	b := binary.AppendUvarint([]byte{version, byte(mode), byte(granularity)}, uint64(len(o.sources)))
	for _, s := range o.sources {
		b = appendText(appendText(appendText(b, s.name), s.shown), string(s.encoded))
	}
	u := store.Unit{Kind: GoPackage, Name: p.Path, Counters: o.size(), Program: append(b, p.Bytes...)}
	if len(u.Program) > mostProgram || u.Counters > wire.MostCounters {
		return u, fmt.Errorf("package %s has %d bytes and %d counters, which is too large", p.Path, len(u.Program), u.Counters)
	}
	return u, nil
}

// OfPackages returns the counters of a program's packages as those of their units.
func OfPackages(m *gocover.Meta, c *gocover.Counters) (map[string][]uint64, error) {
	all := make(map[string][]uint64, len(m.Packages))
	list := make([]*goPackage, len(m.Packages))
	for i := range m.Packages {
		list[i] = &goPackage{mode: m.Mode, Package: &m.Packages[i]}
		all[m.Packages[i].Path] = make([]uint64, list[i].size())
	}
	for i := range c.Segments {
		for _, f := range c.Segments[i].Functions {
			if int64(f.Package) >= int64(len(list)) || int64(f.Function) >= int64(len(list[f.Package].Functions)) || len(f.Counts) != len(list[f.Package].Functions[f.Function].Units) {
				return nil, errOther
			}
			to := all[list[f.Package].Path][list[f.Package].first(int(f.Function)):]
			for k, n := range f.Counts {
				if m.Mode == gocover.Set {
					n = min(n, 1)
				}
				to[k] += uint64(n)
			}
		}
	}
	return all, nil
}

// mostSources is how many sources a package may have.
const mostSources = 1 << 16

// A goPackage is a unit of the kind GoPackage.
type goPackage struct {
	*gocover.Package
	mode        gocover.Mode
	granularity gocover.Granularity
	sources     []goSource
	firsts      []int // of functions, once asked for
}

type goSource struct {
	name, shown string
	encoded     []byte
	read        *gocover.Source
}

// source is the number of a source, -1: it is not known.
func (o *goPackage) source(name string) int {
	return slices.IndexFunc(o.sources, func(s goSource) bool { return s.name == name })
}

// first is where the counters of a function begin; of one more than there are, where those end.
func (o *goPackage) first(function int) int {
	if o.firsts == nil {
		at := 0
		for i := range o.Functions {
			o.firsts = append(o.firsts, at)
			at += len(o.Functions[i].Units)
		}
		o.firsts = append(o.firsts, at)
	}
	return o.firsts[function]
}

// size is how many counters the unit has.
func (o *goPackage) size() int {
	n := o.first(len(o.Functions))
	if o.mode == gocover.Set {
		n += len(o.Functions)
	}
	return n
}

// goPackageOf reads a unit.
func goPackageOf(u *store.Unit) (*goPackage, error) {
	c, err := programOf(u)
	if err != nil {
		return nil, err
	}
	o := &goPackage{mode: gocover.Mode(c.byte()), granularity: gocover.Granularity(c.byte())}
	if c.err == nil && !o.mode.Counts() {
		c.fail("mode %d of counters is not known", o.mode)
	}
	for n := c.small(mostSources); n > 0 && c.err == nil; n-- {
		s := goSource{name: c.text(), shown: c.text(), encoded: []byte(c.text())}
		if c.err == nil && len(s.encoded) > 0 {
			var err error
			if s.read, err = gocover.DecodeSource(s.encoded); err != nil {
				c.fail("source %q: %v", s.name, err)
			}
		}
		o.sources = append(o.sources, s)
	}
	if c.err != nil {
		return nil, c.err
	}
	if o.Package, err = gocover.ReadPackage(c.b[c.at:]); err != nil {
		return nil, err
	}
	if o.size() != u.Counters {
		return nil, fmt.Errorf("it says that it has %d counters, where its package has %d", u.Counters, o.size())
	}
	return o, nil
}

// pod is the package as a program that has run, by the counters of the unit; without hits it has not. Functions of which it is not
// known whether they ran are left out.
func (o *goPackage) pod(hits []uint64) *gocover.Pod {
	pkg := *o.Package
	counts := make([][]uint64, 0, len(pkg.Functions))
	pkg.Functions = nil
	for i := range o.Functions {
		var own []uint64
		if hits != nil {
			own = hits[o.first(i):o.first(i+1)]
			if unknown := o.unknown(i); unknown >= 0 && hits[unknown] > 0 && !counted(own) {
				continue
			}
		}
		pkg.Functions, counts = append(pkg.Functions, o.Functions[i]), append(counts, own)
	}
	return &gocover.Pod{
		Meta:   &gocover.Meta{Mode: o.mode, Granularity: o.granularity, Packages: []gocover.Package{pkg}},
		Counts: [][][]uint64{counts},
	}
}

// unknown is the counter of a function that tells that it is not known whether it ran; -1: there is none.
func (o *goPackage) unknown(function int) int32 {
	if o.mode != gocover.Set {
		return -1
	}
	return int32(o.first(len(o.Functions)) + function)
}

// A podSum is a unit of the kind GoPackage as it is collected.
type podSum struct {
	*goPackage
	pod *gocover.Pod
}

// sumOfPackage reads a unit and its counters; without hits it has not run.
func sumOfPackage(u *store.Unit, hits []uint64) (*podSum, error) {
	o, err := goPackageOf(u)
	if err != nil {
		return nil, err
	}
	if hits != nil && len(hits) != u.Counters {
		return nil, fmt.Errorf("%d counters, where it has %d", len(hits), u.Counters)
	}
	return &podSum{o, o.pod(hits)}, nil
}

// ofPackages returns what units have run. Those in which a source is the same are collected together, as a report of their
// programs has it.
func ofPackages(list []*podSum) *coverage.Set {
	var sum coverage.Sum
	for len(list) > 0 {
		sources := make(map[string]*goSource) // by what they are called
		of := make(map[*gocover.Pod]*goPackage)
		var group []*gocover.Pod
		var others []*podSum
		for _, p := range list {
			if !p.agrees(sources) {
				others = append(others, p)
				continue
			}
			for i := range p.sources {
				if s := &p.sources[i]; sources[s.shown] == nil || sources[s.shown].read == nil {
					sources[s.shown] = s
				}
			}
			group, of[p.pod] = append(group, p.pod), p.goPackage
		}
		set, _ := gocover.Collect(group, gocover.CollectOptions{
			Source: func(p *gocover.Pod, name string) (string, bool) {
				i := of[p].source(name)
				if i < 0 {
					return "", false
				}
				return of[p].sources[i].shown, of[p].sources[i].shown != ""
			},
			Read: func(path string) *gocover.Source { return sources[path].read },
		})
		sum.Take(set)
		list = others
	}
	return sum.Set()
}

// agrees tells whether the sources of a package are those that are known, or some of them are not known.
func (o *goPackage) agrees(sources map[string]*goSource) bool {
	for i := range o.sources {
		s := &o.sources[i]
		if known := sources[s.shown]; s.shown != "" && known != nil && s.read != nil && known.read != nil && !bytes.Equal(known.encoded, s.encoded) {
			return false
		}
	}
	return true
}

// functionsOfPackage are those of a unit of the kind GoPackage.
func functionsOfPackage(u *store.Unit) (list []CountedFunction, err error) {
	o, err := goPackageOf(u)
	if err != nil {
		return nil, err
	}
	for _, file := range ofPackages([]*podSum{{o, o.pod(nil)}}).All() {
		first := len(list)
		for i, fn := range file.Functions {
			list = append(list, CountedFunction{Function: fn, File: file.Name, Lines: len(file.LinesOf(i)), Unknown: -1})
		}
		for k := range o.Functions {
			if i := o.source(o.Functions[k].File); i >= 0 && o.sources[i].shown == file.Name {
				o.share(list[first:], k)
			}
		}
	}
	return list, nil
}

// share gives each counter of a compiled function to the function of the report that its block is in, the innermost: those of a function
// literal count for that only.
func (o *goPackage) share(list []CountedFunction, compiled int) {
	for k, u := range o.Functions[compiled].Units {
		at := gocover.Position{Line: int32(min(u.Line, 1<<30)), Column: int32(min(u.Column, 1<<30))}
		var of *CountedFunction
		for i := range list {
			begin, end := extent(&list[i])
			if at.Compare(begin) < 0 || at.Compare(end) >= 0 {
				continue
			}
			if of == nil || begin.Compare(gocover.Position{Line: of.StartLine, Column: of.StartColumn}) > 0 {
				of = &list[i]
			}
		}
		if of == nil {
			continue
		}
		of.Counters = append(of.Counters, int32(o.first(compiled)+k))
		if of.Unknown < 0 {
			of.Unknown = o.unknown(compiled)
		}
	}
}

// extent is where a function of a report begins, and what is behind its end.
func extent(f *CountedFunction) (begin, end gocover.Position) {
	begin, end = gocover.Position{Line: f.StartLine, Column: f.StartColumn}, gocover.Position{Line: f.EndLine, Column: f.EndColumn + 1}
	if f.EndColumn == 0 { // whole lines
		end = gocover.Position{Line: f.EndLine + 1}
	}
	return begin, end
}
