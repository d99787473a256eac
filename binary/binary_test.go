package binary

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// built compiles a program with a symbol of its own.
func built(t testing.TB, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "a.c")
	if err := os.WriteFile(source, []byte("int footfall_mark = 3;\nstatic int other_footfall_mark(void) { return 4; }\nint main(void) { return other_footfall_mark(); }\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "a")
	if out, err := exec.Command("gcc-12", append(flags, "-Wl,--build-id", "-o", name, source)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return name
}

// TestSymbols compares with what nm and readelf say.
func TestSymbols(t *testing.T) {
	for _, flags := range []string{"-pie", "-no-pie -static", "-m32", "-m32 -no-pie"} {
		name := built(t, strings.Fields(flags)...)
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Open(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		nm, err := exec.Command("nm", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, symbol := range []string{"footfall_mark", "other_footfall_mark"} {
			var want uint64
			for line := range strings.Lines(string(nm)) {
				if field := strings.Fields(line); len(field) == 3 && field[2] == symbol {
					want, _ = strconv.ParseUint(field[0], 16, 64)
				}
			}
			if got, err := f.Symbols(symbol); err != nil || len(got) != 1 || got[0] != want || want == 0 {
				t.Errorf("%s: %s: %#x, %v; nm says %#x", flags, symbol, got, err, want)
			}
		}
		if notes, err := exec.Command("readelf", "-n", name).Output(); err != nil || !strings.Contains(string(notes), "Build ID: "+f.BuildID()) || len(f.BuildID()) != 40 {
			t.Errorf("%s: build ID %q, %v", flags, f.BuildID(), err)
		}
		if want := map[bool]int{true: 4, false: 8}[strings.Contains(flags, "m32")]; f.PointerSize() != want {
			t.Errorf("%s: pointers of %d bytes", flags, f.PointerSize())
		}
		if out, err := exec.Command("strip", name).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if b, err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
		if f, err = Open(bytes.NewReader(b)); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Symbols("footfall_mark"); !errors.Is(err, ErrNoSymbols) {
			t.Errorf("%s: stripped: %v", flags, err)
		}
	}
}

// FuzzOpen asks files that may hold anything.
func FuzzOpen(f *testing.F) {
	for _, flags := range []string{"-pie", "-m32"} {
		b, err := os.ReadFile(built(f, flags))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:300])
	}
	f.Fuzz(func(_ *testing.T, b []byte) {
		file, err := Open(bytes.NewReader(b))
		if err != nil {
			return
		}
		_, _ = file.Symbols("footfall_mark")
		_ = file.Bias(0x1000)
		_ = file.debugPaths("/usr/bin/program")
	})
}
