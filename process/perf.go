//go:build linux

package process

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Sampler looks, many times a second, at what the threads of a process
// execute, by the kernel's event "cpu-clock": a thread is looked at when it has
// used another slice of CPU time. Threads and processes that start later are
// followed. The process notices nothing.
type Sampler struct {
	Period time.Duration // of CPU time between two samples of a thread
	Kernel bool          // samples are taken in the kernel, too
	Stack  int           // bytes of stacks that are copied

	cpus    []*cpuRing
	events  []int // file descriptors
	pending []PerfRecord
	touched map[stackPage]bool
}

// SampleOptions say how to sample.
type SampleOptions struct {
	Frequency int // samples for a second of CPU time
	// Stack is how many bytes of a thread's stack to copy, with its registers;
	// 0 for none.
	Stack int
}

// A PerfRecordKind tells what happened.
type PerfRecordKind int

// Kinds of events.
const (
	EventSample PerfRecordKind = iota
	EventMap                   // code was mapped: Addr, Len, Offset, Path
	EventName                  // a thread has a new name: Name
	EventExec                  // a process has become another program: Name
	EventFork                  // Parent made a thread or process
	EventExit
	EventLost // Count samples were lost
)

// A PerfRecord is something that happened in the process.
type PerfRecord struct {
	Kind     PerfRecordKind
	PID, TID int
	Time     uint64 // on the monotonic clock, in nanoseconds

	Parent            int // its process
	Name, Path        string
	Addr, Len, Offset uint64
	Count             uint64

	KernelChain []uint64      // addresses, the innermost first
	UserChain   []uint64      // likewise, by frame pointers
	Registers   []uint64      // in the order of UserRegisters; nil: a thread of the kernel
	Compat      bool          // it runs 32-bit code
	CPU         time.Duration // of a PtraceSampler: that the sample stands for, or that a thread has used since
	Stack       []byte        // from the stack pointer on
}

// A cpuRing is the buffer that the kernel fills with the events of one CPU.
//
//	page 0          struct perf_event_mmap_page: data_head @1024, data_tail @1032
//	pages 1..2^n    records, around the end
type cpuRing struct {
	cpu  int
	fd   int // of the event that it belongs to
	mem  []byte
	data []byte
}

// A PerfError tells that the kernel does not let us sample, and what is needed.
type PerfError struct {
	PID  int
	Need string
	Err  error
}

func (e *PerfError) Error() string {
	return fmt.Sprintf("process %d: cannot be sampled (perf_event_open: %v): %s", e.PID, e.Err, e.Need)
}

func (e *PerfError) Unwrap() error { return e.Err }

const sampleType = unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_CALLCHAIN

// NewSampler starts to sample the process.
func NewSampler(pid int, o SampleOptions) (*Sampler, error) {
	cpus, err := onlineCPUs()
	if err != nil {
		return nil, err
	}
	raiseFileLimit()
	s := &Sampler{Kernel: true, Stack: o.Stack}
	err = s.start(pid, cpus, o.Frequency)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		// Users may usually sample what is theirs, but not in the kernel.
		s.Close()
		s = &Sampler{Stack: o.Stack}
		err = s.start(pid, cpus, o.Frequency)
	}
	if n := s.room(); err == nil && s.Stack > 0 && n/s.Stack < leastRoom {
		// Users have small buffers (kernel.perf_event_mlock_kb).
		s.Close()
		s = &Sampler{Kernel: s.Kernel, Stack: max(n/leastRoom&^7, 1<<10)}
		err = s.start(pid, cpus, o.Frequency)
	}
	if err != nil {
		s.Close()
		return nil, samplerError(pid, err)
	}
	return s, nil
}

// leastRoom is how many samples a buffer must have room for, so that none are
// lost while footfall waits for its turn.
const leastRoom = 64

// room is the size of the smallest buffer.
func (s *Sampler) room() int {
	least := 0
	for _, r := range s.cpus {
		if least == 0 || len(r.data) < least {
			least = len(r.data)
		}
	}
	return least
}

