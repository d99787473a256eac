package record

import (
	"fmt"

	"footfall/hook/patch"
	"footfall/proc"
	"footfall/trace"
)

// A Function is one that is to be recorded.
type Function struct {
	*patch.Site
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
	p    *proc.Process
	site *patch.Site
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

func siteOf(f Function) fileSite {
	return fileSite{f.Image.Path, f.Function.Name, f.Site.Site.Addr, fmt.Sprint(f.Shown)}
}

// many is for how many functions at once it takes too long to look for their lines.
const many = 50_000

// number returns that of a function of a process, which may be new. Of others there are
// so many that are numbered with it.
func (t *functions) number(p *proc.Process, f Function, others int) int32 {
	key := siteOf(f)
	if number, ok := t.known[key]; ok {
		return number
	}
	shown := trace.Function{Name: f.Name(), Image: f.Image.Path, Arguments: f.Shown}
	if !t.lineless && others < many {
		shown.File, shown.Line = f.Source(p)
	}
	number := t.add(shown)
	t.known[key], t.sites[number] = number, numbered{p, f.Site}
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
func (t *functions) placeNamesakes(p *proc.Process, counts []uint64) {
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
			f.File, f.Line = s.site.Source(p)
		}
	}
}
