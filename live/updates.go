//go:build linux

package live

import (
	"cmp"
	"debug/elf"
	encoding "encoding/binary"
	"slices"

	"golang.org/x/arch/x86/x86asm"

	"footfall/binary"
	"footfall/formats/gcov"
	"footfall/formats/llvm"
)

// Updates are the places in a program's code that count, as far as they can be
// recognized: on amd64, where counters are addressed relative to the
// instruction. They tell how good counts can be while the program runs.
type Updates struct {
	Atomic int // instructions with a lock
	Plain  int // others: threads lose counts, a hard reset may be undone
	// Held are loops that keep a counter in a register: it is written when the
	// loop ends, until then a reader sees what it was before.
	Held int
	// HeldIn are the recorded names of the objects with such loops, most first.
	HeldIn []string
}

// maxText is the largest code of an image that is searched.
const maxText = 256 << 20

// Updates searches the code of all images with counters.
func (p *CountedProcess) Updates() (*Updates, error) {
	maps, _, err := p.proc.Maps()
	if err != nil {
		return nil, err
	}
	all := new(Updates)
	held := make(map[string]int)
	for _, mapped := range p.proc.Images(maps) {
		i := slices.IndexFunc(p.images, func(im *image) bool { return im.key == mapped.Key() })
		if i < 0 || len(p.images[i].units) == 0 && p.images[i].profile == nil || p.images[i].code.machine != elf.EM_X86_64 {
			continue
		}
		s := newUpdateSearch(p.images[i])
		for _, m := range mapped.Parts {
			if !m.Exec || m.End-m.Start > maxText {
				continue
			}
			text := make([]byte, m.End-m.Start)
			n, _ := p.proc.ReadAt(text, int64(m.Start))
			s.text(text[:n], m.Start)
		}
		all.Atomic += s.atomic
		all.Plain += s.plain
		for u, n := range s.held {
			all.Held += n
			held[u.name] += n
		}
	}
	for name := range held {
		all.HeldIn = append(all.HeldIn, name)
	}
	slices.SortFunc(all.HeldIn, func(a, b string) int { return cmp.Or(held[b]-held[a], cmp.Compare(a, b)) })
	return all, nil
}

// An updateSearch looks for instructions that use the counters of an image.
type updateSearch struct {
	counters      []counterRange // by address
	atomic, plain int
	held          map[*unit]int
	loaded        map[uint64]int // by counter: where the instruction after its last load is
}

type counterRange struct {
	start, end uint64
	unit       *unit
}

func newUpdateSearch(im *image) *updateSearch {
	s := &updateSearch{held: make(map[*unit]int)}
	for _, u := range im.units {
		for i := range u.funcs {
			for _, a := range u.funcs[i].arrays {
				if a.kind == gcov.KindArcs && a.length > 0 {
					s.counters = append(s.counters, counterRange{a.addr, a.addr + uint64(8*a.length), u})
				}
			}
		}
	}
	if p := im.profile; p != nil && im.profErr == nil && p.raw&llvm.FlagSingleBytes == 0 {
		s.counters = append(s.counters, counterRange{p.counters.addr, p.counters.addr + p.counters.size, &unit{name: im.path}})
	}
	slices.SortFunc(s.counters, func(a, b counterRange) int { return cmp.Compare(a.start, b.start) })
	return s
}

// of returns the unit whose counter is at addr, nil for none.
func (s *updateSearch) of(addr uint64) *unit {
	i, found := slices.BinarySearchFunc(s.counters, addr, func(c counterRange, addr uint64) int { return cmp.Compare(c.start, addr) })
	if !found {
		i--
	}
	if i < 0 || addr >= s.counters[i].end || (addr-s.counters[i].start)%8 != 0 {
		return nil
	}
	return s.counters[i].unit
}

// text searches code. Instructions of 64 bits that use memory relative to the
// one after them are
//
//	[f0 lock] 48+ REX  opcode  modrm 00 reg 101  distance i32  [immediate]
//
//	83 /0 ib  add $1, counter         8b /r  mov counter, register
//	ff /0     inc counter             89 /r  mov register, counter
//	01 /r     add register, counter   0f c1 /r  xadd register, counter
func (s *updateSearch) text(b []byte, base uint64) {
	if len(s.counters) == 0 {
		return
	}
	low, high := s.counters[0].start, s.counters[len(s.counters)-1].end
	s.loaded = make(map[uint64]int)
	for i := 0; i+8 <= len(b); i++ {
		if b[i]&0xf8 != 0x48 {
			continue
		}
		op, modrm, at, immediate := b[i+1], b[i+2], i+3, 0
		switch op {
		case 0x8b, 0x89, 0x01:
		case 0x83:
			immediate = 1
		case 0xff:
			if modrm&0x38 != 0 {
				continue
			}
		case 0x0f:
			if modrm != 0xc1 || i+9 > len(b) {
				continue
			}
			modrm, at = b[i+3], i+4
		default:
			continue
		}
		if modrm&0xc7 != 0x05 || op == 0x83 && modrm&0x38 != 0 {
			continue
		}
		end := at + 4 + immediate
		addr := base + uint64(end) + uint64(int64(int32(encoding.LittleEndian.Uint32(b[at:]))))
		if addr < low || addr >= high {
			continue
		}
		if u := s.of(addr); u != nil {
			s.use(u, addr, b, i, end)
		}
	}
}

// use takes note of the instruction from start to end.
func (s *updateSearch) use(u *unit, addr uint64, b []byte, start, end int) {
	switch {
	case start > 0 && b[start-1] == 0xf0:
		s.atomic++
	case b[start+1] == 0x8b:
		s.loaded[addr] = end
	default:
		s.plain++
		if from, ok := s.loaded[addr]; ok && b[start+1] == 0x89 && loops(b[from:start]) {
			s.held[u]++
		}
		delete(s.loaded, addr)
	}
}

// maxLoop is the longest code between the load and the store of a counter that
// is looked at, in bytes.
const maxLoop = 1 << 14

// loops tells whether code jumps back within itself.
func loops(b []byte) bool {
	if len(b) > maxLoop {
		return false
	}
	for at := 0; at < len(b); {
		inst, err := binary.DecodeAMD64(b[at:])
		if err != nil {
			return false
		}
		at += inst.Len
		switch inst.Op {
		case x86asm.RET:
			return false // another function
		case x86asm.CALL:
			continue
		}
		if to, ok := inst.Args[0].(x86asm.Rel); ok && to < 0 && at+int(to) >= 0 {
			return true
		}
	}
	return false
}
