package profile

import (
	"cmp"
	encoding "encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	pprof "github.com/google/pprof/profile"

	"footfall/binary/unwind"
	"footfall/formats/perfdata"
	"footfall/input"
)

// A perfReader turns a file of "perf record" into a profile.
type perfReader struct {
	file    *perfdata.Recording
	opens   opener
	history *history
	perfEvents
	images perfImages

	lost, throttled int64
	damage          error // where reading ended, nil: at the end
	perfTally
}

// A perfTally is what samples add up to: of a worker, then of all.
type perfTally struct {
	chains map[string]*perfChain
	// others are the samples of events that are not shown, by what --event calls them.
	others                                                   map[string]int64
	samples, torn, unwound, idle, deferred, damaged, foreign int64
	begin, end                                               uint64 // times of the first and of the last
}

// A perfChain is a chain of addresses, of a thread with a name in a process with
// some code mapped.
type perfChain struct {
	space   spaceAt
	thread  threadAt
	tid     int
	first   uint64 // time
	kernel  []uint64
	user    []uint64 // those of callers lie within the call
	guest   bool
	samples int64
	value   int64
}

// readPerfData reads a file that "perf record" wrote. kind is the event to show, "" to
// choose one.
func readPerfData(owners *input.Owners, name, kind string) (*Profile, error) {
	file, size, err := openSized(owners, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	f, err := perfdata.Open(file, size)
	if err != nil {
		return nil, err
	}
	// What was written by several threads (perf record --threads) is in files beside it.
	for n := 0; filepath.Base(name) == perfMember; n++ {
		part := fmt.Sprintf("%s.%d", name, n)
		file, size, err := openSized(owners, part)
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, err
		}
		defer file.Close()
		f.Add(filepath.Base(part), file, size)
	}
	return fromPerfData(f, kind, owners.OpenNamed)
}

// perfMember is the file that perf record writes into a directory, if it writes one.
const perfMember = "data"

func openSized(owners *input.Owners, name string) (*os.File, int64, error) {
	file, err := owners.OpenGiven(name)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}

// fromPerfData reads what perf wrote; programs and libraries are opened by opens.
func fromPerfData(f *perfdata.Recording, kind string, opens opener) (*Profile, error) {
	r := &perfReader{file: f, opens: opens}
	defer r.close()
	if err := r.scan(); err != nil {
		return nil, err
	}
	if err := r.choose(f.Events, kind); err != nil {
		return nil, err
	}
	r.images.history = r.history
	if err := r.read(); err != nil {
		return nil, err
	}
	return r.profile()
}

// scan finds the code of processes.
func (r *perfReader) scan() error {
	var changes []perfdata.SidebandEvent
	err := r.file.Scan(func(c perfdata.SidebandEvent) {
		switch c.Kind {
		case perfdata.Lost:
			r.lost += int64(c.Count)
		case perfdata.Throttled:
			r.throttled++
		default:
			changes = append(changes, c)
		}
	})
	if len(r.file.Events) == 0 {
		return err
	}
	r.damage = err
	r.history = newHistory(changes, r.file.BuildIDs, r.opens)
	return nil
}

