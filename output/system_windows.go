package output

import (
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

const noFollow = 0

// slashed is a name as package path takes it apart.
func slashed(name string) string { return filepath.ToSlash(name) }

func isAbsolute(name string) bool { return filepath.IsAbs(name) }

// owner is as os.Geteuid: links are followed, whoever made them.
func owner(fs.FileInfo) int { return -1 }

// columns returns the width of a console; ok is false if f is none.
func columns(f *os.File) (n int, ok bool) {
	var info windows.ConsoleScreenBufferInfo
	if windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &info) != nil {
		return 0, false
	}
	return int(info.Window.Right-info.Window.Left) + 1, true
}

// Secretly does nothing: a new file inherits who may read it from its directory.
func Secretly() (end func()) { return func() {} }
