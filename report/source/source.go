// Package source finds the sources that notes, data and reports name: where they are now, which of them count, and
// as whose they are read. What is wrong with one of them, or with what a report is made of, is a Problem.
package source

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"footfall/coverage"
	"footfall/input"
)

// Sources says where sources are now, by what they are called, and which of
// them are in the report.
type Sources struct {
	root             string // absolute, clean
	maps             []pathMap
	include, exclude []glob
	system           bool
	omitted          map[string]bool // system headers left out
	built            stamping

	// Owners are those whose programs and files say which sources there are.
	Owners input.Owners
	// Texts are those of what is no source but stands for one, by path: lists of functions of programs
	// of which no source is known. They are noted before anything is read.
	Texts map[string][]byte
	// Roots are where the file systems of running programs are to be found whose
	// sources are asked for, "" for ours; none if there is no program.
	Roots   []string
	private atomic.Bool // see Private
	differs sync.Map    // names of sources that are not what was compiled
}

// Options are how a user describes his sources.
type Options struct {
	Root             string   // names below it are shown from there; "" is the working directory
	PathMaps         []string // OLD=NEW: what was compiled below OLD is now below NEW
	Include, Exclude []string // patterns, see glob; without Include all but system headers
	SystemHeaders    bool     // keep the headers of the system and of the compiler
}

type pathMap struct{ old, new string }

// NewSources checks o. Relative paths in it are seen from the working
// directory.
func NewSources(o Options) (*Sources, error) {
	here, err := filepath.Abs(".")
	if err != nil {
		return nil, err
	}
	root, err := filepath.Abs(o.Root)
	if err != nil {
		return nil, err
	}
	s := &Sources{root: root, system: o.SystemHeaders, omitted: make(map[string]bool)}
	for _, m := range o.PathMaps {
		from, to, ok := strings.Cut(m, "=")
		if !ok || from == "" || to == "" {
			return nil, fmt.Errorf("path map %q is not OLD=NEW", m)
		}
		if to, err = filepath.Abs(to); err != nil {
			return nil, err
		}
		s.maps = append(s.maps, pathMap{filepath.Clean(from), to})
	}
	if s.include, err = newGlobs(o.Include, here); err != nil {
		return nil, err
	}
	s.exclude, err = newGlobs(o.Exclude, here)
	return s, err
}

func newGlobs(patterns []string, dir string) ([]glob, error) {
	var globs []glob
	for _, p := range patterns {
		g, err := newGlob(p, dir)
		if err != nil {
			return nil, err
		}
		globs = append(globs, g)
	}
	return globs, nil
}

// Root returns the directory that names are shown from, absolute.
func (s *Sources) Root() string { return s.root }

// Selects tells whether patterns say which sources are in the report.
func (s *Sources) Selects() bool { return len(s.include)+len(s.exclude) > 0 }

// Includes tells whether a pattern of those that are in the report fits a path.
func (s *Sources) Includes(path string) bool { return matchAny(s.include, path, s.Shown(path)) }

// Resolve returns the path of a source that was compiled in directory cwd as
// name, and whether it is in the report.
func (s *Sources) Resolve(cwd, name string) (path string, keep bool) {
	path = s.Locate(cwd, name)
	if keep, chosen := s.chosen(path); chosen {
		return path, keep
	}
	if !s.system && s.isSystem(path) {
		s.omitted[path] = true
		return path, false
	}
	return path, true
}

// unrecorded stands before the directory of notes that do not tell where the
// compiler ran.
const unrecorded = "\x00"

// Unrecorded says, for [Sources.Resolve], that names were recorded without the directory of compilation, in a file
// of dir.
func Unrecorded(dir string) string { return unrecorded + dir }

// Locate applies the first path map that fits.
func (s *Sources) Locate(cwd, name string) string {
	path := filepath.Clean(name)
	if !filepath.IsAbs(path) {
		if dir, guess := strings.CutPrefix(cwd, unrecorded); guess {
			path = searchUp(dir, path)
		} else {
			path = filepath.Join(cwd, path)
		}
	}
	for _, m := range s.maps {
		if rest, ok := Below(path, m.old); ok {
			return filepath.Join(m.new, rest)
		}
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.root, path) // the compiler was told to hide where it ran
	}
	return path
}

// Maps tells whether --path-map says where a name is, as it was recorded.
func (s *Sources) Maps(name string) bool {
	return slices.ContainsFunc(s.maps, func(m pathMap) bool { _, below := Below(name, m.old); return below })
}

// searchUp returns the path of name in dir, where the object is, or in the next
// directory above that has it: compilers run where the object is or at the top
// of the project. Where it is nowhere it belongs to dir, so that two sources of
// one name stay two.
func searchUp(dir, name string) string {
	for d := dir; ; d = filepath.Dir(d) {
		if path := filepath.Join(d, name); input.IsFile(path) {
			return path
		}
		if d == filepath.Dir(d) {
			return filepath.Join(dir, name)
		}
	}
}

// Below returns the rest of path after dir, if it is dir or in it.
func Below(path, dir string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, dir)
	switch {
	case !ok:
		return "", false
	case rest == "", strings.HasSuffix(dir, "/"):
		return rest, true
	}
	return strings.CutPrefix(rest, "/")
}

// CommonSuffix counts the last components that two paths have in common.
func CommonSuffix(a, b string) int {
	n := 0
	for {
		i, j := strings.LastIndexByte(a, '/'), strings.LastIndexByte(b, '/')
		if a[i+1:] != b[j+1:] {
			return n
		}
		n++
		if i < 0 || j < 0 {
			return n
		}
		a, b = a[:i], b[:j]
	}
}

