//go:build linux

package profile

import (
	"bufio"
	"bytes"
	encoding "encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	pprof "github.com/google/pprof/profile"
	"golang.org/x/sys/unix"

	"footfall/binary"
	"footfall/formats/perfdata"
	"footfall/input"
	"footfall/process"
	"footfall/process/needs"
)

// perfFiles are files of perf, of the program in testdata/perf.
const perfFiles = "../testdata/perf/"

// perfHome has that program where perf keeps copies, in the directory of a new user.
func perfHome(t testing.TB) {
	t.Helper()
	home := t.TempDir()
	id := buildID(perfFiles + "program")
	dir := filepath.Join(home, ".debug", ".build-id", id[:2], id[2:])
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	copyFile(t, perfFiles+"program", filepath.Join(dir, "elf"))
	t.Setenv("HOME", home)
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// perfSamples decodes and unwinds the samples of a file, one by one: whose they are, and
// "FILE ADDRESS" of each frame.
func perfSamples(t *testing.T, name string, chains bool) map[string][]string {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	info, _ := file.Stat()
	f, err := perfdata.Open(file, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	r := &perfReader{file: f, opens: input.Open}
	if err := r.scan(); err != nil || r.damage != nil {
		t.Fatal(err, r.damage)
	}
	r.images.history = r.history
	t.Cleanup(r.close)
	samples := make(map[string][]string)
	w := r.newWorker(new(perfTally))
	err = f.Chunks(func(c perfdata.Chunk) error {
		w.decoder.Samples(c, func(s *perfdata.Sample) {
			var frames []string
			for _, addr := range s.Kernel {
				frames = append(frames, fmt.Sprintf("kernel %x", addr))
			}
			for _, addr := range w.user(s) {
				i, at := r.images.find(w.space.code, addr)
				switch {
				case i != nil && i.file != nil && chains:
					// perf has offsets in the file.
					frames = append(frames, fmt.Sprintf("%s %x", filepath.Base(i.path), i.file.FileOffset(at)))
				case i != nil:
					frames = append(frames, fmt.Sprintf("%s %x", filepath.Base(i.path), addr))
				default:
					frames = append(frames, fmt.Sprintf("[unknown] %x", addr))
				}
			}
			who := fmt.Sprintf("%s %d %d %s %d", r.history.thread(s.TID, s.Time).name, s.TID, s.Time, s.Event.Kind(), s.Period)
			samples[who] = frames
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return samples
}

// perfScript has perf print its samples.
func perfScript(t *testing.T, name string) []byte {
	t.Helper()
	cmd := exec.Command("perf", "script", "-i", name, "--no-inline", "--ns", "-F", "comm,tid,time,period,event,ip,sym,dso")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("perf script: %v: %s", err, stderr.Bytes())
	}
	return out
}

// readScript reads what perf script prints, to the form of perfSamples.
func readScript(out []byte) map[string][]string {
	// name tid seconds.nanoseconds: period event:
	header := regexp.MustCompile(`^(.*?) +(\d+) +(\d+)\.(\d+): +(\d+) ([^:]+):`)
	samples := make(map[string][]string)
	who := ""
	s := bufio.NewScanner(bytes.NewReader(out))
	for s.Scan() {
		line := s.Text()
		if m := header.FindStringSubmatch(line); m != nil {
			seconds, _ := strconv.Atoi(m[3])
			ns, _ := strconv.Atoi(m[4])
			who = fmt.Sprintf("%s %s %d %s %s", strings.TrimSpace(m[1]), m[2], seconds*1e9+ns, strings.TrimSpace(m[6]), m[5])
			samples[who] = nil
			// Without a chain the place is on the same line.
			line = strings.TrimLeft(line[len(m[0]):], "pukhPGH: ")
		}
		part := strings.Fields(line)
		if len(part) < 2 {
			continue
		}
		file := filepath.Base(strings.Trim(part[len(part)-1], "()"))
		if strings.HasPrefix(file, "[kernel") {
			file = "kernel"
		}
		samples[who] = append(samples[who], file+" "+part[0])
	}
	return samples
}

// sameFrames tells whether perf found the same frames. It may have found fewer, but not
// none, where it knows less about code. By frame pointers it gives the addresses after
// the calls.
func sameFrames(ours, perfs []string) bool {
	for len(perfs) > 0 && strings.HasPrefix(perfs[len(perfs)-1], "[unknown]") {
		perfs = perfs[:len(perfs)-1] // what it takes for an address
	}
	if len(ours) < len(perfs) {
		return false
	}
	for i, p := range perfs {
		file, addr, _ := strings.Cut(p, " ")
		n, _ := strconv.ParseUint(addr, 16, 64)
		if ours[i] != p && !(i > 0 && ours[i] == fmt.Sprintf("%s %x", file, n-1)) {
			return false
		}
	}
	return len(perfs) > 0 || len(ours) == 0
}

// comparePerf compares all samples with what perf script printed of them; without
// chains only with who was where. Few enough may differ.
func comparePerf(t *testing.T, name string, script []byte, chains bool, enough int) {
	t.Helper()
	perfs := readScript(script)
	ours := perfSamples(t, name, bytes.Contains(script, []byte("\n\t")))
	if len(ours) != len(perfs) || len(ours) < 5 {
		t.Errorf("%s: %d samples, perf has %d", name, len(ours), len(perfs))
	}
	wrong, whole := 0, 0
	for who, frames := range perfs {
		own, ok := ours[who]
		if !chains {
			own, frames = own[:min(len(own), 1)], frames[:min(len(frames), 1)]
		}
		if !ok || !sameFrames(own, frames) {
			if wrong++; wrong < 5 {
				t.Logf("%s: %s\n perf %v\n ours %v", name, who, frames, own)
			}
		}
		if len(own) == len(frames) {
			whole++
		}
	}
	if wrong > enough || whole < len(ours)/4 {
		t.Errorf("%s: %d of %d samples differ, %d have as many frames", name, wrong, len(perfs), whole)
	}
}

// TestPerfScript compares the files in testdata with what perf said of them.
func TestPerfScript(t *testing.T) {
	perfHome(t)
	for _, name := range []string{"pointers", "stacks", "pipe", "events"} {
		script, err := os.ReadFile(perfFiles + name + ".script")
		if err != nil {
			t.Fatal(err)
		}
		comparePerf(t, perfFiles+name+".data", script, true, 0)
	}
}

// TestConfirmPerfRecord lets perf sample programs here, and compares.
func TestConfirmPerfRecord(t *testing.T) {
	if _, err := exec.LookPath("perf"); err != nil {
		needs.Skip(t, needs.Perf, "Debian's package is linux-perf")
	}
	if err := process.MaySample(); err != nil {
		needs.Skip(t, needs.Perf, err)
	}
	if testing.Short() {
		t.Skip("perf takes a second to start and to end")
	}
	t.Setenv("HOME", t.TempDir()) // perf keeps copies there
	split := build(t, "gcc-12", "-O2", "-g", "-fno-omit-frame-pointer", "testdata/split.c")
	threads := build(t, "g++-12", "-O2", "-g", "-pthread", "-fno-omit-frame-pointer", "testdata/perfthreads.cc")
	dir := t.TempDir()
	// Of programs without frame pointers or symbols perf unwinds less, or wrongly.
	commands := map[string][]string{
		"pointers":  {"--call-graph", "fp", split, "0.2"},
		"stacks":    {"--call-graph", "dwarf", threads},
		"threads":   {"-z", "-g", threads},
		"pipeline":  {"--call-graph", "dwarf,2048", "sh", "-c", "seq 1 300000 | sort -rn | tail -n 1; exec ls -lR /usr/include >/dev/null"},
		"no-chains": {split, "0.2", "2"},
	}
	var all sync.WaitGroup
	for name, command := range commands {
		args := append([]string{"record", "-q", "-F", "499", "-e", "cpu-clock", "-o", filepath.Join(dir, name)}, command...)
		all.Go(func() {
			if out, err := exec.Command("perf", args...).CombinedOutput(); err != nil {
				t.Errorf("perf %s: %v\n%s", strings.Join(args, " "), err, out)
			}
		})
	}
	all.Wait()
	for name := range commands {
		file := filepath.Join(dir, name)
		script := perfScript(t, file)
		// Frame pointers of code that has none may point anywhere, and perf knows some code wrongly.
		comparePerf(t, file, script, name != "pipeline", len(readScript(script))/50)
	}
}

// TestPerfReport compares the sums.
func TestPerfReport(t *testing.T) {
	perfHome(t)
	out, err := os.ReadFile(perfFiles + "pointers.report")
	if err != nil {
		t.Fatal(err)
	}
	p, err := readPerfData(nil, perfFiles+"pointers.data", "")
	if err != nil {
		t.Fatal(err)
	}
	if d := p.DurationNanos; d < 50e6 || d > 60e9 { // of 0.2 s of CPU time
		t.Errorf("it took %d ns", d)
	}
	g := NewGraph(p)
	found := 0
	for _, m := range regexp.MustCompile(`(?m)^ +([\d.]+)% +([\d.]+)% +\[\.\] (\w+)`).FindAllStringSubmatch(string(out), -1) {
		i := slices.IndexFunc(g.Nodes, func(n *Node) bool { return n.Func.Name == m[3] })
		if i < 0 {
			t.Errorf("%s is missing", m[3])
			continue
		}
		found++
		n := g.Nodes[i]
		if got := fmt.Sprintf("%.2f %.2f", 100*float64(n.Total)/float64(g.Total), 100*float64(n.Self)/float64(g.Total)); got != m[1]+" "+m[2] {
			t.Errorf("%s: %s, perf has %s %s", m[3], got, m[1], m[2])
		}
	}
	if found < 5 {
		t.Errorf("%d functions in what perf prints:\n%s", found, out)
	}
}

// asCycles makes the samples of a file those of cycles.
func asCycles(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	at := int(b[24]) | int(b[25])<<8
	copy(b[at:], make([]byte, 4)) // PERF_TYPE_HARDWARE, 0
	cycles := filepath.Join(t.TempDir(), "cycles.data")
	if err := os.WriteFile(cycles, b, 0o666); err != nil {
		t.Fatal(err)
	}
	return cycles
}

// TestEventsAreNoTime shows cycles, which have no seconds, in all formats.
func TestEventsAreNoTime(t *testing.T) {
	perfHome(t)
	cycles := asCycles(t, perfFiles+"pointers.data")
	p, err := readPerfData(nil, cycles, "")
	if err != nil {
		t.Fatal(err)
	}
	r := &View{Profile: p, Graph: NewGraph(p), Title: "cycles"}
	for output, want := range map[string]string{
		"text":       "cycles 192.000M in 48 samples\n",
		"callers":    "turn, 192.000M in itself",
		"source":     "176.000M",
		"json":       `"measure": "cycles",`,
		"callgrind":  "events: cycles Calls",
		"collapsed":  "turn ",
		"speedscope": `"unit":"none"`,
		"html":       `"unit":"count"`,
	} {
		if got := printed(t, r, output); !strings.Contains(got, want) || strings.Contains(strings.ReplaceAll(got, "data.total", ""), "0.192s") {
			t.Errorf("%s: no %q in\n%.2000s", output, want, got)
		}
	}
	gprof := Outputs[slices.IndexFunc(Outputs, func(o Output) bool { return o.Name == "gprof" })]
	if err := r.Print(new(bytes.Buffer), gprof); err == nil || err.Error() != "output gprof shows seconds, and this is cycles" {
		t.Errorf("gprof: %v", err)
	}
	again, err := FromPprof([]byte(printed(t, r, "pprof")))
	if err != nil || again.measured() != "cycles" || !again.counts() {
		t.Fatalf("pprof: %v", err)
	}
	if a, b := printed(t, r, "collapsed"), printed(t, &View{Profile: again, Graph: NewGraph(again)}, "collapsed"); a != b {
		t.Errorf("again:\n%s", b)
	}
	diff, err := NewDiff(p, again)
	if err != nil {
		t.Fatal(err)
	}
	if got := printed(t, diff, "text"); got != "cycles 192.000M → 192.000M, +0.000M\nno difference\n" {
		t.Error(got)
	}
	time, err := readPerfData(nil, perfFiles+"pointers.data", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{errOf(NewDiff(p, time)), errOf(Merge([]*Profile{p, time}))} {
		if fmt.Sprint(err) != "cycles and CPU time cannot be put together: show one at a time" {
			t.Error(err)
		}
	}
	b := newBuilder()
	b.add([]*pprof.Location{b.named("counted", "")}, "", 5, 0)
	counts, err := b.finish(nil)
	if err != nil {
		t.Fatal(err)
	}
	if both, err := Merge([]*Profile{counts, p}); err != nil || both.measured() != "cycles" {
		t.Errorf("with counts: %v", err)
	}
}

func errOf[T any](_ T, err error) error { return err }

// TestOtherBuild has a program that is another one now, and one that is not here.
func TestOtherBuild(t *testing.T) {
	perfHome(t)
	program, err := filepath.Abs(perfFiles + "program")
	if err != nil {
		t.Fatal(err)
	}
	h := newHistory([]perfdata.SidebandEvent{
		{Kind: perfdata.Mapped, PID: 1, Addr: 0x1000, Len: 0x1000, Path: program, BuildID: "abcdef"},
		{Kind: perfdata.Mapped, PID: 1, Addr: 0x3000, Len: 0x1000, Path: "/no/such/program", BuildID: "abcd"},
		{Kind: perfdata.Mapped, PID: 1, Addr: 0x5000, Len: 0x1000, Offset: 0x1000, Path: program},
	}, nil, input.Open)
	p := &perfImages{history: h}
	defer p.close()
	code := h.space(1, 0).code
	for addr, want := range map[uint64]string{0x1800: "[program]", 0x3800: "[program]", 0x5150: "turn"} {
		i, at := p.find(code, addr)
		if got := i.frames(at); got[0].name != want {
			t.Errorf("%#x: %s, want %s", addr, got[0].name, want)
		}
	}
	want := []string{
		"built again since it was sampled, so without names: " + program + "; sample it again, or keep builds with perf buildid-cache --add",
		"not here, so without names: /no/such/program",
	}
	if notes := p.notes(); !slices.Equal(notes, want) {
		t.Errorf("%q", notes)
	}
}

// TestMadeCode names code that a process made at run time by what it wrote for perf.
func TestMadeCode(t *testing.T) {
	pid := os.Getpid() // so that the name is ours
	name := fmt.Sprintf("/tmp/perf-%d.map", pid)
	if err := os.WriteFile(name, []byte("70001000 80 made_function\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(name)
	h := newHistory([]perfdata.SidebandEvent{
		{Kind: perfdata.Mapped, PID: pid, Addr: 0x70001000, Len: 0x1000, Path: "//anon"},
		{Kind: perfdata.Forked, PID: pid + 1, Parent: pid, Time: 1},
	}, nil, input.Open)
	p := &perfImages{history: h}
	defer p.close()
	for _, process := range []int{pid, pid + 1} {
		i, at := p.find(h.space(process, 2).code, 0x70001010)
		if got := i.frames(at)[0].name; got != "made_function" {
			t.Errorf("process %d: %s", process, got)
		}
	}
}

// TestKernelElsewhere has samples of this kernel when it had another place, as it has at
// each start, and of another kernel.
func TestKernelElsewhere(t *testing.T) {
	all := kernelFunctions()
	named := func(name string) uint64 {
		i := slices.IndexFunc(all, func(f binary.FunctionSymbol) bool { return f.Name == name })
		if i < 0 {
			t.Skipf("needs /proc/kallsyms with %s", name)
		}
		return all[i].Addr
	}
	text, fork, _ := named("_text"), named("kernel_clone"), named("_etext")
	var uname unix.Utsname
	if err := unix.Uname(&uname); err != nil {
		t.Fatal(err)
	}
	release := unix.ByteSliceToString(uname.Release[:])
	for _, c := range []struct {
		release string
		shift   uint64
		want    string
	}{{release, 0, "kernel_clone"}, {release, 0x1200000, "kernel_clone"}, {release + "x", 0, "[kernel]"}} {
		p := &perfImages{history: newHistory([]perfdata.SidebandEvent{
			{Kind: perfdata.Mapped, PID: -1, Addr: 0xffffffffc0000000, Len: 0x1000, Kernel: true, Path: "[a_module]"},
			{Kind: perfdata.Mapped, PID: -1, Addr: text - c.shift, Len: 1 << 24, Offset: text - c.shift, Kernel: true, Path: "[kernel.kallsyms]_text"},
		}, nil, input.Open)}
		i := p.kernelImage(&perfdata.Recording{Release: c.release})
		if got := i.frames(p.kernelAddr(fork - c.shift + 4))[0].name; got != c.want {
			t.Errorf("%s, %#x: %s, want %s", c.release, c.shift, got, c.want)
		}
		if got := i.frames(p.kernelAddr(0xffffffffc0000010))[0].name; c.shift != 0 && got != "[kernel]" {
			t.Errorf("a module, elsewhere: %s", got)
		}
	}
}

func TestPerfNotes(t *testing.T) {
	r := &perfReader{file: &perfdata.Recording{Killed: true}, history: newHistory(nil, nil, input.Open), lost: 3, throttled: 2, damage: &perfdata.FormatError{Offset: 64, Text: "damaged"}}
	r.images.history = r.history
	r.perfTally = perfTally{samples: 10, unwound: 9, torn: 1, idle: 4, deferred: 5, damaged: 6, foreign: 7}
	notes := strings.Join(r.notes(), "\n")
	for _, want := range []string{
		"damaged, what comes before is shown: offset 0x40: damaged", "did not get to the end of the file", "3 records were lost while perf sampled (10 samples are there)",
		"paused sampling 2 times", "4 samples of CPUs without work (swapper) are left out", "6 samples are damaged", "1 of 9 call chains end early", "7 call chains have no callers",
		"5 samples have their callers in later records",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in\n%s", want, notes)
		}
	}
}

// TestRegions compares trees of what is mapped with an array.
func TestRegions(t *testing.T) {
	const size = 200
	r := rand.New(rand.NewPCG(1, 2))
	var tree *region
	var plain [size]*mapped
	var before []*region
	var plains [][size]*mapped
	for range 300 {
		start := r.Uint64N(size - 1)
		end := start + 1 + r.Uint64N(size-start)
		end = min(end, start+1+r.Uint64N(40))
		of := &mapped{start: start}
		before, plains = append(before, tree), append(plains, plain)
		tree = tree.with(start, end, of)
		for i := start; i < min(end, size); i++ {
			plain[i] = of
		}
	}
	for n, tree := range append(before, tree) {
		want := plain
		if n < len(plains) {
			want = plains[n]
		}
		for i, of := range want {
			if got := tree.at(uint64(i)); got != of {
				t.Fatalf("tree %d at %d: %v, want %v", n, i, got, of)
			}
		}
	}
}

// TestHistory follows processes that fork, become other programs, and unmap by mapping.
func TestHistory(t *testing.T) {
	change := func(kind perfdata.SidebandKind, pid, parent int, time, addr uint64, path string) perfdata.SidebandEvent {
		return perfdata.SidebandEvent{Kind: kind, PID: pid, TID: pid, Parent: parent, ParentTID: parent, Time: time, Addr: addr, Len: 100, Path: path, Name: path}
	}
	h := newHistory([]perfdata.SidebandEvent{
		change(perfdata.Forked, 2, 1, 20, 0, ""),
		change(perfdata.Executed, 2, 0, 30, 0, "new"),
		change(perfdata.Mapped, 2, 0, 31, 1000, "/new"),
		change(perfdata.Named, 1, 0, 0, 0, "first"),
		change(perfdata.Mapped, 1, 0, 10, 1000, "/old"),
		change(perfdata.Mapped, 1, 0, 25, 1050, "/later"),
		change(perfdata.Named, 1, 0, 40, 0, "renamed"),
	}, nil, input.Open)
	for _, c := range []struct {
		pid        int
		time, addr uint64
		want       string
	}{
		{1, 5, 1000, "first"}, {1, 10, 1000, "first /old"}, {1, 24, 1099, "first /old"}, {1, 25, 1099, "first /later"}, {1, 45, 1049, "renamed /old"},
		{2, 19, 1000, ""}, {2, 20, 1000, "first /old"}, {2, 29, 1099, "first /old"}, {2, 30, 1000, "new"}, {2, 31, 1000, "new /new"}, {3, 99, 1000, ""},
	} {
		got := h.thread(c.pid, c.time).name
		if m := h.space(c.pid, c.time).code.at(c.addr); m != nil {
			got += " " + m.file.path
		}
		if got != c.want {
			t.Errorf("process %d at %d: %q, want %q", c.pid, c.time, got, c.want)
		}
	}
}

func FuzzPerfData(f *testing.F) {
	names, _ := filepath.Glob(perfFiles + "*.data")
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := perfdata.Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		p, err := fromPerfData(file, "", input.Open)
		if err != nil {
			return
		}
		r := &View{Profile: p, Graph: NewGraph(p)}
		for _, o := range []string{"text", "json", "collapsed"} {
			_ = r.Print(new(bytes.Buffer), Outputs[slices.IndexFunc(Outputs, func(out Output) bool { return out.Name == o })])
		}
	})
}

// TestChooseEvents has events that count the same again, and some that do not.
func TestChooseEvents(t *testing.T) {
	const excludeUser, excludeKernel, excludeHypervisor = 1 << 4, 1 << 5, 1 << 6
	const userOnly, kernelOnly = excludeKernel | excludeHypervisor, excludeUser | excludeHypervisor
	type event struct {
		name   string
		kind   uint32
		config uint64
		flags  uint64
	}
	cycles := event{"cycles", 0, 0, 0}
	userCycles, kernelCycles := event{"cycles:u", 0, 0, userOnly}, event{"cycles:k", 0, 0, kernelOnly}
	core, atom := event{"cpu_core/cycles/", 0, 4 << 32, 0}, event{"cpu_atom/cycles/", 0, 10 << 32, 0}
	clock, userClock := event{"cpu-clock", 1, 0, 0}, event{"cpu-clock:u", 1, 0, userOnly}
	for _, c := range []struct {
		events      []event
		show        string
		want, other string
	}{
		{[]event{clock, userClock}, "", "cpu-clock", "cpu-clock:u"},
		{[]event{userClock, clock}, "", "cpu-clock", "cpu-clock:u"},
		{[]event{clock, userClock}, "cpu-clock", "cpu-clock", "cpu-clock:u"},
		{[]event{clock, userClock}, "cpu-clock:u", "cpu-clock:u", "cpu-clock"},
		{[]event{cycles, clock}, "", "cpu-clock", "cycles"},
		{[]event{userCycles, kernelCycles}, "", "cycles:u cycles:k", ""},
		{[]event{userCycles, kernelCycles}, "cycles:k", "cycles:k", "cycles:u"},
		{[]event{userCycles, kernelCycles, cycles}, "", "cycles", "cycles:k cycles:u"},
		{[]event{core, atom}, "", "cpu_core/cycles/ cpu_atom/cycles/", ""},
		{[]event{core, atom}, "cycles", "cpu_core/cycles/ cpu_atom/cycles/", ""},
		{[]event{core, atom}, "cpu_atom/cycles/", "cpu_atom/cycles/", "cpu_core/cycles/"},
		{[]event{cycles, cycles}, "", "cycles", ""},
	} {
		var asked []string
		var b []byte
		for i, e := range c.events {
			asked = append(asked, e.name)
			b = append(b, perfEvent(uint64(i+1), e.kind, e.config, e.flags, e.name)...)
		}
		f := perfPipe(t, b)
		var p perfEvents
		if err := p.choose(f.Events, c.show); err != nil {
			t.Errorf("%v, %q: %v", asked, c.show, err)
			continue
		}
		var shown []string
		others := make(map[string]int64)
		for _, e := range f.Events {
			if !slices.Contains(p.shown, e) {
				others[p.name(e)]++
			}
		}
		for _, e := range p.shown {
			shown = append(shown, e.Name)
		}
		if got, other := strings.Join(shown, " "), strings.Join(p.otherEvents(others), " "); got != c.want || other != c.other {
			t.Errorf("%v, %q: shown %s, others %s; want %s, %s", asked, c.show, got, other, c.want, c.other)
		}
	}
}

// perfEvent is the record of an event in a pipe, and that of its name.
func perfEvent(id uint64, kind uint32, config, flags uint64, name string) []byte {
	const attribute, word = 112, 8
	var e []byte
	u32 := func(v uint32) { e = encoding.LittleEndian.AppendUint32(e, v) }
	u64 := func(v uint64) { e = encoding.LittleEndian.AppendUint64(e, v) }
	header := func(kind uint32, size int) {
		u32(kind)
		u32(uint32(size+8) << 16)
	}
	header(64, attribute+word)
	u32(kind)
	u32(attribute)
	for _, v := range []uint64{config, 1, 0, 0, flags} {
		u64(v)
	}
	e = append(e, make([]byte, attribute-48)...)
	u64(id)
	header(78, 2*word+24)
	u64(2)
	u64(id)
	return append(e, append([]byte(name), make([]byte, 24-len(name))...)...)
}

// perfPipe is a file of records, scanned.
func perfPipe(t *testing.T, records []byte) *perfdata.Recording {
	t.Helper()
	b := append([]byte("PERFILE2\x10\x00\x00\x00\x00\x00\x00\x00"), records...)
	f, err := perfdata.Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Scan(func(perfdata.SidebandEvent) {}); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestPerfImagesOfOthers has data name what is no program: nothing waits for it,
// and nothing else is read of it.
func TestPerfImagesOfOthers(t *testing.T) {
	dir := t.TempDir()
	pipe, text, large := filepath.Join(dir, "pipe"), filepath.Join(dir, "text"), filepath.Join(dir, "large")
	err := errors.Join(unix.Mkfifo(pipe, 0o666), os.WriteFile(text, []byte("\x7fELF, but not so"), 0o666), os.WriteFile(large, nil, 0o666), os.Truncate(large, 1<<40))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{pipe: "is a pipe", "/dev/full": "is a device", "/dev/tty": "is a device", dir: "is a directory", text: "ELF", large: "bad magic number"} {
		h := newHistory([]perfdata.SidebandEvent{{Kind: perfdata.Mapped, PID: 1, Addr: 0x1000, Len: 0x1000, Path: path}}, nil, new(input.Owners).OpenNamed)
		p := &perfImages{history: h}
		i := p.image(h.file(perfdata.SidebandEvent{Path: path}))
		if !strings.Contains(i.problem, want) || i.file != nil {
			t.Errorf("%s: %q, want one about %q", path, i.problem, want)
		}
		p.close()
	}
}

// TestPerfImagesOfAnotherUser has root read data of another user: they do not
// tell what is in programs that he may not read.
func TestPerfImagesOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		needs.Skip(t, needs.Root, "who may read what others may not")
	}
	secret := secretProgram(t)
	for _, c := range []struct {
		user  int
		names bool
	}{{0, true}, {4711, false}} {
		owners := new(input.Owners)
		owners.Note(input.User{UID: c.user, GID: c.user})
		h := newHistory([]perfdata.SidebandEvent{{Kind: perfdata.Mapped, PID: 1, Addr: 0x1000, Len: 0x1000, Path: secret}}, nil, owners.OpenNamed)
		p := &perfImages{history: h}
		i := p.image(h.file(perfdata.SidebandEvent{Path: secret}))
		if (len(i.functions) > 0) != c.names {
			t.Errorf("user %d: %d functions, %q", c.user, len(i.functions), i.problem)
		}
		p.close()
	}
}

// TestPerfMapOfAnotherUser has root read data of another user, in which code was made
// at run time: names of it come from no file that he may not read.
func TestPerfMapOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		needs.Skip(t, needs.Root, "who may read what others may not")
	}
	pid := 1<<22 + os.Getpid() // which no process has
	name := fmt.Sprintf("/tmp/perf-%d.map", pid)
	if err := os.WriteFile(name, []byte("1000 10 secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(name)
	for _, c := range []struct {
		user  int
		names bool
	}{{0, true}, {4711, false}} {
		owners := new(input.Owners)
		owners.Note(input.User{UID: c.user, GID: c.user})
		f := &codeFile{pid: pid, opens: owners.OpenNamed}
		if i := f.open(); (len(i.functions) > 0) != c.names {
			t.Errorf("user %d: %d functions", c.user, len(i.functions))
		}
	}
}

// TestNamesOfMadeCode has names of code that a process made at run time, in a directory
// that is everybody's: a link there gives no more than its user may read, and names are
// not those of another user's file.
func TestNamesOfMadeCode(t *testing.T) {
	if os.Geteuid() != 0 {
		needs.Skip(t, needs.Root, "who may read what others may not")
	}
	const nobody = 65534
	secret := filepath.Join(t.TempDir(), "secret") // which only root passes
	if err := os.WriteFile(secret, []byte("1000 10 secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	living := exec.Command("sleep", "100")
	living.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if err := living.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { living.Process.Kill(); living.Wait() }()
	ended := 1<<22 + os.Getpid() // which no process has
	for _, c := range []struct {
		what  string
		pid   int
		owner int
		link  bool
		names bool
	}{
		{"his own", living.Process.Pid, nobody, false, true},
		{"root's", living.Process.Pid, 0, false, true},
		{"another user's", living.Process.Pid, 4711, false, false},
		{"his own link", living.Process.Pid, nobody, true, false},
		{"another user's link", living.Process.Pid, 4711, true, false},
		{"somebody's", ended, 4711, false, true},
		{"somebody's link", ended, 4711, true, false},
		{"root's link", ended, 0, true, true},
	} {
		name := fmt.Sprintf("/tmp/perf-%d.map", c.pid)
		err := os.WriteFile(name, []byte("1000 10 made\n"), 0o600)
		if c.link {
			err = errors.Join(os.Remove(name), os.Symlink(secret, name))
		}
		if err = errors.Join(err, os.Lchown(name, c.owner, c.owner)); err == nil {
			i := generated(c.pid)
			if i.nameGenerated(); (len(i.functions) > 0) != c.names {
				t.Errorf("%s: %d functions", c.what, len(i.functions))
			}
		}
		if err = errors.Join(err, os.Remove(name)); err != nil {
			t.Fatal(err)
		}
	}
}

// secretProgram is a program that only root may read.
func secretProgram(t *testing.T) string {
	b, err := os.ReadFile(perfFiles + "program")
	if err != nil {
		t.Fatal(err)
	}
	// Outside of a directory that only root passes.
	secret := filepath.Join(os.TempDir(), fmt.Sprintf("footfall-secret-%d", os.Getpid()))
	if err := os.WriteFile(secret, b, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(secret) })
	return secret
}
