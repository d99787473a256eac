//go:build linux

// Package process looks into a running process: its images, memory and threads.
//
// It is the only package that talks to the kernel about other processes. It
// does not know what lies in their memory, nor what an ELF file is.
//
// # Identity
//
// A pid is used again after its process has ended, and a process may become
// another program by exec. A [Process] therefore holds its directory in /proc
// open, which goes stale with the process, and remembers where its stack
// begins, which exec changes; [Process.Check] tells the two cases.
//
// # Permission
//
// Reading memory needs what ptrace needs: the same user and a program that is
// not set-user-id, or CAP_SYS_PTRACE. An [*AccessError] says which it is.
package process

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"footfall/output"
)

// ErrExited is returned for a process that has ended.
var ErrExited = errors.New("the process has ended")

// ErrReplaced is returned for a process that has become another program by
// exec since it was opened.
var ErrReplaced = errors.New("the process has become another program (exec)")

// A KernelThreadError is returned for a pid that is no process but a thread of
// the kernel: it runs no program.
type KernelThreadError struct {
	PID  int
	Name string
}

func (e *KernelThreadError) Error() string {
	return fmt.Sprintf("process %d (%s): it is a thread of the kernel and runs no program", e.PID, output.Printable(e.Name))
}

// A Process is an open process. Its methods may be called at the same time,
// except for Close.
type Process struct {
	PID  int
	Name string // as the kernel calls it: at most 15 bytes, set by the program
	// Start tells this process and the program in it from any other of the
	// same pid since the system was started.
	Start Identity

	dir    *os.File     // /proc/PID
	living atomic.Int32 // a thread that lives, where the first one has ended before the others; else 0

	memOnce sync.Once
	mem     *os.File // /proc/PID/mem; nil: not needed so far, or not to be had
	memErr  error
	noVM    atomic.Bool // process_vm_readv does not work here: use mem

	childOnce sync.Once
	child     bool // we have started it; see isChild

	keeps atomic.Bool     // files are kept open: see whileKept
	kept  [3]atomic.Int32 // their descriptors, and one more; 0: it is not open

	useful   atomic.Pointer[useful]   // code that it has; see rescue_amd64.go
	follower atomic.Pointer[Follower] // that has hold of its threads
}

// useful is code that a process has: a system call, and the end of handlers of
// signals.
type useful struct{ call, restorer uint64 }

// An Identity tells processes of one pid apart, and the programs in one.
type Identity struct {
	Ticks uint64 // when the process started, after the system's start
	Stack uint64 // where its stack begins
}

// Began is when the process started, to a hundredth of a second, which is cut off.
func (id Identity) Began() time.Time {
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return time.Time{}
	}
	const tick = 10 * time.Millisecond
	return time.Now().Add(time.Duration(id.Ticks)*tick - time.Duration(up.Nano()))
}

// A noProcessError tells that there is no process of that pid: of one that was found, none any more. It is one of ErrExited.
type noProcessError int

func (e noProcessError) Error() string { return fmt.Sprintf("no process %d", int(e)) }

func (e noProcessError) Is(target error) bool { return target == ErrExited }

// Open opens the process.
func Open(pid int) (*Process, error) {
	dir, err := os.Open("/proc/" + strconv.Itoa(pid))
	if errors.Is(err, os.ErrNotExist) {
		return nil, noProcessError(pid)
	}
	if err != nil {
		return nil, err
	}
	p := &Process{PID: pid, dir: dir}
	if b, err := p.read("status"); err == nil {
		if of := statusField(b, "Tgid"); of != pid && of > 0 { // a thread of that process
			dir.Close()
			return Open(of)
		}
	}
	st, err := p.stat()
	if err == nil {
		p.Name, p.Start = st.name, st.start
		if st.kernel {
			dir.Close()
			return nil, &KernelThreadError{pid, st.name}
		}
		err = p.access()
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return p, nil
}

// OpenAttended is [Open] for a process that an [Attendant] tells of: whether we may look into it is known.
func OpenAttended(pid int) (*Process, error) {
	name := "/proc/" + strconv.Itoa(pid)
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) // see whileOpen
	if err != nil {
		return nil, ErrExited
	}
	p := &Process{PID: pid, dir: os.NewFile(uintptr(fd), name)}
	st, err := p.stat()
	if err != nil {
		p.dir.Close()
		return nil, err
	}
	p.Name, p.Start = st.name, st.start
	if keepers.Add(1) <= maxKeepers {
		p.keeps.Store(true)
	} else {
		keepers.Add(-1)
	}
	return p, nil
}

