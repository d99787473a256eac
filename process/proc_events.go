//go:build linux

package process

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// procEvents are the kernel's own words about processes that are made, become other programs and change their names: those of
// its proc connector (linux/cn_proc.h, Documentation/driver-api/connector.rst).
type procEvents struct {
	socket int
	stop   chan struct{}
	stops  int                // an eventfd, which says that there is no use in listening
	came   chan struct{}      // there is something to take; closed when nothing comes any more
	told   func(pid int) bool // nothing is to be noted of such a process, and of those that it makes; nil: of all it is

	mu      sync.Mutex
	pids    map[int]bool // whether it has changed since it was made
	lost    bool         // more came than were kept
	makers  map[int]int  // how many events were not noted, by the process that told tells of
	ignored []int        // of these makers the kernel does not tell us
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
	stops := -1
	if err == nil {
		stops, err = unix.Eventfd(0, unix.EFD_CLOEXEC)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	_ = attachFilter(fd, withoutChildrenOf(nil)) // else more comes, which is passed over
	e := &procEvents{socket: fd, stop: make(chan struct{}), stops: stops, came: make(chan struct{}, 1), told: told, pids: make(map[int]bool), makers: make(map[int]int)}
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

// listen notes what comes, until it is closed. A thread waits for it: if Go's network poller did, each event would wake it, also those
// for which nobody waits.
func (e *procEvents) listen() {
	defer close(e.came)
	b := make([]byte, 1<<12)
	for e.await() && e.takeAll(b) == nil {
		select {
		case <-e.stop:
			return
		case <-time.After(eventsEach):
		}
	}
}

// await waits until something has come; false: it is to stop.
func (e *procEvents) await() bool {
	for {
		come := []unix.PollFd{{Fd: int32(e.socket), Events: unix.POLLIN}, {Fd: int32(e.stops), Events: unix.POLLIN}}
		if _, err := unix.Poll(come, -1); !errors.Is(err, unix.EINTR) {
			return err == nil && come[1].Revents == 0
		}
	}
}

// takeAll notes what has come, with room for a message.
func (e *procEvents) takeAll(b []byte) error {
	news := false
	for {
		n, _, err := unix.Recvfrom(e.socket, b, 0)
		switch {
		case errors.Is(err, unix.EAGAIN):
			if news {
				select {
				case e.came <- struct{}{}:
				default:
				}
			}
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil && !errors.Is(err, unix.ENOBUFS):
			return err
		}
		pid, by := 0, 0
		if err == nil {
			if pid, by = cameIn(b[:n]); pid == 0 {
				continue
			}
			if e.told != nil && e.told(by) {
				e.made(by)
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

// A process that has been told of by others so often has the kernel not tell of its children any more: else we are woken for
// each. So many of them can be told apart.
const (
	manyMade   = 8
	maxIgnored = 32
)

// made notes that the kernel has told of a child, or a change, of a process that others tell of.
func (e *procEvents) made(by int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.makers) < maxProcEvents || e.makers[by] > 0 {
		e.makers[by]++
	}
}

// ignore has the kernel not tell of the children of those that make many, as long as others tell of them. It is to be called again
// and again: a number may have become another process's.
func (e *procEvents) ignore() {
	if e.told == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	ignored := slices.DeleteFunc(slices.Clone(e.ignored), func(pid int) bool { return !e.told(pid) })
	for pid, n := range e.makers {
		if n >= manyMade && len(ignored) < maxIgnored && !slices.Contains(ignored, pid) && e.told(pid) {
			ignored = append(ignored, pid)
		}
	}
	clear(e.makers)
	if slices.Equal(ignored, e.ignored) {
		return
	}
	if attachFilter(e.socket, withoutChildrenOf(ignored)) == nil {
		e.ignored = ignored
	}
}

func attachFilter(socket int, filter []unix.SockFilter) error {
	return unix.SetsockoptSockFprog(socket, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
}

// withoutChildrenOf is a filter of the socket (linux/filter.h) that drops what the kernel tells of the children of some processes, of
// threads, and all that nobody asked for: ends and more, which some kernels tell of nevertheless.
func withoutChildrenOf(parents []int) (filter []unix.SockFilter) {
	do := func(code uint16, k uint32, yes, no int) {
		filter = append(filter, unix.SockFilter{Code: code, K: k, Jt: uint8(yes), Jf: uint8(no)})
	}
	const load, equal, ends = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	const parentsAt = 9
	accept := parentsAt + len(parents)
	drop := accept + 1
	do(load, procEventAt, 0, 0) // what
	do(equal, asLoaded(procEventExec), accept-2, 0)
	do(equal, asLoaded(procEventComm), accept-3, 0)
	do(equal, asLoaded(procEventFork), 0, drop-4)
	do(load, procEventData+8, 0, 0) // the child's thread
	do(unix.BPF_MISC|unix.BPF_TAX, 0, 0, 0)
	do(load, procEventData+12, 0, 0) // and process
	do(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_X, 0, 0, drop-8)
	do(load, procEventData+4, 0, 0) // the parent
	for i, pid := range parents {
		do(equal, asLoaded(uint32(pid)), drop-(parentsAt+i+1), 0)
	}
	do(ends, 1<<18, 0, 0) // more than a message has
	do(ends, 0, 0, 0)
	return filter
}

// asLoaded is a number as a filter loads it: from the order of networks.
func asLoaded(x uint32) uint32 {
	return binary.BigEndian.Uint32(binary.NativeEndian.AppendUint32(nil, x))
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

// close ends it. Nothing else is asked of it meanwhile, or later.
func (e *procEvents) close() {
	close(e.stop)
	_, _ = unix.Write(e.stops, binary.NativeEndian.AppendUint64(nil, 1))
	for range e.came { // until nobody listens
	}
	unix.Close(e.socket)
	unix.Close(e.stops)
}
