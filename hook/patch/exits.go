//go:build linux

package patch

import (
	"cmp"
	encoding "encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"footfall/binary"
	"footfall/trace"
)

// Exits are seen in one of two ways. Where a jump fits at all of a function's exits
// (binary.Exit), each of these becomes a site, too, with a stub of mode leaves: nothing is
// done to the program's stack. Else return addresses are replaced, if that does no harm;
// else only entries are recorded.

// An exitWay says how a function's exits are seen.
type exitWay uint8

const (
	unseen    exitWay = iota
	bySites           // its exits are sites
	byReturns         // its return address is replaced
)

// seesExits tells whether the exits of a site's function are to be seen.
func (s *Session) seesExits(site *EntrySite) bool {
	switch s.options.Mode {
	case trace.Exits, trace.Filtered:
		return true
	}
	return site.mode == leads || site.mode == chainsOn
}

// chooseExits finds the exits of the sites' functions, where they are wanted. It returns the
// sites less those that are of no use without.
func (s *Session) chooseExits(sites []*EntrySite) []*EntrySite {
	var useful []*EntrySite
	for _, site := range sites {
		site.way, site.exits = unseen, nil
		if !s.seesExits(site) {
			useful = append(useful, site)
			continue
		}
		var exits []binary.Exit
		err := binary.ErrExits
		if !s.options.returns {
			exits, err = site.findExits()
		}
		if err == nil {
			err = s.same(site, exits)
		}
		switch {
		case err == nil:
			site.way, site.exits, site.mode = bySites, exits, withSites(site.mode)
		case s.mayReplace(err):
			site.way = byReturns
			s.replaced++
		default:
			if s.options.Mode == trace.Chains {
				s.Untraced = cmp.Or(s.noReturns, err)
			}
			site.unsee(s.options.Mode)
		}
		if site.mode != 0 {
			useful = append(useful, site)
		}
	}
	return useful
}

// withSites is the mode of an entry's stub where the exits are sites.
func withSites(m trace.Mode) trace.Mode {
	switch m {
	case trace.Filtered:
		return entersFiltered
	case chainsOn:
		return chainsOnSites
	case leads:
		return leadsSites
	}
	return enters
}

// unsee gives up the exits of a site's function, in a session of that mode. The site's mode is
// 0 if it is of no use then.
func (site *EntrySite) unsee(m trace.Mode) {
	before := site.mode
	site.way, site.exits, site.mode = unseen, nil, trace.Entries
	switch {
	case m == trace.Filtered:
		site.mode = entersUnseen
	case m == trace.Chains && (before == chainsOn || before == chainsOnSites):
		site.mode = trace.Chains
	case m == trace.Chains:
		site.mode = 0
	}
}

// withoutReturns gives up the exits that replaced return addresses would show, for that reason. It returns the sites less those
// that are of no use without.
func (s *Session) withoutReturns(sites []*EntrySite, why error) []*EntrySite {
	s.noReturns, s.replaced = why, 0
	return slices.DeleteFunc(sites, func(site *EntrySite) bool {
		if site.way == byReturns {
			site.unsee(s.options.Mode)
			if s.options.Mode == trace.Chains {
				s.Untraced = why
			}
		}
		return site.mode == 0
	})
}

// leaves tells whether the stub is that of an exit.
func (st *stub) leaves() bool {
	return st.mode == leaves || st.mode == leavesFiltered || st.mode == leavesCaller
}

// mayReplaceReturns finds out whether the process bears that return addresses are
// replaced.
func (s *Session) mayReplaceReturns() {
	traced := func(u NoCFI) bool { return u.Site != nil }
	switch s.options.Mode {
	case trace.Exits, trace.Filtered:
	case trace.Chains:
		if !slices.ContainsFunc(s.bare, traced) {
			return
		}
	default:
		return
	}
	s.noReturns = s.bearsReturns()
}

// bearsReturns returns why return addresses may not be replaced, nil if they may.
func (s *Session) bearsReturns() error {
	if s.p.ShadowStack() {
		return errors.New("the processor guards return addresses (shadow stack)")
	}
	u, err := s.findUnwinder()
	switch {
	case err != nil:
		return err
	case native.returnStub == nil && limitsMemory(s.p):
		return errors.New("it may limit or lock its memory, and what keeps them needs many addresses")
	case !s.options.returns && (u.register != 0 || u.path == "") && uses(s.p, "backtrace", "_Unwind_Backtrace"):
		// libgcc, which backtrace loads when it is called first, looks up under a lock what it was
		// told of: two handlers of signals, or a handler and an exception, wait for each other.
		return errors.New("it looks at its own stack, which libgcc does under a lock then")
	}
	return nil
}

// mayReplace tells whether return addresses of a function can be replaced whose exits
// have no room, for that reason. Of callers a jump to another function is no end: their frame
// is there until that one returns.
func (s *Session) mayReplace(why error) bool {
	jumps := errors.Is(why, binary.ErrJumps) && s.options.Mode != trace.Chains
	return s.noReturns == nil && !jumps && !errors.Is(why, binary.ErrPops)
}

// same compares the exits with what is in memory.
func (s *Session) same(site *EntrySite, exits []binary.Exit) error {
	for _, e := range exits {
		code := make([]byte, len(e.Code))
		if _, err := s.p.ReadAt(code, int64(e.Addr+site.Image.Bias)); err != nil {
			return err
		}
		if string(code) != string(e.Code) {
			return fmt.Errorf("%s: somebody has changed the code at %#x", site.Function.Name, e.Addr+site.Image.Bias)
		}
	}
	return nil
}

