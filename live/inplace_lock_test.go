//go:build linux

package live

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"footfall/formats/gcov"
	"footfall/input"
)

// TestLockedData: a data file that another process never unlocks is an error.
func TestLockedData(t *testing.T) {
	before := lockPatience
	lockPatience = 0
	defer func() { lockPatience = before }()
	name := filepath.Join(t.TempDir(), "x.gcda")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// Of the open file, and so not of this process, as another one's is.
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
		t.Fatal(err)
	}
	if err := addTo(&input.Root{}, name, new(gcov.Counts)); err == nil || !strings.Contains(err.Error(), "another process has held it") {
		t.Errorf("a locked file: %v", err)
	}
	lock.Type = unix.F_UNLCK
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
		t.Fatal(err)
	}
	if err := lockData(f); err != nil {
		t.Errorf("a file that is not locked: %v", err)
	}
}
