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
	"time"
)

const (
	// MostData is the largest notes or data file, or other file that is read as a
	// whole: offsets in them are of 31 bits.
	MostData = 1<<31 - 1
	// MostSource is more than any source has; what is larger is none.
	MostSource = 1 << 28
)

// ErrNotRegular is wrapped by errors about what is no regular file.
var ErrNotRegular = errors.New("expected a regular file")

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

// readOpen reads an open file, and tells when it was last changed.
func readOpen(buf []byte, f *os.File, name string, most int64) (b []byte, changed time.Time, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, changed, err
	}
	b, err = readAll(buf, f.Read, name, info.Size(), most)
	return b, info.ModTime(), err
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
		inLargePages(b[:cap(b)])
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
