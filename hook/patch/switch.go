//go:build linux

package patch

import (
	"fmt"

	"footfall/process"
	"footfall/trace"
)

// Switch makes the sites those that are on: it switches others off and what is
// missing on, and returns how many of each. Calls that have begun are recorded
// to their end. Skipped has those that cannot be on.
func (s *Session) Switch(sites []*EntrySite) (on, off int, err error) {
	now := make(map[uint64]*stub)
	for _, st := range s.on {
		now[st.site] = st
	}
	var missing []*EntrySite
	keep := make(map[*stub]bool)
	for _, site := range sites {
		st := now[site.Addr]
		root := site.Root && s.options.Mode == trace.Filtered
		if st != nil && st.root == root && st.arguments == s.description(site) {
			keep[st] = true
		} else {
			missing = append(missing, site)
		}
	}
	var unwanted, rest []*stub
	for _, st := range s.on {
		if keep[st] {
			rest = append(rest, st)
		} else {
			unwanted = append(unwanted, st)
		}
	}
	if len(unwanted) > 0 {
		for _, some := range inSteps(unwanted) {
			if err := s.p.WhileHeld(func(*process.Held) error { return putBack(s.p, s.islands, withExits(some)) }); err != nil {
				return 0, 0, err
			}
		}
		s.on = rest
		s.chooseSamples()
	}
	clear(s.Skipped)
	s.putOff = nil
	if len(missing) > 0 {
		if on, err = s.Add(missing); err != nil {
			return 0, len(unwanted), err
		}
	}
	return on, len(unwanted), nil
}

// chooseSamples takes a site of each image, of those that are on.
func (s *Session) chooseSamples() {
	clear(s.samples)
	for _, st := range s.on {
		if image := s.stubs[st.id()].Image; s.samples[image] == nil {
			s.samples[image] = st
		}
	}
}

// On returns how many sites are on.
func (s *Session) On() int { return len(s.on) }

// SetFilter changes the filter, which is possible with mode Filtered. Calls that
// have begun end as they began.
func (s *Session) SetFilter(f trace.Filter) error {
	if s.options.Mode != trace.Filtered {
		return fmt.Errorf("the session has no filters: %w", ErrNotSupported)
	}
	s.options.Filter = f
	s.region.filter(f, s.options.Clock)
	return nil
}
