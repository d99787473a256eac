//go:build linux

package process

import (
	"cmp"
	"encoding/binary"
	"errors"
	"iter"
	"math"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// WithFile makes a file in memory of that size in the process and calls do with the
// descriptor there and with the file itself, which is closed afterwards, as is the
// descriptor: no other thread runs while it is open.
func (h *Held) WithFile(name string, size int64, do func(fd uint64, f *os.File) error) error {
	return h.InjectCalls(func() error { return h.withFile(name, size, do) })
}

func (h *Held) withFile(name string, size int64, do func(fd uint64, f *os.File) error) error {
	fd, err := h.systemCallWith(append([]byte(name), 0), unix.SYS_MEMFD_CREATE, func(at uint64) []uint64 { return []uint64{at, unix.MFD_CLOEXEC} })
	if err != nil {
		return err
	}
	err = func() error {
		f, err := h.p.OpenDescriptor(int(fd))
		if err != nil {
			return err
		}
		defer f.Close()
		if err := f.Truncate(size); err != nil {
			return err
		}
		return do(fd, f)
	}()
	_, closeErr := h.SystemCall(unix.SYS_CLOSE, fd)
	return errors.Join(err, closeErr)
}

// NoFile is for [Held.Map] of memory without a file.
const NoFile = math.MaxUint64

// Map maps memory in the process, as mmap does. It is not locked, even where the process
// locks all that it maps (MCL_FUTURE).
func (h *Held) Map(addr, size uint64, prot, flags int, fd, offset uint64) (at uint64, err error) {
	locks := !h.lockless && h.p.LocksMemory()
	h.lockless = !locks // nobody else locks any meanwhile
	first := prot
	if locks {
		first = unix.PROT_NONE // so that no page is filled
	}
	at, err = h.mapFirst(first, addr, size, prot, flags, fd, offset)
	if errors.Is(err, unix.EACCES) && locks && prot&unix.PROT_EXEC != 0 {
		// Nothing may become executable there (PR_SET_MDWE), but may be so from the beginning.
		at, err = h.mapFirst(prot, addr, size, prot, flags, fd, offset)
	}
	return at, err
}

// mapFirst maps memory that is protected as first says until it is certain that it is not locked.
func (h *Held) mapFirst(first int, addr, size uint64, prot, flags int, fd, offset uint64) (at uint64, err error) {
	at, err = h.SystemCall(unix.SYS_MMAP, addr, size, uint64(first), uint64(flags), fd, offset)
	if err != nil {
		return 0, err
	}
	if first != prot || h.p.LocksMemory() { // it is seen only if something is locked
		h.lockless = false
		_, err = h.SystemCall(unix.SYS_MUNLOCK, at, size)
		if err == nil && first != prot {
			_, err = h.SystemCall(unix.SYS_MPROTECT, at, size, uint64(prot))
		}
	}
	if err != nil {
		return 0, errors.Join(err, h.Unmap(at, size))
	}
	return at, nil
}

// Unmap gives memory of the process back.
func (h *Held) Unmap(addr, size uint64) error {
	_, err := h.SystemCall(unix.SYS_MUNMAP, addr, size)
	return err
}

// anyIdle returns a thread that can make system calls, 0 if there is none: one that sleeps, if
// possible, which gets a processor sooner than one that has just had one. The last choice is one that would
// not sleep on if footfall were killed.
func (h *Held) anyIdle() (any int) {
	last := 0
	for tid, t := range h.s.threads {
		switch {
		case !h.idle(tid), h.diverts(tid):
		case h.forgets(tid):
			last = tid
		case !t.busy:
			return tid
		default:
			any = tid
		}
	}
	return cmp.Or(any, last)
}

// diverts tells whether a system call of a stopped thread would be diverted to its handler of SIGSYS
// (PR_SET_SYSCALL_USER_DISPATCH), as far as the kernel tells, which it does since Linux 6.4.
func (h *Held) diverts(tid int) bool {
	const getConfig = 0x4211                                 // PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG
	var config struct{ mode, selector, offset, size uint64 } // struct ptrace_sud_config of <linux/ptrace.h>
	if ptrace(getConfig, tid, unsafe.Sizeof(config), uintptr(unsafe.Pointer(&config))) != nil || config.mode == 0 {
		return false
	}
	var blocks [1]byte
	_, err := h.p.ReadAt(blocks[:], int64(config.selector))
	return err != nil || blocks[0] != 0
}

// LeftDescriptors returns descriptors of the process that a footfall has left which was
// killed.
func (p *Process) LeftDescriptors() []uint64 {
	var left []uint64
	for fd, link := range p.descriptors() {
		if IsOurs(link) {
			left = append(left, fd)
		}
	}
	return left
}

// FillsMemory tells whether the process has a descriptor by which it fills memory that is touched first (userfaultfd).
func (p *Process) FillsMemory() bool {
	for _, link := range p.descriptors() {
		if link == "anon_inode:[userfaultfd]" {
			return true
		}
	}
	return false
}

// descriptors are those of the process and what they lead to, of which 64 bytes are looked at.
func (p *Process) descriptors() iter.Seq2[uint64, string] {
	return func(yield func(uint64, string) bool) {
		dir, err := p.open("fd", unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			return
		}
		defer dir.Close()
		names, _ := dir.Readdirnames(-1)
		b := make([]byte, 64)
		for _, name := range names {
			n, err := unix.Readlinkat(int(dir.Fd()), name, b)
			fd, numberErr := strconv.ParseUint(name, 10, 64)
			if err == nil && numberErr == nil && !yield(fd, string(b[:n])) {
				return
			}
		}
	}
}

// CloseLeft closes them.
func (h *Held) CloseLeft() error {
	for _, fd := range h.p.LeftDescriptors() {
		if _, err := h.SystemCall(unix.SYS_CLOSE, fd); err != nil {
			return err
		}
	}
	return nil
}

// Present tells of each page from one address up to another, with which it begins,
// whether it has ever been written to.
func (p *Process) Present(from, to uint64) iter.Seq2[uint64, bool] {
	return func(yield func(uint64, bool) bool) {
		page := uint64(os.Getpagesize())
		from &^= page - 1
		f, err := p.open("pagemap", unix.O_RDONLY)
		if err == nil {
			defer f.Close()
		}
		b := make([]byte, 1<<15)
		for from < to {
			n := min(uint64(len(b)/8), (to-from+page-1)/page)
			if err == nil {
				_, err = f.ReadAt(b[:8*n], int64(from/page*8))
			}
			for i := range n {
				const there = 3 << 62 // in memory, or swapped
				if !yield(from+i*page, err != nil || binary.NativeEndian.Uint64(b[8*i:])&there != 0) {
					return
				}
			}
			from += n * page
		}
	}
}

// MemoryRoom returns how much more memory the process may have (RLIMIT_AS), or could have
// and still be permitted to lock all of it, as mlockall does, if it is not privileged to
// lock what it wants; 0: there is no limit, or it is exceeded.
func (p *Process) MemoryRoom() (room uint64) {
	limits, err := p.read("limits")
	status, statusErr := p.read("status")
	if err != nil || statusErr != nil {
		return 0
	}
	number := func(b []byte, name string) uint64 {
		_, line, _ := strings.Cut(string(b), "\n"+name)
		line, _, _ = strings.Cut(strings.TrimLeft(line, ": \t"), " ")
		n, _ := strconv.ParseUint(line, 10, 64) // of "unlimited" 0
		return n
	}
	used := number(status, "VmSize") << 10
	_, line, _ := strings.Cut(string(status), "\nCapEff:\t")
	line, _, _ = strings.Cut(line, "\n")
	capable, _ := strconv.ParseUint(line, 16, 64)
	locked := number(limits, "Max locked memory")
	if capable>>unix.CAP_IPC_LOCK&1 != 0 {
		locked = 0
	}
	for _, limit := range []uint64{locked, number(limits, "Max address space")} {
		if limit > used && (room == 0 || limit-used < room) {
			room = limit - used
		}
	}
	return room
}
