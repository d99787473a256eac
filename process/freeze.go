//go:build linux

package process

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// stopPatience is how long threads are tried to stop. One that waits for a device
	// cannot be stopped.
	stopPatience = 3 * time.Second
	// runPatience is how long those are tried that do not wait, but get no time to run.
	runPatience = 20 * time.Second
	// holdPatience is how long those that have stopped wait for one that does not,
	// before they run on and all are tried again. It begins anew with each that stops.
	holdPatience = 50 * time.Millisecond
	// firstLimit is for how long the first tries may take to stop threads, and busyLimit for how long threads
	// that run, where there are more than limitedThreads in proportion.
	firstLimit     = 3 * time.Millisecond
	busyLimit      = 2 * time.Millisecond
	limitedThreads = 64
	// heldPatience is for how long threads stand still for one that has to be let go before them.
	heldPatience = 10 * time.Millisecond
	// longestWait is for how long a thread that stops late, and is to run on at once, may stand still.
	longestWait = 500 * time.Microsecond
)

// stopLimits are how often longer tries may take, one after another. Then there is no limit as long
// as there are threads that stop. They do so within a millisecond where they find a processor;
// where they do not they may find one the next time.
var stopLimits = [...]time.Duration{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 4, 8, 16}

// shortTries are those of them with the shortest limit, which are made within shortTriesFor only: after each that fails all threads have
// to get their turn before the next one, which takes long where there are hundreds that are busy.
const (
	shortTries    = 16
	shortTriesFor = time.Second
)

// WhileStopped stops all threads of the process, calls do, and lets them run
// on, whatever do returns. The threads do not notice: system calls are begun
// again, signals that arrive are delivered afterwards. If footfall itself is
// killed the kernel lets them go.
func (p *Process) WhileStopped(do func() error) error {
	return p.WhileHeld(func(*Held) error { return do() })
}

type stopper struct {
	p       *Process
	threads map[int]*stopped
	options int // of ptrace, that the threads have
	// waiting are threads that cannot be stopped and cannot run either: they wait in
	// vfork for a process that is held.
	waiting map[int]bool
	// fragile are threads that wait, or may be about to, in a system call which would end early if the thread were woken for nothing.
	fragile map[int]bool
	// relatives are the processes that run in the same memory; others do not.
	relatives []int
	others    map[int]bool
	newest    string // what identifies the last process or thread that was made before others were looked for
	// stuck tells that a thread has not stopped, and cannot be let go.
	stuck bool
	begun time.Time // to stop threads
	busy  time.Time // to stop those that run
	try   int
	// follower, if it is not nil, keeps hold of the threads.
	follower *Follower
}

// A stopped is a thread that is traced.
type stopped struct {
	asked    bool // to stop
	stopped  bool
	busy     bool // it ran, or was about to, when it was looked at
	relative bool // it is one of another process
	fragile  bool // it stopped in a system call that a stop ends
	signal   int  // to be delivered when it runs on
}

// A stuckError tells of threads that do not stop.
type stuckError struct {
	pid, missing, all, example int
	holder                     int // the thread of ours that holds it, 0: none
}

func (e *stuckError) Error() string {
	if e.holder != 0 {
		return fmt.Sprintf("process %d: footfall holds its threads already", e.pid)
	}
	return fmt.Sprintf("process %d: thread %d does not stop: it waits in the kernel, or gets no time to run (%d of %d threads)", e.pid, e.example, e.missing, e.all)
}

// holders are our threads that hold a process, from when all of it has stopped until it is let go.
var holders sync.Map

// holder returns the thread if it is one of these, else 0.
func holder(tid int) int {
	if _, holds := holders.Load(tid); holds {
		return tid
	}
	return 0
}

