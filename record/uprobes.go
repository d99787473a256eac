//go:build linux

package record

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"footfall/hook/patch"
	"footfall/hook/uprobe"
	"footfall/output"
	"footfall/process"
	"footfall/process/target"
	"footfall/trace"
)

// probes are functions that are recorded by the kernel's uprobes, since they have no room for a
// jump.
type probes struct {
	p         *process.Process
	settings  *settings
	functions *functions // nil: they have no numbers
	stderr    io.Writer
	session   *uprobe.ProbeSet
	stopped   bool
	sharing   *sharing
	clock     kernelClock

	sites   []*patch.EntrySite
	list    []uprobe.Probe // of the sites; the index is the ID
	shown   [][]trace.Argument
	numbers []int32 // of functions, by their ids
	ids     map[fileSite]uint32
	on      map[uint32]bool
	skipped map[uint32]error // those that the kernel cannot watch

	names   map[int]string // of threads
	process map[int]int    // that a thread belongs to
}

// openProbes records functions, and says how many. Rows are for chains.
func openProbes(t *program, list []TracedFunction, rows *chainRows) (_ *probes, err error) {
	w := &probes{
		p: t.p, settings: t.settings, functions: t.functions, stderr: t.stderr, clock: kernelClock{recordingTime: t.time},
		ids: make(map[fileSite]uint32), on: make(map[uint32]bool), skipped: make(map[uint32]error), names: make(map[int]string), process: make(map[int]int),
	}
	o := w.options(rows)
	if err := w.forbidExits(t.images.All()); err != nil {
		return nil, err
	}
	if is32Bit(t.images) && (o.Mode == trace.Exits || o.Mode == trace.Chains || t.settings.arguments) {
		return nil, errors.New("the kernel's uprobes can record and count its entries only: no exits, arguments or callers")
	}
	w.session, err = uprobe.Open(o)
	if unfollowed := (*uprobe.ChildrenError)(nil); errors.As(err, &unfollowed) {
		fmt.Fprintf(w.stderr, "footfall: children made by fork are not recorded: %v\n", unfollowed)
		o.Children = false
		w.session, err = uprobe.Open(o)
	}
	if err != nil {
		return nil, err
	}
	w.sharing = newSharing(w.p, o.Children, w.settings.mode.HasExits())
	if _, err = w.Add(list); err == nil && w.On() == 0 {
		err = errors.New("the kernel can watch none of these functions")
	}
	if err == nil {
		err = w.nameThreads()
	}
	if err != nil {
		return nil, errors.Join(err, w.session.Close())
	}
	w.say(t.images)
	return w, nil
}

// say says how many functions are recorded, and what that costs.
func (w *probes) say(images *target.Modules) {
	faster := ", for 10 to 20 ns compile with -fpatchable-function-entry=5"
	if is32Bit(images) {
		faster = ", as all 32-bit programs"
	}
	fmt.Fprintf(w.stderr, "footfall: process %d (%s): tracing %s by uprobes of the kernel, slowly: 1 to 10 us a call%s\n",
		w.p.PID, output.Printable(w.p.Name), output.Count(w.On(), "function", "functions"), faster)
	w.sharing.say(images.Present(), w.stderr)
}

// options says what code in the process would do to the kernel.
func (w *probes) options(rows *chainRows) uprobe.Options {
	set := w.settings
	u := uprobe.Options{
		PID: w.p.PID, Thread: w.p.LivingThread, Mode: set.mode, BufferSize: min(set.buffer<<22, 1<<30), // one for all threads
		Filter: set.filter, Newest: set.newest, Arguments: set.arguments, Children: set.follow, ChainDepth: set.chainDepth,
	}
	if rows != nil {
		u.Rows = rows.rows
	}
	if set.newest {
		threads, _ := w.p.Threads()
		u.BufferSize, u.Rings = set.buffer<<20, max(16, 2*len(threads))
	}
	if len(set.threads) > 0 {
		u.ThreadNames, u.ThreadIDs = set.threads.takeName, set.threads.ids()
	}
	return u
}

// forbidExits tells whether exits must not be watched because of the images.
func (w *probes) forbidExits(images []*target.Image) error {
	if !w.settings.mode.HasExits() {
		return nil
	}
	for _, i := range images {
		for _, s := range i.Functions() {
			if why := uprobe.ForbidsExits(s.Function.Name); why != "" {
				return fmt.Errorf("--exits, which filters need too, would break it: there is %s in %s, and %s", s.Function.Name, filepath.Base(i.Path), why)
			}
		}
		if patch.Throws(w.p, i) {
			return fmt.Errorf("--exits, which filters need too, would break it: %s has exceptions of C++ or panics of Rust, which cannot pass a function whose exit the kernel watches", filepath.Base(i.Path))
		}
		if i.File.Imports("_Unwind_RaiseException", "_Unwind_ForcedUnwind") { // C, too, can have exceptions
			return fmt.Errorf("--exits, which filters need too, would break it: %s unwinds its stack, which cannot be done past a function whose exit the kernel watches", filepath.Base(i.Path))
		}
	}
	return nil
}

