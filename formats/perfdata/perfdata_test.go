package perfdata

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

// A writer writes values in an order of bytes.
type writer struct {
	order binary.AppendByteOrder
	b     []byte
}

func (w *writer) u16(v uint16) *writer { w.b = w.order.AppendUint16(w.b, v); return w }
func (w *writer) u32(v ...uint32) *writer {
	for _, v := range v {
		w.b = w.order.AppendUint32(w.b, v)
	}
	return w
}
func (w *writer) u64(v ...uint64) *writer {
	for _, v := range v {
		w.b = w.order.AppendUint64(w.b, v)
	}
	return w
}
func (w *writer) text(s string, fill int) *writer {
	w.b = append(w.b, s...)
	w.b = append(w.b, make([]byte, fill-len(s))...)
	return w
}

// A testFile is what a file has.
type testFile struct {
	order  binary.AppendByteOrder
	events []testEvent
	records,
	features []byte // features: their table and what it names
	flags uint64
	pipe  bool
}

type testEvent struct {
	kind                                          uint32
	config, period, sampleType, readFormat, flags uint64
	branches, userRegisters                       uint64
	stack                                         uint32
	ids                                           []uint64
}

func (e testEvent) attribute(o binary.AppendByteOrder) []byte {
	flags := e.flags
	if o == binary.AppendByteOrder(binary.BigEndian) {
		flags = bits.Reverse64(flags)
	}
	w := &writer{order: o}
	w.u32(e.kind, 104).u64(e.config, e.period, e.sampleType, e.readFormat, flags).u32(0, 0).u64(0, 0)
	return w.u64(e.branches, e.userRegisters).u32(e.stack, 0).u64(0).b
}

func recordOf(o binary.AppendByteOrder, kind uint32, misc uint16, body []byte) []byte {
	w := &writer{order: o}
	return append(w.u32(kind).u16(misc).u16(uint16(8+len(body))).b, body...)
}

func (f *testFile) record(kind uint32, misc uint16, body []byte) {
	f.records = append(f.records, recordOf(f.order, kind, misc, body)...)
}

// bytes writes the file.
func (f *testFile) bytes() []byte {
	w := &writer{order: f.order}
	w.u64(0x32454c4946524550) // "PERFILE2"
	if f.pipe {
		w.u64(16)
		for _, e := range f.events {
			ids := (&writer{order: f.order}).u64(e.ids...).b
			w.b = append(w.b, recordOf(f.order, recordEvent, 0, append(e.attribute(f.order), ids...))...)
		}
		return append(w.b, f.records...)
	}
	const attribute = 104
	ids := uint64(headerSize)
	numbers := &writer{order: f.order}
	attributes := &writer{order: f.order}
	for _, e := range f.events {
		attributes.b = append(attributes.b, e.attribute(f.order)...)
		attributes.u64(ids+uint64(len(numbers.b)), 8*uint64(len(e.ids)))
		numbers.u64(e.ids...)
	}
	at := ids + uint64(len(numbers.b))
	data := at + uint64(len(attributes.b))
	w.u64(headerSize, attribute+16, at, uint64(len(attributes.b)), data, uint64(len(f.records)), 0, 0, f.flags, 0, 0, 0)
	return slices.Concat(w.b, numbers.b, attributes.b, f.records, f.features)
}

// scanned opens the file and returns what Scan tells, and the samples.
func scanned(t *testing.T, b []byte) (f *Recording, changes []SidebandEvent, samples []Sample, err error) {
	t.Helper()
	f, err = Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, nil, nil, err
	}
	err = f.Scan(func(c SidebandEvent) { changes = append(changes, c) })
	d := f.NewDecoder()
	again := f.Chunks(func(c Chunk) error {
		d.Samples(c, func(s *Sample) {
			own := *s
			own.Kernel, own.User, own.Stack = slices.Clone(s.Kernel), slices.Clone(s.User), slices.Clone(s.Stack)
			samples = append(samples, own)
		})
		return nil
	})
	if fmt.Sprint(again) != fmt.Sprint(err) && len(f.Events) > 0 {
		t.Errorf("the second reading ends with %v, the first with %v", again, err)
	}
	return f, changes, samples, err
}

