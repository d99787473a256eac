//go:build linux

package process

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A PtraceSampler is a [Sampler] for where the kernel forbids perf_event_open. It
// traces the program (ptrace) and has each thread make a timer of its CPU time
// (timer_create), whose signal stops the thread for some microseconds, in which
// its registers and its stack are read, and which is never delivered. Each
// sample stands for the CPU time that its thread has used since its last one.
//
// The kernel looks at such timers in its clock interrupt, 100 to 1000 times a second.
// Threads without a timer, of 32-bit programs, and those that block the
// signal, are stopped when they have used much CPU time without a sample.
// The signal is SIGURG, which does nothing in programs that do not expect it, so that
// none comes to harm should footfall be killed.
type PtraceSampler struct {
	Period time.Duration // of CPU time between two samples of a thread, at best
	Stack  int           // bytes of stacks that are copied, at most

	main int // the program's process
	done chan struct{}

	// What follows is of the goroutine that traces: the kernel takes orders from
	// the tracing thread only.
	tracees   map[int]*tracee
	processes map[int]*sampledProcess

	mu      sync.Mutex
	pending []PerfRecord
	used    time.Duration
	lost    uint64
}

// A tracee is a thread that is traced.
type tracee struct {
	tid     int
	process *sampledProcess
	sched   *os.File      // /proc/PID/task/TID/schedstat; nil: not to be had
	used    time.Duration // of CPU, up to the last sample
	armed   bool          // there has been an attempt to make its timer
	timer   uint64        // its id and 1; 0: none
	due     bool          // it is to stop for a sample
	name    string
	named   time.Time
}

// A sampledProcess is a process with traced threads.
type sampledProcess struct {
	pid    int
	open   *Process // nil: cannot be read
	maps   Maps
	mapped time.Time // when maps were read
	told   []Mapping // code that events have told of
}

const (
	// mostPending is how many events wait for being read.
	mostPending = 4096
	// mapsAge is how long a memory map is believed.
	mapsAge = 200 * time.Millisecond
	// lookEvery is how often threads are looked for that have used CPU time without
	// a sample: more than longUnseen where there is a timer, so its signal is blocked.
	lookEvery  = 5 * time.Millisecond
	longUnseen = 20 * time.Millisecond

	traceOptions = unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_TRACEEXIT

	timerSignal = unix.SIGURG
	timerValue  = 0x666f6f74 // tells our signals from others
)

// MaySample tells whether the kernel lets us sample our own processes. If not, the
// error is a [*PerfError].
func MaySample() error {
	attr := &unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK,
		Bits: unix.PerfBitDisabled | unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}
	attr.Size = uint32(unsafe.Sizeof(*attr))
	fd, err := unix.PerfEventOpen(attr, os.Getpid(), -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return samplerError(os.Getpid(), err)
	}
	return unix.Close(fd)
}

// RunSampled starts a program and samples it from its first instruction on. Its end
// is to be waited for with cmd.Wait, but not before Done.
func RunSampled(cmd *exec.Cmd, o SampleOptions) (*PtraceSampler, error) {
	raiseFileLimit()
	s := &PtraceSampler{
		Period: time.Duration(1e9 / o.Frequency), Stack: o.Stack, done: make(chan struct{}),
		tracees: make(map[int]*tracee), processes: make(map[int]*sampledProcess),
	}
	return s, onTracer(s.done, func() error { return s.start(cmd) }, func(stops <-chan os.Signal) {
		s.trace(stops)
		s.letGo()
	})
}

func (s *PtraceSampler) start(cmd *exec.Cmd) error {
	if err := startSeized(cmd, traceOptions); err != nil {
		return err
	}
	s.main = cmd.Process.Pid
	return s.goOn(s.add(s.main, s.main), 0)
}

// goOn lets a stopped thread run on, with a signal. One that has no timer yet
// stops again at once: not every stop allows to make one.
func (s *PtraceSampler) goOn(t *tracee, sig uintptr) error {
	if !t.armed {
		_ = unix.PtraceInterrupt(t.tid)
	}
	return ptrace(unix.PTRACE_CONT, t.tid, 0, sig)
}

// add notes a new tracee.
func (s *PtraceSampler) add(tid, pid int) *tracee {
	p := s.processes[pid]
	if p == nil {
		p = &sampledProcess{pid: pid}
		p.open, _ = Open(pid)
		s.processes[pid] = p
	}
	t := &tracee{tid: tid, process: p}
	t.sched, _ = os.Open(fmt.Sprintf("/proc/%d/task/%d/schedstat", pid, tid))
	s.tracees[tid] = t
	return t
}

