//go:build linux

package process

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An Attendant is there when processes are forked, become other programs and end: it traces
// (ptrace) those that it is given and what they start. They run at full speed between
// these events; what is done for one, the process stands still for. Signals and stops are passed on as they
// come, and if footfall ends in whatever way the kernel lets all of them go and they run on.
//
// A process can be traced by one only: those of a debugger are refused.
type Attendant struct {
	tracing
	events Lifetimes

	// What follows is of the thread that traces.
	threads   map[int]*attendedProcess // by thread
	processes map[int]*attendedProcess
	ending    map[int]*attendedProcess // by the last thread, while it stands still
	newborn   map[int]newborn          // stopped in front of the first instruction, by whom and how it was made is not known so far
	made      map[int]birth            // the other way round
	early     map[int]bool             // threads that run and may have ended before their maker tells of them
	tid       int
	ticks     ticks     // while much happens
	calm      bool      // Go's monitor needs no ticks
	lately    time.Time // something happened last
	adopted   time.Time // adopt was called last, or there was nothing for it

	before     map[int]*unix.SchedAttr // of our threads, whose priority is raised
	raisedAt   time.Time
	processors int // that Go used before
}

// Lifetimes is told what happens to processes, by the thread that traces. The process stands still
// until goOn is called, once, by any goroutine: the one that traces lets it go at once. Of one
// process nothing more is told before; all others wait until the method returns.
type Lifetimes interface {
	// Forked: the process has been made by parent, and has run no instruction so far. Its
	// memory is a copy of parent's. One that runs in parent's memory (vfork) is not
	// told of before it has become another program. byLibrary tells that it was made as the C library's
	// fork does it, not by a system call of the program's own. With watch Execs is told, if it calls exec soon.
	Forked(pid, parent int, byLibrary bool, goOn func(watch bool))
	// Execs: the process is about to become another program by exec, unless that fails.
	Execs(pid int, goOn func())
	// Replaced: the process has become another program by exec, of which Execs has told or not; not kept it is not
	// attended any more.
	Replaced(pid int, told bool, goOn func(keep bool))
	// Ending: the process runs no more, by whatever reason, and its memory is still there.
	Ending(pid int, goOn func())
	// Vanished: the process has ended, and there was no moment to look at it.
	Vanished(pid int)
}

// An attendedProcess is a process and how many of its threads run.
type attendedProcess struct {
	pid      int
	threads  int
	shares   bool // the memory of another one
	children bool // are attended, too

	calls int  // system calls that are still stopped at, in front of them and after them
	execs bool // one is exec, and in front of it

	held  bool     // stands still, until goOn is called
	later []func() // what has happened to it meanwhile
}

// A birth is how a process was made.
type birth struct {
	parent    *attendedProcess
	shares    bool
	byLibrary bool
}

// A newborn is a process, or thread, that has stopped at its beginning.
type newborn struct {
	since time.Time
	sig   unix.Signal
}

const (
	attendOptions = unix.PTRACE_O_TRACEEXIT | unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACESYSGOOD
	attendForks   = unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK

	systemCall = unix.SIGTRAP | 0x80 // the stop at one, by PTRACE_O_TRACESYSGOOD
)

// callsToExec is among how many stops at system calls of a child exec is noticed before it has happened: a shell makes some ten
// calls in between. The kernel stops in front of exec only if it stops at every call, which is too slow for the whole life of a
// process.
const callsToExec = 2 * 64

// orphaned is after how long a process that was made is taken without its maker's word: that
// has been killed in between.
// Where that lives it may just not have got a processor yet: then it is after slowMaker.
const (
	orphaned  = 20 * time.Millisecond
	slowMaker = 10 * time.Second
)

// busyFor is for how long after an event others are expected soon.
const busyFor = 100 * time.Millisecond

