//go:build linux

package record

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"footfall/hook/patch"
	"footfall/hook/uprobe"
	"footfall/output"
	"footfall/process"
	"footfall/process/target"
	"footfall/trace"
)

// A program is one whose calls are recorded: in a process, and in children of that made by
// fork. It finds the functions that are selected, now and in libraries that are loaded later,
// and gives each to the backend that serves it.
type program struct {
	p       *process.Process // nil: the kernel
	images  *target.Modules
	problem error // of images that could not be opened
	libraries

	// What is recorded, and how.
	selected
	settings *settings
	ways     ways
	paused   bool // by --set: nothing is to be recorded

	// What records. Of these there are some from when it was opened; probes may come later, with
	// a library.
	opened bool
	sites  *sites  // nil: none
	probes *probes // nil: none
	kernel *kernel // nil: it is not the kernel

	chains  programChains
	threads programThreads

	// What is the recording's.
	functions *functions
	time      *recordingTime
	stderr    io.Writer
}

// programChains is for settings of mode Chains.
type programChains struct {
	followed bool       // functions are traced through which chains can only be followed so
	rows     *chainRows // what the kernel follows them by; nil: it does not
}

// programThreads tells the threads of a program from others', where programs are followed.
type programThreads struct {
	program string         // its name, if it is not that of the recording
	exec    int            // programs that its process had been before
	live    int            // processes that run it, where that is known
	names   map[int]string // of threads, if there are several backends
}

// selected is a selection, and what of it is for libraries whose functions have no room.
type selected struct {
	selection selection
	rest      *selection // nil: not known yet
}

// newProgram opens the files of a process.
func newProgram(p *process.Process, s selection, ways ways, set *settings, stderr io.Writer) *program {
	t := &program{p: p, ways: ways, settings: set, stderr: stderr, libraries: libraries{said: make(map[string]bool)}, threads: programThreads{names: make(map[int]string)}}
	t.images, t.problem = target.OpenModules(p)
	t.aim(s)
	return t
}

// aim sets what is selected.
func (t *program) aim(s selection) { t.selected = selected{selection: s} }

// ofLibraries is what is selected of libraries' functions without room. In a large program that
// takes a while to find out.
func (t *program) ofLibraries() selection {
	if t.rest == nil {
		rest := t.selection.ofLibraries(t.images.All())
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

// errFilters is why functions without room are not recorded beside those that have it.
var errFilters = errors.New("they have no room for a jump, and filters are for functions that all have it, or all have not")

// open has functions recorded that were found; none tells why none has room, or is nil. With
// launched the program has been started, and must not run meanwhile. Where no instructions can be
// moved after all c is changed to what is recorded instead.
func (t *program) open(c *choice, none error, launched bool) error {
	if none == nil && t.ways.jump() && !(t.settings.filters() && len(c.sites) == 0 && len(c.probes) > 0) {
		err := t.openSites(c.sites)
		if err != nil && c.onlyMoved() && t.ways.has(Uprobes) && t.p.Check() == nil {
			*c, none, err = t.unmove(err)
		}
		if err != nil {
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

// unmove selects functions anew where no instructions can be moved in the process: all are for
// uprobes then. It returns with the selection why it is so.
func (t *program) unmove(why error) (c choice, none, err error) {
	t.sites = nil
	t.ways = slices.DeleteFunc(slices.Clone(t.ways), func(w Way) bool { return w == Moved })
	if c, err = t.choose(t.images.All()); err == nil {
		fmt.Fprintf(t.stderr, "footfall: no instructions can be moved: %v\n", why)
	}
	return c, &noSites{why}, err
}

// sayLeftOut says that functions without room are not recorded, where others are.
func (t *program) sayLeftOut(list []TracedFunction, err error) {
	fmt.Fprintf(t.stderr, "footfall: %s not traced, such as %s: %v\n",
		output.Count(len(list), "function without room for a jump is", "functions without room for a jump are"), list[0].Name(), err)
}

// joined says why functions are served by neither way.
func (t *program) joined(none, err error) error {
	switch {
	case !t.ways.has(Uprobes):
		return none
	case !t.ways.jump():
		return fmt.Errorf("process %d: %w", t.p.PID, err)
	}
	return fmt.Errorf("%w; %w", none, err)
}

// errNoSymbols is why functions cannot be chosen.
var errNoSymbols = errors.New("it has no symbols: functions have no names without them, or a separate debug file")

// whyNoProbes says why no function is for uprobes.
func (t *program) whyNoProbes(launched bool) error {
	err := errors.New("no function in its symbol tables fits (one that was inlined everywhere is none); libraries that are loaded later are awaited by name: -f 'LIBRARY.so:FUNCTION'")
	named := func(i *target.Image) bool { return i.IsProgram() && len(i.Functions()) > 0 }
	if !slices.ContainsFunc(t.images.All(), named) {
		err = errNoSymbols
	}
	if launched {
		err = fmt.Errorf("%w; --follow-exec traces programs that it starts", err)
	}
	return err
}

func (t *program) openSites(list []TracedFunction) (err error) {
	anchor := uint64(0)
	if images := t.images.All(); len(list) == 0 && len(images) > 0 {
		anchor = images[0].Start
	}
	t.sites, err = openSites(t, list, anchor, t.noCFI(t.images.All()))
	return err
}

func (t *program) openProbes(list []TracedFunction) (err error) {
	if t.settings.filters() && t.sites != nil {
		return errFilters
	}
	if t.settings.mode == trace.Chains {
		t.chains.rows = newChainRows(t.images.All())
	}
	t.probes, err = openProbes(t, list, t.chains.rows)
	return err
}

// noCFI returns the functions of images through which chains can only be
// followed by tracing them.
func (t *program) noCFI(images []*target.Image) (all []patch.NoCFI) {
	if !t.chains.followed {
		return nil
	}
	var moves func(name string) bool
	if t.ways.has(Moved) {
		moves = uprobe.IsCalled
	}
	for _, i := range images {
		found, err := patch.FindNoCFI(t.p, i, moves)
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

// addProbes records functions by uprobes, which may be the first ones.
func (t *program) addProbes(list []TracedFunction) (int, error) {
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

// stop puts everything back.
func (t *program) stop() error {
	for _, b := range t.backends() {
		if err := b.Stop(); err != nil {
			return err
		}
	}
	if t.sites != nil {
		t.sites.sayMissing(t.stderr)
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
		t.sites.sayMissing(t.stderr)
	}
	if t.probes != nil {
		failed = append(failed, t.probes.Close())
	}
	t.images.Close()
	return errors.Join(failed...)
}
