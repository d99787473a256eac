package gcov

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// A fixture is a program with its notes, data and sources in a folder, and what
// the compiler's own gcov printed about it.
type fixture struct {
	compiler string // gcc-12, clang-19, gcc-12-s390x
	program  string // branches-O2
	dir      string // holds copies of the program's files, for all to read
	inputs   map[string][]byte
	sets     []*fixtureSet
}

// A fixtureSet is one run of gcov.
type fixtureSet struct {
	name           string
	cmd            []string // the program and its arguments
	stdout, stderr string
	rc             int
	files          map[string]string // written, by name; .gcov.json.gz unpacked as .gcov.json
}

var fixtureCache struct {
	sync.Mutex
	lists map[string][]*fixture
	dir   string
}

func TestMain(m *testing.M) {
	rc := m.Run()
	if fixtureCache.dir != "" {
		os.RemoveAll(fixtureCache.dir)
	}
	os.Exit(rc)
}

// fixtures unpacks testdata/NAME.tar.zst, once for all tests.
func fixtures(tb testing.TB, name string) []*fixture {
	tb.Helper()
	c := &fixtureCache
	c.Lock()
	defer c.Unlock()
	if list, ok := c.lists[name]; ok {
		return list
	}
	list, err := readFixtures(filepath.Join("testdata", name+".tar.zst"))
	if err != nil {
		tb.Fatal(err)
	}
	if c.dir == "" {
		if c.dir, err = os.MkdirTemp("", "footfall-fixtures"); err != nil {
			tb.Fatal(err)
		}
		c.lists = make(map[string][]*fixture)
	}
	age := time.Unix(1e9, 0)
	for _, f := range list {
		f.dir = filepath.Join(c.dir, f.compiler, f.program)
		if err := os.MkdirAll(f.dir, 0o777); err != nil {
			tb.Fatal(err)
		}
		for name, b := range f.inputs {
			name = filepath.Join(f.dir, name)
			if err := os.WriteFile(name, b, 0o666); err != nil {
				tb.Fatal(err)
			}
			// Sources must not be newer than notes, in whatever order they are
			// written.
			if err := os.Chtimes(name, age, age); err != nil {
				tb.Fatal(err)
			}
		}
	}
	c.lists[name] = list
	return list
}

func readFixtures(file string) ([]*fixture, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := zstd.NewReader(f, zstd.WithDecoderMaxWindow(1<<27))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	var list []*fixture
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		b, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		part := strings.Split(path.Clean(h.Name), "/") // modern, compiler, program, [set,] file
		n := len(list)
		if n == 0 || list[n-1].compiler != part[1] || list[n-1].program != part[2] {
			list = append(list, &fixture{compiler: part[1], program: part[2], inputs: make(map[string][]byte)})
			n++
		}
		if fx := list[n-1]; len(part) == 4 {
			fx.inputs[part[3]] = b
		} else {
			fx.add(part[3], part[4], b)
		}
	}
}

func (f *fixture) add(set, file string, b []byte) {
	n := len(f.sets)
	if n == 0 || f.sets[n-1].name != set {
		f.sets = append(f.sets, &fixtureSet{name: set, files: make(map[string]string)})
		n++
	}
	s := f.sets[n-1]
	switch file {
	case "cmd":
		s.cmd = strings.Fields(string(b))
	case "stdout":
		s.stdout = string(b)
	case "stderr":
		s.stderr = string(b)
	case "rc":
		s.rc, _ = strconv.Atoi(string(bytes.TrimSpace(b)))
	default:
		s.files[file] = string(b)
	}
}

// eachInput calls f with every notes (ext .gcno) or data file (.gcda) of all
// compilers.
func eachInput(tb testing.TB, ext string, f func(name string, b []byte)) {
	for _, archive := range []string{"gcc", "clang"} {
		for _, fx := range fixtures(tb, archive) {
			for name, b := range fx.inputs {
				if path.Ext(name) == ext {
					f(fx.compiler+"/"+fx.program+"/"+name, b)
				}
			}
		}
	}
}
