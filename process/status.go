//go:build linux

package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// This file has what the kernel says of a process and its threads in /proc/PID/status and beside it.

// A ThreadStatus is what the kernel says of one.
type ThreadStatus struct {
	ID int // as we see it
	// OwnID is its id as it sees it itself: another one in a container.
	OwnID int
	Name  string
	// Process is the id of its process, as we see it.
	Process int
}

// Threads lists the threads of the process.
func (p *Process) Threads() ([]ThreadStatus, error) {
	task, err := p.openFile("task", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer task.Close()
	names, err := task.Readdirnames(-1)
	if err != nil {
		return nil, p.failed("list threads", err)
	}
	var threads []ThreadStatus
	for _, name := range names {
		if tid, err := strconv.Atoi(name); err == nil {
			if t, alive := p.Thread(tid); alive {
				threads = append(threads, t)
			}
		}
	}
	return threads, nil
}

// Thread returns a thread of the process by the id that we see; false: it has ended.
func (p *Process) Thread(tid int) (t ThreadStatus, alive bool) {
	name := strconv.Itoa(tid)
	b, err := p.readFile("task/" + name + "/status")
	if err != nil {
		return t, false
	}
	t = ThreadStatus{ID: tid, OwnID: statusField(b, "NSpid"), Process: p.PID, Name: p.Name} // the name, if it just ends
	if t.OwnID == 0 {
		t.OwnID = tid
	}
	if comm, err := p.readFile("task/" + name + "/comm"); err == nil {
		t.Name = strings.TrimSuffix(string(comm), "\n")
	}
	return t, true
}

// Traced tells whether another process traces this one: a debugger.
func (p *Process) Traced() bool {
	b, err := p.read("status")
	return err == nil && statusField(b, "TracerPid") != 0
}

// ShadowStack tells whether the processor checks the return addresses of the
// process (CET), so that none may be changed.
func (p *Process) ShadowStack() bool {
	b, err := p.read("status")
	if err != nil {
		return false
	}
	_, features, _ := strings.Cut(string(b), "x86_Thread_features:")
	features, _, _ = strings.Cut(features, "\n")
	return strings.Contains(features, "shstk")
}

// MoreFiltered tells whether the process has filters of system calls (seccomp)
// that footfall has not: a call that they do not know may kill it.
func (p *Process) MoreFiltered() bool {
	theirs, err := p.read("status")
	return err == nil && moreFiltered(theirs)
}

func moreFiltered(theirs []byte) bool {
	if statusField(theirs, "Seccomp") == 0 {
		return false
	}
	ours, err := os.ReadFile("/proc/self/status")
	return err != nil || statusField(ours, "Seccomp_filters") < statusField(theirs, "Seccomp_filters") || statusField(ours, "Seccomp") == 0
}

// OpenDescriptor opens, for reading and writing, what a file descriptor of the
// process leads to.
func (p *Process) OpenDescriptor(fd int) (*os.File, error) {
	return p.open(fmt.Sprintf("fd/%d", fd), unix.O_RDWR)
}

// LocksMemory tells whether the process has memory that may not be swapped
// out.
func (p *Process) LocksMemory() bool {
	b, err := p.read("status")
	if err != nil {
		return false
	}
	_, locked, _ := strings.Cut(string(b), "VmLck:")
	locked, _, _ = strings.Cut(strings.TrimSpace(locked), " ")
	return locked != "" && locked != "0"
}
