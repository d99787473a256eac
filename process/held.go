//go:build linux

package process

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Held is a process all of whose threads are stopped.
type Held struct {
	p *Process
	s *stopper

	injector   *injector    // the thread that makes system calls, nil: none
	unfiltered map[int]bool // threads whose system calls are known not to be filtered
	mapFile    *os.File     // of MappingAt; nil: not opened
	maps       Maps         // where the kernel does not answer for one address; nil: not read
	lockless   bool         // the process was seen to lock no memory
	since      time.Time    // all of it has stopped
}

// StoodFor returns for how long all of the process has been standing still.
func (h *Held) StoodFor() time.Duration { return time.Since(h.since) }

// WhileHeld is [Process.WhileStopped] for a function that needs the threads:
// their registers, or one that makes a system call for us. What it is given
// may only be used until it returns, and by its goroutine only.
func (p *Process) WhileHeld(do func(*Held) error) error {
	begin := time.Now()
	for try := 0; ; try++ {
		if time.Since(begin) > shortTriesFor {
			try = max(try, shortTries)
		}
		held, err := p.whileHeld(do, try)
		var access *AccessError
		var stuck *stuckError
		switch {
		case held || err == nil:
			return err
		case errors.As(err, &stuck) && time.Since(begin) < stuck.patience():
			time.Sleep(stuck.pause(try))
		case errors.As(err, &access) && try < 20:
			// Of a thread that is just ending the kernel says that it is forbidden.
			time.Sleep(time.Millisecond)
		default:
			return err
		}
	}
}

// whileHeld tries it once, the tryth time; held tells whether do was called.
func (p *Process) whileHeld(do func(*Held) error, try int) (held bool, err error) {
	once := func(h *Held) error {
		held = true
		return do(h)
	}
	if f := p.follower.Load(); f != nil {
		if ran, err := f.whileHeld(p, once); ran {
			return held, err
		}
	}
	err = p.onStopper(once, try)
	return held, err
}

// onStopper stops and calls do on a thread of its own: the kernel takes orders from the one
// only that traces, and lets go of what has not stopped when that ends.
func (p *Process) onStopper(do func(*Held) error, try int) (err error) {
	onOwnThread(func() (ends bool) {
		s := stopper{p: p, threads: make(map[int]*stopped), waiting: make(map[int]bool), fragile: make(map[int]bool), others: make(map[int]bool), try: try}
		defer runFirst()()
		defer sleepExactly()()
		err = s.whileHeld(do)
		return s.stuck
	})
	return err
}

func (s *stopper) whileHeld(do func(*Held) error) (err error) {
	own := unix.Gettid()
	calm := func() {}
	defer func() { calm() }() // when all run again
	defer func() {
		holders.Delete(own)
		if resumeErr := s.resume(); err == nil {
			err = resumeErr
		}
	}()
	if err := s.prepare(); err != nil {
		return err
	}
	calm = urgently()
	s.begun = time.Now()
	if err := s.stop(); err != nil {
		return err
	}
	holders.Store(own, true)
	h := &Held{p: s.p, s: s, since: time.Now()}
	defer h.close()
	return do(h)
}

// A StackTop is where a thread that is stopped, or that waits in vfork, is.
type StackTop struct {
	Thread int
	SP, PC uint64
	Waits  bool // it waits in vfork: it cannot be moved
}

// Threads returns the ids of the threads.
func (h *Held) Threads() []int {
	var tids []int
	for tid := range h.s.threads {
		tids = append(tids, tid)
	}
	return tids
}

// close gives back what is of no use afterwards.
func (h *Held) close() {
	if h.mapFile != nil {
		h.mapFile.Close()
	}
}

// ReleaseOthers lets all threads run on but one.
func (h *Held) ReleaseOthers(tid int) error {
	kept := h.s.threads[tid]
	delete(h.s.threads, tid)
	err := h.s.resume()
	if kept != nil {
		h.s.threads[tid] = kept
	}
	return err
}

// idle tells whether the thread was stopped by us and has no signal to be
// delivered, so that it may be used for something else in between.
func (h *Held) idle(tid int) bool {
	t := h.s.threads[tid]
	return t != nil && t.stopped && t.signal == 0 && !t.relative
}

// ErrFiltered is returned if no system call can be injected into a thread: its seccomp filter might kill it.
var ErrFiltered = fmt.Errorf("a filter of system calls (seccomp) might kill it: %w", errors.ErrUnsupported)

// notFiltered returns an error if a stopped thread has filters that footfall has not. It
// may have them since a moment ago.
func (h *Held) notFiltered(tid int) error {
	if h.unfiltered[tid] {
		return nil
	}
	status, err := h.p.read(fmt.Sprintf("task/%d/status", tid))
	if err == nil && moreFiltered(status) {
		return fmt.Errorf("process %d: %w", h.p.PID, ErrFiltered)
	}
	if h.unfiltered == nil {
		h.unfiltered = make(map[int]bool)
	}
	h.unfiltered[tid] = true
	return nil
}
