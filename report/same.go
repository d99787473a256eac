package report

import (
	"bytes"
	"path/filepath"

	"golang.org/x/sys/unix"

	"footfall/input"
)

// A sameFiles tells which of many names are one file: links and bind mounts lead to it
// by several. The zero sameFiles knows none.
type sameFiles struct {
	real   map[string]string // directories without links
	byPath map[string]string // the first name of a file
	byID   map[fileID]string
}

// A fileID is what two names of a file have in common, and two files do not. In
// some file systems of user space numbers of files change or are all alike.
type fileID struct {
	dev, ino     uint64
	size         int64
	mtime, ctime unix.Timespec
}

// first returns the first name by which the file was asked for, which is name
// if it was not yet.
func (s *sameFiles) first(name string) string {
	if s.byPath == nil {
		s.real, s.byPath, s.byID = make(map[string]string), make(map[string]string), make(map[fileID]string)
	}
	path := s.realPath(name)
	if first, known := s.byPath[path]; known {
		return first
	}
	s.byPath[path] = name
	id, ok := identify(name)
	if !ok {
		return name
	}
	first, known := s.byID[id]
	if !known {
		s.byID[id] = name
		return name
	}
	if onFUSE(name) && !sameContent(first, name) {
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

// identify returns the identity of a regular file.
func identify(name string) (fileID, bool) {
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fileID{}, false
	}
	return fileID{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, mtime: st.Mtim, ctime: st.Ctim}, true
}

func onFUSE(name string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(name, &fs) == nil && fs.Type == unix.FUSE_SUPER_MAGIC
}

func sameContent(a, b string) bool {
	x, err := input.ReadFile(a, input.MostData)
	if err != nil {
		return false
	}
	y, err := input.ReadFile(b, input.MostData)
	return err == nil && bytes.Equal(x, y)
}
