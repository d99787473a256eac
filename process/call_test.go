//go:build linux && (amd64 || arm64)

package process

import (
	"debug/elf"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestRuntimeIsWithin: a program is as static as it was when memory of ours is in it.
func TestRuntimeIsWithin(t *testing.T) {
	static := Maps{{Path: "/srv/program"}, {Path: "/memfd:" + MemoryPrefix + "code (deleted)"}, {Path: "[vdso]"}}
	dynamic := append(Maps{{Path: "/usr/lib/x86_64-linux-gnu/libc.so.6"}}, static...)
	if !runtimeIsWithin(static) || runtimeIsWithin(dynamic) {
		t.Errorf("%v, %v; want true, false", runtimeIsWithin(static), runtimeIsWithin(dynamic))
	}
}

// TestStackMoves makes requests at each depth of a stack that grows, and so is moved, while the kernel answers: the answer
// is where it was asked for.
func TestStackMoves(t *testing.T) {
	p, _ := started(t, `
#include <stdio.h>
#include <unistd.h>
int main(void) { puts("ready"); fflush(stdout); for (;;) pause(); }
`)
	room := make([]byte, 1<<10)
	var deeper func(n int) uint64
	deeper = func(n int) uint64 {
		if n > 0 {
			return deeper(n - 1)
		}
		v := unix.Iovec{Base: &room[0], Len: uint64(len(room))}
		if ptrace(unix.PTRACE_GETREGSET, p.PID, uintptr(elf.NT_PRSTATUS), uintptr(unsafe.Pointer(&v))) != nil {
			return 0
		}
		return v.Len
	}
	err := p.WhileHeld(func(*Held) error {
		size := deeper(0)
		for n := range 4000 {
			if again := deeper(n); again != size {
				t.Errorf("at depth %d: %d bytes of registers, and %d before", n, again, size)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
