package compile

import (
	"errors"
	"io"
	"os"
	"syscall"
)

var errNotRegular = errors.New("expected a regular file")

// openRegular opens a file that can be read again: a pipe is left to the compiler or
// to the assembler. (Package input does more, and is initialised too late for
// footfall cc.)
func openRegular(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &os.PathError{Op: "open", Path: name, Err: errNotRegular}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func readRegular(name string) ([]byte, error) {
	f, err := openRegular(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}
