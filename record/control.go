//go:build linux

package record

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"footfall/input"
	"footfall/process"
)

// A running trace is changed by footfall trace --set, through a socket whose name,
// in the kernel's abstract namespace, has the id of the traced process: nothing is
// left behind, and a name that is there is that of a trace which runs. Anybody may
// take any such name first, so a trace takes another one if it must, and both sides
// ask the kernel whose the other one is before they believe a word.

// A request is a change that waits for an answer.
type request struct {
	traceChange
	answer chan changeAnswer
}

const controlPrefix = "@footfall/trace/"

func controlName(pid int) string { return controlPrefix + strconv.Itoa(pid) }

// listenControl takes the name of a process, or with a number behind it what is
// free.
func listenControl(pid int) (l *net.UnixListener, err error) {
	name := controlName(pid)
	for range 10 {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
		if !errors.Is(err, unix.EADDRINUSE) {
			break
		}
		name = fmt.Sprintf("%s/%x", controlName(pid), rand.Uint64())
	}
	return l, err
}

// A tracer is a footfall that traces.
type tracer struct {
	pid  int // its own
	name string
}

// tracers returns the footfalls that trace a process, of those who have taken its name: that
// belong to root, to us, or to the user of the process. With its error somebody else has.
func tracers(pid int, owner input.User) (all []tracer, err error) {
	text, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, err
	}
	for _, name := range controlNames(string(text), pid) {
		c, dialErr := net.DialUnix("unix", nil, &net.UnixAddr{Name: name, Net: "unix"})
		if dialErr != nil {
			continue
		}
		other, peerErr := peer(c)
		c.Close()
		switch {
		case peerErr != nil:
			err = peerErr
		case other.Uid == 0, int(other.Uid) == os.Geteuid(), os.Geteuid() == 0 && int(other.Uid) == owner.UID:
			all = append(all, tracer{int(other.Pid), name})
		default:
			err = fmt.Errorf("user %d has taken its name, and is not believed: no trace of yours answers", other.Uid)
		}
	}
	return all, err
}

// sayTracers says, before we trace a process, who else does.
func sayTracers(p *process.Process, stderr io.Writer) {
	owner, err := p.User()
	if err != nil {
		return
	}
	others, _ := tracers(p.PID, owner)
	for _, other := range others {
		fmt.Fprintf(stderr, "footfall: process %d is traced by another footfall, too; --set %d changes its trace, --set %d this one\n", p.PID, other.pid, os.Getpid())
	}
}

// dialControl connects to the trace of a process, or to that of a footfall.
func dialControl(p *process.Process) (*net.UnixConn, error) {
	owner, err := p.User()
	if err != nil {
		return nil, err
	}
	all, err := tracers(p.PID, owner)
	if len(all) == 0 && err == nil {
		every, _ := tracers(0, owner)
		all = slices.DeleteFunc(every, func(t tracer) bool { return t.pid != p.PID })
	}
	switch {
	case len(all) > 1:
		var ids []string
		for _, t := range all {
			ids = append(ids, strconv.Itoa(t.pid))
		}
		return nil, fmt.Errorf("%d footfalls trace it: give the id of one in its place: %s", len(all), strings.Join(ids, ", "))
	case len(all) == 0:
		return nil, cmp.Or(err, error(unix.ECONNREFUSED))
	}
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: all[0].name, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if other, err := peer(c); err != nil || int(other.Pid) != all[0].pid { // the one before has ended just now
		c.Close()
		return nil, cmp.Or(err, error(unix.ECONNREFUSED))
	}
	return c, nil
}

// controlNames returns the names that belong to a process, 0 for those of all, of those in
// a /proc/net/unix:
//
//	0000000000000000: 00000002 00000000 00010000 0001 01 30217 @footfall/trace/4711
func controlNames(sockets string, pid int) (names []string) {
	const listening = "00010000" // __SO_ACCEPTCON
	for line := range strings.Lines(sockets) {
		f := strings.Fields(line)
		if len(f) != 8 || f[3] != listening {
			continue
		}
		rest, ours := strings.CutPrefix(f[7], controlPrefix)
		of, _, _ := strings.Cut(rest, "/")
		if ours && (pid == 0 || of == strconv.Itoa(pid)) {
			names = append(names, f[7])
		}
	}
	return names
}

// serveControl lets others change the trace of a process: those of the same user,
// and root.
func serveControl(pid int) (requests chan request, closer io.Closer, err error) {
	l, err := listenControl(pid)
	if err != nil {
		return nil, nil, fmt.Errorf("--set will not work: %w", err)
	}
	requests = make(chan request)
	go func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return // closed
			}
			go answerControl(c, requests)
		}
	}()
	return requests, l, nil
}

const (
	controlSize     = 1 << 20
	controlPatience = 10 * time.Second
)

func answerControl(c *net.UnixConn, requests chan<- request) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(controlPatience))
	answer := changeAnswer{Error: "the trace has ended"}
	r := request{answer: make(chan changeAnswer, 1)}
	if err := permitted(c); err != nil {
		answer.Error = err.Error()
	} else if err := json.NewDecoder(io.LimitReader(c, controlSize)).Decode(&r.traceChange); err != nil {
		answer.Error = "request: " + err.Error()
	} else {
		select {
		case requests <- r:
			answer = <-r.answer
		case <-time.After(controlPatience / 2):
		}
	}
	if text, err := json.Marshal(answer); err == nil {
		send(c, append(text, '\n'))
	}
}

// send writes to another side that may have gone: without SIGPIPE, which ends a trace.
func send(c *net.UnixConn, text []byte) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Write(func(fd uintptr) bool {
		n, err := unix.SendmsgN(int(fd), text, nil, nil, unix.MSG_NOSIGNAL)
		text = text[max(n, 0):]
		return err != unix.EAGAIN && (err != nil || len(text) == 0)
	})
}

// permitted tells whether the other side may change the trace.
func permitted(c *net.UnixConn) error {
	other, err := peer(c)
	if err == nil && other.Uid != 0 && int(other.Uid) != os.Geteuid() {
		err = errors.New("only the user who traces may change it")
	}
	return err
}

// peer returns the process and the user of the other side, as the kernel knows them.
func peer(c *net.UnixConn) (other *unix.Ucred, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { other, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return nil, err
	}
	return other, failed
}
