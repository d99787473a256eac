package tool

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"footfall/coverage"
	"footfall/formats/gcov"
	"footfall/input"
)

// A dataDir is a directory with data files.
type dataDir struct {
	dir   string
	names []string // of the files, "./a/b.gcda", in the order in which ftw finds them
	err   error    // why it cannot be used
	old   bool     // .da files of GCC before 3.4 count too
}

// listData finds the data files below dir, with old those of GCC before 3.4 too.
func listData(dir string, old bool) *dataDir {
	d := &dataDir{dir: dir, old: old}
	if !input.MayRead(dir) {
		d.err = errors.New("cannot access directory " + dir)
		return d
	}
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		d.err = errors.New(dir + " is not a directory")
		return d
	}
	d.walk(".", make(map[input.ID]bool))
	return d
}

// walk follows symbolic links, but enters no directory twice.
func (d *dataDir) walk(sub string, seen map[input.ID]bool) {
	path := filepath.Join(d.dir, sub)
	f, err := os.Open(path)
	if err != nil {
		return
	}
	entries, _ := f.ReadDir(-1) // unlike os.ReadDir in the order of the directory
	if st, err := f.Stat(); err == nil {
		if id, ok := input.Identity(st, path); ok {
			if seen[id] {
				entries = nil
			}
			seen[id] = true
		}
	}
	f.Close()
	for _, e := range entries {
		name := sub + "/" + e.Name()
		mode := e.Type()
		if mode&fs.ModeSymlink != 0 {
			st, err := os.Stat(filepath.Join(d.dir, name))
			if err != nil {
				continue
			}
			mode = st.Mode()
		}
		switch {
		case mode.IsDir():
			d.walk(name, seen)
		case mode.IsRegular() && (strings.HasSuffix(name, ".gcda") || d.old && strings.HasSuffix(name, ".da")):
			d.names = append(d.names, name)
		}
	}
}

// readInto reads a file into buf, which grows.
func readInto(name string, buf []byte) ([]byte, error) {
	f, err := input.Open(name)
	if err != nil {
		return buf, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return buf, err
	}
	if int64(cap(buf)) < st.Size() {
		buf = make([]byte, st.Size())
	}
	n, err := io.ReadFull(f, buf[:st.Size()])
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil // has become shorter
	}
	return buf[:n], err
}

// decode decodes a data file as gcov-tool takes it: nil, and a word about it,
// if it is none. like is an earlier file of the same name, nil for none.
func (t *tool) decode(name string, b []byte, like *gcov.Counts, s *said) *gcov.Counts {
	c, err := gcov.ReadCounts(b)
	if err != nil && t.Version != 0 && gcov.IsMagic(b, gcov.DataMagic) {
		c, err = t.salvage(name, b, s), nil
	} else if err == nil && len(c.Trailer) == 0 {
		evenKinds(c) // cut between two records
	}
	switch {
	case c == nil:
		s.errorf("%s:not a gcov data file\n", name)
		return nil
	case t.Version != 0 && c.Version.Major() != t.Version.Major():
		s.errorf("%s:incorrect gcov version %d vs %d \n", name, uint32(c.Version), uint32(t.Version))
		return nil
	case like != nil && c.Version != like.Version:
		s.errorf("%s:incorrect gcov version '%s' vs '%s'\n", name, c.Version, like.Version)
		return nil
	case err != nil:
		s.errorf("%s: %v; the file is left out\n", name, err)
		return nil
	}
	if t.verbose {
		for i := range c.Functions {
			s.out.WriteString("tag one function id=")
			s.out.WriteString(itoa(int32(c.Functions[i].Ident)))
			s.out.WriteByte('\n')
		}
	}
	return c
}

// read reads all data files of a directory, in reverse, as gcov-tool does.
func (t *tool) read(d *dataDir) []dataFile {
	files := make([]dataFile, len(d.names))
	coverage.Parallel(len(d.names), func(i int) {
		f := &files[len(files)-1-i]
		f.name = d.names[i]
		if t.verbose {
			f.errorf("reading file: %s\n", f.name)
		}
		b, err := input.ReadFile(filepath.Join(d.dir, f.name), input.MostData)
		if err != nil {
			f.errorf("%s:cannot open\n", f.name)
			return
		}
		f.counts = t.decode(f.name, b, nil, &f.said)
	})
	kept := files[:0]
	for i := len(files) - 1; i >= 0; i-- {
		t.say(&files[i].said)
	}
	for i := range files {
		if files[i].counts != nil {
			kept = append(kept, dataFile{name: files[i].name, counts: files[i].counts})
		}
	}
	return kept
}

// A dataFile is a data file that was read.
type dataFile struct {
	name   string
	counts *gcov.Counts // nil: cannot be used
	said
}

// write replaces the data files in out by others.
func (t *tool) write(out string, names []string, contents [][]byte) int {
	if _, err := os.Stat(out); err != nil {
		if err := os.Mkdir(out, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return t.fatal("Cannot make directory %s", out)
		}
	} else if name := removeData(out); name != "" {
		return t.fatal("error in removing %s", name)
	}
	if st, err := os.Stat(out); err != nil || !st.IsDir() {
		return t.fatal("Cannot change directory to %s", out)
	}
	failed := make([]error, len(names))
	coverage.Parallel(len(names), func(i int) {
		if contents[i] == nil {
			return
		}
		failed[i] = writeData(filepath.Join(out, names[i]), contents[i])
	})
	status := 0
	for i, err := range failed {
		if err != nil {
			s := new(said)
			s.errorf("libgcov profiling error:%s:Cannot open\n", names[i])
			t.say(s)
			status = 1
		}
	}
	if t.Version != 0 {
		return 0 // as gcov-tool
	}
	return status
}

// removeData removes the data files below dir, without following links. It
// returns the name of one that cannot be removed.
func removeData(dir string) (failed string) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(e.Name(), ".gcda") && len(e.Name()) > len(".gcda") && !e.IsDir() {
			if os.Remove(path) != nil {
				failed = path
				return fs.SkipAll
			}
		}
		return nil
	})
	return failed
}