// read decodes and unwinds the samples, on all CPUs.
func (r *perfReader) read() error {
	chunks := make(chan perfdata.Chunk, runtime.GOMAXPROCS(0))
	tallies := make([]perfTally, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for i := range tallies {
		wg.Add(1)
		go func() {
			defer wg.Done()
			w := r.newWorker(&tallies[i])
			for c := range chunks {
				w.decoder.Samples(c, w.sample)
			}
			w.damaged = w.decoder.Damaged
		}()
	}
	err := r.file.Chunks(func(c perfdata.Chunk) error {
		chunks <- c
		return nil
	})
	close(chunks)
	wg.Wait()
	var damaged *perfdata.FormatError
	if err != nil && !errors.As(err, &damaged) {
		return err
	}
	r.perfTally = tallies[0]
	for _, t := range tallies[1:] {
		r.add(t)
	}
	return nil
}

// add adds another tally.
func (t *perfTally) add(o perfTally) {
	for key, c := range o.chains {
		if own := t.chains[key]; own != nil {
			own.samples += c.samples
			own.value += c.value
			own.first = min(own.first, c.first)
		} else {
			t.chains[key] = c
		}
	}
	for kind, n := range o.others {
		t.others[kind] += n
	}
	t.samples += o.samples
	t.torn += o.torn
	t.unwound += o.unwound
	t.idle += o.idle
	t.deferred += o.deferred
	t.damaged += o.damaged
	t.foreign += o.foreign
	t.begin, t.end = min(t.begin, o.begin), max(t.end, o.end)
}

// A perfWorker decodes samples.
type perfWorker struct {
	*perfTally
	reader   *perfReader
	decoder  *perfdata.Decoder
	unwinder *unwinder
	space    spaceAt // of the sample that is unwound
	addrs    []uint64
	key      []byte
}

func (r *perfReader) newWorker(t *perfTally) *perfWorker {
	*t = perfTally{chains: make(map[string]*perfChain), others: make(map[string]int64), begin: ^uint64(0)}
	w := &perfWorker{perfTally: t, reader: r, decoder: r.file.NewDecoder()}
	w.unwinder = &unwinder{rows: make(map[rowKey]*unwind.Row), find: func(addr uint64) (*image, uint64) {
		return r.images.find(w.space.code, addr)
	}}
	return w
}

// sample counts the chain of a sample.
func (w *perfWorker) sample(s *perfdata.Sample) {
	if !slices.Contains(w.reader.shown, s.Event) {
		w.others[w.reader.name(s.Event)]++
		return
	}
	if s.PID == 0 && s.TID == 0 && s.Event.Nanoseconds() {
		w.idle++ // a CPU without work has a clock, too
		return
	}
	w.samples++
	w.begin, w.end = min(w.begin, s.Time), max(w.end, s.Time)
	if s.Deferred {
		w.deferred++
	}
	w.count(s, w.user(s))
}

// lowest is below all code: the kernel lets nobody map the first page.
const lowest = 1 << 12

// user returns the chain of the program's code; addresses of callers lie within the
// call. It is used again for the next sample.
func (w *perfWorker) user(s *perfdata.Sample) []uint64 {
	w.space = w.reader.history.space(s.PID, s.Time)
	if s.Registers != nil && len(s.Stack) > 0 {
		if u := w.unwind(s); u != nil {
			return u
		}
	}
	w.addrs = w.addrs[:0]
	for i, addr := range s.User {
		if i > 0 && addr < lowest {
			break // frame pointers of code that has none
		}
		if i > 0 {
			addr--
		}
		w.addrs = append(w.addrs, addr)
	}
	return w.addrs
}

// unwind finds the user's chain in the copy of the stack; nil if that is of a CPU
// whose registers are not known.
func (w *perfWorker) unwind(s *perfdata.Sample) []uint64 {
	if !s.IsX86() {
		w.foreign++
		return nil
	}
	// The kernel's order is ax bx cx dx si di bp sp ip, flags and segments, r8 to r15.
	registers := append(slices.Clone(s.Registers[:9]), s.Registers[16:24]...)
	addrs, whole := w.unwinder.chain(registers, s.Compat, s.Stack, nil)
	w.unwound++
	if !whole {
		w.torn++
	}
	return addrs
}

// count adds the sample to those with the same chain.
func (w *perfWorker) count(s *perfdata.Sample, user []uint64) {
	thread := w.reader.history.thread(s.TID, s.Time)
	k := encoding.LittleEndian.AppendUint32(w.key[:0], w.space.id)
	k = encoding.LittleEndian.AppendUint32(k, thread.id)
	k = encoding.LittleEndian.AppendUint32(k, uint32(s.TID))
	k = encoding.LittleEndian.AppendUint32(k, uint32(len(s.Kernel))<<1|map[bool]uint32{true: 1}[s.Guest])
	for _, a := range s.Kernel {
		k = encoding.LittleEndian.AppendUint64(k, a)
	}
	for _, a := range user {
		k = encoding.LittleEndian.AppendUint64(k, a)
	}
	w.key = k
	c := w.chains[string(k)]
	if c == nil {
		c = &perfChain{space: w.space, thread: thread, tid: s.TID, first: s.Time, kernel: slices.Clone(s.Kernel), user: slices.Clone(user), guest: s.Guest}
		w.chains[string(k)] = c
	}
	c.first = min(c.first, s.Time)
	c.samples++
	c.value += int64(min(s.Period, 1<<44)) // more is damage
}

func (r *perfReader) close() { r.images.close() }

// profile gives the chains names.
func (r *perfReader) profile() (*Profile, error) {
	event := r.shown[0]
	if r.samples == 0 {
		if r.damage != nil {
			return nil, fmt.Errorf("no samples of %s before the damage: %w", r.name(event), r.damage)
		}
		were := ""
		if others := r.otherEvents(r.others); len(others) > 0 {
			were = "; sampled were: " + strings.Join(others, ", ")
		}
		return nil, fmt.Errorf("no samples of %s%s", r.name(event), were)
	}
	b := newBuilder()
	if !event.Nanoseconds() {
		b.measure(event.Kind(), "count")
	} else if event.Kind() == "offcpu-time" {
		b.measure(event.Kind(), "nanoseconds")
	}
	b.p.DurationNanos = int64(min(r.end-r.begin, 1<<62))
	total := int64(0)
	chains := make([]*perfChain, 0, len(r.chains))
	for _, c := range r.chains {
		chains = append(chains, c)
		total += c.value
	}
	slices.SortFunc(chains, func(x, y *perfChain) int {
		return cmp.Or(cmp.Compare(x.first, y.first), cmp.Compare(x.tid, y.tid), slices.Compare(x.user, y.user), slices.Compare(x.kernel, y.kernel))
	})
	b.p.Period = max(1, (total+r.samples/2)/r.samples)
	if i := r.program(chains); i != nil {
		b.mapping(i) // readers of pprof's format take the first one for the program
	}
	named := perfNames{b: b, r: r, at: make(map[spaceAddr]*pprof.Location)}
	for _, c := range chains {
		b.add(named.chain(c), strings.TrimSpace(fmt.Sprintf("%s %d", c.thread.name, c.tid)), 0, c.value)
	}
	p, err := b.finish(r.notes())
	if err != nil {
		return nil, err
	}
	p.samples = r.samples
	if !slices.ContainsFunc(r.shown, (*perfdata.SampledEvent).Callers) {
		p.NoCallers = "perf recorded no callers; perf record --call-graph dwarf does"
	}
	return p, nil
}

// program is the file of the outermost user code that most samples are in.
func (r *perfReader) program(chains []*perfChain) *image {
	values := make(map[*image]int64)
	var most *image
	for _, c := range chains {
		lowest := c.space.code
		for lowest != nil && lowest.left != nil {
			lowest = lowest.left
		}
		if lowest == nil || !strings.HasPrefix(lowest.of.file.path, "/") {
			continue
		}
		i := r.images.image(lowest.of.file)
		if values[i] += c.value; most == nil || values[i] > values[most] {
			most = i
		}
	}
	return most
}

// perfNames finds the locations of addresses.
type perfNames struct {
	b  *builder
	r  *perfReader
	at map[spaceAddr]*pprof.Location
}

type spaceAddr struct {
	code *region // nil: the kernel
	addr uint64
}

func (n *perfNames) chain(c *perfChain) []*pprof.Location {
	var all []*pprof.Location
	if c.guest {
		return []*pprof.Location{n.b.named("[guest]", "")}
	}
	for _, addr := range c.kernel {
		key := spaceAddr{nil, addr}
		if n.at[key] == nil {
			n.at[key] = n.b.at(n.r.images.kernelImage(n.r.file), n.r.images.kernelAddr(addr))
		}
		all = append(all, n.at[key])
	}
	for _, addr := range c.user {
		key := spaceAddr{c.space.code, addr}
		if n.at[key] == nil || key.code == nil {
			i, at := n.r.images.find(c.space.code, addr)
			if i == nil {
				i, at = n.r.images.unknown(), addr
			}
			n.at[key] = n.b.at(i, at)
			if key.code == nil { // of a process of which nothing is known
				all = append(all, n.at[key])
				delete(n.at, key)
				continue
			}
		}
		all = append(all, n.at[key])
	}
	if len(all) == 0 {
		all = append(all, n.b.at(n.r.images.unknown(), 0))
	}
	return all
}

// notes says what is missing.
func (r *perfReader) notes() []string {
	var notes []string
	say := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if len(r.others) > 0 {
		shown := r.name(r.shown[0])
		if n := r.others[shown]; n > 0 {
			say("%d samples are of another event %s, which counts the same again, and left out", n, shown)
		}
		if others := r.otherEvents(r.others); len(others) > 0 {
			say("shown: event %s; --event shows another one: %s", shown, strings.Join(others, ", "))
		}
	}
	if r.damage != nil {
		say("damaged, what comes before is shown: %v", r.damage)
	}
	if r.file.Killed {
		say("perf record did not get to the end of the file: which builds the programs are of is not known")
	}
	if r.lost > 0 {
		say("%d records were lost while perf sampled (%d samples are there); a lower frequency (perf record -F) or larger buffers (-m) lose less", r.lost, r.samples)
	}
	if r.throttled > 0 {
		say("the kernel paused sampling %d times, as it took too much time: some is missing; perf record with a lower -F", r.throttled)
	}
	if r.idle > 0 {
		say("%d samples of CPUs without work (swapper) are left out", r.idle)
	}
	if r.damaged > 0 {
		say("%d samples are damaged, or of no known event, and left out", r.damaged)
	}
	if r.torn > 0 {
		say("%d of %d call chains end early: the stack is deeper than what was copied (perf record --call-graph dwarf,SIZE), or the program is not here or has no .eh_frame", r.torn, r.unwound)
	}
	if r.foreign > 0 {
		say("%d call chains have no callers: stacks are unwound only of x86 programs; perf record --call-graph fp", r.foreign)
	}
	if r.deferred > 0 {
		say("%d samples have their callers in later records (--call-graph fp,defer), which are not read; perf record --call-graph fp", r.deferred)
	}
	return append(notes, r.images.notes()...)
}
