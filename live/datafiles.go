//go:build linux

package live

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"footfall/binary"
	"footfall/formats/gcov"
	"footfall/input"
	"footfall/process"
)

// A fileSet is the data files that the processes of a family write for an image: how they were
// before the first one did, and are now. The difference is what those have counted that wrote them.
type fileSet struct {
	*layout
	names []string // by unit
	user  input.User
	late  bool // it was seen first when a process had written them perhaps

	// Of the one who looks.
	stamps      []fileStamp
	before, now words
	runs        int // of the first file that is written, less those before
	ranBefore   int

	dumps int // members that have ended and have written them; the family's lock
}

// filesOf is the set of an image of a member.
func (f *Family) filesOf(m *member, im *placed, when stage) *fileSet {
	if m.place == nil {
		finder := &CountedProcess{PID: m.pid, proc: m.proc}
		place, err := finder.placer()
		if err != nil {
			return nil
		}
		m.place = place
	}
	first := m.place.of(im.writtenFirst())
	key := im.file + " " + first
	f.mu.Lock()
	s := f.files[key]
	f.mu.Unlock()
	if s != nil && s.layout == im.layout {
		return s
	}
	user, err := m.proc.User()
	if err != nil {
		return nil
	}
	s = &fileSet{layout: im.layout, user: user, late: when == ending, before: make(words, im.size()), now: make(words, im.size()), stamps: make([]fileStamp, len(im.units))}
	for _, u := range im.units {
		s.names = append(s.names, m.place.of(u.name))
	}
	s.begin(f)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files[key] = s
	return s
}

// begin reads the files as they are before any member has written them.
func (s *fileSet) begin(f *Family) {
	s.refresh(nil)
	earlier := false
	for i, u := range s.units {
		if s.late && s.stamps[i].inode != 0 && time.Unix(s.stamps[i].made.Unix()).After(f.began) {
			continue // it may have been made by a member: all of it counts, which cannot be too much if it was made since
		}
		earlier = earlier || s.stamps[i].inode != 0
		s.eachCounterOf(u, func(at, n int) { copy(s.before[at:at+n], s.now[at:at+n]) })
	}
	s.ranBefore = s.runs
	if s.late && earlier {
		f.problem(fmt.Errorf("%s: it was loaded for the first time by a process that has ended, and which had data files of earlier runs: what that process counted in it is not known", s.path))
	}
}

// refresh reads the files that have been written since it was last called. One that is just being
// written is read the next time.
func (s *fileSet) refresh(f *Family) {
	for i, u := range s.units {
		stamp := stampOf(s.names[i])
		if stamp == s.stamps[i] {
			continue
		}
		c, err := s.readFile(s.names[i])
		switch {
		case err == nil:
		case errors.Is(err, fs.ErrNotExist) && s.stamps[i].inode != 0:
			s.removed(f, u)
			s.stamps[i] = fileStamp{}
			continue
		default:
			continue
		}
		if s.stamps[i].inode != 0 && stamp.inode != s.stamps[i].inode {
			s.removed(f, u)
		}
		if !s.scatter(u, c, s.now) {
			continue // of another build: libgcov replaces it, so that nothing was there
		}
		s.stamps[i] = stamp
		if u.name == s.writtenFirst() {
			s.runs, _ = c.Runs()
		}
	}
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch ran := s.runs - s.ranBefore; {
	case ran > s.dumps+f.replaced+len(f.members):
		f.note(fmt.Errorf("%s: its data files are written by other processes, too: what these count is in the counts", s.path))
	case ran < s.dumps && len(f.members) == 0:
		f.note(fmt.Errorf("%s: %d processes have not written their data files, as it seems: what they counted is not known", s.path, s.dumps-ran))
	}
}

// removed begins anew with a file that was removed: what it had more than before was counted.
func (s *fileSet) removed(f *Family, u *unit) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	ended := f.sumOf(s.layout).ended
	s.eachCounterOf(u, func(at, n int) {
		for i := at; i < at+n; i++ {
			ended[i] += s.now[i] - s.before[i]
			s.now[i], s.before[i] = 0, 0
		}
	})
	if u.name == s.writtenFirst() {
		s.ranBefore = 0
		s.dumps = 0
	}
	f.note(fmt.Errorf("%s: its data files were removed: what processes counted that wrote them between the last look and then is not known", s.path))
}

func (s *fileSet) readFile(name string) (*gcov.Counts, error) {
	r, err := s.user.Open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := input.ReadAll(r, name, maxDataFile)
	if err != nil {
		return nil, err
	}
	return gcov.ReadCounts(b)
}

// wasWritten tells whether a member may have written the files: somebody has since it was seen
// first. There are users who may not write where others do.
func (s *fileSet) wasWritten(m *member) bool {
	return s != nil && stampOf(s.firstName()).when().After(m.began.Add(-clockTick))
}

// clockTick is how far the times of files are behind, at most.
const clockTick = 20 * time.Millisecond

func (s *fileSet) firstName() string {
	for i, u := range s.units {
		if u.name == s.writtenFirst() {
			return s.names[i]
		}
	}
	return s.names[0]
}

// isWriting tells whether the counters in w may be a sum with those of files because the
// process is writing them: not if the first one has less than its file.
func (im *placed) isWriting(m *member, w words) bool {
	for _, u := range im.units {
		if u.name != im.writtenFirst() {
			continue
		}
		less := false
		im.eachCounterOf(u, func(at, n int) {
			for i := at; i < at+n && !less; i++ {
				less = w[i] < im.files.now[i]
			}
		})
		if less {
			return false
		}
	}
	finder := &CountedProcess{PID: m.pid, proc: m.proc, images: []*image{im.image}}
	for range lockLooks {
		if finder.writing() != nil {
			return true
		}
	}
	return false
}

// wrapsFork tells whether a program has libgcov's wrapper of fork.
func wrapsFork(mapped *process.MappedFile) bool {
	r, err := mapped.Open()
	if err != nil {
		return true
	}
	defer r.Close()
	f, err := binary.Open(r)
	if err != nil {
		return true
	}
	at, err := f.Symbols("__gcov_fork")
	return err != nil || len(at) > 0
}