func (w *probes) Way() Way { return Uprobes }

// Add returns, of a file that is loaded again, no functions: they are recorded already.
func (w *probes) Add(list []TracedFunction) (n int, err error) {
	release, err := w.p.Claim()
	if err != nil {
		return 0, err
	}
	defer release()
	before := len(w.list)
	for _, id := range w.know(list) {
		w.on[id] = true
	}
	if len(w.list) == before {
		return 0, nil
	}
	err = w.attach(w.list[before:])
	err = errors.Join(err, w.switchOn())
	for _, p := range w.list[before:] {
		if w.skipped[p.ID] == nil {
			n++
		}
	}
	return n, err
}

func (w *probes) Switch(list []TracedFunction) (on, off int, err error) {
	release, err := w.p.Claim()
	if err != nil {
		return 0, 0, err
	}
	defer release()
	before := w.on
	w.on = make(map[uint32]bool)
	for _, id := range w.know(list) {
		w.on[id] = true
	}
	var missing []uprobe.Probe
	for id := range w.on {
		if w.skipped[id] == nil && !w.session.Attached(id) {
			missing = append(missing, w.list[id])
		}
	}
	slices.SortFunc(missing, func(a, b uprobe.Probe) int { return cmp.Compare(a.ID, b.ID) })
	err = w.attach(missing)
	err = errors.Join(err, w.switchOn())
	for id := range uint32(len(w.list)) {
		switch was, is := before[id] && w.skipped[id] == nil, w.on[id] && w.skipped[id] == nil; {
		case is && !was:
			on++
		case was && !is:
			off++
		}
	}
	return on, off, err
}

// know makes probes of functions, and returns their IDs; of those that are known the ones that
// they have.
func (w *probes) know(list []TracedFunction) (ids []uint32) {
	before := len(w.list)
	for _, f := range w.unpatched(list) {
		f, arguments := w.inRegisters(f)
		key := siteOf(f)
		id, known := w.ids[key]
		if !known {
			if id = uint32(len(w.list)); id >= uprobe.MaxID {
				break
			}
			w.ids[key] = id
			w.sites, w.shown = append(w.sites, f.EntrySite), append(w.shown, f.Shown)
			w.list = append(w.list, uprobe.Probe{File: f.Image.FileName(), Offset: f.FileOffset(), ID: id, Arguments: arguments, OnlyProcess: w.sharing.onlyProcess(f.Image)})
		}
		w.list[id].Root = f.Root
		ids = append(ids, id)
	}
	if w.functions != nil {
		for id := before; id < len(w.list); id++ {
			w.numbers = append(w.numbers, w.functions.number(w.p, TracedFunction{w.sites[id], w.shown[id]}, len(w.list)))
		}
	}
	return ids
}

// unpatched leaves out functions whose code another footfall has changed.
func (w *probes) unpatched(list []TracedFunction) []TracedFunction {
	sites, footfall, err := patch.PatchedBy(w.p)
	if err != nil {
		fmt.Fprintf(w.stderr, "footfall: process %d: whether its code is changed: %v\n", w.p.PID, err)
		return nil
	}
	rest := slices.DeleteFunc(slices.Clone(list), func(f TracedFunction) bool { return sites[f.Addr] })
	if n := len(list) - len(rest); n > 0 {
		by := fmt.Sprintf("footfall process %d", footfall)
		if footfall == 0 {
			by = "footfall live --ran --keep"
		}
		fmt.Fprintf(w.stderr, "footfall: %s not traced: %s has changed the first instructions, where a breakpoint of the kernel must not be\n",
			output.Count(n, "function is", "functions are"), by)
	}
	return rest
}

// inRegisters returns the arguments of a function that can be read, and the function as
// having these.
func (w *probes) inRegisters(f TracedFunction) (TracedFunction, []trace.Capture) {
	var arguments []trace.Capture
	var shown []trace.Argument
	for i, a := range f.Arguments {
		if i >= len(f.Shown) {
			break // of a selection before
		}
		if a.Kind == trace.CaptureFloat {
			fmt.Fprintf(w.stderr, "footfall: argument %s of %s is left out: uprobes know none in floating point\n", f.Shown[i].Name, f.Name())
			continue
		}
		arguments = append(arguments, a)
		shown = append(shown, f.Shown[i])
	}
	return TracedFunction{f.EntrySite, shown}, arguments
}

// attach watches probes, and says which it cannot.
func (w *probes) attach(list []uprobe.Probe) error {
	defer w.guard(list)()
	skipped, err := w.session.Attach(list)
	n := 0
	for id, why := range skipped {
		w.skipped[id] = why
		if n++; n == 4 {
			fmt.Fprintf(w.stderr, "footfall: ... and %d more\n", len(skipped)-3)
		} else if n < 4 {
			fmt.Fprintf(w.stderr, "footfall: %s is not traced: %v\n", w.sites[id].Name(), why)
		}
	}
	return err
}

