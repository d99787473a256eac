package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"footfall/exe"
	"footfall/patch"
	"footfall/proc"
	"footfall/trace"
	"footfall/uprobe"
)

// probes are functions of a process that are watched by the kernel's uprobes,
// since they have no room for a jump.
type probes struct {
	p         *proc.Process
	modules   *patch.Modules
	selection selection
	libraries selection // of functions of libraries
	sites     []*patch.Site
	exits     bool
	session   *uprobe.Session
	next      time.Time
	described map[*patch.Site][]trace.Argument
}

// openProbes selects functions. A pattern is for libraries if it names one, or
// fits nothing in the program itself.
func openProbes(p *proc.Process, s selection) (*probes, error) {
	modules, _ := patch.OpenModules(p) // some files are not programs
	w := &probes{p: p, modules: modules, selection: s, libraries: selection{leave: s.leave}, described: make(map[*patch.Site][]trace.Argument)}
	for _, pattern := range s.take {
		fits := func(i *patch.Image) bool {
			return i.IsProgram() && slices.ContainsFunc(i.Functions(), func(s *patch.Site) bool { return pattern.Matches(p, s) })
		}
		if !slices.ContainsFunc(modules.All(), fits) {
			w.libraries.take = append(w.libraries.take, pattern)
		}
	}
	if w.sites = w.choose(modules.All()); len(w.sites) == 0 {
		w.modules.Close()
		named := func(i *patch.Image) bool { return i.IsProgram() && len(i.Functions()) > 0 }
		if !slices.ContainsFunc(modules.All(), named) {
			return nil, errors.New("it has no symbols: functions have no names without them, or a separate debug file")
		}
		return nil, errors.New("no function in its symbol tables fits (one that was inlined everywhere is none)")
	}
	return w, nil
}

func (w *probes) choose(images []*patch.Image) []*patch.Site {
	var sites []*patch.Site
	for _, i := range images {
		chosen := w.selection
		if !i.IsProgram() {
			if chosen = w.libraries; len(chosen.take) == 0 {
				continue
			}
		}
		for _, s := range i.Functions() {
			if uprobe.IsCalled(s.Function.Name) && chosen.takes(w.p, s) {
				sites = append(sites, s)
			}
		}
	}
	return sites
}

// open begins to watch, and returns how many functions.
func (w *probes) open(o uprobe.Options, stderr io.Writer) (err error) {
	o.PID, w.exits = w.p.PID, o.Mode == uprobe.Exits
	if err := w.forbidExits(w.modules.All()); err != nil {
		return err
	}
	if narrow(w.modules) && (o.Mode == uprobe.Exits || o.Mode == uprobe.Chains || len(w.selection.arguments) > 0) {
		return errors.New("the kernel's uprobes can record and count its entries only: no exits, arguments or callers")
	}
	if w.session, err = uprobe.Open(o); err != nil {
		return err
	}
	n, err := w.attach(0, stderr)
	if err == nil && n == 0 {
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
		w.p.PID, w.p.Name, counted(n, "function", "functions"), faster)
	return nil
}

// forbidExits tells whether exits must not be watched because of the images.
func (w *probes) forbidExits(images []*patch.Image) error {
	if !w.exits {
		return nil
	}
	for _, i := range images {
		for _, s := range i.Functions() {
			if why := uprobe.ForbidsExits(s.Function.Name); why != "" {
				return fmt.Errorf("--exits would break it: there is %s in %s, and %s", s.Function.Name, filepath.Base(i.Path), why)
			}
		}
		if i.Throws(w.p) {
			return fmt.Errorf("--exits would break it: %s has exceptions of C++ or panics of Rust, which cannot pass a function whose exit the kernel watches", filepath.Base(i.Path))
		}
	}
	return nil
}

