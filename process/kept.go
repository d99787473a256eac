//go:build linux

package process

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// This file is about files that are kept open of a process that is looked into at its beginning, soon after that at its end, and stands
// still both times. They tell of the memory that it had when each was opened: of nothing, if it has become another program by exec.

// A keptFile is one of these files.
type keptFile int

const (
	keptMaps keptFile = iota
	keptPagemap
	keptMem
)

var keptNames = [...]string{"maps", "pagemap", "mem"}

// maxKeepers is of how many processes they are kept at a time. keepers are those who do.
const maxKeepers = 128

var keepers atomic.Int32

// whileKept is whileOpen for a file of which do does not move the offset.
func (p *Process) whileKept(file keptFile, do func(fd int) error) error {
	if !p.keeps.Load() || p.living.Load() != 0 {
		return p.whileOpen(keptNames[file], do)
	}
	kept := &p.kept[file]
	if fd := kept.Load(); fd != 0 {
		return do(int(fd) - 1)
	}
	fd, err := p.openAt(keptNames[file], unix.O_RDONLY)
	if err != nil {
		return p.whileOpen(keptNames[file], do)
	}
	if !kept.CompareAndSwap(0, int32(fd)+1) { // somebody else was faster
		defer unix.Close(fd)
	}
	return do(fd)
}

// closeKept closes them.
func (p *Process) closeKept() {
	if !p.keeps.Swap(false) {
		return
	}
	keepers.Add(-1)
	for i := range p.kept {
		if fd := p.kept[i].Swap(0); fd != 0 {
			unix.Close(int(fd) - 1)
		}
	}
}
