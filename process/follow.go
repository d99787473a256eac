//go:build linux

package process

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Follower traces (ptrace) a process and all that it starts, and keeps each
// program that one of them becomes by exec where the program's own code begins,
// after the dynamic linker and the constructors of libraries, until it is let go
// by Release. Threads stop for some microseconds when they start threads and
// processes, and when signals are delivered to them.
//
// To be stopped there, the program is given another address of its beginning, in
// the vector that the kernel leaves on its stack for the dynamic linker: that of
// entryCode. In a static program a jump leads there, from where libc has made itself
// ready. If footfall is killed, that code goes on at the right place.
//
// While a process is followed, its [Process.WhileHeld] is done by the Follower's own
// thread: the kernel takes orders from the tracing thread only.
type Follower struct {
	tracing
	main  int
	child bool // main is our own

	// What follows is of the goroutine that traces.
	threads   map[int]*followed
	processes map[int]*followedProcess
	ended     bool // main has, and is our child

	mu     sync.Mutex
	events []FollowEvent
}

// A FollowKind is what has happened to a process that is followed.
type FollowKind uint8

// Kinds. Began comes after Replaced or, for a program that was started for the
// Follower, first.
const (
	Forked   FollowKind = iota // it was made by Parent, and runs the same program
	Replaced                   // it has become another program
	Began                      // its own code is about to begin
	Ended
)

// A FollowEvent tells what has happened.
type FollowEvent struct {
	Kind   FollowKind
	PID    int
	Parent int
	// Process is, of Began, the process, which waits for Release, and is the
	// receiver's to close; nil if Err tells why that cannot be: then it runs.
	Process *Process
	Err     error
	Name    string // of Began: what the kernel calls the program
	// Unprivileged tells, of Began, that the program runs without the rights that
	// its file gives (set-user-id): the kernel gives them only if root follows.
	Unprivileged bool
}

// A followed is a thread.
type followed struct {
	tid     int
	process *followedProcess
	stopped bool
	signal  int  // to be delivered when it runs on
	group   bool // it has been stopped by a signal, and stays so
	vfork   bool // it waits in the kernel for its child
	zombie  bool // it has ended before the others
}

// A followedProcess is a process, and where the program in it is.
type followedProcess struct {
	pid     int
	open    *Process // what was given away with Began; before, our own
	phase   followPhase
	parked  bool // its first thread waits for Release
	holding bool // threads are to stop and stay so

	code uint64 // entryCode
	slot uint64 // what leads there, and what was there before
	old  []byte
}

type followPhase uint8

const (
	running  followPhase = iota
	replaced             // by exec, and to stop once more, where system calls can be made
	planted              // it will come to entryCode
)

const followOptions = unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACEVFORKDONE | unix.PTRACE_O_TRACEEXEC

// followSignal is that of entryCode.
const followSignal = unix.SIGURG

// Follow follows a process that runs. Programs that its children have become
// before are not seen.
func Follow(p *Process) (*Follower, error) {
	f := newFollower(p.PID)
	b, err := p.read("status")
	if err != nil {
		return nil, err
	}
	f.child = statusField(b, "PPid") == os.Getpid()
	err = f.begin(func() error {
		f.processes[p.PID] = &followedProcess{pid: p.PID, open: p}
		return f.seize(p)
	})
	if err == nil {
		p.follower.Store(f)
	}
	return f, err
}

// FollowCommand starts a program and follows it. Its end is to be waited for with
// cmd.Wait, but not before Close.
func FollowCommand(cmd *exec.Cmd) (*Follower, error) {
	f := newFollower(0)
	f.child = true
	return f, f.begin(func() error {
		if err := startSeized(cmd, followOptions); err != nil {
			return err
		}
		f.main = cmd.Process.Pid
		proc := &followedProcess{pid: f.main}
		f.processes[f.main] = proc
		t := &followed{tid: f.main, process: proc}
		f.threads[f.main] = t
		f.replaced(t)
		return nil
	})
}

func newFollower(main int) *Follower {
	return &Follower{main: main, tracing: newTracing(), threads: make(map[int]*followed), processes: make(map[int]*followedProcess)}
}

// begin starts the goroutine that traces.
func (f *Follower) begin(first func() error) error {
	if entryCode(nil, 0) == nil {
		return fmt.Errorf("follow programs: only on x86-64 and arm64: %w", errors.ErrUnsupported)
	}
	return onTracer(f.done, func() error {
		err := first()
		if err != nil {
			f.letGo() // what it has got hold of
		}
		return err
	}, func(stops <-chan os.Signal) {
		f.loop(stops, f.collect)
		f.letGo()
	})
}

