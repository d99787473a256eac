package find

import (
	"path/filepath"
	"slices"

	"footfall/formats/gocover"
	"footfall/input"
)

// This file finds the data of programs of Go (go build -cover, GOCOVERDIR).

// A GoFile is a file of such data, of which its content tells whether it is meta-data or counters, or what a process
// would write.
type GoFile struct {
	Name  string
	Bytes []byte // of a process; nil: the file of that name is read
	// Of counters of a process: those that it had at a reset, nil for none.
	Since []byte
	// Of meta-data of a process: where its modules may be, seen from Root, where its file system is to be found.
	Starts []string
	Root   string
}

func isGoName(name string) bool { return gocover.IsMetaName(name) || gocover.IsCountersName(name) }

// goFile takes a file that was found or named.
func (s *search) goFile(name string, kind fileKind) {
	if kind&dataKind == 0 && !gocover.IsMetaName(name) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.seen[name] {
		s.seen[name] = true
		s.goFiles = append(s.goFiles, name)
	}
}

// addGo adds what was found: the meta-data of counters that were named is beside them.
func (o *Objects) addGo(files []string) {
	slices.Sort(files)
	files = o.once(files)
	for _, name := range files {
		o.Go = append(o.Go, GoFile{Name: name})
	}
	for _, name := range files {
		if meta, ok := metaBeside(name); ok && !slices.Contains(files, meta) {
			files = append(files, meta)
			o.Go = append(o.Go, GoFile{Name: meta})
		}
	}
}

// metaBeside returns the meta-data in the directory of counters.
func metaBeside(counters string) (name string, ok bool) {
	if gocover.IsMetaName(counters) {
		return "", false
	}
	f, err := input.Open(counters)
	if err != nil {
		return "", false
	}
	defer f.Close()
	hash, ok := gocover.HashOfCounters(f)
	name = filepath.Join(filepath.Dir(counters), gocover.MetaName(hash))
	return name, ok && input.IsFile(name)
}
