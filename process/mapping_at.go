//go:build linux

package process

import (
	"bytes"
	"encoding/binary"
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
	errno := q.ask(int(f.Fd()))
	switch {
	case errno == 0:
		const readable, writable, executable = 1, 2, 4
		return Mapping{Start: q.start, End: q.end, Read: q.access&readable != 0, Write: q.access&writable != 0, Exec: q.access&executable != 0}, true, nil
	case errors.Is(errno, unix.ENOENT):
		return m, false, nil
	}
	return m, false, errno
}

// ask asks /proc/PID/maps.
func (q *mapQuery) ask(maps int) unix.Errno {
	q.size = uint64(unsafe.Sizeof(*q))
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(maps), procmapQuery, uintptr(unsafe.Pointer(q)))
	return errno
}

// MappedFilesKey tells which parts of which files are mapped where: it is the same as long as nothing of that has changed, and
// in a child that has just been forked. With code only what can be executed counts, as it does for [Process.Images]. The kernel is
// asked, if it can be, for these mappings only: to write all as text takes it ten times as long.
func (p *Process) MappedFilesKey(code bool) (key []byte, err error) {
	opened := false
	err = p.whileKept(keptMaps, func(maps int) error {
		opened = true
		which := uint64(0x10 | 0x20) // PROCMAP_QUERY_COVERING_OR_NEXT_VMA, PROCMAP_QUERY_FILE_BACKED_VMA
		if code {
			which |= 0x04 // PROCMAP_QUERY_VMA_EXECUTABLE
		}
		key = make([]byte, 0, 512)
		for addr := uint64(0); ; {
			q := mapQuery{flags: which, addr: addr}
			switch errno := q.ask(maps); {
			case errno == unix.ENOENT:
				return nil
			case errno != 0:
				return errno
			}
			for _, x := range [...]uint64{q.start, q.end, q.access, q.offset, q.inode, uint64(q.major)<<32 | uint64(q.minor)} {
				key = binary.NativeEndian.AppendUint64(key, x)
			}
			addr = q.end
		}
	})
	if err == nil && len(key) > 0 || err != nil && !opened {
		return key, err
	}
	text, err := p.MapText() // a kernel that cannot be asked, or a thread that has ended before others
	if err != nil {
		return nil, err
	}
	return mappedFilesIn(text, code), nil
}

// mappedFilesIn is MappedFilesKey of the whole memory map, as text.
func mappedFilesIn(text []byte, code bool) []byte {
	key := make([]byte, 0, len(text))
	for line := range bytes.Lines(text) {
		_, access, _ := bytes.Cut(line, []byte(" ")) // "r-xp ..."
		if bytes.IndexByte(line, '/') >= 0 && (!code || len(access) > 2 && access[2] == 'x') {
			key = append(key, line...)
		}
	}
	return key
}
