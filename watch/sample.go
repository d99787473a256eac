package watch

import (
	"sync"
	"time"

	"footfall/input"
	"footfall/watch/growth"
)

// A sampler reads the coverage and compares it with what it has read before.
type sampler struct {
	source Source
	now    func() time.Time

	mu     sync.Mutex // held while a function of the source runs
	closed bool
	growth *growth.Comparer
}

func newSampler(src Source, shown func(string) string) *sampler {
	return &sampler{source: src, now: time.Now, growth: growth.New(func(name string) string { return clean(shown(name)) })}
}

// A sampled is the message that a sampler has done its work.
type sampled struct {
	picture *growth.Picture
	err     error
	took    time.Duration
	said    []string
	title   string // "": as before

	reset    bool  // counts were to start from zero
	resetErr error // but did not
}

// sample reads the coverage.
func (s *sampler) sample() sampled {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locked()
}

// reset starts counts from zero, and reads.
func (s *sampler) reset() sampled {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		if err := s.source.Reset(); err != nil {
			return sampled{reset: true, resetErr: err}
		}
	}
	s.growth.Restart()
	done := s.locked()
	done.reset = true
	return done
}

// open reads a source.
func (s *sampler) open(name string) *listing {
	s.mu.Lock()
	defer s.mu.Unlock()
	shown, read := s.growth.FileName(name), s.source.ReadFile
	if read == nil {
		read = input.ReadSource
	}
	if s.closed {
		return newSource(name, shown, nil, nil)
	}
	text, err := read(name)
	return newSource(name, shown, text, err)
}

// snapshot writes files.
func (s *sampler) snapshot() saved {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return saved{}
	}
	where, err := s.source.Snapshot()
	return saved{where, err}
}

// close waits for the function of the source that runs, and lets no other
// begin.
func (s *sampler) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

func (s *sampler) locked() sampled {
	if s.closed {
		return sampled{picture: &growth.Picture{}}
	}
	at := s.now() // counts are read first, then solved: this is closer than the end
	set, err := s.source.Next()
	var said []string
	if s.source.Said != nil {
		said = s.source.Said()
	}
	title := ""
	if s.source.TitleNow != nil {
		title = s.source.TitleNow()
	}
	if err != nil {
		return sampled{err: err, took: s.now().Sub(at), said: said, title: title}
	}
	return sampled{picture: s.growth.Take(set, at), took: s.now().Sub(at), said: said, title: title}
}