// NewAttendant returns one that attends nobody so far.
func NewAttendant(events Lifetimes) *Attendant {
	a := &Attendant{
		events: events, tracing: newTracing(),
		threads: make(map[int]*attendedProcess), processes: make(map[int]*attendedProcess),
		ending: make(map[int]*attendedProcess), newborn: make(map[int]newborn), made: make(map[int]birth), early: make(map[int]bool),
	}
	unfit := func() bool { return isFirstThread() || hasChildren() } // it waits for whatever ends
	go onThread(unfit, func() (ends bool) {
		defer close(a.done)
		defer a.lower()
		a.tid = unix.Gettid()
		a.ticks = newTicks(a.tid)
		defer a.ticks.close()
		if slowed, calm := calmMonitor(); calm {
			a.calm = true
			defer slowed()
		}
		a.wait(a.collect)
		return true // the kernel lets go of all, wherever they have stopped
	})
	return a
}

// Attend takes hold of a process, which runs on: with children of what it makes, too.
// Then, while it still cannot end unnoticed, taken is called, unless it is nil or the process is attended
// already: of those that are made by others Lifetimes are told, which may not have been dealt with so far.
func (a *Attendant) Attend(pid int, children bool, taken func()) (err error) {
	if !a.do(func() {
		if a.processes[pid] != nil {
			return
		}
		if err = a.seize(pid, children); err == nil && taken != nil && a.processes[pid] != nil && !a.processes[pid].shares {
			taken()
		}
	}) {
		return ErrExited
	}
	return err
}

// Close lets all processes go; they run on.
func (a *Attendant) Close() {
	a.do(func() { a.closing = true })
	<-a.done
}

// raise has all our threads run before others, where it may, as long as processes stand still until
// one of them is there: on a busy machine they would wait for that the longest. It is
// all threads since the kernel tells any of them of a stop, and Go moves goroutines between them.
func (a *Attendant) raise(now time.Time) {
	if now.Sub(a.raisedAt) < time.Second {
		return
	}
	if a.before == nil {
		a.before = make(map[int]*unix.SchedAttr)
		a.processors = runtime.GOMAXPROCS(0)
		runtime.GOMAXPROCS(a.processors + 1) // one is not to wait for those who make reports
	}
	a.raisedAt = now
	first := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL, Nice: -20, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
	own := ownThreads()
	maps.DeleteFunc(a.before, func(tid int, _ *unix.SchedAttr) bool { return !slices.Contains(own, tid) })
	for _, tid := range own {
		if a.before[tid] != nil {
			continue
		}
		before, err := unix.SchedGetAttr(tid, 0)
		if err == nil && before.Policy == unix.SCHED_NORMAL && unix.SchedSetAttr(tid, &first, 0) == nil {
			a.before[tid] = before
		}
	}
}

// lower takes raise back.
func (a *Attendant) lower() {
	for _, tid := range ownThreads() { // numbers of threads that have ended are others' now
		if before := a.before[tid]; before != nil {
			_ = unix.SchedSetAttr(tid, before, 0)
		}
	}
	if a.processors > 0 {
		runtime.GOMAXPROCS(a.processors)
	}
}

// seize takes hold of the threads of a process. Those that they make meanwhile are held by
// the kernel.
func (a *Attendant) seize(pid int, children bool) error {
	if a.processes[pid] != nil {
		return nil
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return ErrExited
	}
	if statusField(b, "PPid") == os.Getpid() {
		return fmt.Errorf("process %d: its end is for footfall, which has started it: %w", pid, errors.ErrUnsupported)
	}
	p := &attendedProcess{pid: pid, children: children}
	options := attendOptions
	if children {
		options |= attendForks
	}
	for fresh := true; fresh; {
		fresh = false
		names, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
		if err != nil {
			break
		}
		for _, name := range names {
			tid, _ := strconv.Atoi(name.Name())
			if tid == 0 || a.threads[tid] != nil || isWorker(tid) {
				continue
			}
			switch err := ptrace(unix.PTRACE_SEIZE, tid, 0, uintptr(options)); {
			case err == nil:
				a.add(p, tid)
				fresh = true
			case p.threads > 0 || errors.Is(err, unix.ESRCH) || (&stopper{}).ended(tid): // it ends or has ended, or is new and held already
			case isOurs((&stopper{}).tracer(tid)): // it has just been made by one that is attended
				return nil
			default:
				return refused(pid, tid, err)
			}
		}
	}
	if p.threads == 0 {
		return ErrExited
	}
	for _, other := range a.processes { // it may have been made so before it was seen
		p.shares = p.shares || other != p && SharesMemory(other.pid, pid)
	}
	return nil
}