// remove forgets a tracee, and its process with the last one.
func (s *PtraceSampler) remove(t *tracee) {
	t.sched.Close()
	delete(s.tracees, t.tid)
	for _, other := range s.tracees {
		if other.process == t.process {
			return
		}
	}
	if t.process.open != nil {
		t.process.open.Close()
	}
	delete(s.processes, t.process.pid)
}

// cpuTime is what the thread has used so far; that of a running one may be some
// milliseconds old. The file begins with nanoseconds.
func (t *tracee) cpuTime() time.Duration {
	var b [64]byte
	n, err := t.sched.ReadAt(b[:], 0)
	if n == 0 && err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(b[:n]), " ")
	ns, _ := strconv.ParseInt(first, 10, 64)
	return time.Duration(ns)
}

// spend adds the CPU time that the thread has used since the last time.
func (s *PtraceSampler) spend(t *tracee) time.Duration {
	now := t.cpuTime()
	d := max(now-t.used, 0)
	t.used = now
	s.mu.Lock()
	s.used += d
	s.mu.Unlock()
	return d
}

// trace samples until the program has ended.
func (s *PtraceSampler) trace(stops <-chan os.Signal) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for !s.collect() {
		select {
		case <-stops:
		case <-tick.C:
			for _, t := range s.tracees {
				unseen := longUnseen
				if t.timer == 0 {
					unseen = s.Period
				}
				if t.armed && !t.due && t.cpuTime()-t.used > unseen {
					t.due = unix.PtraceInterrupt(t.tid) == nil
				}
			}
		}
	}
}

// collect handles all stops that there are. ended tells that the program has
// ended; its exit status is left for cmd.Wait.
func (s *PtraceSampler) collect() (ended bool) {
	for {
		tid, exited := peek(unix.P_ALL, 0, unix.WNOHANG)
		if tid == 0 {
			return false
		}
		if exited && tid == s.main {
			return true
		}
		var status unix.WaitStatus
		if got, err := unix.Wait4(tid, &status, unix.WALL|unix.WNOHANG, nil); err != nil || got != tid {
			continue
		}
		t := s.tracees[tid]
		switch {
		case !status.Stopped():
			if t != nil {
				s.remove(t)
			}
		case t == nil:
			if t = s.newborn(tid); t != nil {
				s.stopped(t, status)
			}
		default:
			s.stopped(t, status)
		}
	}
}

// newborn adds a thread or process that a tracee has made.
func (s *PtraceSampler) newborn(tid int) *tracee {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return nil
	}
	pid := statusField(b, "Tgid")
	t := s.add(tid, pid)
	if pid != tid {
		s.emit(PerfRecord{Kind: EventFork, PID: pid, TID: tid, Parent: pid})
	} else {
		s.emit(PerfRecord{Kind: EventFork, PID: pid, TID: tid, Parent: statusField(b, "PPid")})
	}
	return t
}

// stopped handles the stop of a tracee and lets it run on.
func (s *PtraceSampler) stopped(t *tracee, status unix.WaitStatus) {
	event, sig := int(status)>>16, uintptr(status.StopSignal())
	if event == 0 || event == unix.PTRACE_EVENT_STOP {
		restartInterrupted(t.tid)
	}
	switch {
	case event == 0 && s.ownSignal(t, status):
		s.sample(t)
		sig = 0
	case event == 0: // to be delivered
	case event == unix.PTRACE_EVENT_STOP && sig != uintptr(unix.SIGTRAP):
		_ = ptrace(unix.PTRACE_LISTEN, t.tid, 0, 0) // stopped by a signal: it stays so
		return
	case event == unix.PTRACE_EVENT_STOP:
		if !t.armed {
			s.arm(t)
		}
		if t.due {
			s.sample(t)
		}
		sig = 0
	case event == unix.PTRACE_EVENT_EXIT:
		s.emit(PerfRecord{Kind: EventExit, PID: t.process.pid, TID: t.tid, CPU: s.spend(t)})
		if ptrace(unix.PTRACE_DETACH, t.tid, 0, 0) == nil {
			s.remove(t)
		}
		return
	default:
		if event == unix.PTRACE_EVENT_EXEC {
			s.replaced(t)
		}
		sig = 0
	}
	_ = s.goOn(t, sig)
}