// Events returns what has happened since the last time.
func (f *Follower) Events() []FollowEvent {
	f.mu.Lock()
	defer f.mu.Unlock()
	events := f.events
	f.events = nil
	return events
}

func (f *Follower) emit(e FollowEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, e)
}

// Main is the id of the process that was followed first.
func (f *Follower) Main() int { return f.main }

// Release lets a program run that has begun.
func (f *Follower) Release(p *Process) {
	f.do(func() {
		proc := f.processes[p.PID]
		if proc == nil || proc.open != p {
			return
		}
		proc.parked = false
		if t := f.threads[p.PID]; t != nil && t.stopped {
			f.goOn(t)
		}
	})
}

// Close lets all processes go; they run on.
func (f *Follower) Close() {
	f.do(func() { f.closing = true })
	<-f.done
}

// seize takes hold of the threads of a process, which run on. Those that they make
// meanwhile are held by the kernel.
func (f *Follower) seize(p *Process) error {
	s := stopper{p: p}
	for fresh := true; fresh; {
		fresh = false
		threads, err := p.Threads()
		if err != nil {
			return err
		}
		for _, thread := range threads {
			if f.threads[thread.ID] != nil || isWorker(thread.ID) {
				continue
			}
			err := ptrace(unix.PTRACE_SEIZE, thread.ID, 0, followOptions)
			switch tracer := s.tracer(thread.ID); {
			case errors.Is(err, unix.ESRCH), errors.Is(err, unix.EPERM) && (tracer == os.Getpid() || tracer == unix.Gettid() || s.ended(thread.ID)):
				continue
			case errors.Is(err, unix.EPERM) && tracer != 0:
				return fmt.Errorf("process %d: process %d traces it already (a debugger, strace): only one can", p.PID, tracer)
			case err != nil:
				return p.failed("follow", errors.Unwrap(err))
			}
			f.threads[thread.ID] = &followed{tid: thread.ID, process: f.processes[p.PID]}
			fresh = true
		}
	}
	return nil
}

// collect handles a stop, if there is one.
func (f *Follower) collect() bool {
	if f.ended {
		return false
	}
	tid, exited := peek(unix.P_ALL, 0, unix.WNOHANG)
	if tid == 0 {
		return false
	}
	if exited && tid == f.main && f.child {
		f.ended = true // its status is for cmd.Wait
		if t := f.threads[tid]; t != nil {
			f.remove(t)
		}
		return false
	}
	var status unix.WaitStatus
	if got, err := unix.Wait4(tid, &status, unix.WALL|unix.WNOHANG, nil); err != nil || got != tid {
		return true
	}
	t := f.threads[tid]
	if !status.Stopped() {
		if t != nil {
			f.remove(t)
		}
		return true
	}
	if t == nil {
		if t = f.newborn(tid, 0); t == nil {
			return true
		}
	}
	f.stopped(t, status)
	return true
}

// newborn notes a thread that is new, and its process. parent is that of the thread
// that has made it, 0: not known.
func (f *Follower) newborn(tid, parent int) *followed {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return nil
	}
	pid := statusField(b, "Tgid")
	proc := f.processes[pid]
	if proc == nil {
		proc = &followedProcess{pid: pid}
		f.processes[pid] = proc
		f.emit(FollowEvent{Kind: Forked, PID: pid, Parent: cmp.Or(parent, statusField(b, "PPid"))})
	}
	t := &followed{tid: tid, process: proc}
	f.threads[tid] = t
	return t
}

// remove forgets a thread, and its process with the last one.
func (f *Follower) remove(t *followed) {
	delete(f.threads, t.tid)
	for _, other := range f.threads {
		if other.process == t.process {
			return
		}
	}
	f.forget(t.process)
	delete(f.processes, t.process.pid)
	f.emit(FollowEvent{Kind: Ended, PID: t.process.pid})
}

// forget closes what has not been given away.
func (f *Follower) forget(proc *followedProcess) {
	if proc.phase != running && proc.open != nil {
		proc.open.Close()
	}
	proc.open, proc.parked, proc.phase = nil, false, running
}

