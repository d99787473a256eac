//go:build linux

package profile

import (
	"context"
	encoding "encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	pprof "github.com/google/pprof/profile"

	"footfall/binary/unwind"
	"footfall/input"
	"footfall/process"
)

// RecordOptions say how to sample a process.
type RecordOptions struct {
	Frequency int // samples for a second of CPU time
	// FramePointers makes the kernel follow the frame pointers, instead of
	// copying stacks and following the rules in .eh_frame.
	FramePointers bool
	// Owners are those who may say where programs and their debug information are.
	Owners *input.Owners
}

// stackSize is how many bytes of a stack a sample has.
const stackSize = 32 << 10

// Limits of the frequency. The kernel's own is kernel.perf_event_max_sample_rate.
const (
	MinFrequency = 1
	MaxFrequency = 20000
)

// A sampler is a *process.Sampler or a *process.PtraceSampler.
type sampler interface {
	Wait(time.Duration)
	Read(all bool) []process.PerfRecord
	CPUTime() time.Duration
	Stop()
	Close()
}

// A recorder turns the events of a process into a profile.
type recorder struct {
	sampler   sampler
	refused   error         // by the kernel, which is why threads are stopped
	interval  time.Duration // between samples
	inKernel  bool          // samples are of the kernel's code, too
	stack     int           // bytes of stacks that are copied
	options   RecordOptions
	pid       int // of the first process
	processes map[int]*space
	images    map[string]*image
	threads   map[int]string
	unwinder  *unwinder

	chains map[string]*chain
	last   map[int]*chain // of threads whose samples know what they stand for
	order  []*chain
	key    []byte

	sampled                     time.Duration // by samples that know what they stand for
	samples, lost, torn, noCode int64
	byFrames                    bool
	begin                       time.Time
}

// A chain is a chain of calls of a thread, and how often it was seen.
type chain struct {
	places []codeAt
	thread string
	count  int64
	cpu    time.Duration // of samples that know what they stand for
}

// codeAt is code of an image, as its file has the address.
type codeAt struct {
	image *image
	addr  uint64
}

// Record samples a running process until it ends or ctx does. If the process counts its
// calls, the profile has those of the same time.
func Record(ctx context.Context, pid int, o RecordOptions) (*Profile, error) {
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no process %d", pid)
	}
	r := newRecorder(o)
	calls := counting{name: countsOf(pid), owners: o.Owners}
	if err := r.attach(pid); err != nil {
		return nil, err
	}
	defer r.close()
	calls.begin()
	r.pid = pid
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil && process.Alive(pid) {
			time.Sleep(20 * time.Millisecond)
		}
		calls.end()
	}()
	r.until(ended)
	p, err := r.profile()
	if err != nil {
		return nil, err
	}
	return calls.addTo(p)
}

// RecordCommand starts the program, samples it until it ends, and returns the
// error of cmd.Wait besides the profile. failed tells that the program was not
// started.
//
// Where the kernel does not let us sample, the program is stopped for each sample.
func RecordCommand(cmd *exec.Cmd, o RecordOptions) (p *Profile, exit error, failed error) {
	r := newRecorder(o)
	ended := make(chan struct{})
	if refused := process.MaySample(); refused != nil && process.CanStop {
		s, err := process.RunSampled(cmd, process.SampleOptions{Frequency: o.Frequency, Stack: stackSize})
		if err != nil {
			return nil, nil, fmt.Errorf("%w; stopping it for each sample is not possible either: %w", refused, err)
		}
		r.sampler, r.refused, r.interval, r.inKernel, r.stack = s, refused, s.Period, true, stackSize
		go func() {
			<-s.Done()
			exit = cmd.Wait()
			close(ended)
		}()
	} else {
		if err := process.StartStopped(cmd, r.attach); err != nil {
			return nil, nil, err
		}
		go func() {
			exit = cmd.Wait()
			close(ended)
		}()
	}
	defer r.close()
	r.pid = cmd.Process.Pid
	r.until(ended)
	p, failed = r.profile()
	return p, exit, failed
}

func newRecorder(o RecordOptions) *recorder {
	return &recorder{
		options: o, processes: make(map[int]*space), images: make(map[string]*image), chains: make(map[string]*chain), last: make(map[int]*chain),
		threads: make(map[int]string), begin: time.Now(), unwinder: &unwinder{rows: make(map[rowKey]*unwind.Row)},
		byFrames: o.FramePointers || process.UserRegisters == 0,
	}
}

// attach has the kernel sample a process.
func (r *recorder) attach(pid int) error {
	so := process.SampleOptions{Frequency: r.options.Frequency, Stack: stackSize}
	if r.byFrames {
		so.Stack = 0
	}
	sampler, err := process.NewSampler(pid, so)
	if err != nil {
		return err
	}
	r.sampler, r.interval, r.inKernel, r.stack = sampler, sampler.Period, sampler.Kernel, sampler.Stack
	// What is mapped already; events tell of the rest.
	s := &space{pid: pid}
	if err := s.readMaps(); err != nil {
		r.close()
		return err
	}
	r.processes[pid] = s
	for tid, name := range process.ThreadNames(pid) {
		r.threads[tid] = name
	}
	return nil
}

