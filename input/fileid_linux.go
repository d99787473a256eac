package input

import "golang.org/x/sys/unix"

// A FileID is what two names of a file have in common, and two files do not. In
// some file systems of user space numbers of files change or are all alike.
type FileID struct {
	dev, ino     uint64
	size         int64
	mtime, ctime unix.Timespec
}

// Size is that of the file, in bytes.
func (id FileID) Size() int64 { return id.size }

// Identify returns the identity of a regular file.
func Identify(name string) (FileID, bool) {
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return FileID{}, false
	}
	return FileID{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, mtime: st.Mtim, ctime: st.Ctim}, true
}

// OnFUSE tells whether a file is in a file system of a program of users, which may give any number to it.
func OnFUSE(name string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(name, &fs) == nil && fs.Type == unix.FUSE_SUPER_MAGIC
}
