//go:build linux

package live

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"footfall/formats/gcov"
	"footfall/input"
	"footfall/process"
)

// While libgcov writes data files it takes them one after the other, in the
// order of the list: it locks a file, adds its counts to the counters in memory,
// writes the sum and closes the file. Only when all are done it sets the flag in
// the root. What comes then is mostly the end of the program, or of the library.
const (
	dumpPatience  = 100 * time.Millisecond // for the end of what has written its data
	writePatience = time.Second            // for the end of writing
)

// Between two files nothing is locked, for some 15 % of the time. So locks are
// looked for several times if the first file of a list has been written lately.
const (
	lately    = time.Second
	lockLooks = 8
	moment    = 5 * time.Millisecond // from the end of writing to the flag, at most
)

// A fileStamp tells when a file was written; zero: it is not there.
type fileStamp struct {
	inode      uint64
	size       int64
	time, made unix.Timespec
	uid, gid   int
	mode       fs.FileMode // its permissions
}

func stampOf(name string) fileStamp {
	info, err := input.Stat(name)
	if err != nil {
		return fileStamp{}
	}
	return stampIn(info)
}

func stampIn(info fs.FileInfo) fileStamp {
	st := info.Sys().(*syscall.Stat_t)
	return fileStamp{st.Ino, st.Size, unix.Timespec(st.Mtim), unix.Timespec(st.Ctim), int(st.Uid), int(st.Gid), info.Mode().Perm()}
}

func (s fileStamp) when() time.Time { return time.Unix(s.time.Unix()) }

// fileStamps returns those of the files that are written first, by image.
func (p *CountedProcess) fileStamps() map[*image]fileStamp {
	stamps := make(map[*image]fileStamp)
	place, err := p.placer()
	if err != nil {
		return stamps
	}
	for _, im := range p.images {
		if len(im.units) > 0 {
			stamps[im] = stampOf(place.of(im.writtenFirst()))
		}
	}
	return stamps
}

// writtenFirst is the name of the unit that is first on the list.
func (im *image) writtenFirst() string {
	for _, u := range im.units {
		if im.first != nil && u.addr == im.address(im.first) {
			return u.name
		}
	}
	return im.units[0].name
}

// unsettled returns the images whose data files the program was perhaps writing
// while its counters were read: it has locked one, the flag in the root is another one
// now, or a file was written since a moment before, and its counts may be in memory.
// A library may have been closed, and opened again.
//
// The order matters. If a file was locked when the counters were read, it is either
// locked still or has been written by then.
func (p *CountedProcess) unsettled(units []Unit, before map[*image]fileStamp, began time.Time) []*image {
	looks := 1
	for _, stamp := range before {
		if time.Since(stamp.when()) < lately {
			looks = lockLooks
		}
	}
	var writing []*image
	for range looks {
		if writing = p.writing(); writing != nil {
			break
		}
	}
	if writing == nil && looks > 1 {
		writing = p.opened()
	}
	flags := p.flagsNow()
	now := p.fileStamps()
	byLoad := make(map[int][]Unit)
	for _, u := range units {
		byLoad[u.Load.ID] = append(byLoad[u.Load.ID], u)
	}
	var unsettled []*image
	for _, im := range p.images {
		units := byLoad[im.id]
		if len(units) == 0 || units[0].Load.Dumped && flags[im] == rootDumped {
			continue // what is written is known
		}
		stamp := now[im]
		old, known := before[im]
		written := known && stamp != old || stamp.when().After(began.Add(-moment))
		if slices.Contains(writing, im) || flags[im] != 0 || written && (p.mayHold(im, units) || p.haveFallen(im, units)) {
			unsettled = append(unsettled, im)
		}
	}
	return unsettled
}

// mayHold tells whether the counters of the unit that is written first may be the sum
// of its own and of what its file held. They are not if some counter is less than
// what the file holds now: then another process has written it, if perhaps not only
// that.
func (p *CountedProcess) mayHold(im *image, units []Unit) bool {
	i := slices.IndexFunc(units, func(u Unit) bool { return u.Name == im.writtenFirst() })
	place, err := p.placer()
	if i < 0 || err != nil {
		return true
	}
	file, err := p.readData(place.of(units[i].Name))
	if err != nil {
		return true // it is being written
	}
	change, err := units[i].Counts.Since(file)
	return err == nil && change.Ran > 0 && change.Fell == 0
}

