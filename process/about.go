//go:build linux

package process

import (
	"bytes"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// An About is what people know a process by, for lists.
type About struct {
	// Title is its command line as ps shows it: the arguments, or what the program has written
	// in their place; "" if there is none. It may hold any bytes.
	Title string
	// Exe is the file that it runs, as it sees it; "" if that may not be known.
	Exe     string
	Parent  int
	UID     int
	User    string // by name, or the number
	Started time.Time
	// Container is what [ContainerOf] says.
	Container string
}

// Describe tells about a process.
func Describe(pid int) (About, error) {
	dir, err := os.Open("/proc/" + strconv.Itoa(pid))
	if err != nil {
		return About{}, err
	}
	p := &Process{PID: pid, dir: dir}
	defer p.Close()
	st, err := p.stat()
	if err != nil {
		return About{}, err
	}
	a := About{Parent: st.parent, UID: ownerOf(dir), Started: startTime(st.start.Ticks), Container: ContainerOf(pid)}
	a.User = strconv.Itoa(a.UID)
	if u, err := user.LookupId(a.User); err == nil {
		a.User = u.Username
	}
	if line, err := p.read("cmdline"); err == nil {
		a.Title = strings.TrimSpace(string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
	}
	a.Exe, _ = exeOf(pid)
	return a, nil
}

// ownerOf is the effective user of a process, whose directory it is.
func ownerOf(dir *os.File) int {
	var st unix.Stat_t
	if unix.Fstat(int(dir.Fd()), &st) != nil {
		return -1
	}
	return int(st.Uid)
}

// ticksPerSecond is in what the kernel tells times to programs, on all CPUs that we know.
const ticksPerSecond = 100

// Began is when the process started.
func (p *Process) Began() time.Time { return startTime(p.Start.Ticks) }

// startTime is when a process started, which the kernel tells from its own start on, suspended or not.
func startTime(ticks uint64) time.Time {
	var up unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) != nil {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(ticks)*(time.Second/ticksPerSecond) - time.Duration(up.Nano()))
}

// Arguments are those that the program was started with, its name first, as they are in its memory now.
func (p *Process) Arguments() ([]string, error) {
	line, err := p.read("cmdline")
	if err != nil {
		return nil, err
	}
	text, _ := strings.CutSuffix(string(line), "\x00")
	return strings.Split(text, "\x00"), nil
}