const allIDs = sampleTID | sampleTime | sampleID | sampleStream | sampleCPU | sampleIdentifier

// trailer is the end of records that are no samples, of allIDs.
func trailer(w *writer, pid, tid uint32, time, id uint64) []byte {
	return w.u32(pid, tid).u64(time, id, 99).u32(1, 0).u64(id).b
}

// fullExample has samples with every value that there is, and all records that are of
// interest.
func fullExample(o binary.AppendByteOrder) *testFile {
	f := &testFile{order: o}
	const trailers, frequency = 1 << 18, 1 << 10
	all := uint64(1<<25 - 1)
	f.events = []testEvent{
		{kind: 1, config: 0, period: 4000, flags: trailers | frequency, sampleType: all, readFormat: 0x1f, userRegisters: 0xff0fff, stack: 16, ids: []uint64{7, 8}},
		{kind: 0, config: 0, period: 1000, flags: trailers, sampleType: allIDs | sampleIP, readFormat: 0x1f, ids: []uint64{9}},
	}
	w := func() *writer { return &writer{order: o} }
	f.record(recordName, 1<<13, trailer(w().u32(5, 5).text("prog", 8), 5, 5, 10, 7))
	f.record(recordMap, modeUser, trailer(w().u32(5, 5).u64(0x1000, 0x2000, 0x100).text("/bin/prog", 16), 5, 5, 11, 9))
	id := append([]byte{20, 0, 0, 0}, bytes.Repeat([]byte{0xab}, 20)...)
	m := w().u32(5, 5).u64(0x7000, 0x1000, 0)
	m.b = append(m.b, id...)
	f.record(recordMap2, modeUser|1<<14, trailer(m.u32(5, 2).text("/lib/x.so", 16), 5, 5, 12, 7))
	f.record(recordFork, 0, trailer(w().u32(6, 5, 6, 5).u64(13), 5, 5, 13, 7))
	f.record(recordLost, 0, trailer(w().u64(7, 3), 5, 5, 14, 7))
	f.record(recordLostSamples, 0, trailer(w().u64(4), 5, 5, 14, 7))
	f.record(recordThrottle, 0, trailer(w().u64(15, 7, 7), 5, 5, 15, 7))
	f.record(recordSymbol, 0, trailer(w().u64(0xffffffffc0000000).u32(64).u16(1).u16(0).text("bpf_prog_x", 16), 0, 0, 16, 7))
	f.record(recordExit, 0, trailer(w().u32(6, 5, 6, 5).u64(17), 6, 6, 17, 7))
	f.record(200, 0, []byte("a kind of the future"))

	s := w().u64(7, 0xffff8000). // identifier, ip
					u32(5, 6).u64(20, 0xadd, 7, 99).u32(1, 0).u64(250). // tid time addr id stream cpu period
					u64(2, 100, 101, 250, 7, 0, 0, 8, 0).               // a group of two, of which one has come further
					u64(6, markKernel, 0xffff8000, 0xffff8010, markUser, 0x1111, 0x1222).
					u32(4).text("raw", 4). // 4+4 bytes
					u64(1, 0x1, 0x2, 0x3)  // a branch
	s.u64(2) // registers of 64 bits: 12 + 8
	for i := range uint64(20) {
		s.u64(0x100 + i)
	}
	s.u64(16).text("stack...........", 16).u64(8)
	s.u64(1, 2, 3) // weight, data source, transaction
	s.u64(0)       // no registers of interrupted code
	s.u64(4, 8).text("auxiliar", 8).u64(5, 6, 7)
	f.record(recordSample, modeKernel, s.b)
	f.record(recordSample, modeUser, w().u64(9, 0x1333).u32(5, 5).u64(21, 9, 99).u32(0, 0).b)
	return f
}

