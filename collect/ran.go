//go:build linux

package collect

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"footfall/demangle"
	"footfall/hook/patch"
	"footfall/hook/uprobe"
	"footfall/output"
	"footfall/process"
	"footfall/process/target"
	"footfall/report/source"
)

// RanOptions say what is armed of running programs.
type RanOptions struct {
	// Sources say which libraries of the system are armed, too: those that --include names.
	Sources *source.Sources
	Stderr  io.Writer // for what is wrong
	Notes   io.Writer // for what is good to know
	Verbose bool      // also how long processes stood still
	Lines   bool      // not only functions: code is watched block by block
	// Keep has processes stay watched at the end: the next Ran of the same process has what ran meanwhile. What is
	// known of programs is kept over all their processes.
	Keep bool
	// Directory is where it is kept; "": below the user's directory of states.
	Directory string
	// Wait is that there may be no process to look at for some time.
	Wait bool
}

// A Ran finds out which functions of processes run that need not be built for it, by
// [patch.Ran]. It is for one goroutine.
type Ran struct {
	options   RanOptions
	selectors []process.Selector
	processes []*ranProcess
	tried     map[int]process.Identity // processes that were looked at
	programs  []*RanProgram            // what they consist of
	wait      time.Duration            // until the next look
	mapped    time.Time                // when it was looked last for new libraries and processes
	said      map[string]bool
	saved     time.Time // when what is kept was saved
	news      bool      // something has run since then
	stay      []int     // see Stay

	follower *process.Follower // nil: programs are not followed over exec
	due      time.Time         // when it is looked next, with a follower
}

// A RanProgram is a program or library, in however many processes.
type RanProgram struct {
	Path      string
	Functions []*RanFunction // by ascending address
	NoLines   bool           // lines are wanted, and there is no line table

	key        string
	buildID    string
	kept       *kept // nil: it is not
	sites      ranSites
	names      nameTable
	sources    []string // of functions
	blocks     []*ranBlock
	statements []ranStatement
	rests      []ranStatement // code of lines that is not where a statement begins
	files      []string       // of statements and rests
}

// A RanFunction is a function, which ran or did not.
type RanFunction struct {
	Addr    uint64 // as the file has it
	program *RanProgram
	divided *dividedRan // nil: it is not
	Size    uint32
	symbol  nameNumber // see Symbol; of one without a name how far behind Addr its first instruction is
	source  int32      // 1 + its number in the program's sources; 0: not known
	Line    int32      // where it begins in its source
	ranState
}

// A ranState is what is known of a function or a block.
type ranState struct {
	Ran   bool
	noted bool // of a function: that it ran
	// Unknown is why it is not known whether it ran; 0 if it is.
	Unknown Reason

	cannot Reason // why it is not armed, in any process
	never  Reason // why it can be in none
}

// Symbol is the function's name as the linker knows it, "" if it has none.
func (fn *RanFunction) Symbol() string { return fn.program.names.at(fn.symbol) }

// Name is the function's name as the language writes it; of one without a name its file and address.
func (fn *RanFunction) Name() string {
	if symbol := fn.Symbol(); symbol != "" {
		return demangle.Full(symbol)
	}
	return fmt.Sprintf("%s+%#x", fn.program.ShortName(), fn.Addr+uint64(fn.symbol))
}

// File is the source in which it begins; "": not known.
func (fn *RanFunction) File() string {
	if fn.source == 0 {
		return ""
	}
	return fn.program.sources[fn.source-1]
}

// A ranProcess is one of the processes.
type ranProcess struct {
	p       *process.Process
	modules *target.Modules
	session *patch.Ran // nil: it has ended, and all that it ran is noted
	parts   []ranPart  // of the session's sites

	programs  []*RanProgram
	kept      keptProcess
	takenOver bool // it was watched already
	stays     bool // it is watched when we end, or if we are killed
}

// How often it is looked for what has run: again soon where that is much, then rarely.
const (
	firstWait = 2 * time.Millisecond
	mostWait  = time.Second
	// restFor is how many times as long as they stood still processes run on at least.
	restFor = 500
	// mapsEvery is how often it is looked for new libraries and processes.
	mapsEvery = 100 * time.Millisecond
)

