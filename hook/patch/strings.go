//go:build linux

package patch

import (
	"sync/atomic"
	"time"

	"footfall/process"
)

// The trampoline reads strings itself where that cannot fail: what the program has, which
// stays as long as it runs. For others it asks the kernel (process_vm_readv). A program
// that begins to filter its system calls may not allow that: then they are not read.

// noteReadable tells the trampoline of the memory of the program's file that can be read.
func (r *region) noteReadable(p *process.Process) {
	maps, _, err := p.Maps()
	if err != nil {
		return
	}
	n := 0
	set := r.settings()
	for _, i := range p.Images(maps) {
		if !i.IsProgram() {
			continue
		}
		for _, part := range i.Parts {
			if part.Read && n < len(set.readable) {
				set.readable[n] = [2]uint64{part.Start, part.End - part.Start}
				n++
			}
		}
	}
}

// filtersInterval is how often it is looked for filters.
const filtersInterval = 5 * time.Millisecond

// noticeFilters notes that the process has begun to filter its system calls.
func (s *Session) noticeFilters() {
	if !s.options.Arguments || time.Since(s.filtersAt) < filtersInterval {
		return
	}
	s.filtersAt = time.Now()
	if s.p.MoreFiltered() {
		atomic.StoreUint32(&s.region.settings().unasked, 1)
	}
}
