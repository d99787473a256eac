//go:build linux

package patch

import (
	"bytes"
	encoding "encoding/binary"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"footfall/binary"
	"footfall/binary/unwind"
	"footfall/process"
	"footfall/trace"
)

// The dynamic linker calls an empty function before and after its list of libraries
// changes, for debuggers: r_brk. Its ret, and the nops up to the next function, are
// room for a jump, to a stub like any other, which tells us and waits until we have
// looked (trampoline/amd64.S). What has been mapped then has run nothing yet, but
// functions that choose others (IFUNC), and what has been unmapped is not used.
//
//	glibc          dlopen: map; r_brk; relocate (since 2.41 before r_brk); constructors
//	               dlclose: destructors; unmap; r_brk
//	musl           dlopen: map; relocate; r_brk; constructors

// notices is the mode of that stub.
const notices trace.Mode = 100

const futexWaitOp, futexWakeOp = 0, 1 // of <linux/futex.h>

// patience is how long a thread waits for an answer from us if we do not even show that
// we are alive. That it can be this long on a busy machine is common; and a thread waits
// in vain once at most.
var patience = 500 * time.Millisecond

// A notifier is that function.
type notifier struct {
	site  uint64
	old   [8]byte
	state uint64 // where the linker keeps r_state
	stub  *stub

	changed chan struct{}
	stop    atomic.Bool
	stopped chan struct{} // nil: nobody watches
}

// findNotifier returns nil where there is none, or no room: in static programs, or
// with linkers of another kind.
func findNotifier(p *process.Process) *notifier {
	if _, has := native.routines[notices]; !has {
		return nil
	}
	maps, _, err := p.Maps()
	if err != nil {
		return nil
	}
	images := p.Images(maps)
	for _, i := range images {
		debug := debugOf(p, i)
		if debug == 0 {
			continue
		}
		// struct r_debug of <link.h>: version i32, list u64, r_brk u64, r_state i32
		var b [28]byte
		if _, err := p.ReadAt(b[:], int64(debug)); err != nil {
			return nil
		}
		n := &notifier{site: encoding.LittleEndian.Uint64(b[16:]), state: debug + 24}
		if m := maps.At(n.state); m == nil || !m.Write {
			return nil
		}
		at := slices.IndexFunc(images, func(i *process.MappedFile) bool {
			return slices.ContainsFunc(i.Parts, func(m process.Mapping) bool { return m.Exec && m.Start <= n.site && n.site < m.End })
		})
		if at < 0 || !n.hasRoom(p, images[at]) {
			return nil
		}
		return n
	}
	return nil
}

// debugOf returns what the linker has written behind DT_DEBUG for debuggers: in the
// program it is the address of struct r_debug, in libraries nothing.
func debugOf(p *process.Process, i *process.MappedFile) uint64 {
	const (
		debug     = 21 // DT_DEBUG
		mostBytes = 1 << 16
	)
	file, done := openFile(i)
	if file == nil {
		return 0
	}
	defer done()
	addr, size, ok := file.Dynamic()
	if !ok || size > mostBytes || file.Machine != native.machine {
		return 0
	}
	table := make([]byte, size)
	if _, err := p.ReadAt(table, int64(addr+file.Bias(i.Start))); err != nil {
		return 0
	}
	for ; len(table) >= 16; table = table[16:] {
		switch encoding.LittleEndian.Uint64(table) {
		case 0: // its end
			return 0
		case debug:
			return encoding.LittleEndian.Uint64(table[8:])
		}
	}
	return 0
}

func openFile(i *process.MappedFile) (file *binary.File, done func()) {
	f, err := i.Open()
	if err != nil {
		return nil, nil
	}
	if file, err = binary.Open(f); err != nil {
		f.Close()
		return nil, nil
	}
	return file, func() { f.Close() }
}

// functionAlignment is that of functions, where there are nops between them.
const functionAlignment = 16

// hasRoom tells whether there is room for a jump: nothing but nops may lie behind the
// ret, if that is not long enough itself. Then only the ret becomes one.
func (n *notifier) hasRoom(p *process.Process, i *process.MappedFile) bool {
	code := make([]byte, functionAlignment)
	if _, err := p.ReadAt(code, int64(n.site)); err != nil {
		return false
	}
	body := 0
	if bytes.HasPrefix(code, native.landing) {
		body = len(native.landing)
	}
	if !bytes.HasPrefix(code[body:], native.ret) {
		return false
	}
	if len(native.ret) >= native.jumpSize {
		n.site += uint64(body)
		copy(n.old[:], code[body:])
		return true
	}
	copy(n.old[:], code)
	body += len(native.ret)
	end := n.site + uint64(native.jumpSize)
	file, done := openFile(i)
	if file == nil {
		return false
	}
	defer done()
	room := uint64(body + file.Nops(code[body:], native.jumpSize-body))
	if n.site+room < end || end > (n.site+uint64(body)+functionAlignment-1)&^(functionAlignment-1) {
		return false
	}
	rows, err := file.UnwindRows() // those of another function, which begins with nops?
	bias := file.Bias(i.Start)
	return err == nil && !slices.ContainsFunc(rows, func(r unwind.CompactRow) bool {
		return !r.Missing && r.Addr+bias > n.site && r.Addr+bias < end
	})
}