// attach watches sites from a number on, which is their ID.
func (w *probes) attach(from int, stderr io.Writer) (int, error) {
	var list []uprobe.Probe
	for id := from; id < len(w.sites) && id < uprobe.MaxID; id++ {
		s := w.sites[id]
		list = append(list, uprobe.Probe{File: s.Image.FileName(), Offset: s.FileOffset(), ID: uint32(id), Arguments: w.argumentsOf(s, stderr)})
	}
	skipped, err := w.session.Attach(list)
	n := 0
	for id, why := range skipped {
		if n++; n > 3 {
			fmt.Fprintf(stderr, "footfall: ... and %d more\n", len(skipped)-3)
			break
		}
		fmt.Fprintf(stderr, "footfall: %s is not traced: %v\n", w.sites[id].Name(), why)
	}
	return len(list) - len(skipped), err
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
	before := len(w.sites)
	for _, s := range w.choose(fresh) {
		// A file that is loaded again is watched already.
		if !slices.ContainsFunc(w.sites, func(old *patch.Site) bool { return old.Image.Path == s.Image.Path && old.Site.Addr == s.Site.Addr }) {
			w.sites = append(w.sites, s)
		}
	}
	if len(w.sites) == before {
		return nil
	}
	n, err := w.attach(before, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "footfall: functions of %s, loaded meanwhile, are not traced: %v\n", filepath.Base(w.sites[before].Image.Path), err)
	} else if n > 0 {
		fmt.Fprintf(stderr, "footfall: %s loaded: tracing %s\n", filepath.Base(w.sites[before].Image.Path), counted(n, "more function", "more functions"))
	}
	return nil
}

func (w *probes) close() error {
	err := w.session.Close()
	w.modules.Close()
	return err
}

// notByProbes tells which options need code in the process.
func (o *traceOptions) notByProbes() error {
	for name, set := range map[string]bool{
		"--graph-from": len(o.graphFrom) > 0, "--depth": o.depth > 0, "--min-duration": o.minDuration > 0,
		"--sample": o.sample != "", "--flight-recorder": o.newest, "--count of some threads": o.count && len(o.threads) > 0,
	} {
		if set {
			return fmt.Errorf("the kernel's uprobes, which work without, know no %s", name)
		}
	}
	return nil
}

// traceProbes is footfall trace of functions without room; none says so.
func (o *traceOptions) traceProbes(cmd *cobra.Command, p *proc.Process, none *noSites, release func() error) (err error) {
	chosen, err := newSelection(o.functions, o.notrace, nil, o.args)
	if err != nil {
		return usageError(err)
	}
	if err := o.notByProbes(); err != nil {
		return fmt.Errorf("%w; %w", none, err)
	}
	w, err := openProbes(p, chosen)
	switch {
	case err != nil && cmd.ArgsLenAtDash() >= 0:
		return fmt.Errorf("%w; %w; --follow-exec traces programs that it starts", none, err)
	case err != nil:
		return fmt.Errorf("%w; %w", none, err)
	}
	options := uprobe.Options{Mode: uprobe.Entries, BufferSize: min(o.buffer<<22, 1<<30)} // one for all threads
	switch {
	case o.count:
		options.Mode = uprobe.Counts
	case o.exits:
		options.Mode = uprobe.Exits
	}
	ctx, cancel := signal.NotifyContext(context.Background(), endSignals...)
	defer cancel()
	r := &probeRecorder{probes: w, recorder: recorder{o: o, p: p, known: make(map[fileSite]int32), stderr: cmd.ErrOrStderr(), launched: cmd.ArgsLenAtDash() >= 0}}
	if err := w.open(options, r.stderr); err != nil {
		w.modules.Close()
		return fmt.Errorf("%w; %w", none, err)
	}
	defer func() { err = errors.Join(err, w.close()) }()
	r.from = monotonic()
	r.header = &trace.Header{PID: p.PID, Program: p.Name, Start: time.Now().UnixNano(), Exits: o.exits}
	r.numberProbes()
	if !o.count {
		if err := r.openOutputs(ctx, cmd.OutOrStdout()); err != nil {
			return err
		}
	}
	if err := release(); err != nil {
		return err
	}
	why := r.run(ctx, r.readNew, r.look, time.Millisecond)
	if err := w.session.Detach(); err != nil {
		return err
	}
	if o.count {
		byID, err := w.session.Counts()
		counts := make([]uint64, len(r.header.Functions))
		for id, n := range byID {
			counts[r.numbers[id]] += n
		}
		return errors.Join(err, r.printCounts(cmd.OutOrStdout(), counts))
	}
	r.read(true)
	r.sayWhy(why)
	return r.close(w.session.Lost())
}

// A probeRecorder takes events of uprobes to the outputs.
type probeRecorder struct {
	recorder
	probes  *probes
	numbers []int32        // of functions, by their ids
	from    uint64         // when it began
	names   map[int]string // of threads
}

