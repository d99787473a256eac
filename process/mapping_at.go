//go:build linux

package process

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// procmapQuery is PROCMAP_QUERY of <linux/fs.h>, which Linux has since 6.11.
const procmapQuery = 0xc0686611

// A mapQuery is struct procmap_query.
type mapQuery struct {
	size, flags, addr                uint64
	start, end, access, page, offset uint64
	inode                            uint64
	major, minor, nameSize, idSize   uint32
	name, id                         uint64
}

// MappingAt returns where the mapping of the address begins and ends, and whether it can be read, as it
// is now; false: there is none. The kernel is asked for this one only: to read the
// whole memory map takes as long as a program may stand still.
func (h *Held) MappingAt(addr uint64) (m Mapping, found bool, err error) {
	if h.maps == nil && h.mapFile == nil {
		if h.mapFile, err = h.p.open("maps", unix.O_RDONLY); err != nil {
			return m, false, err
		}
	}
	if h.maps == nil {
		m, found, err = queryMapping(h.mapFile, addr)
		if err == nil {
			return m, found, nil
		}
		if h.maps, _, err = h.p.Maps(); err != nil {
			return m, false, err
		}
	}
	if at := h.maps.At(addr); at != nil {
		return *at, true, nil
	}
	return m, false, nil
}

func queryMapping(f *os.File, addr uint64) (m Mapping, found bool, err error) {
	q := mapQuery{addr: addr}
	q.size = uint64(unsafe.Sizeof(q))
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, f.Fd(), procmapQuery, uintptr(unsafe.Pointer(&q)))
	switch {
	case errno == 0:
		const readable, writable, executable = 1, 2, 4
		return Mapping{Start: q.start, End: q.end, Read: q.access&readable != 0, Write: q.access&writable != 0, Exec: q.access&executable != 0}, true, nil
	case errors.Is(errno, unix.ENOENT):
		return m, false, nil
	}
	return m, false, errno
}
