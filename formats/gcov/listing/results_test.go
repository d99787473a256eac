package listing

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// A meter takes a listing, and looks from time to time how large the heap is.
type meter struct {
	sum      hash.Hash
	size, at int
	most     uint64
}

func (m *meter) Write(b []byte) (int, error) {
	if m.size += len(b); m.size > m.at {
		m.at = m.size + 4<<20
		m.most = max(m.most, heapInUse())
	}
	return m.sum.Write(b)
}

// heapInUse is how much memory is used, without garbage: how much there is of that
// depends on what other tests keep.
func heapInUse() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// Where many functions stand on one long line, as in generated code, gcov repeats
// the line for each.
func TestConfirmLongListing(t *testing.T) {
	if _, err := exec.LookPath("gcov-12"); err != nil {
		t.Fatal("gcov-12 is not installed: scripts/test brings it")
	}
	t.Chdir(t.TempDir())
	var source strings.Builder
	for i := range 300 {
		fmt.Fprintf(&source, "int q%d(int a) { return a > %d; } ", i, i)
	}
	fmt.Fprintf(&source, "/* %s */\nint main(void) { return q1(2) & 0; }\n", strings.Repeat("long ", 60_000))
	for _, c := range [][]string{{"gcc-12", "--coverage", "-c", "x.c"}, {"gcc-12", "--coverage", "x.o", "-o", "x"}, {"./x"}} {
		if err := os.WriteFile("x.c", []byte(source.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", c, err, out)
		}
	}
	for _, name := range []string{"x.c", "x.gcno", "x.o", "x.gcda"} { // the source is older
		if err := exec.Command("touch", "-d", "2020-01-01", name).Run(); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("gcov-12", "-t", "x.gcda")
	want := &meter{sum: sha256.New()}
	cmd.Stdout = want
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	before := heapInUse()
	got := &meter{sum: sha256.New()}
	if status := Run(&Invocation{Prog: "gcov", Args: []string{"-t", "x.gcda"}, Stdout: got, Stderr: io.Discard}); status != 0 {
		t.Errorf("status %d", status)
	}
	if got.size != want.size || !bytes.Equal(got.sum.Sum(nil), want.sum.Sum(nil)) {
		t.Errorf("%d bytes, gcov has %d", got.size, want.size)
	}
	if took := int64(got.most - before); took > int64(got.size)/10 {
		t.Errorf("a listing of %d bytes takes %d", got.size, took)
	}

	// The same in a file, and where it cannot be written.
	var stdout, stderr bytes.Buffer
	Run(&Invocation{Prog: "gcov", Args: []string{"x.gcda"}, Stdout: &stdout, Stderr: &stderr})
	info, err := os.Stat("x.c.gcov")
	if err != nil || info.Size() != int64(want.size) || !strings.Contains(stdout.String(), "Creating 'x.c.gcov'\n") {
		t.Errorf("%v, %v\n%s%s", info, err, &stdout, &stderr)
	}
	if err := os.Remove("x.c.gcov"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("x.c.gcov", 0o777); err != nil {
		t.Fatal(err)
	}
	stderr.Reset()
	if status := Run(&Invocation{Prog: "gcov", Args: []string{"x.gcda"}, Stdout: &stdout, Stderr: &stderr}); stderr.String() != "Could not open output file 'x.c.gcov'\n" {
		t.Errorf("status %d, %s", status, &stderr)
	}
}