func TestRecords(t *testing.T) {
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		for _, pipe := range []bool{false, true} {
			example := fullExample(order)
			example.pipe = pipe
			f, changes, samples, err := scanned(t, example.bytes())
			if err != nil {
				t.Fatal(err)
			}
			if names := []string{f.Events[0].Kind(), f.Events[1].Kind()}; !slices.Equal(names, []string{"cpu-clock", "cycles"}) || f.Pipe != pipe {
				t.Errorf("events %v, pipe %v", names, f.Pipe)
			}
			want := []SidebandEvent{
				{Kind: Executed, PID: 5, TID: 5, Time: 10, Name: "prog"},
				{Kind: Mapped, PID: 5, TID: 5, Time: 11, Path: "/bin/prog", Addr: 0x1000, Len: 0x2000, Offset: 0x100},
				{Kind: Mapped, PID: 5, TID: 5, Time: 12, Path: "/lib/x.so", Addr: 0x7000, Len: 0x1000, BuildID: strings.Repeat("ab", 20)},
				{Kind: Forked, PID: 6, TID: 6, Time: 13, Parent: 5, ParentTID: 5},
				{Kind: Lost, Time: 14, Count: 3},
				{Kind: Lost, Time: 14, Count: 4},
				{Kind: Throttled},
				{Kind: KernelCode, Time: 16, Name: "bpf_prog_x", Addr: 0xffffffffc0000000, Len: 64},
				{Kind: Ended, PID: 6, TID: 6, Time: 17, Parent: 5, ParentTID: 5},
			}
			if diff := cmp.Diff(want, changes); diff != "" {
				t.Error(diff)
			}
			if len(samples) != 2 {
				t.Fatalf("%d samples", len(samples))
			}
			a, b := samples[0], samples[1]
			if got := fmt.Sprintf("%s %d/%d at %d period %d kernel %x user %x stack %s", a.Event.Name, a.PID, a.TID, a.Time, a.Period, a.Kernel, a.User, a.Stack); got !=
				"cpu-clock 5/6 at 20 period 250 kernel [ffff8000 ffff8010] user [1111 1222] stack stack..." {
				t.Error(got)
			}
			if r := a.registers; r[0] != 0x100 || r[11] != 0x10b || r[16] != 0x10c || r[23] != 0x113 || a.Compat || !a.IsX86() {
				t.Errorf("registers %x", r)
			}
			if got := fmt.Sprintf("%s %d/%d at %d period %d kernel %x user %x", b.Event.Name, b.PID, b.TID, b.Time, b.Period, b.Kernel, b.User); got !=
				"cycles 5/5 at 21 period 1000 kernel [] user [1333]" {
				t.Error(got)
			}
		}
	}
}

// TestCallStacksOfBranches is what --call-graph lbr writes, which takes a CPU of Intel.
func TestCallStacksOfBranches(t *testing.T) {
	f := &testFile{order: binary.LittleEndian, events: []testEvent{{sampleType: sampleIP | sampleTID | sampleCallchain | sampleBranches, branches: branchCallStack | branchIndex | branchCounters}}}
	w := &writer{order: f.order}
	w.u64(0x1005).u32(1, 1).u64(4, markKernel, 0xffff8000, markUser, 0x1005)
	w.u64(2, 0).u64(0x2004, 0x1000, 0).u64(0x3004, 0x2000, 0).u64(0, 0)
	f.record(recordSample, modeUser, w.b)
	_, _, samples, err := scanned(t, f.bytes())
	if err != nil || len(samples) != 1 {
		t.Fatal(len(samples), err)
	}
	if got := fmt.Sprintf("%x %x", samples[0].Kernel, samples[0].User); got != "[ffff8000] [1000 2005 3005]" {
		t.Error(got)
	}
}

