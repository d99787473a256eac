package output

import (
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
)

// isDescriptor tells whether a path is that of a descriptor of a process, a link
// that is more than the name that it shows.
func isDescriptor(name string) bool {
	// Not filepath.EvalSymlinks: that package would come before what is to be early.
	const oPath = 0x200000
	fd, err := syscall.Open(path.Dir(name), oPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	dir, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	return err == nil && strings.HasPrefix(dir, "/proc/") && path.Base(dir) == "fd"
}
