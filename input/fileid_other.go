//go:build !linux

package input

// A FileID is nothing here: files are told apart by their names without links.
type FileID struct{ size int64 }

// Size is that of the file, in bytes.
func (id FileID) Size() int64 { return id.size }

// Identify returns the identity of a regular file: here there is none.
func Identify(string) (id FileID, ok bool) { return id, false }

// OnFUSE tells whether a file is in a file system of a program of users: here it is not known.
func OnFUSE(string) bool { return false }