func samplerError(pid int, err error) error {
	switch {
	case errors.Is(err, unix.ESRCH), errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("no process %d", pid)
	case errors.Is(err, unix.ENOSYS):
		return &PerfError{pid, "the kernel was built without perf events, or a container forbids them", err}
	case errors.Is(err, unix.EMFILE):
		return &PerfError{pid, "too many threads for the limit of open files: ulimit -n", err}
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		need := "run footfall as root or with CAP_PERFMON, or as the user of the process"
		b, readErr := os.ReadFile("/proc/sys/kernel/perf_event_paranoid")
		if n, _ := strconv.Atoi(strings.TrimSpace(string(b))); readErr == nil && n > 2 {
			need = fmt.Sprintf("kernel.perf_event_paranoid is %d: run footfall as root or with CAP_PERFMON, or as root: sysctl kernel.perf_event_paranoid=2", n)
		}
		return &PerfError{pid, need + " (containers need the capability and a seccomp profile that allows perf_event_open)", err}
	}
	return err
}

// start opens the events of all threads.
func (s *Sampler) start(pid int, cpus []int, frequency int) error {
	return s.watch(pid, cpus, s.attributes(frequency))
}

// NewWatcher returns a Sampler that takes no samples: it tells which threads,
// processes and programs there are.
func NewWatcher(pid int) (*Sampler, error) {
	cpus, err := onlineCPUs()
	if err != nil {
		return nil, err
	}
	raiseFileLimit()
	attr := &unix.PerfEventAttr{
		Type:        unix.PERF_TYPE_SOFTWARE,
		Config:      unix.PERF_COUNT_SW_DUMMY,
		Sample_type: sampleType,
		Bits: unix.PerfBitInherit | unix.PerfBitComm | unix.PerfBitCommExec | unix.PerfBitTask | unix.PerfBitSampleIDAll | unix.PerfBitWatermark |
			unix.PerfBitUseClockID | unix.PerfBitExcludeHv | unix.PerfBitExcludeKernel | unix.PerfBitExcludeCallchainKernel,
		Clockid: unix.CLOCK_MONOTONIC,
	}
	attr.Size = uint32(unsafe.Sizeof(*attr))
	s := new(Sampler)
	if err := s.watch(pid, cpus, attr); err != nil {
		s.Close()
		return nil, samplerError(pid, err)
	}
	return s, nil
}

func (s *Sampler) attributes(frequency int) *unix.PerfEventAttr {
	s.Period = time.Duration(1e9 / frequency)
	attr := &unix.PerfEventAttr{
		Type:        unix.PERF_TYPE_SOFTWARE,
		Config:      unix.PERF_COUNT_SW_CPU_CLOCK,
		Sample:      uint64(s.Period),
		Sample_type: sampleType,
		Bits: unix.PerfBitInherit | unix.PerfBitMmap | unix.PerfBitMmap2 | unix.PerfBitComm | unix.PerfBitCommExec | unix.PerfBitTask |
			unix.PerfBitSampleIDAll | unix.PerfBitWatermark | unix.PerfBitUseClockID | unix.PerfBitExcludeHv,
		Clockid: unix.CLOCK_MONOTONIC,
	}
	attr.Size = uint32(unsafe.Sizeof(*attr))
	if !s.Kernel {
		attr.Bits |= unix.PerfBitExcludeKernel | unix.PerfBitExcludeCallchainKernel
	}
	if s.Stack > 0 && registerMask != 0 {
		attr.Sample_type |= unix.PERF_SAMPLE_REGS_USER | unix.PERF_SAMPLE_STACK_USER
		attr.Sample_regs_user = registerMask
		attr.Sample_stack_user = uint32(s.Stack)
	}
	return attr
}