// ownSignal tells whether the signal at which a thread has stopped is of its timer.
// Siginfo has signo, errno and code, and from byte 16 on timer, overrun and value.
func (s *PtraceSampler) ownSignal(t *tracee, status unix.WaitStatus) bool {
	var info unix.Siginfo
	if t.timer == 0 || status.StopSignal() != timerSignal ||
		ptrace(unix.PTRACE_GETSIGINFO, t.tid, 0, uintptr(unsafe.Pointer(&info))) != nil {
		return false
	}
	const byTimer = -2
	b := (*[32]byte)(unsafe.Pointer(&info))
	return info.Code == byTimer && binary.NativeEndian.Uint64(b[24:]) == timerValue
}

// arm has a thread make a timer of its own CPU time.
func (s *PtraceSampler) arm(t *tracee) {
	t.armed = true
	p := t.process
	if p.open == nil {
		return
	}
	if _, compat, err := sampleRegisters(t.tid); err != nil || compat {
		return
	}
	// struct sigevent: value, signal, kind, thread; struct itimerspec: interval
	// and value; and the timer's id.
	const atSpec, atID, size, notifyThread = 64, 96, 104, 4
	b := make([]byte, size)
	le := binary.LittleEndian
	le.PutUint64(b, timerValue)
	le.PutUint32(b[8:], uint32(timerSignal))
	le.PutUint32(b[12:], notifyThread)
	le.PutUint32(b[16:], uint32(t.ownID()))
	for at := atSpec; at < atID; at += 16 {
		le.PutUint64(b[at:], uint64(s.Period/time.Second))
		le.PutUint64(b[at+8:], uint64(s.Period%time.Second))
	}
	_, err := t.systemCall(b, unix.SYS_TIMER_CREATE, func(at uint64) []uint64 { return []uint64{unix.CLOCK_THREAD_CPUTIME_ID, at, at + atID} })
	if err != nil {
		return
	}
	t.timer = uint64(le.Uint32(b[atID:])) + 1
	_, _ = t.systemCall(b, unix.SYS_TIMER_SETTIME, func(at uint64) []uint64 { return []uint64{t.timer - 1, 0, at + atSpec, 0} })
}

// ownID is the thread's id as it sees it itself: another one in a container.
func (t *tracee) ownID() int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/status", t.process.pid, t.tid))
	if id := statusField(b, "NSpid"); err == nil && id != 0 {
		return id
	}
	return t.tid
}

// replaced notes that the tracee's process is another program now: its other
// threads have ended, and it has the process's id.
func (s *PtraceSampler) replaced(t *tracee) {
	for _, other := range s.tracees {
		if other != t && other.process == t.process {
			s.remove(other)
		}
	}
	p := t.process
	if p.open != nil {
		p.open.Close()
	}
	p.open, _ = Open(p.pid)
	p.maps, p.told = nil, nil
	t.sched.Close()
	t.sched, _ = os.Open(fmt.Sprintf("/proc/%d/task/%d/schedstat", p.pid, t.tid))
	t.armed, t.timer = false, 0 // exec has deleted it
	s.emit(PerfRecord{Kind: EventExec, PID: p.pid, TID: t.tid, Name: ThreadNames(p.pid)[t.tid]})
}

// sample looks at a stopped thread.
func (s *PtraceSampler) sample(t *tracee) {
	t.due = false
	registers, compat, err := sampleRegisters(t.tid)
	used := s.spend(t) // the kernel's number is exact only now
	if t.sched == nil {
		used = s.Period
	}
	p := t.process
	if err != nil || p.open == nil || used == 0 {
		return
	}
	sp, fp, pc := registers[sampleSP], registers[sampleFP], registers[samplePC]
	s.readMaps(p, pc)
	e := PerfRecord{Kind: EventSample, PID: p.pid, TID: t.tid, Registers: registers, Compat: compat, CPU: used}
	if m := p.maps.At(sp); m != nil && m.Read {
		stack := make([]byte, min(uint64(s.Stack), m.End-sp))
		if _, err := p.open.ReadAt(stack, int64(sp)); err == nil {
			e.Stack = stack
		}
	}
	e.UserChain = pointerChain(e.Stack, sp, fp, pc, compat)
	if now := time.Now(); now.Sub(t.named) > mapsAge {
		t.named = now
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/comm", p.pid, t.tid))
		if name := strings.TrimSuffix(string(b), "\n"); err == nil && name != t.name {
			t.name = name
			s.emit(PerfRecord{Kind: EventName, PID: p.pid, TID: t.tid, Name: name})
		}
	}
	s.emit(e)
}

