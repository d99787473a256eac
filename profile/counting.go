package profile

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"footfall/compile/instrument"
	"footfall/input"
	"footfall/process"
)

// A counting is the counts file of a running process as it was, as far as there is one.
type counting struct {
	name          string
	owners        *input.Owners
	before, after []byte
}

// begin and end read the file. What makes functions of it takes long, and the process goes
// on counting: that is done later.
func (c *counting) begin() { c.before, _ = readRegular(c.owners, c.name) }
func (c *counting) end()   { c.after, _ = readRegular(c.owners, c.name) }

// openRegular opens a file that others may have put there, of a limited size.
func openRegular(name string) (*os.File, error) {
	f, err := input.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || info.Size() > mostWhole() {
		f.Close()
		return nil, fmt.Errorf("%s has more than %d bytes", name, mostWhole())
	}
	return f, nil
}

// readRegular reads such a file, and notes whose it is: it says where programs are.
func readRegular(owners *input.Owners, name string) ([]byte, error) {
	f, err := owners.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return input.ReadAll(f, name, mostWhole())
}

// countsOf returns a name of the counts file of a running process by which we can
// open it, if possible when the process has ended, too. Where counters could not be
// mapped, the usual name is left.
func countsOf(pid int) string {
	if p, err := process.Open(pid); err == nil {
		defer p.Close()
		if path := MappedCounts(p); path != "" {
			if f, err := openRegular(path); err == nil {
				defer f.Close()
				if beginsAsCounts(f) {
					return path
				}
			}
			return fmt.Sprintf("/proc/%d/root%s", pid, path)
		}
	}
	return fmt.Sprintf("/proc/%d/cwd/footfall.%d.counts", pid, pid)
}

// MappedCounts finds the counts file of a process: it has mapped it, whatever its name
// is and wherever the process has gone since. The path is as the process sees it, ""
// if there is none.
func MappedCounts(p *process.Process) string {
	maps, _, _ := p.Maps()
	for _, m := range maps {
		if !m.Write || m.Deleted || !strings.HasPrefix(m.Path, "/") {
			continue
		}
		f, err := p.OpenInRoot(m.Path)
		if err != nil {
			continue
		}
		counts := beginsAsCounts(f)
		f.Close()
		if counts {
			return m.Path
		}
	}
	return ""
}

// beginsAsCounts tells whether a file is one. One that is being made has zeros there yet, as files of others have
// that programs map: databases, shared memory.
func beginsAsCounts(f *os.File) bool {
	b := make([]byte, 8)
	n, _ := io.ReadFull(f, b)
	return IsCounts(b[:n]) && b[0] != 0
}

// addTo adds to p what was counted in between. A process without a file, or with one
// that cannot be read, counts nothing.
func (c *counting) addTo(p *Profile) (*Profile, error) {
	all := []*Profile{p}
	if all = addCounts(all, c.after, c.owners); len(all) == 1 {
		return p, nil
	}
	if before, err := decode(c.before, c.owners); err == nil {
		shareSources(p, before)
		before.Scale(-1)
		before.Notes = nil
		all = append(all, before)
	}
	return Merge(all)
}

// AddCounts adds all that the sampled processes have counted in files that are
// newer than since. pattern is the program's FOOTFALL_OUT, "" if it has none.
func AddCounts(p *Profile, pattern string, since time.Time, owners *input.Owners) (*Profile, error) {
	all := []*Profile{p}
	fresh := func(name string) bool {
		info, err := input.Stat(name)
		return err == nil && info.Mode().IsRegular() && info.ModTime().After(since)
	}
	if pattern != "" && !strings.Contains(pattern, "%p") && fresh(pattern) {
		all = addCountsOf(all, pattern, owners) // whoever came first has it
	}
	for _, pid := range p.Processes {
		for n := 1; fresh(countsName(pattern, pid, n)); n++ {
			all = addCountsOf(all, countsName(pattern, pid, n), owners)
		}
	}
	return Merge(all)
}

// countsName is the file of the n-th program that a process was, from 1, as the
// runtime names it.
func countsName(pattern string, pid, n int) string {
	number := ""
	if n > 1 {
		number = "." + strconv.Itoa(n)
	}
	switch {
	case pattern == "":
		return fmt.Sprintf("footfall.%d%s.counts", pid, number)
	case strings.Contains(pattern, "%p"):
		return strings.ReplaceAll(pattern, "%p", strconv.Itoa(pid)) + number
	}
	return fmt.Sprintf("%s.%d%s", pattern, pid, number)
}

// addCountsOf is addCounts of a file by its name.
func addCountsOf(all []*Profile, name string, owners *input.Owners) []*Profile {
	b, _ := readRegular(owners, name)
	return addCounts(all, b, owners)
}

// addCounts appends what is in a counts file, nothing if it is none, and has the first
// profile name functions as that does.
func addCounts(all []*Profile, b []byte, owners *input.Owners) []*Profile {
	counts, err := decode(b, owners)
	if err != nil {
		return all
	}
	if c, _ := instrument.ReadCounts(b); c != nil {
		nameStripped(all[0], c)
	}
	shareSources(all[0], counts)
	return append(all, counts)
}
