//go:build linux

package process

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pagesOf is memory of ours of so many pages of which none has been touched, and its address.
func pagesOf(t *testing.T, pages int) (memory []byte, at uint64) {
	memory, err := unix.Mmap(-1, 0, pages*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(memory) })
	_ = unix.Madvise(memory, unix.MADV_NOHUGEPAGE)
	return memory, uint64(uintptr(unsafe.Pointer(&memory[0])))
}

// ourselves is the process that the test runs in.
func ourselves(t *testing.T) *Process {
	p, err := Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// entriesOf are those of pages of ours.
func entriesOf(t *testing.T, at uint64, pages int) []byte {
	pagemap, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Fatal(err)
	}
	defer pagemap.Close()
	b := make([]byte, pagemapEntry*pages)
	if _, err := pagemap.ReadAt(b, int64(at)/int64(os.Getpagesize())*pagemapEntry); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestReadTouched: what a program has not touched is zero, and is not made by reading it.
func TestReadTouched(t *testing.T) {
	const pages = 5
	size := os.Getpagesize()
	memory, at := pagesOf(t, pages)
	memory[size], memory[3*size+7] = 1, 2
	p := ourselves(t)
	there := func() (there [pages]bool) {
		b := entriesOf(t, at, pages)
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

// TestZeroPages: pages that have only been read hold nothing, and are not visited.
func TestZeroPages(t *testing.T) {
	const pages = 4
	size := uint64(os.Getpagesize())
	memory, at := pagesOf(t, pages)
	memory[size] = 1
	memory[2*size] = 0 // written to: it may hold anything
	if memory[0] != 0 {
		t.Fatal("memory of the kernel's is not zero")
	}
	first := entriesOf(t, at, 1)
	if !isThere(first) {
		t.Fatal("it is not there though it was read")
	}
	want := []uint64{1, 2}
	if binary.NativeEndian.Uint64(first)&pageFrame == 0 { // the kernel does not show us what it is
		want = []uint64{0, 1, 2}
	}
	var visited []uint64
	if err := ourselves(t).VisitTouched([]AddressRange{{at, at + pages*size}}, at, func(_ int, addr uint64, b []byte) {
		for ; len(b) > 0; addr, b = addr+size, b[size:] {
			visited = append(visited, (addr-at)/size)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(visited, want) {
		t.Errorf("visited pages %d, want %d", visited, want)
	}
}

// TestAwaitTouched: what is not there of a file is waited for, and what has never been touched is not made meanwhile.
func TestAwaitTouched(t *testing.T) {
	const pages = 3
	size := uint64(os.Getpagesize())
	memory, at := pagesOf(t, pages)
	memory[2*size] = 3
	p := ourselves(t)
	b := bytes.Repeat([]byte{9}, int(pages*size))
	ranges := []MemoryRange{{at, b}}
	if err := p.ReadTouched(ranges, at+size); !errors.Is(err, ErrAbsent) {
		t.Fatalf("%v, want ErrAbsent", err)
	}
	if err := p.AwaitTouched(ranges, at+size); err != nil {
		t.Fatal(err)
	}
	entries := entriesOf(t, at, pages)
	if !isThere(entries) || isThere(entries[pagemapEntry:]) {
		t.Error("the first page was to be read, the second was not")
	}
	if !bytes.Equal(b, memory) {
		t.Error("other bytes than there are")
	}
}