// Identify tells which process has the pid now, without opening it.
func Identify(pid int) (Identity, error) {
	dir, err := os.Open("/proc/" + strconv.Itoa(pid))
	if err != nil {
		return Identity{}, err
	}
	p := &Process{PID: pid, dir: dir}
	defer p.Close()
	st, err := p.stat()
	return st.start, err
}

// dyingPatience is how long a process that is dying is waited for.
const dyingPatience = 10 * time.Second

// Runs tells whether the process that has the pid, and began at that time, runs. One that is dying, as
// after SIGKILL, may still hold what it had; it is waited for, and does not run. One that
// has died is there until its parent has asked for its status.
func Runs(pid int, ticks uint64) bool {
	dir, err := os.Open("/proc/" + strconv.Itoa(pid))
	if err != nil {
		return false
	}
	p := &Process{PID: pid, dir: dir}
	defer p.Close()
	for end := time.Now().Add(dyingPatience); ; time.Sleep(time.Millisecond) {
		st, err := p.stat()
		switch {
		case err != nil, st.start.Ticks != ticks, st.hasEnded() && st.threads < 2:
			return false
		case !st.hasEnded() && !st.ending && !p.killed(), time.Now().After(end):
			return true
		}
	}
}

// killed tells whether the process has got SIGKILL, and has not noticed yet.
func (p *Process) killed() bool {
	b, err := p.read("status")
	if err != nil {
		return false
	}
	for _, name := range []string{"SigPnd", "ShdPnd"} {
		_, signals, _ := strings.Cut(string(b), "\n"+name+":\t")
		signals, _, _ = strings.Cut(signals, "\n")
		if set, _ := strconv.ParseUint(signals, 16, 64); set>>(unix.SIGKILL-1)&1 != 0 {
			return true
		}
	}
	return false
}

// Root is where the file system of the process is to be found, "" if it is
// ours: the same directory, in the same mount, so that what is mounted below is the
// same, too. (Before Linux 5.8 nobody tells mounts apart.)
func (p *Process) Root() string {
	var ours, its unix.Statx_t
	name := filepath.Clean(p.Dir()) + "/root"
	// What is known of them will do: to ask may be to wait for a process that
	// answers for the file system.
	const flags, mask = unix.AT_STATX_DONT_SYNC, unix.STATX_INO | unix.STATX_MNT_ID
	if unix.Statx(unix.AT_FDCWD, "/", flags, mask, &ours) != nil || unix.Statx(unix.AT_FDCWD, name+"/", flags, mask, &its) != nil ||
		ours.Dev_major == its.Dev_major && ours.Dev_minor == its.Dev_minor && ours.Ino == its.Ino && ours.Mnt_id == its.Mnt_id {
		return ""
	}
	return name
}

// Dir is where the kernel tells of the process and its memory: /proc/PID, or, when its
// first thread has ended, the same of another one.
func (p *Process) Dir() string {
	return fmt.Sprintf("/proc/%d/%s", p.PID, p.within())
}

// within is the path from /proc/PID to Dir, with a slash at its end, or "".
func (p *Process) within() string {
	if tid := p.living.Load(); tid != 0 {
		return fmt.Sprintf("task/%d/", tid)
	}
	return ""
}

// thread is the id of a thread that has the process's memory.
func (p *Process) thread() int {
	return cmp.Or(int(p.living.Load()), p.PID)
}

// LivingThread is the process's id, or, when its first thread has ended, that of another
// one: what the kernel is to find memory by.
func (p *Process) LivingThread() int {
	_, _ = p.stat()
	return p.thread()
}

// Environment returns the environment as it was when the program was
// started. It is empty if the program has written over it; see [Process.CurrentEnvironment].
func (p *Process) Environment() (map[string]string, error) {
	b, err := p.read("environ")
	if err != nil {
		return nil, err
	}
	env := make(map[string]string)
	if first, _, _ := strings.Cut(string(b), "\x00"); !strings.Contains(first, "=") {
		return env, nil // a title, or zeros
	}
	for entry := range strings.SplitSeq(string(b), "\x00") {
		if name, value, ok := strings.Cut(entry, "="); ok {
			if _, twice := env[name]; !twice {
				env[name] = value
			}
		}
	}
	return env, nil
}

