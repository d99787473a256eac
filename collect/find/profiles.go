package find

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"footfall/binary"
	"footfall/formats/gocover"
	"footfall/formats/llvm"
	"footfall/input"
	"footfall/report/source"
)

// This file finds profiles of source-based coverage, and binaries that they may be of: in directories those that have
// a mapping, linked ones only, as objects and archives say what they say.

// A Profile is a file of source-based coverage, or counters of a process.
type Profile struct {
	Name  string
	Bytes []byte // of counters of a process; nil: the file of that name is read
	// Of counters of a process: those that it had at a reset, nil for none, and the file of the binary.
	Since  []byte
	Binary string
	// Inherited is what processes had of their parents' counts, which is not in Bytes, as those; nil: nothing. The parents' are
	// in this profile, or in others.
	Inherited []byte
}

// A Binary is a program, library or object.
type Binary struct {
	Name  string
	Named bool // by the user: it counts even if nothing ran
	Runs  bool // in a process, which has named it
}

// profileSuffixes are those by which profiles are known in directories.
var profileSuffixes = []string{".profraw", ".profdata", ".proftext"}

func isProfile(name string) bool {
	return slices.ContainsFunc(profileSuffixes, func(suffix string) bool { return strings.HasSuffix(name, suffix) })
}

// named takes a file that was named if it is a profile, or a binary with a mapping.
func (s *search) named(name string, kind fileKind) bool {
	f, err := input.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 64)
	n, _ := f.ReadAt(head, 0)
	if gocover.IsMeta(head[:n]) || gocover.IsCounters(head[:n]) {
		s.goFile(name, kind)
		return kind&dataKind != 0
	}
	_, raw := llvm.Kind(head[:n])
	to := &s.binaries
	switch {
	case raw || isProfile(name):
		to = &s.namedProfiles
		if kind&dataKind == 0 {
			return false
		}
	case !hasMapping(name):
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(*to, name) { // also if a directory had it before
		*to = append(*to, name)
	}
	s.seen[name] = true
	return true
}

// maybe keeps a file of a directory that is a profile, or may be a linked binary.
func (s *search) maybe(name string, kind fileKind) {
	to := &s.candidates
	base := filepath.Base(name)
	switch ext := filepath.Ext(base); {
	case isProfile(base):
		to = &s.profiles
		if kind&dataKind == 0 {
			return
		}
	case ext != "" && ext != ".so" && ext != ".out" && ext != ".exe" && !strings.Contains(base, ".so.") && strings.Trim(ext, ".0123456789") != "":
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.seen[name] {
		*to = append(*to, name)
	}
	s.seen[name] = true
}

// hasMapping tells whether a file is a binary with one, or an archive, of which it is not known so far.
func hasMapping(name string) bool {
	f, err := input.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [8]byte
	if n, _ := f.ReadAt(head[:], 0); n < len(head) || string(head[:4]) != "\x7fELF" && string(head[:]) != "!<arch>\n" {
		return false
	}
	if head[0] == '!' {
		return true
	}
	b, err := binary.Open(f)
	return err == nil && llvm.HasMapping(b)
}

// addProfiles adds what was found. Binaries that were not named are looked for only if there are profiles: in the
// directories that were searched, beside the profiles that were named, and in the working directory.
func (o *Objects) addProfiles(s *search) {
	slices.Sort(s.profiles)
	s.profiles = slices.DeleteFunc(s.profiles, func(name string) bool { return slices.Contains(s.namedProfiles, name) })
	s.candidates = slices.DeleteFunc(s.candidates, func(name string) bool { return slices.Contains(s.binaries, name) })
	raw := slices.ContainsFunc(slices.Concat(s.namedProfiles, s.profiles), func(name string) bool { return strings.HasSuffix(name, ".profraw") })
	for _, name := range o.once(slices.Concat(s.namedProfiles, s.profiles)) {
		if raw && !strings.HasSuffix(name, ".profraw") && !slices.Contains(s.namedProfiles, name) {
			o.Problems = append(o.Problems, source.NewProblem(source.CountedTwice, name, errors.New("left out, as raw profiles (.profraw) are there, of which it was made: name it to count it too")))
			continue
		}
		o.Profiles = append(o.Profiles, Profile{Name: name})
	}
	for _, name := range s.binaries {
		o.Binaries = append(o.Binaries, Binary{Name: name, Named: true})
	}
	if len(o.Profiles) == 0 {
		return
	}
	dirs := []string{"."}
	for _, p := range o.Profiles {
		if dir := filepath.Dir(p.Name); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	for _, dir := range dirs {
		dir, err := filepath.Abs(dir)
		if err != nil {
			continue
		}
		entries, _ := input.ReadDir(dir)
		for _, e := range entries {
			if name := filepath.Join(dir, e.Name()); e.Type().IsRegular() && !isProfile(name) {
				s.maybe(name, notesKind)
			}
		}
	}
	slices.Sort(s.candidates)
	var same sameFiles
	for _, b := range o.Binaries {
		same.first(b.Name)
	}
	for _, name := range s.candidates {
		if hasMapping(name) && same.first(name) == name { // Cargo makes links
			o.Binaries = append(o.Binaries, Binary{Name: name})
		}
	}
}

// AddBinary adds a binary that the user named, whether something ran in it or not.
func (o *Objects) AddBinary(name string) error {
	f, err := input.OpenGiven(name)
	if err != nil {
		return err
	}
	f.Close()
	abs, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(o.Binaries, func(b Binary) bool { return b.Name == abs }); i >= 0 {
		o.Binaries[i].Named = true
		return nil
	}
	o.Binaries = append(o.Binaries, Binary{Name: abs, Named: true})
	return nil
}
