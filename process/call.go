//go:build linux && (amd64 || arm64)

package process

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CallSafely calls a function of the process, in a thread that waits in one of quietCalls or, where
// libraries are files of their own, runs code of the program that no library can have called: it holds
// no lock that the function might want. All others run on meanwhile, so that locks are given back. The function has
// a stack of its own: that of the thread may be a coroutine's, with little room, and
// what lies below it others'.
func (p *Process) CallSafely(function, trap uint64, args ...uint64) (err error) {
	const (
		room      = 1 << 18
		stackName = MemoryPrefix + "stack"
	)
	stack := uint64(0)
	defer func() {
		if stack != 0 {
			err = errors.Join(err, p.unmap(stack, room))
		}
	}()
	patience := 5 * time.Second
	if maps, _, err := p.Maps(); err == nil && runtimeIsWithin(maps) {
		patience = 100 * time.Millisecond // its threads wait in a system call, or they do not
	}
	deadline := time.Now().Add(patience)
	for {
		err := p.WhileHeld(func(h *Held) (err error) {
			for _, tid := range h.Threads() {
				if !h.idle(tid) || !h.quiet(tid) {
					continue
				}
				if stack == 0 {
					// A file, so that it is known by its name if we are killed.
					err := h.WithFile(stackName, room, func(fd uint64, _ *os.File) error {
						stack, err = h.Map(0, room, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE, fd, 0)
						return err
					})
					if err != nil {
						return err
					}
				}
				if err := h.ReleaseOthers(tid); err != nil {
					return err
				}
				return h.callOn(tid, stack+room, function, trap, time.Second, args...)
			}
			return ErrBusy
		})
		if !errors.Is(err, ErrBusy) && !errors.Is(err, ErrStuck) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// unmap gives memory back.
func (p *Process) unmap(addr, size uint64) (err error) {
	for range 100 {
		err = p.WhileHeld(func(h *Held) error {
			_, err := h.SystemCall(unix.SYS_MUNMAP, addr, size)
			return err
		})
		if !errors.Is(err, ErrBusy) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return err
}

// quiet tells whether a call may be injected into the thread. One without thread pointer has none of
// what libraries keep for each thread.
func (h *Held) quiet(tid int) bool {
	p := h.p
	if pointer, err := h.ThreadPointer(tid); err != nil || pointer == 0 || h.inHandler(tid) {
		return false
	}
	if f := h.s.follower; f != nil && f.parks(tid) {
		return true // its libraries are ready, and it is in none of them
	}
	if call := h.InSystemCall(tid); call >= 0 {
		return slices.Contains(quietCalls, call)
	}
	maps, _, err := p.Maps()
	if err != nil {
		return false
	}
	pc, err := h.PC(tid)
	if err != nil {
		return false
	}
	if runtimeIsWithin(maps) {
		return false
	}
	m := maps.At(pc)
	return m != nil && strings.HasPrefix(m.Path, "/") && !runtimeLibrary(m.Path)
}

// runtimeIsWithin tells whether what allocates, locks and unwinds is in the program's own file.
func runtimeIsWithin(maps Maps) bool {
	return !slices.ContainsFunc(maps, func(m Mapping) bool {
		return runtimeLibrary(m.Path) && !IsOurs(m.Path)
	})
}

// runtimeLibrary knows libraries that allocate memory, lock or unwind.
func runtimeLibrary(path string) bool {
	name := path[strings.LastIndexByte(path, '/')+1:]
	for _, part := range []string{"libc.", "libc-", "ld-", "ld.", "libgcc", "libstdc++", "libc++", "libunwind", "malloc", "libpthread", "libdl", "memfd"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// inHandler tells whether there is a frame of a signal on the stack: its
// handler returns to the code that ends handlers.
func (h *Held) inHandler(tid int) bool {
	p := h.p
	regs, err := h.registers(tid)
	if err != nil {
		return true
	}
	maps, _, err := p.Maps()
	if err != nil {
		return true
	}
	sp := *regs.sp()
	m := maps.At(sp)
	if m == nil {
		return true
	}
	b := make([]byte, min(m.End-sp&^7, 1<<20))
	if _, err := p.ReadAt(b, int64(sp&^7)); err != nil {
		return true
	}
	b = binary.LittleEndian.AppendUint64(b, regs.returnRegister())
	seen := make(map[uint64]bool)
	for ; len(b) >= 8; b = b[8:] {
		v := binary.LittleEndian.Uint64(b) & addressBits
		if seen[v] {
			continue
		}
		seen[v] = true
		if m := maps.At(v); m != nil && m.Exec && p.ReturnsFromSignal(v) {
			return true
		}
	}
	return false
}

// ReturnsFromSignal tells whether the code that ends handlers of signals, to which
// they return, is at an address.
func (p *Process) ReturnsFromSignal(addr uint64) bool {
	code := make([]byte, len(restorerCode))
	_, err := p.ReadAt(code, int64(addr))
	return err == nil && bytes.Equal(code, restorerCode)
}
