//go:build linux

package input

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// An entry is one of a directory.
type entry struct {
	dir, name string
	mode      fs.FileMode // the type
}

func (e *entry) Name() string               { return e.name }
func (e *entry) IsDir() bool                { return e.mode.IsDir() }
func (e *entry) Type() fs.FileMode          { return e.mode }
func (e *entry) Info() (fs.FileInfo, error) { return os.Lstat(e.dir + "/" + e.name) }

var entryTypes = map[byte]fs.FileMode{
	unix.DT_REG: 0, unix.DT_DIR: fs.ModeDir, unix.DT_LNK: fs.ModeSymlink, unix.DT_FIFO: fs.ModeNamedPipe, unix.DT_SOCK: fs.ModeSocket,
	unix.DT_BLK: fs.ModeDevice, unix.DT_CHR: fs.ModeDevice | fs.ModeCharDevice,
}

// ReadDir returns the entries of a directory in any order, with the patience of
// [Open].
func ReadDir(name string) ([]fs.DirEntry, error) {
	return guarded(name, func() ([]fs.DirEntry, error) {
		var fd int
		err := retry(func() (err error) {
			fd, err = unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			return err
		})
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
		defer unix.Close(fd)
		return readEntries(fd, name)
	})
}

var direntRoom = sync.Pool{New: func() any { return new([1 << 13]byte) }}

// readEntries does what os.File.ReadDir does, with a third of the system calls, of which
// a search in a large tree has many.
func readEntries(fd int, name string) (list []fs.DirEntry, err error) {
	room := direntRoom.Get().(*[1 << 13]byte)
	defer direntRoom.Put(room)
	for {
		var n int
		err := retry(func() (err error) { n, err = unix.Getdents(fd, room[:]); return err })
		if err != nil {
			return list, &fs.PathError{Op: "readdirent", Path: name, Err: err}
		}
		if n <= 0 {
			return list, nil
		}
		for b := room[:n]; len(b) > 0; {
			e, size := direntOf(b, name)
			b = b[size:]
			if e == nil {
				continue
			}
			if e.mode == fs.ModeIrregular { // the file system does not tell
				info, err := e.Info()
				if os.IsNotExist(err) {
					continue
				} else if err != nil {
					return list, err
				}
				e.mode = info.Mode().Type()
			}
			list = append(list, e)
		}
	}
}

// direntOf is the entry that a struct linux_dirent64 tells of, nil for those of the
// directory itself and of the one above, and the size of the structure:
//
//	inode: 8 bytes, offset: 8, size: 2, type: 1, name with a NUL
func direntOf(b []byte, dir string) (e *entry, size int) {
	const head = 19
	if len(b) < head {
		return nil, len(b)
	}
	size = int(binary.NativeEndian.Uint16(b[16:]))
	if size < head || size > len(b) {
		return nil, len(b)
	}
	name, _, _ := bytes.Cut(b[head:size], []byte{0})
	if inode := binary.NativeEndian.Uint64(b); inode == 0 || string(name) == "." || string(name) == ".." {
		return nil, size
	}
	mode, known := entryTypes[b[18]]
	if !known {
		mode = fs.ModeIrregular
	}
	return &entry{dir, string(name), mode}, size
}
