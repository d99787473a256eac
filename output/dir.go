package output

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
)

// A Dir is a directory of outputs that is open: whoever may rename it, or put a link in
// its place, while it is written cannot lead the files elsewhere. A link in it is
// replaced, not followed.
type Dir struct {
	root *os.Root
	name string // as the user gave it
}

// OpenDir opens a directory for outputs, which it makes where it is not there. It is to be closed.
func OpenDir(name string) (*Dir, error) {
	target, err := directory(name)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(target)
	if err != nil {
		return nil, err
	}
	return checked(root, name, func() (fs.FileInfo, error) { return os.Lstat(target) })
}

// checked is the Dir of an open directory, which must be what lstat says of it: not
// behind a link that was put there meanwhile.
func checked(root *os.Root, name string, lstat func() (fs.FileInfo, error)) (*Dir, error) {
	is, err := lstat()
	var open fs.FileInfo
	if err == nil {
		open, err = root.Stat(".")
	}
	if err == nil && !os.SameFile(is, open) {
		err = fmt.Errorf("%s was replaced while it was opened", name)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return &Dir{root, name}, nil
}

// Sub opens a directory in it, made where it is not there. It is to be closed.
func (d *Dir) Sub(name string) (*Dir, error) {
	if err := d.root.MkdirAll(name, 0o777); err != nil {
		return nil, err
	}
	root, err := d.root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return checked(root, path.Join(slashed(d.name), name), func() (fs.FileInfo, error) { return d.root.Lstat(name) })
}

// Close lets the directory go.
func (d *Dir) Close() error { return d.root.Close() }

// Write calls write for the new content of a file in it.
func (d *Dir) Write(name string, write func(io.Writer) error) error {
	f := &PendingFile{name: path.Join(slashed(d.name), name), path: name, dir: d.root}
	old, err := d.root.Lstat(name)
	if err != nil || !old.Mode().IsRegular() {
		old = nil
	}
	if err := f.openTemporary(old); err != nil {
		return f.named(err)
	}
	return f.fill(write)
}

// WriteBytes writes a file in it.
func (d *Dir) WriteBytes(name string, b []byte) error {
	return d.Write(name, func(w io.Writer) error { _, err := w.Write(b); return err })
}

// Open opens a regular file in it for reading.
func (d *Dir) Open(name string) (*os.File, error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // a pipe would wait
		return nil, &fs.PathError{Op: "open", Path: path.Join(slashed(d.name), name), Err: fs.ErrInvalid}
	}
	return d.root.Open(name)
}

// Has tells whether there is something of that name in it.
func (d *Dir) Has(name string) bool {
	_, err := d.root.Lstat(name)
	return err == nil
}

// Remove removes a file in it.
func (d *Dir) Remove(name string) error { return d.root.Remove(name) }

// Entries are what is in it, by name.
func (d *Dir) Entries() ([]fs.DirEntry, error) { return fs.ReadDir(d.root.FS(), ".") }

// fill writes the file and completes it.
func (f *PendingFile) fill(write func(io.Writer) error) error {
	defer f.Discard()
	w := bufio.NewWriterSize(f, 1<<16)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}
