package coverage

import (
	"cmp"
	"iter"
	"slices"
	"sync"
)

// A Set is the coverage of one or more programs, merged: files in ascending order of
// name, each name once. A large one that is made by Add holds its files packed,
// in a few bytes a line, and makes them anew each time they are asked for. The zero Set is empty.
type Set struct {
	files []stored
	lines int  // of files that are not packed
	large bool // from here on all are packed
}

// A stored file is there as it is, or packed.
type stored struct {
	name   string
	file   *File // nil: it is packed
	packed string
	totals Totals // of a packed one
}

// packed is a file that is packed.
func packed(f *File) stored { return stored{name: f.Name, packed: f.pack(), totals: f.Totals()} }

// mostUnpacked is how many lines a set holds as they are: those of a program of a quarter of a
// million lines, in some twenty megabytes.
const mostUnpacked = 1 << 17

// NewSet returns a set of the files, no two of which have the same name. They are the set's from then on.
func NewSet(files ...*File) *Set {
	s := new(Set)
	s.Add(files...)
	return s
}

// Add adds files of other names than those that are there. They are the set's from then on.
func (s *Set) Add(files ...*File) {
	b := Builder{*s}
	b.Add(files...)
	*s = *b.Set()
}

// A Builder makes a set of files that come a few at a time. The zero Builder has none.
type Builder struct{ set Set }

// Add adds files of other names than those that are there. They are the set's from then on.
func (b *Builder) Add(files ...*File) {
	for _, f := range files {
		b.set.files = append(b.set.files, b.set.store(f))
	}
	b.set.shrink()
}

// Set returns the set of what was added.
func (b *Builder) Set() *Set {
	b.set.sort()
	return &b.set
}

func (s *Set) sort() {
	byName := func(a, b stored) int { return cmp.Compare(a.name, b.name) }
	if !slices.IsSortedFunc(s.files, byName) {
		slices.SortFunc(s.files, byName)
	}
}

func (s *Set) store(f *File) stored {
	if s.large {
		return packed(f)
	}
	s.lines += len(f.Lines)
	return stored{name: f.Name, file: f}
}

// shrink packs the files of a set that has become large.
func (s *Set) shrink() {
	s.large = s.large || s.lines > mostUnpacked
	if !s.large || s.lines == 0 {
		return
	}
	s.lines = 0
	Parallel(len(s.files), func(i int) {
		if f := s.files[i].file; f != nil {
			s.files[i] = s.store(f)
		}
	})
}

// Len is the number of files.
func (s *Set) Len() int { return len(s.files) }

// Names yields the names of the files with their numbers.
func (s *Set) Names() iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for i := range s.files {
			if !yield(i, s.files[i].name) {
				return
			}
		}
	}
}

// At is file i. It is not to be changed but by Update.
func (s *Set) At(i int) *File { return s.files[i].open() }

func (f *stored) open() *File {
	if f.file != nil {
		return f.file
	}
	return unpack(f.name, f.packed)
}

// opened is the file, which is not packed from then on.
func (f *stored) opened() *File {
	*f = stored{name: f.name, file: f.open()}
	return f.file
}

// All yields the files with their numbers. Who keeps one of a large set keeps its memory.
func (s *Set) All() iter.Seq2[int, *File] {
	return func(yield func(int, *File) bool) {
		for i := range s.files {
			if !yield(i, s.files[i].open()) {
				return
			}
		}
	}
}

// Files are all files at once: for small sets.
func (s *Set) Files() []*File {
	var list []*File
	for _, f := range s.All() {
		list = append(list, f)
	}
	return list
}

// File returns the file of that name, nil if there is none.
func (s *Set) File(name string) *File {
	i, ok := s.search(name)
	if !ok {
		return nil
	}
	return s.At(i)
}

// An Update says what [Set.Update] did with a file.
type Update int

// What can be done with a file.
const (
	Same    Update = iota // nothing
	Changed               // but for its name
	Gone                  // it is to be taken out
)

// Update calls change for each file, with its number, from several goroutines.
func (s *Set) Update(change func(i int, f *File) Update) {
	gone := false
	var mu sync.Mutex
	Parallel(len(s.files), func(i int) {
		f := &s.files[i]
		open := f.open()
		switch change(i, open) {
		case Gone:
			mu.Lock()
			gone = true
			mu.Unlock()
			*f = stored{}
		case Changed:
			if f.file == nil {
				*f = packed(open)
			}
		}
	})
	if gone {
		s.files = slices.DeleteFunc(s.files, func(f stored) bool { return f == stored{} })
	}
}

// With returns a set of the files of s without those that are gone, in which files take the
// place of those of their names. Files that stay are in both sets, so neither is to be updated.
func (s *Set) With(gone map[string]bool, files ...*File) *Set {
	with := &Set{files: slices.Clone(s.files), lines: s.lines, large: s.large}
	if len(gone) > 0 {
		with.files = slices.DeleteFunc(with.files, func(f stored) bool {
			if gone[f.name] && f.file != nil {
				with.lines -= len(f.file.Lines)
			}
			return gone[f.name]
		})
	}
	known := len(with.files)
	for _, f := range files {
		i, ok := slices.BinarySearchFunc(with.files[:known], f.Name, compareNames)
		if !ok {
			with.files = append(with.files, with.store(f))
			continue
		}
		if before := with.files[i].file; before != nil {
			with.lines -= len(before.Lines)
		}
		with.files[i] = with.store(f)
	}
	with.sort()
	with.shrink()
	return with
}

// Keeps tells whether file i is one that s has kept of an earlier set, nil for none: nothing in
// it is other than it was there.
func (s *Set) Keeps(earlier *Set, i int) bool {
	if earlier == nil {
		return false
	}
	f := &s.files[i]
	if i < len(earlier.files) && earlier.files[i].name == f.name {
		return earlier.files[i] == *f
	}
	k, ok := earlier.search(f.name)
	return ok && earlier.files[k] == *f
}

func (s *Set) search(name string) (i int, ok bool) {
	return slices.BinarySearchFunc(s.files, name, compareNames)
}

func compareNames(f stored, name string) int { return cmp.Compare(f.name, name) }

// Index returns the number of the file of that name.
func (s *Set) Index(name string) (i int, ok bool) { return s.search(name) }

// Has tells whether there is a file of that name.
func (s *Set) Has(name string) bool {
	_, ok := s.search(name)
	return ok
}

// Name is that of file i.
func (s *Set) Name(i int) string { return s.files[i].name }

// Clone returns a copy of the file that has nothing in common with it but texts and terms of conditions.
func (f *File) Clone() *File {
	c := &File{Name: f.Name, Tests: slices.Clone(f.Tests), Expansions: cloneExpansions(f.Expansions)}
	clones := func(list []*Function) []*Function {
		if list == nil {
			return nil
		}
		out := make([]*Function, len(list))
		for i, fn := range list {
			out[i] = fn.clone()
		}
		return out
	}
	c.Functions, c.Told = clones(f.Functions), clones(f.Told)
	c.Lines = slices.Clone(f.Lines)
	for i := range c.Lines {
		c.Lines[i] = c.Lines[i].clone()
	}
	return c
}
