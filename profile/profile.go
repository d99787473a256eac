// Package profile knows which functions of a program were called how often,
// by whom, and where it spent its time.
//
// A profile comes from counts that the program kept ([ReadGmon], counts
// files), or from samples of it that are taken from outside while it runs
// ([Record]). Either becomes a [Profile]: call counts, callers and time are all
// values of chains of calls. A [View] shows one in several formats, one file
// each: text.go, callers.go, source.go, gprof.go, callgrind.go, collapsed.go,
// speedscope.go, json.go, html.go.
//
// # Values
//
// A sample has two values: "calls", a number, and "cpu", in nanoseconds. Counts
// of calls are exact, but they are not chains: such a sample has two places,
// the callee's and the caller's. Samples of time that were taken with the stack
// are whole chains; those of a gmon.out are one place.
package profile

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"slices"
	"time"

	pprof "github.com/google/pprof/profile"

	"footfall/demangle"
)

// Indices of the values of a sample.
const (
	callsIndex = iota
	cpuIndex
)

// A Profile is a profile as pprof has it, with the values "calls" and "cpu" in
// this order, and what is to be said about it.
type Profile struct {
	*pprof.Profile
	// Notes are sentences for the user: what is missing, and why.
	Notes []string
	// NoCallers is what to say where callers are asked for, "" if there are any.
	NoCallers string
	// Processes are those that were sampled, if any were.
	Processes []int

	samples int64         // how many were taken, 0: as many as Period tells
	symbols *gprofSymbols // of the program of a gmon.out
}

// A builder puts a profile together.
type builder struct {
	p         *pprof.Profile
	functions map[functionKey]*pprof.Function
	locations map[locationKey]*pprof.Location
	mappings  map[string]*pprof.Mapping
	samples   map[string]*pprof.Sample
	key       []byte
}

type functionKey struct {
	name, file string
	line       int
	image      string // of functions whose source is not known
	addr       uint64
}

type locationKey struct {
	image string
	addr  uint64
	outer bool
}

