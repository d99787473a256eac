package input

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// largePage is the size of a large page on most machines.
const largePage = 2 << 20

// inLargePages asks the kernel to give memory that is about to be filled in large pages, where it
// fills some: of small ones it clears and accounts for each by itself, which takes as long
// as reading what comes there.
func inLargePages(b []byte) {
	if len(b) < 2*largePage {
		return
	}
	before := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) % largePage)
	if within := (len(b) - before) &^ (largePage - 1); within > 0 {
		_ = unix.Madvise(b[before:before+within], unix.MADV_HUGEPAGE) // as it was where there are none
	}
}
