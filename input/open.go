//go:build linux

package input

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Open opens a regular file for reading. Anything else is an error, and nothing
// waits for whoever is at the other end of it.
func Open(name string) (*os.File, error) {
	if process, inside, ok := inProcess(name); ok {
		return openOf(process, inside, name)
	}
	if !served.any() {
		return open(name)
	}
	return openPatiently(name, open)
}

// OpenOwned is [Open] of what others may have put there: with the rights of the user to
// whom the file belongs, or the link of that name. Where users are given it must be
// one of theirs.
func OpenOwned(name string, uids ...int) (*os.File, error) {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Lstat(name, &st) }); err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	uid := int(st.Uid)
	if len(uids) > 0 && !slices.Contains(uids, uid) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("belongs to user %d: %w", uid, fs.ErrPermission)}
	}
	f, err := Account(uid).Open(name)
	if err == nil && len(uids) > 0 && !BelongsTo(f, uids...) {
		f.Close()
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return f, err
}

// BelongsTo tells whether an open file is of one of these users.
func BelongsTo(f *os.File, uids ...int) bool {
	var st unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && slices.Contains(uids, int(st.Uid))
}

// openPatiently opens a file, of FUSE a copy.
func openPatiently(name string, open func(string) (*os.File, error)) (*os.File, error) {
	return progressing(name, func(progress *atomic.Int64) (*os.File, error) {
		f, err := open(name)
		if err != nil {
			return nil, err
		}
		return copied(f, name, progress)
	})
}

// open is Open for names in our own file system.
func open(name string) (*os.File, error) {
	fd, _, err := openRegular(name)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// openRegular opens a regular file, and tells of what it has opened.
func openRegular(name string) (fd int, st unix.Stat_t, err error) {
	// To open a device can do something, so look first; what is there then may
	// have changed, so look again.
	fd = -1
	if err = retry(func() error { return unix.Stat(name, &st) }); err == nil {
		err = regular(st.Mode)
	}
	if err == nil {
		err = retry(func() (err error) {
			fd, err = unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
			return err
		})
	}
	if err == nil {
		if err = unix.Fstat(fd, &st); err == nil {
			err = regular(st.Mode)
		}
		if err != nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		return -1, st, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return fd, st, nil
}

// checked returns f if it is a regular file.
func checked(f *os.File, name string) (*os.File, error) {
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	if err == nil {
		err = regular(st.Mode)
	}
	if err != nil {
		f.Close()
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return f, nil
}

func regular(mode uint32) error {
	kind := "is something else"
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFDIR:
		return syscall.EISDIR
	case unix.S_IFIFO:
		kind = "is a pipe"
	case unix.S_IFSOCK:
		kind = "is a socket"
	case unix.S_IFCHR, unix.S_IFBLK:
		kind = "is a device"
	}
	return fmt.Errorf("%s, %w", kind, ErrNotRegular)
}

func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// Stat is os.Stat, in the file system of a process as [Open] is, and with the
// same patience.
func Stat(name string) (os.FileInfo, error) {
	if process, inside, ok := inProcess(name); ok {
		return statOf(process, inside, name)
	}
	return guarded(name, func() (os.FileInfo, error) { return os.Stat(name) })
}

// Made returns when a file was made, which a change does not change but where it is replaced; zero if its file system does not tell.
func Made(name string) time.Time {
	if _, _, ok := inProcess(name); ok {
		return time.Time{}
	}
	st, err := guarded(name, func() (st unix.Statx_t, err error) {
		err = unix.Statx(unix.AT_FDCWD, name, 0, unix.STATX_BTIME, &st)
		return st, err
	})
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return time.Time{}
	}
	return time.Unix(st.Btime.Sec, int64(st.Btime.Nsec))
}
