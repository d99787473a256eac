// Package testarchive reads the archives of testdata: programs of many compilers, and what the tools of each printed
// about them. Only tests import it.
package testarchive

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// A Run is one run of a tool.
type Run struct {
	Name           string
	Cmd            []string // the program and its arguments
	Stdout, Stderr string
	Rc             int
	Files          map[string]string // written, by name
}

// Add adds a file of the run's directory: cmd, stdout, stderr, rc, or what the tool wrote.
func (r *Run) Add(name string, b []byte) {
	switch name {
	case "cmd":
		r.Cmd = strings.Fields(string(b))
	case "stdout":
		r.Stdout = string(b)
	case "stderr":
		r.Stderr = string(b)
	case "rc":
		r.Rc, _ = strconv.Atoi(string(bytes.TrimSpace(b)))
	default:
		if r.Files == nil {
			r.Files = make(map[string]string)
		}
		r.Files[name] = string(b)
	}
}

// Find returns the first of the files that is in the working directory, or else in its parent, and so on; "" if none
// is. Tests change the working directory, so it is called when the program begins.
func Find(files ...string) string {
	dir, err := os.Getwd()
	for ; err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		for _, name := range files {
			name = filepath.Join(dir, name)
			if _, err := os.Stat(name); err == nil {
				return name
			}
		}
	}
	return ""
}

// Each calls f with every regular file of an archive (.tar.zst), in its order.
func Each(archive string, f func(name string, modified time.Time, b []byte)) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	z, err := zstd.NewReader(file, zstd.WithDecoderMaxWindow(1<<27))
	if err != nil {
		return err
	}
	defer z.Close()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		f(path.Clean(h.Name), h.ModTime, b)
	}
}