// monotonic is the time of the kernel's events.
func monotonic() uint64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return uint64(t.Nano())
}

// numberProbes makes a list of the functions, or adds to it.
func (r *probeRecorder) numberProbes() {
	lines := len(r.probes.sites) < 50_000 && !r.o.count
	for _, s := range r.probes.sites[len(r.numbers):] {
		f := trace.Function{Name: s.Name(), Image: s.Image.Path, Arguments: r.probes.described[s]}
		if lines {
			f.File, f.Line = s.Source(r.p)
		}
		r.numbers = append(r.numbers, int32(len(r.header.Functions)))
		r.header.Functions = append(r.header.Functions, f)
	}
}

// readNew takes what events there are.
func (r *probeRecorder) readNew() int {
	if r.o.count {
		return 0
	}
	return r.read(false)
}

// look watches libraries that have been loaded meanwhile.
func (r *probeRecorder) look() error {
	if err := r.probes.update(r.stderr); err != nil {
		return err
	}
	before := len(r.header.Functions)
	r.numberProbes()
	r.tellFunctions(before)
	return nil
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
			if int(e.ID) >= len(r.numbers) || e.Time < r.from {
				continue
			}
			q := r.queue(r.thread(e.TID))
			q.add(trace.Event{Time: e.Time - r.from, Function: uint32(r.numbers[e.ID]), Exit: e.Exit, Stack: uint32(e.Stack)})
			for _, w := range e.Words {
				q.add(trace.Event{Time: w, Word: true})
			}
		}
	})
	r.total += uint64(n)
	r.order(until, end)
	return n
}

// thread names a thread. One that has ended before has the program's name.
func (r *probeRecorder) thread(tid int) trace.Thread {
	if _, ok := r.names[tid]; !ok {
		if r.names == nil {
			r.names = make(map[int]string)
		}
		r.names[tid] = r.p.Name
		threads, _ := r.p.Threads()
		for _, t := range threads {
			r.names[t.ID] = t.Name
		}
	}
	return trace.Thread{ID: tid, Name: r.names[tid]}
}

// printProbes is --list of a program without sites.
func (o *traceOptions) printProbes(w io.Writer, p *proc.Process, only []string, none *noSites) error {
	chosen, err := newSelection(append(slices.Clone(o.functions), only...), o.notrace, nil, nil)
	if err != nil {
		return usageError(err)
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
func (o *callersOptions) countProbes(cmd *cobra.Command, p *proc.Process, function string, none *noSites) (err error) {
	chosen, err := newSelection([]string{function}, nil, nil, nil)
	if err != nil {
		return usageError(err)
	}
	w, err := openProbes(p, chosen)
	if err != nil {
		return fmt.Errorf("%w; %w", none, err)
	}
	options := uprobe.Options{Mode: uprobe.Chains, ChainDepth: o.depth, BufferSize: min(o.buffer<<22, 1<<30)}
	for _, i := range w.modules.All() {
		options.Rows = append(options.Rows, i.UnwindRows()...)
	}
	slices.SortStableFunc(options.Rows, func(a, b exe.UnwindRow) int { return cmp.Compare(a.Addr, b.Addr) })
	ctx, cancel := signal.NotifyContext(context.Background(), endSignals...)
	defer cancel()
	stderr := cmd.ErrOrStderr()
	if err := w.open(options, stderr); err != nil {
		w.modules.Close()
		return fmt.Errorf("%w; %w", none, err)
	}
	defer func() { err = errors.Join(err, w.close()) }()
	c := newCallers(p, w.sites, w.modules.All, o.top)
	read := func() error {
		chains, err := w.session.Chains()
		c.chains = c.chains[:0]
		for _, chain := range chains {
			c.chains = append(c.chains, patch.Chain(chain))
		}
		return err
	}
	c.way = "by .eh_frame"
	c.sayMany(len(w.sites), function, stderr)
	update := func() error { return w.update(stderr) }
	if why := o.wait(ctx, c, cmd.OutOrStdout(), update, read); why != nil {
		fmt.Fprintf(stderr, "footfall: process %d: %v\n", p.PID, why)
	}
	if err := errors.Join(w.session.Detach(), c.finish(read)); err != nil {
		return err
	}
	c.sayLost(w.session.Lost(), stderr)
	return o.write(c, cmd.OutOrStdout())
}