// watch opens the event for all threads.
func (s *Sampler) watch(pid int, cpus []int, attr *unix.PerfEventAttr) error {
	opened := make(map[int]bool)
	some := false
	for {
		tids, err := threads(pid)
		if err != nil {
			return err
		}
		added := false
		for _, tid := range tids {
			if opened[tid] {
				continue
			}
			opened[tid], added = true, true
			switch err := s.open(attr, tid, cpus); {
			case err == nil:
				some = true
			case !errors.Is(err, unix.ESRCH): // else it has ended, as the first may have before the others
				return err
			}
		}
		if !added && !some {
			return unix.ESRCH
		}
		if !added {
			return nil
		}
		// Threads that were born meanwhile: those of a thread that had its event
		// inherited it, and there is a record of that.
		s.drain()
		for _, e := range s.pending {
			if e.Kind == EventFork {
				opened[e.TID] = true
			}
		}
	}
}

// open opens the events of one thread, one for each CPU: only such can be
// inherited and have a buffer.
func (s *Sampler) open(attr *unix.PerfEventAttr, tid int, cpus []int) error {
	for _, cpu := range cpus {
		i := slices.IndexFunc(s.cpus, func(r *cpuRing) bool { return r.cpu == cpu })
		attr.Wakeup = 1 << 16
		fd, err := unix.PerfEventOpen(attr, tid, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if errors.Is(err, unix.ENODEV) {
			continue // the CPU has gone
		}
		if err != nil {
			return err
		}
		s.events = append(s.events, fd)
		if i >= 0 {
			if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_OUTPUT, s.cpus[i].fd); err != nil {
				return err
			}
			continue
		}
		ring, err := newRing(fd, cpu, s.ringSize(attr, len(cpus)))
		if err != nil {
			return err
		}
		s.cpus = append(s.cpus, ring)
	}
	if len(s.cpus) == 0 {
		return unix.ENODEV
	}
	return nil
}

// Sizes of the buffers: the least and the most of a CPU, and the most of all.
const (
	leastRing = 8 << 20
	mostRing  = 32 << 20
	mostRings = 256 << 20
)

// ringSize is a buffer for half a second: for so long we may wait for our turn
// on a busy machine.
func (s *Sampler) ringSize(attr *unix.PerfEventAttr, cpus int) int {
	if attr.Config == unix.PERF_COUNT_SW_DUMMY {
		return 1 << 16 // there are few events
	}
	size := leastRing
	for size < mostRing && 2*size*cpus <= mostRings && int64(attr.Sample)*int64(size) < int64(s.Stack)*int64(time.Second/2) {
		size *= 2
	}
	return size
}

// newRing maps the buffer of so many bytes, or what each CPU's may have for a user
// without privileges.
func newRing(fd, cpu, most int) (*cpuRing, error) {
	page := os.Getpagesize()
	for size := most; ; size /= 2 {
		if fair := lockable() - page; size < leastRing && size > fair && fair >= 16*page {
			continue // more for one CPU would be less for another
		}
		mem, err := unix.Mmap(fd, 0, page+size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err == nil {
			return &cpuRing{cpu, fd, mem, mem[page:]}, nil
		}
		if size <= 4*page {
			return nil, fmt.Errorf("map a buffer of %d bytes: %w", size, err)
		}
	}
}

// lockable is how much memory a user may have in the buffers of one CPU.
func lockable() int {
	b, _ := os.ReadFile("/proc/sys/kernel/perf_event_mlock_kb")
	kb, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		kb = 516 // the kernel's default
	}
	return kb << 10
}

// Close ends sampling.
func (s *Sampler) Close() {
	for _, r := range s.cpus {
		_ = unix.Munmap(r.mem)
	}
	for _, fd := range s.events {
		unix.Close(fd)
	}
	s.cpus, s.events = nil, nil
}

// Stop takes no more samples; those there are can still be read.
func (s *Sampler) Stop() {
	for _, fd := range s.events {
		_ = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_DISABLE, 0)
	}
}

// CPUTime is the CPU time that all threads have used since sampling began.
func (s *Sampler) CPUTime() time.Duration {
	var sum uint64
	var b [8]byte
	for _, fd := range s.events {
		if n, err := unix.Read(fd, b[:]); err == nil && n == len(b) {
			sum += binary.NativeEndian.Uint64(b[:])
		}
	}
	return time.Duration(sum)
}

