//go:build linux

package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// stopPatience is how long to wait for threads to stop. One that waits for a
// device cannot be stopped.
const stopPatience = 3 * time.Second

// WhileStopped stops all threads of the process, calls do, and lets them run
// on, whatever do returns. The threads do not notice: system calls are begun
// again, signals that arrive are delivered afterwards. If footfall itself is
// killed the kernel lets them go.
func (p *Process) WhileStopped(do func() error) error {
	return p.WhileHeld(func(*Held) error { return do() })
}

type stopper struct {
	p       *Process
	threads map[int]*stopped
	options int // of ptrace, that the threads have
	// follower, if it is not nil, keeps hold of the threads.
	follower *Follower
}

// A stopped is a thread that is traced.
type stopped struct {
	stopped bool
	signal  int // to be delivered when it runs on
}

// stop stops all threads. Threads that run may make new ones until they are
// stopped themselves: it is over when a look finds none that is new.
func (s *stopper) stop() error {
	deadline := time.Now().Add(stopPatience)
	for {
		added, err := s.seize()
		if err != nil {
			return err
		}
		if added == 0 {
			if len(s.threads) == 0 {
				return ErrExited
			}
			return nil
		}
		if err := s.wait(deadline); err != nil {
			return err
		}
	}
}

// seize takes hold of the threads that are new.
func (s *stopper) seize() (added int, err error) {
	task, err := s.p.open("task", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return 0, err
	}
	defer task.Close()
	names, err := task.Readdirnames(-1)
	if err != nil {
		return 0, s.p.failed("list threads", err)
	}
	for _, name := range names {
		tid, err := strconv.Atoi(name)
		if err != nil || s.threads[tid] != nil {
			continue
		}
		switch err := unix.PtraceSeize(tid); {
		case errors.Is(err, unix.ESRCH):
			continue // ended meanwhile
		case errors.Is(err, unix.EPERM) && s.tracer(tid) != 0:
			return 0, fmt.Errorf("process %d: process %d traces it already (a debugger, strace): only one can", s.p.PID, s.tracer(tid))
		case errors.Is(err, unix.EPERM) && s.ended(tid):
			continue
		case err != nil:
			return 0, s.p.failed("stop threads", err)
		}
		s.threads[tid] = new(stopped)
		added++
		if err := unix.PtraceInterrupt(tid); err != nil && !errors.Is(err, unix.ESRCH) {
			return 0, s.p.failed("stop threads", err)
		}
	}
	return added, nil
}

// ended tells whether a thread will not run again. The kernel says that it is
// forbidden to trace one.
func (s *stopper) ended(tid int) bool {
	b, err := s.p.read(fmt.Sprintf("task/%d/status", tid))
	if err != nil {
		return true
	}
	_, state, _ := strings.Cut(string(b), "\nState:\t")
	return strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
}

// tracer returns the process that traces a thread, 0: none.
func (s *stopper) tracer(tid int) int {
	b, err := s.p.read(fmt.Sprintf("task/%d/status", tid))
	if err != nil {
		return 0
	}
	return statusField(b, "TracerPid")
}

// wait waits until all threads that are held have stopped or ended. They are looked
// at in turns: the first thread of a process that ends is not said to have ended
// before that is known of the others.
func (s *stopper) wait(deadline time.Time) error {
	for pause := 10 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		missing := 0
		for tid, t := range s.threads {
			if !t.stopped && !s.look(tid, t) {
				missing = tid
			}
		}
		switch {
		case missing == 0:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("process %d: thread %d does not stop: it waits in the kernel", s.p.PID, missing)
		}
		time.Sleep(pause)
	}
}

// look tells whether a thread has stopped, or ended, which removes it.
func (s *stopper) look(tid int, t *stopped) bool {
	var status unix.WaitStatus
	got, err := unix.Wait4(tid, &status, unix.WALL|unix.WNOHANG, nil)
	switch {
	case errors.Is(err, unix.EINTR):
		return false
	case err != nil, got == tid && (status.Exited() || status.Signaled()):
		delete(s.threads, tid)
		t.stopped = true
	case got == tid && status.Stopped():
		t.stopped = true
		if !isEventStop(status) {
			t.signal = int(status.StopSignal())
		}
		keepWaiting(tid)
	}
	return t.stopped
}

// isEventStop tells a stop that we asked for from one for a signal, which
// would be lost if it were not passed on.
func isEventStop(status unix.WaitStatus) bool {
	return uint32(status)>>16 != 0
}

// resume lets all threads go, and keeps none but one that waits for a Release.
func (s *stopper) resume() error {
	if s.follower != nil {
		s.follower.resumeHeld(s)
		return nil
	}
	var failed []error
	for tid, t := range s.threads {
		if !t.stopped {
			s.settle(tid, t)
		}
		_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(tid), 0, uintptr(t.signal), 0, 0)
		if errno != 0 && errno != unix.ESRCH {
			failed = append(failed, os.NewSyscallError("let thread "+strconv.Itoa(tid)+" run on", errno))
		}
	}
	clear(s.threads)
	return errors.Join(failed...)
}

// settle gives a thread that did not stop in time another moment: only stopped
// ones can be let go. One that never does is let go when footfall ends.
func (s *stopper) settle(tid int, t *stopped) {
	for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
		var status unix.WaitStatus
		if got, err := unix.Wait4(tid, &status, unix.WALL|unix.WNOHANG, nil); err == nil && got == tid {
			if status.Stopped() && !isEventStop(status) {
				t.signal = int(status.StopSignal())
			}
			keepWaiting(tid)
			return
		}
	}
}