// findExits returns those of the function.
func (site *EntrySite) findExits() ([]binary.Exit, error) {
	finder, err := site.Image.ExitFinder()
	if err != nil {
		return nil, err
	}
	from := site.Addr - site.Image.Bias
	return finder.Exits(site.Function, [2]uint64{from, from + uint64(site.room)}, site.window != nil)
}

// ExitWays returns how many of the functions that are on have their exits seen by
// replaced return addresses, and how many not at all.
func (s *Session) ExitWays() (byReturn, not int) {
	for _, st := range s.on {
		site := s.stubs[st.id()]
		switch {
		case site == nil || s.options.Mode != trace.Exits && s.options.Mode != trace.Filtered:
		case site.way == byReturns:
			byReturn++
		case site.way == unseen:
			not++
		}
	}
	return byReturn, not
}

// withExits adds the stubs of exits.
func withExits(stubs []*stub) []*stub {
	all := stubs
	for _, st := range stubs {
		if len(st.exits) > 0 {
			if len(all) == len(stubs) {
				all = append([]*stub(nil), stubs...)
			}
			all = append(all, st.exits...)
		}
	}
	return all
}

// addExits adds the stubs of the exits of a site's function, whose entry has the stub.
// It returns false if there is no room for them.
func (s *Session) addExits(site *EntrySite, entry *stub) bool {
	entry.exits = nil
	for i := range site.exits {
		e := &site.exits[i]
		if e.Within { // it is in the copy
			continue
		}
		addr := e.Addr + site.Image.Bias
		st := &stub{site: addr, resume: addr + max(uint64(len(e.Code)), uint64(native.jumpSize)), mode: site.leaveMode(), arguments: s.exitID(site, e, entry), conditional: e.Conditional, leave: e, bias: site.Image.Bias}
		if _, err := s.p.ReadAt(st.old[:native.jumpSize], int64(addr)); err != nil {
			return false
		}
		if native.describesAll {
			finder, _ := site.Image.ExitFinder() // which has found the exits
			st.frames = leaveFrames(finder, e)
		}
		if known := s.findExit(st); known != nil {
			known.leave, known.bias, known.frames = e, st.bias, st.frames
			entry.exits = append(entry.exits, known)
			continue
		}
		if st.island = s.islandFor(addr); st.island == nil {
			return false
		}
		st.index = uint32(len(st.island.stubs))
		if !st.reaches() {
			return false
		}
		st.island.add(st)
		entry.exits = append(entry.exits, st)
	}
	return true
}

// leaveMode is the mode of the stubs of the function's exits.
func (site *EntrySite) leaveMode() trace.Mode {
	switch site.mode {
	case entersFiltered:
		return leavesFiltered
	case chainsOnSites, leadsSites:
		return leavesCaller
	}
	return leaves
}

// exitID is what the stub of an exit tells: the id of the entry's, and whether it jumps to a function
// that is traced.
func (s *Session) exitID(site *EntrySite, e *binary.Exit, entry *stub) uint64 {
	id := uint64(entry.id())
	if e.Target != 0 && s.traced[e.Target+site.Image.Bias] {
		id |= jumpFlag
	}
	return id
}

// findExit finds a stub that is there.
func (s *Session) findExit(st *stub) *stub {
	for _, b := range s.islands {
		for _, known := range b.byKey[stubKey{site: st.site, mode: st.mode, arguments: st.arguments}] {
			if known.old == st.old && known.resume == st.resume && known.conditional == st.conditional {
				return known
			}
		}
	}
	return nil
}

// reaches tells whether what the exit's instructions refer to is in reach from the stub.
func (st *stub) reaches() bool {
	const margin = 4096
	far := func(addr uint64) bool {
		d := int64(addr - st.addr())
		return d > math.MaxInt32-margin || d < math.MinInt32+margin
	}
	e := st.leave
	if e.Target != 0 && far(e.Target+st.bias) {
		return false
	}
	for _, r := range e.Relative {
		if far(st.site + uint64(r.End) + uint64(int64(int32(encoding.LittleEndian.Uint32(e.Code[r.At:]))))) {
			return false
		}
	}
	return true
}

// leaveCode encodes the stub of an exit, as trampoline/amd64.S has it, and returns where
// in it the instructions are that have been moved: as far from its beginning as they
// were from the site.
func leaveCode(s stubCode) []byte {
	e := s.leave
	last := e.Starts[len(e.Starts)-1]
	var b []byte
	moved := func(from, to int) {
		at := len(b)
		b = append(b, e.Code[from:to]...)
		for _, r := range e.Relative {
			if from <= r.At && r.At < to {
				was, is := s.site+uint64(r.End), s.at+uint64(at+r.End-from)
				d := int64(int32(encoding.LittleEndian.Uint32(e.Code[r.At:]))) + int64(was-is)
				encoding.LittleEndian.PutUint32(b[at+r.At-from:], uint32(d))
			}
		}
	}
	moved(0, last)
	b = append(b, 0x68) // push $id
	b = encoding.LittleEndian.AppendUint32(b, s.id)
	b = append(b, relative(0xe8, s.at+uint64(len(b)), s.entry)...) // call
	b = append(b, 0x48, 0x8d, 0x64, 0x24, 0x08)                    // lea 8(%rsp),%rsp
	if e.Target != 0 {
		b = append(b, relative(0xe9, s.at+uint64(len(b)), s.target)...) // jmp
	} else {
		moved(last, len(e.Code))
	}
	if len(b) > stubSize {
		panic(fmt.Sprintf("the stub of the exit at %#x has %d bytes", s.site, len(b)))
	}
	return append(b, strings.Repeat("\xcc", stubSize-len(b))...)
}
