package store

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func open(t *testing.T, dir string) *SQLite {
	t.Helper()
	s, err := OpenSQLite(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// units are those of a test's builds.
func units(n, counters int) []Unit {
	list := make([]Unit, n)
	for i := range list {
		list[i] = Unit{Kind: "test", Name: fmt.Sprintf("unit%03d.c", i), Counters: counters + i%3, Program: fmt.Appendf(nil, "notes %d", i)}
	}
	return list
}

func totals(t *testing.T, s *SQLite, q *Query) map[string][]uint64 {
	t.Helper()
	all := make(map[string][]uint64)
	err := s.Totals(t.Context(), q, false, func(total Total) error {
		all[total.Unit.Name] = total.Hits
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var day1 = time.Unix(1_700_006_400, 0) // the beginning of a day

// TestStore pushes batches twice and out of order, and asks.
func TestStore(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	list := units(3, 2)
	for _, b := range []Build{{ID: "b1", Release: "1.0", Units: list[:2]}, {ID: "b2", Release: "2.0", Units: list[1:]}, {ID: "b1", Units: list[:2]}} {
		if err := s.PutBuild(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
	}
	batch := func(build, host string, epoch int, window time.Time, unit int, hits ...uint64) *Batch {
		return &Batch{Build: build, Window: window, Usage: []Usage{{list[unit].Hash(), hits}},
			Instance: Instance{Host: host, PID: 7, Epoch: epoch, Owner: "token", Labels: map[string]string{"region": host[:1]}}}
	}
	push := func(want error, b *Batch) {
		t.Helper()
		if err := s.Push(t.Context(), b); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	later := day1.Add(24 * time.Hour)
	push(nil, batch("b1", "a1", 0, day1, 0, 3, 0))
	push(nil, batch("b1", "a1", 0, day1, 0, 1, 0)) // older
	push(nil, batch("b1", "a1", 0, day1, 0, 3, 0)) // again
	push(nil, batch("b1", "a1", 1, day1, 0, 2, 1)) // after a reset
	push(nil, batch("b1", "z1", 0, later, 0, 10, 0))
	push(nil, batch("b2", "z1", 0, later, 1, 0, 4, 0)) // a unit of both builds
	push(ErrLength, batch("b1", "a1", 0, day1, 1, 1))
	push(ErrUnknownBuild, batch("b3", "a1", 0, day1, 0, 1, 1))
	push(ErrUnknownUnit, batch("b1", "a1", 0, day1, 2, 1, 1, 1, 1))
	other := batch("b1", "a1", 0, day1, 0, 99, 99)
	other.Instance.Owner = "another token"
	push(ErrOwner, other)

	want := map[string][]uint64{"unit000.c": {15, 1}, "unit001.c": {0, 4, 0}, "unit002.c": {0, 0, 0, 0}}
	ask := func(name string, q Query, want map[string][]uint64) {
		t.Helper()
		if diff := cmp.Diff(want, totals(t, s, &q)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	everything := func(when string) {
		ask("all "+when, Query{}, want)
		ask("a release "+when, Query{Releases: []string{"1.0"}}, map[string][]uint64{"unit000.c": {15, 1}, "unit001.c": {0, 0, 0}})
		ask("a day "+when, Query{From: later, Builds: []string{"b1"}}, map[string][]uint64{"unit000.c": {10, 0}, "unit001.c": {0, 0, 0}})
		ask("a host "+when, Query{Hosts: []string{"a1"}, Builds: []string{"b1"}}, map[string][]uint64{"unit000.c": {5, 1}, "unit001.c": {0, 0, 0}})
		ask("a label "+when, Query{Labels: map[string]string{"region": "a"}, Builds: []string{"b1"}}, map[string][]uint64{"unit000.c": {5, 1}, "unit001.c": {0, 0, 0}})
		evidence, err := s.Evidence(t.Context(), &Query{})
		if diff := cmp.Diff([]Evidence{{"b1", "1.0", 2, 3, 0, day1, later}, {"b2", "2.0", 1, 1, 0, later, later}}, evidence); err != nil || diff != "" {
			t.Errorf("evidence %s: %v (-want +got):\n%s", when, err, diff)
		}
		var seen []uint64
		err = s.LastSeen(t.Context(), &Query{Builds: []string{"b1"}}, func(l LastSeen) error {
			seen = append(append(seen, l.First...), l.Last...)
			return nil
		})
		a, b := uint64(day1.Unix()), uint64(later.Unix())
		if diff := cmp.Diff([]uint64{a, a, b, a, 0, 0, 0, 0, 0, 0}, seen); err != nil || diff != "" {
			t.Errorf("last seen %s: %v (-want +got):\n%s", when, err, diff)
		}
	}
	everything("at first")
	if err := s.Expire(t.Context(), later, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	everything("after a day was rolled up")
	push(ErrClosed, batch("b1", "a1", 0, day1, 0, 50, 0))
	push(nil, batch("b1", "a1", 0, later, 0, 1, 0))
	want["unit000.c"][0]++
	ask("later", Query{}, want)

	backup := t.TempDir()
	if err := Backup(t.Context(), dir, filepath.Join(backup, FileName)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, totals(t, open(t, backup), &Query{})); diff != "" {
		t.Errorf("the backup (-want +got):\n%s", diff)
	}
	if err := s.Expire(t.Context(), later, later); err != nil {
		t.Fatal(err)
	}
	want["unit000.c"] = []uint64{11, 0}
	ask("after a day was forgotten", Query{}, want)
}

// TestShares asks who counted, before and after a day was rolled up, through a store that is only read.
func TestShares(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	list := units(3, 1)
	if err := s.PutBuild(t.Context(), &Build{ID: "b", Release: "1", Units: list}); err != nil {
		t.Fatal(err)
	}
	for i, host := range []string{"a", "b", "b"} {
		b := &Batch{Build: "b", Window: day1.Add(time.Duration(i) * 24 * time.Hour), Instance: Instance{Host: host, PID: i, Labels: map[string]string{"test": fmt.Sprint("t", i)}},
			Usage: []Usage{{list[0].Hash(), []uint64{uint64(i + 1)}}, {list[1].Hash(), []uint64{0, 5}}}}
		if err := s.Push(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	for _, when := range []string{"at first", "after a day was rolled up"} {
		r, err := ReadSQLite(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		ask := func(q Query, units []Hash, want string) {
			t.Helper()
			var got []string
			err := r.Shares(t.Context(), &q, units, func(s Share) error {
				got = append(got, fmt.Sprintf("%s %s %x %v", s.Host, s.Labels["test"], s.Unit[:1], s.Hits))
				return nil
			})
			slices.Sort(got)
			if diff := cmp.Diff(want, strings.Join(got, "\n")); err != nil || diff != "" {
				t.Errorf("%s: %v (-want +got):\n%s", when, err, diff)
			}
		}
		first, second := list[0].Hash(), list[1].Hash()
		ask(Query{}, []Hash{first, list[2].Hash()}, fmt.Sprintf("a t0 %[1]x [1]\nb t1 %[1]x [2]\nb t2 %[1]x [3]", first[:1]))
		ask(Query{From: day1.Add(time.Hour), Labels: map[string]string{"test": "t2"}}, nil, fmt.Sprintf("b t2 %x [0 5]\nb t2 %x [3]", second[:1], first[:1]))
		var reports []Report
		if err := r.Reports(t.Context(), &Query{From: day1.Add(time.Hour)}, func(r Report) error { reports = append(reports, r); return nil }); err != nil {
			t.Fatal(err)
		}
		pushed := totals(t, r, &Query{Origin: Pushed})
		hosts := totals(t, r, &Query{Origin: OnHosts})
		if pushed["unit001.c"][1] != 0 || hosts["unit001.c"][1] != 15 {
			t.Errorf("pushed %v, on hosts %v", pushed, hosts)
		}
		if diff := cmp.Diff([]Report{{"b", "1", "b", 2, day1.Add(24 * time.Hour), day1.Add(48 * time.Hour)}}, reports); diff != "" {
			t.Errorf("reports (-want +got):\n%s", diff)
		}
		z, err := r.Sizes(t.Context())
		if err != nil || z.Units != 3 || z.Windows+z.Days != 3 || z.Instances != 3 || z.Bytes == 0 {
			t.Errorf("sizes: %+v, %v", z, err)
		}
		if err := r.Push(t.Context(), &Batch{}); !errors.Is(err, ErrClosing) {
			t.Errorf("pushed to a store that is read: %v", err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Expire(t.Context(), day1.Add(24*time.Hour), time.Unix(0, 0)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPrograms has programs come back as they were.
func TestPrograms(t *testing.T) {
	s := open(t, t.TempDir())
	list := units(2, 1)
	if err := s.PutBuild(t.Context(), &Build{ID: "b", Units: list}); err != nil {
		t.Fatal(err)
	}
	var got []Unit
	if err := s.Totals(t.Context(), &Query{}, true, func(total Total) error { got = append(got, total.Unit); return nil }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(list, got); diff != "" {
		t.Error(diff)
	}
	got = nil
	hashes := []Hash{list[1].Hash(), {}}
	if err := s.Programs(t.Context(), hashes, func(_ Hash, u Unit) error { got = append(got, u); return nil }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(list[1:], got); diff != "" {
		t.Error(diff)
	}
}

// A simulation is a fleet whose batches are known in any order, and what they come to.
type simulation struct {
	build   Build
	batches []*Batch
	truth   map[string][]uint64
}

// simulate has agents count in windows, in several ticks each, restart and reset, send a part twice, and
// all in a random order.
func simulate(agents, windows, n int) *simulation {
	r := rand.New(rand.NewPCG(1, uint64(agents)))
	sim := &simulation{build: Build{ID: "build", Release: "1", Units: units(n, 20)}, truth: make(map[string][]uint64)}
	for _, u := range sim.build.Units {
		sim.truth[u.Name] = make([]uint64, u.Counters)
	}
	for agent := range agents {
		in := Instance{Host: fmt.Sprintf("host%d", agent%7), PID: agent, Start: day1}
		for window := range windows {
			if r.IntN(4) == 0 {
				in.Epoch++
			}
			reached := make([][]uint64, n)
			for range 3 { // ticks
				b := &Batch{Build: "build", Instance: in, Window: day1.Add(time.Duration(window) * time.Minute)}
				for i := range n {
					if r.IntN(3) > 0 {
						continue // nothing has changed
					}
					u := &sim.build.Units[i]
					if reached[i] == nil {
						reached[i] = make([]uint64, u.Counters)
					}
					for c := range reached[i] {
						if r.IntN(2) == 0 {
							more := r.Uint64N(1000)
							reached[i][c] += more
							sim.truth[u.Name][c] += more
						}
					}
					b.Usage = append(b.Usage, Usage{u.Hash(), slices.Clone(reached[i])})
				}
				sim.batches = append(sim.batches, b)
				if r.IntN(10) == 0 {
					sim.batches = append(sim.batches, b)
				}
			}
		}
	}
	r.Shuffle(len(sim.batches), func(i, j int) { sim.batches[i], sim.batches[j] = sim.batches[j], sim.batches[i] })
	return sim
}

// TestKilled kills who writes again and again, in the middle of it. What was acknowledged is there, and
// in the end the sums are exact.
func TestKilled(t *testing.T) {
	if dir := os.Getenv("FOOTFALL_TEST_STORE"); dir != "" {
		pushSimulation(t, dir)
		return
	}
	sim := simulate(12, 3, 30)
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.PutBuild(t.Context(), &sim.build); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	acknowledged := make(map[int]bool)
	for kill := 1; kill <= 5; kill++ {
		for _, i := range pushAndKill(t, dir, kill*len(sim.batches)/8) {
			acknowledged[i] = true
		}
		checkAcknowledged(t, dir, sim, acknowledged)
	}
	s = open(t, dir)
	for _, b := range sim.batches {
		if err := s.Push(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(sim.truth, totals(t, s, &Query{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// pushAndKill runs a process that pushes the simulation, and kills it after so many acknowledgements.
func pushAndKill(t *testing.T, dir string, after int) (acknowledged []int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), "FOOTFALL_TEST_STORE="+dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var i int
		if _, err := fmt.Sscanf(lines.Text(), "acknowledged %d", &i); err != nil {
			continue
		}
		if acknowledged = append(acknowledged, i); len(acknowledged) == after {
			_ = cmd.Process.Kill()
		}
	}
	_ = cmd.Wait()
	if len(acknowledged) < after {
		t.Fatalf("%d batches acknowledged, want %d", len(acknowledged), after)
	}
	return acknowledged
}

func pushSimulation(t *testing.T, dir string) {
	s := open(t, dir)
	for i, b := range simulate(12, 3, 30).batches {
		if err := s.Push(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		fmt.Println("acknowledged", i)
	}
}

// checkAcknowledged has the sums be at least what was acknowledged, and at most the truth.
func checkAcknowledged(t *testing.T, dir string, sim *simulation, acknowledged map[int]bool) {
	t.Helper()
	type key struct {
		window int64
		pid    int
		epoch  int
		unit   Hash
	}
	reached := make(map[key][]uint64)
	for i := range acknowledged {
		b := sim.batches[i]
		for _, u := range b.Usage {
			k := key{b.Window.Unix(), b.Instance.PID, b.Instance.Epoch, u.Unit}
			if reached[k] == nil {
				reached[k] = make([]uint64, len(u.Hits))
			}
			greatest(reached[k], u.Hits)
		}
	}
	least := make(map[Hash][]uint64)
	for k, hits := range reached {
		if least[k.unit] == nil {
			least[k.unit] = make([]uint64, len(hits))
		}
		Add(least[k.unit], hits)
	}
	s := open(t, dir)
	got := totals(t, s, &Query{})
	for i := range sim.build.Units {
		u := &sim.build.Units[i]
		for c, n := range least[u.Hash()] {
			if got[u.Name][c] < n || got[u.Name][c] > sim.truth[u.Name][c] {
				t.Fatalf("%s, counter %d: %d, of which %d were acknowledged and %d counted", u.Name, c, got[u.Name][c], n, sim.truth[u.Name][c])
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestTogether pushes from several goroutines while others ask.
func TestTogether(t *testing.T) {
	sim := simulate(8, 2, 20)
	s := open(t, t.TempDir())
	if err := s.PutBuild(t.Context(), &sim.build); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error)
	const pushers = 8
	for n := range pushers {
		go func() {
			var err error
			for i := n; i < len(sim.batches) && err == nil; i += pushers {
				err = s.Push(context.WithoutCancel(t.Context()), sim.batches[i])
			}
			failed <- err
		}()
	}
	for range pushers {
		totals(t, s, &Query{})
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(sim.truth, totals(t, s, &Query{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOneWriter lets nobody else write, and others read.
func TestOneWriter(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if _, err := OpenSQLite(t.Context(), dir); !errors.Is(err, ErrOpen) {
		t.Errorf("a second writer: %v", err)
	}
	reads, err := ReadSQLite(t.Context(), dir)
	if err == nil {
		err = reads.Close()
	}
	if err := errors.Join(err, s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if err := open(t, dir).Close(); err != nil {
		t.Error(err)
	}
}

// TestNewer refuses a store of a later footfall, and leaves it as it is.
func TestNewer(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if _, err := s.db.Exec("PRAGMA user_version = 1000"); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSQLite(t.Context(), dir); err == nil {
		t.Error("opened")
	}
}

func FuzzVector(f *testing.F) {
	f.Add([]byte{0, 2, 7}, 4)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, 1)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		if n < 0 || n > 1<<16 {
			return
		}
		whole := b
		if v, err := UnpackVector(b, n); err == nil {
			again, err := UnpackVector(PackVector(v), n)
			if err != nil || !slices.Equal(v, again) {
				t.Errorf("%v, %v, %v", v, again, err)
			}
		}
		var v []uint64
		for ; len(b) >= 8; b = b[8:] {
			v = append(v, binary.LittleEndian.Uint64(b)&^0xff00)
		}
		if got, err := UnpackVector(PackVector(v), len(v)); err != nil || !slices.Equal(v, got) {
			t.Errorf("%v, %v, %v", v, got, err)
		}
		times := make([]uint64, len(v))
		if err := unpackTimes(packTimes(v), times); err != nil || !slices.Equal(v, times) {
			t.Errorf("times %v, %v, %v", v, times, err)
		}
		_ = unpackTimes(whole, make([]uint64, n))
	})
}
