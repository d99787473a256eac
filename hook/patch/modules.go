package patch

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"footfall/proc"
)

// Modules are the images of a process, as they come and go.
type Modules struct {
	p    *proc.Process
	text []byte            // of the memory map at the last look
	now  map[string]*Image // by key; nil: cannot be opened
	all  []*Image
}

// OpenModules opens the images of a process. Those that cannot be opened are
// left out: the error says which, and the rest can be used.
func OpenModules(p *proc.Process) (*Modules, error) {
	m := &Modules{p: p}
	_, _, err := m.Look()
	return m, err
}

// All returns all images that there have been, until Close.
func (m *Modules) All() []*Image { return m.all }

// Present returns the images that are there.
func (m *Modules) Present() []*Image {
	var present []*Image
	for _, i := range m.all { // in their order
		if m.now[i.image.Key()] == i {
			present = append(present, i)
		}
	}
	return present
}

// Look returns the images that are new since the last look, and whether any
// have come or gone.
func (m *Modules) Look() (fresh []*Image, changed bool, err error) {
	maps, text, err := m.p.Maps()
	if err != nil || bytes.Equal(text, m.text) {
		return nil, false, err
	}
	m.text = text
	before := m.now
	m.now = make(map[string]*Image)
	var failed []error
	for _, i := range m.p.Images(maps) {
		if isOurs(i.Path) {
			continue
		}
		key := i.Key()
		if known, ok := before[key]; ok {
			m.now[key] = known
			if known != nil {
				known.image = i // its parts may have been mapped one after another
			}
			delete(before, key)
			continue
		}
		changed = true
		if again := m.again(i); again != nil {
			m.now[key] = again
			fresh = append(fresh, again)
			continue
		}
		image, err := openImage(m.p, i)
		m.now[key] = image
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", i.Path, err))
			continue
		}
		fresh = append(fresh, image)
		m.all = append(m.all, image)
	}
	return fresh, changed || len(before) > 0, errors.Join(failed...)
}

// again returns the image that was at the same place before, of the same file; nil if
// there was none. It keeps its file open, so that the file is no other one.
func (m *Modules) again(i *proc.Image) *Image {
	at := slices.IndexFunc(m.all, func(known *Image) bool { return known.image.Key() == i.Key() })
	if at < 0 || !m.all[at].unchanged() {
		return nil
	}
	m.all[at].image = i
	return m.all[at]
}

// Forget makes the next look find an image again, if it is there: it has been
// unloaded, and maybe loaded to the same place.
func (m *Modules) Forget(image *Image) {
	for key, i := range m.now {
		if i == image {
			delete(m.now, key)
			m.text = nil
		}
	}
}

// Close closes the files.
func (m *Modules) Close() {
	for _, i := range m.all {
		i.Close()
	}
}

// Gone returns the images at whose sites there is something else than what was
// switched on: they have been unloaded. Each is returned once.
func (s *Session) Gone() []*Image {
	var gone []*Image
	for image, st := range s.probes {
		if there, err := present(s.p, []*stub{st}, (*stub).jump); err == nil && len(there) == 0 {
			gone = append(gone, image)
			delete(s.probes, image)
		}
	}
	return gone
}

// Add switches further sites on, after images have come or gone, and returns
// how many. Those that cannot be are in Skipped. The functions are as
// Options.Undescribed, of those images that are new.
func (s *Session) Add(sites []*Site, undescribed ...Undescribed) (int, error) {
	if err := s.drop(); err != nil {
		return 0, err
	}
	sites = s.usable(s.leading(sites, undescribed))
	s.mayReplaceReturns()
	s.chooseExits(sites)
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
	if s.options.Mode == Chains {
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
	there, err := present(s.p, sorted(s.on), (*stub).jump)
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
	for _, b := range s.blocks {
		if err := b.setPatched(s.p, withExits(gone), false); err != nil {
			return err
		}
	}
	return nil
}
