//go:build unix

package input

import (
	"io/fs"
	"syscall"
)

// An ID is what two names of one directory have in common.
type ID struct{ device, inode uint64 }

// Identity returns the ID of what info tells of, which is at path.
func Identity(info fs.FileInfo, path string) (id ID, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return id, false
	}
	return ID{uint64(st.Dev), st.Ino}, true
}

// MayRead tells whether a directory may be listed.
func MayRead(dir string) bool { return syscall.Access(dir, 4) == nil } // R_OK
