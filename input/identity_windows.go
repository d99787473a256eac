package input

import (
	"io/fs"
	"os"
	"path/filepath"
)

// An ID is what two names of one directory have in common: the path without links.
type ID string

// Identity returns the ID of what info tells of, which is at path.
func Identity(_ fs.FileInfo, path string) (id ID, ok bool) {
	real, err := filepath.EvalSymlinks(path)
	return ID(real), err == nil
}

// MayRead tells whether a directory may be listed.
func MayRead(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	f.Close()
	return true
}