// refused says why a thread cannot be traced.
func refused(pid, tid int, err error) error {
	s := stopper{}
	if tracer := s.tracer(tid); tracer != 0 {
		return fmt.Errorf("process %d: process %d traces it (a debugger, strace): only one can", pid, tracer)
	}
	if s.ended(tid) {
		return ErrExited
	}
	p, openErr := Open(pid)
	if openErr != nil {
		return openErr
	}
	defer p.Close()
	return p.failed("follow", errors.Unwrap(err))
}

func (a *Attendant) add(p *attendedProcess, tid int) {
	a.processes[p.pid] = p
	a.threads[tid] = p
	p.threads++
}

// remove forgets a thread; it tells whether it was the last one of its process.
func (a *Attendant) remove(tid int) (last *attendedProcess) {
	p := a.threads[tid]
	if p == nil {
		return nil
	}
	delete(a.threads, tid)
	if p.threads--; p.threads > 0 {
		return nil
	}
	delete(a.processes, p.pid)
	return p
}

// collect waits for a stop and handles it.
func (a *Attendant) collect() (traced bool) {
	now := time.Now()
	a.raise(now)
	orphans := len(a.newborn)+len(a.early)+len(a.made) > 0
	if orphans && now.Sub(a.adopted) > orphaned {
		a.adopt()
		a.adopted = now
	}
	if !orphans {
		a.adopted = now
	}
	a.ticks.run(orphans || !a.calm && now.Sub(a.lately) < busyFor)
	var status unix.WaitStatus
	tid, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil)
	switch {
	case errors.Is(err, unix.EINTR):
		runtime.Gosched() // for the monitor this thread has not run for long then: see ticks
		return true
	case err != nil || tid <= 0:
		return false
	case status.Stopped():
		a.stopped(tid, int(status)>>16, status.StopSignal())
	default:
		a.exited(tid)
	}
	a.lately = now
	return true
}

// exited handles that a thread is no more.
func (a *Attendant) exited(tid int) {
	delete(a.newborn, tid)
	delete(a.made, tid)
	delete(a.ending, tid)
	if p := a.threads[tid]; p != nil && p.held {
		p.later = append(p.later, func() { a.exited(tid) })
	} else if p := a.remove(tid); p != nil && !p.shares {
		a.events.Vanished(p.pid)
	}
}

