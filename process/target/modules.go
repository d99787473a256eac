//go:build linux

package target

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"footfall/process"
)

// Modules are the images of a process, as they come and go.
type Modules struct {
	p    *process.Process
	text []byte            // of the memory map at the last look
	now  map[string]*Image // by key; nil: cannot be opened
	all  []*Image
}

// OpenModules opens the images of a process. Those that cannot be opened are
// left out: the error says which, and the rest can be used.
func OpenModules(p *process.Process) (*Modules, error) {
	m := &Modules{p: p}
	_, _, err := m.Look()
	return m, err
}

// ModulesOf is the image of a file, which no process has.
func ModulesOf(file *Image) *Modules { return &Modules{all: []*Image{file}} }

// All returns all images that there have been, until Close.
func (m *Modules) All() []*Image { return m.all }

// Present returns the images that are there.
func (m *Modules) Present() []*Image {
	var present []*Image
	for _, i := range m.all { // in their order
		if m.now[i.Mapped.Key()] == i {
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
		if process.IsOurs(i.Path) {
			continue
		}
		key := i.Key()
		if known, ok := before[key]; ok {
			m.now[key] = known
			if known != nil {
				known.Mapped = i // its parts may have been mapped one after another
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
		image, err := Open(m.p, i)
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
func (m *Modules) again(i *process.MappedFile) *Image {
	at := slices.IndexFunc(m.all, func(known *Image) bool { return known.Mapped.Key() == i.Key() })
	if at < 0 || !m.all[at].Unchanged() {
		return nil
	}
	m.all[at].Mapped = i
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
