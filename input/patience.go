package input

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Patience is how long a file system may take to answer.
const Patience = 10 * time.Second

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
// the program, which it does not hold up: only a signal that kills ends such a
// call.
func patiently[T any](name string, do func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		v, err := do()
		answers <- answer{v, err}
	}()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-timer.C:
		var none T
		return none, &fs.PathError{Op: "open", Path: name, Err: ErrNoAnswer}
	}
}

// servedMounts are the file systems for which a process answers, as far as they
// are mounted where we are.
type servedMounts struct {
	mu     sync.Mutex
	looked time.Time
	found  bool
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

// Reader reads a file, with patience where somebody has to answer.
func Reader(f *os.File) io.Reader {
	var st unix.Statfs_t
	if !served.any() {
		return f
	}
	// Of such a file system also this is asked.
	fuse, err := patiently(f.Name(), func() (bool, error) {
		err := unix.Fstatfs(int(f.Fd()), &st)
		return err != nil || st.Type == unix.FUSE_SUPER_MAGIC, nil
	})
	if err == nil && !fuse {
		return f
	}
	return &patientReader{f: f}
}

// A patientReader reads in another goroutine, into memory of its own: a read that
// was given up must not write where somebody else is.
type patientReader struct {
	f      *os.File
	failed error
}

func (r *patientReader) Read(p []byte) (int, error) {
	if r.failed != nil {
		return 0, r.failed
	}
	size := min(len(p), 1<<20)
	b, err := patiently(r.f.Name(), func() ([]byte, error) {
		b := make([]byte, size)
		n, err := r.f.Read(b)
		return b[:n], err
	})
	if errors.Is(err, ErrNoAnswer) {
		r.failed = err
	}
	return copy(p, b), err
}