// stopped handles the stop of a thread.
func (f *Follower) stopped(t *followed, status unix.WaitStatus) {
	event, sig := int(status)>>16, status.StopSignal()
	p := t.process
	switch event {
	case 0:
		if p.phase == planted && sig == followSignal && f.arrived(t) {
			return
		}
		t.signal = int(sig)
	case unix.PTRACE_EVENT_STOP:
		t.group = sig != unix.SIGTRAP
		if !t.group && p.phase == replaced && t.tid == p.pid && !f.plant(t) {
			return
		}
	case unix.PTRACE_EVENT_EXEC:
		f.replaced(t)
		return
	default:
		t.vfork = event == unix.PTRACE_EVENT_VFORK
		if event != unix.PTRACE_EVENT_VFORK_DONE {
			if child, err := unix.PtraceGetEventMsg(t.tid); err == nil && f.threads[int(child)] == nil {
				f.newborn(int(child), p.pid)
			}
		}
		if p.holding {
			_ = unix.PtraceInterrupt(t.tid) // where it is it cannot be made to do anything
		}
		f.goOn(t)
		return
	}
	restartInterrupted(t.tid)
	t.stopped = true
	if !p.holding && (!p.parked || t.tid != p.pid) {
		f.goOn(t)
	}
}

// goOn lets a stopped thread run on.
func (f *Follower) goOn(t *followed) {
	request, sig := unix.PTRACE_CONT, uintptr(t.signal)
	if t.group {
		request, sig = unix.PTRACE_LISTEN, 0
	}
	t.stopped, t.signal, t.group = false, 0, false
	_ = ptrace(request, t.tid, 0, sig)
}

// replaced notes that a process has become another program: its other threads
// have ended, and the one that is left has its id.
func (f *Follower) replaced(t *followed) {
	p := t.process
	for tid, other := range f.threads {
		if other != t && other.process == p {
			delete(f.threads, tid)
		}
	}
	f.forget(p)
	p.phase, p.holding = replaced, false
	*t = followed{tid: t.tid, process: p}
	f.emit(FollowEvent{Kind: Replaced, PID: p.pid})
	_ = unix.PtraceInterrupt(t.tid)
	f.goOn(t)
}

// plant makes a program that has not run yet come to entryCode; false: it has ended.
func (f *Follower) plant(t *followed) bool {
	p := t.process
	p.phase = running
	open, err := Open(p.pid)
	if err == nil {
		p.open, p.phase = open, planted
		err = f.tryPlant(t)
	}
	if errors.Is(err, ErrExited) {
		f.remove(t)
		return false
	}
	if err != nil {
		f.forget(p)
		f.emit(FollowEvent{Kind: Began, PID: p.pid, Err: err, Name: commOf(p.pid)})
	}
	return true
}

func (f *Follower) tryPlant(t *followed) error {
	p := t.process
	if _, compat, err := sampleRegisters(t.tid); err != nil || compat {
		return cmp.Or(err, fmt.Errorf("process %d: a 32-bit program: %w", p.pid, errors.ErrUnsupported))
	}
	if p.open.MoreFiltered() {
		return fmt.Errorf("process %d: a filter of system calls (seccomp) might kill it: %w", p.pid, errors.ErrUnsupported)
	}
	entry, static, err := p.open.auxiliaryEntry()
	if err != nil {
		return err
	}
	h := f.heldBy(t)
	hint := uint64(0)
	if static {
		if entry = p.open.initCode(entry); entry == 0 {
			return fmt.Errorf("process %d: a static program without .init: %w", p.pid, errors.ErrUnsupported)
		}
		if hint, err = p.open.nearEntry(entry); err != nil {
			return err
		}
	}
	p.code, err = h.SystemCall(unix.SYS_MMAP, hint, uint64(os.Getpagesize()), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, math.MaxUint64, 0)
	if err != nil {
		return err
	}
	if static {
		return p.plantJump(entry)
	}
	sp, err := h.StackPointer(t.tid)
	if err != nil {
		return err
	}
	if p.slot, err = p.open.entrySlot(sp, entry); err != nil {
		return err
	}
	p.old = binary.LittleEndian.AppendUint64(nil, entry)
	if _, err := p.open.WriteAt(entryCode(nil, entry), int64(p.code)); err != nil {
		return err
	}
	_, err = p.open.WriteAt(binary.LittleEndian.AppendUint64(nil, p.code), int64(p.slot))
	return err
}

// plantJump is for a static program, which libc makes ready before it calls init.
func (p *followedProcess) plantJump(init uint64) error {
	p.slot, p.old = init, make([]byte, 15)
	if _, err := p.open.ReadAt(p.old, int64(init)); err != nil {
		return err
	}
	jump, displaced := entryJump(p.old, init, p.code)
	if jump == nil {
		return fmt.Errorf("process %d: a static program that begins in an unknown way: %w", p.pid, errors.ErrUnsupported)
	}
	p.old = p.old[:len(jump)]
	if _, err := p.open.WriteAt(entryCode(displaced, init+uint64(len(jump))), int64(p.code)); err != nil {
		return err
	}
	_, err := p.open.WriteAt(jump, int64(init))
	return err
}