// noticeReturn is where in its stub the ret is, on amd64: elsewhere no thread can be
// within the site.
const noticeReturn = 15

// LoadNotifications tells of libraries that are loaded or unloaded, if Options.NotifyLoads is set
// and the process has what that needs; else it is nil. The thread that does it waits
// for [Session.Answer], but not long: images have come or gone, and nobody has run them.
func (s *Session) LoadNotifications() <-chan struct{} {
	if s.notifier == nil {
		return nil
	}
	return s.notifier.changed
}

// watchNotices begins to wait for them.
func (s *Session) watchNotices() {
	if n := s.notifier; n != nil && n.stub != nil && n.stub.patched {
		n.changed, n.stopped = make(chan struct{}, 1), make(chan struct{})
		go n.watch(s.region.settings())
	}
}

// Noticed returns the number of the last notice, for Answer, and whether it is to be
// answered.
func (s *Session) Noticed() (notice uint32, waits bool) {
	if s.notifier == nil || s.notifier.stopped == nil || s.region == nil {
		return 0, false
	}
	set := s.region.settings()
	notice = atomic.LoadUint32(&set.notices)
	return notice, notice != atomic.LoadUint32(&set.answered)
}

// Answer lets threads go on whose notice is not later than that one. Images were to be
// looked for after it, before.
func (s *Session) Answer(notice uint32) {
	if s.notifier == nil || s.notifier.stopped == nil || s.notifier.stop.Load() || s.region == nil {
		return
	}
	set := s.region.settings()
	atomic.StoreUint32(&set.answering, 1)
	if int32(notice-atomic.LoadUint32(&set.answered)) > 0 {
		set.answer(notice)
	}
}

func (set *settings) answer(notice uint32) {
	atomic.StoreUint32(&set.answered, notice)
	futexWake(&set.answered)
}

// watch waits for notices. As long as one is not answered it shows those who wait that
// we are alive.
func (n *notifier) watch(set *settings) {
	defer close(n.stopped)
	for !n.stop.Load() {
		seen := atomic.LoadUint32(&set.notices)
		pause := time.Second
		if seen != atomic.LoadUint32(&set.answered) {
			atomic.AddUint32(&set.beat, 1)
			select {
			case n.changed <- struct{}{}:
			default:
			}
			pause = min(patience/8, 50*time.Millisecond)
		}
		futexWait(&set.notices, seen, pause)
	}
}

// stopNotices lets all threads go on that wait, and any more.
func (s *Session) stopNotices() {
	if s.notifier == nil || s.region == nil {
		return
	}
	set := s.region.settings()
	if s.recording {
		s.Unanswered = int(atomic.LoadUint32(&set.unanswered))
	}
	atomic.StoreUint32(&set.answering, 0)
	if n := s.notifier; n.stopped != nil && !n.stop.Swap(true) {
		atomic.AddUint32(&set.notices, 1) // so that it does not sleep
		futexWake(&set.notices)
		<-n.stopped
	}
	set.answer(atomic.LoadUint32(&set.notices))
}

func futexWait(word *uint32, value uint32, d time.Duration) {
	limit := unix.NsecToTimespec(int64(d))
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWaitOp, uintptr(value), uintptr(unsafe.Pointer(&limit)), 0, 0)
}

func futexWake(word *uint32) {
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWakeOp, 1<<30, 0, 0, 0)
}

// addNotifier adds its stub, if there is none.
func (s *Session) addNotifier() {
	n := s.notifier
	if n == nil || n.stub != nil {
		return
	}
	set := s.region.settings()
	set.state, set.patience, set.answering = n.state, uint64(patience), 1
	for _, b := range s.islands {
		for _, st := range b.byKey[stubKey{site: n.site, mode: notices}] {
			if st.old == n.old {
				n.stub = st
				return
			}
		}
	}
	b := s.islandFor(n.site)
	if b == nil {
		s.notifier = nil
		return
	}
	n.stub = &stub{island: b, index: uint32(len(b.stubs)), site: n.site, resume: n.site + uint64(native.jumpSize), old: n.old, mode: notices}
	b.add(n.stub)
}

// withNotifier adds it to stubs, if it is to be switched on, or off.
func (s *Session) withNotifier(stubs []*stub, patched bool) []*stub {
	if n := s.notifier; n != nil && n.stub != nil && n.stub.patched == patched {
		stubs = append(slices.Clone(stubs), n.stub)
	}
	return stubs
}
