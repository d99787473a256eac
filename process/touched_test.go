//go:build linux

package process

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestReadTouched: what a program has not touched is zero, and is not made by reading it.
func TestReadTouched(t *testing.T) {
	const pages = 5
	size := os.Getpagesize()
	memory, err := unix.Mmap(-1, 0, pages*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(memory) }()
	_ = unix.Madvise(memory, unix.MADV_NOHUGEPAGE)
	memory[size], memory[3*size+7] = 1, 2
	at := uint64(uintptr(unsafe.Pointer(&memory[0])))
	p, err := Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	there := func() (there [pages]bool) {
		pagemap, err := os.Open("/proc/self/pagemap")
		if err != nil {
			t.Fatal(err)
		}
		defer pagemap.Close()
		b := make([]byte, pagemapEntry*pages)
		if _, err := pagemap.ReadAt(b, int64(at)/int64(size)*pagemapEntry); err != nil {
			t.Fatal(err)
		}
		for i := range there {
			there[i] = isThere(b[i*pagemapEntry:])
		}
		return there
	}
	want := [pages]bool{1: true, 3: true}
	if got := there(); got != want {
		t.Fatalf("pages %v, want %v", got, want)
	}
	first, second := bytes.Repeat([]byte{9}, 3*size), bytes.Repeat([]byte{9}, size+10)
	ranges := []MemoryRange{{at + 8, first[:3*size-8]}, {at + uint64(3*size), second}}
	if err := p.ReadTouched(ranges, at); err != nil {
		t.Fatal(err)
	}
	if got := there(); got != want {
		t.Errorf("pages %v after reading, want %v", got, want)
	}
	// Of a file they might be anything.
	if err := p.ReadTouched(ranges[:1], at+uint64(size)); !errors.Is(err, ErrAbsent) {
		t.Errorf("%v, want ErrAbsent", err)
	}
	page := make([]byte, size)
	if err := p.ReadTouched([]MemoryRange{{at + uint64(size), page}}, at+pages*uint64(size)); err != nil || page[0] != 1 {
		t.Errorf("%v, %d", err, page[0])
	}
	if !bytes.Equal(ranges[0].Bytes, memory[8:3*size]) || !bytes.Equal(second, memory[3*size:4*size+10]) {
		t.Error("other bytes than there are")
	}
}
