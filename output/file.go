// Package output is where what footfall makes leaves it: files that appear whole
// under their names, and text that people read.
//
// # Files
//
// Footfall often runs as root, and writes into directories that others may write
// to, such as /tmp. What they put there beforehand must not lead it elsewhere. A
// [PendingFile] is written under a random name in the directory where it is to be, which
// is made with O_EXCL, and renamed when it is complete: whoever reads sees the old
// content or the new one, and a report that fails leaves the old one.
//
// A link at the end of a name is followed if it is the user's own or root's, as
// /dev/stdout is. One of another user is an error: with the kernel's setting
// fs.protected_symlinks it is one in /tmp for every program, here everywhere. So is
// a pipe of another user, who would read what is written.
//
// # Text
//
// Names of functions, processes, tests and files come from others, and may hold
// what a terminal takes for a command. [Printable] shows a name, and [Text] is a
// writer for everything that people read.
package output

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"syscall"
)

// A PendingFile is a file that is still being written. It appears at [PendingFile.Close], in place of an
// older one, and nobody may read it who could not read that one. What is no regular file, such as a
// pipe, is written to as it is.
type PendingFile struct {
	f         *os.File
	name      string   // as the user gave it
	path      string   // where the links lead, or the name in dir
	dir       *os.Root // nil: path is as for all
	temporary string   // "" if what is written is seen at once
	err       error    // of the first write that failed
	closed    bool
}

// Create begins a file. It is to be closed, or discarded.
func Create(name string) (*PendingFile, error) {
	target, old, err := follow(slashed(name))
	if err != nil {
		return nil, err
	}
	f := &PendingFile{name: name, path: target}
	switch {
	case old != nil && !old.Mode().IsRegular():
		err = f.openOther(old)
	case isDescriptor(target): // what a shell has opened for us, perhaps to append to it
		f.f, err = os.OpenFile(target, os.O_WRONLY|os.O_APPEND, 0)
	default:
		err = f.openTemporary(old)
	}
	if err != nil {
		return nil, f.named(err)
	}
	return f, nil
}

// TemporaryName returns a name that nobody can know beforehand, short enough for
// every file system.
func TemporaryName() string {
	// 64 random bits of the runtime: crypto/rand would come before what is to be early.
	return ".footfall-" + strconv.FormatUint(maphash.Bytes(maphash.MakeSeed(), nil), 36)
}

// openTemporary makes the file under another name.
func (f *PendingFile) openTemporary(old fs.FileInfo) (err error) {
	f.temporary = path.Join(path.Dir(f.path), TemporaryName())
	f.f, err = f.open(f.temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL|noFollow, 0o666)
	switch {
	case err == nil && old != nil:
		err = f.narrow(old.Mode().Perm())
	case err != nil && old != nil && ours(old) && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)):
		// The directory takes no new files; the file itself may be written to.
		f.temporary = ""
		f.f, err = f.open(f.path, os.O_WRONLY|os.O_TRUNC|noFollow, 0)
	}
	return err
}

func (f *PendingFile) open(name string, flags int, mode fs.FileMode) (*os.File, error) {
	if f.dir != nil {
		return f.dir.OpenFile(name, flags, mode)
	}
	return os.OpenFile(name, flags, mode)
}

// narrow takes permissions away that are not in mode.
func (f *PendingFile) narrow(mode fs.FileMode) error {
	now, err := f.f.Stat()
	if err != nil || now.Mode().Perm()&^mode == 0 {
		return err
	}
	return f.f.Chmod(now.Mode().Perm() & mode)
}

// Private lets nobody else read the file.
func (f *PendingFile) Private() error { return f.named(f.narrow(0o700)) }

// openOther opens a pipe, a terminal or a device.
func (f *PendingFile) openOther(old fs.FileInfo) (err error) {
	flags := os.O_WRONLY
	if !isDescriptor(f.path) {
		if old.Mode().Type() == fs.ModeNamedPipe && !ours(old) {
			return fmt.Errorf("%s is a pipe of another user (uid %d) and is not written to: remove it, or name another file", f.path, owner(old))
		}
		flags |= noFollow
	}
	if f.f, err = os.OpenFile(f.path, flags, 0); err != nil {
		return err
	}
	if now, err := f.f.Stat(); err != nil || !os.SameFile(old, now) {
		f.f.Close()
		return fmt.Errorf("%s was replaced while it was opened", f.name)
	}
	return nil
}

