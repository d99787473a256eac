package sqlite

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"footfall/fleet/store"
	"footfall/fleet/store/fixtures"
)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestStore(t *testing.T) {
	fixtures.Contract(t, func(t *testing.T) (store.Store, func() store.Reader) {
		dir := t.TempDir()
		return open(t, dir), func() store.Reader {
			r, err := Read(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
	})
}

// TestBackup copies a store while it is used.
func TestBackup(t *testing.T) {
	dir, copied := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	s := open(t, dir)
	sim := fixtures.Simulate(2, 1, 5)
	if err := s.PutBuild(t.Context(), &sim.Build); err != nil {
		t.Fatal(err)
	}
	for _, b := range sim.Batches {
		if err := s.Push(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if err := Dir(dir).Backup(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sim.Truth, fixtures.Totals(t, open(t, copied), &store.Query{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestKilled kills who writes again and again, in the middle of it. What was acknowledged is there, and
// in the end the sums are exact.
func TestKilled(t *testing.T) {
	if dir := os.Getenv("FOOTFALL_TEST_STORE"); dir != "" {
		pushSimulation(t, dir)
		return
	}
	sim := fixtures.Simulate(12, 3, 30)
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.PutBuild(t.Context(), &sim.Build); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	acknowledged := make(map[int]bool)
	for kill := 1; kill <= 5; kill++ {
		for _, i := range pushAndKill(t, dir, kill*len(sim.Batches)/8) {
			acknowledged[i] = true
		}
		s = open(t, dir)
		sim.CheckAcknowledged(t, s, acknowledged)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, dir)
	for _, b := range sim.Batches {
		if err := s.Push(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(sim.Truth, fixtures.Totals(t, s, &store.Query{})); diff != "" {
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
	for i, b := range fixtures.Simulate(12, 3, 30).Batches {
		if err := s.Push(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		fmt.Println("acknowledged", i)
	}
}

// TestExpiryOfMany forgets instances and texts beside many counts that stay. Looked for in these one by one that took 10 seconds,
// for which nobody could push.
func TestExpiryOfMany(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	list := fixtures.Units(200, 1)
	old := store.Build{ID: "old", Units: list[:1:1]}
	for i := range 500 {
		old.Units = append(old.Units, store.Unit{Kind: store.Text, Name: fmt.Sprint(i), Program: fmt.Append(nil, i)})
	}
	if err := errors.Join(s.PutBuild(t.Context(), &old), s.PutBuild(t.Context(), &store.Build{ID: "new", Units: list})); err != nil {
		t.Fatal(err)
	}
	now := fixtures.Day1.Add(500 * 24 * time.Hour)
	pushed := make(chan error)
	const hosts = 500
	for host := range hosts {
		in := store.Instance{Host: fmt.Sprint(host)}
		b := &store.Batch{Build: "new", Window: now, Instance: in}
		for i := range list {
			b.Usage = append(b.Usage, store.Usage{Unit: list[i].Hash(), Hits: make([]uint64, list[i].Counters)})
		}
		go func() {
			pushed <- errors.Join(s.Push(t.Context(), b), s.Push(t.Context(), &store.Batch{Build: "old", Window: fixtures.Day1, Instance: in, Usage: b.Usage[:1]}))
		}()
	}
	for range hosts {
		if err := <-pushed; err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	if err := s.Expire(t.Context(), now.Add(-24*time.Hour), now.Add(-48*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("%v", took)
	}
	if z, err := s.Sizes(t.Context()); err != nil || z.Texts != 0 || z.Instances != hosts || z.Windows != 1 {
		t.Errorf("%+v, %v", z, err)
	}
}

// TestOneWriter lets nobody else write, and others read.
func TestOneWriter(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if _, err := Open(t.Context(), dir); !errors.Is(err, ErrOpen) {
		t.Errorf("a second writer: %v", err)
	}
	reads, err := Read(t.Context(), dir)
	if err == nil {
		if err := reads.Push(t.Context(), &store.Batch{}); !errors.Is(err, store.ErrClosing) {
			t.Errorf("pushed to a store that is read: %v", err)
		}
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
	if _, err := Open(t.Context(), dir); err == nil {
		t.Error("opened")
	}
}