// Wait waits until there is much to read, or for so long.
func (s *Sampler) Wait(timeout time.Duration) {
	fds := make([]unix.PollFd, 0, len(s.cpus))
	for _, r := range s.cpus {
		fds = append(fds, unix.PollFd{Fd: int32(r.fd), Events: unix.POLLIN})
	}
	n, _ := unix.Poll(fds, int(timeout.Milliseconds()))
	if n <= 0 {
		return
	}
	for _, fd := range fds {
		if fd.Revents&unix.POLLHUP == 0 {
			return
		}
	}
	time.Sleep(timeout) // the process has ended: nothing wakes us
}

// Read returns the events since the last time in their order. The last few
// may be kept until the next time, as other CPUs may have had earlier ones;
// all tells that there is no next time.
func (s *Sampler) Read(all bool) []PerfRecord {
	before := uint64(0)
	if n := len(s.pending); n > 0 {
		before = s.pending[n-1].Time
	}
	s.drain()
	slices.SortStableFunc(s.pending, func(a, b PerfRecord) int {
		if a.Time < b.Time {
			return -1
		}
		return int(min(a.Time-b.Time, 1))
	})
	n := len(s.pending)
	if !all {
		// What came before the last reading began is complete.
		for n > 0 && s.pending[n-1].Time > before {
			n--
		}
	}
	events := s.pending[:n:n]
	s.pending = slices.Clone(s.pending[n:])
	return events
}

func (s *Sampler) drain() {
	n := len(s.pending)
	for _, r := range s.cpus {
		s.pending = r.read(s.pending)
	}
	for i := range s.pending[n:] {
		s.touch(&s.pending[n+i])
	}
}

// read appends the records in the ring to events and lets the kernel have the
// place.
func (r *cpuRing) read(events []PerfRecord) []PerfRecord {
	head := atomic.LoadUint64((*uint64)(unsafe.Pointer(&r.mem[1024])))
	tailAt := (*uint64)(unsafe.Pointer(&r.mem[1032]))
	tail := *tailAt
	size := uint64(len(r.data))
	for head-tail >= 8 {
		at := tail % size
		// type u32, misc u16, size u16: never around the end
		kind, misc := binary.NativeEndian.Uint32(r.data[at:]), binary.NativeEndian.Uint16(r.data[at+4:])
		n := uint64(binary.NativeEndian.Uint16(r.data[at+6:]))
		if n < 8 || n > head-tail {
			break
		}
		b := make([]byte, n-8)
		k := copy(b, r.data[min(at+8, size):])
		copy(b[k:], r.data)
		if e, ok := parseRecord(kind, misc, b); ok {
			events = append(events, e)
		}
		tail += n
	}
	atomic.StoreUint64(tailAt, head)
	return events
}

// A fields reads the fields of a record; missing ones are zero.
type fields struct{ b []byte }

func (f *fields) take(n int) []byte {
	if n > len(f.b) {
		f.b = nil
		return make([]byte, min(n, 8))
	}
	b := f.b[:n]
	f.b = f.b[n:]
	return b
}

func (f *fields) u32() int    { return int(int32(binary.NativeEndian.Uint32(f.take(4)))) }
func (f *fields) u64() uint64 { return binary.NativeEndian.Uint64(f.take(8)) }

// text reads a string that is filled up with zeros to the end of the record.
func (f *fields) text() string {
	s, _, _ := strings.Cut(string(f.b), "\x00")
	return s
}

// The kernel marks the parts of a call chain by numbers that are no addresses.
const (
	contextMax    = ^uint64(4095) + 1
	contextKernel = ^uint64(128) + 1
	contextUser   = ^uint64(512) + 1
)