func newBuilder() *builder {
	return &builder{
		p: &pprof.Profile{
			SampleType:        []*pprof.ValueType{{Type: "calls", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
			DefaultSampleType: "cpu",
			PeriodType:        &pprof.ValueType{Type: "cpu", Unit: "nanoseconds"},
		},
		functions: make(map[functionKey]*pprof.Function),
		locations: make(map[locationKey]*pprof.Location),
		mappings:  make(map[string]*pprof.Mapping),
		samples:   make(map[string]*pprof.Sample),
	}
}

// add adds values to the chain, its leaf first. Values of equal chains and
// equal threads add up.
func (b *builder) add(chain []*pprof.Location, thread string, calls, cpu int64) {
	b.key = append(b.key[:0], thread...)
	for _, l := range chain {
		b.key = binary.LittleEndian.AppendUint64(b.key, l.ID)
	}
	s := b.samples[string(b.key)]
	if s == nil {
		s = &pprof.Sample{Location: slices.Clone(chain), Value: make([]int64, 2)}
		if thread != "" {
			s.Label = map[string][]string{"thread": {thread}}
		}
		b.samples[string(b.key)] = s
		b.p.Sample = append(b.p.Sample, s)
	}
	s.Value[callsIndex] += calls
	s.Value[cpuIndex] += cpu
}

// at returns the location of code in an image, as its file has the address.
func (b *builder) at(i *image, addr uint64) *pprof.Location {
	return b.location(i, addr, false)
}

// outer is at for counts, which know functions as the linker knows them: what
// was inlined is part of the function that it went to.
func (b *builder) outer(i *image, addr uint64) *pprof.Location {
	return b.location(i, addr, true)
}

func (b *builder) location(i *image, addr uint64, outer bool) *pprof.Location {
	key := locationKey{i.key, addr, outer}
	l := b.locations[key]
	if l != nil {
		return l
	}
	l = &pprof.Location{ID: uint64(len(b.p.Location) + 1), Address: addr, Mapping: b.mapping(i)}
	frames := i.frames(addr)
	if outer {
		frames = frames[len(frames)-1:]
	}
	for _, f := range frames {
		l.Line = append(l.Line, pprof.Line{Function: b.function(f), Line: int64(f.line)})
	}
	b.locations[key] = l
	b.p.Location = append(b.p.Location, l)
	return l
}

// named returns a location of which only the function's name is known, and
// the file that it is in, if it is.
func (b *builder) named(name, path string) *pprof.Location {
	h := fnv.New64a()
	h.Write([]byte(name))
	key := locationKey{"named " + path, h.Sum64(), true}
	l := b.locations[key]
	if l == nil {
		f := b.function(frame{functionKey: functionKey{name: name, image: path}})
		l = &pprof.Location{ID: uint64(len(b.p.Location) + 1), Line: []pprof.Line{{Function: f}}}
		if path != "" {
			l.Mapping = b.mapping(&image{key: path, path: path})
		}
		b.locations[key] = l
		b.p.Location = append(b.p.Location, l)
	}
	return l
}

func (b *builder) function(f frame) *pprof.Function {
	fn := b.functions[f.functionKey]
	if fn == nil {
		fn = &pprof.Function{
			ID: uint64(len(b.p.Function) + 1), Name: demangle.Short(f.name), SystemName: f.name,
			Filename: f.file, StartLine: int64(f.functionKey.line),
		}
		b.functions[f.functionKey] = fn
		b.p.Function = append(b.p.Function, fn)
	}
	return fn
}

// shortName is the name for tables; one that overloaded functions share has the
// function's arguments.
func (n *Node) shortName() string {
	return demangle.InColumn(n.Func.SystemName, n.Func.Name, n.overloaded)
}

func (b *builder) mapping(i *image) *pprof.Mapping {
	m := b.mappings[i.key]
	if m == nil {
		m = &pprof.Mapping{
			ID: uint64(len(b.p.Mapping) + 1), File: i.path, BuildID: i.buildID,
			Start: i.low, Limit: i.high, Offset: i.offset,
			HasFunctions: true, HasFilenames: i.lines != nil, HasLineNumbers: i.lines != nil, HasInlineFrames: i.lines != nil,
		}
		b.mappings[i.key] = m
		b.p.Mapping = append(b.p.Mapping, m)
	}
	return m
}

// finish returns the profile.
func (b *builder) finish(notes []string) (*Profile, error) {
	slices.SortFunc(b.p.Mapping, func(x, y *pprof.Mapping) int { return cmp.Compare(x.ID, y.ID) })
	if err := b.p.CheckValid(); err != nil {
		return nil, err
	}
	return &Profile{Profile: b.p, Notes: notes}, nil
}

// FromPprof takes over a profile in pprof's format: one of footfall's, or of
// another program. The values of calls and of CPU time are kept.
func FromPprof(data []byte) (*Profile, error) {
	p, err := parsePprof(data)
	if err != nil {
		return nil, err
	}
	if len(p.SampleType) == 0 {
		return nil, errOtherValues
	}
	own := newBuilder()
	calls, cpu, weight := -1, -1, int64(1)
	for i, t := range p.SampleType {
		switch {
		case t.Type == "calls":
			calls = i
		case unitOf(t.Unit) != 0:
			cpu, weight = i, unitOf(t.Unit)
		}
	}
	if last := p.SampleType[len(p.SampleType)-1]; cpu < 0 && calls == 0 && len(p.SampleType) == 2 && last.Unit == "count" {
		cpu = cpuIndex // as we write perf's events
		own.measure(last.Type, last.Unit)
	}
	if calls < 0 && cpu < 0 {
		return nil, fmt.Errorf("a profile of %s: %w", p.SampleType[0].Type, errOtherValues)
	}
	for _, s := range p.Sample {
		v := []int64{0, 0}
		if calls >= 0 {
			v[callsIndex] = s.Value[calls]
		}
		if cpu >= 0 {
			v[cpuIndex] = s.Value[cpu] * weight
		}
		s.Value = v
	}
	nameAll(p)
	splitFunctions(p)
	p.SampleType, p.DefaultSampleType, p.PeriodType = own.p.SampleType, own.p.DefaultSampleType, own.p.PeriodType
	return &Profile{Profile: p}, nil
}

// nameAll gives each location a function: profiles may have addresses alone.
func nameAll(p *pprof.Profile) {
	unnamed := make(map[string]*pprof.Function)
	last := uint64(0)
	for _, f := range p.Function {
		last = max(last, f.ID)
		f.Name = cmp.Or(f.Name, f.SystemName, "[unknown]")
	}
	for _, l := range p.Location {
		if len(l.Line) > 0 {
			continue
		}
		name := "[" + cmp.Or(imageName(l.Mapping), "unknown") + "]"
		f := unnamed[name]
		if f == nil {
			last++
			f = &pprof.Function{ID: last, Name: name, SystemName: name}
			unnamed[name] = f
			p.Function = append(p.Function, f)
		}
		l.Line = []pprof.Line{{Function: f}}
	}
}

var errOtherValues = errors.New("only profiles of calls or of time can be shown")

// unitOf returns a unit of time in nanoseconds, 0 for any other unit.
func unitOf(unit string) int64 {
	switch unit {
	case "nanoseconds", "ns":
		return 1
	case "microseconds", "us":
		return int64(time.Microsecond)
	case "milliseconds", "ms":
		return int64(time.Millisecond)
	case "seconds", "s":
		return int64(time.Second)
	}
	return 0
}

// imageName is the last part of a mapping's path.
func imageName(m *pprof.Mapping) string {
	if m == nil || m.File == "" {
		return ""
	}
	return filepath.Base(m.File)
}
