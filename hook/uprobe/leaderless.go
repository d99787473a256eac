//go:build linux

package uprobe

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"footfall/process"
)

// A process lives on when its first thread has ended. The kernel then takes the process for one
// without memory, and puts no breakpoints there for probes that are limited to it, but
// does for one that is limited to another thread: and leaves them when that ends, too,
// as long as there are probes of the process.

// thread is one that has the process's memory.
func (s *ProbeSet) thread() int {
	if s.options.Thread == nil {
		return s.options.PID
	}
	return s.options.Thread()
}

// leaderless tells whether a probe is only in the process, and that has lost its first thread.
func (s *ProbeSet) leaderless(p Probe) bool {
	return !s.everywhere(p) && s.thread() != s.options.PID
}

// knowsGroups tells whether the kernel runs probes for all threads of a process whose first one
// has ended: since 6.13, as it compares groups of threads, not memory.
func knowsGroups() bool {
	var major, minor int
	_, _ = fmt.Sscanf(process.KernelRelease(), "%d.%d", &major, &minor)
	return major > 6 || major == 6 && minor >= 13
}

// maxHeld breakpoints can be held: the kernel takes out some ten a second.
const maxHeld = 100

// holdable returns the probes that can be set, and notes those that are too many.
func (s *ProbeSet) holdable(probes []Probe, skipped map[uint32]error) []Probe {
	if !s.leaderless(probes[0]) {
		return probes
	}
	n := min(len(probes), maxHeld-s.held)
	s.held += n
	for _, p := range probes[n:] {
		skipped[p.ID] = fmt.Errorf("the first thread of the process has ended, and of more than %d functions the kernel would be slow", maxHeld)
	}
	return probes[:n]
}

// hold has breakpoints set, at which nothing is run.
func (s *ProbeSet) hold(file *link.Executable, probes []Probe) error {
	nothing, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "footfall", Type: ebpf.Kprobe, License: ownLicense,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return err
	}
	defer nothing.Close() // the links have it
	thread := s.thread()
	var made []linked
	for _, p := range probes {
		l, err := file.Uprobe("", nothing, &link.UprobeOptions{Address: p.Offset, PID: thread})
		if err != nil {
			for _, l := range made {
				l.Close()
			}
			return err
		}
		made = append(made, linked{l, []uint32{p.ID}})
	}
	s.links = append(s.links, made...)
	return nil
}
