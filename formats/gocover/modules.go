package gocover

import (
	"bufio"
	"bytes"
	"cmp"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"footfall/input"
)

// Modules find sources: profiles and meta-data name them by import paths, as example.com/shop/calc/calc.go. They are
// looked for in the module that is above a directory, in its workspace (go.work), in what its go.mod replaces, in its
// vendor directory, in the cache of modules in the version that go.mod requires, in GOPATH and in GOROOT. The zero
// Modules are ready.
type Modules struct {
	known map[string]*module // by directory where the search begins
}

// A module is what go.mod says, and of others that it knows.
type module struct {
	path, dir string
	others    []place // longest path first where one is within the other
}

// A place is where the packages of a path are.
type place struct{ path, dir string }

// Locate finds a source by the module that its name begins with: the one above one of the directories in which the
// search starts. name is a path below dir; dir is "" if no module is known. isFile tells whether there is a file of a
// name.
func (m *Modules) Locate(name string, starts []string, isFile func(string) bool) (dir, relative string) {
	if filepath.IsAbs(name) {
		return "", filepath.Clean(name)
	}
	name = filepath.Clean(name)
	var guess place
	for _, start := range starts {
		for _, p := range m.above(start).places() {
			rest, ok := strings.CutPrefix(name, p.path+"/")
			if !ok {
				continue
			}
			if isFile(filepath.Join(p.dir, rest)) {
				return p.dir, rest
			}
			if guess.dir == "" {
				guess = place{rest, p.dir}
			}
		}
	}
	for _, dir := range libraries() {
		if isFile(filepath.Join(dir, name)) {
			return dir, name
		}
	}
	if guess.dir != "" {
		return guess.dir, guess.path
	}
	return "", name
}

func (m *module) places() []place {
	if m.path == "" {
		return nil
	}
	return append([]place{{m.path, m.dir}}, m.others...)
}

// libraries are where sources of no module are: GOPATH and GOROOT.
func libraries() (dirs []string) {
	for _, dir := range filepath.SplitList(goPath()) {
		dirs = append(dirs, filepath.Join(dir, "src"))
	}
	for _, dir := range []string{os.Getenv("GOROOT"), "/usr/local/go", "/usr/lib/go"} {
		if dir != "" {
			dirs = append(dirs, filepath.Join(dir, "src"))
		}
	}
	return dirs
}

func goPath() string {
	home, _ := os.UserHomeDir()
	return cmp.Or(os.Getenv("GOPATH"), filepath.Join(home, "go"))
}

// above finds the go.mod of dir or of a directory above.
func (m *Modules) above(dir string) *module {
	start, err := filepath.Abs(dir)
	if err != nil {
		return &module{}
	}
	if found, known := m.known[start]; known {
		return found
	}
	found := &module{}
	for dir := start; found.path == ""; dir = filepath.Dir(dir) {
		found.read(dir)
		if dir == filepath.Dir(dir) {
			break
		}
	}
	if found.path != "" {
		found.workspace()
	}
	if m.known == nil {
		m.known = make(map[string]*module)
	}
	m.known[start] = found
	return found
}

// read reads the go.mod in a directory.
func (m *module) read(dir string) {
	cache := cmp.Or(os.Getenv("GOMODCACHE"), filepath.Join(filepath.SplitList(goPath())[0], "pkg", "mod"))
	var required []place
	directives(filepath.Join(dir, "go.mod"), func(verb string, fields []string) {
		switch {
		case verb == "module" && len(fields) > 0:
			m.path, m.dir = fields[0], dir
		case verb == "require" && len(fields) > 1:
			required = append(required, place{fields[0], filepath.Join(cache, escaped(fields[0])+"@"+escaped(fields[1]))})
		case verb == "replace":
			m.replace(dir, cache, fields)
		}
	})
	if m.path != "" {
		vendor := filepath.Join(dir, "vendor")
		for _, p := range required {
			m.others = append(m.others, place{p.path, filepath.Join(vendor, p.path)}, p)
		}
	}
}

// replace takes "path [version] => path version" or "... => directory".
func (m *module) replace(dir, cache string, fields []string) {
	for i, f := range fields {
		to := fields[i+1:]
		if f != "=>" || i == 0 || len(to) == 0 {
			continue
		}
		switch {
		case len(to) > 1:
			m.others = append(m.others, place{fields[0], filepath.Join(cache, escaped(to[0])+"@"+escaped(to[1]))})
		case filepath.IsAbs(to[0]):
			m.others = append(m.others, place{fields[0], to[0]})
		default:
			m.others = append(m.others, place{fields[0], filepath.Join(dir, to[0])})
		}
		return
	}
}

// workspace adds the modules that the go.work above uses.
func (m *module) workspace() {
	for dir := m.dir; ; dir = filepath.Dir(dir) {
		if input.IsFile(filepath.Join(dir, "go.work")) {
			directives(filepath.Join(dir, "go.work"), func(verb string, fields []string) {
				if verb != "use" || len(fields) == 0 {
					return
				}
				other := module{}
				at := fields[0]
				if !filepath.IsAbs(at) {
					at = filepath.Join(dir, at)
				}
				if other.read(at); other.path != "" && other.path != m.path {
					m.others = append(m.others, other.places()...)
				}
			})
			return
		}
		if dir == filepath.Dir(dir) {
			return
		}
	}
}

// mostModule is more than a go.mod has.
const mostModule = 1 << 22

// directives calls do for each line of a go.mod or go.work, those in parentheses with the verb before these.
func directives(name string, do func(verb string, fields []string)) {
	f, err := input.Open(name)
	if err != nil {
		return
	}
	defer f.Close()
	verb := ""
	for s := bufio.NewScanner(io.LimitReader(f, mostModule)); s.Scan(); {
		line, _, _ := bytes.Cut(s.Bytes(), []byte("//"))
		fields := strings.Fields(string(line))
		for i := range fields {
			fields[i] = strings.Trim(fields[i], "\"`")
		}
		switch {
		case len(fields) == 0:
		case verb != "" && fields[0] == ")":
			verb = ""
		case verb != "":
			do(verb, fields)
		case len(fields) == 2 && fields[1] == "(":
			verb = fields[0]
		default:
			do(fields[0], fields[1:])
		}
	}
}

// escaped is how the cache of modules writes a path: !x for X.
func escaped(path string) string {
	var b strings.Builder
	for _, r := range path {
		if unicode.IsUpper(r) {
			b.WriteByte('!')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}