// stopped handles the stop of a thread.
func (a *Attendant) stopped(tid, event int, sig unix.Signal) {
	p := a.threads[tid]
	if p != nil && p.held {
		p.later = append(p.later, func() { a.stopped(tid, event, sig) })
		return
	}
	switch event {
	case 0:
		if sig == systemCall {
			a.calls(p, tid)
			return
		}
		// The signal is about to be delivered.
		restartInterrupted(tid)
		a.goOn(tid, sig)
	case unix.PTRACE_EVENT_STOP:
		if p == nil {
			a.begun(tid, sig)
			return
		}
		restartInterrupted(tid)
		a.unstop(tid, sig)
	case unix.PTRACE_EVENT_EXIT:
		// Others of the process that were killed with it come here, too: none of them runs
		// any more when the last one is here.
		if p := a.remove(tid); p != nil && !p.shares {
			a.ends(p, tid)
			return
		}
		letGoOf(tid)
	case unix.PTRACE_EVENT_EXEC:
		a.replaced(tid)
	case unix.PTRACE_EVENT_FORK, unix.PTRACE_EVENT_VFORK, unix.PTRACE_EVENT_CLONE:
		child, err := unix.PtraceGetEventMsg(tid)
		if err != nil || p == nil {
			a.goOn(tid, 0)
			return
		}
		b := birth{parent: p}
		if event != unix.PTRACE_EVENT_CLONE || isProcess(int(child)) {
			b.shares = event == unix.PTRACE_EVENT_VFORK || SharesMemory(tid, int(child))
			b.byLibrary = event == unix.PTRACE_EVENT_FORK && forksAsLibrary(tid)
		}
		a.goOn(tid, 0)
		a.makes(p, int(child), event, b)
	default:
		a.goOn(tid, 0)
	}
}

// unstop lets a thread go on that has stopped for the kernel's own reasons: one that a signal has stopped stays
// so.
func (a *Attendant) unstop(tid int, sig unix.Signal) {
	if sig != unix.SIGTRAP {
		_ = ptrace(unix.PTRACE_LISTEN, tid, 0, 0)
		return
	}
	a.goOn(tid, 0)
}

// hold has a process stand still until an event has been dealt with, and does then what comes
// next: what has happened to it meanwhile, should it have been killed.
func (a *Attendant) hold(p *attendedProcess, event func(goOn func()), then func()) {
	p.held = true
	release := func() {
		later := p.later
		p.held, p.later = false, nil
		if len(later) == 0 {
			then()
		}
		for _, happened := range later {
			happened()
		}
	}
	event(func() {
		if unix.Gettid() == a.tid {
			release()
		} else {
			go a.do(release)
		}
	})
}

// ends handles that the last thread of a process ends.
func (a *Attendant) ends(p *attendedProcess, tid int) {
	a.ending[tid] = p
	a.hold(p, func(goOn func()) { a.events.Ending(p.pid, goOn) }, func() {
		if a.ending[tid] == p { // else it has been killed once more
			delete(a.ending, tid)
			letGoOf(tid)
		}
	})
}

func (a *Attendant) goOn(tid int, sig unix.Signal) {
	how := unix.PTRACE_CONT
	if p := a.threads[tid]; p != nil && p.calls > 0 {
		how = unix.PTRACE_SYSCALL
	}
	_ = ptrace(how, tid, 0, uintptr(sig))
}

// calls handles that a thread is in front of a system call, or behind one.
func (a *Attendant) calls(p *attendedProcess, tid int) {
	if p == nil {
		a.goOn(tid, 0)
		return
	}
	p.execs = isExec(tid)
	if !p.execs {
		p.calls--
		a.goOn(tid, 0)
		return
	}
	a.hold(p, func(goOn func()) { a.events.Execs(p.pid, goOn) }, func() { a.goOn(tid, 0) })
}

// isExec tells whether a thread that has stopped at a system call is in front of exec.
func isExec(tid int) bool {
	var call struct { // struct ptrace_syscall_info, of a call's beginning
		op         uint8
		_          [3]uint8
		arch       uint32
		ip, sp, nr uint64
		_          [6]uint64
	}
	const entry = 1 // PTRACE_SYSCALL_INFO_ENTRY
	size := unsafe.Sizeof(call)
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(tid), size, uintptr(unsafe.Pointer(&call)), 0, 0); errno != 0 || call.op != entry {
		return false
	}
	if call.arch == unix.AUDIT_ARCH_I386 {
		return call.nr == execve32 || call.nr == execveat32
	}
	return call.nr == unix.SYS_EXECVE || call.nr == unix.SYS_EXECVEAT
}

// Of programs of 32 bits on amd64.
const (
	execve32   = 11
	execveat32 = 358
)

