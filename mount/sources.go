//go:build linux

package mount

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"footfall/collect"
	"footfall/collect/find"
	"footfall/formats/gcov"
	"footfall/input"
	"footfall/report/source"
)

const (
	dataSuffix  = ".gcda"
	notesSuffix = ".gcno"
	maxNotes    = 1 << 28 // bytes of a notes file
)

func notesName(data string) string { return strings.TrimSuffix(data, dataSuffix) + notesSuffix }

// sources says where notes and sources are.
type sources struct {
	options source.Options

	mu       sync.Mutex
	resolver *source.Sources
	cache    *collect.Cache
	notes    *find.NotesFinder
	known    map[string][]origin // by name of the notes and their stamp
}

// An origin is a source of an object: its name when it was compiled, and its
// path now.
type origin struct{ name, path string }

func newSources(objectDirs, pathMaps []string) (*sources, error) {
	options := source.Options{Root: "/", PathMaps: pathMaps}
	resolver, err := source.NewSources(options)
	if err != nil {
		return nil, err
	}
	notes, _, err := find.NewNotesFinder(objectDirs, resolver)
	return &sources{options: options, resolver: resolver, cache: collect.NewCache(resolver), notes: notes, known: make(map[string][]origin)}, err
}

// readable returns the sources of processes, to be read with the rights of their users.
func (s *sources) readable(processes []*target) (*source.Sources, error) {
	of, err := source.NewSources(s.options)
	if err != nil {
		return nil, err
	}
	for _, p := range processes {
		if p.user != nil {
			of.Owners.NoteProcess(p.pid, *p.user)
		}
		if !slices.Contains(of.Roots, p.fsRoot) {
			of.Roots = append(of.Roots, p.fsRoot)
		}
	}
	return of, nil
}

// collect returns the coverage of what was read in processes.
func (s *sources) collect(readings []gcov.Reading, profiles *find.Objects, o collect.Options) *collect.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.Cache = s.cache
	objects := s.notes.Pair(readings)
	objects.Profiles, objects.Binaries, objects.Go = profiles.Profiles, profiles.Binaries, profiles.Go
	return collect.Objects(objects, o)
}

// of returns the notes of a data file, if only where they should be, and the
// sources that they name, but for headers of the system.
func (s *sources) of(in gcov.Reading) (string, []origin) {
	s.mu.Lock()
	defer s.mu.Unlock()
	objects := s.notes.Pair([]gcov.Reading{in})
	if len(objects.Units) == 0 {
		name, _ := s.resolver.Resolve("/", notesName(in.Name))
		return name, nil
	}
	unit := objects.Units[0]
	key := unit.Notes + "\x00" + string(in.Counts.FileStamp())
	list, ok := s.known[key]
	if !ok {
		list = s.read(unit)
		s.known[key] = list
	}
	if in.Root == "" {
		return unit.Notes, list
	}
	var inside []origin
	for _, o := range list {
		if path := filepath.Join(in.Root, o.path); input.IsFile(path) {
			o.path = path
		}
		inside = append(inside, o)
	}
	return unit.Notes, inside
}

// read returns the sources that the notes of a unit name.
func (s *sources) read(unit gcov.Object) []origin {
	n := readNotes(unit.Notes)
	if n == nil {
		return nil
	}
	cwd := n.Cwd
	if cwd == "" {
		cwd = unit.Dir
	}
	var list []origin
	seen := make(map[string]bool)
	add := func(name string) {
		if name == "" || seen[name] {
			return
		}
		seen[name] = true
		path, keep := s.resolver.Resolve(cwd, name)
		switch {
		case !keep:
			return
		case filepath.IsAbs(name):
		case n.Cwd == "":
			name = path // where it was compiled is not recorded
		default:
			name = filepath.Join(n.Cwd, name)
		}
		list = append(list, origin{name, path})
	}
	for _, f := range n.Functions {
		add(f.Source)
		for _, l := range f.Locations {
			add(l.Source)
		}
	}
	return list
}

// readNotes decodes notes, nil if they cannot be.
func readNotes(name string) *gcov.Notes {
	b, err := input.ReadFile(name, maxNotes)
	if err != nil {
		return nil
	}
	n, _ := gcov.ReadNotes(b) // what stands before damage is good
	return n
}
