//go:build linux

package process

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"os/signal"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Programs ignore the signals that whoever starts them ignores: SIGPIPE below Python,
// what trap '' names in a shell. Go's runtime handles nearly all signals from its first
// moment on, and resets what it handles for programs that it starts. What it found it
// keeps for itself only, in runtime.fwdSig: we read it there.

// inheritIgnoredSignals makes footfall, and what it starts from now on, ignore the signals that
// it ignored when it was started. Signals that come from instructions, and those that
// Go's runtime needs, are left out.
func inheritIgnoredSignals() {
	for _, s := range ignoredAtStart() {
		signal.Ignore(s)
	}
}

var ignoredAtStart = sync.OnceValue(func() (ignored []unix.Signal) {
	const count = 65 // of them, with 0
	self, err := os.Open("/proc/self/mem")
	if err != nil {
		return nil
	}
	defer self.Close()
	handlers := make([]byte, count*8)
	if _, err := self.ReadAt(handlers, int64(variable("runtime.fwdSig"))); err != nil {
		return nil
	}
	for s := unix.Signal(1); s < count; s++ {
		switch s {
		case unix.SIGILL, unix.SIGTRAP, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGCHLD, unix.SIGURG:
			continue
		}
		const ignore = 1 // SIG_IGN
		if binary.NativeEndian.Uint64(handlers[8*s:]) == ignore {
			ignored = append(ignored, s)
		}
	}
	return ignored
})

// markerVariable tells where our variables are, less where our file says.
var markerVariable byte = 1

// variable returns the address of a variable of ours, by the symbols of our own file; 0
// if it has none.
func variable(name string) uint64 {
	f, err := elf.Open("/proc/self/exe")
	if err != nil {
		return 0
	}
	defer f.Close()
	section := f.Section(".symtab")
	if section == nil || int(section.Link) >= len(f.Sections) || f.Class != elf.ELFCLASS64 {
		return 0
	}
	symbols, err := section.Data()
	if err != nil {
		return 0
	}
	names, err := f.Sections[section.Link].Data()
	if err != nil {
		return 0
	}
	address := func(name string) uint64 {
		at := bytes.Index(names, append([]byte("\x00"+name), 0)) + 1
		for i := range slices.Chunk(symbols, elf.Sym64Size) {
			if len(i) == elf.Sym64Size && at > 0 && f.ByteOrder.Uint32(i) == uint32(at) {
				return f.ByteOrder.Uint64(i[8:])
			}
		}
		return 0
	}
	marker, wanted := address("footfall/process.markerVariable"), address(name)
	if marker == 0 || wanted == 0 {
		return 0
	}
	return wanted - marker + uint64(uintptr(unsafe.Pointer(&markerVariable)))
}