// Of a file with more functions without an answer than that share, and that number, nothing is
// said: the figures would mislead.
const (
	maxUnarmed = 0.05
	fewUnarmed = 10
)

// OpenRan arms the functions of processes, which run on. If no process can be watched that is an error.
func OpenRan(targets []string, o RanOptions) (*Ran, error) {
	r := newRan(o)
	var failed []error
	for _, t := range targets {
		s, err := process.ParseSelector(t)
		if err != nil {
			return nil, err
		}
		r.selectors = append(r.selectors, s)
		pids, err := s.Find()
		if err != nil && !o.Wait {
			return nil, errors.Join(err, r.Close())
		}
		for _, pid := range pids {
			failed = append(failed, r.open(pid))
		}
	}
	err := errors.Join(failed...)
	if len(r.processes) == 0 && !o.Wait {
		if err == nil {
			err = errors.New("there is no process to look at")
		}
		return nil, err
	}
	if err != nil {
		fmt.Fprintf(o.Stderr, "footfall: %v\n", err)
	}
	return r, nil
}

// OpenRanOf is OpenRan for a process that has been started for it.
func OpenRanOf(p *process.Process, o RanOptions) (*Ran, error) {
	r := newRan(o)
	return r, r.arm(p)
}

func newRan(o RanOptions) *Ran {
	return &Ran{options: o, tried: make(map[int]process.Identity), said: make(map[string]bool), wait: firstWait, mapped: time.Now()}
}

// open arms a process, unless that was tried.
func (r *Ran) open(pid int) error {
	id, err := process.Identify(pid)
	if err != nil || r.tried[pid] == id && id != (process.Identity{}) {
		return err
	}
	r.tried[pid] = id
	p, err := process.Open(pid)
	if err != nil {
		return err
	}
	inherits := func(other *ranProcess) bool { return other.session != nil && other.session.Inherits(p) }
	if slices.ContainsFunc(r.processes, inherits) {
		return p.Close()
	}
	if err := r.arm(p); err != nil {
		return errors.Join(err, p.Close())
	}
	return nil
}

// arm arms a process.
func (r *Ran) arm(p *process.Process) error {
	modules, err := target.OpenModules(p)
	if err != nil && len(modules.All()) == 0 {
		return err
	}
	user, err := p.User()
	if err != nil {
		modules.Close()
		return err
	}
	readAs(r.options.Sources, p.PID, user, p.Root())
	t := &ranProcess{p: p, modules: modules, kept: keptOf(p)}
	sites, err := r.sites(t, modules.All())
	if err == nil && sites.Count == 0 {
		err = fmt.Errorf("process %d: it has no function that can be watched: each is too short, or begins with what cannot be moved", p.PID)
	}
	if err == nil {
		t.session, err = patch.OpenRan(p, sites, r.what(), r.options.Keep)
	}
	if err != nil {
		modules.Close()
		return err
	}
	t.release()
	r.processes = append(r.processes, t)
	if t.takenOver = t.session.TakenOver != 0; t.takenOver && !r.options.Keep {
		for _, program := range t.programs {
			if err := r.keep(program); err != nil {
				r.say("%v", err)
			}
		}
	}
	t.stays = slices.ContainsFunc(t.programs, func(p *RanProgram) bool { return p.kept != nil })
	if t.stays {
		r.takeGaps(t)
		if err := r.saveAll(); err != nil {
			r.say("%v", err)
		}
	}
	for _, pid := range t.session.Sharing() {
		if err := r.open(pid); err != nil && !errors.Is(err, process.ErrExited) {
			r.say("%v", err)
		}
	}
	return nil
}

// sites returns those of images that are to be armed. Why the program itself cannot be is an
// error; why libraries cannot be is said.
func (r *Ran) sites(t *ranProcess, images []*target.Image) (sites patch.RanSites, err error) {
	from := len(t.parts)
	for _, i := range images {
		if !r.wanted(i) {
			continue
		}
		program, err := r.program(i)
		switch {
		case err != nil && i.IsProgram():
			t.parts = t.parts[:from]
			return sites, err
		case err != nil:
			r.say("%v", err)
			continue
		}
		if r.options.Keep {
			if err := r.keep(program); err != nil && i.IsProgram() {
				t.parts = t.parts[:from]
				return sites, err
			} else if err != nil {
				r.say("%v; it is not kept", err)
			}
		}
		if !slices.Contains(t.programs, program) {
			t.programs = append(t.programs, program)
		}
		t.add(program, i)
	}
	return sitesOf(t.parts[from:]), nil
}

