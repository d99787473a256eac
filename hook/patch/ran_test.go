//go:build linux

package patch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"footfall/binary"
	"footfall/process"
	"footfall/process/target"
	"footfall/trace"
)

// moved returns the sites of the program's functions whose instructions can be moved.
func (g *testProgram) moved() []*EntrySite {
	g.t.Helper()
	images, err := target.Images(g.p)
	if err != nil {
		g.t.Fatal(err)
	}
	for _, i := range images {
		g.t.Cleanup(i.Close)
	}
	sites, _, err := Moved(images[slices.IndexFunc(images, (*target.Image).IsProgram)])
	if err != nil {
		g.t.Fatal(err)
	}
	return sites
}

// blocks returns the sites of the program's blocks.
func (g *testProgram) blocks() (sites []*EntrySite) {
	g.t.Helper()
	moved := g.moved()
	divided, err := Divided(moved[0].Image)
	if err != nil {
		g.t.Fatal(err)
	}
	called := make(map[uint64]bool) // that have been chosen
	for _, s := range moved {
		called[s.Function.Addr] = true
	}
	for _, fn := range divided {
		if !called[fn.Function.Addr] {
			continue
		}
		for n := range fn.Blocks {
			sites = append(sites, BlockSite(moved[0].Image, fn.Function, &fn.Blocks[n]))
		}
	}
	return sites
}

func (g *testProgram) openRan(sites []*EntrySite) *Ran {
	g.t.Helper()
	r, err := OpenRan(g.p, ranSites(sites), KeepsFunctions, false)
	if skipForbidden(g.t, err); err != nil {
		g.t.Fatal(err)
	}
	return r
}

// ranSites are sites for OpenRan.
func ranSites(sites []*EntrySite) RanSites {
	return RanSites{len(sites), func(n int) *EntrySite { return sites[n] }, func(n int) (uint64, bool) { return sites[n].Addr, sites[n].window != nil }}
}

// names are those of the functions of sites.
func (r *Ran) names(sites []int) (list []string) {
	for _, n := range sites {
		list = append(list, r.Site(n).Function.Name)
	}
	slices.Sort(list)
	return list
}

// TestRan has instructions of each kind moved until they ran: functions return the same and preserve
// registers, what ran is seen once, and the code is as before, first of what ran, then all.
func TestRan(t *testing.T) {
	if native != amd64 {
		t.Skip("x86-64 only")
	}
	for _, flags := range [][]string{{"-fcf-protection=none"}, {"-fcf-protection=none", "-no-pie"}, {"-fcf-protection=none", "-static"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) { testRan(t, start(t, build(t, "gcc-12", "moved.c", flags...))) })
	}
}

