//go:build unix

package options

import (
	"io/fs"
	"syscall"
)

func owner(info fs.FileInfo) (uid int, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}

// isEverybodys tells whether everybody may write to a directory.
func isEverybodys(dir fs.FileInfo) bool { return dir.Mode().Perm()&0o002 != 0 }
