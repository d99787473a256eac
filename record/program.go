package record

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"footfall/hook/patch"
	"footfall/hook/uprobe"
	"footfall/output"
	"footfall/proc"
)

// A program is one whose calls are recorded: in a process, and in children of that made by
// fork. It finds the functions that are selected, now and in libraries that are loaded later,
// and gives each to the backend that serves it.
type program struct {
	p         *proc.Process // nil: the kernel
	images    *patch.Modules
	problem   error // of images that could not be opened
	ways      ways
	settings  *settings
	functions *functions
	time      *recordingTime
	stderr    io.Writer

	selected
	paused bool // by --set: nothing is to be recorded

	sites  *sites  // nil: none
	probes *probes // nil: none
	kernel *kernel // nil: it is not the kernel
	opened bool

	said map[string]bool // paths of libraries that were said to be loaded
	next time.Time       // when libraries are looked for again

	// followsChains has functions traced through which chains can only be followed so.
	followsChains bool
	rows          *chainRows           // what the kernel follows chains by
	gone          func([]*patch.Image) // called when images have been unloaded, before others can be in their place
	names         map[int]string       // of threads, if there are several backends
	at            programPlace
}

// A programPlace tells the threads of a program from others', where programs are followed.
type programPlace struct {
	program string
	exec    int
	live    int // processes that run it, where that is known
}

// selected is a selection, and what of it is for libraries whose functions have no room.
type selected struct {
	selection selection
	rest      *selection // nil: not known yet
}

// newProgram opens the files of a process.
func newProgram(p *proc.Process, s selection, ways ways, set *settings, stderr io.Writer) *program {
	t := &program{p: p, ways: ways, settings: set, stderr: stderr, said: make(map[string]bool), names: make(map[int]string)}
	t.images, t.problem = patch.OpenModules(p)
	t.aim(s)
	return t
}

// aim sets what is selected.
func (t *program) aim(s selection) { t.selected = selected{selection: s} }

// ofLibraries is what is selected of libraries' functions without room. In a large program that
// takes a while to find out.
func (t *program) ofLibraries() selection {
	if t.rest == nil {
		rest := t.selection.ofLibraries(t.p, t.images.All())
		t.rest = &rest
	}
	return *t.rest
}

// backends are those that record functions of the program.
func (t *program) backends() (all []Backend) {
	if t.sites != nil {
		all = append(all, t.sites)
	}
	if t.probes != nil {
		all = append(all, t.probes)
	}
	if t.kernel != nil {
		all = append(all, t.kernel)
	}
	return all
}

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

// errFilters is why functions without room are not recorded beside those that have it.
var errFilters = errors.New("they have no room for a jump, and filters are for functions that all have it, or all have not")

// open has functions recorded that were found; none tells why none has room, or is nil. With
// launched the program has been started, and must not run meanwhile.
func (t *program) open(c choice, none error, launched bool) error {
	if none == nil && t.ways.has(Sites) && !(t.settings.filters() && len(c.sites) == 0 && len(c.probes) > 0) {
		if err := t.openSites(c.sites); err != nil {
			return err
		}
	}
	t.opened = true
	var err error
	switch {
	case len(c.probes) == 0 && none != nil:
		return t.joined(none, t.whyNoProbes(launched))
	case len(c.probes) == 0:
		return nil
	case launched: // it would run in a circle meanwhile
		err = t.p.WhileStopped(func() error { return t.openProbes(c.probes) })
	default:
		err = t.openProbes(c.probes)
	}
	switch {
	case err == nil:
		return nil
	case none != nil:
		return t.joined(none, err)
	case t.sites == nil:
		return err
	}
	t.sayLeftOut(c.probes, err)
	return nil
}

// sayLeftOut says that functions without room are not recorded, where others are.
func (t *program) sayLeftOut(list []Function, err error) {
	fmt.Fprintf(t.stderr, "footfall: %s not traced, such as %s: %v\n",
		output.Count(len(list), "function without room for a jump is", "functions without room for a jump are"), list[0].Name(), err)
}

// joined says why functions are served by neither way.
func (t *program) joined(none, err error) error {
	switch {
	case !t.ways.has(Uprobes):
		return none
	case !t.ways.has(Sites):
		return fmt.Errorf("process %d: %w", t.p.PID, err)
	}
	return fmt.Errorf("%w; %w", none, err)
}