// patience is how long it is tried again.
func (e *stuckError) patience() time.Duration {
	if e.holder != 0 {
		return 2 * holdPatience // it may be the one who asks
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", e.example))
	if _, state, _ := strings.Cut(string(b[bytes.LastIndexByte(b, ')')+1:]), " "); err != nil || strings.HasPrefix(state, "D") {
		return stopPatience
	}
	return runPatience
}

// pause is how long all threads run before the next try.
func (e *stuckError) pause(try int) time.Duration {
	if e.holder == 0 && try < len(stopLimits) {
		return firstLimit
	}
	return min(time.Duration(try+1)*holdPatience, 5*holdPatience)
}

// sleepersFirst is how long threads that run go on while those that sleep stop. These need a
// processor to do so, which takes the longest where there are many of them; a thread that runs stops
// at once. Those that sleep do not notice.
const sleepersFirst = time.Millisecond

// stop stops all threads. Threads that run may make new ones until they are
// stopped themselves: it is over when a look finds none that is new. The same goes for
// processes in this memory, which prepare has just looked for.
func (s *stopper) stop() error {
	if err := s.stopFirst(); err != nil {
		return err
	}
	s.interrupt(func(t *stopped) bool { return !t.busy })
	s.waitFor(sleepersFirst)
	s.busy = time.Now()
	for {
		s.interrupt(func(*stopped) bool { return true })
		if err := s.wait(); err != nil {
			return err
		}
		s.findRelatives()
		added, err := s.seize()
		if err != nil {
			return err
		}
		if added == 0 {
			break
		}
	}
	if len(s.threads) == 0 {
		return ErrExited
	}
	return nil
}

// stopFirst stops the first thread before any other one, if there are fragile ones (see fragileFirst): should it get no time to
// stop, all others have run on meanwhile. If it runs that is for the second try, as the first one would take time from it.
func (s *stopper) stopFirst() error {
	first := s.threads[s.p.PID]
	if first == nil || first.busy && s.try == 0 || len(s.fragile) < 2 {
		return nil
	}
	s.interrupt(func(t *stopped) bool { return t == first })
	s.waitFor(holdPatience)
	if !first.stopped {
		return &stuckError{s.p.PID, 1, len(s.threads), s.p.PID, 0}
	}
	s.begun = time.Now()
	return nil
}

// prepare does what may take long, as long as the threads still run: it looks for who else
// runs in this memory, for threads that wait in vfork, and takes hold of the others, which they do not notice.
func (s *stopper) prepare() error {
	if err := checkFrozen(s.p.PID); err != nil {
		return err
	}
	s.findRelatives()
	busy := make(map[int]bool)
	for _, pid := range s.family() {
		tids, err := s.tasks(pid)
		if err != nil {
			return err
		}
		for _, tid := range tids {
			call := systemCallOf(tid)
			if call == noCall || isFragile(call) {
				s.fragile[tid] = true
			}
			switch {
			case call == noCall:
				busy[tid] = true
			case waitsInVfork(tid, call):
				s.waiting[tid] = true
			}
		}
	}
	if _, err := s.seize(); err != nil {
		return err
	}
	for tid, t := range s.threads {
		t.busy = busy[tid]
	}
	return nil
}

// family are all processes that run in this memory.
func (s *stopper) family() []int { return append([]int{s.p.PID}, s.relatives...) }

// findRelatives adds the processes that run in the same memory (clone with CLONE_VM,
// vfork) and are new. Since the look before there is none as long as nothing has been made.
func (s *stopper) findRelatives() {
	newest := newestTask()
	if newest != "" && newest == s.newest {
		return
	}
	s.newest = newest
	pids, err := List()
	if err != nil {
		return
	}
	for _, pid := range pids {
		if pid == s.p.PID || s.others[pid] {
			continue
		}
		s.others[pid] = true
		if SharesMemory(s.p.thread(), pid) && hasMemory(pid) {
			s.relatives = append(s.relatives, pid)
		}
	}
}

// newestTask tells which process or thread was made last, as far as we see them, "": it is not known.
func newestTask() string {
	b, err := os.ReadFile("/proc/loadavg") // three averages, running/all, the last id
	fields := strings.Fields(string(b))
	if err != nil || len(fields) < 5 {
		return ""
	}
	return fields[4]
}

// hasMemory tells whether a process has memory of its own: kernel threads have none, as has
// one that is just ending.
func hasMemory(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	return err == nil && !strings.HasPrefix(string(b), "0 ")
}

// SharesMemory tells whether two processes run in the same memory, as far as the kernel
// permits to know.
func SharesMemory(a, b int) bool {
	const memory = 1 // KCMP_VM of <linux/kcmp.h>
	r, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), memory, 0, 0, 0)
	return errno == 0 && r == 0
}