// systemLibraries are where those of the system are.
var systemLibraries = []string{"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"}

// wanted tells whether an image is armed: the program, libraries of it, and those of the system
// that are named.
func (r *Ran) wanted(i *target.Image) bool {
	if strings.HasPrefix(i.Path, "[") { // of the kernel
		return false
	}
	if i.IsProgram() {
		return true
	}
	return r.options.Sources.Includes(i.Path) || !below(i.Path, systemLibraries)
}

// below tells whether a file is in one of the directories.
func below(path string, directories []string) bool {
	return slices.ContainsFunc(directories, func(dir string) bool { return strings.HasPrefix(path, dir) })
}

// program returns what is known of an image's file, which is looked through once.
func (r *Ran) program(i *target.Image) (*RanProgram, error) {
	key := i.Path + "\x00" + i.File.BuildID() + "\x00" + i.Mapped.File()
	if at := slices.IndexFunc(r.programs, func(p *RanProgram) bool { return p.key == key }); at >= 0 {
		return r.programs[at], nil
	}
	p := &RanProgram{Path: i.Path, key: key, buildID: i.File.BuildID()}
	defer p.giveBack() // when all is released
	defer i.Release()
	unarmed, err := r.functions(p, i)
	if err != nil {
		return nil, err
	}
	if all := len(p.Functions); unarmed > fewUnarmed && float64(unarmed) > maxUnarmed*float64(all) {
		return nil, fmt.Errorf("%s: of %d of its %s it cannot be told whether they ran: that is too many for a figure of the whole", i.Path, unarmed, output.Plural(all, "function"))
	}
	slices.SortFunc(p.blocks, func(a, b *ranBlock) int { return cmp.Compare(a.addr, b.addr) })
	p.noteBlocks()
	p.names.done()
	if r.options.Lines {
		r.addStatements(p, i)
	}
	r.programs = append(r.programs, p)
	return p, nil
}

// functions adds the functions of an image, by ascending address, and the sites of those that are not divided and are armed. It
// returns how many cannot be.
func (r *Ran) functions(p *RanProgram, i *target.Image) (unarmed int, err error) {
	if err := patch.Movable(i); err != nil {
		return 0, err
	}
	divided, err := r.divided(i)
	if err != nil {
		return 0, err
	}
	finder, err := i.EntryFinder()
	if err != nil {
		return 0, err
	}
	all := len(finder.Functions())
	p.Functions = make([]*RanFunction, 0, all)
	lines := newRanSources(p, all < mostSources)
	err = patch.EachMoved(i, func(s *patch.EntrySite, why error) {
		name := s.Function.Name
		switch {
		case !uprobe.IsCalled(name), why != nil && (patch.IsPart(why) || s.Function.Addr == i.File.Entry()):
		case why != nil:
			if fn := p.function(s, reasonOf(why.Error()), lines); !p.divide(s, fn, divided) {
				unarmed++
			}
		default:
			if fn := p.function(s, 0, lines); !p.divide(s, fn, divided) {
				p.noteFunction(fn, s.Window())
			}
		}
	})
	return unarmed, err
}

// manyFunctions is of how many functions memory is given back to the system at once that it took to read or arm them.
const manyFunctions = 10_000

func (p *RanProgram) giveBack() {
	if len(p.Functions) >= manyFunctions {
		debug.FreeOSMemory()
	}
}

// giveBack does it once for all programs.
func (r *Ran) giveBack() {
	if i := slices.IndexFunc(r.programs, func(p *RanProgram) bool { return len(p.Functions) >= manyFunctions }); i >= 0 {
		r.programs[i].giveBack()
	}
}

// mostSources is of how many functions of a file it is looked up where they are in the source.
const mostSources = 50_000

