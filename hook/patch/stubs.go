//go:build linux

package patch

import (
	"bytes"
	encoding "encoding/binary"
	"errors"
	"fmt"
	"slices"

	"footfall/binary"
	"footfall/trace"
)

type stub struct {
	island       *island
	index        uint32
	site, resume uint64
	old          [8]byte
	mode         trace.Mode
	root         bool
	doubted      bool // of a [Ran]: see MayHaveBegun
	patched      bool
	arguments    uint64 // their description; of an exit the id of its entry

	exits []*stub // of an entry: those that are sites

	// Of an exit.
	conditional bool         // a conditional jump is changed, but for its first byte
	leave       *binary.Exit // what it does
	bias        uint64       // of its image
	frames      *cellRows    // nil: not known; also of a copy

	// Of an entry without room, and of the copy of its first instructions.
	copy   *stub // of the entry
	window *binary.EntryWindow
	moved  movedCopy // of the copy
}

type stubKey struct {
	site      uint64
	mode      trace.Mode
	root      bool
	arguments uint64
}

func (st *stub) key() stubKey { return stubKey{st.site, st.mode, st.root, st.arguments} }

func (st *stub) addr() uint64 { return st.island.addr + stubsAt + uint64(st.index)*stubSize }

// id is what the stub pushes, but for the flag.
func (st *stub) id() uint32 { return st.island.index<<islandOfIDLog | st.index }

// doubtedRoot is a record's root where the stub is doubted.
const doubtedRoot = 2

func (st *stub) record() []byte {
	r := make([]byte, recordSize)
	encoding.LittleEndian.PutUint64(r, st.site)
	encoding.LittleEndian.PutUint64(r[8:], st.resume)
	copy(r[16:], st.old[:])
	r[24] = byte(st.mode)
	for i, flag := range []bool{st.root, st.patched, st.conditional} {
		if flag {
			r[25+i] = 1
		}
	}
	if st.doubted {
		r[25] = doubtedRoot
	}
	encoding.LittleEndian.PutUint64(r[32:], st.arguments)
	return r
}

// writeStubs adds the stubs that are missing. No thread gets there before the
// sites are changed.
func (s *Session) writeStubs(sites []*EntrySite) ([]*stub, error) {
	var stubs []*stub
	before := make(map[*island]int)
	for _, b := range s.islands {
		before[b] = len(b.stubs)
	}
	s.traced = make(map[uint64]bool)
	for _, site := range sites {
		s.traced[site.Addr] = true
		s.traced[site.Function.Addr+site.Image.Bias] = true
	}
	for _, st := range s.on {
		s.traced[st.site] = true
	}
	for _, site := range sites {
		st, err := s.addStub(site)
		if site.way == bySites && (errors.Is(err, errFar) || err == nil && !s.addExits(site, st)) {
			if site.unsee(s.options.Mode); site.mode == 0 {
				s.Skipped[site] = "its exits have no stubs in reach"
				continue
			}
			st, err = s.addStub(site)
		}
		switch {
		case errors.Is(err, errFar):
			s.Skipped[site] = err.Error()
			continue
		case err != nil:
			return nil, err
		case s.options.Mode == trace.Counts && !s.region.counts(st):
			s.Skipped[site] = "its process may have too little memory for one more count"
			continue
		}
		stubs = append(stubs, st)
		s.stubs[st.id()] = site
	}
	s.addNotifier()
	described := slices.Clip(withExits(stubs))
	for _, st := range stubs {
		if st.copy != nil {
			described = append(described, st.copy)
		}
	}
	for _, b := range s.islands {
		var code, records []byte
		first := before[b]
		for _, st := range b.stubs[first:] {
			code = append(code, st.code()...)
			records = append(records, st.record()...)
		}
		if len(code) == 0 {
			continue
		}
		if _, err := s.p.WriteAt(code, int64(b.stubs[first].addr())); err != nil {
			return nil, err
		}
		if _, err := s.p.WriteAt(records, int64(b.addr+recordsAt+uint64(first)*recordSize)); err != nil {
			return nil, err
		}
		if err := b.setOwner(s.p, b.owner, b.ownerTicks); err != nil {
			return nil, err
		}
	}
	for _, b := range s.islands {
		if native.describesAll && (b.unwinder != 0 || b.described) {
			if err := b.describeStubs(s.p, described); err != nil {
				return nil, err
			}
		}
	}
	return stubs, nil
}

// code encodes the stub.
func (st *stub) code() []byte {
	if st.mode == copies || st.mode == copiesLeaving {
		return append(slices.Clone(st.moved.code), bytes.Repeat(native.breakpoint, stubSize-len(st.moved.code))...)
	}
	s := stubCode{at: st.addr(), resume: st.resume, id: st.id(), description: st.arguments}
	switch {
	case st.leaves():
		s.id, s.description = uint32(st.arguments), 0
		s.site, s.leave = st.site, st.leave
		s.target = st.leave.Target + st.bias
	case st.root || st.mode == chainsOn || st.mode == chainsOnSites:
		s.id |= rootFlag
	}
	if s.description != 0 {
		s.id |= argumentsFlag
	}
	switch st.mode {
	case entersFiltered, chainsOnSites, leadsSites:
		s.id |= sitesFlag
	case trace.Entries, entersUnseen:
		s.id |= unseenFlag
	}
	return native.stubAt(st.mode, st.island.addr+codeAt, s)
}

// addStub returns the stub of a site, which may be there.
func (s *Session) addStub(site *EntrySite) (*stub, error) {
	root := site.Root && s.options.Mode == trace.Filtered
	if site.window != nil {
		return s.addMovedStub(site, root)
	}
	if st := s.findStub(site, root); st != nil {
		return st, nil
	}
	b := s.islandFor(site.Addr)
	if b == nil {
		return nil, s.full()
	}
	st := &stub{
		island: b, index: uint32(len(b.stubs)), site: site.Addr, resume: site.Addr + uint64(site.room), old: site.old,
		mode: site.mode, root: root, arguments: s.description(site),
	}
	b.add(st)
	return st, nil
}

// full is what cannot be done where the islands are.
func (s *Session) full() error {
	return fmt.Errorf("process %d: more than %d sites: select fewer", s.p.PID, maxStubs)
}

// findStub finds a stub for the site that is there. In this session it must
// not have been that of another function, whose library was at the same place.
func (s *Session) findStub(site *EntrySite, root bool) *stub {
	for _, b := range s.islands {
		for _, st := range b.byKey[stubKey{site.Addr, site.mode, root, s.description(site)}] {
			other := s.stubs[st.id()]
			same := other == nil || other.Image.Path == site.Image.Path && other.Function == site.Function
			if same && st.old == site.old && s.resumes(site, st) {
				return st
			}
		}
	}
	return nil
}

// resumes tells whether the stub goes on with what is behind the site.
func (s *Session) resumes(site *EntrySite, st *stub) bool {
	if site.window != nil {
		return s.findCopy(site, st) != nil
	}
	return st.resume == site.Addr+uint64(site.room)
}
