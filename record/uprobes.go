package record

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"footfall/hook/patch"
	"footfall/hook/uprobe"
	"footfall/output"
	"footfall/proc"
	"footfall/trace"
)

// probes are functions of a process that are watched by the kernel's uprobes,
// since they have no room for a jump.
type probes struct {
	p         *proc.Process
	modules   *patch.Modules
	selection selection
	libraries selection // of functions of libraries
	sites     []*patch.Site
	list      []uprobe.Probe // of the sites; the index is the ID
	on        map[uint32]bool
	ids       map[fileSite]uint32
	skipped   map[uint32]error
	paused    bool // by --set: nothing is to be recorded
	exits     bool
	session   *uprobe.Session
	sharing   *sharing
	next      time.Time
	described map[*patch.Site][]trace.Argument
	numbers   []int32               // of functions, by their ids
	late      map[*patch.Image]bool // if there are any, only functions of these, as far as they have no room
}

// openProbes selects functions.
func openProbes(p *proc.Process, s selection) (*probes, error) {
	modules, _ := patch.OpenModules(p) // some files are not programs
	w := newProbes(p, modules)
	w.aim(s)
	if w.sites = w.choose(modules.All()); len(w.sites) == 0 {
		w.modules.Close()
		named := func(i *patch.Image) bool { return i.IsProgram() && len(i.Functions()) > 0 }
		if !slices.ContainsFunc(modules.All(), named) {
			return nil, errors.New("it has no symbols: functions have no names without them, or a separate debug file")
		}
		return nil, errors.New("no function in its symbol tables fits (one that was inlined everywhere is none); libraries that are loaded later are awaited by name: -f 'LIBRARY.so:FUNCTION'")
	}
	return w, nil
}

func newProbes(p *proc.Process, modules *patch.Modules) *probes {
	return &probes{p: p, modules: modules, on: make(map[uint32]bool), ids: make(map[fileSite]uint32), skipped: make(map[uint32]error), described: make(map[*patch.Site][]trace.Argument)}
}

// aim sets what is to be selected. A pattern is for libraries if it names one, or
// fits nothing in the program itself.
func (w *probes) aim(s selection) {
	w.selection = s
	ofLibraries := func(patterns []patch.Pattern) []patch.Pattern {
		return slices.DeleteFunc(slices.Clone(patterns), func(pattern patch.Pattern) bool {
			return slices.ContainsFunc(w.modules.All(), func(i *patch.Image) bool {
				return i.IsProgram() && slices.ContainsFunc(i.Functions(), func(s *patch.Site) bool { return pattern.Matches(w.p, s) })
			})
		})
	}
	w.libraries = selection{take: ofLibraries(s.take), leave: s.leave, roots: ofLibraries(s.roots), arguments: s.arguments}
	w.libraries.take = append(w.libraries.take, w.libraries.roots...)
}

func (w *probes) choose(images []*patch.Image) []*patch.Site {
	var sites []*patch.Site
	for _, i := range images {
		if w.late != nil && !w.late[i] {
			continue
		}
		room := make(map[uint64]bool)
		roomy, _, _ := i.Sites()
		for _, s := range roomy {
			room[s.Function.Addr] = true
		}
		chosen := w.selection
		if !i.IsProgram() {
			if chosen = w.libraries; len(chosen.take) == 0 && len(room) == 0 {
				continue
			}
		}
		for _, s := range i.Functions() {
			// What has room is meant as it is where that is used.
			has := room[s.Function.Addr]
			if w.late != nil && has || !uprobe.IsCalled(s.Function.Name) {
				continue
			}
			if has && w.selection.takes(w.p, s) || (i.IsProgram() || len(chosen.take) > 0) && chosen.takes(w.p, s) {
				sites = append(sites, s)
			}
		}
	}
	return sites
}

