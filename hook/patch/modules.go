//go:build linux

package patch

import (
	"slices"

	"footfall/process/target"
	"footfall/trace"
)

// Gone returns the images at whose sites there is something else than what was
// switched on: they have been unloaded. Each is returned once.
func (s *Session) Gone() []*target.Image {
	var gone []*target.Image
	for image, st := range s.samples {
		if there, _, err := present(s.p, []*stub{st}, (*stub).jump); err == nil && len(there) == 0 {
			gone = append(gone, image)
			delete(s.samples, image)
		}
	}
	return gone
}

// Add switches further sites on, after images have come or gone, and returns
// how many. Those that cannot be are in Skipped. The functions are as
// Options.NoCFI, of those images that are new.
func (s *Session) Add(sites []*EntrySite, noCFI ...NoCFI) (int, error) {
	if err := s.drop(); err != nil {
		return 0, err
	}
	sites = s.usable(s.leading(sites, noCFI), nil)
	s.mayReplaceReturns()
	sites = s.chooseExits(sites)
	if len(sites) > 0 {
		if err := s.inject(sites); err != nil {
			return 0, err
		}
	}
	if s.exits() { // the unwinder may have been loaded just now
		if err := s.registerUnwinding(); err != nil {
			return 0, err
		}
	}
	stubs, err := s.writeStubs(sites)
	if err != nil {
		return 0, err
	}
	s.tellLibunwind()
	if s.options.Mode == trace.Chains {
		if err := s.unwindRows(append(slices.Clone(s.on), stubs...)); err != nil {
			return 0, err
		}
	}
	if len(stubs) > 0 {
		if err := s.switchOn(stubs); err != nil {
			return 0, err
		}
	}
	return len(sites), s.tellWhenRelocated()
}

// drop forgets what was switched on and is not there any more.
func (s *Session) drop() error {
	there, _, err := present(s.p, sorted(s.on), (*stub).jump)
	if err != nil {
		return err
	}
	rest := there // in the same order
	gone := slices.DeleteFunc(s.on, func(st *stub) bool {
		kept := len(rest) > 0 && rest[0] == st
		if kept {
			rest = rest[1:]
		}
		return kept
	})
	s.on = there
	for _, b := range s.islands {
		if err := b.setPatched(s.p, withExits(gone), false); err != nil {
			return err
		}
	}
	return nil
}