// Write writes to the file.
func (f *PendingFile) Write(b []byte) (int, error) {
	n, err := f.f.Write(b)
	if err != nil {
		err = f.named(err)
		f.err = errors.Join(f.err, err)
	}
	return n, err
}

// Show puts the file under its name now: what is written to it from here on can
// be read as it comes.
func (f *PendingFile) Show() error {
	if f.temporary == "" {
		return nil
	}
	rename := os.Rename
	if f.dir != nil {
		rename = f.dir.Rename
	}
	if err := rename(f.temporary, f.path); err != nil {
		return f.named(err)
	}
	f.temporary = ""
	return nil
}

// Close completes the file. After a write that failed it discards it, and returns
// that error.
func (f *PendingFile) Close() error {
	if f.closed {
		return nil
	}
	f.closed = true
	err := f.err
	if closeErr := f.f.Close(); err == nil && closeErr != nil {
		err = f.named(closeErr)
	}
	if err == nil {
		err = f.Show()
	}
	f.remove()
	return err
}

// Discard ends the file without putting it under its name; what is there already
// stays. After Close it does nothing.
func (f *PendingFile) Discard() {
	if !f.closed {
		f.closed = true
		f.f.Close()
		f.remove()
	}
}

func (f *PendingFile) remove() {
	switch {
	case f.temporary == "":
	case f.dir != nil:
		_ = f.dir.Remove(f.temporary)
	default:
		_ = os.Remove(f.temporary)
	}
}

// named returns an error about the file by the name that its user knows.
func (f *PendingFile) named(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return &fs.PathError{Op: path.Op, Path: f.name, Err: path.Err}
	case errors.As(err, &link):
		return &fs.PathError{Op: link.Op, Path: f.name, Err: link.Err}
	}
	return err
}

// Write calls write for the new content of a file.
func Write(name string, write func(io.Writer) error) error {
	f, err := Create(name)
	if err != nil {
		return err
	}
	return f.fill(write)
}

// WriteBytes writes a file.
func WriteBytes(name string, b []byte) error {
	f, err := Create(name)
	if err != nil {
		return err
	}
	_, _ = f.Write(b) // Close tells
	return f.Close()
}

// Directory makes a directory for outputs, with those above it, where it is not
// there. It is an error if the name is a link of another user.
func Directory(name string) error {
	_, err := directory(name)
	return err
}

func directory(name string) (target string, err error) {
	// With a slash at the end the kernel would look behind the link.
	if target, _, err = follow(path.Clean(slashed(name))); err != nil {
		return "", err
	}
	return target, os.MkdirAll(target, 0o777)
}

// follow returns where the links at the end of a name lead, and what is there, nil
// if nothing is. A link to a descriptor, as below /proc/self/fd, is its end.
func follow(name string) (target string, info fs.FileInfo, err error) {
	target = name
	const mostLinks = 40 // as the kernel
	for range mostLinks {
		info, err = os.Lstat(target)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR): // whoever makes it tells
			return target, nil, nil
		case err != nil:
			return "", nil, err
		case info.Mode().Type() != fs.ModeSymlink:
			return target, info, nil
		case !ours(info):
			return "", nil, fmt.Errorf("%s is a link of another user (uid %d) and is not followed: remove it, or name the file that it leads to", target, owner(info))
		case isDescriptor(target):
			info, err = os.Stat(target)
			return target, info, err
		}
		to, err := os.Readlink(target)
		if err != nil {
			return "", nil, err
		}
		if !isAbsolute(to) {
			to = path.Dir(target) + "/" + to // as the kernel, which does not clean it
		}
		target = to
	}
	return "", nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ELOOP}
}

// ours tells whether a file is the user's, or root's.
func ours(info fs.FileInfo) bool {
	uid := owner(info)
	return uid == 0 || uid == os.Geteuid()
}