// guard keeps probes in the one process whose files a footfall has changed in another one; until release nobody does that.
func (w *probes) guard(list []uprobe.Probe) (release func()) {
	files := make(map[string]bool)
	for _, p := range list {
		if w.sharing.children && !p.OnlyProcess {
			files[w.sites[p.ID].Image.Mapped.File()] = true
		}
	}
	if len(files) == 0 {
		return func() {}
	}
	changed, release := guard(w.p, files)
	for i, p := range list {
		if image := w.sites[p.ID].Image; changed[image.Mapped.File()] {
			w.sharing.ownOnly[filepath.Base(image.Path)] = true
			list[i].OnlyProcess, w.list[p.ID].OnlyProcess = true, true
		}
	}
	return release
}

// switchOn has those recorded that are on.
func (w *probes) switchOn() error {
	var list []uprobe.Probe
	for _, p := range w.list {
		if w.on[p.ID] {
			list = append(list, p)
		}
	}
	return w.session.Switch(list)
}

func (w *probes) On() (n int) {
	for id := range w.on {
		if w.skipped[id] == nil {
			n++
		}
	}
	return n
}

func (w *probes) SetFilter(f trace.Filter) error { return w.session.SetFilter(f) }

func (w *probes) Read(give func(process.ThreadStatus, []trace.Event)) (int, error) {
	if w.settings.mode == trace.Counts || w.settings.mode == trace.Chains {
		return 0, nil
	}
	w.clock.look()
	var converted []trace.Event
	return w.session.Read(func(events []uprobe.ProbeEvent) {
		for i := range events {
			e := &events[i]
			if int(e.ID) >= len(w.numbers) || e.Time < w.clock.start { // which is 0 where there are two clocks
				continue
			}
			converted = append(converted[:0], trace.Event{Time: w.clock.nanos(e.Time), Function: uint32(w.numbers[e.ID]), Exit: e.Exit, Stack: uint32(e.Stack)})
			for _, word := range e.Words {
				converted = append(converted, trace.Event{Time: word, Word: true})
			}
			give(w.thread(e), converted)
		}
	}), nil
}

// thread names the thread of an event. One that has ended before has no name.
func (w *probes) thread(e *uprobe.ProbeEvent) process.ThreadStatus {
	pid, known := w.process[e.TID]
	if !known {
		pid = w.session.ProcessOf(e.TID)
		w.process[e.TID] = pid
	}
	of := process.ThreadStatus{ID: e.TID, Process: pid, Name: strings.TrimSpace(e.Name)}
	if of.Name != "" {
		return of
	}
	if _, ok := w.names[e.TID]; !ok {
		w.names[e.TID] = ""
		if pid != w.p.PID {
			w.names[e.TID] = threadName(pid, e.TID)
		}
		w.lookAtNames()
	}
	of.Name = w.names[e.TID]
	return of
}

// threadName is what a thread is called now, "" if it has ended.
func threadName(pid, tid int) string {
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/comm", pid, tid))
	return strings.TrimSuffix(string(name), "\n")
}

// lookAtNames notes the names of the threads that there are, which it returns.
func (w *probes) lookAtNames() map[int]bool {
	threads, err := w.p.Threads()
	if err != nil {
		return nil
	}
	there := make(map[int]bool)
	for _, t := range threads {
		there[t.ID] = true
		w.names[t.ID] = t.Name
	}
	return there
}

func (w *probes) Counts() (map[int32]uint64, error) {
	byID, err := w.session.Counts()
	counts := make(map[int32]uint64)
	for id, n := range byID {
		counts[w.numbers[id]] += n
	}
	return counts, err
}

func (w *probes) Chains() ([]trace.Chain, error) { return w.session.Chains() }

func (w *probes) Maintain() error {
	if w.settings.mode == trace.Chains || w.stopped {
		return nil
	}
	if err := w.nameThreads(); err != nil {
		return err
	}
	return w.session.Trim()
}

// nameThreads notes the names of threads, and gives the places of those that have ended to
// others, where they have places.
func (w *probes) nameThreads() error {
	if w.settings.mode == trace.Chains || w.settings.mode != trace.Filtered && !w.settings.newest && len(w.settings.threads) == 0 {
		return nil
	}
	there := w.lookAtNames()
	if there == nil || w.p.Check() != nil {
		return nil // its end is noticed elsewhere
	}
	return w.session.Recycle(func(tid int) bool {
		if there[tid] {
			return true
		}
		_, err := os.Stat(fmt.Sprintf("/proc/%d", tid)) // of a child; threads have it, too
		return err == nil
	})
}

// Stop says, too, of which files children were not recorded.
func (w *probes) Stop() error {
	if w.stopped {
		return nil
	}
	err := w.session.Detach()
	if w.stopped = err == nil; w.stopped {
		w.sharing.sayOwnOnly(w.session, w.stderr)
	}
	return err
}

func (w *probes) Lost() (l losses) {
	l[dropped], l[crowded], l[forgotten] = w.session.Lost()
	return l
}

func (w *probes) Children() (recorded, others int) { return w.session.Followed(), 0 }

func (w *probes) Close() error { return w.session.Close() }
