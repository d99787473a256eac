package listing

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCalled(t *testing.T) {
	for line, want := range map[string]string{
		"/usr/bin/gcov-12":                      "/usr/bin/gcov-12",
		"x86_64-linux-gnu-gcov-12 -b x.c":       "x86_64-linux-gnu-gcov-12 -b x.c",
		"/opt/footfall gcov x.c":                "footfall gcov x.c",
		"footfall gcov --help --gcc-version=12": "footfall gcov --help --gcc-version=12",
		"footfall gcov --help":                  "", // footfall's help
		"footfall gcov":                         "",
		"footfall --no-config gcov x.c":         "",
		"footfall-gcc gcov":                     "",
		"gcov-tool gcov x.c":                    "",
		"gcov-dump-12 x.gcda":                   "",
		"llvm-cov-19 gcov x.gcda":               "",
		"footfall report gcov":                  "",
		"/opt/gcov/footfall report":             "",
	} {
		prog, args, stderr := called(strings.Fields(line))
		if got := strings.TrimSpace(prog + " " + strings.Join(args, " ")); got != want || (stderr != nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", line, got, stderr, want)
		}
	}
}

func TestSize(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int{"a.gcno": 1000, "b.gcno": 100} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for line, want := range map[string]int64{
		"a.gcda": 1000, "-b a.o b.c": 1100, filepath.Join(dir, "b.gcda"): 100, "c.c": 0, "--version": 0, "": 0,
	} {
		if got := size(strings.Fields(line)); got != want {
			t.Errorf("%q: %d bytes, want %d", line, got, want)
		}
	}
}