func letGoOf(tid int) { _ = ptrace(unix.PTRACE_DETACH, tid, 0, 0) }

// makes handles that a thread has made another one, or a process.
func (a *Attendant) makes(p *attendedProcess, child, event int, b birth) {
	if a.early[child] || a.threads[child] != nil {
		delete(a.early, child)
		return
	}
	if event == unix.PTRACE_EVENT_CLONE && processOf(child) == p.pid {
		a.add(p, child) // should it have stopped, begun has let it go on
		return
	}
	if n, held := a.newborn[child]; held {
		a.born(child, n.sig, b)
		return
	}
	a.made[child] = b
}

// begun handles the first stop of a thread that was made.
func (a *Attendant) begun(tid int, sig unix.Signal) {
	if b, known := a.made[tid]; known {
		a.born(tid, sig, b)
		return
	}
	if !isProcess(tid) {
		if p := a.processes[processOf(tid)]; p != nil {
			a.add(p, tid)
			a.early[tid] = true
			a.unstop(tid, sig)
			return
		}
	}
	a.newborn[tid] = newborn{time.Now(), sig}
}

// born begins to attend a process that stands at its beginning.
func (a *Attendant) born(pid int, sig unix.Signal, b birth) {
	delete(a.newborn, pid)
	delete(a.made, pid)
	if b.parent == nil || !b.parent.children {
		letGoOf(pid)
		return
	}
	p := &attendedProcess{pid: pid, shares: b.shares, children: true}
	a.add(p, pid)
	if b.shares {
		a.unstop(pid, sig)
		return
	}
	a.hold(p, func(goOn func()) {
		a.events.Forked(pid, b.parent.pid, b.byLibrary, func(watch bool) {
			if watch {
				p.calls = callsToExec
			}
			goOn()
		})
	}, func() { a.unstop(pid, sig) })
}

// adopt takes the processes whose makers have been killed before they could tell of them.
func (a *Attendant) adopt() {
	for tid, n := range a.newborn {
		if waits := time.Since(n.since); waits < orphaned || waits < slowMaker && a.hasMaker(tid) {
			continue
		}
		b := birth{parent: &attendedProcess{children: true}, byLibrary: true}
		for _, p := range a.processes {
			b.shares = b.shares || SharesMemory(p.pid, tid)
		}
		a.born(tid, n.sig, b)
	}
	maps.DeleteFunc(a.early, func(tid int, _ bool) bool { return processOf(tid) == 0 })
	for tid := range a.made { // killed before it began
		if processOf(tid) == 0 {
			delete(a.made, tid)
		}
	}
}

// hasMaker tells whether the parent of a process is attended: it may not have got a processor yet to tell.
func (a *Attendant) hasMaker(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	return err == nil && a.processes[statusField(b, "PPid")] != nil
}

// replaced handles exec: the other threads have ended, and the one that is left has the
// process's id.
func (a *Attendant) replaced(pid int) {
	p := a.processes[pid]
	if p == nil {
		letGoOf(pid)
		return
	}
	for tid, of := range a.threads {
		if of == p {
			delete(a.threads, tid)
		}
	}
	told := p.execs
	p.threads, p.shares, p.calls, p.execs = 1, false, 0, false
	a.threads[pid] = p
	keep := false
	a.hold(p, func(goOn func()) {
		a.events.Replaced(pid, told, func(kept bool) {
			keep = kept
			goOn()
		})
	}, func() {
		if keep {
			a.goOn(pid, 0)
			return
		}
		a.remove(pid)
		letGoOf(pid)
	})
}

// isProcess tells whether a thread is the first one of its process.
func isProcess(tid int) bool { return unix.Tgkill(tid, tid, 0) == nil }

// processOf is the process of a thread, 0 if it has ended.
func processOf(tid int) int {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/status")
	if err != nil {
		return 0
	}
	return statusField(b, "Tgid")
}
