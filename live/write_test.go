//go:build linux

package live

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"footfall/formats/gcov"
	"footfall/process/needs"
)

// TestInPlace adds counts to data files, lets the program do the same to the
// same files, and compares.
func TestInPlace(t *testing.T) {
	for _, compiler := range compilers(t) {
		for _, v := range variants {
			switch v.name {
			case "O0", "values", "C++ comdat", "m32":
			default:
				continue
			}
			t.Run(compiler+"/"+v.name, func(t *testing.T) {
				t.Parallel()
				if compiler < "gcc-11" && v.name == "values" {
					t.Skip("value profiles of GCC before 11 are not merged")
				}
				p := v.start(t, compiler)
				process := opened(t, p)
				p.tell("work")
				units := snapshot(t, process)
				inPlace(t, process, units)
				compare(t, p.dir, units) // the first run
				first := contents(t, units)
				p.tell("dump")
				theirs := contents(t, units)
				for name, b := range first {
					write(t, name, b)
				}
				inPlace(t, process, units)
				for name, b := range contents(t, units) {
					if !bytes.Equal(b, theirs[name]) {
						t.Errorf("%s: two runs differ\nprogram  %x\nfootfall %x", filepath.Base(name), theirs[name], b)
					}
				}
			})
		}
	}
}

func inPlace(t *testing.T, p *CountedProcess, units []Unit) {
	t.Helper()
	if n, _, err := p.WriteInPlace(units); err != nil || n != len(units) {
		t.Fatalf("%d files of %d: %v", n, len(units), err)
	}
}

func contents(t *testing.T, units []Unit) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	for _, u := range units {
		b, err := os.ReadFile(u.Name)
		if err != nil {
			t.Fatal(err)
		}
		files[u.Name] = b
	}
	return files
}

// TestInPlaceWhere compares the names of files with those that programs choose.
func TestInPlaceWhere(t *testing.T) {
	for _, env := range []map[string]string{
		{"GCOV_PREFIX": "PREFIX/a/"},
		{"GCOV_PREFIX": "PREFIX", "GCOV_PREFIX_STRIP": "1"},
		{"GCOV_PREFIX": "PREFIX", "GCOV_PREFIX_STRIP": "100"},
		{"GCOV_PREFIX_STRIP": "2"},
		{"GCOV_PREFIX": "relative", "GCOV_PREFIX_STRIP": "2"},
	} {
		prefix := t.TempDir()
		for _, name := range []string{"GCOV_PREFIX", "GCOV_PREFIX_STRIP"} {
			t.Setenv(name, strings.Replace(env[name], "PREFIX", prefix, 1))
			if env[name] == "" {
				os.Unsetenv(name)
			}
		}
		v := variant{sources: c}
		p := v.start(t, "gcc-12")
		process := opened(t, p)
		p.tell("dump")
		theirs := dataFiles(t, prefix, p.dir)
		units := snapshot(t, process)
		for i := range units {
			units[i].Load = nil // which tells that the program has written them, so that they would be skipped
		}
		for name := range theirs {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
		inPlace(t, process, units)
		ours := dataFiles(t, prefix, p.dir)
		if len(ours) != 2 || len(theirs) != 2 {
			t.Errorf("%v: %d files, the program writes %d", env, len(ours), len(theirs))
		}
		for name, b := range theirs {
			if !bytes.Equal(ours[name], b) {
				t.Errorf("%v: %s: differs from the program's, or is not there", env, name)
			}
		}
	}
}

func dataFiles(t *testing.T, dirs ...string) map[string][]byte {
	t.Helper()
	found := make(map[string][]byte)
	for _, dir := range dirs {
		err := filepath.Walk(dir, func(name string, info os.FileInfo, err error) error {
			if err == nil && strings.HasSuffix(name, ".gcda") {
				found[name], err = os.ReadFile(name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// TestInPlaceAsUser adds to files of another user: what is made is his, and
// what he may not change stays.
func TestInPlaceAsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		needs.Skip(t, needs.Root, "to start a program of another user")
	}
	v := variant{sources: c}
	dir := t.TempDir()
	t.Setenv("GCOV_PREFIX", dir)
	started := v.start(t, "gcc-12")
	theirs := started.runAs(t, nobody)
	process := opened(t, theirs)
	units := snapshot(t, process)
	if n, _, err := process.WriteInPlace(units); err == nil || n != 0 {
		t.Errorf("%d files in a directory that is not his: %v", n, err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	inPlace(t, process, units)
	for name := range dataFiles(t, dir) {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if uid := info.Sys().(*syscall.Stat_t).Uid; uid != nobody {
			t.Errorf("%s belongs to user %d", name, uid)
		}
	}
	if files := dataFiles(t, dir); len(files) != 2 {
		t.Errorf("%d files", len(files))
	}
	if f, err := os.Create(filepath.Join(dir, "after")); err != nil {
		t.Errorf("rights are not back: %v", err)
	} else {
		f.Close()
	}
}

// TestDumpStaysInside dumps names that would lead out of the directory.
func TestDumpStaysInside(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	counts := &gcov.Counts{Version: 'B'<<24 | '2'<<16 | '2'<<8 | '*', Stamp: 1}
	counts.FinishRun(0)
	var units []Unit
	for _, name := range []string{"/../../a.gcda", "../b.gcda", "x/../../../c.gcda", "/deep/./down//d.gcda", "link/e.gcda", "..", "", "/", "x\x00y.gcda", strings.Repeat("long/", 300) + "f.gcda"} {
		units = append(units, Unit{Name: name, Counts: counts})
	}
	n, err := Dump(dir, units)
	if err == nil || !strings.Contains(err.Error(), "link") {
		t.Errorf("through a link that leads out: %v", err)
	}
	if files := dataFiles(t, outside, filepath.Dir(dir)); len(files) == 0 || len(dataFiles(t, outside)) > 0 {
		t.Errorf("files %v", len(files))
	}
	for _, name := range []string{"a.gcda", "b.gcda", "c.gcda", "deep/down/d.gcda"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if n < 4 || n == len(units) {
		t.Errorf("%d files", n)
	}
}
