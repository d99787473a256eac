//go:build linux

package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A MemoryRange is memory of a process and the place for a copy of it.
type MemoryRange struct {
	Addr  uint64
	Bytes []byte
}

// maxRanges go into one system call. The kernel takes 1024.
const maxRanges = 512

// ReadAt reads memory; the offset is the address.
func (p *Process) ReadAt(b []byte, addr int64) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := p.readv([]MemoryRange{{uint64(addr), b}})
	if err == nil && n < len(b) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// ReadRanges fills all ranges, with one system call for each 512 of them.
func (p *Process) ReadRanges(ranges []MemoryRange) error {
	for len(ranges) > 0 {
		batch := ranges[:min(len(ranges), maxRanges)]
		ranges = ranges[len(batch):]
		want := 0
		for _, r := range batch {
			want += len(r.Bytes)
		}
		n, err := p.readv(batch)
		if err != nil {
			return err
		}
		if n == want {
			continue
		}
		// The kernel stops at the first range that it cannot read.
		for _, r := range batch {
			if n >= len(r.Bytes) {
				n -= len(r.Bytes)
				continue
			}
			return fmt.Errorf("process %d: read %d bytes at %#x: %w", p.PID, len(r.Bytes), r.Addr, io.ErrUnexpectedEOF)
		}
	}
	return nil
}

// ErrAbsent is returned for memory that is not there so far: who is to provide it, a file system or the program
// itself (userfaultfd), may take any time.
var ErrAbsent = errors.New("memory that is not there yet")

// ReadTouched is [Process.ReadRanges] of memory of which the program may have touched little. From the address
// unnamed on, where there is no file behind it, what it has not touched is zero: it is neither waited
// for nor made by reading it. If other memory is not there it returns ErrAbsent, in place of waiting.
func (p *Process) ReadTouched(ranges []MemoryRange, unnamed uint64) error {
	return p.readTouched(ranges, unnamed, false)
}

// AwaitTouched is ReadTouched for who waits for the memory that is not there.
func (p *Process) AwaitTouched(ranges []MemoryRange, unnamed uint64) error {
	err := p.readTouched(ranges, unnamed, true)
	if errors.Is(err, ErrAbsent) { // it is not known what is there
		return p.ReadRanges(ranges)
	}
	return err
}

func (p *Process) readTouched(ranges []MemoryRange, unnamed uint64, wait bool) error {
	var touched []MemoryRange
	err := p.eachPart(len(ranges), func(i int) AddressRange { return ranges[i].addresses() }, unnamed, wait, func(i int, part AddressRange, is bool) {
		r := ranges[i]
		b := r.Bytes[part.Addr-r.Addr : part.End-r.Addr]
		if is {
			touched = append(touched, MemoryRange{part.Addr, b})
		} else {
			clear(b)
		}
	})
	switch {
	case err != nil:
		return err
	case wait:
		return p.ReadRanges(touched)
	}
	return p.readShared(touched)
}

// An AddressRange is memory of a process, up to its end.
type AddressRange struct{ Addr, End uint64 }

func (r MemoryRange) addresses() AddressRange {
	return AddressRange{r.Addr, r.Addr + uint64(len(r.Bytes))}
}

// scratch are buffers for what is read in passing.
var scratch = sync.Pool{New: func() any { return new([scratchSize]byte) }}

const scratchSize = 1 << 16

// VisitTouched is [Process.ReadTouched] for who wants to see only what the program has touched: visit is called for such
// parts of ranges[i], by ascending addresses, with their bytes, which are not to be kept. Each ends with a page, or the range.
func (p *Process) VisitTouched(ranges []AddressRange, unnamed uint64, visit func(i int, addr uint64, b []byte)) error {
	type part struct {
		AddressRange
		of int
	}
	touched := make([]part, 0, 64)
	err := p.eachPart(len(ranges), func(i int) AddressRange { return ranges[i] }, unnamed, false, func(i int, a AddressRange, is bool) {
		if is {
			touched = append(touched, part{a, i})
		}
	})
	if err != nil || len(touched) == 0 {
		return err
	}
	buffer := scratch.Get().(*[scratchSize]byte)
	defer scratch.Put(buffer)
	return p.whileKept(keptMem, func(mem int) error {
		for _, t := range touched {
			for addr := t.Addr; addr < t.End; {
				b := buffer[:min(t.End-addr, scratchSize-addr%scratchSize)]
				if err := p.readAt(mem, b, addr); err != nil {
					return err
				}
				visit(t.of, addr, b)
				addr += uint64(len(b))
			}
		}
		return nil
	})
}

// eachPart calls do for the parts of n ranges that the program has touched, and for those that it has not, which are zero. What is not
// there of a file is ErrAbsent, or, for who waits, taken for touched.
func (p *Process) eachPart(n int, ranges func(i int) AddressRange, unnamed uint64, wait bool, do func(i int, part AddressRange, touched bool)) error {
	page := uint64(os.Getpagesize())
	buffer := scratch.Get().(*[scratchSize]byte)
	defer scratch.Put(buffer)
	entries := buffer[:]
	first, end := uint64(0), uint64(0) // the pages of which there are entries
	err := p.whileKept(keptPagemap, func(pagemap int) error {
		for i := range n {
			r := ranges(i)
			if r.Addr >= r.End {
				continue
			}
			last := (r.End - 1) / page
			if r.Addr/page < first || last >= end {
				first, end = r.Addr/page, last+1
				for j := i + 1; j < n; j++ {
					next := ranges(j)
					if next.Addr < r.Addr || next.Addr/page > end+nearPages || (next.End-1)/page-first >= scratchSize/pagemapEntry {
						break
					}
					end = max(end, (next.End-1)/page+1)
				}
				size := int(end-first) * pagemapEntry
				entries = slices.Grow(entries[:0], size)[:size]
				if err := p.readAt(pagemap, entries, first*pagemapEntry); err != nil {
					return err
				}
			}
			state := func(addr uint64) pageState { return stateOf(entries[(addr/page-first)*pagemapEntry:], addr < unnamed) }
			for from := r.Addr; from < r.End; {
				is := state(from)
				if is == absent && !wait {
					return ErrAbsent
				}
				to := (from/page + 1) * page
				for to/page <= last && state(to) == is {
					to += page
				}
				to = min(to, r.End)
				do(i, AddressRange{from, to}, is != zero)
				from = to
			}
		}
		return nil
	})
	if err != nil {
		return ErrAbsent // or it is not known
	}
	return nil
}

