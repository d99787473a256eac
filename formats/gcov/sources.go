package gcov

import (
	"bytes"
	"errors"
	"path/filepath"
	"sync"
	"syscall"

	"footfall/input"
	"footfall/output"
)

// sources numbers the source files that were kept, each path once.
type sources struct {
	resolve func(cwd, name string) (string, bool)

	mu     sync.Mutex
	ids    map[[2]string]int32 // by recorded directory ("" for absolute names) and name; dropped ones too
	dirs   map[string]int32
	paths  map[string]int32
	list   []string // paths by number
	joined joined   // those that some function names together
}

// dropped is the number of a source that is left out.
const dropped = -1

// Unnamed is what a source is called here whose name is "": its path would be that of
// the directory.
const Unnamed = "<unnamed>"

func newSources(resolve func(cwd, name string) (string, bool)) *sources {
	if resolve == nil {
		resolve = func(cwd, name string) (string, bool) {
			if filepath.IsAbs(name) {
				return filepath.Clean(name), true
			}
			return filepath.Join(cwd, name), true
		}
	}
	return &sources{resolve: resolve, ids: make(map[[2]string]int32), dirs: make(map[string]int32), paths: make(map[string]int32)}
}

// dir numbers the working directories.
func (s *sources) dir(cwd string) int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, ok := s.dirs[cwd]
	if !ok {
		id = int32(len(s.dirs))
		s.dirs[cwd] = id
	}
	return id
}

func (s *sources) id(cwd, name string) int32 {
	key := [2]string{cwd, name}
	s.mu.Lock()
	defer s.mu.Unlock()
	if id, ok := s.ids[key]; ok {
		return id
	}
	id := int32(dropped)
	if name == EmptyName {
		name = Unnamed
	}
	if path, keep := s.resolve(cwd, name); keep {
		var ok bool
		if id, ok = s.paths[path]; !ok {
			id = int32(len(s.list))
			s.list = append(s.list, path)
			s.paths[path] = id
		}
	}
	s.ids[key] = id
	return id
}

// A sourceCache is one goroutine's view of sources.
type sourceCache struct {
	all      *sources
	cwd      string
	dir      int32 // its number
	absolute map[string]int32
	relative map[string]int32 // of cwd
	dirs     map[string]map[string]int32

	last   []byte // the name asked for last
	lastID int32
	joined map[[2]int32]bool // those that were
}

func (s *sources) cache() sourceCache {
	return sourceCache{all: s, absolute: make(map[string]int32), dirs: make(map[string]map[string]int32), joined: make(map[[2]int32]bool)}
}

// setDir sets the directory that relative names are meant in.
func (c *sourceCache) setDir(cwd string) {
	c.cwd, c.last = cwd, c.last[:0]
	c.dir = c.all.dir(cwd)
	if c.relative = c.dirs[cwd]; c.relative == nil {
		c.relative = make(map[string]int32)
		c.dirs[cwd] = c.relative
	}
}

// id is the number of a source; relative tells that it depends on the
// directory.
func (c *sourceCache) id(name []byte) (id int32, relative bool) {
	relative = len(name) == 0 || name[0] != '/'
	if len(c.last) > 0 && bytes.Equal(name, c.last) {
		return c.lastID, relative
	}
	m, cwd := c.absolute, ""
	if relative {
		m, cwd = c.relative, c.cwd
	}
	id, ok := m[string(name)]
	if !ok {
		id = c.all.id(cwd, string(name))
		m[string(name)] = id
	}
	c.last, c.lastID = append(c.last[:0], name...), id
	return id, relative
}

// join notes that a function names both.
func (c *sourceCache) join(a, b int32) {
	pair := [2]int32{a, b}
	if c.joined[pair] {
		return
	}
	c.joined[pair] = true
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	c.all.joined.join(a, b)
}

// ReadSourceFile reads a source, which owners must be permitted to read. What is
// no regular file is empty, for notes can name anything. From a source on that not
// everybody may read listings are only for us.
func ReadSourceFile(owners *input.Owners, name string) ([]byte, error) {
	b, private, err := owners.ReadSource(name)
	if private {
		output.Secretly()
	}
	if errors.Is(err, input.ErrNotRegular) || errors.Is(err, syscall.EISDIR) {
		return nil, nil
	}
	return b, err
}
