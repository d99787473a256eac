//go:build linux

package live

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"footfall/process"
)

// A reach is the way to the data files that processes of a family write in a file system that
// is not ours, of a container: it is there as long as it is held, whichever of the processes has ended. What
// is mounted there is so, too, as long as the namespace is.
type reach struct {
	key  string // the same for all who have this root
	idle bool   // nobody used it at the last look

	mu              sync.Mutex
	root, namespace *os.File // nil: it was let go
}

// maxReaches is how many are held at a time, of all containers of a family.
const maxReaches = 256

var errReaches = errors.New("more file systems of containers than footfall holds for a family")

// reachOf is the way to the file system of a process, nil if it is ours. The family is not locked.
func (f *Family) reachOf(p *process.Process) (*reach, error) {
	dir := p.Root()
	key, err := rootKey(dir)
	if err != nil || dir == "" {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.reaches[key]
	if r == nil {
		if len(f.reaches) >= maxReaches {
			return nil, errReaches
		}
		r = &reach{key: key[:strings.LastIndexByte(key, ' ')]}
		f.reaches[key] = r
	}
	r.idle = false
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.root != nil {
		return r, nil
	}
	namespace, err := os.Open(p.Dir() + "/ns/mnt")
	if err != nil {
		return nil, err
	}
	root, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		namespace.Close()
		return nil, err
	}
	r.root, r.namespace = root, namespace
	return r, nil
}

// rootKey tells the root of a process, [process.Process.Root], from others: its device and number, and how it is mounted. "": it
// is ours.
func rootKey(dir string) (string, error) {
	var st unix.Statx_t
	if dir == "" {
		return "", nil
	}
	if err := unix.Statx(unix.AT_FDCWD, dir+"/", unix.AT_STATX_DONT_SYNC, unix.STATX_INO|unix.STATX_MNT_ID, &st); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d:%d:%d %d", st.Dev_major, st.Dev_minor, st.Ino, st.Mnt_id), nil
}

// dir is where the root is to be found, "" if it was let go.
func (r *reach) dir() string {
	if r == nil {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.root == nil {
		return ""
	}
	return fmt.Sprintf("/proc/self/fd/%d", r.root.Fd())
}

func (r *reach) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.root != nil {
		r.root.Close()
		r.namespace.Close()
		r.root, r.namespace = nil, nil
	}
}

// letGo closes the ways that no member has used for two looks: the file systems of containers that have ended are
// not to be kept. used are those that some do.
func (f *Family) letGo(used map[*reach]bool) {
	if used == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, r := range f.reaches {
		switch {
		case used[r]:
			r.idle = false
		case !r.idle:
			r.idle = true
		default:
			r.close()
			delete(f.reaches, key)
		}
	}
}

// below is a path of a placer as the process sees it.
func (p *placer) below(name string) string { return strings.TrimPrefix(name, p.root) }