// open begins to watch, and says how many functions.
func (w *probes) open(o uprobe.Options, stderr io.Writer) (err error) {
	o.PID, w.exits = w.p.PID, o.Mode == uprobe.Exits || o.Mode == uprobe.Filtered
	if err := w.forbidExits(w.modules.All()); err != nil {
		return err
	}
	if narrow(w.modules) && (o.Mode == uprobe.Exits || o.Mode == uprobe.Chains || len(w.selection.arguments) > 0) {
		return errors.New("the kernel's uprobes can record and count its entries only: no exits, arguments or callers")
	}
	w.session, err = uprobe.Open(o)
	if unfollowed := (*uprobe.ChildrenError)(nil); errors.As(err, &unfollowed) {
		fmt.Fprintf(stderr, "footfall: children made by fork are not recorded: %v\n", unfollowed)
		o.Children = false
		w.session, err = uprobe.Open(o)
	}
	if err != nil {
		return err
	}
	w.sharing = newSharing(w.p, o.Children, w.exits)
	sites := w.sites
	w.sites = nil
	for _, id := range w.add(sites, stderr) {
		w.on[id] = true
	}
	if !w.paused {
		err = w.attach(w.list, stderr)
	}
	if err == nil {
		err = w.switchOn()
	}
	n := w.watched()
	if err == nil && n == 0 && !w.paused {
		err = errors.New("the kernel can watch none of these functions")
	}
	if err != nil {
		return errors.Join(err, w.session.Close())
	}
	faster := ", for 10 to 20 ns compile with -fpatchable-function-entry=5"
	if narrow(w.modules) {
		faster = ", as all programs of 32 bits"
	}
	fmt.Fprintf(stderr, "footfall: process %d (%s): tracing %s by uprobes of the kernel, slowly: 1 to 10 us a call%s\n",
		w.p.PID, w.p.Name, output.Count(n, "function", "functions"), faster)
	w.sharing.say(w.modules.Present(), stderr)
	return nil
}

// add makes probes of sites, and returns their IDs; of those that are known the ones that
// they have.
func (w *probes) add(sites []*patch.Site, stderr io.Writer) (ids []uint32) {
	for _, s := range sites {
		arguments := w.argumentsOf(s, stderr)
		key := fileSite{s.Image.Path, s.Function.Name, s.Site.Addr, fmt.Sprint(w.described[s])}
		id, known := w.ids[key]
		if !known {
			if id = uint32(len(w.list)); id >= uprobe.MaxID {
				break
			}
			w.ids[key] = id
			w.sites = append(w.sites, s)
			w.list = append(w.list, uprobe.Probe{File: s.Image.FileName(), Offset: s.FileOffset(), ID: id, Arguments: arguments, OnlyProcess: w.sharing.onlyProcess(s.Image)})
		}
		w.list[id].Root = s.Root
		ids = append(ids, id)
	}
	return ids
}

// switchOn has those recorded that are on.
func (w *probes) switchOn() error {
	var list []uprobe.Probe
	for _, p := range w.list {
		if w.on[p.ID] && !w.paused {
			list = append(list, p)
		}
	}
	return w.session.Switch(list)
}

// watched returns how many functions are recorded.
func (w *probes) watched() (n int) {
	for id := range w.on {
		if w.skipped[id] == nil && !w.paused {
			n++
		}
	}
	return n
}

// forbidExits tells whether exits must not be watched because of the images.
func (w *probes) forbidExits(images []*patch.Image) error {
	if !w.exits {
		return nil
	}
	for _, i := range images {
		for _, s := range i.Functions() {
			if why := uprobe.ForbidsExits(s.Function.Name); why != "" {
				return fmt.Errorf("--exits, which filters need too, would break it: there is %s in %s, and %s", s.Function.Name, filepath.Base(i.Path), why)
			}
		}
		if i.Throws(w.p) {
			return fmt.Errorf("--exits, which filters need too, would break it: %s has exceptions of C++ or panics of Rust, which cannot pass a function whose exit the kernel watches", filepath.Base(i.Path))
		}
	}
	return nil
}

// attach watches probes, and says which it cannot.
func (w *probes) attach(list []uprobe.Probe, stderr io.Writer) error {
	skipped, err := w.session.Attach(list)
	n := 0
	for id, why := range skipped {
		w.skipped[id] = why
		if n++; n == 4 {
			fmt.Fprintf(stderr, "footfall: ... and %d more\n", len(skipped)-3)
		} else if n < 4 {
			fmt.Fprintf(stderr, "footfall: %s is not traced: %v\n", w.sites[id].Name(), why)
		}
	}
	return err
}

