package instrument

import (
	"encoding/binary"
	"slices"
	"strings"
)

// A program for 386 has one pair of counters for all threads, so it counts by lock, with
// [Locked] as with [Atomic]:
//
//	50			pushl %eax
//	e8 00 00 00 00		call 1f
//	58		     1:	popl %eax
//	f0 83 80 .... 01	lock addl $1, counter-1b(%eax)
//	f0 83 90 .... 00	lock adcl $0, counter+4-1b(%eax)
//	58			popl %eax
//
// Where there is one thread only, both prefixes become those of the segment that eax is for anyway,
// 3e. That is exact with signals, too: each of the two adds by one instruction, and
// the carry between them is in flags that a handler gives back.
//
// A program has one thread where nothing in it names what makes a second one, and
// no library is there that might. (glibc's static programs all have dlopen.) Threads by a bare system call, and those of libraries that are put in
// from outside (LD_PRELOAD), are not seen; they matter if they call the program's functions.

// aloneIncrement is the increment, with 0 in the place of distances.
var aloneIncrement = []byte{
	0x50, 0xe8, 0, 0, 0, 0, 0x58, lockPrefix, 0x83, 0x80, 0, 0, 0, 0, 1, lockPrefix, 0x83, 0x90, 0, 0, 0, 0, 0, 0x58,
}

const (
	dsPrefix = 0x3e

	// Offsets in the increment: of what the address in eax is of, the prefixes, and the distances.
	aloneBase                     = 6
	aloneFirst, aloneSecond       = 7, 15
	aloneDistance, aloneDistance4 = 10, 18
)

// unlockAlone has a program for 386 that provably has one thread only count without lock.
func (p *elfProgram) unlockAlone() int {
	if !p.hasOneThread() {
		return 0
	}
	n := 0
	for _, s := range p.named(tableSection) {
		n += p.unlockTable(s, Single)
	}
	for _, s := range p.named(locksSection) {
		for at := 0; at+4 <= len(s.b); at += 4 {
			if place := p.at(uint64(uint32(s.word(at))), 2); len(place) >= 2 && place[0] == lockPrefix && place[1] == 0x83 {
				place[0] = dsPrefix
				n++
			}
		}
	}
	return n
}

// alone changes the increment of a counter at an address, if that is one.
func (p *elfProgram) alone(place, counter uint64) bool {
	place = uint64(uint32(place))
	b := p.at(place, len(aloneIncrement))
	if b == nil {
		return false
	}
	b = b[:len(aloneIncrement)]
	distance := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	want := uint32(counter) - uint32(place) - aloneBase
	if distance(aloneDistance) != want || distance(aloneDistance4) != want+4 {
		return false
	}
	for i, c := range aloneIncrement {
		within := func(at int) bool { return i >= at && i < at+4 }
		if b[i] != c && !within(aloneDistance) && !within(aloneDistance4) {
			return false
		}
	}
	b[aloneFirst], b[aloneSecond] = dsPrefix, dsPrefix
	return true
}

// secondThreads are the functions by which a program has a second thread, or code that might make one.
var secondThreads = map[string]bool{
	"pthread_create": true, "__pthread_create": true, "__pthread_create_2_1": true, "thrd_create": true, "clone": true, "clone3": true,
	"timer_create": true, "mq_notify": true, "getaddrinfo_a": true, // SIGEV_THREAD
	"aio_read": true, "aio_read64": true, "aio_write": true, "aio_write64": true, "aio_fsync": true, "aio_fsync64": true,
	"lio_listio": true, "lio_listio64": true,
	"dlopen": true, "dlmopen": true, "__libc_dlopen_mode": true,
}

// quietLibraries make no thread but by those functions, which a program then names.
var quietLibraries = []string{"libc.so.", "libc.musl-", "libm.so.", "libgcc_s.so.", "libstdc++.so.", "libc++.so.", "libc++abi.so.", "libdl.so.", "ld-linux", "ld-musl"}

// hasOneThread tells whether it is sure that the program has one thread.
func (p *elfProgram) hasOneThread() bool {
	libraries, known := 0, false
	for i, s := range p.sections {
		switch s.kind {
		case sectionDynamic:
			for at := 0; at+8 <= len(s.b); at += 8 {
				if binary.LittleEndian.Uint32(s.b[at:]) != 1 { // DT_NEEDED
					continue
				}
				libraries++
				name := p.text(s, binary.LittleEndian.Uint32(s.b[at+4:]))
				if !slices.ContainsFunc(quietLibraries, func(quiet string) bool { return strings.HasPrefix(name, quiet) }) {
					return false
				}
			}
		case sectionSymbols, sectionDynsym:
			known = known || s.kind == sectionSymbols && len(s.b) > 0
			if p.namesSecondThread(p.sections[i]) {
				return false
			}
		}
	}
	return known || libraries > 0 // else a static program of which nothing is known
}

// namesSecondThread tells whether a table of symbols has one of those.
func (p *elfProgram) namesSecondThread(s elfSection) bool {
	const symbol = 16
	for at := 0; at+symbol <= len(s.b); at += symbol {
		name := p.text(s, binary.LittleEndian.Uint32(s.b[at:]))
		name, _, _ = strings.Cut(name, "@") // a version
		if secondThreads[name] || strings.HasPrefix(name, "_ZNSt6thread") {
			return true
		}
	}
	return false
}
