//go:build linux

package instrument

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestConfirmGprof compares with what gprof counts of the same program.
func TestConfirmGprof(t *testing.T) {
	for _, flags := range []string{"-O0", "-O1 -fno-optimize-sibling-calls", "-O2 -fno-optimize-sibling-calls -fno-ipa-ra"} {
		t.Run(flags, func(t *testing.T) {
			b := build{compiler: "gcc-12", flags: flags, cpu: "amd64"}
			_, c := b.program(t, "testdata/calls.c", "testdata/other.c")
			want := gprofCalls(t, flags)
			got := make(map[string]uint64)
			for _, f := range c.Images[0].Functions {
				// gprof does not know who called main, and compare from the C library.
				if f.Name != "main" && f.Name != "compare" && f.Calls > 0 {
					got[f.Name] += f.Calls
				}
			}
			if len(want) < 20 {
				t.Errorf("gprof knows only %d functions", len(want))
			}
			for name, n := range want {
				if got[name] != n {
					t.Errorf("%s: %d calls, gprof counts %d", name, got[name], n)
				}
			}
			for name := range got {
				if want[name] == 0 {
					t.Errorf("%s: %d calls, gprof counts none", name, got[name])
				}
			}
		})
	}
}

// gprofCalls returns the calls of gprof's flat profile.
func gprofCalls(t *testing.T, flags string) map[string]uint64 {
	t.Helper()
	dir := t.TempDir()
	words := append([]string{"gcc-12", "-pg"}, strings.Fields(flags)...)
	for _, s := range []string{"calls.c", "other.c"} {
		abs, err := filepath.Abs(filepath.Join("testdata", s))
		if err != nil {
			t.Fatal(err)
		}
		words = append(words, abs)
	}
	command(t, dir, append(words, "-o", "prog")...)
	command(t, dir, filepath.Join(dir, "prog"))
	calls := make(map[string]uint64)
	// [index] %time self children called[+recursive] name [index]
	for line := range strings.Lines(string(command(t, dir, "gprof", "-b", "-q", "prog", "gmon.out"))) {
		f := strings.Fields(line)
		if len(f) < 7 || !strings.HasPrefix(f[0], "[") {
			continue
		}
		first, recursive, _ := strings.Cut(f[4], "+")
		n, err := strconv.ParseUint(first, 10, 64)
		if err != nil {
			continue // a cycle
		}
		m, _ := strconv.ParseUint(recursive, 10, 64)
		if name := f[5]; name != "<cycle" {
			calls[name] += n + m // static namesakes are two lines
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "gmon.out")); err != nil {
		t.Fatal(err)
	}
	return calls
}
