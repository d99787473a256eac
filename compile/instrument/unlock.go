package instrument

import (
	"bytes"
	"encoding/binary"
)

// With [Locked] an object counts by
//
//	f0 48 ff 05 ....	lock incq counter(%rip)
//
// or, where r11 is free,
//
//	4c 8d 1d ....		leaq counter(%rip), %r11
//	f0 49 ff 03		lock incq (%r11)
//
// which is exact wherever it is linked to. In a program whose threads have copies of
// its counters (runtime/threads.h) the prefix f0 becomes another of the same length:
//
//	65 48 ff 05 ....	incq %gs:counter(%rip)
//
//	4c 8d 1d ....		leaq counter(%rip), %r11
//	65 49 ff 03		incq %gs:(%r11)
//
// The places follow from the table: the increment of a call ends at the call's address,
// that of an entry is the first of its counter within the function. The section
// footfall_locks has those of functions that are not in the table, as offsets from each word; 0
// says that the program has another use for gs. A place where something else is found stays as
// it is: a count is the sum of all that was counted in either way.
const (
	locksSection   = "footfall_locks"
	threadsSection = "footfall_threads"

	lockPrefix, gsPrefix = 0xf0, 0x65
)

// Unlock has the amd64 program in b, an ELF file, count in each thread's own copy of
// counters, and returns the number of changed increments: 0 if the program has no runtime for
// that, does not use it to make threads, or is no such file.
func Unlock(b []byte) int {
	p := readProgram(b)
	if p == nil || !p.makesThreads() {
		return 0
	}
	n := 0
	for _, s := range p.named(locksSection) {
		for at := 0; at+4 <= len(s.b); at += 4 {
			offset := int32(binary.LittleEndian.Uint32(s.b[at:]))
			if offset == 0 {
				return 0
			}
		}
	}
	for _, s := range p.named(tableSection) {
		n += p.unlockTable(s)
	}
	for _, s := range p.named(locksSection) {
		for at := 0; at+4 <= len(s.b); at += 4 {
			place := p.at(s.word(at), 4)
			if len(place) >= 4 && place[0] == lockPrefix && place[1] == 0x48 && place[2] == 0xff {
				place[0] = gsPrefix
				n++
			}
		}
	}
	return n
}

// makesThreads tells whether threads are made by the runtime's function: another may have
// been linked in its place. The section has both, as offsets from the words.
func (p *elfProgram) makesThreads() bool {
	list := p.named(threadsSection)
	for _, s := range list {
		for at := 0; at+8 <= len(s.b); at += 8 {
			if s.word(at) != s.word(at+4) {
				return false
			}
		}
	}
	return len(list) > 0
}

// unlockTable changes the increments of functions, and says so in their blocks.
func (p *elfProgram) unlockTable(s elfSection) int {
	n := 0
	for at := 0; at+blockHead <= len(s.b); {
		word := func(i int) int { return int(binary.LittleEndian.Uint32(s.b[at+i:])) }
		size, aliases, calls := word(0), word(28), word(32)
		if size < blockHead || size > len(s.b)-at || aliases > size/4 || calls > size/blockCall || blockHead+4*aliases+blockCall*calls > size {
			return n
		}
		if flags := word(4); Update(flags&15) == Locked {
			s.b[at+4] = s.b[at+4]&^15 | byte(Thread)
			counter, code := s.word(at+8), s.word(at+12)
			if flags&flagPart == 0 {
				n += p.unlockEntry(code, word(20), counter)
			}
			for i := range calls {
				c := blockHead + 4*aliases + blockCall*i
				k, end := word(c+4), code+uint64(word(c+8))
				if kind := callKind(word(c) & 0xff); kind == callIndirect || kind == callIndirectTail {
					k++
				}
				n += p.unlockBefore(end, counter+8*uint64(k))
			}
		}
		at += size
	}
	return n
}

// unlockEntry changes the increment of a counter in a function of size bytes.
func (p *elfProgram) unlockEntry(code uint64, size int, counter uint64) int {
	b := p.at(code, 8)
	b = b[:min(len(b), size)]
	for at := range b {
		if b[at] == lockPrefix && p.unlock(code+uint64(at), counter) == 1 {
			return 1
		}
	}
	return 0
}

