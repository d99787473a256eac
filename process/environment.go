//go:build linux

package process

import (
	"bytes"
	"encoding/binary"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"

	elf "footfall/binary"
)

// An Environ is where a program has its environment: the pointer to an array of strings that getenv of its C library
// looks through. The kernel knows only where it was at first, which the program may have changed, or, to have room for a
// title (setproctitle), overwritten.
type Environ struct {
	addr    uint64
	pointer int // bytes of one
	was     []byte
	array   uint64
}

// The limits of what is read of an environment: the kernel's own are a quarter of the stack.
const (
	maxEntries = 1 << 15
	maxStrings = 1 << 22
)

var errLargeEnvironment = errors.New("more than 8 MB of environment")

// environSymbol is what C libraries call it. It is an object of the library, or, if the program names it and was linked so, a copy in
// the program that the library uses, too.
const environSymbol = "__environ"

// Environ finds it in the memory map, nil: it is not known where, as in a program that is static and stripped, or not of C.
func (p *Process) Environ(maps Maps) *Environ {
	images := p.Images(maps)
	program := slices.IndexFunc(images, (*MappedFile).IsProgram)
	if program < 0 {
		return nil
	}
	if e := images[program].environ(true); e != nil {
		return e
	}
	for _, i := range images {
		if name := path.Base(i.Path); strings.HasPrefix(name, "libc.so") || strings.HasPrefix(name, "libc-") || strings.HasPrefix(name, "ld-musl-") {
			if e := i.environ(false); e != nil {
				return e
			}
		}
	}
	return nil
}

// environs are where it is in files, by file and when that was changed; nil: nowhere.
var environs struct {
	sync.Mutex
	at map[string]*environAt
}

type environAt struct {
	addr    uint64 // of a file that may be mapped anywhere: from its beginning
	fixed   bool
	pointer int
}

const maxEnvirons = 1 << 10

func (i *MappedFile) environ(program bool) *Environ {
	changed := i.Changed()
	key := i.File() + " " + changed
	environs.Lock()
	at, known := environs.at[key]
	environs.Unlock()
	if !known {
		at = i.findEnviron(program)
		if changed != "" {
			environs.Lock()
			if len(environs.at) >= maxEnvirons || environs.at == nil {
				environs.at = make(map[string]*environAt)
			}
			environs.at[key] = at
			environs.Unlock()
		}
	}
	if at == nil {
		return nil
	}
	e := &Environ{addr: at.addr, pointer: at.pointer}
	if !at.fixed {
		e.addr += i.Start
	}
	return e
}

func (i *MappedFile) findEnviron(program bool) *environAt {
	r, err := i.Open()
	if err != nil {
		return nil
	}
	defer r.Close()
	f, err := elf.Open(r)
	if err != nil {
		return nil
	}
	at, _ := f.DynamicSymbols(environSymbol)
	if needed, _ := f.Needed(); program && len(at) == 0 && len(needed) == 0 { // static
		at, _ = f.Symbols(environSymbol)
	}
	if len(at) != 1 || f.Order != binary.LittleEndian {
		return nil
	}
	return &environAt{f.Bias(0) + at[0], f.Bias(0) == f.Bias(1), f.PointerSize()}
}

// CurrentEnvironment returns the environment as getenv sees it now, nil if there is none. It is found in memory; e, which is
// not changed, tells where. What it returns beside is e for Unchanged.
func (p *Process) CurrentEnvironment(e *Environ) (map[string]string, *Environ, error) {
	now := &Environ{addr: e.addr, pointer: e.pointer}
	first := make([]byte, e.pointer)
	if err := p.ReadRanges([]MemoryRange{{Addr: e.addr, Bytes: first}}); err != nil {
		return nil, nil, err
	}
	now.array = now.address(first)
	if now.array == 0 {
		return nil, now, nil
	}
	r := &stringReader{p: p}
	for at := now.array; len(now.was) < maxEntries*e.pointer; at += uint64(e.pointer) {
		b, err := r.bytes(at, e.pointer)
		if err != nil {
			return nil, nil, err
		}
		now.was = append(now.was, b...)
		if now.address(b) == 0 {
			break
		}
	}
	env := make(map[string]string)
	for entry := range slices.Chunk(now.was, e.pointer) {
		at := now.address(entry)
		if at == 0 {
			break
		}
		text, err := r.text(at)
		if err != nil {
			return nil, nil, err
		}
		if name, value, ok := strings.Cut(text, "="); ok {
			if _, twice := env[name]; !twice {
				env[name] = value
			}
		}
	}
	return env, now, nil
}

// Unchanged tells whether a process has the environment that CurrentEnvironment has returned, of itself or of a process that it
// was forked from; false: or it would have to be waited for. Strings that are written over where they are it does not see.
func (p *Process) Unchanged(e *Environ) bool {
	first, array := make([]byte, e.pointer), make([]byte, len(e.was))
	ranges := []MemoryRange{{Addr: e.addr, Bytes: first}, {Addr: e.array, Bytes: array}}
	return p.ReadTouched(ranges, 0) == nil && e.address(first) == e.array && bytes.Equal(array, e.was)
}

func (e *Environ) address(b []byte) uint64 {
	if e.pointer == 4 {
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

// A stringReader reads memory in which much of what is wanted lies close together.
type stringReader struct {
	p    *Process
	addr uint64 // of the page
	page []byte
	read int
}

// bytes returns n of them, which need not lie in one page.
func (r *stringReader) bytes(addr uint64, n int) ([]byte, error) {
	var b []byte
	for len(b) < n {
		rest, err := r.rest(addr + uint64(len(b)))
		if err != nil {
			return nil, err
		}
		b = append(b, rest[:min(len(rest), n-len(b))]...)
	}
	return b, nil
}

// text returns a string that ends with a zero.
func (r *stringReader) text(addr uint64) (string, error) {
	var b []byte
	for {
		rest, err := r.rest(addr + uint64(len(b)))
		if err != nil {
			return "", err
		}
		text, _, ends := bytes.Cut(rest, []byte{0})
		b = append(b, text...)
		if ends || len(b) > maxStrings {
			return string(b), nil
		}
	}
}

// rest returns what is in memory from an address on, up to the end of its page.
func (r *stringReader) rest(addr uint64) ([]byte, error) {
	const size = 4096
	if at := addr &^ (size - 1); r.page == nil || at != r.addr {
		if r.read += size; r.read > 2*maxStrings {
			return nil, errLargeEnvironment
		}
		page := make([]byte, size)
		if err := r.p.ReadRanges([]MemoryRange{{Addr: at, Bytes: page}}); err != nil {
			return nil, err
		}
		r.addr, r.page = at, page
	}
	return r.page[addr-r.addr:], nil
}
