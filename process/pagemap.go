//go:build linux

package process

import (
	"encoding/binary"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file is about the entries of /proc/PID/pagemap (Documentation/admin-guide/mm/pagemap.rst), one for each page: an u64 in the
// order of the CPU.

// pagemapEntry is how many bytes one has.
const pagemapEntry = 8

// What is in an entry. The frame is shown to who has CAP_SYS_ADMIN, to others it is 0.
const (
	pageFrame     = 1<<55 - 1
	pageExclusive = 1 << 56 // nobody else has mapped it
	pageOfFile    = 1 << 61
	pageSwapped   = 1 << 62
	pagePresent   = 1 << 63
)

// isThere tells whether a page is in memory, or in swap.
func isThere(entry []byte) bool {
	return binary.NativeEndian.Uint64(entry)&(pagePresent|pageSwapped) != 0
}

// A pageState is what is known of a page without reading it.
type pageState uint8

const (
	zero   pageState = iota
	held             // something, perhaps zeros
	absent           // whatever its file has
)

// stateOf tells it by the entry of a page; named: behind the page is a file.
func stateOf(entry []byte, named bool) pageState {
	switch {
	case isThere(entry) && !isZeroPage(binary.NativeEndian.Uint64(entry)):
		return held
	case isThere(entry) || !named:
		return zero
	}
	return absent
}

// isZeroPage tells whether an entry is that of the kernel's page of zeros, which who reads memory that has never been written
// to is given: all who do have the same.
func isZeroPage(entry uint64) bool {
	const what = pagePresent | pageSwapped | pageOfFile | pageExclusive | pageFrame
	return entry&pageFrame != 0 && entry&what == zeroPage()
}

// zeroPage is its entry, 0 if it is not known.
var zeroPage = sync.OnceValue(func() uint64 {
	size := os.Getpagesize()
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return 0
	}
	defer func() { _ = unix.Munmap(memory) }()
	_ = unix.Madvise(memory, unix.MADV_NOHUGEPAGE)
	pagemap, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return 0
	}
	defer pagemap.Close()
	if memory[0] != 0 { // it is read
		return 0
	}
	var b [pagemapEntry]byte
	if _, err := pagemap.ReadAt(b[:], int64(uintptr(unsafe.Pointer(&memory[0])))/int64(size)*pagemapEntry); err != nil {
		return 0
	}
	entry := binary.NativeEndian.Uint64(b[:])
	if entry&(pagePresent|pageSwapped|pageOfFile|pageExclusive) != pagePresent { // a page of our own
		return 0
	}
	return entry & (pagePresent | pageFrame)
})
