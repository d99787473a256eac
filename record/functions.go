//go:build linux

package record

import (
	"fmt"

	"footfall/hook/patch"
	"footfall/process"
	"footfall/trace"
)

// A TracedFunction is one that is to be recorded.
type TracedFunction struct {
	*patch.EntrySite
	// Shown are what the arguments of the site are called, and how they are written.
	Shown []trace.Argument
}

// functions numbers the functions of a recording, over all programs and ways.
type functions struct {
	header   *trace.Header // has them
	known    map[fileSite]int32
	sites    []numbered // by number
	lineless bool       // where they are in the source is not looked up
}

type numbered struct {
	p    *process.Process
	site *patch.EntrySite
}

// A fileSite is a site, wherever its library is loaded.
type fileSite struct {
	image, function string
	addr            uint64
	arguments       string
}

func newFunctions(h *trace.Header) *functions {
	return &functions{header: h, known: make(map[fileSite]int32)}
}

func siteOf(f TracedFunction) fileSite {
	return fileSite{f.Image.Path, f.Function.Name, f.EntrySite.Site.Addr, fmt.Sprint(f.Shown)}
}

// many is for how many functions at once it takes too long to look for their lines.
const many = 50_000

// number returns that of a function of a process, which may be new. Of others there are
// so many that are numbered with it.
func (t *functions) number(p *process.Process, f TracedFunction, others int) int32 {
	key := siteOf(f)
	if number, ok := t.known[key]; ok {
		return number
	}
	shown := trace.Function{Name: f.Name(), Image: f.Image.Path, Arguments: f.Shown}
	if !t.lineless && others < many {
		shown.File, shown.Line = f.Source()
	}
	number := t.add(shown)
	t.known[key], t.sites[number] = number, numbered{p, f.EntrySite}
	return number
}

// add appends a function that has not been there.
func (t *functions) add(f trace.Function) int32 {
	t.header.Functions = append(t.header.Functions, f)
	t.sites = append(t.sites, numbered{})
	return int32(len(t.sites) - 1)
}

// placeNamesakes finds the sources of functions of a process that have a name in common, if
// some of them were called: of all functions it would take long.
func (t *functions) placeNamesakes(p *process.Process, counts []uint64) {
	type named struct{ image, name string }
	functions, called := make(map[named]int), make(map[named]bool)
	for i, f := range t.header.Functions {
		key := named{f.Image, f.Name}
		functions[key]++
		called[key] = called[key] || counts[i] > 0
	}
	for i, s := range t.sites {
		f := &t.header.Functions[i]
		if key := (named{f.Image, f.Name}); s.p == p && s.site != nil && functions[key] > 1 && called[key] && f.File == "" {
			f.File, f.Line = s.site.Source()
		}
	}
}
