//go:build linux

package record

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"footfall/hook/patch"
	"footfall/hook/uprobe"
	"footfall/output"
	"footfall/process"
	"footfall/process/target"
)

// A choice is the functions that are selected, by what serves them.
type choice struct {
	sites, probes []TracedFunction
	all, unusable int // functions with room, selected or not; entries of their lists without
	unmoved       []unmoved
}

// An unmoved is a function that is selected, of which no instructions can be moved.
type unmoved struct {
	name string
	why  error
}

func (c *choice) size() int { return len(c.sites) + len(c.probes) }

// onlyMoved tells whether no function has room for a jump, but some are served by moved
// instructions.
func (c *choice) onlyMoved() bool {
	return len(c.sites) > 0 && !slices.ContainsFunc(c.sites, func(f TracedFunction) bool { return !f.Moves() })
}

// images are those that the functions are in.
func (c *choice) images() (all []*target.Image) {
	for _, f := range slices.Concat(c.sites, c.probes) {
		if !slices.Contains(all, f.Image) {
			all = append(all, f.Image)
		}
	}
	return all
}

// choose selects functions of images. A function with room for a jump is served by that, if it
// may be, others by moved instructions, and what is left by uprobes.
func (t *program) choose(images []*target.Image) (c choice, err error) {
	jumps := t.ways.jump() && (t.sites != nil || !t.opened)
	rooms := make(map[*target.Image]map[uint64]bool)
	for _, i := range images {
		found, unusable, err := patch.Sites(i)
		if err != nil {
			return c, err
		}
		c.all, c.unusable = c.all+len(found), c.unusable+unusable
		room := make(map[uint64]bool)
		for _, s := range found {
			room[s.Function.Addr] = true
			if jumps && t.ways.has(Sites) && t.selection.takes(s) {
				c.sites = append(c.sites, t.described(s))
			}
		}
		rooms[i] = room
	}
	roomy := c.all > 0
	for _, i := range images {
		if jumps && t.ways.has(Moved) && !(roomy && t.ways.has(Sites) && !t.particularly()) {
			t.chooseMoved(&c, i, rooms[i])
		}
		if t.ways.has(Uprobes) {
			c.probes = append(c.probes, t.chooseProbes(i, rooms[i], jumps)...)
		}
	}
	if roomy && jumps && t.ways.has(Sites) {
		c.sites = slices.DeleteFunc(c.sites, func(f TracedFunction) bool { return f.Moves() && !t.fitsParticular(f) })
	}
	if jumps && c.all > 0 {
		c.probes = t.particular(c.probes)
	}
	return c, nil
}

// particular leaves out functions that nothing but a pattern for everything fits.
func (t *program) particular(list []TracedFunction) []TracedFunction {
	switch some := t.selection.particular(); {
	case !some.named():
		return nil
	case len(some.take) == len(t.selection.take):
		return list
	}
	return slices.DeleteFunc(list, func(f TracedFunction) bool { return !t.fitsParticular(f) })
}

// particularly tells whether more is selected than simply everything.
func (t *program) particularly() bool {
	some := t.selection.particular()
	return some.named()
}

// fitsParticular tells whether more than a pattern for everything fits a function.
func (t *program) fitsParticular(f TracedFunction) bool {
	some := t.selection.particular()
	fits := func(patterns []target.Pattern) bool {
		return slices.ContainsFunc(patterns, func(p target.Pattern) bool { return p.Matches(&f.Entry) })
	}
	return fits(some.take) || fits(some.roots)
}

// chooseMoved selects functions of an image whose first instructions are moved, and notes them
// in room, which has those with room for a jump.
func (t *program) chooseMoved(c *choice, i *target.Image, room map[uint64]bool) {
	chosen := t.selection
	if !i.IsProgram() {
		if !t.selection.named() {
			return
		}
		if chosen = t.ofLibraries(); len(chosen.take) == 0 {
			return
		}
	}
	wanted := func(s *patch.EntrySite) bool {
		return !(room[s.Function.Addr] && t.ways.has(Sites)) && uprobe.IsCalled(s.Function.Name) && chosen.takes(s)
	}
	if all := patch.Functions(i); len(all) > 0 && !slices.ContainsFunc(all, wanted) {
		return // to look at all instructions takes longer
	}
	found, not, err := patch.Moved(i)
	if err != nil {
		c.unmoved = append(c.unmoved, unmoved{filepath.Base(i.Path), err})
		return
	}
	c.all += len(found)
	for _, s := range found {
		if wanted(s) {
			c.sites = append(c.sites, t.described(s))
			room[s.Function.Addr] = true
		}
	}
	for fn, why := range not {
		s := patch.Unmoved(i, fn)
		if !patch.IsPart(why) && wanted(s) && !room[fn.Addr] {
			c.unmoved = append(c.unmoved, unmoved{s.Name(), why})
		}
	}
	slices.SortFunc(c.unmoved, func(a, b unmoved) int { return cmp.Compare(a.name, b.name) })
}

