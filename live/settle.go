package live

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"footfall/gcov"
	"footfall/proc"
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
)

// settled tells whether what was just read are counters of a program that was
// not writing data files meanwhile. In changed are the numbers of loads that
// have begun or ended to, or are gone.
func (p *Process) settled(units []Unit) (writing bool, changed map[int]bool) {
	looks := 1
	if p.wroteLately() {
		looks = lockLooks
	}
	for range looks {
		if writing = writing || p.writing(); writing {
			break
		}
	}
	return writing, p.changed(units)
}

// wait tells whether counters should be read again, because in a moment they
// may be better.
func (p *Process) wait(units []Unit, writing bool, since time.Duration) bool {
	if writing {
		return since < writePatience
	}
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

// changed returns the loads whose flags are other ones now than in the snapshot,
// or cannot be read.
func (p *Process) changed(units []Unit) map[int]bool {
	dumped := make(map[int]bool)
	for _, u := range units {
		dumped[u.Load.ID] = u.Load.Dumped
	}
	changed := make(map[int]bool)
	for _, im := range p.images {
		was, read := dumped[im.id]
		if !read || im.root == 0 {
			continue
		}
		root := make([]byte, im.rootSize())
		err := p.proc.ReadRanges([]proc.Range{{Addr: im.root, Bytes: root}})
		if err != nil || !bytes.HasPrefix(root, im.first) || im.flags(root)&rootDumped != 0 != was {
			changed[im.id] = true
		}
	}
	return changed
}

// wroteLately tells whether the first data file of some image has been written a
// moment ago, perhaps by the process.
func (p *Process) wroteLately() bool {
	place, err := p.placer()
	if err != nil {
		return false
	}
	for _, im := range p.images {
		if len(im.units) == 0 {
			continue
		}
		var st unix.Stat_t
		if unix.Stat(place.of(im.units[0].name), &st) == nil && time.Since(time.Unix(st.Mtim.Unix())) < lately {
			return true
		}
	}
	return false
}

// writing tells whether the process writes a data file: whether it has locked
// one.
func (p *Process) writing() bool {
	text, err := os.ReadFile("/proc/locks")
	if err != nil {
		return false
	}
	locked := writeLocks(text, p.PID)
	if len(locked) == 0 {
		return false
	}
	// It may lock other files.
	if place, err := p.placer(); err == nil {
		for _, im := range p.images {
			for _, u := range im.units {
				var st unix.Stat_t
				if unix.Stat(place.of(u.name), &st) == nil && slices.Contains(locked, st.Ino) {
					return true
				}
			}
		}
	}
	dir := fmt.Sprintf("/proc/%d/fd/", p.PID)
	open, err := os.ReadDir(dir)
	return err == nil && slices.ContainsFunc(open, func(fd fs.DirEntry) bool {
		name, err := os.Readlink(dir + fd.Name())
		return err == nil && strings.HasSuffix(name, dataSuffix)
	})
}

const dataSuffix = ".gcda"

// writeLocks returns the inodes of the files that a process has locked as a
// whole for writing, by lines of /proc/locks such as
//
//	1: POSIX  ADVISORY  WRITE 4711 fd:00:1234 0 EOF
func writeLocks(locks []byte, pid int) (inodes []uint64) {
	of := []byte(strconv.Itoa(pid))
	for line := range bytes.Lines(locks) {
		if !bytes.Contains(line, of) {
			continue
		}
		f := bytes.Fields(line)
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
func (p *Process) judge(units []Unit, writing bool) {
	byLoad := make(map[int][]Unit)
	for _, u := range units {
		byLoad[u.Load.ID] = append(byLoad[u.Load.ID], u)
		u.Load.Writing = writing && !u.Load.Dumped
	}
	for _, im := range p.images {
		units := byLoad[im.id]
		switch {
		case len(units) == 0:
		case !units[0].Load.Dumped:
			im.counted = units[0].Load.Counted
			if p.FollowFiles && !writing {
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
	first  unix.Stat_t // when they are written, this one is
	counts map[string]*gcov.Counts
}

// followFiles reads the data files of an image if they have been written since
// that was done last.
func (p *Process) followFiles(im *image) {
	place, err := p.placer()
	if err != nil {
		return
	}
	var st unix.Stat_t
	_ = unix.Stat(place.of(im.units[0].name), &st) // zero: it is not there
	if f := im.files; f != nil && f.first.Ino == st.Ino && f.first.Size == st.Size && f.first.Mtim == st.Mtim && f.first.Ctim == st.Ctim {
		return
	}
	im.files = &earlierRuns{st, make(map[string]*gcov.Counts)}
	for _, u := range im.units {
		if c, err := readData(place.of(u.name)); err == nil && c.Stamp == u.stamp && c.Checksum == u.check {
			im.files.counts[u.name] = c
		}
	}
}

// added returns what libgcov has added to the counters of an image, by the names
// of units, if nobody else has written the files since they were read: each has one
// run more, and lies between what was there and what is in memory. nil: it is not
// known.
func (p *Process) added(im *image, units []Unit) map[string]*gcov.Counts {
	place, err := p.placer()
	if err != nil || im.files == nil {
		return nil
	}
	for _, u := range units {
		before, after := im.files.counts[u.Name], (*gcov.Counts)(nil)
		runs := 0
		if before != nil {
			runs, _ = before.Runs()
		}
		if !im.counted {
			runs++
		}
		after, err := readData(place.of(u.Name))
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
func (p *Process) onlyRun(units []Unit) bool {
	place, err := p.placer()
	if err != nil {
		return false
	}
	for _, u := range units {
		file, err := readData(place.of(u.Name))
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

// readData reads a data file.
func readData(name string) (*gcov.Counts, error) {
	f, err := os.OpenFile(name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: no regular file", name)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxDataFile))
	if err != nil {
		return nil, err
	}
	return gcov.ReadCounts(b)
}