// haveFallen tells whether counters of an image are less than they were a moment ago:
// the program has written and reset them, or closed the library and opened it again.
func (p *CountedProcess) haveFallen(im *image, before []Unit) bool {
	pl := p.readAlone(im)
	if pl == nil {
		return true
	}
	now, _ := p.unitsOf([]*image{im}, pl.buf)
	for _, u := range now {
		i := slices.IndexFunc(before, func(b Unit) bool { return b.Name == u.Name })
		if i < 0 {
			continue
		}
		if change, err := u.Counts.Since(before[i].Counts); err != nil || change.Fell > 0 {
			return true
		}
	}
	return false
}

// wait tells whether counters should be read again, because what has written its
// data files may be gone in a moment.
func (p *CountedProcess) wait(units []Unit, since time.Duration) bool {
	dumped := make(map[int]bool)
	for _, u := range units {
		if u.Load.Dumped {
			dumped[u.Load.ID] = true
		}
	}
	again := false
	for _, im := range p.images {
		switch {
		case !dumped[im.id]:
			im.waited, im.judged, im.earlier, im.added = false, false, false, nil
		case im.waited:
		case since < dumpPatience:
			again = true
		default:
			im.waited = true
		}
	}
	return again
}

// flagsNow reads whether images with counters have the flag of a dump: 0 or
// rootDumped, and -1 where the root is gone.
func (p *CountedProcess) flagsNow() map[*image]int {
	flags := make(map[*image]int)
	for _, im := range p.images {
		if im.root == 0 || len(im.units) == 0 {
			continue
		}
		root := make([]byte, im.rootSize())
		if err := p.proc.ReadRanges([]process.MemoryRange{{Addr: im.root, Bytes: root}}); err != nil || !bytes.HasPrefix(root, im.first) {
			flags[im] = -1
		} else {
			flags[im] = im.flags(root) & rootDumped
		}
	}
	return flags
}

// writing returns the images of which the process writes a data file now: which
// it has locked.
func (p *CountedProcess) writing() []*image { return p.writes(p.locks()) }

// locks are the inodes of files that the process has locked for writing.
func (p *CountedProcess) locks() []uint64 {
	f, err := os.Open("/proc/locks")
	if err != nil {
		return nil
	}
	defer f.Close()
	text := make([]byte, 0, 1<<12) // what is read at once is of one moment: between two readings a lock may be passed over
	for {
		n, err := f.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		if err != nil || n == 0 {
			return writeLocks(text, p.PID)
		}
		text = slices.Grow(text, 1<<12)
	}
}

// writes is writing, by what it has locked.
func (p *CountedProcess) writes(locked []uint64) []*image {
	if len(locked) == 0 {
		return nil
	}
	// It may lock other files.
	if place, err := p.placer(); err == nil {
		for _, im := range p.images {
			for _, u := range im.units {
				if slices.Contains(locked, stampOf(place.of(u.name)).inode) {
					return []*image{im}
				}
			}
		}
	}
	// It may have changed its environment, or its working directory.
	return p.opened()
}

// opened returns the images that a process perhaps writes a data file of: it has one open. It is between two locks then, or was waiting
// for one, and nobody has it by now, but the process has not run since: nothing tells of that otherwise.
func (p *CountedProcess) opened() []*image {
	dir := p.proc.Dir() + "/fd/"
	open, err := os.ReadDir(dir)
	if err == nil && slices.ContainsFunc(open, func(fd fs.DirEntry) bool {
		name, err := os.Readlink(dir + fd.Name())
		if err != nil || !strings.HasSuffix(name, dataSuffix) {
			return false
		}
		info, err := fd.Info()
		return err == nil && info.Mode()&0o200 != 0 // opened to be written
	}) {
		return p.images
	}
	return nil
}

const dataSuffix = ".gcda"

// writeLocks returns the inodes of the files that a process has locked as a
// whole for writing, or waits to lock, by lines of /proc/locks such as
//
//	1: POSIX  ADVISORY  WRITE 4711 fd:00:1234 0 EOF
//	1: -> POSIX  ADVISORY  WRITE 4712 fd:00:1234 0 EOF
func writeLocks(locks []byte, pid int) (inodes []uint64) {
	of := []byte(strconv.Itoa(pid))
	for line := range bytes.Lines(locks) {
		if !bytes.Contains(line, of) {
			continue
		}
		f := bytes.Fields(line)
		if len(f) == 9 && string(f[1]) == "->" {
			f = slices.Delete(f, 1, 2)
		}
		if len(f) != 8 || string(f[1]) != "POSIX" || string(f[3]) != "WRITE" || !bytes.Equal(f[4], of) || string(f[6]) != "0" || string(f[7]) != "EOF" {
			continue
		}
		inode, err := strconv.ParseUint(string(f[5][bytes.LastIndexByte(f[5], ':')+1:]), 10, 64)
		if err == nil {
			inodes = append(inodes, inode)
		}
	}
	return inodes
}