func TestFeatures(t *testing.T) {
	f := fullExample(binary.LittleEndian)
	w := func() *writer { return &writer{order: f.order} }
	id := w().u32(0xffffffff).text("\x01\x23\x45", 20).u32(0).text("/bin/prog", 12)
	table := recordOf(f.order, recordBuildID, modeUser, id.b)
	sized := w().u32(0xffffffff).text("\xff\xfe", 20).u32(2).text("[kernel.kallsyms]", 20)
	table = append(table, recordOf(f.order, recordBuildID, modeKernel|1<<15, sized.b)...)
	release := w().u32(8).text("6.1.0", 8).b
	names := w().u32(2, 104)
	for i, name := range []string{"cpu-clock:pppH", "cpu_core/cycles/P"} {
		names.b = append(names.b, f.events[i].attribute(f.order)...)
		names.u32(0, 20).text(name, 20)
	}
	f.flags = 1<<featureBuildIDs | 1<<featureRelease | 1<<featureEvents | 1<<9
	end := uint64(len(f.bytes()))
	place, rest := w(), []byte(nil)
	for _, b := range [][]byte{table, release, nil, names.b} { // in the order of bits
		place.u64(end+4*16+uint64(len(rest)), uint64(len(b)))
		rest = append(rest, b...)
	}
	f.features = append(place.b, rest...)
	got, _, _, err := scanned(t, f.bytes())
	if err != nil {
		t.Fatal(err)
	}
	want := []BuildID{{Path: "/bin/prog", ID: "01234500000000000000000000000000"}, {Path: "[kernel.kallsyms]", ID: "fffe", Kernel: true}}
	if diff := cmp.Diff(want, got.BuildIDs); diff != "" || got.Release != "6.1.0" {
		t.Errorf("release %s, build IDs %s", got.Release, diff)
	}
	if e := got.Events; e[0].Name != "cpu-clock:pppH" || e[0].Kind() != "cpu-clock" || e[1].Name != "cpu_core/cycles/P" || e[1].Kind() != "cycles" {
		t.Errorf("events %+v %+v", e[0], e[1])
	}
}