// nearPages is how far apart ranges are at most of which it is asked at once what is there: to be told of a page
// costs less than to ask once more.
const nearPages = 64

// readShared is ReadRanges of memory that a child shares with who has forked it: process_vm_readv would make it pages of its own
// (it pins them), which takes longer than to read them.
func (p *Process) readShared(ranges []MemoryRange) error {
	if len(ranges) == 0 {
		return nil
	}
	opened := false
	err := p.whileKept(keptMem, func(mem int) error {
		opened = true
		for _, r := range ranges {
			if err := p.readAt(mem, r.Bytes, r.Addr); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && !opened {
		return p.ReadRanges(ranges)
	}
	return err
}

// readAt fills b from an offset of a file below /proc/PID.
func (p *Process) readAt(fd int, b []byte, offset uint64) error {
	for read := 0; read < len(b); {
		n, err := unix.Pread(fd, b[read:], int64(offset)+int64(read))
		switch {
		case errors.Is(err, unix.EINTR):
		case err == nil && n <= 0:
			return fmt.Errorf("process %d: read %d bytes at %#x: %w", p.PID, len(b), offset, io.ErrUnexpectedEOF)
		case err != nil:
			return fmt.Errorf("process %d: read %d bytes at %#x: %w", p.PID, len(b), offset, err)
		}
		read += max(n, 0)
	}
	return nil
}

// readv fills ranges until the first that cannot be read, and returns the
// number of bytes.
func (p *Process) readv(ranges []MemoryRange) (int, error) {
	if p.noVM.Load() {
		return p.readMem(ranges)
	}
	local, remote := vectors(ranges)
	from := p.thread()
	n, err := unix.ProcessVMReadv(from, local, remote, 0)
	if errors.Is(err, unix.ESRCH) && p.movedOn(from) {
		n, err = unix.ProcessVMReadv(p.thread(), local, remote, 0)
	}
	switch {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
		// Seccomp filters of containers forbid the call more often than the file.
		if n, memErr := p.readMem(ranges); memErr == nil {
			p.noVM.Store(true)
			return n, nil
		}
		return 0, p.failed("read memory", err)
	case err != nil:
		return 0, p.failed(fmt.Sprintf("read %d bytes at %#x", len(ranges[0].Bytes), ranges[0].Addr), err)
	}
	return n, nil
}

// WriteAt writes memory; the offset is the address.
func (p *Process) WriteAt(b []byte, addr int64) (int, error) {
	if err := p.openMem(); err != nil {
		return 0, err
	}
	n, err := p.mem.WriteAt(b, addr)
	if err != nil {
		return n, p.failed(fmt.Sprintf("write %d bytes at %#x", len(b), addr), err)
	}
	return n, nil
}

// WriteRanges writes all ranges. Where only /proc/PID/mem works it takes a
// system call for each.
func (p *Process) WriteRanges(ranges []MemoryRange) error {
	for len(ranges) > 0 {
		batch := ranges[:min(len(ranges), maxRanges)]
		ranges = ranges[len(batch):]
		want := 0
		for _, r := range batch {
			want += len(r.Bytes)
		}
		if !p.noVM.Load() {
			local, remote := vectors(batch)
			if n, err := unix.ProcessVMWritev(p.thread(), local, remote, 0); err == nil && n == want {
				continue
			}
		}
		for _, r := range batch {
			if _, err := p.WriteAt(r.Bytes, int64(r.Addr)); err != nil {
				return err
			}
		}
	}
	return nil
}

func vectors(ranges []MemoryRange) (local []unix.Iovec, remote []unix.RemoteIovec) {
	local, remote = make([]unix.Iovec, len(ranges)), make([]unix.RemoteIovec, len(ranges))
	for i, r := range ranges {
		local[i].Base = unsafe.SliceData(r.Bytes)
		local[i].SetLen(len(r.Bytes))
		remote[i] = unix.RemoteIovec{Base: uintptr(r.Addr), Len: len(r.Bytes)}
	}
	return local, remote
}

// readMem is readv over /proc/PID/mem.
func (p *Process) readMem(ranges []MemoryRange) (int, error) {
	if err := p.openMem(); err != nil {
		return 0, err
	}
	total := 0
	for _, r := range ranges {
		n, err := p.mem.ReadAt(r.Bytes, int64(r.Addr))
		total += n
		if err != nil {
			if total > 0 {
				break
			}
			return 0, p.failed(fmt.Sprintf("read %d bytes at %#x", len(r.Bytes), r.Addr), err)
		}
	}
	return total, nil
}

func (p *Process) openMem() error {
	p.memOnce.Do(func() {
		if p.mem, p.memErr = p.open("mem", unix.O_RDWR); p.memErr != nil {
			p.mem, p.memErr = p.open("mem", unix.O_RDONLY)
		}
	})
	return p.memErr
}
