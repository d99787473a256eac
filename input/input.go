// Package input opens files whose names or contents come from others: notes,
// data, sources, reports, options. A name that was read somewhere may be that of
// a pipe, of a device, or of a file on a file system that never answers, and
// footfall often runs as root. So:
//
//   - only regular files are opened, and what is read of one is limited;
//   - a file system of user space (FUSE) that does not answer is an error after
//     [Patience]; what is opened there is copied, so that nobody who reads or closes
//     it waits;
//   - a name in the file system of a process, /proc/PID/root/..., is resolved as
//     the process would, links cannot lead out of it (below.go), with the rights
//     of its user;
//   - sources that are shown are read with the rights of those whose data name
//     them (owners.go);
//   - what is unpacked is limited (unpack.go).
//
// The package knows no formats, and writes nothing.
package input

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// MostData is the largest notes or data file, or other file that is read as a
	// whole: offsets in them are of 31 bits.
	MostData = 1<<31 - 1
	// MostSource is more than any source has; what is larger is none.
	MostSource = 1 << 28
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

// ErrNotRegular is wrapped by errors about what is no regular file.
var ErrNotRegular = errors.New("expected a regular file")

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

// OpenGiven is Open for what a user names on the command line, which may also be
// a pipe that footfall was given: /dev/stdin, or /dev/fd/N as a shell writes it
// for <(command).
func OpenGiven(name string) (*os.File, error) {
	if name == "/dev/stdin" || strings.HasPrefix(name, "/dev/fd/") || strings.HasPrefix(name, "/proc/self/fd/") {
		return os.Open(name)
	}
	return Open(name)
}

// ReadFile reads a regular file of at most so many bytes.
func ReadFile(name string, most int64) ([]byte, error) {
	var o *Owners
	b, _, err := o.ReadInto(nil, name, most)
	if err == nil {
		return b, nil
	}
	return nil, err
}

// ReadAll reads the rest of a file of at most so many bytes.
func ReadAll(f *os.File, name string, most int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return readAll(nil, f.Read, name, info.Size(), most)
}

// readAll reads a file of that size, which may have changed, into buf or where
// there is more room.
func readAll(buf []byte, read func([]byte) (int, error), name string, size, most int64) ([]byte, error) {
	b := buf[:0]
	if size <= most && size >= int64(cap(b)) {
		more := int64(0)
		if buf != nil { // the next file may be a bit larger
			more = size / 4
		}
		b = make([]byte, 0, size+1+more)
	}
	for size <= most {
		if len(b) == cap(b) { // it grows while it is read
			b = append(b, 0)[:len(b)]
		}
		n, err := read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case int64(len(b)) > most:
			size = int64(len(b))
		case err == io.EOF:
			return b, nil
		case err != nil:
			return b, err
		}
	}
	return nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("is too large: it has %d bytes, expected at most %d", size, most)}
}

// ReadSource reads a source, with our own rights.
func ReadSource(name string) ([]byte, error) { return ReadFile(name, MostSource) }

// IsFile tells whether name is that of a regular file.
func IsFile(name string) bool {
	info, err := Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// Modified returns when a file was changed last, zero if it is not there.
func Modified(name string) time.Time {
	info, err := Stat(name)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// Stat is os.Stat, in the file system of a process as [Open] is, and with the
// same patience.
func Stat(name string) (os.FileInfo, error) {
	if process, inside, ok := inProcess(name); ok {
		return statOf(process, inside, name)
	}
	return guarded(name, func() (os.FileInfo, error) { return os.Stat(name) })
}

// ReadDir returns the entries of a directory in any order, with the patience of
// [Open].
func ReadDir(name string) ([]fs.DirEntry, error) {
	return guarded(name, func() ([]fs.DirEntry, error) {
		f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_DIRECTORY, 0)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return f.ReadDir(-1)
	})
}