// judge makes the counters of what the program has written its own again, as far
// as it is known what came from the data files, and has the loads tell where it is
// not.
func (p *CountedProcess) judge(units []Unit) {
	byLoad := make(map[int][]Unit)
	for _, u := range units {
		byLoad[u.Load.ID] = append(byLoad[u.Load.ID], u)
	}
	for _, im := range p.images {
		units := byLoad[im.id]
		switch {
		case len(units) == 0:
		case !units[0].Load.Dumped:
			im.counted = units[0].Load.Counted
			if p.FollowFiles && !units[0].Load.Writing {
				p.followFiles(im)
			}
		default:
			if !im.judged {
				im.judged = true
				if im.added = p.added(im, units); im.added == nil {
					im.earlier = !p.onlyRun(units)
				}
			}
			units[0].Load.Earlier = im.earlier
			for _, u := range units {
				if earlier := im.added[u.Name]; earlier != nil {
					_ = u.Counts.Subtract(earlier) // of the same build: it was tried
				}
			}
		}
	}
}

// earlierRuns are the data files that an image would be written to, as they were before.
type earlierRuns struct {
	first  fileStamp // when they are written, this one is
	counts map[string]*gcov.Counts
}

// followFiles reads the data files of an image if they have been written since
// that was done last.
func (p *CountedProcess) followFiles(im *image) {
	place, err := p.placer()
	if err != nil {
		return
	}
	first := place.of(im.writtenFirst())
	stamp := stampOf(first)
	if im.files != nil && im.files.first == stamp {
		return
	}
	user, _ := p.proc.User()
	key := fmt.Sprintf("%d %x %s %s", user.UID, im.units[0].stamp, im.path, place.here(first))
	im.files = p.known.earlier(key, p.PID, stamp, func() map[string]*gcov.Counts {
		counts := make(map[string]*gcov.Counts)
		for _, u := range im.units {
			if c, err := p.readData(place.of(u.name)); err == nil && c.Stamp == u.stamp && c.Checksum == u.check {
				counts[u.name] = c
			}
		}
		return counts
	})
}

// added returns what libgcov has added to the counters of an image, by the names
// of units, if nobody else has written the files since they were read: each has one
// run more, and lies between what was there and what is in memory. nil: it is not
// known.
func (p *CountedProcess) added(im *image, units []Unit) map[string]*gcov.Counts {
	place, err := p.placer()
	if err != nil || im.files == nil {
		return nil
	}
	for _, u := range units {
		before := im.files.counts[u.Name]
		runs := 0
		if before != nil {
			runs, _ = before.Runs()
		}
		if !im.counted {
			runs++
		}
		after, err := p.readData(place.of(u.Name))
		if errors.Is(err, fs.ErrNotExist) && before == nil {
			continue // it cannot write there
		}
		if err != nil {
			return nil
		}
		if n, _ := after.Runs(); n != runs {
			return nil
		}
		if change, err := u.Counts.Since(after); err != nil || change.Fell > 0 {
			return nil
		}
		if before != nil {
			if change, err := after.Since(before); err != nil || change.Fell > 0 {
				return nil
			}
		}
	}
	return im.files.counts
}

// onlyRun tells whether the data files of units that the program has written
// hold its own run only, so that nothing was added to its counters.
func (p *CountedProcess) onlyRun(units []Unit) bool {
	place, err := p.placer()
	if err != nil {
		return false
	}
	for _, u := range units {
		file, err := p.readData(place.of(u.Name))
		if err != nil {
			return false
		}
		runs, _ := file.Runs()
		if change, err := u.Counts.Since(file); err != nil || runs != 1 || change.Fell > 0 {
			return false
		}
	}
	return true
}

// readData reads a data file, with the rights of the process's user.
func (p *CountedProcess) readData(name string) (*gcov.Counts, error) {
	user, err := p.proc.User()
	if err != nil {
		return nil, err
	}
	f, err := user.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := input.ReadAll(f, name, maxDataFile)
	if err != nil {
		return nil, err
	}
	return gcov.ReadCounts(b)
}