func testRan(t *testing.T, g *testProgram) {
	want, text := g.say("go"), g.text()
	count := func() {
		s := g.open(g.moved(), Options{Mode: trace.Counts})
		if is := g.say("go"); is != want {
			t.Fatalf("%s\nwant %s", is, want)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	count() // what a trace leaves is used
	called := []string{"calls", "conditional", "far_conditional", "jumps", "landing", "loads", "only_returns", "plain", "pushes_and_calls", "returns", "short_jump", "stores", "tail", "through_pointer", "vectors"}
	for round := range 3 {
		sites := g.moved()
		r := g.openRan(sites)
		if ran, err := r.Look(); err != nil || slices.ContainsFunc(r.names(ran), func(name string) bool { return slices.Contains(called, name) }) {
			t.Fatalf("%q ran before anything was asked for, %v", r.names(ran), err)
		}
		for _, b := range r.s.islands {
			if len(r.sites) > len(r.waiting) || len(b.stubs)+len(b.byKey) > 0 {
				t.Error("what is only needed to arm is kept")
			}
		}
		if is := g.say("go"); is != want {
			t.Fatalf("%s\nwant %s", is, want)
		}
		ran, err := r.Look()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range called {
			if !slices.Contains(r.names(ran), name) {
				t.Errorf("round %d: %s ran, and that is not seen", round, name)
			}
		}
		armed := func() []string {
			return r.names(numbers(r.armed))
		}
		for _, name := range armed() {
			if slices.Contains(called, name) {
				t.Errorf("%s ran, and is not put back", name)
			}
		}
		for n, s := range sites {
			if name := s.Function.Name; name == "main" && !r.MayHaveBegun(n) {
				t.Error("main was running already, and that is not seen")
			} else if slices.Contains(called, name) && name != "only_returns" && r.MayHaveBegun(n) { // behind that one another begins, to which something on the stack may point
				t.Errorf("%s may have been running already", name)
			}
		}
		if is := g.say("go"); is != want {
			t.Fatalf("%s\nwant %s", is, want)
		}
		again, err := r.Look()
		last, closeErr := r.Close()
		if err := errors.Join(err, closeErr); err != nil {
			t.Fatal(err)
		}
		for _, s := range slices.Concat(again, last) { // of a static program also what waits for us
			if slices.Contains(ran, s) {
				t.Errorf("%s ran for the first time again", r.Site(s).Function.Name)
			}
		}
		if !bytes.Equal(text, g.text()) {
			t.Fatal("the code is not what it was")
		}
	}
	islands, err := findIslands(g.p)
	if err != nil {
		t.Fatal(err)
	}
	stubs := 0
	for _, b := range islands {
		for _, st := range b.stubs {
			if st.notesRun() {
				stubs++
			}
		}
	}
	if n := len(g.moved()); stubs > n {
		t.Errorf("%d stubs of %d functions: they are not used again", stubs, n)
	}
	count()
	if !bytes.Equal(text, g.text()) {
		t.Fatal("the code is not what it was")
	}
}

// TestRanBlocks is TestRan for blocks: programs do the same, and all code is as before.
func TestRanBlocks(t *testing.T) {
	if native != amd64 {
		t.Skip("x86-64 only")
	}
	g := start(t, build(t, "gcc-12", "moved.c", "-fcf-protection=none"))
	want, text := g.say("go"), g.text()
	for range 2 {
		sites := g.blocks()
		r := g.openRan(sites)
		if is := g.say("go"); is != want {
			t.Fatalf("%s\nwant %s", is, want)
		}
		ran, err := r.Look()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"calls", "conditional", "jumps", "loads", "plain", "tail", "vectors"} {
			if !slices.Contains(r.names(ran), name) {
				t.Errorf("no block of %s ran", name)
			}
		}
		if is := g.say("go"); is != want {
			t.Fatalf("%s\nwant %s", is, want)
		}
		again, err := r.Look()
		_, closeErr := r.Close()
		if err := errors.Join(err, closeErr); err != nil {
			t.Fatal(err)
		}
		for _, s := range again {
			if slices.Contains(ran, s) {
				t.Errorf("a block of %s ran for the first time again", r.Site(s).Function.Name)
			}
		}
		if !bytes.Equal(text, g.text()) {
			t.Fatal("the code is not what it was")
		}
	}
}

// TestRanInParts arms functions, and blocks, a few at a time: the same ones are armed, of the same ones it is doubted whether they
// were running, and a later session uses the stubs.
func TestRanInParts(t *testing.T) {
	if native != amd64 {
		t.Skip("x86-64 only")
	}
	name := build(t, "gcc-12", "moved.c", "-fcf-protection=none")
	t.Run("functions", func(t *testing.T) { testRanInParts(t, start(t, name), (*testProgram).moved, "Doubts") })
	t.Run("blocks", func(t *testing.T) { testRanInParts(t, start(t, name), (*testProgram).blocks, "Blocked") })
}

// testRanInParts does it with sites of which there are some of the kind has.
func testRanInParts(t *testing.T, g *testProgram, sitesOf func(*testProgram) []*EntrySite, has string) {
	want, text := g.say("go"), g.text()
	defer func(before int) { mostAtOnce = before }(mostAtOnce)
	type result struct {
		Armed   []int
		Blocked []int
		Doubts  map[int]bool
		Skipped map[int]string
		Stubs   int
	}
	var results []result
	for _, most := range []int{mostAtOnce, 1, 3} {
		mostAtOnce = most
		r := g.openRan(sitesOf(g))
		is := result{numbers(r.armed), slices.Clone(r.blocked), r.doubts, r.Skipped, 0}
		slices.Sort(is.Armed)
		for _, b := range r.s.islands {
			is.Stubs += b.count()
		}
		if results = append(results, is); len(is.Armed) < 4*stepsInPart || has == "Doubts" && len(is.Doubts) == 0 || has == "Blocked" && len(is.Blocked) == 0 {
			t.Errorf("%d sites, %d blocked, %d doubted: too few", len(is.Armed), len(is.Blocked), len(is.Doubts))
		}
		if diff := cmp.Diff(results[0], is); diff != "" {
			t.Errorf("%d at once:\n%s", most, diff)
		}
		if is := g.say("go"); is != want {
			t.Fatalf("%s\nwant %s", is, want)
		}
		_, err := r.Look()
		rearmErr := r.Rearm()
		armed := numbers(r.armed)
		if slices.Sort(armed); !slices.Equal(armed, is.Armed) {
			t.Errorf("%d at once: %d sites are armed again, of %d", most, len(armed), len(is.Armed))
		}
		_, closeErr := r.Close()
		if err := errors.Join(err, rearmErr, closeErr); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(text, g.text()) {
			t.Fatal("the code is not what it was")
		}
	}
}

// TestRanEnds looks at a program that has ended: what it ran is not lost.
func TestRanEnds(t *testing.T) {
	if native != amd64 {
		t.Skip("x86-64 only")
	}
	g := start(t, build(t, "gcc-12", "moved.c", "-fcf-protection=none"))
	r := g.openRan(g.moved())
	g.say("go")
	g.Kill()
	ran, err := r.Look()
	if err != nil || !slices.Contains(r.names(ran), "plain") {
		t.Errorf("%q, %v", r.names(ran), err)
	}
	if _, err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestRanKilled kills footfalls that watch what runs, at any moment: the program goes on, with
// threads, signals and exceptions, and can be restored.
func TestRanKilled(t *testing.T) {
	if native != amd64 {
		t.Skip("x86-64 only")
	}
	if os.Getenv("PATCH_WATCHER") != "" {
		watcher(t)
		return
	}
	if testing.Short() {
		t.Skip("takes seconds")
	}
	g := start(t, build(t, "g++-12", "stress.cc"))
	text := g.text()
	for range max(6, *cycles/2) {
		g.killed("PATCH_WATCHER", "watching", text)
	}
	g.In.Close()
	if end := g.Line(); end != "end: 0 bad" {
		t.Errorf("at its end the program says %q", end)
	}
}

// watcher watches everything, again and again, until it is killed.
func watcher(t *testing.T) {
	g := targetIn(t, "PATCH_WATCHER")
	fmt.Println("watching")
	for round := 0; ; round++ {
		sites := g.moved
		if round%2 == 1 {
			sites = g.blocks
		}
		r := g.openRan(sites())
		for range 3 {
			if _, err := r.Look(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if round%4 < 2 { // one that stays, and is taken over
			if _, err := r.Close(); err != nil {
				t.Fatal(err)
			}
			kept := g.keepRan(g.moved())
			if round%4 == 0 {
				if err := kept.Rearm(); err != nil {
					t.Fatal(err)
				}
			}
			kept.leave(t)
			r = g.openRan(g.moved())
		}
		if _, err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNoteRun decodes what notes that a stub ran.
func TestNoteRun(t *testing.T) {
	const at, hit = 0x5000, 0x884123
	code := noteRun(at, hit)
	for _, want := range []string{"CMP", "JNE", "MOV"} {
		i, err := binary.DecodeAMD64(code)
		if err != nil || i.Op.String() != want {
			t.Fatalf("%v, %v, want %s", i, err, want)
		}
		code = code[i.Len:]
	}
	if len(code) > 0 {
		t.Errorf("% x is left", code)
	}
}

// TestRanBeside opens a program which has mapped something into a gap of the memory that a trace has left.
func TestRanBeside(t *testing.T) {
	if native != amd64 {
		t.Skip("x86-64 only")
	}
	g := start(t, build(t, "gcc-12", "moved.c", "-fcf-protection=none"))
	want, text := g.say("go"), g.text()
	if err := g.open(g.moved(), Options{Mode: trace.Counts}).Close(); err != nil {
		t.Fatal(err)
	}
	islands, err := findIslands(g.p)
	if err != nil || len(islands) == 0 {
		t.Fatalf("%d islands, %v", len(islands), err)
	}
	err = held(g.p, func(h *process.Held) error {
		_, err := h.Map(islands[0].addr+hitsAt, 4096, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED_NOREPLACE, process.NoFile, 0)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r := g.openRan(g.moved())
		if is := g.say("go"); is != want {
			t.Fatalf("%s\nwant %s", is, want)
		}
		if ran, err := r.Close(); err != nil || !slices.Contains(r.names(ran), "plain") {
			t.Errorf("%q ran, %v", r.names(ran), err)
		}
		if !bytes.Equal(g.text(), text) {
			t.Error("the code is not what it was")
		}
	}
}

// TestRanWithoutMemory opens a process that may map nothing more.
func TestRanWithoutMemory(t *testing.T) {
	if native != amd64 {
		t.Skip("x86-64 only")
	}
	g := start(t, build(t, "gcc-12", "moved.c", "-fcf-protection=none"))
	want, text := g.say("go"), g.text()
	none := unix.Rlimit{Cur: 1, Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(g.p.PID, unix.RLIMIT_AS, &none, nil); err != nil {
		t.Fatal(err)
	}
	_, err := OpenRan(g.p, ranSites(g.moved()), KeepsFunctions, false)
	if skipForbidden(t, err); !errors.Is(err, unix.ENOMEM) {
		t.Errorf("%v, want %v", err, unix.ENOMEM)
	}
	if !bytes.Equal(g.text(), text) || g.say("go") != want {
		t.Error("the program is not as before")
	}
}

// TestWindowOf makes windows of code that they were found to have.
func TestWindowOf(t *testing.T) {
	if native != amd64 {
		t.Skip("x86-64 only")
	}
	g := start(t, build(t, "gcc-12", "moved.c", "-fcf-protection=none"))
	for _, s := range slices.Concat(g.moved(), g.blocks()) {
		if s.window == nil {
			continue
		}
		w, err := binary.WindowOf(s.window.Addr, s.window.Code)
		if diff := cmp.Diff(s.window, w); err != nil || diff != "" {
			t.Errorf("%s at %#x: %v (-want +got):\n%s", s.Function.Name, s.Addr, err, diff)
		}
	}
}
