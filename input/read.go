//go:build linux

package input

import (
	"io"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

// ReadInto reads a regular file of at most so many bytes into buf, or where there
// is more room, tells when it was last changed, and notes to whom it belongs. Where
// reading fails, and not opening, it returns what it has read, which is not nil.
//
// Of thousands of small files the system calls are most of the work, so here there
// are no more than have to be: stat, open, fstat, read, close.
func (o *Owners) ReadInto(buf []byte, name string, most int64) (b []byte, changed time.Time, err error) {
	if _, _, inside := inProcess(name); inside || served.any() {
		return o.readPatiently(buf, name, most)
	}
	fd, st, err := openRegular(name)
	if err != nil {
		return nil, changed, err
	}
	defer unix.Close(fd)
	o.noteUID(int(st.Uid))
	b, err = readAll(buf, regularReader(fd, name, st.Size), name, st.Size, most)
	return b, time.Unix(st.Mtim.Unix()), err
}

func (o *Owners) readPatiently(buf []byte, name string, most int64) (b []byte, changed time.Time, err error) {
	f, err := o.Open(name)
	if err != nil {
		return nil, changed, err
	}
	defer f.Close()
	return readOpen(buf, f, name, most)
}

// regularReader reads an open file that had so many bytes. A read that ends there,
// with room for more, needs no other one to tell that it is the end.
func regularReader(fd int, name string, size int64) func([]byte) (int, error) {
	at, ended := int64(0), false
	return func(p []byte) (n int, err error) {
		if ended {
			return 0, io.EOF
		}
		if err := retry(func() error { n, err = unix.Read(fd, p[:min(len(p), 1<<30)]); return err }); err != nil {
			return 0, &fs.PathError{Op: "read", Path: name, Err: err}
		}
		at += int64(n)
		if ended = n == 0 || at == size && n < len(p); ended {
			return n, io.EOF
		}
		return n, nil
	}
}
