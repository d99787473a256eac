package profile

import (
	"bytes"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"

	"footfall/binary"
	"footfall/input"
	"footfall/process"
)

// A space is the code that a process has mapped.
type space struct {
	pid   int
	spans []span // by ascending address
}

type span struct {
	start, end, offset uint64
	path               string
}

// readMaps takes over what is mapped now.
func (s *space) readMaps() error {
	p, err := process.Open(s.pid)
	if err != nil {
		return err
	}
	defer p.Close()
	maps, _, err := p.Maps()
	if err != nil {
		return err
	}
	for _, m := range maps {
		if m.Exec {
			s.add(span{m.Start, m.End, m.Offset, m.Path})
		}
	}
	return nil
}

// add maps code, in place of what was there.
func (s *space) add(m span) {
	s.spans = slices.DeleteFunc(s.spans, func(old span) bool { return m.start <= old.start && old.end <= m.end })
	i := sort.Search(len(s.spans), func(i int) bool { return s.spans[i].start > m.start })
	s.spans = slices.Insert(s.spans, i, m)
}

func (s *space) at(addr uint64) *span {
	i := sort.Search(len(s.spans), func(i int) bool { return s.spans[i].start > addr })
	if i == 0 || addr >= s.spans[i-1].end {
		return nil
	}
	return &s.spans[i-1]
}

// openVDSO opens the code that the kernel gives every process, as it gave it to
// us.
func openVDSO() (*image, error) {
	self, err := process.Open(os.Getpid())
	if err != nil {
		return nil, err
	}
	defer self.Close()
	maps, _, err := self.Maps()
	if err != nil {
		return nil, err
	}
	for _, m := range maps {
		if m.Path == "[vdso]" {
			b := make([]byte, m.End-m.Start)
			if _, err := self.ReadAt(b, int64(m.Start)); err != nil {
				return nil, err
			}
			return newImage(m.Path, bytes.NewReader(b), true, input.Open)
		}
	}
	return &image{problem: "not mapped here"}, nil
}

// kernelFunctions reads the names of the kernel's functions; none if they are
// hidden from us (kernel.kptr_restrict).
func kernelFunctions() binary.Functions {
	b, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		return nil
	}
	var functions binary.Functions
	for line := range bytes.Lines(b) {
		// address type name [module]
		part := strings.Fields(string(line))
		if len(part) < 3 || !strings.ContainsAny(part[1], "tTwW") {
			continue
		}
		if addr, err := strconv.ParseUint(part[0], 16, 64); err == nil && addr != 0 {
			functions = append(functions, binary.FunctionSymbol{Name: part[2], Addr: addr})
		}
	}
	slices.SortStableFunc(functions, func(a, b binary.FunctionSymbol) int {
		if a.Addr < b.Addr {
			return -1
		}
		return int(min(a.Addr-b.Addr, 1))
	})
	return functions
}
