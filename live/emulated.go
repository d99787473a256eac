//go:build linux

package live

import (
	"bytes"
	"debug/elf"
	encoding "encoding/binary"
	"errors"
	"fmt"

	"footfall/binary"
	"footfall/process"
)

// A guest is a program that QEMU runs on another CPU (qemu-user). It lies in the memory of
// the emulator, its files mapped as a loader does, but for code: that is translated, and is
// not executable where it was loaded. Pointers in it are addresses of the guest, and those of
// this machine are higher by a number that the emulator has chosen, -B: 0 mostly for guests of 64
// bits, not for those of 32.
type guest struct {
	program string // key of its image
	base    uint64 // what to add to an address of the guest
}

var (
	errGuestBase     = errors.New("the program that it emulates cannot be read: where it is in the emulator's memory is not known, since its auxiliary vector was not found")
	errGuestClang    = errors.New("counters of clang --coverage in a program that is emulated are not read, only those of GCC")
	errGuestProfiles = errors.New("source-based counters in a program that is emulated are not read, only those of GCC")
)

// files returns the files in which there may be counters. Those from number own on are of
// a guest.
func (p *CountedProcess) files(maps process.Maps) (files []*process.MappedFile, own int) {
	files = p.proc.Images(maps)
	own = len(files)
	if p.proc.Emulator() == "" {
		return files, own
	}
	guests := p.proc.GuestImages(maps)
	if p.guest == nil {
		p.guest = p.findGuest(guests, maps)
	}
	if p.noGuest = p.guest == nil && len(guests) > 0; p.noGuest {
		return files, own
	}
	return append(files, guests...), own
}

// ofOthers says which counters of a guest are not read, those of Clang and Rust.
func (im *image) ofOthers() error {
	var err error
	if im.code.named {
		err = fmt.Errorf("%s: %w", im.path, errGuestClang)
	}
	if im.profile != nil {
		im.profile, err = nil, errors.Join(err, fmt.Errorf("%s: %w", im.path, errGuestProfiles))
	}
	return err
}

// findGuest finds out where the emulator has put the guest, nil: it is not known. A program
// that cannot be moved is at its address; any other is told by its auxiliary vector, on its
// stack, where its program headers are.
func (p *CountedProcess) findGuest(files []*process.MappedFile, maps process.Maps) *guest {
	var movable []*auxiliary
	for _, file := range files {
		f, err := binary.OpenMapped(p.proc, file.Start)
		if err != nil {
			continue
		}
		if f.Type == elf.ET_EXEC {
			return &guest{file.Key(), file.Start - f.LoadAddress()}
		}
		if a := p.auxiliaryOf(file, f); a != nil {
			movable = append(movable, a)
		}
	}
	for _, m := range maps {
		if m.Inode != 0 || !m.Read || !m.Write || m.Exec || m.Path == "[stack]" || m.End-m.Start > maxGuestStack {
			continue // "[stack]" is the emulator's own
		}
		b := make([]byte, m.End-m.Start)
		n, _ := p.proc.ReadAt(b, int64(m.Start))
		for _, a := range movable {
			if base, ok := a.find(b[:n]); ok {
				return &guest{a.file.Key(), base}
			}
		}
	}
	return nil
}

// maxGuestStack is the largest mapping in which a guest's stack is looked for: QEMU makes
// one of 8 MB unless it was told another size (-s).
const maxGuestStack = 64 << 20

// Entries of the auxiliary vector (getauxval(3)).
const (
	auxHeaders     = 3 // AT_PHDR
	auxHeaderSize  = 4 // AT_PHENT
	auxHeaderCount = 5 // AT_PHNUM
	auxEntry       = 9 // AT_ENTRY
)

// An auxiliary is what is known of the auxiliary vector of a program, if it is the one that
// is run: pairs of words, in which QEMU writes AT_PHDR, AT_PHENT and AT_PHNUM one after
// the other, and AT_ENTRY soon thereafter, as Linux does.
type auxiliary struct {
	file    *process.MappedFile
	order   byteOrder
	pointer int    // bytes of a word
	middle  []byte // AT_PHENT and AT_PHNUM, and what they are
	headers uint64 // address of the program headers, here
	entry   uint64 // how much higher the program's first instruction is
}

// auxiliaryOf takes it from an image that can be moved, in memory; nil: it cannot be run.
func (p *CountedProcess) auxiliaryOf(file *process.MappedFile, f *binary.File) *auxiliary {
	a := &auxiliary{file: file, order: encoding.LittleEndian, pointer: f.PointerSize()}
	if f.Order == encoding.ByteOrder(encoding.BigEndian) {
		a.order = encoding.BigEndian
	}
	var head [64]byte
	if _, err := p.proc.ReadAt(head[:], int64(file.Start)); err != nil {
		return nil
	}
	// e_entry and e_phoff are words, e_phentsize and e_phnum come 14 bytes after e_shoff.
	entry, offset := a.word(head[24:]), a.word(head[24+a.pointer:])
	if entry == 0 {
		return nil
	}
	sizes := head[24+3*a.pointer+6:]
	for _, x := range []uint64{auxHeaderSize, uint64(a.order.Uint16(sizes)), auxHeaderCount, uint64(a.order.Uint16(sizes[2:]))} {
		a.middle = appendWord(a.middle, a.order, a.pointer, x)
	}
	a.headers, a.entry = file.Start+offset, entry-f.LoadAddress()-offset
	return a
}

func appendWord(b []byte, order byteOrder, pointer int, x uint64) []byte {
	if pointer == 4 {
		return order.AppendUint32(b, uint32(x))
	}
	return order.AppendUint64(b, x)
}

func (a *auxiliary) word(b []byte) uint64 { return word(a.order, b, a.pointer) }

// find finds the vector in memory, and says what is to be added to addresses in it.
func (a *auxiliary) find(b []byte) (base uint64, ok bool) {
	pair := 2 * a.pointer
	for at := 0; ; at++ {
		i := bytes.Index(b[at:], a.middle)
		if i < 0 {
			return 0, false
		}
		at += i
		if at < pair || a.word(b[at-pair:]) != auxHeaders {
			continue
		}
		told := a.word(b[at-pair/2:])
		if base = a.headers - told; told > a.headers || base%pageSize != 0 {
			continue
		}
		for next := at + 2*pair; next+pair <= len(b) && next < at+10*pair; next += pair {
			if a.word(b[next:]) == auxEntry {
				if a.word(b[next+pair/2:]) == told+a.entry {
					return base, true
				}
				break
			}
		}
	}
}

// address makes of a pointer in the image's memory an address of this machine; no pointer
// stays 0.
func (im *image) address(b []byte) uint64 { return im.here(word(im.order, b, im.pointer)) }

// here is where an address of the image's program is in the memory of the process.
func (im *image) here(addr uint64) uint64 {
	if addr == 0 || im.guest == nil {
		return addr
	}
	return addr + im.guest.base
}

// there is the reverse of here.
func (im *image) there(addr uint64) uint64 {
	if addr == 0 || im.guest == nil {
		return addr
	}
	return addr - im.guest.base
}