// function adds one.
func (p *RanProgram) function(s *patch.EntrySite, cannot Reason, lines *ranSources) *RanFunction {
	fn := &RanFunction{Addr: s.Function.Addr, program: p, Size: uint32(min(s.Function.Size, math.MaxUint32)), symbol: nameNumber(s.Site.Addr - s.Function.Addr), ranState: ranState{cannot: cannot, never: cannot}}
	if s.Function.Name != "" {
		fn.symbol = p.names.add(s.Function.Name)
	}
	fn.source, fn.Line = lines.of(s)
	p.Functions = append(p.Functions, fn)
	return fn
}

// say says something once.
func (r *Ran) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !r.said[text] {
		r.said[text] = true
		fmt.Fprintf(r.options.Stderr, "footfall: %s\n", text)
	}
}

// Programs are what the processes consist of, with what has run as of the last Look.
func (r *Ran) Programs() []*RanProgram { return r.programs }

// Stay are the processes that stay watched after Close.
func (r *Ran) Stay() []int { return r.stay }

// Names are those of the processes, with their pids.
func (r *Ran) Names() string {
	var names []string
	for _, t := range r.processes {
		names = append(names, fmt.Sprintf("%s (%d)", output.Printable(t.p.Name), t.p.PID))
	}
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:2], ", "), len(names)-2)
	}
	return strings.Join(names, ", ")
}

// Look finds out what has run since the last time, and arms what has come since: libraries, and
// processes of a selector. next is how long to wait until it is called again; ErrExited, that
// no process is left. New are the functions of which it was not known that they ran.
func (r *Ran) Look() (found []*RanFunction, next time.Duration, err error) {
	if r.follower != nil {
		return r.lookFollowing()
	}
	return r.lookAtAll()
}

func (r *Ran) lookAtAll() (found []*RanFunction, next time.Duration, err error) {
	maps := time.Since(r.mapped) >= mapsEvery
	if maps {
		r.mapped = time.Now()
	}
	stood := time.Duration(0)
	alive := false
	var replaced []*ranProcess
	for _, t := range r.processes {
		if t.session == nil {
			continue
		}
		before := t.session.Stood
		ran, err := t.session.Look()
		found = append(found, t.note(ran)...)
		if err == nil && maps {
			err = r.addLibraries(t)
		}
		if err != nil {
			r.say("%v", err)
		}
		stood = max(stood, t.session.Stood-before)
		switch err := t.p.Check(); {
		case err == nil:
			alive = true
			continue
		case errors.Is(err, process.ErrReplaced) && r.follower == nil:
			replaced = append(replaced, t)
		}
		last, _ := r.end(t)
		found = append(found, last...)
	}
	for _, t := range replaced {
		before := len(r.processes)
		if err := r.open(t.p.PID); err != nil && !errors.Is(err, process.ErrExited) {
			r.say("%v", err)
		}
		r.say("process %d (%s) has become another program (exec): what that has run until now is not seen", t.p.PID, output.Printable(t.p.Name))
		alive = alive || len(r.processes) > before
	}
	if maps {
		alive = r.follow() || alive
	}
	if !alive {
		return found, 0, process.ErrExited
	}
	r.news = r.news || len(found) > 0
	r.saveSometimes()
	r.wait = min(2*r.wait, mostWait)
	if len(found) > 0 && r.wait > 64*firstWait {
		r.wait /= 4
	}
	return found, max(r.wait, restFor*stood), nil
}

// note notes that functions ran, and returns those that are new.
func (t *ranProcess) note(ran []int) (found []*RanFunction) {
	for _, n := range ran {
		p := t.place(n)
		p.state.Ran = true
		if fn := p.fn; !fn.noted {
			fn.noted, fn.Ran = true, true
			found = append(found, fn)
		}
	}
	return found
}

// addLibraries arms libraries that a process has loaded.
func (r *Ran) addLibraries(t *ranProcess) error {
	fresh, _, err := t.modules.Look()
	if err != nil || len(fresh) == 0 {
		return nil // it is told by Look, if the process has ended
	}
	sites, err := r.sites(t, fresh)
	if err == nil && sites.Count > 0 {
		err = t.session.Add(sites)
		t.release()
	}
	return err
}

