//go:build linux && (amd64 || arm64)

package process

import (
	"fmt"
	"os"
	"strings"
)

// StackTops returns those of all threads that run in the memory of the process.
func (h *Held) StackTops() ([]StackTop, error) {
	var tops []StackTop
	for tid := range h.s.threads {
		regs, err := h.registers(tid)
		if err != nil {
			return nil, err
		}
		tops = append(tops, StackTop{Thread: tid, SP: *regs.sp(), PC: *regs.pc()})
	}
	for tid := range h.s.waiting {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", tid))
		if err != nil {
			return nil, h.p.failed("find the stack of a thread that waits in vfork", err)
		}
		// number, six arguments, stack pointer, program counter
		top := StackTop{Thread: tid, Waits: true}
		field := strings.Fields(string(b))
		if len(field) == 9 {
			fmt.Sscanf(field[7]+" "+field[8], "0x%x 0x%x", &top.SP, &top.PC)
		}
		tops = append(tops, top)
	}
	return tops, nil
}
