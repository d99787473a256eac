//go:build linux

package input

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Patience is how long a file system may take to answer.
const Patience = 10 * time.Second

// Moment is how long it may take once footfall is to end: those that answer do it
// within that.
const Moment = 500 * time.Millisecond

var (
	hurryOnce sync.Once
	hurried   = make(chan struct{})
)

// Hurry says that footfall is to end: from now on nobody is waited for longer than
// a [Moment], neither by those who wait already.
func Hurry() { hurryOnce.Do(func() { close(hurried) }) }

// Hurried is closed when footfall is to end.
func Hurried() <-chan struct{} { return hurried }

// ErrNoAnswer is wrapped by errors about files of a file system that does not
// answer.
var ErrNoAnswer = errors.New("the file system does not answer")

// guarded calls do, and goes on without it if it does not return. Only another
// process that answers for a file system can make it wait, so where there is no
// such file system do is simply called.
func guarded[T any](name string, do func() (T, error)) (T, error) {
	if !served.any() {
		return do()
	}
	return patiently(name, do)
}

// patiently is guarded where it is not known that nobody can make do wait. The
// goroutine of a do that does not return stays, with its thread, to the end of
// the program: only a signal that kills ends such a call, and where the process that
// answers has taken the request and ignores its end, only that process.
func patiently[T any](name string, do func() (T, error)) (T, error) {
	return progressing(name, func(*atomic.Int64) (T, error) { return do() })
}

// progressing is patiently for what takes longer as long as it adds to the number.
func progressing[T any](name string, do func(*atomic.Int64) (T, error)) (none T, err error) {
	if served.isSilent(name) {
		return none, &fs.PathError{Op: "open", Path: name, Err: ErrNoAnswer}
	}
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	progress := new(atomic.Int64)
	go func() {
		v, err := do(progress)
		answers <- answer{v, err}
	}()
	ticker := time.NewTicker(patience)
	defer ticker.Stop()
	hurried := hurried
	for before := int64(0); ; {
		select {
		case a := <-answers:
			return a.value, a.err
		case <-hurried:
			hurried = nil
			ticker.Reset(Moment)
		case <-ticker.C:
			now := progress.Load()
			if now == before {
				served.silent(name)
				return none, &fs.PathError{Op: "open", Path: name, Err: ErrNoAnswer}
			}
			before = now
		}
	}
}

// patience is [Patience], less in tests.
var patience = Patience

// servedMounts are the file systems for which a process answers, as far as they
// are mounted where we are.
type servedMounts struct {
	mu     sync.Mutex
	looked time.Time
	found  bool
	quiet  map[string]time.Time // directories where nobody has answered, and when
}

var served servedMounts

// any tells whether there are some, or were a moment ago.
func (s *servedMounts) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.looked) > time.Second {
		text, err := os.ReadFile("/proc/self/mountinfo")
		s.found = err != nil || hasServed(string(text))
		s.looked = time.Now()
	}
	return s.found
}

// silent notes that nobody has answered for a file. Of its file system no other one
// is asked for a while: there may be thousands of them.
func (s *servedMounts) silent(name string) {
	dir := filepath.Dir(absolute(name))
	if text, err := os.ReadFile("/proc/self/mountinfo"); err == nil {
		dir = mountOf(string(text), dir)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quiet == nil {
		s.quiet = make(map[string]time.Time)
	}
	s.quiet[dir] = time.Now()
}

// isSilent tells whether nobody has answered for the file system of a file in the
// last minute.
func (s *servedMounts) isSilent(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.quiet) == 0 {
		return false
	}
	for dir := filepath.Dir(absolute(name)); ; dir = filepath.Dir(dir) {
		if since, is := s.quiet[dir]; is && time.Since(since) < time.Minute {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

func absolute(name string) string {
	if abs, err := filepath.Abs(name); err == nil {
		return abs
	}
	return name
}

// mountOf returns the directory at or above dir where such a file system is mounted,
// else dir: a link may lead to one from there.
func mountOf(mountinfo, dir string) string {
	mounts := make(map[string]bool)
	for line := range strings.Lines(mountinfo) {
		if fields := strings.Fields(line); len(fields) > 4 {
			mounts[unescaped.Replace(fields[4])] = hasServed(line) // the last one hides those before
		}
	}
	for d := dir; ; d = filepath.Dir(d) {
		if is, known := mounts[d]; known && is {
			return d
		} else if known || d == filepath.Dir(d) {
			return dir
		}
	}
}

// unescaped are the characters of a path that a mountinfo writes in another way.
var unescaped = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// hasServed looks for the types of such file systems in a mountinfo:
//
//	36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
func hasServed(mountinfo string) bool {
	for line := range strings.Lines(mountinfo) {
		_, rest, _ := strings.Cut(line, " - ")
		kind, _, _ := strings.Cut(rest, " ")
		switch {
		case strings.HasPrefix(kind, "fuse") && kind != "fusectl", kind == "9p", strings.HasPrefix(kind, "nfs"), kind == "cifs", kind == "smb3":
			return true
		}
	}
	return false
}

// isServed tells whether an open file is of a FUSE file system. (For the others of
// hasServed the kernel answers, if slowly.)
func isServed(fd int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) != nil || st.Type == unix.FUSE_SUPER_MAGIC
}

// copied returns a copy in memory of a file for which a process answers, else the
// file itself. Whoever has the copy can read anywhere in it, and close it, without
// waiting for anybody.
func copied(f *os.File, name string, progress *atomic.Int64) (*os.File, error) {
	if !isServed(int(f.Fd())) {
		return f, nil
	}
	defer f.Close()
	fd, err := unix.MemfdCreate("footfall", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	c := os.NewFile(uintptr(fd), name)
	_, err = io.Copy(&counted{c, progress}, io.LimitReader(f, Most()+1))
	if err == nil && progress.Load() > Most() {
		err = &fs.PathError{Op: "read", Path: name, Err: &TooLargeError{Most()}}
	}
	if err == nil {
		_, err = c.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = copyStatus(c, f) // at the end: to write changes the time
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// copyStatus gives the copy the owner and the time of the file, as far as we may.
func copyStatus(c, f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if euid == 0 {
		_ = unix.Fchown(int(c.Fd()), int(st.Uid), int(st.Gid))
	}
	_ = unix.Futimes(int(c.Fd()), []unix.Timeval{unix.NsecToTimeval(st.Atim.Nano()), unix.NsecToTimeval(st.Mtim.Nano())})
	return nil
}

// counted counts what is written.
type counted struct {
	w io.Writer
	n *atomic.Int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n.Add(int64(n))
	return n, err
}
