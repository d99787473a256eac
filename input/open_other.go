//go:build !linux

package input

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Here are no processes that are looked into, and footfall is not run with the rights of
// others: a file is looked at before it is opened, and that is all.

// ErrNoAnswer is wrapped by errors about files of a file system that does not answer.
var ErrNoAnswer = errors.New("the file system does not answer")

// Open opens a regular file for reading. Anything else is an error.
func Open(name string) (*os.File, error) {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: irregular(info.Mode())}
	}
	if err != nil {
		return nil, err
	}
	return os.Open(name)
}

func irregular(mode fs.FileMode) error {
	kind := "is something else"
	switch {
	case mode.IsDir():
		return syscall.EISDIR
	case mode&fs.ModeNamedPipe != 0:
		kind = "is a pipe"
	case mode&fs.ModeSocket != 0:
		kind = "is a socket"
	case mode&fs.ModeDevice != 0:
		kind = "is a device"
	}
	return fmt.Errorf("%s, %w", kind, ErrNotRegular)
}

// OpenOwned is [Open].
func OpenOwned(name string, _ ...int) (*os.File, error) { return Open(name) }

// BelongsTo is not told here.
func BelongsTo(*os.File, ...int) bool { return true }

// AsOwner calls do.
func AsOwner(_ *os.File, do func() error) error { return do() }

// Stat is os.Stat.
func Stat(name string) (os.FileInfo, error) { return os.Stat(name) }

// Made tells of no file when it was made.
func Made(string) time.Time { return time.Time{} }

// ReadDir returns the entries of a directory in any order.
func ReadDir(name string) ([]fs.DirEntry, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}

// A User is somebody with whose rights files are opened: here always ours.
type User struct {
	UID, GID int
	Groups   []uint32
}

// Owners are the users whose data name sources. Here none is noted.
type Owners struct{}

// Note does nothing.
func (o *Owners) Note(User) {}

// NoteProcess does nothing.
func (o *Owners) NoteProcess(int, User) {}

// Open is [Open].
func (o *Owners) Open(name string) (*os.File, error) { return Open(name) }

// OpenGiven is [OpenGiven].
func (o *Owners) OpenGiven(name string) (*os.File, error) { return OpenGiven(name) }

// ReadSource reads a source; private, of what not everybody may read, is never told.
func (o *Owners) ReadSource(name string) (text []byte, private bool, err error) {
	return o.ReadSourceInto(nil, name)
}

// ReadSourceInto is ReadSource into buf, or where there is more room.
func (o *Owners) ReadSourceInto(buf []byte, name string) (text []byte, private bool, err error) {
	text, _, err = o.ReadInto(buf, name, MostSource)
	return text, false, err
}

// ReadInto reads a regular file of at most so many bytes into buf, or where there is more
// room, and tells when it was last changed.
func (o *Owners) ReadInto(buf []byte, name string, most int64) (b []byte, changed time.Time, err error) {
	f, err := Open(name)
	if err != nil {
		return nil, changed, err
	}
	defer f.Close()
	return readOpen(buf, f, name, most)
}

// OpenNamed opens a file that data name.
func (o *Owners) OpenNamed(name string) (*os.File, error) { return Open(name) }

// Hurry lets nothing that is waited for take longer than a moment: here nothing is.
func Hurry() {}

// inLargePages does nothing here.
func inLargePages([]byte) {}
