//go:build linux

package patch

import (
	"sync/atomic"
	"time"

	"footfall/process"
)

// The trampoline reads strings itself where that cannot fail: what the program has, which
// stays as long as it runs. For others it asks the kernel (process_vm_readv). A program
// that begins to filter its system calls may not allow that: then they are not read; nor where
// memory is the program's own to fill (userfaultfd): who does that would wait for itself.

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

// faultsInterval is how often it is looked for descriptors by which memory is filled: there may be many others.
const faultsInterval = 50 * time.Millisecond

// NoticeFilters notes that the process has begun to filter its system calls, or to fill its memory itself: strings are not
// read any more. Read does so; with Options.Newest it is to be called every few milliseconds.
func (s *Session) NoticeFilters() {
	if !s.options.Arguments || time.Since(s.filtersAt) < filtersInterval {
		return
	}
	s.filtersAt = time.Now()
	asks := !s.p.MoreFiltered()
	if asks && time.Since(s.faultsAt) >= faultsInterval {
		asks = !s.p.FillsMemory()
		s.faultsAt = time.Now()
	}
	if !asks {
		atomic.StoreUint32(&s.region.settings().unasked, 1)
	}
}
