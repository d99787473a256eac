//go:build linux

package ftrace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// usual are the places where tracefs is mounted; the second one is made by the
// kernel when debugfs is there.
var usual = []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}

// A tree is tracefs, wherever it is.
type tree struct {
	dir   string
	mount int // file descriptor of a mount of our own; -1: none
}

// openTree finds tracefs. Where it is not mounted it is mounted for this process
// alone, at no place, so that it goes with the process.
func openTree() (*tree, error) {
	for _, dir := range usual {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil && st.Type == unix.TRACEFS_MAGIC {
			return &tree{dir, -1}, nil
		}
	}
	fd, err := unix.Fsopen("tracefs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, noTree(err)
	}
	defer unix.Close(fd)
	if err := unix.FsconfigCreate(fd); err != nil {
		return nil, noTree(err)
	}
	mount, err := unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return nil, noTree(err)
	}
	return &tree{fmt.Sprintf("/proc/self/fd/%d", mount), mount}, nil
}

func noTree(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0:
		return fmt.Errorf("kernel: tracing it needs root: %w", err)
	case errors.Is(err, unix.ENODEV):
		return errors.New("kernel: it was built without CONFIG_FTRACE")
	}
	return fmt.Errorf("kernel: tracefs cannot be mounted: mount -t tracefs none %s: %w", usual[0], err)
}

func (t *tree) close() {
	if t.mount >= 0 {
		unix.Close(t.mount)
	}
}

// read returns what a file says, without the newline at its end. The part of its
// name after "footfall: kernel:" is that below tracefs.
func (t *tree) read(name string) (string, error) {
	b, err := os.ReadFile(filepath.Join(t.dir, name))
	if err != nil {
		return "", t.failed("read", name, err)
	}
	return strings.TrimSuffix(string(b), "\n"), nil
}

// write replaces what a file says.
func (t *tree) write(name, text string) error {
	f, err := os.OpenFile(filepath.Join(t.dir, name), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return t.failed("write", name, err)
	}
	if text != "" || !isList(name) {
		_, err = f.WriteString(text + "\n")
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return t.failed("write", name, err)
	}
	return nil
}

func (t *tree) failed(what, name string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	switch {
	case errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0:
		return fmt.Errorf("kernel: tracing it needs root: %w", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("kernel: %s %s: %w: is it locked down (/sys/kernel/security/lockdown), or are functions not to be traced in this machine?", what, name, err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("kernel: there is no %s: was it built with CONFIG_FUNCTION_TRACER and CONFIG_FUNCTION_GRAPH_TRACER?", name)
	}
	return fmt.Errorf("kernel: %s %s: %w", what, name, err)
}

// isList tells whether a file is a list that is empty at first.
func isList(name string) bool { return strings.HasPrefix(filepath.Base(name), "set_") }