// argumentsOf returns the arguments of a site that are to be read, and notes what they
// are called.
func (w *probes) argumentsOf(site *patch.Site, stderr io.Writer) []uprobe.Argument {
	names, _ := w.selection.describe(w.p, site, stderr)
	var arguments []uprobe.Argument
	var described []trace.Argument
	for i, a := range site.Arguments {
		if a.Kind == patch.Float {
			fmt.Fprintf(stderr, "footfall: argument %s of %s is left out: uprobes know none in floating point\n", names[i].Name, site.Name())
			continue
		}
		arguments = append(arguments, uprobe.Argument{Index: a.Index, String: a.Kind == patch.String})
		described = append(described, names[i])
	}
	w.described[site] = described
	return arguments
}

// update watches libraries that have been loaded meanwhile. It looks only now
// and then, and returns why the watching must end.
func (w *probes) update(stderr io.Writer) error {
	begin := time.Now()
	if begin.Before(w.next) {
		return nil
	}
	defer func() { w.next = time.Now().Add(max(50*time.Millisecond, 20*time.Since(begin))) }()
	fresh, _, _ := w.modules.Look() // some files are not programs
	if err := w.forbidExits(fresh); err != nil {
		return err
	}
	before := len(w.list)
	n, err := w.watch(w.choose(fresh), stderr)
	if len(w.list) == before {
		return nil
	}
	file := filepath.Base(w.sites[before].Image.Path)
	if err != nil {
		fmt.Fprintf(stderr, "footfall: functions of %s, loaded meanwhile, are not traced: %v\n", file, err)
	} else if n > 0 && !w.paused {
		fmt.Fprintf(stderr, "footfall: %s loaded: tracing %s\n", file, output.Count(n, "more function", "more functions"))
	}
	return nil
}

// watch watches further functions, and returns how many; of a file that is loaded again
// they are watched already.
func (w *probes) watch(sites []*patch.Site, stderr io.Writer) (n int, err error) {
	before := len(w.list)
	for _, id := range w.add(sites, stderr) {
		w.on[id] = true
	}
	if len(w.list) == before {
		return 0, nil
	}
	if !w.paused {
		err = w.attach(w.list[before:], stderr)
	}
	err = errors.Join(err, w.switchOn())
	for _, p := range w.list[before:] {
		if w.skipped[p.ID] == nil {
			n++
		}
	}
	return n, err
}

// reselect records other functions, or none, and returns how many it has switched on and off.
func (w *probes) reselect(s selection, paused bool, stderr io.Writer) (on, off int, err error) {
	before := *w
	w.aim(s)
	sites := w.choose(w.modules.Present())
	if len(sites) == 0 && !paused && w.late == nil {
		w.selection, w.libraries = before.selection, before.libraries
		return 0, 0, errors.New("no function fits")
	}
	w.on, w.paused = make(map[uint32]bool), paused
	for _, id := range w.add(sites, stderr) {
		w.on[id] = true
	}
	var missing []uprobe.Probe
	for id := range w.on {
		if !paused && w.skipped[id] == nil && !w.session.Attached(id) {
			missing = append(missing, w.list[id])
		}
	}
	slices.SortFunc(missing, func(a, b uprobe.Probe) int { return cmp.Compare(a.ID, b.ID) })
	err = w.attach(missing, stderr)
	err = errors.Join(err, w.switchOn())
	recorded := func(w *probes, id uint32) bool { return w.on[id] && !w.paused && w.skipped[id] == nil }
	for id := range uint32(len(w.list)) {
		switch was, is := recorded(&before, id), recorded(w, id); {
		case is && !was:
			on++
		case was && !is:
			off++
		}
	}
	return on, off, err
}

func (w *probes) close() error {
	err := w.session.Close()
	w.modules.Close()
	return err
}

