//go:build linux

package process

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// procEvents are the kernel's own words about processes that are made, become other programs and change their names: those of
// its proc connector (linux/cn_proc.h, Documentation/driver-api/connector.rst).
type procEvents struct {
	socket *os.File
	came   chan struct{}      // there is something to take; closed when nothing comes any more
	told   func(pid int) bool // nothing is to be noted of such a process, and of those that it makes; nil: of all it is

	mu   sync.Mutex
	pids map[int]bool // whether it has changed since it was made
	lost bool         // more came than were kept
}

const (
	connectorProc  = 1 // CN_IDX_PROC and CN_VAL_PROC
	connectorAt    = unix.SizeofNlMsghdr
	connectorSize  = 20 // struct cn_msg without its data
	procEventAt    = connectorAt + connectorSize
	procEventData  = procEventAt + 16 // what, cpu, timestamp
	procEventFork  = 0x1
	procEventExec  = 0x2
	procEventComm  = 0x200
	procListen     = 1 // PROC_CN_MCAST_LISTEN
	procEventRoom  = 1 << 20
	maxProcEvents  = 1 << 14 // processes that have come and were not taken so far
	procEventTypes = procEventFork | procEventExec | procEventComm
)

var errNoAnswer = errors.New("the kernel does not answer: only those of the first PID namespace are told")

// listenToProcesses has the kernel tell of processes. It needs CAP_NET_ADMIN where the system began, not in a container.
func listenToProcesses(told func(pid int) bool) (*procEvents, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_CONNECTOR)
	if err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: connectorProc}); err != nil {
		unix.Close(fd)
		return nil, err
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, procEventRoom)
	// Since Linux 6.6 one can say which events are wanted; those before do not answer to that.
	for _, data := range [][]uint32{{procListen, procEventTypes}, {procListen}} {
		if err = unix.Sendto(fd, connectorMessage(data), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			break
		}
		if err = answered(fd); !errors.Is(err, errNoAnswer) {
			break
		}
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	e := &procEvents{socket: os.NewFile(uintptr(fd), "proc connector"), came: make(chan struct{}, 1), told: told, pids: make(map[int]bool)}
	go e.listen()
	return e, nil
}

// connectorMessage is one for the proc connector.
func connectorMessage(data []uint32) []byte {
	b := make([]byte, procEventAt, procEventAt+4*len(data))
	n := binary.NativeEndian
	n.PutUint32(b, uint32(procEventAt+4*len(data)))
	n.PutUint16(b[4:], unix.NLMSG_DONE)
	n.PutUint32(b[connectorAt:], connectorProc)
	n.PutUint32(b[connectorAt+4:], connectorProc)
	n.PutUint16(b[connectorAt+16:], uint16(4*len(data)))
	for _, x := range data {
		b = n.AppendUint32(b, x)
	}
	return b
}

// answered takes the kernel's answer, which is there when it has got the message.
func answered(fd int) error {
	b := make([]byte, 1024)
	for {
		n, _, err := unix.Recvfrom(fd, b, 0)
		switch {
		case errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOBUFS):
			continue
		case err != nil:
			return errNoAnswer
		case n < procEventData+4 || binary.NativeEndian.Uint32(b[procEventAt:]) != 0:
			continue // an event of what others listen to
		}
		if errno := unix.Errno(binary.NativeEndian.Uint32(b[procEventData:])); errno != 0 {
			return errno
		}
		return nil
	}
}

// eventsEach is how long nobody listens after an event: a server may make hundreds of processes a second, and to be woken for each
// takes longer than to look at it. The kernel keeps what comes meanwhile.
const eventsEach = 20 * time.Millisecond

// listen notes what comes, until the socket is closed.
func (e *procEvents) listen() {
	defer close(e.came)
	conn, err := e.socket.SyscallConn()
	if err != nil {
		return
	}
	b := make([]byte, 1<<12)
	for {
		var received error
		if conn.Read(func(fd uintptr) (is bool) {
			is, received = e.takeAll(int(fd), b)
			return is || received != nil
		}) != nil || received != nil {
			return
		}
		time.Sleep(eventsEach)
	}
}

// takeAll notes what has come to a socket, with room for a message; false: nothing has.
func (e *procEvents) takeAll(fd int, b []byte) (some bool, err error) {
	news := false
	for {
		n, _, err := unix.Recvfrom(fd, b, 0)
		switch {
		case errors.Is(err, unix.EAGAIN):
			if news {
				select {
				case e.came <- struct{}{}:
				default:
				}
			}
			return some, nil
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil && !errors.Is(err, unix.ENOBUFS):
			return some, err
		}
		some = true
		pid, by := 0, 0
		if err == nil {
			if pid, by = cameIn(b[:n]); pid == 0 || e.told != nil && e.told(by) {
				continue
			}
		}
		news = true
		e.mu.Lock()
		if err != nil || len(e.pids) >= maxProcEvents {
			e.lost = true
		} else {
			e.pids[pid] = e.pids[pid] || by == pid
		}
		e.mu.Unlock()
	}
}

// cameIn is the process that a message tells of, 0: of none; and by which process: by itself, if it has become another program,
// or has got another name.
func cameIn(b []byte) (pid, by int) {
	if len(b) < procEventData+16 {
		return 0, 0
	}
	word := func(at int) int { return int(int32(binary.NativeEndian.Uint32(b[procEventData+at:]))) }
	switch binary.NativeEndian.Uint32(b[procEventAt:]) {
	case procEventFork: // the parent's thread and process, the child's
		if word(8) != word(12) {
			return 0, 0 // a thread
		}
		return word(12), word(4)
	case procEventExec, procEventComm: // thread and process
		return word(4), word(4)
	}
	return 0, 0
}

// take returns the processes that came since it was called last, and whether each has changed since it was made; lost tells that
// there were more.
func (e *procEvents) take() (pids map[int]bool, lost bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	pids, lost = e.pids, e.lost
	e.pids, e.lost = make(map[int]bool), false
	return pids, lost
}

func (e *procEvents) close() { e.socket.Close() }