// whyNoProbes says why no function is for uprobes.
func (t *program) whyNoProbes(launched bool) error {
	err := errors.New("no function in its symbol tables fits (one that was inlined everywhere is none); libraries that are loaded later are awaited by name: -f 'LIBRARY.so:FUNCTION'")
	named := func(i *patch.Image) bool { return i.IsProgram() && len(i.Functions()) > 0 }
	if !slices.ContainsFunc(t.images.All(), named) {
		err = errors.New("it has no symbols: functions have no names without them, or a separate debug file")
	}
	if launched {
		err = fmt.Errorf("%w; --follow-exec traces programs that it starts", err)
	}
	return err
}

func (t *program) openSites(list []Function) (err error) {
	anchor := uint64(0)
	if images := t.images.All(); len(list) == 0 && len(images) > 0 {
		anchor = images[0].Start
	}
	t.sites, err = openSites(t, list, anchor, t.undescribed(t.images.All()))
	return err
}

func (t *program) openProbes(list []Function) (err error) {
	if t.settings.filters() && t.sites != nil {
		return errFilters
	}
	if t.settings.mode == Chains {
		t.rows = newChainRows(t.images.All())
	}
	t.probes, err = openProbes(t, list, t.rows)
	return err
}

// undescribed returns the functions of images through which chains can only be
// followed by tracing them.
func (t *program) undescribed(images []*patch.Image) (all []patch.Undescribed) {
	if !t.followsChains {
		return nil
	}
	for _, i := range images {
		found, err := i.Undescribed(t.p)
		if err != nil {
			fmt.Fprintf(t.stderr, "footfall: callers in %v\n", err)
		}
		all = append(all, found...)
	}
	return all
}

// say says what is recorded by code in the program; of uprobes that has been said.
func (t *program) say() {
	by := ""
	if t.probes != nil {
		by = " by code in the program"
	}
	if t.sites != nil {
		t.sites.say(by, t.stderr)
	}
}

// noticed tells whether a thread waits until look has been called.
func (t *program) noticed() bool {
	if t.sites == nil {
		return false
	}
	_, waits := t.sites.session.Noticed()
	return waits
}

// maintain makes room for new threads, and records functions of libraries that have been
// loaded meanwhile. Its error is why the recording must end.
func (t *program) maintain() error {
	for _, b := range t.backends() {
		if err := b.Maintain(); err != nil {
			return err
		}
	}
	if t.kernel != nil {
		return nil
	}
	return t.look()
}

// look looks for libraries that have been loaded or unloaded: only now and then, and when a
// thread waits for that.
func (t *program) look() error {
	begin := time.Now()
	notice, waits := uint32(0), false
	if t.sites != nil {
		notice, waits = t.sites.session.Noticed()
	}
	if !waits && begin.Before(t.next) {
		return nil
	}
	// A large memory map must not keep the process from changing it.
	defer func() { t.next = time.Now().Add(max(50*time.Millisecond, 20*time.Since(begin))) }()
	fresh := t.lookForImages()
	err := t.forbidden(fresh)
	if len(fresh) > 0 && err == nil {
		t.addImages(fresh)
	}
	if t.sites != nil {
		t.sites.session.Answer(notice)
	}
	return err
}

// lookForImages returns images that have come, and says which have gone.
func (t *program) lookForImages() []*patch.Image {
	var before []*patch.Image
	if t.gone != nil {
		before = t.images.Present()
	}
	if t.sites != nil {
		for _, image := range t.sites.session.Gone() {
			t.images.Forget(image)
		}
	}
	fresh, changed, _ := t.images.Look() // some files are not programs
	if changed && t.gone != nil {
		after := t.images.Present()
		t.gone(slices.DeleteFunc(before, func(i *patch.Image) bool { return slices.Contains(after, i) }))
	}
	return fresh
}

// forbidden tells that exits of functions must not be watched any more, since exceptions of
// images that were loaded could not pass them. Functions with room go on being recorded.
func (t *program) forbidden(fresh []*patch.Image) error {
	if t.probes == nil || t.probes.stopped {
		return nil
	}
	err := t.probes.forbidExits(fresh)
	if err == nil || t.sites == nil {
		return err
	}
	fmt.Fprintf(t.stderr, "footfall: %s not traced any more: %v\n", output.Count(t.probes.On(), "function without room for a jump is", "functions without room for a jump are"), err)
	return t.probes.Stop()
}