// Close lets go of the process; it runs on.
func (p *Process) Close() error {
	if p.mem != nil {
		p.mem.Close()
	}
	p.closeKept()
	return p.dir.Close()
}

// Check returns nil as long as the process lives and runs the program that it
// ran when it was opened; else ErrExited or ErrReplaced.
func (p *Process) Check() error {
	st, err := p.stat()
	for n := 0; err == nil && n < 50 && st.start.Stack == 0 && p.Start.Stack != 0 && st.state != 'Z' && st.state != 'X'; n++ {
		time.Sleep(time.Millisecond) // in the midst of exec or of its end
		st, err = p.stat()
	}
	switch {
	case err != nil:
		return err
	case st.state == 'Z' || st.state == 'X':
		return ErrExited
	case st.start.Stack == 0 && p.Start.Stack != 0:
		// It has given its memory back, or does not let us see where it is.
		if err := p.access(); err != nil {
			return err
		}
		return ErrExited
	case st.start != p.Start:
		return ErrReplaced
	}
	return nil
}

// Suspended tells whether the process is stopped by a signal, as by SIGSTOP.
func (p *Process) Suspended() bool {
	st, err := p.stat()
	return err == nil && st.state == 'T'
}

// Sleeps tells whether the process waits for something, and its first thread runs no code.
func (p *Process) Sleeps() bool {
	st, err := p.stat()
	return err == nil && st.state == 'S'
}

// Parent returns the pid of the process that started it, or has it now.
func (p *Process) Parent() (int, error) {
	st, err := p.stat()
	return st.parent, err
}

// ForkedOnly tells whether the process runs the program that it was forked from: it has not called exec.
func (p *Process) ForkedOnly() bool {
	st, err := p.stat()
	return err == nil && st.forked
}

// ThreadCount is the number of threads, 0 when the process has ended.
func (p *Process) ThreadCount() int {
	st, _ := p.stat()
	return st.threads
}

type status struct {
	name    string
	state   byte
	parent  int
	threads int
	kernel  bool // it is a thread of the kernel
	ending  bool // it is about to end
	forked  bool // it has not called exec since it was forked
	start   Identity
}

// hasEnded tells whether it runs no more.
func (s *status) hasEnded() bool { return s.state == 'Z' || s.state == 'X' }

// Flags of tasks in the kernel.
const (
	exiting      = 0x00000004
	forkNoExec   = 0x00000040
	signaled     = 0x00000400 // ended by a signal
	kernelThread = 0x00200000 // a thread of the kernel
)

// stat tells how the process is. A process lives on when its first thread has ended by
// pthread_exit: then another thread tells. While that ends it has no memory already, as
// far as one sees.
func (p *Process) stat() (status, error) {
	st, err := p.statOf("stat")
	ended := st.state == 'Z' || st.state == 'X'
	if err != nil || !ended && st.start.Stack != 0 || st.threads < 2 {
		p.living.Store(0)
		return st, err
	}
	for range 3 { // one that was listed may have made another one meanwhile, and ended
		b, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.PID))
		if err != nil {
			return st, nil
		}
		for _, entry := range b {
			other, err := p.statOf("task/" + entry.Name() + "/stat")
			if err != nil || other.hasEnded() || !ended && other.start.Stack == 0 {
				continue
			}
			if tid, _ := strconv.Atoi(entry.Name()); tid != p.PID {
				p.living.Store(int32(tid))
				st.state, st.start.Stack = other.state, other.start.Stack
				return st, nil
			}
		}
	}
	return st, nil
}

// statOf reads /proc/PID/stat, or that of a thread:
//
//	pid (name) state ppid ... flags@9 ... threads@20 ... starttime@22 ... startstack@28 ...
//
// The name may hold blanks and parentheses; the last one ends it.
func (p *Process) statOf(file string) (status, error) {
	b, err := p.readLine(file)
	if err != nil {
		return status{}, err
	}
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	field := strings.Fields(string(b[end+1:]))
	if open < 0 || end < open || len(field) < 26 {
		return status{}, fmt.Errorf("process %d: /proc/%d/stat has an unknown form", p.PID, p.PID)
	}
	st := status{name: string(b[open+1 : end]), state: field[0][0]}
	st.parent, _ = strconv.Atoi(field[4-3])
	flags, _ := strconv.ParseUint(field[9-3], 10, 64)
	st.kernel, st.ending = flags&kernelThread != 0, flags&(exiting|signaled) != 0
	st.forked = flags&forkNoExec != 0
	st.threads, _ = strconv.Atoi(field[20-3])
	st.start.Ticks, _ = strconv.ParseUint(field[22-3], 10, 64)
	st.start.Stack, _ = strconv.ParseUint(field[28-3], 10, 64)
	return st, nil
}