// chooseProbes selects functions of an image to be served by uprobes; room has those with room
// for a jump.
func (t *program) chooseProbes(i *target.Image, room map[uint64]bool, jumps bool) (list []TracedFunction) {
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
	for _, s := range patch.Functions(i) {
		has := room[s.Function.Addr]
		if has && jumps || !uprobe.IsCalled(s.Function.Name) {
			continue
		}
		// What has room is meant as it is where that is used.
		if has && t.selection.takes(s) || (i.IsProgram() || len(chosen.take) > 0) && chosen.takes(s) {
			list = append(list, t.described(s))
		}
	}
	return list
}

// described finds out the arguments of a site.
func (t *program) described(s *patch.EntrySite) TracedFunction {
	names, _ := t.selection.describe(s, t.stderr)
	return TracedFunction{s, names}
}

// is32Bit tells whether it is a 32-bit program.
func is32Bit(images *target.Modules) bool {
	return slices.ContainsFunc(images.All(), func(i *target.Image) bool { return i.IsProgram() && i.Is32Bit() })
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
		if len(c.probes) == 0 { // else these serve them
			c.sayUnmoved(t.stderr)
		}
		return c, nil
	case !t.ways.jump():
		err = fmt.Errorf("process %d: --way leaves functions with room for a jump alone", t.p.PID)
	case c.all > 0:
		err = fmt.Errorf("process %d: none of its %d functions that can be traced fits; --list lists them", t.p.PID, c.all)
	case c.unusable > 0:
		err = fmt.Errorf("process %d: its calls of mcount are no nops: compile with -mnop-mcount too", t.p.PID)
	case is32Bit(t.images):
		err = fmt.Errorf("process %d: a 32-bit program, into which no code can be put", t.p.PID)
	case errors.Is(t.problem, process.ErrExited):
		return c, fmt.Errorf("process %d: it has no memory: a thread of the kernel, or a process that has ended, or whose first thread has", t.p.PID)
	default:
		err = fmt.Errorf("process %d: no functions that can be traced: compile with -fpatchable-function-entry=5", t.p.PID)
		if len(c.unmoved) > 0 {
			err = fmt.Errorf("%w; %w", err, c.unmoved[0].why)
		}
		if t.problem != nil {
			err = fmt.Errorf("%w; %w", err, t.problem)
		}
	}
	return c, &noSites{err}
}

// sayUnmoved says which functions are not served by moved instructions.
func (c *choice) sayUnmoved(stderr io.Writer) {
	if n := len(c.unmoved); n > 0 {
		fmt.Fprintf(stderr, "footfall: the first instructions of %s cannot be moved, such as those of %s: %v\n", output.Count(n, "function", "functions"), c.unmoved[0].name, c.unmoved[0].why)
	}
}

// waits tells whether libraries are to be awaited where no function fits now.
func (t *program) waits(c *choice, await await, awaited []target.Pattern) bool {
	if await != awaitNothing && len(awaited) > 0 && (c.all > 0 || len(awaited) == len(t.selection.take)) {
		return true
	}
	return await == awaitAll && len(c.probes) == 0 && t.selection.named() && !is32Bit(t.images) && t.loads()
}

// loads tells whether the program loads libraries.
func (t *program) loads() bool {
	return slices.ContainsFunc(t.images.All(), (*target.Image).LoadsLibraries)
}

// awaited returns patterns for libraries that are not loaded.
func (t *program) awaited() []target.Pattern {
	return slices.DeleteFunc(slices.Clone(t.selection.take), func(p target.Pattern) bool {
		return p.NamesLibrary() == "" || slices.ContainsFunc(t.images.All(), func(i *target.Image) bool { return p.In(i.Path) })
	})
}

// sayUnfit says which patterns fit nothing, of --notrace none.
func (t *program) sayUnfit(c *choice, awaited []target.Pattern) {
	for _, p := range awaited {
		fmt.Fprintf(t.stderr, "footfall: %s is not loaded yet\n", p.NamesLibrary())
	}
	yet := ""
	if t.loads() {
		yet = " yet"
	}
	say := func(flag string, p target.Pattern) {
		fits := func(i *target.Image) bool {
			sites, _, _ := patch.Sites(i)
			return slices.ContainsFunc(sites, func(s *patch.EntrySite) bool { return p.Matches(&s.Entry) })
		}
		served := func(f TracedFunction) bool { return p.Matches(&f.Entry) }
		if p.NamesLibrary() == "" && !slices.ContainsFunc(c.probes, served) && !slices.ContainsFunc(c.sites, served) && !slices.ContainsFunc(t.images.All(), fits) {
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
