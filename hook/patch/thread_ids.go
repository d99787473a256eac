//go:build linux

package patch

import (
	"bytes"
	encoding "encoding/binary"
	"fmt"
	"slices"
	"strings"

	"footfall/process"
	"footfall/process/target"
)

// threadIDOffset finds where a thread has its own id, from its thread pointer on:
// in what libc keeps of it. At 0 is the low half of an address that identifies
// it too. lacking tells whether there is a thread without such a pointer.
func threadIDOffset(p *process.Process, h *process.Held, threads []process.ThreadStatus) (at uint64, lacking bool, err error) {
	var candidates []uint64
	first := true
	for _, t := range threads {
		base, err := h.ThreadPointer(t.ID)
		if err != nil {
			continue
		}
		if base == 0 {
			if lacking = true; !native.looksAtPointer {
				return 0, true, fmt.Errorf("process %d: its thread %d has no thread pointer, and this processor or kernel does not let programs see that (FSGSBASE): %w", p.PID, t.ID, ErrNotSupported)
			}
			continue
		}
		found := idsAt(p, base, uint32(t.OwnID))
		if first {
			candidates, first = found, false
			continue
		}
		candidates = slices.DeleteFunc(candidates, func(c uint64) bool { return !slices.Contains(found, c) })
	}
	if first {
		return 0, true, fmt.Errorf("process %d: no thread has a thread pointer, by which threads are told apart: %w", p.PID, ErrNotSupported)
	}
	if len(candidates) == 0 {
		return 0, lacking, nil
	}
	for _, known := range native.idPlaces {
		if slices.Contains(candidates, known) {
			return known, lacking, nil
		}
	}
	return candidates[0], lacking, nil
}

// makesThreads tells whether one of the images makes threads itself, which may then have
// no thread pointer.
func makesThreads(sites []*EntrySite) bool {
	looked := make(map[*target.Image]bool)
	for _, site := range sites {
		if i := site.Image; i != nil && !looked[i] {
			if looked[i] = true; i.File.Imports("clone") || i.IsStatic() {
				return true
			}
		}
	}
	return false
}

// clonesItself tells whether code outside of the C library makes threads by the system call
// itself, as far as its instructions say the number: those may have no thread pointer either.
func clonesItself(p *process.Process) bool {
	maps, _, err := p.Maps()
	if err != nil {
		return true
	}
	const most, overlap = 1 << 20, 64
	b := make([]byte, most+overlap)
	for _, i := range p.Images(maps) {
		if process.IsOurs(i.Path) || isLibC(i.Path) {
			continue
		}
		for _, part := range i.Parts {
			for at := part.Start; part.Exec && at < part.End; at += most {
				n, _ := p.ReadAt(b[:min(uint64(len(b)), part.End-at)], int64(at))
				if clones(b[:n]) {
					return true
				}
			}
		}
	}
	return false
}

// isLibC knows the C library and its dynamic linker, who give each thread a pointer.
func isLibC(path string) bool {
	name := path[strings.LastIndexByte(path, '/')+1:]
	return strings.HasPrefix(name, "libc.so") || strings.HasPrefix(name, "libc-2.") || strings.HasPrefix(name, "libpthread") || strings.HasPrefix(name, "ld-")
}

// clones tells whether there is a system call shortly behind the number of clone or clone3.
func clones(code []byte) bool {
	const near = 64
	call := []byte{0x0f, 0x05} // syscall
	for from := 0; ; {
		i := bytes.Index(code[from:], call)
		if i < 0 {
			return false
		}
		before := code[max(0, from+i-near) : from+i]
		for _, load := range [][]byte{
			{0xb8, 56, 0, 0, 0}, {0xb8, 0xb3, 1, 0, 0}, // mov $56 or $435,%eax
			{0xc7, 0xc0, 56, 0, 0, 0}, {0xc7, 0xc0, 0xb3, 1, 0, 0}, // mov $56 or $435,%rax
			{0x6a, 56, 0x58}, {0x68, 0xb3, 1, 0, 0, 0x58}, // push and pop %rax
		} {
			if bytes.Contains(before, load) {
				return true
			}
		}
		from += i + len(call)
	}
}

func idsAt(p *process.Process, base uint64, id uint32) []uint64 {
	const page = 4096
	b := make([]byte, 2048)
	start := int64(base) + native.threadBlock
	if _, err := p.ReadAt(b, start); err != nil {
		// The first thread's may begin where memory does, or end where that ends.
		next := (start + page - 1) &^ (page - 1)
		low, high := b[:next-start], b[next-start:]
		if _, err := p.ReadAt(high, next); err == nil {
			b, start = high, next
		} else if _, err := p.ReadAt(low, start); err == nil {
			b = low
		} else {
			return nil
		}
	}
	var found []uint64
	for at := 0; at+4 <= len(b); at += 4 {
		if encoding.LittleEndian.Uint32(b[at:]) == id {
			found = append(found, uint64(start-int64(base)+int64(at)))
		}
	}
	return found
}