// traceProbes is footfall trace of functions without room; none says so. The options are
// those that code in the process would have.
func (o *Options) traceProbes(p *proc.Process, options patch.Options, none *noSites, release func() error) (err error) {
	chosen, err := newSelection(o.Functions, o.Notrace, o.GraphFrom, o.Args)
	if err != nil {
		return output.UsageError(err)
	}
	w, err := openProbes(p, chosen)
	switch {
	case err != nil && o.launches():
		return fmt.Errorf("%w; %w; --follow-exec traces programs that it starts", none, err)
	case err != nil:
		return fmt.Errorf("%w; %w", none, err)
	}
	ctx, cancel := untilSignal()
	defer cancel()
	r := &probeRecorder{probes: w, names: make(map[int]string), threads: make(map[int]trace.Thread), recorder: recorder{o: o, p: p, known: make(map[fileSite]int32), stderr: o.Stderr, launched: o.launches(), uprobes: true}}
	r.options, r.try = options, r.tryChange
	open := func() error { return w.open(o.probeOptions(p, options), r.stderr) }
	if r.launched { // it would run in a circle meanwhile
		err = p.WhileStopped(open)
	} else {
		err = open()
	}
	if err != nil {
		w.modules.Close()
		return fmt.Errorf("%w; %w", none, err)
	}
	defer func() { err = errors.Join(err, w.close()) }()
	sayTracers(p, r.stderr)
	requests, control, err := serveControl(p.PID)
	if err != nil {
		fmt.Fprintf(r.stderr, "footfall: %v\n", err)
	} else {
		defer control.Close()
	}
	r.requests = requests
	r.from = monotonic()
	r.header = &trace.Header{PID: p.PID, Program: p.Name, Start: time.Now().UnixNano(), Exits: w.exits, Probes: true}
	r.numberProbes(r.probes)
	if !o.Count {
		if err := r.openOutputs(ctx, o.Stdout); err != nil {
			return err
		}
		defer r.discard()
	}
	if err := r.nameThreads(); err != nil {
		return err
	}
	if err := release(); err != nil {
		return err
	}
	why := r.run(ctx, r.readNew, r.look, time.Millisecond)
	if err := w.session.Detach(); err != nil {
		return err
	}
	w.sharing.sayChildren(w.session, r.stderr)
	if o.Count {
		byID, err := w.session.Counts()
		counts := make([]uint64, len(r.header.Functions))
		for id, n := range byID {
			counts[w.numbers[id]] += n
		}
		r.sayMissing()
		return errors.Join(err, r.printCounts(o.Stdout, counts))
	}
	r.read(true)
	r.sayMissing()
	r.sayWhy(why)
	lost, _, _ := w.session.Lost()
	return r.close(lost)
}

// probeOptions says what code in the process would do to the kernel.
func (o *Options) probeOptions(p *proc.Process, options patch.Options) uprobe.Options {
	u := uprobe.Options{
		Mode: uprobe.Entries, BufferSize: min(o.Buffer<<22, 1<<30), // one for all threads
		Filter: probeFilter(o, options.Filter), Newest: o.Newest, Arguments: len(o.Args) > 0, Children: o.Follow,
	}
	switch options.Mode {
	case patch.Counts:
		u.Mode = uprobe.Counts
	case patch.Exits:
		u.Mode = uprobe.Exits
	case patch.Filtered:
		u.Mode = uprobe.Filtered
	}
	if o.Newest {
		threads, _ := p.Threads()
		u.BufferSize, u.Rings = o.Buffer<<20, max(16, 2*len(threads))
	}
	if len(o.Threads) > 0 {
		u.ThreadNames = func(name string) bool {
			return slices.ContainsFunc(o.Threads, func(wanted string) bool {
				fits, _ := path.Match(wanted, name)
				return fits
			})
		}
	}
	for _, wanted := range o.Threads {
		if id, err := strconv.ParseUint(wanted, 10, 31); err == nil {
			u.ThreadIDs = append(u.ThreadIDs, uint32(id))
		}
	}
	return u
}

func probeFilter(o *Options, f patch.Filter) uprobe.Filter {
	return uprobe.Filter{Depth: f.Depth, MinTime: uint64(o.MinDuration), Period: f.Period, Roots: f.Roots}
}