func (r *recorder) close() {
	r.sampler.Close()
	for _, i := range r.images {
		i.close()
	}
}

// mostWaiting is how many bytes of stacks may wait for their evaluation; what comes
// then waits in the kernel's buffers.
const mostWaiting = 256 << 20

// until reads events until the channel is closed. Reading goes on while events
// are evaluated: to open the files of a program takes longer than the kernel's
// buffers last.
func (r *recorder) until(ended <-chan struct{}) {
	readings := make(chan []process.PerfRecord, 1024)
	var waiting atomic.Int64
	go func() {
		defer close(readings)
		for {
			select {
			case <-ended:
				r.sampler.Stop()
				readings <- r.sampler.Read(true)
				return
			default:
			}
			r.sampler.Wait(20 * time.Millisecond)
			if waiting.Load() > mostWaiting {
				time.Sleep(time.Millisecond)
				continue
			}
			if events := r.sampler.Read(false); len(events) > 0 {
				waiting.Add(stackBytes(events))
				readings <- events
			}
		}
	}()
	for events := range readings {
		for _, e := range events {
			r.event(e)
		}
		waiting.Add(-stackBytes(events))
	}
}

func stackBytes(events []process.PerfRecord) int64 {
	n := 0
	for _, e := range events {
		n += len(e.Stack)
	}
	return int64(n)
}

func (r *recorder) event(e process.PerfRecord) {
	switch e.Kind {
	case process.EventSample:
		r.sample(e)
	case process.EventMap:
		r.space(e.PID).add(span{e.Addr, e.Addr + e.Len, e.Offset, e.Path})
	case process.EventName:
		r.threads[e.TID] = e.Name
	case process.EventExec:
		r.threads[e.TID] = e.Name
		r.processes[e.PID] = &space{pid: e.PID}
	case process.EventFork:
		if e.PID != e.Parent {
			s := *r.space(e.Parent)
			s.pid, s.spans = e.PID, append([]span(nil), s.spans...)
			r.processes[e.PID] = &s
		}
		if _, ok := r.threads[e.TID]; !ok {
			r.threads[e.TID] = r.threads[e.Parent]
		}
	case process.EventExit:
		if c := r.last[e.TID]; c != nil && e.CPU > 0 {
			c.cpu += e.CPU
			r.sampled += e.CPU
		}
		delete(r.last, e.TID)
	case process.EventLost:
		r.lost += int64(e.Count)
	}
}

func (r *recorder) space(pid int) *space {
	s := r.processes[pid]
	if s == nil {
		s = &space{pid: pid}
		_ = s.readMaps() // without, its code has no names
		r.processes[pid] = s
	}
	return s
}

// sample counts the chain of a sample.
func (r *recorder) sample(e process.PerfRecord) {
	s := r.space(e.PID)
	r.samples++
	var places []codeAt
	for _, addr := range e.KernelChain {
		places = append(places, codeAt{r.kernel(), addr})
	}
	addrs := e.UserChain
	if !r.byFrames && e.Registers != nil {
		r.unwinder.find = func(addr uint64) (*image, uint64) { return r.find(s, addr) }
		var whole bool
		addrs, whole = r.unwinder.chain(e.Registers, e.Compat, e.Stack, e.UserChain)
		if !whole {
			r.torn++
		}
	}
	for i, addr := range addrs {
		if r.byFrames && i > 0 {
			addr-- // into the call
		}
		image, at := r.find(s, addr)
		if image == nil {
			r.noCode++
			image, at = r.unknown(), addr
		}
		places = append(places, codeAt{image, at})
	}
	if len(places) == 0 {
		places = []codeAt{{r.unknown(), 0}}
	}
	r.count(places, e)
}

func (r *recorder) count(places []codeAt, e process.PerfRecord) {
	r.key = encoding.LittleEndian.AppendUint32(r.key[:0], uint32(e.TID))
	for _, p := range places {
		r.key = encoding.LittleEndian.AppendUint64(r.key, p.addr)
		r.key = append(r.key, p.image.key...)
	}
	c := r.chains[string(r.key)]
	if c == nil {
		c = &chain{places: places, thread: fmt.Sprintf("%s %d", r.threads[e.TID], e.TID)}
		r.chains[string(r.key)] = c
		r.order = append(r.order, c)
	}
	c.count++
	if e.CPU > 0 {
		c.cpu += e.CPU
		r.sampled += e.CPU
		r.last[e.TID] = c
	}
}

// find returns the image with the code at an address of a process, and the
// address as its file has it.
func (r *recorder) find(s *space, addr uint64) (*image, uint64) {
	m := s.at(addr)
	if m == nil {
		return nil, 0
	}
	i := r.image(s, m)
	if i == nil || i.file == nil {
		return i, addr
	}
	at, ok := i.file.CodeAddress(addr - m.start + m.offset)
	if !ok {
		return nil, 0
	}
	return i, at
}

