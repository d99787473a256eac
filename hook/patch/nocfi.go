//go:build linux

package patch

import (
	"bytes"
	"cmp"
	encoding "encoding/binary"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/arch/x86/x86asm"

	"footfall/binary"
	"footfall/binary/unwind"
	"footfall/process"
	"footfall/process/target"
	"footfall/trace"
)

// A NoCFI is a function without call-frame information (.eh_frame) and without a
// frame pointer, so that its callers are not found from the stack. It is known
// who called it if it is traced: then each thread keeps a list of such calls which
// are open, with the addresses on the stack where they return
// (trampoline/amd64.S, entry_caller).
type NoCFI struct {
	Image     *target.Image
	Low, High uint64     // its code in the process
	Site      *EntrySite // by which it is traced; nil: there is none, chains leave its callers out
}

// FindNoCFI returns those functions of the image that may call others. Of those without room the
// first instructions are moved, if moves says of their names that they may be; nil: none are.
func FindNoCFI(p *process.Process, i *target.Image, moves func(name string) bool) ([]NoCFI, error) {
	if i.File.Machine != native.machine {
		return nil, nil
	}
	rows, err := i.File.UnwindRows()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", i.Path, err)
	}
	all, _, err := Sites(i)
	if err != nil {
		return nil, err
	}
	sites := make(map[uint64]*EntrySite) // by function
	named := make(map[string]uint64)     // functions by name, 0: several
	for _, s := range all {
		sites[s.Function.Addr] = s
	}
	for _, fn := range i.Names() {
		if _, twice := named[fn.Name]; twice {
			named[fn.Name] = 0
		} else {
			named[fn.Name] = fn.Addr
		}
	}
	var found []NoCFI
	for _, fn := range i.Names() {
		const most = 1 << 24 // bytes of a function
		if fn.Size == 0 || fn.Size > most || fn.Indirect || strings.HasSuffix(fn.Name, "@plt") || i.File.FileOffset(fn.Addr) == 0 || described(rows, fn) {
			continue
		}
		code := make([]byte, fn.Size)
		if _, err := p.ReadAt(code, int64(fn.Addr+i.Bias)); err != nil || native.keepsFramePointer(code) || !native.calls(code) {
			continue
		}
		// A part that the compiler has moved apart has the frame of the whole.
		whole, _, _ := strings.Cut(fn.Name, ".cold")
		found = append(found, NoCFI{i, fn.Addr + i.Bias, fn.Addr + fn.Size + i.Bias, cmp.Or(sites[fn.Addr], sites[named[whole]])})
	}
	if moves != nil && slices.ContainsFunc(found, func(u NoCFI) bool { return u.Site == nil }) {
		moveNoCFI(i, found, named, moves)
	}
	return found, nil
}

// moveNoCFI has those of the functions that have no room traced by moved instructions.
func moveNoCFI(i *target.Image, found []NoCFI, named map[string]uint64, moves func(name string) bool) {
	all, _, err := Moved(i)
	if err != nil {
		return
	}
	moved := make(map[uint64]*EntrySite)
	for _, s := range all {
		if moves(s.Function.Name) {
			moved[s.Function.Addr] = s
		}
	}
	for n := range found {
		u := &found[n]
		if u.Site != nil {
			continue
		}
		if u.Site = moved[u.Low-i.Bias]; u.Site != nil {
			continue
		}
		if fn, _ := i.Function(u.Low); fn != nil {
			whole, _, _ := strings.Cut(fn.Name, ".cold")
			u.Site = moved[named[whole]]
		}
	}
}

// described tells whether rows say anything of the function.
func described(rows []unwind.CompactRow, fn binary.FunctionSymbol) bool {
	n, _ := slices.BinarySearchFunc(rows, fn.Addr+1, func(r unwind.CompactRow, addr uint64) int { return cmp.Compare(r.Addr, addr) })
	if n > 0 && !rows[n-1].Missing {
		return true
	}
	for ; n < len(rows) && rows[n].Addr < fn.Addr+fn.Size; n++ {
		if !rows[n].Missing {
			return true
		}
	}
	return false
}

// keepsFramePointerAMD64 tells whether the code of a function makes %rbp point to where
// the caller's was pushed.
func keepsFramePointerAMD64(code []byte) bool {
	if !bytes.Contains(code, []byte{0x48, 0x89, 0xe5}) && !bytes.Contains(code, []byte{0x48, 0x8b, 0xec}) {
		return false // mov %rsp,%rbp, in both forms
	}
	pushed := false
	for len(code) > 0 {
		i, err := binary.DecodeAMD64(code)
		if err != nil {
			return false
		}
		code = code[i.Len:]
		switch {
		case i.Op == x86asm.PUSH:
			pushed = i.Args[0] == x86asm.RBP
		case i.Op == x86asm.MOV && i.Args[0] == x86asm.RBP && i.Args[1] == x86asm.RSP && pushed:
			return true
		case i.Op == x86asm.POP || i.Op == x86asm.CALL || i.Args[0] == x86asm.RSP:
			pushed = false
		}
	}
	return false
}

// callsAMD64 tells whether there may be a call in the code of a function: others are
// never callers.
func callsAMD64(code []byte) bool {
	for len(code) > 0 {
		i, err := binary.DecodeAMD64(code)
		if err != nil || i.Op == x86asm.CALL {
			return true
		}
		code = code[i.Len:]
	}
	return false
}

// keepsFramePointerARM64 tells whether the code of a function makes x29 point to where
// it and x30 were stored.
func keepsFramePointerARM64(code []byte) bool {
	const (
		store, storeFirst, storeMask = 0xa9007bfd, 0xa9807bfd, 0xffc07fff // stp x29, x30, [sp, ...] and [sp, ...]!
		point, pointMask             = 0x910003fd, 0xffc003ff             // add x29, sp, ...
	)
	stored := false
	for ; len(code) >= 4; code = code[4:] {
		i := encoding.LittleEndian.Uint32(code)
		stored = stored || i&storeMask == store || i&storeMask == storeFirst
		if stored && i&pointMask == point {
			return true
		}
	}
	return false
}

// callsARM64 tells whether there is a call in the code of a function.
func callsARM64(code []byte) bool {
	for ; len(code) >= 4; code = code[4:] {
		i := encoding.LittleEndian.Uint32(code)
		if i&0xfc000000 == arm64BL || i&0xfeff0000 == 0xd63f0000 { // blr, blraa and so on
			return true
		}
	}
	return false
}

// leading returns the sites, with the mode of each, and those of functions without call-frame information
// functions.
func (s *Session) leading(sites []*EntrySite, noCFI []NoCFI) []*EntrySite {
	for _, site := range sites {
		site.mode = s.options.Mode
	}
	if s.options.Mode != trace.Chains {
		return sites
	}
	s.bare = append(s.bare, noCFI...)
	counted := make(map[uint64]*EntrySite)
	for _, site := range sites {
		counted[site.Addr] = site
	}
	sites = slices.Clone(sites)
	for _, u := range noCFI {
		switch {
		case u.Site == nil:
		case counted[u.Site.Addr] != nil:
			counted[u.Site.Addr].mode = chainsOn
		default:
			u.Site.mode = leads
			sites = append(sites, u.Site)
		}
	}
	return sites
}

// exits tells whether return addresses are replaced.
func (s *Session) exits() bool { return s.replaced > 0 }

// Leading returns the number of functions that are traced only to find callers.
func (s *Session) Leading() (n int) {
	for _, st := range s.on {
		if st.mode == leads || st.mode == leadsSites {
			n++
		}
	}
	return n
}
