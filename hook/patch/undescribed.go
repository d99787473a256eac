package patch

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/arch/x86/x86asm"

	"footfall/exe"
	"footfall/proc"
)

// An Undescribed is a function that .eh_frame says nothing of and that has no
// frame pointer, so that its callers are not found from the stack. It is known
// who called it if it is traced: then each thread keeps a list of such calls which
// are open, with the addresses on the stack where they return
// (trampoline/amd64.S, entry_caller).
type Undescribed struct {
	Image     *Image
	Low, High uint64 // its code in the process
	Site      *Site  // by which it is traced; nil: there is none, chains leave its callers out
}

// Undescribed returns those functions of the image that may call others.
func (i *Image) Undescribed(p *proc.Process) ([]Undescribed, error) {
	if i.file.Machine != native.machine {
		return nil, nil
	}
	rows, err := i.file.UnwindRows()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", i.Path, err)
	}
	all, _, err := i.Sites()
	if err != nil {
		return nil, err
	}
	sites := make(map[uint64]*Site)  // by function
	named := make(map[string]uint64) // functions by name, 0: several
	for _, s := range all {
		sites[s.Function.Addr] = s
	}
	for _, fn := range i.functions() {
		if _, twice := named[fn.Name]; twice {
			named[fn.Name] = 0
		} else {
			named[fn.Name] = fn.Addr
		}
	}
	var found []Undescribed
	for _, fn := range i.functions() {
		const most = 1 << 24 // bytes of a function
		if fn.Size == 0 || fn.Size > most || fn.Indirect || strings.HasSuffix(fn.Name, "@plt") || i.file.FileOffset(fn.Addr) == 0 || described(rows, fn) {
			continue
		}
		code := make([]byte, fn.Size)
		if _, err := p.ReadAt(code, int64(fn.Addr+i.bias)); err != nil || native.keepsFramePointer(code) || !native.calls(code) {
			continue
		}
		// A part that the compiler has moved apart has the frame of the whole.
		whole, _, _ := strings.Cut(fn.Name, ".cold")
		found = append(found, Undescribed{i, fn.Addr + i.bias, fn.Addr + fn.Size + i.bias, cmp.Or(sites[fn.Addr], sites[named[whole]])})
	}
	return found, nil
}

// described tells whether rows say anything of the function.
func described(rows []exe.UnwindRow, fn exe.Function) bool {
	n, _ := slices.BinarySearchFunc(rows, fn.Addr+1, func(r exe.UnwindRow, addr uint64) int { return cmp.Compare(r.Addr, addr) })
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
		i, err := x86asm.Decode(code, 64)
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
		i, err := x86asm.Decode(code, 64)
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
		i := binary.LittleEndian.Uint32(code)
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
		i := binary.LittleEndian.Uint32(code)
		if i&0xfc000000 == arm64BL || i&0xfeff0000 == 0xd63f0000 { // blr, blraa and so on
			return true
		}
	}
	return false
}

// leading returns the sites, with the mode of each, and those of undescribed
// functions.
func (s *Session) leading(sites []*Site, undescribed []Undescribed) []*Site {
	for _, site := range sites {
		site.mode = s.options.Mode
	}
	if s.options.Mode != Chains {
		return sites
	}
	if err := s.mayLead(undescribed); err != nil {
		s.Untraced = err
		for i := range undescribed {
			undescribed[i].Site = nil
		}
	}
	s.bare = append(s.bare, undescribed...)
	counted := make(map[uint64]*Site)
	for _, site := range sites {
		counted[site.Addr] = site
	}
	sites = slices.Clone(sites)
	for _, u := range undescribed {
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

// mayLead returns why functions cannot be traced to find callers.
func (s *Session) mayLead(undescribed []Undescribed) error {
	if !traced(undescribed) {
		return nil
	}
	return s.bearsReturns()
}

func traced(undescribed []Undescribed) bool {
	return slices.ContainsFunc(undescribed, func(u Undescribed) bool { return u.Site != nil })
}

// exits tells whether return addresses are replaced.
func (s *Session) exits() bool {
	return s.replaced > 0 || traced(s.bare)
}

// Leading returns the number of functions that are traced only to find callers.
func (s *Session) Leading() (n int) {
	for _, st := range s.on {
		if st.mode == leads {
			n++
		}
	}
	return n
}