// read returns the contents of a file in Dir.
func (p *Process) read(name string) (b []byte, err error) {
	err = p.whileOpen(name, func(fd int) error {
		b, err = p.all(fd, name)
		return err
	})
	return b, err
}

// readFile returns the contents of a file below /proc/PID.
func (p *Process) readFile(name string) ([]byte, error) {
	fd, err := p.openAt(name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return p.all(fd, name)
}

// readLine returns the contents of a file below /proc/PID that is a line: the kernel gives all of it at once.
func (p *Process) readLine(name string) ([]byte, error) {
	fd, err := p.openAt(name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	b := make([]byte, 1<<11)
	for {
		n, err := unix.Read(fd, b)
		switch {
		case err == nil:
			return b[:max(n, 0)], nil
		case !errors.Is(err, unix.EINTR):
			return nil, p.failed("read /proc/PID/"+name, err)
		}
	}
}

// all reads a file of the kernel's to its end: of most of them all with the first call.
func (p *Process) all(fd int, name string) ([]byte, error) {
	b := make([]byte, 0, 1<<12)
	for {
		if len(b) == cap(b) {
			b = slices.Grow(b, 3*len(b))
		}
		n, err := unix.Read(fd, b[len(b):cap(b)])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, p.failed("read /proc/PID/"+name, err)
		case n <= 0:
			return b, nil
		}
		b = b[:len(b)+max(n, 0)]
	}
}

// whileOpen opens a file in Dir for do to read it. A process that others wait for is looked at so: for each
// [os.File] Go asks the kernel more than once what it is.
func (p *Process) whileOpen(name string, do func(fd int) error) error {
	from := p.thread()
	fd, err := p.openAt(p.within()+name, unix.O_RDONLY)
	if err != nil && p.movedOn(from) {
		fd, err = p.openAt(p.within()+name, unix.O_RDONLY)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return do(fd)
}

// open opens a file in Dir.
func (p *Process) open(name string, flags int) (*os.File, error) {
	from := p.thread()
	f, err := p.openFile(p.within()+name, flags)
	if err != nil && p.movedOn(from) {
		return p.openFile(p.within()+name, flags)
	}
	return f, err
}

// movedOn tells whether a thread has ended that was to tell of the process, but another
// one lives.
func (p *Process) movedOn(from int) bool {
	_, err := p.stat()
	return err == nil && p.thread() != from
}

func (p *Process) openFile(name string, flags int) (*os.File, error) {
	fd, err := p.openAt(name, flags)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), fmt.Sprintf("/proc/%d/%s", p.PID, name)), nil
}

func (p *Process) openAt(name string, flags int) (fd int, err error) {
	fd, err = unix.Openat(int(p.dir.Fd()), name, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, p.failed("open /proc/PID/"+name, err)
	}
	return fd, nil
}

// Owner is the effective user of the process, which is told faster than User.
func (p *Process) Owner() (uid int, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(p.dir.Fd()), &st); err != nil {
		return 0, ErrExited
	}
	return int(st.Uid), nil
}

// NameOf is what the kernel calls a process, "" if there is none.
func NameOf(pid int) string {
	comm, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return strings.TrimSuffix(string(comm), "\n")
}

// List returns all processes by ascending pid, but the caller itself.
func List() ([]int, error) {
	f, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, nil
}

// OwnPID returns the process's id as it sees it itself: another one in a container.
func (p *Process) OwnPID() (int, error) {
	b, err := p.read("status")
	if err != nil {
		return 0, err
	}
	if own := statusField(b, "NStgid"); own != 0 {
		return own, nil
	}
	return p.PID, nil // the kernel has no names of its own for them
}

// statusField returns a number of /proc/PID/status, of several the last one, 0
// if it is not there. Of users and groups that is the one for files.
func statusField(b []byte, name string) int {
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte(name+":")); ok {
			fields := bytes.Fields(rest)
			if len(fields) == 0 {
				return 0
			}
			n, _ := strconv.Atoi(string(fields[len(fields)-1]))
			return n
		}
	}
	return 0
}