// image opens the file of a mapping, once.
func (r *recorder) image(s *space, m *span) *image {
	key := m.path
	stubs, made := isStubs(key), isMade(key)
	switch {
	case stubs:
		key = stubsName
	case made:
		key = fmt.Sprintf("%s %d", generatedKey, s.pid)
	}
	if i, ok := r.images[key]; ok {
		return i
	}
	var i *image
	var err error
	switch {
	case stubs:
		i = &image{problem: "made at run time"}
	case made:
		i = generated(s.pid)
		r.images[key] = i
		return i
	case m.path == "[vdso]":
		i, err = openVDSO()
	case strings.HasPrefix(m.path, "/"):
		// As the process sees it, if it lives; it may be in a container.
		if i, err = openImageBy(fmt.Sprintf("/proc/%d/root%s", s.pid, m.path), true, r.options.Owners.OpenNamed); err != nil {
			i, err = openImageBy(m.path, true, r.options.Owners.OpenNamed)
		}
	default:
		i = &image{problem: "made at run time"}
	}
	if err != nil {
		i = &image{problem: err.Error()}
	}
	i.key, i.path = key, key
	r.images[key] = i
	return i
}

// program is the program that was sampled first: what lies lowest in its process.
func (r *recorder) program() *image {
	s := r.processes[r.pid]
	if s == nil {
		return nil
	}
	for i, m := range s.spans {
		if strings.HasPrefix(m.path, "/") {
			return r.image(s, &s.spans[i])
		}
	}
	return nil
}

func (r *recorder) unknown() *image {
	const key = "unknown"
	if r.images[key] == nil {
		r.images[key] = &image{key: key, path: key}
	}
	return r.images[key]
}

func (r *recorder) kernel() *image {
	const key = "kernel"
	if r.images[key] == nil {
		r.images[key] = &image{key: key, path: key, functions: kernelFunctions()}
	}
	return r.images[key]
}

// profile gives the chains names.
func (r *recorder) profile() (*Profile, error) {
	if r.samples == 0 {
		if r.lost > 0 {
			return nil, fmt.Errorf("all %d samples were lost: the machine is too busy; try a lower --frequency", r.lost)
		}
		return nil, fmt.Errorf("no samples: the program used less than %v of CPU time; a higher --frequency sees more", r.interval)
	}
	for _, i := range r.images {
		if i.maker != 0 {
			i.nameGenerated()
		}
	}
	b := newBuilder()
	b.p.TimeNanos = r.begin.UnixNano()
	b.p.DurationNanos = time.Since(r.begin).Nanoseconds()
	b.p.Period = r.period()
	if i := r.program(); i != nil {
		b.mapping(i) // readers of pprof's format take the first one for the program
	}
	for _, c := range r.order {
		locations := make([]*pprof.Location, len(c.places))
		for i, p := range c.places {
			locations[i] = b.at(p.image, p.addr)
		}
		b.add(locations, c.thread, 0, r.value(c, b.p.Period))
	}
	p, err := b.finish(r.notes())
	if err == nil {
		p.Processes = slices.Sorted(maps.Keys(r.processes))
	}
	return p, err
}

// period is the CPU time that a sample stands for. The kernel skips samples
// where the machine is late, and loses some where we are; it knows the sum of
// the time nevertheless. Only where the kernel's part is left out is there no
// sum to compare with.
func (r *recorder) period() int64 {
	if all := r.sampler.CPUTime().Nanoseconds(); r.inKernel && all > 0 {
		return max(1, (all+r.samples/2)/r.samples)
	}
	return int64(r.interval)
}

// value is the CPU time that a chain has. Samples that know what they stand for do
// not know of threads that were never seen.
func (r *recorder) value(c *chain, period int64) int64 {
	if r.sampled == 0 {
		return c.count * period
	}
	all := max(r.sampler.CPUTime(), r.sampled)
	return int64(float64(c.cpu) * float64(all) / float64(r.sampled))
}

// notes says what is missing.
func (r *recorder) notes() []string {
	var notes []string
	if r.refused != nil {
		var perf *process.PerfError
		if errors.As(r.refused, &perf) {
			notes = append(notes, fmt.Sprintf("perf_event_open: %v: sampled by timers of the program's threads instead, %d times; the kernel's part of the time shows where it was called; for more, %s", perf.Err, r.samples, perf.Need))
		}
	}
	if r.lost > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d samples were lost; a lower --frequency loses none", r.lost, r.lost+r.samples))
	}
	switch {
	case r.byFrames:
		notes = append(notes, "callers were found by frame pointers: code without them (-fomit-frame-pointer, the default at -O1 and above) hides its callers")
	case r.torn > 0:
		notes = append(notes, fmt.Sprintf("%d of %d call chains end early: the stack is deeper than the %d KB that were copied, or code has neither .eh_frame nor frame pointers", r.torn, r.samples, r.stack>>10))
	}
	if !r.inKernel {
		notes = append(notes, "time in the kernel is not counted: that needs root, CAP_PERFMON or kernel.perf_event_paranoid of 1 or less")
	}
	for _, i := range r.images {
		if i.problem != "" && i.file != nil {
			notes = append(notes, fmt.Sprintf("%s: %s: its functions have no names", i.path, i.problem))
		}
	}
	return notes
}
