//go:build linux

package compile

import (
	"os"
	"syscall"

	"footfall/compile/instrument"
)

// unlock has a program that was linked count in each thread's own counters. Where
// that cannot be, it stays as it is: exact, only slower.
func unlock(file string) {
	f, err := os.OpenFile(file, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return
	}
	instrument.Unlock(b)
	_ = syscall.Munmap(b)
}
