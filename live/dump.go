//go:build linux

package live

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"footfall/formats/gcov"
	"footfall/output"
)

// Dump writes data files below dir, which is made where it is not there: each
// unit under its recorded name, as if dir were the root. Nothing is written
// outside of dir, whatever names say and links lead to. Units of one name, such
// as an object that is linked into several programs, are added up. It returns
// the number of files; the error tells of those that could not be written, the
// others are complete.
func Dump(dir string, units []Unit) (int, error) {
	if err := output.Directory(dir); err != nil {
		return 0, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	files, problems := joined(units)
	n := 0
	for _, f := range files {
		if err := writeBelow(root, f.name, f.counts.Encode()); err != nil {
			problems = append(problems, err)
			continue
		}
		n++
	}
	return n, errors.Join(problems...)
}

// DumpProfile writes a raw profile into dir, or the two files of a program of Go.
func DumpProfile(dir string, p SourceProfile) error {
	if err := output.Directory(dir); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if p.Meta != nil {
		if err := writeBelow(root, Inside(p.MetaName), p.Meta); err != nil {
			return err
		}
	}
	return writeBelow(root, Inside(p.Name), p.Bytes)
}

// A dumped is one data file.
type dumped struct {
	name   string // relative and clean
	counts *gcov.Counts
}

// joined adds up units of the same name.
func joined(units []Unit) (files []*dumped, problems []error) {
	index := make(map[string]*dumped)
	for _, u := range units {
		name := Inside(u.Name)
		f := index[name]
		if f == nil {
			f = &dumped{name, u.Counts}
			index[name] = f
			files = append(files, f)
			continue
		}
		sum, err := gcov.ReadCounts(f.counts.Encode()) // the unit stays as it is
		if err == nil {
			if err = sum.Merge(u.Counts); err == nil {
				f.counts = sum
				continue
			}
		}
		problems = append(problems, fmt.Errorf("%s, as it is in %s: %w", u.Name, u.Image, err))
	}
	return files, problems
}

// Inside turns a recorded name into one that stays inside of a directory: a
// relative one, without "..".
func Inside(name string) string {
	if clean := strings.TrimPrefix(path.Clean("/"+name), "/"); clean != "" {
		return clean
	}
	return "unnamed"
}

// writeBelow replaces a file below root in one step.
func writeBelow(root *os.Root, name string, b []byte) error {
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	temporary := path.Join(path.Dir(name), output.TemporaryName())
	f, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		return &fs.PathError{Op: failed.Op, Path: name, Err: failed.Err}
	} else if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(temporary, name)
	}
	if err != nil {
		_ = root.Remove(temporary)
	}
	return err
}
