//go:build linux

package live

import (
	encoding "encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"footfall/binary"
	"footfall/formats/gcov"
	"footfall/input"
	"footfall/output"
	"footfall/process"
)

// A fileSet is the data files that the processes of a family write for an image: how they were
// before the first one did, and are now. The difference is what those have counted that wrote them.
type fileSet struct {
	*layout
	names  []string // by unit; below way
	user   input.User
	late   bool // it was seen first when a process had written them perhaps
	prompt bool // their file system answers at once

	mu          sync.Mutex // of what follows, but dumps
	way         *reach     // nil: our file system
	stamps      []fileStamp
	unsure      []bool // written so lately when they were read that they may since have been without another time
	before, now words
	runs        int // of the first file that is written, less those before
	ranBefore   int
	looks       int          // how often they were read
	read        time.Time    // all were, last
	older       firstCounted // how they were when that was done before

	// The family's lock:
	dumps    int // members that have ended and have written them
	removals int // of their first file
}

// A firstCounted is the first unit, in the order in which its files are written, that had counted something, by read.
type firstCounted struct {
	unit   int // of the units, -1: none had
	values []uint64
	read   time.Time
}

// firstCounts is that of a set, which is locked, as it is now.
func (s *fileSet) firstCounts() firstCounted {
	for _, i := range s.inOrder {
		var values []uint64
		any := false
		s.eachCounterOf(s.units[i], func(at, n int) {
			values = append(values, s.now[at:at+n]...)
			any = any || slices.ContainsFunc(s.now[at:at+n], func(x uint64) bool { return x != 0 })
		})
		if any {
			return firstCounted{i, values, s.read}
		}
	}
	return firstCounted{-1, nil, s.read}
}

// filesOf is the set of an image of a member.
func (f *Family) filesOf(m *member, im *placed, when stage) (*fileSet, error) {
	place, err := m.places(im)
	if err != nil {
		return nil, err
	}
	way, err := f.reachOf(m.proc)
	if err != nil {
		return nil, err
	}
	name := place.here
	key := im.file + " "
	if way != nil {
		name = place.below
		key += way.key
	}
	key += name(place.of(im.writtenFirst()))
	f.mu.Lock()
	s := f.files[key]
	f.mu.Unlock()
	if s != nil && s.layout == im.layout {
		s.mu.Lock()
		defer s.mu.Unlock()
		if way != nil && s.way.dir() == "" {
			s.way = way
		}
		return s, nil
	}
	user, err := m.proc.User()
	if err != nil {
		return nil, err
	}
	if !f.hasRoom(2 * im.size()) {
		return nil, errRoom
	}
	s = &fileSet{
		layout: im.layout, way: way, user: user, late: when == ending,
		before: make(words, im.size()), now: make(words, im.size()),
		stamps: make([]fileStamp, len(im.units)), unsure: make([]bool, len(im.units)),
	}
	for _, u := range im.units {
		s.names = append(s.names, name(place.of(u.name)))
	}
	s.begin(f)
	s.prompt = way == nil && answersAtOnce(s.firstName())
	f.mu.Lock()
	defer f.mu.Unlock()
	if other := f.files[key]; other != nil && other.layout == im.layout {
		return other, nil // of another process, found meanwhile
	}
	f.files[key] = s
	f.sets = append(f.sets, s)
	return s, nil
}

// localFiles are file systems for which neither another process nor another machine answers, as statfs
// tells them.
var localFiles = []int64{
	unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC,
}

