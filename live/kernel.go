//go:build linux

package live

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"footfall/formats/gcov"
)

// KernelTree is where a kernel built with CONFIG_GCOV_KERNEL shows its
// counters, when debugfs is mounted at its usual place:
//
//	reset                       writing to it sets all counters to zero
//	src/linux/fs/pipe.gcda      the counters of /src/linux/fs/pipe.o; writing to it sets them to zero
//	src/linux/fs/pipe.gcno      link to /src/linux/fs/pipe.gcno
//
// All files have size 0 and yet content. What is read is frozen when the file
// is opened. Files of modules come when these are loaded; after they are
// unloaded their files stay until they are reset, unless the kernel was started
// with gcov_persist=0.
const KernelTree = "/sys/kernel/debug/gcov"

// A Kernel is the counters of the running kernel, or of a copy that was made
// of them. Its methods may be called at the same time.
type Kernel struct {
	dir  string
	copy bool // the tree is no debugfs
}

// OpenKernel finds the counters of the running kernel, if dir is empty, or of a
// kernel whose tree of counters was copied to dir. It returns ErrNoCounters,
// wrapped, if there are none, and fs.ErrPermission if only root can tell.
func OpenKernel(dir string) (*Kernel, error) {
	k := &Kernel{dir: cmp.Or(dir, KernelTree)}
	entries, err := os.ReadDir(k.dir)
	if err == nil {
		k.dir, err = absolute(k.dir)
	}
	k.copy = !isDebugFS(k.dir)
	switch {
	case err != nil && dir == "":
		return nil, kernelRefuses(path.Dir(KernelTree), err)
	case err != nil:
		return nil, fmt.Errorf("counters of a kernel: %w", err)
	case len(entries) == 0:
		return nil, fmt.Errorf("kernel: %s is empty: %w", k.dir, ErrNoCounters)
	}
	return k, nil
}

// absolute returns the name of dir without links, so that what is found below
// it begins with it.
func absolute(dir string) (string, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	return filepath.Abs(dir)
}

// kernelRefuses says why the tree below mount cannot be read.
func kernelRefuses(mount string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return notRoot("reading", err)
	case !isDebugFS(mount):
		return fmt.Errorf("kernel: debugfs is not mounted: mount -t debugfs none %s: %w", mount, err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("kernel: %w: it was built without CONFIG_GCOV_KERNEL", ErrNoCounters)
	}
	return fmt.Errorf("kernel: %w", err)
}

// notRoot says what is needed to read or reset.
func notRoot(what string, err error) error {
	need := "root"
	if os.Geteuid() == 0 {
		need = "a kernel that is not locked down (see /sys/kernel/security/lockdown) and, in a container, the right to use debugfs"
	}
	return fmt.Errorf("kernel: %s its counters needs %s: %w", what, need, err)
}

func isDebugFS(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Type == unix.DEBUGFS_MAGIC
}

// Snapshot reads the counters of all objects as they are now, one object after
// the other; those of one object are of one moment. Objects whose counters
// cannot be used are told in the error, beside the units that can be.
func (k *Kernel) Snapshot() ([]Unit, error) {
	w := kernelWalk{Kernel: k}
	if err := filepath.WalkDir(k.dir, w.visit); err != nil {
		w.problems = append(w.problems, err)
	}
	if len(w.units) == 0 && len(w.problems) == 0 {
		return nil, fmt.Errorf("kernel: no .gcda file in %s: %w", k.dir, ErrNoCounters)
	}
	return w.units, errors.Join(w.problems...)
}

// A kernelWalk goes through the tree while modules come and go: what is named
// by a directory may be gone when it is looked at.
type kernelWalk struct {
	*Kernel
	units    []Unit
	problems []error
}

func (w *kernelWalk) visit(name string, entry fs.DirEntry, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist) && name != w.dir:
		return nil
	case err != nil:
		w.problems = append(w.problems, fmt.Errorf("kernel: %w", err))
		return nil
	case !strings.HasSuffix(name, ".gcda") || !entry.Type().IsRegular():
		return nil
	}
	switch counts, err := readKernelCounts(name); {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, unix.EIO) && !w.copy: // removed while it was read
	case errors.Is(err, fs.ErrPermission) && !w.copy:
		return notRoot("reading", err) // it is so with all
	case err != nil:
		w.problems = append(w.problems, err)
	default:
		w.units = append(w.units, Unit{Name: "/" + strings.TrimPrefix(name[len(w.dir):], "/"), Image: "kernel", Counts: counts})
	}
	return nil
}

// maxKernelFile is more than the counters of any object take.
const maxKernelFile = 1 << 28

func readKernelCounts(name string) (*gcov.Counts, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxKernelFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxKernelFile:
		return nil, fmt.Errorf("%s: more than %d bytes of counters", name, maxKernelFile)
	case len(b) == 0:
		return nil, fmt.Errorf("%s: empty: was it copied by a program that believes in the size 0 of the original? cp -r copies it", name)
	}
	counts, err := gcov.ReadCounts(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return counts, nil
}

// Reset sets the counters of one object, named as in Unit, or with name "" of
// all objects, to zero: for everybody. The files of modules that are no longer
// loaded vanish.
func (k *Kernel) Reset(name string) error {
	file := "reset"
	if name != "" {
		if file = strings.TrimPrefix(name, "/"); !filepath.IsLocal(file) || !strings.HasSuffix(file, ".gcda") {
			return fmt.Errorf("kernel: %q is no name of an object's .gcda file", name)
		}
	}
	if k.copy {
		return fmt.Errorf("kernel: %s is a copy; only counters of a running kernel can be reset", k.dir)
	}
	err := k.write(file, "0")
	switch {
	case errors.Is(err, fs.ErrPermission):
		return notRoot("resetting", err)
	case errors.Is(err, fs.ErrNotExist) && name != "":
		return fmt.Errorf("kernel: it has no counters of %s: %w", name, err)
	case err != nil:
		return fmt.Errorf("kernel: reset: %w", err)
	}
	return nil
}

func (k *Kernel) write(file, text string) error {
	root, err := os.OpenRoot(k.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := root.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