// unlockBefore changes the increment of a counter that ends at an address.
func (p *elfProgram) unlockBefore(end, counter uint64) int {
	if n := p.unlock(end-bytesOfIncrement, counter); n > 0 {
		return n
	}
	return p.unlock(end-uint64(len(lockedAddressed)), counter)
}

// Increments as they are linked; a distance of 4 bytes follows the first and the second.
var (
	lockedIncrement  = []byte{lockPrefix, 0x48, 0xff, 0x05}
	addressInR11     = []byte{0x4c, 0x8d, 0x1d}
	lockedAddressed  = []byte{lockPrefix, 0x49, 0xff, 0x03}
	bytesOfIncrement = uint64(len(lockedIncrement)) + 4
	bytesOfAddress   = uint64(len(addressInR11)) + 4
)

// unlock changes the increment of a counter whose prefix is at an address, if that is one.
func (p *elfProgram) unlock(place, counter uint64) int {
	b := p.at(place, len(lockedAddressed))
	switch {
	case bytes.HasPrefix(b, lockedIncrement) && p.refers(place, lockedIncrement, counter):
	case bytes.HasPrefix(b, lockedAddressed) && p.refers(place-bytesOfAddress, addressInR11, counter):
	default:
		return 0
	}
	b[0] = gsPrefix
	return 1
}

// refers tells whether at an address there is an instruction of some bytes and a distance, which is that of
// the counter from its end.
func (p *elfProgram) refers(place uint64, instruction []byte, counter uint64) bool {
	size := len(instruction) + 4
	b := p.at(place, size)
	return bytes.HasPrefix(b, instruction) &&
		place+uint64(size)+uint64(int64(int32(binary.LittleEndian.Uint32(b[size-4:])))) == counter
}

// An elfProgram is the bytes of an amd64 program. Package debug/elf is initialised too late
// for package early.
type elfProgram struct {
	sections []elfSection
}

// An elfSection is one that is in the program's memory and in its file.
type elfSection struct {
	name    string
	address uint64
	b       []byte
}

// word returns the address that the word at an offset has, relative to its own.
func (s elfSection) word(at int) uint64 {
	return s.address + uint64(at) + uint64(int64(int32(binary.LittleEndian.Uint32(s.b[at:]))))
}

// readProgram returns nil for what is no amd64 program.
func readProgram(b []byte) *elfProgram {
	if len(b) < 64 || !bytes.HasPrefix(b, []byte("\x7fELF\x02\x01")) || binary.LittleEndian.Uint16(b[18:]) != 62 { // EM_X86_64
		return nil
	}
	from := func(at, size uint64) []byte {
		if at > uint64(len(b)) || size > uint64(len(b))-at {
			return nil
		}
		return b[at : at+size : at+size]
	}
	const header = 64
	table, count := binary.LittleEndian.Uint64(b[0x28:]), uint64(binary.LittleEndian.Uint16(b[0x3c:]))
	headers := from(table, count*header)
	field := func(i uint64, at int) uint64 { return binary.LittleEndian.Uint64(headers[i*header+uint64(at):]) }
	last := uint64(binary.LittleEndian.Uint16(b[0x3e:]))
	if binary.LittleEndian.Uint16(b[0x3a:]) != header || headers == nil || last >= count {
		return nil
	}
	names := from(field(last, 0x18), field(last, 0x20))
	p := &elfProgram{}
	for i := range count {
		kind, name := binary.LittleEndian.Uint32(headers[i*header+4:]), uint64(uint32(field(i, 0)))
		if kind != 1 || field(i, 8)&2 == 0 || name >= uint64(len(names)) { // SHT_PROGBITS, SHF_ALLOC
			continue
		}
		text, _, _ := bytes.Cut(names[name:], []byte{0})
		p.sections = append(p.sections, elfSection{string(text), field(i, 0x10), from(field(i, 0x18), field(i, 0x20))})
	}
	return p
}

func (p *elfProgram) named(name string) []elfSection {
	var list []elfSection
	for _, s := range p.sections {
		if s.name == name {
			list = append(list, s)
		}
	}
	return list
}

// at returns what is at an address, up to the end of its section; nil if that is less
// than size.
func (p *elfProgram) at(address uint64, size int) []byte {
	for _, s := range p.sections {
		if offset := address - s.address; address >= s.address && offset < uint64(len(s.b)) && len(s.b)-int(offset) >= size {
			return s.b[offset:]
		}
	}
	return nil
}
