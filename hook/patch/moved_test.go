//go:build linux

package patch

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"footfall/binary"
	"footfall/process/target"
	"footfall/trace"
)

// movedTests are those that are repeated with programs built without room, the long ones only
// with -cycles 100 or more.
var movedTests = []struct {
	name string
	test func(*testing.T)
	long bool
}{
	{"Events", TestEvents, false},
	{"Counts", TestCounts, false},
	{"Filters", TestFilters, false},
	{"Sample", TestSample, false},
	{"Newest", TestNewest, false},
	{"Chains", TestChains, false},
	{"TracedCallersApart", TestTracedCallersApart, false},
	{"Arguments", TestArguments, false},
	{"Follow", TestFollow, false},
	{"CopiedStacks", TestCopiedStacks, false},
	{"Killed", TestKilled, false},
	{"Modules", TestModules, false},
	{"ModulesThrow", TestModulesThrow, false},
	{"SmallStack", TestSmallStack, true},
	{"ChainsNewThread", TestChainsNewThread, true},
	{"TracedCallers", TestTracedCallers, true},
	{"TracedCallersSignals", TestTracedCallersSignals, true},
	{"TracedCallersSwitched", TestTracedCallersSwitched, true},
	{"TracedCallersDeep", TestTracedCallersDeep, true},
	{"ArgumentsOverwritten", TestArgumentsOverwritten, true},
	{"FollowCrowded", TestFollowCrowded, true},
	{"OwnClone", TestOwnClone, true},
	{"Late", TestLate, true},
	{"Limits", TestLimits, true},
	{"LocksLater", TestLocksLater, true},
	{"Locked", TestLocked, true},
	{"TidyWhileOn", TestTidyWhileOn, true},
	{"ModulesChains", TestModulesChains, true},
	{"Children", TestChildren, true},
	{"Notices", TestNotices, true},
	{"NoticesThrow", TestNoticesThrow, true},
	{"NoticesKilled", TestNoticesKilled, true},
	{"Pointerless", TestPointerless, true},
	{"FilterLater", TestFilterLater, true},
	{"Scribbled", TestScribbled, true},
	{"SharesMemory", TestSharesMemory, true},
	{"VforkWaits", TestVforkWaits, true},
	{"Threads", TestThreads, true},
	{"NewThreads", TestNewThreads, true},
	{"PlacesOfTheLiving", TestPlacesOfTheLiving, true},
	{"SteppedByGDB", TestSteppedByGDB, true},
	{"SteppedByLibunwind", TestSteppedByLibunwind, true},
	{"Stepped", TestStepped, true},
	{"KilledNow", TestKilledNow, true},
	{"KilledAnywhere", TestKilledAnywhere, true},
	{"Stress", TestStress, true},
}

// TestMoved repeats tests with programs that are built without room.
func TestMoved(t *testing.T) {
	if native != amd64 {
		t.Skip("x86-64 only")
	}
	if testing.Short() {
		t.Skip("takes seconds")
	}
	before := moving
	moving = true
	defer func() { moving = before }()
	t.Setenv("PATCH_MOVING", "1") // for processes that a test starts
	for _, m := range movedTests {
		if !m.long || *cycles >= 100 {
			t.Run(m.name, m.test)
		}
	}
}

// TestMovedInstructions moves instructions of each kind, in each mode, several times: functions
// return the same and preserve registers, all calls are counted, and the code is as before.
// Others are not moved, for the reason that there is.
func TestMovedInstructions(t *testing.T) {
	if native != amd64 {
		t.Skip("x86-64 only")
	}
	for _, flags := range [][]string{{"-fcf-protection=none"}, {"-fcf-protection=none", "-no-pie"}, {"-fcf-protection=none", "-static"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			g := start(t, build(t, "gcc-12", "moved.c", flags...))
			testMovedInstructions(t, g)
		})
	}
}

func testMovedInstructions(t *testing.T, g *testProgram) {
	want, text := g.say("go"), g.text()
	if strings.Contains(want, "wrong") {
		t.Fatal(want)
	}
	images, err := target.Images(g.p)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range images {
		t.Cleanup(i.Close)
	}
	program := images[slices.IndexFunc(images, (*target.Image).IsProgram)]
	all, not, err := Moved(program)
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]error{
		"itself": binary.ErrLoops, "led_into": binary.ErrLedInto, "carries": binary.ErrFlags, "counts_down": binary.ErrUnmovable, "system_call": binary.ErrUnmovable,
		"crowded": binary.ErrShort,
	}
	for fn, why := range not {
		if want := reasons[fn.Name]; want != nil && !errors.Is(why, want) {
			t.Errorf("%s: %v, want: %v", fn.Name, why, want)
		}
		delete(reasons, fn.Name)
	}
	if len(reasons) > 0 {
		t.Errorf("these are moved: %v", slices.Collect(maps.Keys(reasons)))
	}
	names := []string{"plain", "loads", "stores", "conditional", "far_conditional", "jumps", "short_jump", "calls", "pushes_and_calls", "tail", "through_pointer", "returns", "only_returns", "landing", "vectors", "main"}
	sites := slices.DeleteFunc(all, func(s *EntrySite) bool { return !slices.Contains(names, s.Function.Name) })
	if len(sites) != len(names) {
		t.Fatalf("%d of %d functions can be moved", len(sites), len(names))
	}
	for range 2 {
		for _, o := range []Options{{Mode: trace.Counts}, {Mode: trace.Entries}, {Mode: trace.Exits}, {Mode: trace.Exits, returns: true}, {Mode: trace.Filtered, Filter: trace.Filter{Depth: 3}}, {Mode: trace.Chains, ChainDepth: 3}} {
			s := g.open(sites, o)
			if is := g.say("go"); is != want {
				t.Fatalf("%+v: %s\nwant %s", o, is, want)
			}
			y := tally{make(map[string]int), make(map[string]int)}
			for s.Read(y.add(s)) > 0 {
			}
			for name, n := range y.entries {
				if o.Mode == trace.Exits && y.exits[name] != n {
					t.Errorf("%+v: %s: %d entries, %d exits", o, name, n, y.exits[name])
				}
			}
			var counts map[uint32]uint64
			if o.Mode == trace.Counts {
				counts = s.Counts()
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			for id, n := range counts {
				called := uint64(103)
				switch name := s.Site(id).Function.Name; name {
				case "only_returns":
					called = uint64(len(strings.Fields(want)) / 2)
				case "main":
					called = 0
				}
				if n != called {
					t.Errorf("%s: %d calls, there were %d", s.Site(id).Function.Name, n, called)
				}
			}
		}
	}
	if !bytes.Equal(text, g.text()) {
		t.Error("the code is not what it was")
	}
}