// follow arms processes that have come since, and tells whether there are any.
func (r *Ran) follow() (any bool) {
	for _, s := range r.selectors {
		if !s.Follows() {
			continue
		}
		pids, err := s.Find()
		if err != nil {
			continue
		}
		for _, pid := range pids {
			before := len(r.processes)
			if err := r.open(pid); err != nil && !errors.Is(err, process.ErrExited) {
				r.say("%v", err)
			}
			any = any || len(r.processes) > before
		}
	}
	return any
}

// end lets go of a process.
func (r *Ran) end(t *ranProcess) (found []*RanFunction, err error) {
	if t.session == nil {
		return nil, nil
	}
	close := t.session.Close
	if t.stays = t.stays && r.options.Keep && t.p.Check() == nil; t.stays {
		close = t.session.Leave
		for site, place := range t.places() {
			if !t.session.Armed(site) {
				place.state.cannot = cmp.Or(place.state.cannot, couldNot)
			}
		}
	}
	ran, err := close()
	if r.options.Verbose {
		s := t.session
		fmt.Fprintf(r.options.Notes, "footfall: process %d: it stood still %d times, %v together, %v at most\n", t.p.PID, s.Stops, s.Stood.Round(time.Microsecond), s.Longest.Round(time.Microsecond))
	}
	if err != nil {
		err = fmt.Errorf("%w; footfall trace --repair %d puts its code back", err, t.p.PID)
	}
	found = t.note(ran)
	for site, place := range t.places() {
		switch state := place.state; {
		case state.Ran:
		case t.session.Skipped[site] != "":
			state.cannot = reasonOf(t.session.Skipped[site])
		case t.session.MayHaveBegun(site):
			state.cannot = cmp.Or(state.cannot, mayHaveBegun)
		}
	}
	t.session, t.parts = nil, nil
	t.modules.Close()
	return found, err
}

// Reasons why it is not known of a function whether it ran: one that was not called, and those that could not be armed.
var (
	mayHaveBegun = reasonOf("it may have been running already when footfall began")
	notYet       = reasonOf("it could not be watched yet")
	couldNot     = reasonOf("it could not be watched")
)

// Settle makes out of which functions it is not known whether they ran.
func (r *Ran) Settle() {
	for state := range r.states() {
		state.Unknown = 0
	}
	for _, t := range r.processes {
		if t.session == nil {
			continue
		}
		for site, place := range t.places() {
			switch state := place.state; {
			case state.Ran, state.cannot != 0:
			case t.session.Skipped[site] != "":
				state.Unknown = reasonOf(t.session.Skipped[site])
			case !t.session.Armed(site):
				state.Unknown = notYet
			case t.session.MayHaveBegun(site):
				state.Unknown = mayHaveBegun
			}
		}
	}
	for state := range r.states() {
		if state.cannot != 0 {
			state.Unknown = state.cannot
		}
		if state.Ran {
			state.Unknown = 0
		}
	}
	for _, p := range r.programs {
		p.settleBlocks()
	}
}

// states yields those of all functions and blocks.
func (r *Ran) states() iter.Seq[*ranState] {
	return func(yield func(*ranState) bool) {
		for _, p := range r.programs {
			for _, fn := range p.Functions {
				if !yield(&fn.ranState) {
					return
				}
			}
			for _, b := range p.blocks {
				if !yield(&b.ranState) {
					return
				}
			}
		}
	}
}

// Close puts everything back, unless it is to stay. What has run up to then is noted.
func (r *Ran) Close() error {
	var failed []error
	for _, t := range r.processes {
		_, err := r.end(t)
		failed = append(failed, err)
	}
	r.Settle()
	if r.keeping() {
		failed = append(failed, r.saveAll())
	}
	for _, t := range r.processes {
		if t.stays {
			r.stay = append(r.stay, t.p.PID)
		}
		t.close()
	}
	r.processes = nil
	return errors.Join(failed...)
}

func (t *ranProcess) close() {
	if t.session != nil {
		t.modules.Close()
	}
	_ = t.p.Close()
}

// release lets go of what has been read of the files of a process to arm it.
func (t *ranProcess) release() {
	for _, i := range t.modules.All() {
		i.Release()
	}
	for _, p := range t.programs {
		p.giveBack()
	}
}

// ShortName is that of the file, without its directory.
func (p *RanProgram) ShortName() string { return filepath.Base(p.Path) }