// tasks lists the threads of a process of the family.
func (s *stopper) tasks(pid int) ([]int, error) {
	task, err := s.p.openFile("task", unix.O_RDONLY|unix.O_DIRECTORY)
	if pid != s.p.PID {
		if task, err = os.Open(fmt.Sprintf("/proc/%d/task", pid)); errors.Is(err, os.ErrNotExist) {
			return nil, nil // it has ended
		}
	}
	if err != nil {
		return nil, err
	}
	defer task.Close()
	names, err := task.Readdirnames(-1)
	if err != nil {
		if pid != s.p.PID {
			return nil, nil
		}
		return nil, s.p.failed("list threads", err)
	}
	var tids []int
	for _, name := range names {
		if tid, err := strconv.Atoi(name); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids, nil
}

// seize takes hold of the threads that are new. They run on until they are interrupted.
func (s *stopper) seize() (added int, err error) {
	for _, pid := range s.family() {
		tids, err := s.tasks(pid)
		if err != nil {
			return 0, err
		}
		slices.SortFunc(tids, s.fragileFirst)
		for _, tid := range tids {
			if s.threads[tid] != nil || s.waiting[tid] && waitsInVfork(tid, systemCallOf(tid)) || isWorker(tid) {
				continue
			}
			delete(s.waiting, tid)
			switch err := unix.PtraceSeize(tid); {
			case errors.Is(err, unix.ESRCH):
				continue // ended meanwhile
			case errors.Is(err, unix.EPERM) && s.ended(tid):
				continue // a child of ours that is not waited for yet among them
			case errors.Is(err, unix.EPERM) && isOurs(s.tracer(tid)):
				return 0, &stuckError{s.p.PID, 1, len(tids), tid, holder(s.tracer(tid))} // else of the try before, which is just being let go
			case errors.Is(err, unix.EPERM) && s.tracer(tid) != 0:
				return 0, fmt.Errorf("process %d: process %d traces it already (a debugger, strace): only one can", pid, s.tracer(tid))
			case err != nil && pid != s.p.PID:
				return 0, &stuckError{s.p.PID, 1, len(tids), tid, 0}
			case err != nil:
				return 0, s.p.failed("stop threads", err)
			}
			s.threads[tid] = &stopped{relative: pid != s.p.PID}
			added++
		}
	}
	return added, nil
}

// interrupt asks those of the threads to stop which have not been asked.
func (s *stopper) interrupt(which func(*stopped) bool) {
	for tid, t := range s.threads {
		if !t.asked && which(t) && !s.look(tid, t) { // some stop, or end, by themselves
			t.asked = true
			_ = unix.PtraceInterrupt(tid)
		}
	}
}

// noCall is for threads that are in no system call.
const noCall = -1

// systemCallOf returns the number of the system call that a thread sleeps in.
func systemCallOf(tid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", tid))
	if err != nil {
		return noCall
	}
	call, _, _ := strings.Cut(string(b), " ")
	number, err := strconv.Atoi(call)
	if err != nil { // "running"
		return noCall
	}
	return number
}

// waitsInVfork tells whether a thread waits for a process that it has made to end or to
// become another program; the system call is the one that it sleeps in.
func waitsInVfork(tid, call int) bool {
	if call == noCall || !slices.Contains(vforkCalls, uintptr(call)) {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	_, state, _ := strings.Cut(string(b), "\nState:\t")
	return err == nil && strings.HasPrefix(state, "D")
}

// isWorker tells whether a thread is one that the kernel has put into a process: it works off its requests
// to io_uring or vhost, in its memory, and runs none of its code. It never comes to where it could make a system call
// for us, and requests that it waits for would end with EINTR if it were stopped.
func isWorker(tid int) bool {
	const ioWorker, userWorker = 0x10, 0x4000 // PF_IO_WORKER and PF_USER_WORKER of Linux's <linux/sched.h>
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", tid))
	if err != nil {
		return false
	}
	// state, six ids and the like, flags: proc_pid_stat(5)
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 7 {
		return false
	}
	flags, err := strconv.ParseUint(string(fields[6]), 10, 64)
	return err == nil && flags&(ioWorker|userWorker) != 0
}

// ended tells whether a thread will not run again. The kernel says that it is
// forbidden to trace one.
func (s *stopper) ended(tid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return true
	}
	_, state, _ := strings.Cut(string(b), "\nState:\t")
	return strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
}

// tracer returns the process that traces a thread, 0: none.
func (s *stopper) tracer(tid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return 0
	}
	return statusField(b, "TracerPid")
}

// isOurs tells whether a thread is one of footfall.
func isOurs(tid int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tid))
	return err == nil && tid != 0
}

// wait waits until all threads that are held have stopped or ended. They are looked
// at in turns: the first thread of a process that ends is not said to have ended
// before that is known of the others.
func (s *stopper) wait() error {
	before, deadline := 0, time.Now()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		missing, example := s.missing()
		switch {
		case missing == 0:
			return nil
		case s.tooLong():
			return &stuckError{s.p.PID, missing, len(s.threads), example, 0}
		case missing != before:
			before, deadline = missing, time.Now().Add(holdPatience)
		case time.Now().After(deadline):
			return &stuckError{s.p.PID, missing, len(s.threads), example, 0}
		}
		sleep(pause)
	}
}

// waitFor waits until all that have been asked to stop have done so, but no longer than that.
func (s *stopper) waitFor(most time.Duration) {
	end := time.Now().Add(most)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		if missing, _ := s.missing(); missing == 0 || !time.Now().Before(end) {
			return
		}
		sleep(pause)
	}
}

