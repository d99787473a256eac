//go:build unix

package output

import (
	"io/fs"
	"os"
	"path"
	"syscall"
	"unsafe"
)

// noFollow has a link at the end of a name not be followed.
const noFollow = syscall.O_NOFOLLOW

func slashed(name string) string { return name }

func isAbsolute(name string) bool { return path.IsAbs(name) }

func owner(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}

// columns returns the width of a terminal; ok is false if f is none.
func columns(f *os.File) (n int, ok bool) {
	var size struct{ rows, columns, width, height uint16 } // struct winsize; x/sys/unix would come before what is to be early, see docs/rationale.md
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	return int(size.columns), errno == 0
}

// Secretly has new files be for us only, until what it returns is called.
func Secretly() (end func()) {
	old := syscall.Umask(0o077)
	return func() { syscall.Umask(old) }
}