// answersAtOnce tells whether a file, or that which is to be there, is on such a file system.
func answersAtOnce(name string) bool {
	for dir := filepath.Dir(name); ; dir = filepath.Dir(dir) {
		if info, err := input.Stat(dir); err == nil && info.IsDir() {
			var st unix.Statfs_t
			return unix.Statfs(dir, &st) == nil && slices.Contains(localFiles, int64(st.Type))
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

// stat tells of the files now, as far as they are there; nil: of none that can be known.
func (s *fileSet) stat(names []string) []fileStamp {
	stamps := make([]fileStamp, len(names))
	if s.way == nil {
		for i, name := range names {
			stamps[i] = stampOf(name)
		}
		return stamps
	}
	dir := s.way.dir()
	if dir == "" {
		return nil
	}
	infos, err := s.user.StatsBelow(dir, names)
	if err != nil {
		return nil
	}
	for i, info := range infos {
		if info != nil {
			stamps[i] = stampIn(info)
		}
	}
	return stamps
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
		f.problem(fmt.Errorf("%s: a process that has ended was the first to write data files that held earlier runs (%s): what it counted there is not known", s.path, output.Printable(s.firstName())))
	}
}

// refresh reads the files that have been written since it was last called. One that is just being
// written is read the next time.
func (s *fileSet) refresh(f *Family) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.older = s.firstCounts()
	defer func() { s.looks, s.read = s.looks+1, time.Now() }()
	for i, stamp := range s.stat(s.names) {
		u := s.units[i]
		if stamp == s.stamps[i] && !s.unsure[i] {
			continue
		}
		began := time.Now()
		c, err := s.readFile(s.names[i])
		switch {
		case err == nil:
		case errors.Is(err, fs.ErrNotExist) && s.stamps[i].inode != 0:
			s.removed(f, u)
			s.stamps[i], s.unsure[i] = fileStamp{}, false
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
		s.stamps[i], s.unsure[i] = stamp, began.Sub(stamp.when()) < clockTick
		if u.name == s.writtenFirst() {
			s.runs, _ = c.Runs()
		}
	}
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case s.runs-s.ranBefore <= s.dumps+f.replaced+len(f.members):
	case s.program:
		f.note(fmt.Errorf("%s: its data files are written by other processes, too: what these count is in the counts", s.path))
	default: // that it was closed is not seen if it is at the same place again at the next look
		f.note(fmt.Errorf("%s: it was closed and loaded again, or its data files are written by other processes, too, whose counts are among these then", s.path))
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
	s.older.unit = -1
	if u.name == s.writtenFirst() {
		s.runs, s.ranBefore, s.dumps = 0, 0, 0
		s.removals++
	}
	f.note(fmt.Errorf("%s: its data files were removed: what processes counted that wrote them between the last look and then is not known", s.path))
}

func (s *fileSet) readFile(name string) (_ *gcov.Counts, err error) {
	var r *os.File
	if s.way == nil {
		r, err = s.user.Open(name)
	} else if dir := s.way.dir(); dir != "" {
		r, err = s.user.OpenBelow(dir, name)
	} else {
		err = errReaches
	}
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

// wasWritten tells whether a member that has done so may have written the files: somebody has since it was seen
// first, and its user may. There are users who may not write where others do. It is asked of the last one, as the first may have been
// written before.
func (s *fileSet) wasWritten(m *member) bool {
	if s == nil {
		return false
	}
	stamp := s.lastStamp()
	if stamp.inode == 0 || !stamp.when().After(m.began.Add(-clockTick)) {
		return false
	}
	if stamp.mode&0o002 != 0 {
		return true
	}
	if uid, err := m.proc.Owner(); err == nil && uid == stamp.uid && stamp.mode&0o200 != 0 {
		return true
	}
	user, err := m.proc.User()
	return err != nil || stamp.mayWrite(user)
}

// lastStamp tells of the file that is written last. A process may stand still meanwhile: where the file system answers at once
// nobody else is asked to wait for it.
func (s *fileSet) lastStamp() (stamp fileStamp) {
	name := s.names[s.last]
	if s.prompt {
		if info, err := os.Stat(name); err == nil {
			stamp = stampIn(info)
		}
		return stamp
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if stamps := s.stat([]string{name}); stamps != nil {
		stamp = stamps[0]
	}
	return stamp
}

func (s *fileStamp) mayWrite(u input.User) bool {
	switch {
	case u.UID == 0:
		return true
	case s.uid == u.UID:
		return s.mode&0o200 != 0
	case s.gid == u.GID || slices.Contains(u.Groups, uint32(s.gid)):
		return s.mode&0o020 != 0
	}
	return s.mode&0o002 != 0
}

// wroteOneMore tells whether a process that has just become another program, or has closed a library, had written the files
// before, as libgcov does it: more have written them than is known of. It notes it, then. That is asked for before the files
// are read: who writes them meanwhile, and is noted, is not to be taken for this one.
func (s *fileSet) wroteOneMore(f *Family) bool {
	for {
		f.mu.Lock()
		known, removals := s.dumps, s.removals
		f.mu.Unlock()
		runs, is := s.runsNow()
		s.mu.Lock()
		before := s.ranBefore
		s.mu.Unlock()
		f.mu.Lock()
		switch {
		case s.removals != removals:
			f.mu.Unlock()
			continue
		case is && runs-before <= known:
			f.mu.Unlock()
			return false
		}
		s.dumps++
		f.mu.Unlock()
		return true
	}
}

// runsNow reads how many have written the first file so far. Others may just be writing it; false: for too long.
func (s *fileSet) runsNow() (runs int, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := []string{s.firstName()}
	for end := time.Now().Add(standstill / 2); time.Now().Before(end); time.Sleep(time.Millisecond) {
		before := s.stat(names)
		c, err := s.readFile(names[0])
		after := s.stat(names)
		if before == nil || !slices.Equal(before, after) {
			continue
		}
		if err == nil {
			runs, _ = c.Runs()
			return runs, true
		}
		if errors.Is(err, fs.ErrNotExist) {
			return 0, true
		}
	}
	return 0, false
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

// mayHold tells whether the counters in w, which have just been read, may be a sum with those of
// files, because the process is writing them. Counters that are less than what the file had before the process can have begun do not hold it;
// nothing that was added makes no difference. (What the file has now others may have added since the process has written it.) The files
// are written in the order of the list. Most processes have counted less in the first unit than its file has, where it says no more
// when that was written: files are asked for one after another, and none that does not matter.
func (im *placed) mayHold(m *member, w words) (holds bool) {
	s := im.files
	s.mu.Lock()
	defer s.mu.Unlock()
	hadNot := im.heldNothing > 0 && im.heldNothing == s.looks-1 || m.fromStart && !s.older.read.IsZero() && m.began.After(s.older.read)
	defer func() {
		if !holds {
			im.heldNothing = s.looks
		}
	}()
	stamp := func(i int) fileStamp { return stampOf(s.names[i]) }
	if s.way != nil { // each is asked for by another thread, with rights of its own: all at once
		stamps := s.stat(s.names)
		if stamps == nil {
			return false
		}
		stamp = func(i int) fileStamp { return stamps[i] }
	}
	for _, i := range im.inOrder {
		less, none := false, true
		im.eachCounterOf(im.units[i], func(at, n int) {
			for i := at; i < at+n; i++ {
				none = none && s.now[i] == 0
			}
		})
		if hadNot && s.older.unit == i {
			older := s.older.values
			im.eachCounterOf(im.units[i], func(at, n int) {
				for k, x := range w[at : at+n] {
					less = less || x < older[k]
				}
				older = older[n:]
			})
		}
		switch {
		case less:
			// It may have begun to write while w was read: what is written first was read before, and others after that.
			return !im.isLess(m, im.units[i]) && im.mayBeWriting(m)
		case !none, stamp(i) != s.stamps[i] && s.anyNow(i): // it may have been this process
			return im.mayBeWriting(m)
		}
	}
	return false
}

// isLess tells whether some counter of a unit, which is that of older, is less now than what its file, of a set that is locked, had then.
func (im *placed) isLess(m *member, u *unit) (less bool) {
	var was [][]uint64
	var ranges []process.MemoryRange
	older := im.files.older.values
	im.eachCounterOf(u, func(at, n int) {
		before := older[:n]
		older = older[n:]
		if addr, is := im.addressOf(at); is {
			was = append(was, before)
			ranges = append(ranges, process.MemoryRange{Addr: addr + im.at - im.start, Bytes: make([]byte, 8*n)})
		}
	})
	if m.proc.ReadRanges(ranges) != nil {
		return false
	}
	for k, before := range was {
		for i, x := range before {
			less = less || encoding.LittleEndian.Uint64(ranges[k].Bytes[8*i:]) < x
		}
	}
	return less
}

// mayBeWriting tells whether a process may be between the first of its data files and the flag that is set after the last:
// it has one open, or it has not run since, so that it may have been interrupted where none is.
// If it is not there now, and the flag is not set then, it was not when its counters were read.
func (im *placed) mayBeWriting(m *member) bool {
	finder := m.finder(im)
	first, sleeps, err := m.proc.Activity()
	last, looks := first, 0 // of one that has run before each
	for end := time.Now().Add(4 * moment); err == nil && time.Now().Before(end); time.Sleep(moment / 8) {
		if finder.writing() != nil || finder.opened() != nil {
			return true
		}
		slept, ran := sleeps, last
		if last, sleeps, err = m.proc.Activity(); last != ran {
			looks++
		}
		if slept && sleeps && last == ran || looks > lockLooks && last-first > moment {
			return false
		}
	}
	return true
}

// anyNow tells whether some counter in the file of a unit is not zero, or cannot be read.
func (s *fileSet) anyNow(i int) bool {
	c, err := s.readFile(s.names[i])
	return err != nil && !errors.Is(err, fs.ErrNotExist) || err == nil && c.Largest() != 0
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
