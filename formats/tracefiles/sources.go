package tracefiles

import (
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
)

// sources asks for each name once where it is.
type sources struct {
	mu     sync.Mutex
	lookUp func(cwd, name string) (string, bool)
}

type resolved struct {
	path string
	keep bool
}

func newSources(o Options) *sources {
	s := &sources{lookUp: o.Source}
	if s.lookUp == nil {
		s.lookUp = func(cwd, name string) (string, bool) {
			if cwd != "" && !filepath.IsAbs(name) {
				name = filepath.Join(cwd, name)
			}
			return name, true
		}
	}
	return s
}

// resolve is the source's own memory of what sources said.
func (r *reader) resolve(cwd, name string) resolved {
	key := [2]string{cwd, name}
	if known, ok := r.resolved[key]; ok {
		return known
	}
	r.sources.mu.Lock()
	defer r.sources.mu.Unlock()
	var found resolved
	found.path, found.keep = r.sources.lookUp(cwd, name)
	r.resolved[key] = found
	return found
}

// withoutPath tells why a file cannot be used, without repeating its name.
func withoutPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
