package find

import (
	"bytes"
	"path/filepath"

	"footfall/input"
)

// A sameFiles tells which of many names are one file: links and bind mounts lead to it
// by several. The zero sameFiles knows none.
type sameFiles struct {
	real   map[string]string // directories without links
	byPath map[string]string // the first name of a file
	byID   map[input.FileID]string
	size   int64 // of the file asked for last, 0 if it is not known
}

// first returns the first name by which the file was asked for, which is name
// if it was not yet.
func (s *sameFiles) first(name string) string {
	if s.byPath == nil {
		s.real, s.byPath, s.byID = make(map[string]string), make(map[string]string), make(map[input.FileID]string)
	}
	path := s.realPath(name)
	s.size = 0
	if first, known := s.byPath[path]; known {
		return first
	}
	s.byPath[path] = name
	id, ok := input.Identify(name)
	if !ok {
		return name
	}
	s.size = id.Size()
	first, known := s.byID[id]
	if !known {
		s.byID[id] = name
		return name
	}
	if input.OnFUSE(name) && !sameContent(first, name) {
		return name
	}
	s.byPath[path] = first
	return first
}

// realPath returns name without links in its directory.
func (s *sameFiles) realPath(name string) string {
	dir, base := filepath.Split(name)
	real, known := s.real[dir]
	if !known {
		real = dir
		if d, err := filepath.EvalSymlinks(dir); err == nil {
			real = d
		}
		s.real[dir] = real
	}
	return filepath.Join(real, base)
}

func sameContent(a, b string) bool {
	x, err := input.ReadFile(a, input.MostData)
	if err != nil {
		return false
	}
	y, err := input.ReadFile(b, input.MostData)
	return err == nil && bytes.Equal(x, y)
}
