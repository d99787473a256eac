//go:build linux

package patch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"footfall/process"
)

// Where return addresses are replaced, each call returns to a return stub: one for each
// function and each address that it was called from, which the trampoline takes as they are
// needed (trampoline/amd64.S, find_return). Nothing depends on where the stack is, so that
// a stack may be copied away, and back, and to another place, and others may be where it was.
//
//	0          places of the return stubs, written by the program   private
//	size       the return stubs
//	2 * size   unwind table, and which unwinder knows it u64
//
// A return address may be anywhere, on a stack that was copied away too, so that all this stays,
// even if the footfall that mapped it was killed; the next one finds it by the name of the
// file and uses it again. Of the places only those take memory that were used.
type returnStubs struct {
	addr, size uint64 // of the stubs
	unwinder   uint64 // that was told about them
}

const (
	returnsName    = process.MemoryPrefix + "returns"
	returnStubSize = 32
	returnsPage    = pageSize // the last one
	returnsToldAt  = returnsPage - 8
	// For each function so many are mapped, as most are called from few places.
	returnsEach  = 32
	leastReturns = 1 << 10
	mostReturns  = 1 << 15
)

// putReturns tells the trampoline which there are.
func (c *cpu) putReturns(code []byte, all []returnStubs) {
	word := binary.LittleEndian.PutUint64
	word(code[rangeCount:], uint64(len(all)))
	for i, r := range all {
		word(code[rangesAt+16*i:], r.addr)
		word(code[rangesAt+16*i+8:], r.size)
	}
	if n := len(all); n > 0 {
		word(code[returnsPlace:], all[n-1].addr)
		word(code[returnsSizePlace:], all[n-1].size)
	}
}

// findReturns finds those that are in the process, the largest last; and what a footfall has
// left of some that was killed as it mapped them.
func findReturns(maps process.Maps) (all []returnStubs, broken []process.Mapping) {
	for n := 0; n < len(maps); n++ {
		m := maps[n]
		if m.Path != "/memfd:"+returnsName {
			continue
		}
		size := m.End - m.Start
		if n+1 < len(maps) && m.Write && maps[n+1].Start == m.End && maps[n+1].Path == m.Path && !maps[n+1].Write && maps[n+1].End-m.End == size+returnsPage {
			all = append(all, returnStubs{addr: m.End, size: size})
			n++
			continue
		}
		broken = append(broken, m)
	}
	for i, r := range all {
		if last := &all[len(all)-1]; r.size > last.size {
			all[i], *last = *last, r
		}
	}
	return all, broken
}

// readReturns notes those that are in the process.
func (s *Session) readReturns() error {
	maps, _, err := s.p.Maps()
	if err != nil {
		return err
	}
	s.returns, _ = findReturns(maps)
	for i := range s.returns {
		r := &s.returns[i]
		var told [8]byte
		if _, err := s.p.ReadAt(told[:], int64(r.told())); err != nil {
			return err
		}
		r.unwinder = binary.LittleEndian.Uint64(told[:])
	}
	return nil
}

func (r *returnStubs) table() uint64 { return r.addr + r.size }
func (r *returnStubs) told() uint64  { return r.table() + returnsToldAt }

// lacksReturns tells whether return stubs have yet to be mapped.
func (s *Session) lacksReturns() bool {
	if native.returnStub == nil || !s.exits() || len(s.returns) == maxIslands {
		return false
	}
	n := len(s.returns)
	return n == 0 || s.returns[n-1].size < s.returnsWanted()
}

// returnsWanted is for how many bytes of them there is to be room.
func (s *Session) returnsWanted() uint64 {
	n := leastReturns
	for n < returnsEach*s.replaced && n < mostReturns {
		n *= 2
	}
	return uint64(n * returnStubSize)
}

// newReturns maps return stubs. They are complete as soon as the places can be written to.
func (s *Session) newReturns(h *process.Held) error {
	size := s.returnsWanted()
	all := 2*size + returnsPage
	err := h.WithFile(returnsName, int64(all), func(fd uint64, f *os.File) error {
		stub := native.returnStub(size)
		if _, err := f.WriteAt(bytes.Repeat(stub, int(size)/len(stub)), int64(size)); err != nil {
			return err
		}
		at, err := h.Map(0, all, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE, fd, 0)
		if err != nil {
			return err
		}
		if _, err := h.Map(at, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED, fd, 0); err != nil {
			return errors.Join(err, h.Unmap(at, all))
		}
		s.returns = append(s.returns, returnStubs{addr: at + size, size: size})
		return nil
	})
	if err != nil {
		return fmt.Errorf("map memory for exits: %w", err)
	}
	return nil
}

// returnStubAMD64 encodes what is drawn in trampoline/amd64.S. Its place is the size of all of
// them in front of it, so that they are all the same.
func returnStubAMD64(size uint64) []byte {
	const (
		address, resume, id, exit = 0, 8, 16, 24
		call, push                = 0x15, 0x35
	)
	var b []byte
	by := func(modrm byte, field int) {
		b = append(b, 0xff, modrm)
		b = binary.LittleEndian.AppendUint32(b, uint32(int32(field)-int32(size)-int32(len(b)+4)))
	}
	by(call, resume)
	by(push, address)
	by(push, id)
	by(call, exit)
	b = append(b, 0x48, 0x8d, 0x64, 0x24, 0x08) // lea 8(%rsp),%rsp
	b = append(b, 0xc3)                         // ret
	return append(b, bytes.Repeat([]byte{0xcc}, returnStubSize-len(b))...)
}

// NoReturns returns how many calls there were whose exits are not seen because there was
// no return stub for them.
func (s *Session) NoReturns() uint64 {
	if s.region == nil {
		return 0
	}
	return s.counter(&s.region.settings().noReturn)
}