// nearEntry returns where memory for entryCode is asked for.
func (p *Process) nearEntry(entry uint64) (uint64, error) {
	maps, _, err := p.Maps()
	if err != nil {
		return 0, err
	}
	begin := entry
	if code := maps.At(entry); code != nil {
		for _, m := range maps {
			if m.Path == code.Path {
				begin = min(begin, m.Start)
			}
		}
	}
	return nearEntry(begin, entry), nil
}

// heldBy is a process of which this thread only may be used.
func (f *Follower) heldBy(t *followed) *Held {
	p := t.process.open
	return &Held{p: p, s: &stopper{p: p, threads: map[int]*stopped{t.tid: {stopped: true}}, options: followOptions, follower: f}}
}

// arrived parks a thread that has stopped in entryCode.
func (f *Follower) arrived(t *followed) bool {
	p := t.process
	pc, err := f.heldBy(t).PC(t.tid)
	if err != nil || pc <= p.code || pc >= p.code+uint64(os.Getpagesize()) {
		return false
	}
	_, _ = p.open.WriteAt(p.old, int64(p.slot))
	f.park(t)
	t.stopped = true
	return true
}

func (f *Follower) park(t *followed) {
	p := t.process
	p.phase, p.parked = running, true
	p.open.follower.Store(f)
	f.emit(FollowEvent{Kind: Began, PID: p.pid, Process: p.open, Name: p.open.Name, Unprivileged: p.open.unprivileged()})
}

// unprivileged tells whether the program has not got the user that its file is to
// run as.
func (p *Process) unprivileged() bool {
	var file, process unix.Stat_t
	return os.Geteuid() != 0 && unix.Fstatat(int(p.dir.Fd()), "exe", &file, 0) == nil && unix.Fstat(int(p.dir.Fd()), &process) == nil &&
		file.Mode&unix.S_ISUID != 0 && file.Uid != process.Uid
}

// entrySlot returns where the address of the program's beginning lies for the
// dynamic linker. At sp, when the program has not run yet, are
//
//	number of arguments; arguments; 0; environment; 0; pairs of key and value; 0
func (p *Process) entrySlot(sp, entry uint64) (uint64, error) {
	maps, _, err := p.Maps()
	if err != nil {
		return 0, err
	}
	unknown := fmt.Errorf("process %d: its stack has an unknown form", p.PID)
	m := maps.At(sp)
	if m == nil {
		return 0, unknown
	}
	b := make([]byte, min(m.End-sp, 16<<20)&^7)
	if _, err := p.ReadAt(b, int64(sp)); err != nil {
		return 0, err
	}
	at := findEntry(b, entry)
	if at < 0 {
		return 0, unknown
	}
	return sp + uint64(at), nil
}

// findEntry returns where in a copy of the stack it is, -1 if it is not.
func findEntry(stack []byte, entry uint64) int {
	word := func(i uint64) (uint64, bool) {
		if i >= uint64(len(stack)/8) {
			return 0, false
		}
		return binary.LittleEndian.Uint64(stack[8*i:]), true
	}
	count, ok := word(0)
	if !ok || count >= uint64(len(stack)/8) {
		return -1
	}
	i := count + 2
	for v := uint64(1); v != 0; i++ { // the environment
		if v, ok = word(i); !ok {
			return -1
		}
	}
	for ; ; i += 2 {
		key, _ := word(i)
		value, ok := word(i + 1)
		if !ok || key == 0 {
			return -1
		}
		if key == atEntry && value == entry {
			return int(8 * (i + 1))
		}
	}
}

// commOf is what the kernel calls a process, which everybody may know.
func commOf(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSuffix(string(b), "\n")
}

// whileHeld is [Process.WhileHeld] of a process that is followed; ran is false if
// it is not any more.
func (f *Follower) whileHeld(p *Process, do func(*Held) error) (ran bool, err error) {
	ran = f.do(func() { err = f.hold(p, do) })
	return ran, err
}

