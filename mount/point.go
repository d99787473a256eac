//go:build linux

package mount

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// device is how a program becomes a file system.
const device = "/dev/fuse"

// deviceThere returns an error that says what is needed where FUSE is missing.
func deviceThere() error {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ENODEV):
		return fmt.Errorf("%w: mounting needs FUSE: as root, modprobe fuse; a container needs --device %s --cap-add SYS_ADMIN", err, device)
	case err != nil:
		return fmt.Errorf("mounting needs FUSE: %w", err)
	}
	return f.Close()
}

// mountPoint returns the absolute name of an empty directory, after having
// unmounted what a crash has left there.
func mountPoint(dir string, notice func(string)) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	// The last component may not be looked at before we know whether its
	// file system answers.
	parent, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return "", err
	}
	abs = filepath.Join(parent, filepath.Base(abs))
	kind, err := mountedOn(abs)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(abs)
	if err == nil && kind == "fuse."+fileSystem { // the kernel may know that without asking
		var f *os.File
		if f, err = os.Open(abs); err == nil {
			f.Close()
		}
	}
	crashed := errors.Is(err, unix.ENOTCONN) || errors.Is(err, unix.ECONNABORTED)
	switch {
	case crashed && kind == "fuse."+fileSystem:
		if err := detach(abs); err != nil {
			return "", fmt.Errorf("%s: a footfall that crashed has left it mounted, and it cannot be unmounted: %w: try fusermount3 -u -z %s", dir, err, dir)
		}
		notice(fmt.Sprintf("%s: unmounted what a footfall that crashed has left", dir))
		return mountPoint(dir, notice)
	case crashed:
		return "", fmt.Errorf("%s: its file system (%s) has crashed: unmount it with fusermount3 -u %s", dir, kind, dir)
	case errors.Is(err, os.ErrPermission) && kind == "fuse."+fileSystem:
		return "", fmt.Errorf("%s: another user has mounted footfall there", dir)
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("%s: no such directory: mkdir %s", dir, dir)
	case err != nil:
		return "", err
	case !info.IsDir():
		return "", fmt.Errorf("%s is not a directory: name an empty one", dir)
	case kind == "fuse."+fileSystem:
		return "", fmt.Errorf("%s: footfall is mounted there already: fusermount3 -u %s unmounts it", dir, dir)
	}
	if abs, err = filepath.EvalSymlinks(abs); err != nil {
		return "", err
	}
	return abs, isEmpty(dir)
}

func isEmpty(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if names, _ := f.Readdirnames(1); len(names) > 0 {
		return fmt.Errorf("%s is not empty: it holds %s: name an empty directory", dir, names[0])
	}
	return nil
}

// mountedOn returns the type of the file system that is mounted on dir, "" for
// none. Lines of mountinfo are
//
//	36 35 98:0 /root /mount\040point rw,noatime shared:1 - fuse.footfall source options
func mountedOn(dir string) (kind string, err error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		field := strings.Fields(before)
		if len(field) > 4 && unescape(field[4]) == dir {
			kind, _, _ = strings.Cut(after, " ") // the last one hides the others
		}
	}
	return kind, lines.Err()
}

// unescape replaces \040 and the like.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// detach unmounts dir even where it is in use.
func detach(dir string) error {
	err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err == nil {
		return nil
	}
	out, failed := exec.Command("fusermount3", "-u", "-z", dir).CombinedOutput()
	switch {
	case failed == nil:
		return nil
	case len(out) > 0:
		return errors.New(strings.TrimSpace(string(out)))
	}
	return errors.Join(err, failed)
}
