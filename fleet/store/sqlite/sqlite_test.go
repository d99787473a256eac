package sqlite

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

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