func TestKinds(t *testing.T) {
	for _, c := range []struct {
		kind   uint32
		config uint64
		name   string
		want   string
	}{
		{0, 0, "cycles:ppp", "cycles"}, {0, 4<<32 | 1, "cpu_atom/instructions/u", "instructions"}, {1, 1, "task-clock:u", "task-clock"},
		{4, 0x1c2, "r1c2:u", "r1c2"}, {4, 0x3c, "cpu/event=0x3c,umask=0/", "cpu/event=0x3c,umask=0/"}, {4, 0xd1, "mem_load_retired.l1_miss:pp", "mem_load_retired.l1_miss"},
		{2, 314, "sched:sched_switch", "sched:sched_switch"}, {1, 10, "offcpu-time", "offcpu-time"}, {3, 0, "L1-dcache-loads", "L1-dcache-loads"},
	} {
		e := &SampledEvent{Type: c.kind, Config: c.config, Name: c.name}
		if got := e.Kind(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// compressed puts all records into compressed ones, as one stream with parts that end
// amid records.
func compressed(t testing.TB, f *testFile, kind uint32) *testFile {
	own := *f
	own.records = nil
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	for b := f.records; len(b) > 0; {
		n := min(len(b), 100)
		if _, err := z.Write(b[:n]); err != nil {
			t.Fatal(err)
		}
		z.Flush()
		b = b[n:]
		body := slices.Clone(out.Bytes())
		if kind == recordCompressed2 {
			body = append((&writer{order: own.order}).u64(uint64(len(body))).b, body...)
			body = append(body, make([]byte, -len(body)&7)...)
		}
		own.record(kind, 0, body)
		out.Reset()
		own.record(68, 0, nil) // a round is finished
	}
	return &own
}

func TestCompressed(t *testing.T) {
	plain := fullExample(binary.LittleEndian)
	_, wantChanges, wantSamples, _ := scanned(t, plain.bytes())
	for _, kind := range []uint32{recordCompressed, recordCompressed2} {
		b := compressed(t, plain, kind).bytes()
		_, changes, samples, err := scanned(t, b)
		if err != nil || !cmp.Equal(wantChanges, changes) || len(samples) != len(wantSamples) || !slices.Equal(samples[0].User, wantSamples[0].User) {
			t.Errorf("kind %d: %v, %d changes, %d samples", kind, err, len(changes), len(samples))
		}
		at := bytes.Index(b, []byte{0x28, 0xb5, 0x2f, 0xfd}) // of zstd
		b[at+40] ^= 0xff
		if _, _, _, err := scanned(t, b); err == nil || !strings.Contains(err.Error(), "compressed records") {
			t.Errorf("damaged: %v", err)
		}
	}
}

// TestDamage cuts a file everywhere, and changes it.
func TestDamage(t *testing.T) {
	example := fullExample(binary.LittleEndian)
	whole := example.bytes()
	begin := len(whole) - len(example.records)
	_, all, _, _ := scanned(t, whole)
	for n := range whole {
		_, changes, _, err := scanned(t, whole[:n])
		var damaged *FormatError
		switch {
		case err == nil && n < begin, err != nil && !errors.As(err, &damaged):
			t.Fatalf("%d of %d bytes: %v", n, len(whole), err)
		case len(changes) > len(all) || !slices.Equal(changes, all[:len(changes)]):
			t.Fatalf("%d of %d bytes: %v", n, len(whole), changes)
		}
	}
	killed := slices.Clone(whole)
	copy(killed[48:], make([]byte, 8))
	f, changes, samples, err := scanned(t, killed)
	if err != nil || !f.Killed || len(changes) != len(all) || len(samples) != 2 {
		t.Errorf("killed: %v, %d changes, %d samples", err, len(changes), len(samples))
	}
	_, _, _, err = scanned(t, killed[:len(killed)-3])
	if want := fmt.Sprintf("offset %#x: the file ends amid a record: 61 bytes of it are there", len(killed)-64); fmt.Sprint(err) != want {
		t.Errorf("%v, want %s", err, want)
	}
	zeros := append(slices.Clone(killed), make([]byte, 32)...)
	_, changes, _, err = scanned(t, zeros)
	if want := fmt.Sprintf("offset %#x: a record of 0 bytes, expected at least 8", len(killed)); fmt.Sprint(err) != want || len(changes) != len(all) {
		t.Errorf("%v, want %s", err, want)
	}
	old := append([]byte("PERFFILE"), whole[8:]...)
	if _, err := Open(bytes.NewReader(old), int64(len(old))); err == nil || !Is(old) {
		t.Error("version 1 is read")
	}
}

// TestParts has records in files of their own, of which one is damaged.
func TestParts(t *testing.T) {
	example := fullExample(binary.LittleEndian)
	records := example.records
	example.records = nil
	example.record(68, 0, nil)
	b := example.bytes()
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	parts := [][]byte{records[:len(records)-3], compressed(t, &testFile{order: example.order, records: records}, recordCompressed).records}
	for i, part := range parts {
		f.Add(fmt.Sprintf("data.%d", i), bytes.NewReader(part), int64(len(part)))
	}
	changes, samples := 0, 0
	err = f.Scan(func(SidebandEvent) { changes++ })
	if want := fmt.Sprintf("data.0: offset %#x: the file ends amid a record: 61 bytes of it are there", len(records)-64); fmt.Sprint(err) != want {
		t.Errorf("%v, want %s", err, want)
	}
	d := f.NewDecoder()
	_ = f.Chunks(func(c Chunk) error {
		d.Samples(c, func(*Sample) { samples++ })
		return nil
	})
	if changes != 2*9 || samples != 1+1 { // where no counter has come further is no sample
		t.Errorf("%d changes, %d samples", changes, samples)
	}
}

// TestFollowedBy has records that are followed by more than their size tells.
func TestFollowedBy(t *testing.T) {
	for _, kind := range []uint32{recordAuxTrace, recordTracing} {
		f := fullExample(binary.LittleEndian)
		rest := f.records
		f.records = nil
		const n = 3 << 20
		f.record(kind, 0, (&writer{order: f.order}).u64(n).b)
		f.records = slices.Concat(f.records, bytes.Repeat([]byte{1}, n), rest)
		_, changes, samples, err := scanned(t, f.bytes())
		if err != nil || len(changes) != 9 || len(samples) != 2 {
			t.Errorf("kind %d: %v, %d changes, %d samples", kind, err, len(changes), len(samples))
		}
		cut := f.bytes()[:2<<20]
		if _, _, _, err := scanned(t, cut); err == nil || !strings.Contains(err.Error(), "before its last record does") {
			t.Errorf("kind %d, cut: %v", kind, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		example := fullExample(order)
		f.Add(example.bytes())
		f.Add(compressed(f, example, recordCompressed).bytes())
		example.pipe = true
		f.Add(example.bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _, _ = scanned(t, b)
	})
}