// sayMissing says what the kernel had no room for.
func (r *probeRecorder) sayMissing() {
	lost, threads, forgotten := r.probes.session.Lost()
	if r.o.Count && lost > 0 {
		fmt.Fprintf(r.stderr, "footfall: %d calls were not counted: too many functions and names of threads\n", lost)
	}
	if threads > 0 {
		fmt.Fprintf(r.stderr, "footfall: %d calls were not recorded: more threads, or names of threads, than the kernel was given room for\n", threads)
	}
	if forgotten > 0 {
		fmt.Fprintf(r.stderr, "footfall: the events of %s that ended first were given up for those of others\n", output.Count(int(forgotten), "thread", "threads"))
	}
}

// tryChange makes a change that --set asks for.
func (r *probeRecorder) tryChange(c *traceChange) (string, error) {
	o, given, err := r.o.changed(c, r.options.Arguments)
	if err != nil {
		return "", err
	}
	options, err := o.options()
	if err != nil {
		return "", err
	}
	if c.filters() {
		if r.options.Mode != patch.Filtered {
			return "", errNoFilter
		}
		if err := r.probes.session.SetFilter(probeFilter(&o, options.Filter)); err != nil {
			return "", err
		}
	}
	var on, off int
	if given || c.On || c.Off {
		chosen, err := newSelection(o.Functions, o.Notrace, o.GraphFrom, o.Args)
		if err != nil {
			return "", err
		}
		if on, off, err = r.probes.reselect(chosen, c.Off || r.probes.paused && !c.On, r.stderr); err != nil {
			return "", err
		}
		before := len(r.header.Functions)
		r.numberProbes(r.probes)
		r.tellFunctions(before)
	}
	*r.o = o
	return changeText(r.probes.watched(), on, off), nil
}

// A probeRecorder takes events of uprobes to the outputs.
type probeRecorder struct {
	recorder
	probes  *probes
	from    uint64         // when it began
	names   map[int]string // of threads
	threads map[int]trace.Thread
}

// monotonic is the time of the kernel's events.
func monotonic() uint64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return uint64(t.Nano())
}

// numberProbes makes a list of the functions, or adds to it.
func (r *recorder) numberProbes(w *probes) {
	lines := len(w.sites) < 50_000 && !r.o.Count
	for _, s := range w.sites[len(w.numbers):] {
		f := trace.Function{Name: s.Name(), Image: s.Image.Path, Arguments: w.described[s]}
		if lines {
			f.File, f.Line = s.Source(w.p)
		}
		w.numbers = append(w.numbers, int32(len(r.header.Functions)))
		r.header.Functions = append(r.header.Functions, f)
	}
}

// readNew takes what events there are.
func (r *probeRecorder) readNew() int {
	if r.o.Count || r.o.Newest {
		return 0
	}
	return r.read(false)
}

// look watches libraries that have been loaded meanwhile, and which threads there are.
func (r *probeRecorder) look() error {
	if err := r.probes.update(r.stderr); err != nil {
		return err
	}
	before := len(r.header.Functions)
	r.numberProbes(r.probes)
	r.tellFunctions(before)
	if err := r.nameThreads(); err != nil {
		return err
	}
	return r.probes.session.Trim()
}

// nameThreads notes the names of threads, and gives the places of those that have ended to
// others, where they have places.
func (r *probeRecorder) nameThreads() error {
	if r.options.Mode != patch.Filtered && !r.o.Newest && len(r.o.Threads) == 0 {
		return nil
	}
	threads, err := r.p.Threads()
	if err != nil || r.p.Check() != nil {
		return nil // its end is noticed elsewhere
	}
	known := make(map[int]bool)
	for _, t := range threads {
		known[t.ID] = true
		r.names[t.ID] = t.Name
	}
	return r.probes.session.Recycle(func(tid int) bool {
		if known[tid] {
			return true
		}
		_, err := os.Stat(fmt.Sprintf("/proc/%d", tid)) // of a child; threads have it, too
		return err == nil
	})
}

