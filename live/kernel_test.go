//go:build linux

package live

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// kernelTree unpacks the tree of a kernel, as it was copied out of the guest of
// scripts/guest-kernel.
func kernelTree(t *testing.T) string {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "testdata", "kernel.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return filepath.Join(dir, "gcov")
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, filepath.FromSlash(h.Name))
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(name, 0o777)
		case tar.TypeSymlink:
			err = os.Symlink(h.Linkname, name)
		default:
			b, readErr := io.ReadAll(r)
			err = errors.Join(readErr, os.WriteFile(name, b, 0o666))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

const pipeData, hitsData = "/build/linux/fs/pipe.gcda", "/build/module/hits.gcda"

func TestKernel(t *testing.T) {
	dir := kernelTree(t)
	// A link to the tree, and a name that is not clean, name the same.
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{dir, link, dir + "/./"} {
		k, err := OpenKernel(name)
		if err != nil {
			t.Fatal(err)
		}
		units, err := k.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if len(units) != 2 || units[0].Name != pipeData || units[1].Name != hitsData {
			t.Fatalf("%s: units %+v", name, units)
		}
		for _, u := range units {
			want, err := os.ReadFile(dir + u.Name)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(u.Counts.Encode(), want) {
				t.Errorf("%s: not the kernel's bytes", u.Name)
			}
		}
	}
}

// TestKernelProblems damages files of a tree: the others are still read.
func TestKernelProblems(t *testing.T) {
	dir := kernelTree(t)
	good, err := os.ReadFile(dir + hitsData)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "cp -r copies it"},
		{"no data", []byte("hello, world"), "hits.gcda: "},
		{"cut off", good[:len(good)-5], "hits.gcda: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := os.WriteFile(dir+hitsData, test.data, 0o666); err != nil {
				t.Fatal(err)
			}
			k, err := OpenKernel(dir)
			if err != nil {
				t.Fatal(err)
			}
			units, err := k.Snapshot()
			if len(units) != 1 || units[0].Name != pipeData {
				t.Errorf("units %+v", units)
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestKernelRefuses(t *testing.T) {
	if _, err := OpenKernel(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	empty := t.TempDir()
	if _, err := OpenKernel(empty); !errors.Is(err, ErrNoCounters) {
		t.Errorf("empty: %v", err)
	}
	if err := os.WriteFile(filepath.Join(empty, "reset"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	k, err := OpenKernel(empty)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Snapshot(); !errors.Is(err, ErrNoCounters) {
		t.Errorf("without objects: %v", err)
	}
	// This machine's own kernel: whatever is missing is said.
	if _, err := os.Stat(KernelTree); err != nil {
		_, err := OpenKernel("")
		if err == nil || !strings.Contains(err.Error(), "mount -t debugfs") && !strings.Contains(err.Error(), "CONFIG_GCOV_KERNEL") && !errors.Is(err, fs.ErrPermission) {
			t.Errorf("no tree: %v", err)
		}
	}
}

func TestKernelReset(t *testing.T) {
	dir := kernelTree(t)
	k, err := OpenKernel(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Reset(""); err == nil || !strings.Contains(err.Error(), "is a copy") {
		t.Errorf("copy: %v", err)
	}
	k.copy = false // as if it were debugfs
	outside := filepath.Join(filepath.Dir(dir), "outside.gcda")
	if err := errors.Join(os.WriteFile(outside, []byte("x"), 0o666), os.Symlink(outside, dir+"/link.gcda")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/../outside.gcda", "../outside.gcda", "/link.gcda", "/build/module/hits.gcno", "/reset", "/no/such.gcda"} {
		if err := k.Reset(name); err == nil {
			t.Errorf("reset of %s: no error", name)
		}
	}
	for name, file := range map[string]string{hitsData: hitsData, "": "/reset"} {
		if err := k.Reset(name); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(dir + file); err != nil || !bytes.HasPrefix(b, []byte("0")) {
			t.Errorf("%s: %q, %v, expected 0 in it", file, b, err)
		}
	}
	if b, _ := os.ReadFile(outside); string(b) != "x" {
		t.Errorf("written outside: %q", b)
	}
}

// TestKernelModules reads a tree while modules come and go.
func TestKernelModules(t *testing.T) {
	dir := kernelTree(t)
	data, err := os.ReadFile(dir + hitsData)
	if err != nil {
		t.Fatal(err)
	}
	k, err := OpenKernel(dir)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var modules sync.WaitGroup
	modules.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			module := filepath.Join(dir, "build", "come")
			name := filepath.Join(module, "go.gcda")
			// A file with its content appears at once, as in debugfs.
			err := errors.Join(os.MkdirAll(module, 0o777), os.WriteFile(name+".new", data, 0o666), os.Rename(name+".new", name), os.RemoveAll(module))
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 300 {
		units, err := k.Snapshot()
		if err != nil || len(units) < 2 {
			t.Errorf("%d units, %v", len(units), err)
			break
		}
	}
	close(done)
	modules.Wait()
}

// TestKernelGcov compares with what gcov says about the same files: nothing is
// lost when they are read and written.
func TestKernelGcov(t *testing.T) {
	dir := kernelTree(t)
	k, err := OpenKernel(dir)
	if err != nil {
		t.Fatal(err)
	}
	units, err := k.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	for _, u := range units {
		base := strings.TrimSuffix(filepath.Base(u.Name), ".gcda")
		notes, err := os.ReadFile(filepath.Join(dir, "..", "objects", strings.TrimPrefix(strings.TrimSuffix(u.Name, ".gcda"), "/build")+".gcno"))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(work, base+".gcno"), notes)
		write(t, filepath.Join(work, base+".gcda"), u.Counts.Encode())
		cmd := exec.Command("gcov-12", "--stdout", "--function-summaries", base)
		cmd.Dir = work
		out, err := cmd.CombinedOutput()
		if err != nil || bytes.Contains(out, []byte("stamp mismatch")) || !bytes.Contains(out, []byte("Lines executed:")) {
			t.Errorf("gcov-12 of %s: %v\n%s", u.Name, err, out)
		}
		if base == "hits" && !bytes.Contains(out, []byte("Lines executed:100.00% of 6")) {
			t.Errorf("gcov-12 of %s:\n%s", u.Name, out)
		}
	}
}
