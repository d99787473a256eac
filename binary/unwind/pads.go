package unwind

import "fmt"

// LanguageData returns the address of what the compiler left for the personality routine
// of the function that has the code at addr: for exceptions. 0: nothing.
func (t *Table) LanguageData(addr uint64) uint64 {
	if f := t.at(addr); f != nil {
		return f.languageData
	}
	return 0
}

// LandingPads reads where exceptions lead within the function that begins at low, by its
// language-specific data, which begin the bytes and are at addr. That is as C++, C (cleanup),
// Rust, Ada, D and Objective-C have it: Itanium C++ ABI, "Exception Handling Tables".
//
//	how the base of pads is encoded u8, the base; else it is the function
//	how types are encoded u8, where they end uleb
//	how what follows is encoded u8, its length uleb
//	where calls begin, their size, the pad (0: none), action uleb; again
func (t *Table) LandingPads(low, addr uint64, bytes []byte) (pads []uint64, err error) {
	r := reader{t: &Table{order: t.order, is64: t.is64, addr: addr}, b: bytes}
	base := low
	if how := r.u8(); how != DW_EH_PE_omit {
		base = r.pointer(how)
	}
	if how := r.u8(); how != DW_EH_PE_omit {
		r.uleb()
	}
	how := r.u8()
	end := r.uleb() + r.off
	if r.bad || end < r.off || end > uint64(len(r.b)) {
		return nil, fmt.Errorf("language-specific data at %#x: %w", addr, errDamaged)
	}
	r.b = r.b[:end]
	for r.off < end && !r.bad {
		r.pointer(how)
		r.pointer(how)
		if pad := r.pointer(how); pad != 0 {
			pads = append(pads, base+pad)
		}
		r.uleb()
	}
	if r.bad || how&0x70 != 0 {
		return nil, fmt.Errorf("language-specific data at %#x: %w", addr, errDamaged)
	}
	return pads, nil
}