// settled is how late an event may be written: a program that writes it can be
// interrupted.
const settled = uint64(20 * time.Millisecond)

// read takes what events there are. At the end none are held back.
func (r *probeRecorder) read(end bool) int {
	until := monotonic() - r.from
	until -= min(until, settled)
	n := r.probes.session.Read(func(events []uprobe.Event) {
		for _, e := range events {
			if int(e.ID) >= len(r.probes.numbers) || e.Time < r.from {
				continue
			}
			q := r.queue(r.thread(e))
			q.add(trace.Event{Time: e.Time - r.from, Function: uint32(r.probes.numbers[e.ID]), Exit: e.Exit, Stack: uint32(e.Stack)})
			for _, w := range e.Words {
				q.add(trace.Event{Time: w, Word: true})
			}
		}
	})
	r.total += uint64(n)
	r.order(until, end)
	return n
}

// thread names the thread of an event. One that has ended before has the program's name.
func (r *probeRecorder) thread(e uprobe.Event) trace.Thread {
	of, known := r.threads[e.TID]
	if !known {
		of.ID = e.TID
		if process := r.probes.session.ProcessOf(e.TID); process != r.p.PID {
			of.Process = process
		}
		r.threads[e.TID] = of
	}
	if of.Name = e.Name; of.Name != "" {
		return of
	}
	if _, ok := r.names[e.TID]; !ok {
		r.names[e.TID] = r.p.Name
		if of.Process != 0 {
			r.names[e.TID] = cmp.Or(threadName(of.Process, e.TID), r.p.Name)
		}
		threads, _ := r.p.Threads()
		for _, t := range threads {
			r.names[t.ID] = t.Name
		}
	}
	of.Name = r.names[e.TID]
	return of
}

// threadName is what a thread is called now, "" if it has ended.
func threadName(process, tid int) string {
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/comm", process, tid))
	return strings.TrimSuffix(string(name), "\n")
}

// printProbes is --list of a program without sites.
func (o *Options) printProbes(w io.Writer, p *proc.Process, only []string, none *noSites) error {
	chosen, err := newSelection(append(slices.Clone(o.Functions), only...), o.Notrace, nil, nil)
	if err != nil {
		return output.UsageError(err)
	}
	probes, err := openProbes(p, chosen)
	if err != nil {
		return fmt.Errorf("%w; %w", none, err)
	}
	defer probes.modules.Close()
	listSites(w, p, probes.sites)
	return nil
}

// countProbes is footfall callers of a function without room.
func (o *CallersOptions) countProbes(p *proc.Process, function string, none *noSites) (err error) {
	chosen, err := newSelection([]string{function}, nil, nil, nil)
	if err != nil {
		return output.UsageError(err)
	}
	w, err := openProbes(p, chosen)
	if err != nil {
		return fmt.Errorf("%w; %w", none, err)
	}
	rows := newChainRows(w.modules.All())
	options := o.probeOptions(rows)
	ctx, cancel := untilSignal()
	defer cancel()
	stderr := o.Stderr
	if err := w.open(options, stderr); err != nil {
		w.modules.Close()
		return fmt.Errorf("%w; %w", none, err)
	}
	defer func() { err = errors.Join(err, w.close()) }()
	c := newCallers(p, function, w.sites, w.modules.All, o)
	read := func() error {
		chains, err := w.session.Chains()
		c.chains = c.chains[:0]
		for _, chain := range chains {
			c.chains = append(c.chains, patch.Chain(chain))
		}
		c.way = wayOf(rows.way(c.chains))
		return err
	}
	c.rows = rows
	c.sayMany(len(w.sites), function, stderr)
	update := func() error { return w.update(stderr) }
	if why := o.wait(ctx, c, o.Stdout, update, read); why != nil {
		fmt.Fprintf(stderr, "footfall: process %d: %v\n", p.PID, why)
	}
	if err := errors.Join(w.session.Detach(), c.finish(read)); err != nil {
		return err
	}
	w.sharing.sayChildren(w.session, stderr)
	lost, _, _ := w.session.Lost()
	c.sayLost(lost, stderr)
	return o.write(c, o.Stdout)
}
