//go:build linux

package live

import (
	"os"
	"path"
	"strings"

	"footfall/process"
)

// Surroundings are what the names of the data files depend on that a member writes, besides what is mapped in it: it may change
// them at any time, as servers do that give themselves another environment or another root. They are not changed: others
// know them, too.
type surroundings struct {
	env     map[string]string
	environ *process.Environ // where that is, nil: it is not known
	root    string           // "": ours
	dir     string           // "": no name depends on it
}

// look finds those of a member, which is locked, as they are now.
func (s *surroundings) look(m *member) (*surroundings, error) {
	finder := &CountedProcess{PID: m.pid, proc: m.proc, guest: m.guest}
	if s != nil {
		finder.environ = s.environ
	}
	env, err := finder.environment()
	if err != nil {
		return nil, err
	}
	root, err := rootKey(m.proc.Root())
	return &surroundings{env: env, environ: finder.environ, root: root}, err
}

// places tells where a member, which is locked, writes the data files of an image.
func (m *member) places(im *placed) (place *placer, err error) {
	if m.around == nil {
		if m.around, err = m.around.look(m); err != nil {
			return nil, err
		}
	}
	place, err = m.finder(im).placerBy(m.around.env)
	if err != nil || m.around.dir != "" || path.IsAbs(place.relocate(im.writtenFirst())) {
		return place, err
	}
	within := *m.around
	if within.dir, err = os.Readlink(m.proc.Dir() + "/cwd"); err != nil {
		return nil, err
	}
	m.around = &within
	return place, nil
}

// are tells whether a process still has them. It waits for nothing.
func (s *surroundings) are(p *process.Process) bool {
	if root, err := rootKey(p.Root()); err != nil || root != s.root {
		return false
	}
	if s.dir != "" {
		if dir, err := os.Readlink(p.Dir() + "/cwd"); err != nil || dir != s.dir {
			return false
		}
	}
	return s.environ == nil || p.Unchanged(s.environ)
}

// follow has a member, which is locked, write the data files of its surroundings, if those are not what they were.
// What was known of its images is not changed: others read it.
func (f *Family) follow(m *member, when stage) {
	around, err := m.around.look(m)
	if err != nil {
		return
	}
	m.around = around
	for i, im := range m.images {
		if im.files == nil || im.parted {
			continue
		}
		if place, err := m.places(im); err == nil && strings.Contains(place.relocate(im.writtenFirst()), "%p") {
			continue // each process has its own, that hold nobody else's
		}
		moved := *im
		moved.heldNothing = 0
		if moved.files, err = f.filesOf(m, im, when); err != nil {
			f.problem(errFiles(im, err))
			continue
		}
		m.images[i] = &moved
	}
}

// finder looks at one image of a member.
func (m *member) finder(im *placed) *CountedProcess {
	p := &CountedProcess{PID: m.pid, proc: m.proc, images: []*image{im.image}, guest: m.guest}
	if m.around != nil {
		p.environ, p.env = m.around.environ, m.around.env
	}
	return p
}
