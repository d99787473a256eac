//go:build linux

package process

// A stackPage is a page of a process's stack, by its number.
type stackPage struct {
	pid  int
	page uint64
}

// pageSize is that of the CPUs whose stacks are copied.
const pageSize = 4096

// touch makes a stack whose copy ended early ready to be copied farther the next
// time. The kernel copies in an interrupt, and so ends at the first page that was never used,
// such as there are in the middle of a large array. A page that is read from outside
// becomes the kernel's page of zeros there, which takes no memory and changes
// nothing for the process.
func (s *Sampler) touch(e *PerfRecord) {
	if e.Kind != EventSample || len(e.Registers) <= sampleSP || len(e.Stack) >= s.Stack {
		return
	}
	sp := e.Registers[sampleSP]
	end := sp + uint64(len(e.Stack))
	at := stackPage{e.PID, end / pageSize}
	if s.touched[at] {
		return
	}
	if s.touched == nil {
		s.touched = make(map[stackPage]bool)
	}
	s.touched[at] = true
	p, err := Open(e.PID)
	if err != nil {
		return // it ended
	}
	defer p.Close()
	var b [1]byte
	for ; end < sp+uint64(s.Stack); end += pageSize {
		if _, err := p.ReadAt(b[:], int64(end)); err != nil {
			return // here is the end of the stack
		}
	}
}
