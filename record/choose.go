package record

import (
	"errors"
	"fmt"
	"slices"

	"footfall/hook/patch"
	"footfall/hook/uprobe"
	"footfall/proc"
)

// A choice is the functions that are selected, by what serves them.
type choice struct {
	sites, probes []Function
	all, unusable int // functions with room, selected or not; entries of their lists without
}

func (c *choice) size() int { return len(c.sites) + len(c.probes) }

// images are those that the functions are in.
func (c *choice) images() (all []*patch.Image) {
	for _, f := range slices.Concat(c.sites, c.probes) {
		if !slices.Contains(all, f.Image) {
			all = append(all, f.Image)
		}
	}
	return all
}

// choose selects functions of images. A function with room for a jump is served by that, if it
// may be, and others by uprobes.
func (t *program) choose(images []*patch.Image) (c choice, err error) {
	jumps := t.ways.has(Sites) && (t.sites != nil || !t.opened)
	for _, i := range images {
		found, unusable, err := i.Sites()
		if err != nil {
			return c, err
		}
		c.all, c.unusable = c.all+len(found), c.unusable+unusable
		room := make(map[uint64]bool)
		for _, s := range found {
			room[s.Function.Addr] = true
			if jumps && t.selection.takes(t.p, s) {
				c.sites = append(c.sites, t.described(s))
			}
		}
		if t.ways.has(Uprobes) {
			c.probes = append(c.probes, t.chooseProbes(i, room, jumps)...)
		}
	}
	if jumps && c.all > 0 {
		c.probes = t.particular(c.probes)
	}
	return c, nil
}

// particular leaves out functions that nothing but a pattern for everything fits.
func (t *program) particular(list []Function) []Function {
	some := t.selection.particular()
	if !some.named() {
		return nil
	}
	if len(some.take) == len(t.selection.take) {
		return list
	}
	fits := func(f Function, patterns []patch.Pattern) bool {
		return slices.ContainsFunc(patterns, func(p patch.Pattern) bool { return p.Matches(t.p, f.Site) })
	}
	return slices.DeleteFunc(list, func(f Function) bool { return !fits(f, some.take) && !fits(f, some.roots) })
}

// chooseProbes selects functions of an image to be served by uprobes; room has those with room
// for a jump.
func (t *program) chooseProbes(i *patch.Image, room map[uint64]bool, jumps bool) (list []Function) {
	chosen := t.selection
	if particular := chosen.particular(); jumps && len(room) > 0 && !particular.named() {
		return nil // as choose will find; functions are not looked through for nothing
	}
	if !i.IsProgram() {
		if !t.selection.named() && (jumps || len(room) == 0) {
			return nil
		}
		if chosen = t.ofLibraries(); len(chosen.take) == 0 && (jumps || len(room) == 0) {
			return nil
		}
	}
	for _, s := range i.Functions() {
		has := room[s.Function.Addr]
		if has && jumps || !uprobe.IsCalled(s.Function.Name) {
			continue
		}
		// What has room is meant as it is where that is used.
		if has && t.selection.takes(t.p, s) || (i.IsProgram() || len(chosen.take) > 0) && chosen.takes(t.p, s) {
			list = append(list, t.described(s))
		}
	}
	return list
}

// described finds out the arguments of a site.
func (t *program) described(s *patch.Site) Function {
	names, _ := t.selection.describe(t.p, s, t.stderr)
	return Function{s, names}
}

// narrow tells whether the program is one of 32 bits.
func narrow(images *patch.Modules) bool {
	return slices.ContainsFunc(images.All(), func(i *patch.Image) bool { return i.IsProgram() && i.Narrow() })
}

// An await says for what is waited where nothing fits.
type await int

// Awaits.
const (
	awaitNothing await = iota
	awaitNamed         // libraries that patterns name
	awaitAll           // any library, of a program that loads some
)

// noSites tells that no function has room for a jump.
type noSites struct{ error }

// find selects functions of the images that there are. Its error is a noSites if none has room
// for a jump and none is awaited.
func (t *program) find(await await) (choice, error) {
	c, err := t.choose(t.images.All())
	awaited := t.awaited()
	switch {
	case err != nil:
		return c, err
	case len(c.sites) > 0, t.waits(&c, await, awaited):
		t.sayUnfit(&c, awaited)
		return c, nil
	case !t.ways.has(Sites):
		err = fmt.Errorf("process %d: --way leaves functions with room for a jump alone", t.p.PID)
	case c.all > 0:
		err = fmt.Errorf("process %d: none of its %d functions that can be traced fits; --list lists them", t.p.PID, c.all)
	case c.unusable > 0:
		err = fmt.Errorf("process %d: its calls of mcount are no nops: compile with -mnop-mcount too", t.p.PID)
	case narrow(t.images):
		err = fmt.Errorf("process %d: a program of 32 bits, into which no code can be put", t.p.PID)
	case errors.Is(t.problem, proc.ErrExited):
		return c, fmt.Errorf("process %d: it has no memory: a thread of the kernel, or a process that has ended, or whose first thread has", t.p.PID)
	default:
		err = fmt.Errorf("process %d: no functions that can be traced: compile with -fpatchable-function-entry=5", t.p.PID)
		if t.problem != nil {
			err = fmt.Errorf("%w; %w", err, t.problem)
		}
	}
	return c, &noSites{err}
}

// waits tells whether libraries are to be awaited where no function fits now.
func (t *program) waits(c *choice, await await, awaited []patch.Pattern) bool {
	if await != awaitNothing && len(awaited) > 0 && (c.all > 0 || len(awaited) == len(t.selection.take)) {
		return true
	}
	return await == awaitAll && len(c.probes) == 0 && t.selection.named() && !narrow(t.images) && t.loads()
}

// loads tells whether the program loads libraries.
func (t *program) loads() bool {
	return slices.ContainsFunc(t.images.All(), (*patch.Image).LoadsLibraries)
}

// awaited returns patterns for libraries that are not loaded.
func (t *program) awaited() []patch.Pattern {
	return slices.DeleteFunc(slices.Clone(t.selection.take), func(p patch.Pattern) bool {
		return p.NamesLibrary() == "" || slices.ContainsFunc(t.images.All(), func(i *patch.Image) bool { return p.In(i.Path) })
	})
}

// sayUnfit says which patterns fit nothing, of --notrace none.
func (t *program) sayUnfit(c *choice, awaited []patch.Pattern) {
	for _, p := range awaited {
		fmt.Fprintf(t.stderr, "footfall: %s is not loaded yet\n", p.NamesLibrary())
	}
	yet := ""
	if t.loads() {
		yet = " yet"
	}
	say := func(flag string, p patch.Pattern) {
		fits := func(i *patch.Image) bool {
			sites, _, _ := i.Sites()
			return slices.ContainsFunc(sites, func(s *patch.Site) bool { return p.Matches(t.p, s) })
		}
		served := func(f Function) bool { return p.Matches(t.p, f.Site) }
		if p.NamesLibrary() == "" && !slices.ContainsFunc(c.probes, served) && !slices.ContainsFunc(t.images.All(), fits) {
			fmt.Fprintf(t.stderr, "footfall: no function that can be traced fits %s '%s'%s\n", flag, p, yet)
		}
	}
	for _, p := range t.selection.take {
		if !slices.ContainsFunc(t.selection.arguments, func(a argumentsOf) bool { return a.pattern == p }) {
			say("-f", p)
		}
	}
	for _, p := range t.selection.roots {
		say("--graph-from", p)
	}
	for _, a := range t.selection.arguments {
		say("--args", a.pattern)
	}
}