// Shown returns the name to show for a path: from the root, if it is there.
func (s *Sources) Shown(path string) string {
	if rest, ok := Below(path, s.root); ok && rest != "" {
		return rest
	}
	return path
}

// Keeps tells whether a file that is no source, such as a program, is in the report: of the system or not.
func (s *Sources) Keeps(path string) bool {
	keep, chosen := s.chosen(path)
	return keep || !chosen
}

// chosen tells whether the user has said that a path is in the report, or is not.
func (s *Sources) chosen(path string) (keep, chosen bool) {
	shown := s.Shown(path)
	switch {
	case matchAny(s.exclude, path, shown):
		return false, true
	case len(s.include) > 0:
		return matchAny(s.include, path, shown), true
	}
	return false, false
}

// OmittedSystemHeaders returns how many files were left out because they come
// with the system or the compiler.
func (s *Sources) OmittedSystemHeaders() int {
	return len(s.omitted)
}

// Read reads a source that may be shown, by its path, with the rights of all to
// whom data belong that name it. What a program in a container names is looked for
// there, and in our file system only below the root and where a path map leads.
func (s *Sources) Read(path string) ([]byte, error) { return s.ReadInto(nil, path) }

// ReadInto is Read into buf, or where there is more room. After an error buf is not to be
// used again, see [input.Owners.ReadSourceInto].
func (s *Sources) ReadInto(buf []byte, path string) ([]byte, error) {
	if text, ok := s.Texts[path]; ok {
		return append(buf[:0], text...), nil
	}
	var first error
	for _, root := range s.Roots {
		if root == "" {
			continue
		}
		text, err := s.read(buf, filepath.Join(root, path))
		if err == nil {
			return text, nil
		}
		buf = nil
		first = cmp.Or(first, err)
	}
	if first != nil && !slices.Contains(s.Roots, "") && !s.isOurs(path) {
		return nil, first
	}
	return s.read(buf, path)
}

func (s *Sources) read(buf []byte, path string) ([]byte, error) {
	text, private, err := s.Owners.ReadSourceInto(buf, path)
	if private {
		s.private.Store(true)
	}
	return text, err
}

// HasReadPrivate tells whether root has read a source that not everybody may read.
func (s *Sources) HasReadPrivate() bool { return s.private.Load() }

// isOurs tells whether the user has said that path is a place of sources.
func (s *Sources) isOurs(path string) bool {
	if _, own := Below(path, s.root); own && s.root != "/" {
		return true
	}
	return slices.ContainsFunc(s.maps, func(m pathMap) bool { _, to := Below(path, m.new); return to })
}

// Private tells whether a report that shows the sources of a set would show what
// root may read, and not everybody.
func (s *Sources) Private(set *coverage.Set) bool {
	if os.Geteuid() != 0 {
		return false
	}
	for _, name := range set.Names() {
		if s.private.Load() {
			return true
		}
		_, _ = s.Read(name)
	}
	return s.private.Load()
}

// isSystem tells whether path is a header of the system or of the compiler,
// and not part of the project at the root.
func (s *Sources) isSystem(path string) bool {
	switch s.root {
	case "/", "/usr", "/usr/local", "/opt": // everybody's; a container's working directory
	default:
		if _, own := Below(path, s.root); own {
			return false
		}
	}
	// A compiler brings its headers along wherever it is installed.
	for _, part := range []string{"/include/c++/", "/lib/gcc/", "/lib/gcc-cross/", "/lib/clang/", "/lib/llvm-", "/.cargo/registry/", "/.cargo/git/", "/.rustup/"} {
		if strings.Contains(path, part) {
			return true
		}
	}
	rest, ok := strings.CutPrefix(path, "/usr/")
	if !ok {
		return strings.HasPrefix(path, "/rustc/") // Rust's own library
	}
	switch first, _, _ := strings.Cut(rest, "/"); first {
	case "lib", "lib32", "lib64", "libx32", "libexec":
		return true
	case "src":
		return false
	}
	return strings.Contains(path, "/include/") // also of /usr/local and /usr/x86_64-w64-mingw32
}

// A stamping says when notes and reports were written.
type stamping struct {
	notes   map[string]time.Time // of sources: the oldest notes with functions of theirs
	reports time.Time            // the oldest report of another making, zero if there is none
}

// NoteBuilt notes that a source was compiled when notes were written, see
// gcov.CollectOptions.
func (s *Sources) NoteBuilt(path string, notes time.Time) {
	if s.built.notes == nil {
		s.built.notes = make(map[string]time.Time)
	}
	if t, ok := s.built.notes[path]; !ok || notes.Before(t) {
		s.built.notes[path] = notes
	}
}

// NoteReport notes when a report was written. What it tells was compiled before.
func (s *Sources) NoteReport(name string) {
	if t := input.Modified(name); !t.IsZero() && (s.built.reports.IsZero() || t.Before(s.built.reports)) {
		s.built.reports = t
	}
}

// NoteDiffers notes that a source is not the text that was compiled. Several calls may run
// at once.
func (s *Sources) NoteDiffers(name string) { s.differs.Store(name, true) }

// Differs tells whether a source is known not to be the text that was compiled.
func (s *Sources) Differs(name string) bool {
	_, noted := s.differs.Load(name)
	return noted
}

// Built tells when a source was compiled, as far as notes and reports tell; zero if they do not.
func (s *Sources) Built(path string) time.Time {
	if t, ok := s.built.notes[path]; ok {
		return t
	}
	return s.built.reports
}

// Excludes tells whether the name of a file is one of those that the options leave out.
func (s *Sources) Excludes(path string) bool { return matchAny(s.exclude, path, s.Shown(path)) }