// readMaps reads the memory map if it is old or does not have pc, and tells of
// the code that is new in it.
func (s *PtraceSampler) readMaps(p *sampledProcess, pc uint64) {
	now := time.Now()
	if now.Sub(p.mapped) < mapsAge && (p.maps.At(pc) != nil || now.Sub(p.mapped) < time.Millisecond) {
		return
	}
	maps, _, err := p.open.Maps()
	if err != nil {
		return
	}
	p.maps, p.mapped = maps, now
	var code []Mapping
	for _, m := range maps {
		if !m.Exec {
			continue
		}
		code = append(code, m)
		if !slices.Contains(p.told, m) {
			s.emit(PerfRecord{Kind: EventMap, PID: p.pid, Addr: m.Start, Len: m.End - m.Start, Offset: m.Offset, Path: m.Path})
		}
	}
	p.told = code
}

// pointerChain follows the frame pointers in a copy of a stack that begins at
// sp. Each points to that of the caller, and above it lies the return address.
func pointerChain(stack []byte, sp, fp, pc uint64, compat bool) []uint64 {
	word := uint64(8)
	load := binary.LittleEndian.Uint64
	if compat {
		word = 4
		load = func(b []byte) uint64 { return uint64(binary.LittleEndian.Uint32(b)) }
	}
	chain := []uint64{pc}
	for len(chain) < 128 && fp >= sp && fp%word == 0 && fp-sp < uint64(len(stack)) && uint64(len(stack))-(fp-sp) >= 2*word {
		at := fp - sp
		back := load(stack[at+word:])
		if back == 0 {
			break
		}
		chain = append(chain, back)
		next := load(stack[at:])
		if next <= fp {
			break
		}
		fp = next
	}
	return chain
}

func (s *PtraceSampler) emit(e PerfRecord) {
	e.Time = uint64(time.Now().UnixNano())
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Kind == EventSample && len(s.pending) >= mostPending {
		s.lost++
		return
	}
	s.pending = append(s.pending, e)
}

// letGo ends tracing: what the program has left behind runs on as if nothing had
// been. Threads can be let go only where they have stopped.
func (s *PtraceSampler) letGo() {
	for _, t := range s.tracees {
		_ = unix.PtraceInterrupt(t.tid)
	}
	for end := time.Now().Add(stopPatience); len(s.tracees) > 0 && time.Now().Before(end); time.Sleep(50 * time.Microsecond) {
		for tid, t := range s.tracees {
			id, exited := peek(unix.P_PID, tid, unix.WNOHANG)
			if exited && tid == s.main {
				s.remove(t)
				continue
			}
			if id != tid {
				continue
			}
			var status unix.WaitStatus
			if got, err := unix.Wait4(tid, &status, unix.WALL|unix.WNOHANG, nil); err != nil || got != tid {
				continue
			}
			if status.Stopped() {
				s.release(t, status)
			}
			s.remove(t)
		}
	}
	for _, t := range s.tracees {
		s.remove(t) // the kernel lets them go when footfall ends
	}
}

// release deletes the timer of a stopped thread and lets it go.
func (s *PtraceSampler) release(t *tracee, status unix.WaitStatus) {
	if event := int(status) >> 16; event == 0 || event == unix.PTRACE_EVENT_STOP {
		restartInterrupted(t.tid)
	}
	sig := uintptr(0)
	switch {
	case isEventStop(status):
		if t.timer != 0 && int(status)>>16 == unix.PTRACE_EVENT_STOP {
			_, _ = t.systemCall(nil, unix.SYS_TIMER_DELETE, func(uint64) []uint64 { return []uint64{t.timer - 1} })
		}
	case !s.ownSignal(t, status):
		sig = uintptr(status.StopSignal())
	}
	_ = ptrace(unix.PTRACE_DETACH, t.tid, 0, sig)
}

// Done is closed when the program has ended.
func (s *PtraceSampler) Done() <-chan struct{} { return s.done }

// Stop waits for the program's end.
func (s *PtraceSampler) Stop() { <-s.done }

// Close does what Stop does.
func (s *PtraceSampler) Close() { s.Stop() }

// CPUTime is the CPU time that all threads have used since sampling began.
func (s *PtraceSampler) CPUTime() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// Wait waits for so long, or until the process has ended.
func (s *PtraceSampler) Wait(timeout time.Duration) {
	select {
	case <-s.done:
	case <-time.After(timeout):
	}
}

// Read returns the events since the last time in their order.
func (s *PtraceSampler) Read(bool) []PerfRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	events := s.pending
	s.pending = nil
	if s.lost > 0 {
		events = append(events, PerfRecord{Kind: EventLost, Count: s.lost})
		s.lost = 0
	}
	return events
}