// parseRecord decodes a record, see perf_event_open(2). All but samples end
// with: pid u32, tid u32, time u64.
func parseRecord(kind uint32, misc uint16, b []byte) (PerfRecord, bool) {
	f := &fields{b}
	if kind == unix.PERF_RECORD_SAMPLE {
		return parseSample(f), true
	}
	var e PerfRecord
	if len(b) < 16 {
		return e, false
	}
	trailer := &fields{b[len(b)-16:]}
	f.b = b[:len(b)-16]
	e.PID, e.TID, e.Time = trailer.u32(), trailer.u32(), trailer.u64()
	switch kind {
	case unix.PERF_RECORD_MMAP2:
		e.Kind, e.PID, e.TID = EventMap, f.u32(), f.u32()
		e.Addr, e.Len, e.Offset = f.u64(), f.u64(), f.u64()
		f.take(4 + 4 + 8 + 8 + 4 + 4) // device, inode, generation, protection, flags
		e.Path = f.text()
	case unix.PERF_RECORD_COMM:
		e.Kind, e.PID, e.TID = EventName, f.u32(), f.u32()
		if misc&unix.PERF_RECORD_MISC_COMM_EXEC != 0 {
			e.Kind = EventExec
		}
		e.Name = f.text()
	case unix.PERF_RECORD_FORK, unix.PERF_RECORD_EXIT:
		e.Kind, e.PID, e.Parent, e.TID = EventFork, f.u32(), f.u32(), f.u32()
		if kind == unix.PERF_RECORD_EXIT {
			e.Kind = EventExit
		}
	case unix.PERF_RECORD_LOST:
		e.Kind = EventLost
		f.u64()
		e.Count = f.u64()
	case unix.PERF_RECORD_LOST_SAMPLES:
		e.Kind, e.Count = EventLost, f.u64()
	default:
		return e, false
	}
	return e, true
}

// parseSample decodes
//
//	pid u32, tid u32, time u64
//	number u64, so many addresses and marks
//	with a copy of the stack:
//	abi u64 (0: no registers, 1: 32 bits, 2: 64 bits), registers
//	size u64, bytes, and if there are any, how many of them are filled u64
func parseSample(f *fields) PerfRecord {
	e := PerfRecord{Kind: EventSample, PID: f.u32(), TID: f.u32(), Time: f.u64()}
	chain := &e.UserChain
	n := f.u64()
	for range min(n, uint64(len(f.b)/8)) {
		switch a := f.u64(); {
		case a == contextKernel:
			chain = &e.KernelChain
		case a == contextUser:
			chain = &e.UserChain
		case a >= contextMax: // of a guest
		default:
			*chain = append(*chain, a)
		}
	}
	if len(f.b) == 0 {
		return e
	}
	abi := f.u64()
	if abi != 0 {
		e.Compat = abi == 1
		for range UserRegisters {
			e.Registers = append(e.Registers, f.u64())
		}
	}
	if size := f.u64(); size > 0 && size <= uint64(len(f.b)) {
		e.Stack = f.take(int(size))
		e.Stack = e.Stack[:min(f.u64(), size)]
	}
	return e
}

func threads(pid int) ([]int, error) {
	entries, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		return nil, err
	}
	var tids []int
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids, nil
}

// ThreadNames returns the names of the threads of a process.
func ThreadNames(pid int) map[int]string {
	tids, _ := threads(pid)
	names := make(map[int]string)
	for _, tid := range tids {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/comm", pid, tid)); err == nil {
			names[tid] = strings.TrimSuffix(string(b), "\n")
		}
	}
	return names
}

// onlineCPUs reads a list like 0-3,5.
func onlineCPUs() ([]int, error) {
	b, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, err
	}
	var cpus []int
	for _, part := range strings.Split(strings.TrimSpace(string(b)), ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		from, err1 := strconv.Atoi(low)
		to, err2 := strconv.Atoi(high)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("/sys/devices/system/cpu/online: %w", err)
		}
		for c := from; c <= to; c++ {
			cpus = append(cpus, c)
		}
	}
	return cpus, nil
}

// raiseFileLimit allows as many open files as may be: each thread needs one for
// each CPU.
func raiseFileLimit() {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && limit.Cur < limit.Max {
		limit.Cur = limit.Max
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	}
}

// Alive tells whether there is such a process and it has not ended.
func Alive(pid int) bool {
	dir, err := os.Open("/proc/" + strconv.Itoa(pid))
	if err != nil {
		return false
	}
	p := &Process{PID: pid, dir: dir}
	defer p.Close()
	st, err := p.stat()
	return err == nil && st.state != 'Z' && st.state != 'X'
}
