package live

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"footfall/gcov"
)

// While libgcov writes data files it takes them one after the other: it locks
// a file, adds its counts to the counters in memory and writes the sum. Only
// when all are done it sets the flag in the root. What comes then is mostly the
// end of the program, or of the library.
const (
	dumpPatience  = 100 * time.Millisecond // for the end of what has written its data
	writePatience = time.Second            // for the end of writing
)

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
			im.waited, im.judged, im.earlier = false, false, false
		case im.waited:
		case since < dumpPatience:
			again = true
		default:
			im.waited = true
		}
	}
	return again
}

// writing tells whether the process writes a data file.
func (p *Process) writing() bool {
	locks, err := os.ReadFile("/proc/locks")
	if err != nil || !writeLocks(locks, p.PID) {
		return false
	}
	// It may lock other files.
	dir := fmt.Sprintf("/proc/%d/fd/", p.PID)
	open, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, fd := range open {
		if name, err := os.Readlink(dir + fd.Name()); err == nil && strings.HasSuffix(name, ".gcda") {
			return true
		}
	}
	return false
}

// writeLocks tells whether a process has locked a whole file for writing, by a
// line of /proc/locks such as
//
//	1: POSIX  ADVISORY  WRITE 4711 fd:00:1234 0 EOF
func writeLocks(locks []byte, pid int) bool {
	of := []byte(strconv.Itoa(pid))
	for line := range bytes.Lines(locks) {
		if !bytes.Contains(line, of) {
			continue
		}
		f := bytes.Fields(line)
		if len(f) == 8 && string(f[1]) == "POSIX" && string(f[3]) == "WRITE" && bytes.Equal(f[4], of) && string(f[6]) == "0" && string(f[7]) == "EOF" {
			return true
		}
	}
	return false
}

// judge completes what the loads tell about data files.
func (p *Process) judge(units []Unit, writing bool) {
	byLoad := make(map[int][]Unit)
	for _, u := range units {
		switch {
		case u.Load.Dumped:
			byLoad[u.Load.ID] = append(byLoad[u.Load.ID], u)
		case writing:
			u.Load.Writing = true
		}
	}
	for _, im := range p.images {
		if dumped := byLoad[im.id]; len(dumped) > 0 {
			if !im.judged {
				im.judged, im.earlier = true, !p.onlyRun(dumped)
			}
			dumped[0].Load.Earlier = im.earlier
		}
	}
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