// missing returns how many threads have been asked to stop and have not, and one of them.
func (s *stopper) missing() (missing, example int) {
	for tid, t := range s.threads {
		if t.asked && !s.look(tid, t) {
			missing++
			example = tid
		}
	}
	return missing, example
}

// tooLong tells whether this try has lasted for as long as it may.
func (s *stopper) tooLong() bool {
	if s.try >= len(stopLimits) {
		return false
	}
	scale := stopLimits[s.try] * time.Duration(max(limitedThreads, len(s.threads)))
	return time.Since(s.begun) > scale*firstLimit/limitedThreads || time.Since(s.busy) > scale*busyLimit/limitedThreads
}

// look tells whether a thread has stopped, or ended, which removes it.
func (s *stopper) look(tid int, t *stopped) bool {
	if t.stopped {
		return true
	}
	var status unix.WaitStatus
	got, err := s.p.wait(tid, &status, unix.WALL|unix.WNOHANG)
	switch {
	case errors.Is(err, unix.EINTR):
		return false
	case err != nil, got == tid && (status.Exited() || status.Signaled()):
		delete(s.threads, tid)
		t.stopped = true
	case got == tid && status.Stopped():
		t.stopped = true
		if !isEventStop(status) {
			t.signal = int(status.StopSignal())
		}
		t.fragile = restartInterrupted(tid)
	}
	return t.stopped
}

// willStop tells whether one of the threads waits for nothing but a processor, or has just stopped.
func (s *stopper) willStop() bool {
	for tid := range s.threads {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
		if _, state, _ := bytes.Cut(b, []byte("\nState:\t")); err == nil && len(state) > 0 && strings.IndexByte("Rt", state[0]) >= 0 {
			return true
		}
	}
	return false
}

// resume lets all threads go, and keeps none but one that waits for a Release.
func (s *stopper) resume() error {
	if s.follower != nil {
		s.follower.resumeHeld(s)
		return nil
	}
	var failed []error
	letGo := func(tid int, t *stopped) {
		_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(tid), 0, uintptr(t.signal), 0, 0)
		if errno != 0 && errno != unix.ESRCH {
			failed = append(failed, os.NewSyscallError("let thread "+strconv.Itoa(tid)+" run on", errno))
		}
		delete(s.threads, tid)
	}
	order := slices.SortedFunc(maps.Keys(s.threads), s.fragileFirst)
	first, patience := s.threads[s.p.PID], holdPatience
	late := first != nil && !first.stopped // fragile ones wait for it, see fragileFirst
	for _, tid := range slices.Backward(order) {
		switch t := s.threads[tid]; {
		case !t.stopped:
		case late && t.fragile:
			patience = heldPatience
		default:
			letGo(tid, t)
		}
	}
	// Those that did not stop in time, or were not asked to: only stopped ones can be let go. What
	// does not stop at all is let go when our thread ends. One that only waits for a processor will
	// stop: its system call would end with EINTR then (restartInterrupted).
	begun := time.Now()
	end := begun.Add(holdPatience)
	for last := end.Add(runPatience); len(s.threads) > 0; sleep(longestWait) { // they need the processor that we have
		now := time.Now()
		if now.After(end) {
			if now.After(last) || !s.willStop() {
				break
			}
			end = now.Add(holdPatience)
		}
		late = late && s.threads[s.p.PID] != nil && now.Sub(begun) < patience
		s.interrupt(func(t *stopped) bool { return !late || t == first })
		for tid, t := range s.threads {
			if s.look(tid, t) && s.threads[tid] != nil && !(late && t.fragile) {
				letGo(tid, t)
			}
		}
	}
	s.stuck = len(s.threads) > 0
	clear(s.threads)
	return errors.Join(failed...)
}

// fragileFirst is the order in which threads are taken hold of, the reverse of that in which they are let go. A signal that is
// ignored goes to nobody, unless the thread to which it is sent is traced: the first one of a process, or for SIGCHLD the one that
// has made the child. As long as that one stands still such a signal wakes another thread instead, and ends a
// wait of it early if that thread is not traced. So those that wait so are traced before others are, and for longer.
func (s *stopper) fragileFirst(a, b int) int {
	return cmp.Or(s.rank(a)-s.rank(b), a-b)
}

func (s *stopper) rank(tid int) int {
	t := s.threads[tid]
	first, fragile := tid == s.p.PID, s.fragile[tid]
	if t != nil { // it is known better
		fragile = t.fragile
	}
	switch {
	case fragile && !first:
		return 0
	case fragile:
		return 1
	case first:
		return 4
	case t != nil && t.busy:
		return 3 // others have no use for the time, once it runs again
	}
	return 2
}
