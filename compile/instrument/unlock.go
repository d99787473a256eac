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

// Unlock has the program in b, an ELF file, count without locks, and returns the number of changed
// increments. One for amd64 counts in each thread's own copy of counters: 0 if it has no runtime for
// that, or does not use it to make threads. For 386 see [elfProgram.unlockAlone].
func Unlock(b []byte) int {
	p := readProgram(b)
	switch {
	case p == nil:
		return 0
	case p.cpu == i386:
		return p.unlockAlone()
	case !p.makesThreads():
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
		n += p.unlockTable(s, Thread)
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

// unlockTable changes the increments of functions, and says in their blocks to what mode.
func (p *elfProgram) unlockTable(s elfSection, to ProfileUpdate) int {
	n := 0
	for at := 0; at+blockHead <= len(s.b); {
		word := func(i int) int { return int(binary.LittleEndian.Uint32(s.b[at+i:])) }
		size, aliases, calls := word(0), word(28), word(32)
		if size < blockHead || size > len(s.b)-at || aliases > size/4 || calls > size/blockCall || blockHead+4*aliases+blockCall*calls > size {
			return n
		}
		if flags := word(4); ProfileUpdate(flags&15) == Locked {
			s.b[at+4] = s.b[at+4]&^15 | byte(to)
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
	if p.cpu == i386 {
		for at := range b {
			if b[at] == aloneIncrement[0] && p.alone(code+uint64(at), counter) {
				return 1
			}
		}
		return 0
	}
	for at := range b {
		if b[at] == lockPrefix && p.unlock(code+uint64(at), counter) == 1 {
			return 1
		}
	}
	return 0
}

// unlockBefore changes the increment of a counter that ends at an address.
func (p *elfProgram) unlockBefore(end, counter uint64) int {
	if p.cpu == i386 {
		if p.alone(end-uint64(len(aloneIncrement)), counter) {
			return 1
		}
		return 0
	}
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