// addImages records functions of images that have come, and says so.
func (t *program) addImages(fresh []*patch.Image) {
	c, err := t.choose(fresh)
	if err == nil && c.size() == 0 {
		t.sayRoomless(fresh)
	}
	from := c.images()
	if len(from) == 0 {
		from = fresh
	}
	if t.paused {
		c.sites, c.probes = nil, nil
	}
	names := imageNames(from)
	n, failed := t.addProbes(c.probes)
	if failed != nil { // also if the process has ended by now
		fmt.Fprintf(t.stderr, "footfall: the functions of %s, loaded meanwhile, are not traced: %v\n", names, failed)
	}
	if t.sites != nil && err == nil {
		more := 0
		more, err = t.sites.addWith(c.sites, t.undescribed(fresh))
		n += more
	}
	if err != nil && t.p.Check() == nil {
		fmt.Fprintf(t.stderr, "footfall: the functions of %s, loaded meanwhile, are not traced: %v\n", names, err)
	}
	if n > 0 && !t.told(from) {
		fmt.Fprintf(t.stderr, "footfall: %s loaded: tracing %s\n", names, output.Count(n, "more function", "more functions"))
	}
}

// addProbes records functions by uprobes, which may be the first ones.
func (t *program) addProbes(list []Function) (int, error) {
	switch {
	case len(list) == 0, t.probes != nil && t.probes.stopped:
		return 0, nil
	case t.probes != nil:
		return t.probes.Add(list)
	}
	if err := t.openProbes(list); err != nil {
		return 0, err
	}
	return t.probes.On(), nil
}

// switchTo records these functions, and no others.
func (t *program) switchTo(c choice) (on, off int, err error) {
	if t.sites != nil {
		on, off, err = t.sites.Switch(c.sites)
	}
	if err != nil {
		return 0, 0, err
	}
	if t.probes == nil {
		n, err := t.addProbes(c.probes)
		if err != nil && len(c.sites) > 0 {
			t.sayLeftOut(c.probes, err)
			err = nil
		}
		return on + n, off, err
	}
	if t.probes.stopped {
		return on, off, nil
	}
	more, fewer, err := t.probes.Switch(c.probes)
	return on + more, off + fewer, err
}

// recorded returns how many functions are.
func (t *program) recorded() (n int) {
	for _, b := range t.backends() {
		n += b.On()
	}
	return n
}

// imageNames are the names of files, for a message.
func imageNames(images []*patch.Image) string {
	var names []string
	for _, i := range images {
		names = append(names, filepath.Base(i.Path))
	}
	return strings.Join(names, ", ")
}

// told tells whether all of the images have been said to be loaded before, and notes
// that they have.
func (t *program) told(images []*patch.Image) bool {
	all := true
	for _, i := range images {
		all = all && t.said[i.Path]
		t.said[i.Path] = true
	}
	return all
}

// sayRoomless says which images were awaited for nothing.
func (t *program) sayRoomless(images []*patch.Image) {
	for _, i := range images {
		if slices.ContainsFunc(t.selection.take, func(p patch.Pattern) bool { return p.NamesLibrary() != "" && p.In(i.Path) }) && !t.told([]*patch.Image{i}) {
			fmt.Fprintf(t.stderr, "footfall: %s loaded: it has no function that fits\n", filepath.Base(i.Path))
		}
	}
}

// stop puts everything back.
func (t *program) stop() error {
	for _, b := range t.backends() {
		if err := b.Stop(); err != nil {
			return err
		}
	}
	if t.sites != nil {
		t.sites.sayUnanswered(t.stderr)
	}
	return nil
}

// lost returns what is missing of all backends.
func (t *program) lost() (l losses) {
	for _, b := range t.backends() {
		l.add(b.Lost())
	}
	return l
}

// children counts those made by fork: that have recorded, and others. Backends see the same.
func (t *program) children() (recorded, others int) {
	for _, b := range t.backends() {
		r, o := b.Children()
		recorded, others = max(recorded, r), max(others, o)
	}
	return recorded, others
}

// close puts everything back, if that has not been done, and closes the files.
func (t *program) close() error {
	var failed []error
	for _, b := range t.backends() {
		failed = append(failed, b.Close())
	}
	if t.images != nil {
		t.images.Close()
	}
	return errors.Join(failed...)
}

// closeEnded is close where all processes that run the program have ended or become others:
// there is nothing to put back.
func (t *program) closeEnded() error {
	var failed []error
	if t.sites != nil {
		failed = append(failed, t.sites.session.CloseEnded())
		t.sites.sayUnanswered(t.stderr)
	}
	if t.probes != nil {
		failed = append(failed, t.probes.Close())
	}
	t.images.Close()
	return errors.Join(failed...)
}