func (f *Follower) hold(p *Process, do func(*Held) error) error {
	proc := f.processes[p.PID]
	if proc == nil || proc.open != p {
		return cmp.Or(p.Check(), ErrExited)
	}
	family := []*followedProcess{proc}
	for pid, other := range f.processes {
		if other != proc && SharesMemory(p.LivingThread(), pid) {
			family = append(family, other)
		}
	}
	for _, member := range family {
		member.holding = true
	}
	defer runFirst()()
	defer urgently()()
	err := f.waitHeld(family, p)
	s := &stopper{p: p, threads: make(map[int]*stopped), waiting: make(map[int]bool), options: followOptions, follower: f}
	for tid, t := range f.threads {
		switch {
		case !slices.Contains(family, t.process):
		case t.stopped:
			s.threads[tid] = &stopped{stopped: true, signal: t.signal, relative: t.process != proc}
		case t.vfork:
			s.waiting[tid] = true
		}
	}
	if err == nil {
		h := &Held{p: p, s: s, since: time.Now()}
		err = do(h)
		h.close()
	}
	for _, member := range family {
		member.holding = false
	}
	for tid, t := range f.threads {
		if slices.Contains(family, t.process) && t.stopped && s.threads[tid] == nil {
			f.remove(t) // it has ended meanwhile
		}
	}
	return cmp.Or(err, s.resume())
}

// waitHeld waits until all threads of processes that run in one memory have stopped.
func (f *Follower) waitHeld(family []*followedProcess, p *Process) error {
	s := stopper{p: p}
	for _, t := range f.threads {
		if slices.Contains(family, t.process) && !t.stopped {
			_ = unix.PtraceInterrupt(t.tid)
		}
	}
	before, deadline := 0, time.Now()
	for pause := firstPause; ; pause = min(2*pause, time.Millisecond) {
		for f.collect() {
		}
		if f.processes[p.PID] != family[0] || family[0].open != p {
			return cmp.Or(p.Check(), ErrExited)
		}
		missing, all, example := 0, 0, 0
		for tid, t := range f.threads {
			if !slices.Contains(family, t.process) {
				continue
			}
			all++
			if t.stopped || t.vfork || t.zombie {
				continue
			}
			if t.zombie = pause > 500*time.Microsecond && s.ended(tid); !t.zombie {
				missing++
				example = tid
			}
		}
		switch {
		case missing == 0:
			return nil
		case missing != before:
			before, deadline = missing, time.Now().Add(holdPatience)
		case time.Now().After(deadline):
			return &stuckError{p.PID, missing, all, example, 0}
		}
		sleep(pause)
	}
}

// resumeHeld lets threads run on that were held, but for one that waits for Release.
func (f *Follower) resumeHeld(s *stopper) {
	for tid, held := range s.threads {
		t := f.threads[tid]
		if t != nil {
			t.signal = held.signal
			if f.parks(tid) {
				continue
			}
			f.goOn(t)
		}
		delete(s.threads, tid)
	}
}

// parks tells whether a thread waits for Release, before the program's own code.
func (f *Follower) parks(tid int) bool {
	t := f.threads[tid]
	return t != nil && t.process.parked && tid == t.process.pid
}

// letGo ends tracing. Threads can be let go only where they have stopped.
func (f *Follower) letGo() {
	for _, t := range f.threads {
		if !t.stopped {
			_ = unix.PtraceInterrupt(t.tid)
		}
	}
	for end := time.Now().Add(stopPatience); len(f.threads) > 0 && time.Now().Before(end); time.Sleep(20 * time.Microsecond) {
		for tid, t := range f.threads {
			if t.stopped {
				f.detach(t)
				continue
			}
			id, exited := peek(unix.P_PID, tid, unix.WNOHANG)
			if exited && tid == f.main && f.child {
				delete(f.threads, tid)
				continue
			}
			if id != tid {
				continue
			}
			var status unix.WaitStatus
			if got, err := unix.Wait4(tid, &status, unix.WALL|unix.WNOHANG, nil); err != nil || got != tid {
				continue
			}
			if !status.Stopped() {
				delete(f.threads, tid)
				continue
			}
			event := int(status) >> 16
			if event == unix.PTRACE_EVENT_FORK || event == unix.PTRACE_EVENT_VFORK || event == unix.PTRACE_EVENT_CLONE {
				if child, err := unix.PtraceGetEventMsg(tid); err == nil && f.threads[int(child)] == nil {
					f.newborn(int(child), t.process.pid)
				}
			}
			if event == 0 {
				t.signal = int(status.StopSignal())
			}
			if event == 0 || event == unix.PTRACE_EVENT_STOP {
				restartInterrupted(tid)
			}
			f.detach(t)
		}
	}
	for _, proc := range f.processes {
		f.forget(proc)
	}
}

func (f *Follower) detach(t *followed) {
	_ = ptrace(unix.PTRACE_DETACH, t.tid, 0, uintptr(t.signal))
	delete(f.threads, t.tid)
}
