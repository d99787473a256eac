//go:build linux

package record

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"footfall/hook/patch"
	"footfall/hook/uprobe"
	"footfall/output"
	"footfall/process"
	"footfall/process/target"
)

// Uprobes that see children, too, are in all processes that run the file. For the program
// itself that is what is wanted; a library such as libc would make the whole machine slow,
// so that its functions are watched in the one process only, if others have it.

// sharing tells which of the files of a process others run, too.
type sharing struct {
	files    map[string]int // by device and inode: other processes that have it, not counting descendants
	exits    bool
	children bool            // children are to be recorded
	ownOnly  map[string]bool // names of files that are watched in the one process only
}

// newSharing looks at all processes.
func newSharing(p *process.Process, children, exits bool) *sharing {
	s := &sharing{files: make(map[string]int), exits: exits, children: children, ownOnly: make(map[string]bool)}
	if !children {
		return s
	}
	pids, _ := process.List()
	for _, pid := range pids {
		if pid == p.PID || descends(pid, p.PID) {
			continue
		}
		if other, err := process.Open(pid); err == nil {
			for key := range executableFiles(other) {
				s.files[key]++
			}
			other.Close()
		}
	}
	return s
}

// executableFiles are those that a process runs, by device and inode, as far as that is permitted to know.
func executableFiles(p *process.Process) map[string]bool {
	files := make(map[string]bool)
	maps, _, _ := p.Maps()
	for _, i := range p.Images(maps) {
		files[i.File()] = true
	}
	return files
}

// descends tells whether a process is a child of another one, or a child's.
func descends(pid, from int) bool {
	for range 64 {
		p, err := process.Open(pid)
		if err != nil {
			return false
		}
		pid, err = p.Parent()
		p.Close()
		if err != nil || pid <= 1 {
			return false
		}
		if pid == from {
			return true
		}
	}
	return false
}

// others returns how many other processes have the file of an image.
func (s *sharing) others(i *target.Image) int { return s.files[i.Mapped.File()] }

// onlyProcess tells whether functions of an image are to be watched in the one process
// only. Exits are not watched in others: what is in these may not bear it.
func (s *sharing) onlyProcess(i *target.Image) bool {
	only := !s.children || s.others(i) > 0 && (s.exits || !i.IsProgram())
	if only && s.children {
		s.ownOnly[filepath.Base(i.Path)] = true
	}
	return only
}

// guard finds the files, by device and inode, whose code a footfall has changed in another process, or is about to
// change: a breakpoint of the kernel in the first byte of a jump ends the program. Nobody begins that with these
// files before release.
func guard(p *process.Process, files map[string]bool) (changed map[string]bool, release func()) {
	changed = make(map[string]bool)
	looked := map[int]bool{p.PID: true}
	var releases []func()
	for fresh := true; fresh; { // one of them may have made another one meanwhile
		fresh = false
		pids, _ := process.List()
		for _, pid := range pids {
			if looked[pid] {
				continue
			}
			looked[pid] = true
			other, err := process.Open(pid)
			if err != nil {
				continue
			}
			releases = append(releases, func() { other.Close() })
			has := executableFiles(other)
			maps.DeleteFunc(has, func(file string, _ bool) bool { return !files[file] })
			if len(has) == 0 {
				continue
			}
			fresh = true
			letGo, taken, err := other.ClaimNow()
			releases = append(releases, letGo)
			if err == nil && (!taken || patch.Patches(other)) {
				maps.Copy(changed, has)
			}
		}
	}
	return changed, func() {
		for _, release := range slices.Backward(releases) {
			release()
		}
	}
}

// say says, at the beginning, what the watching costs others.
func (s *sharing) say(images []*target.Image, stderr io.Writer) {
	for _, i := range images {
		if n := s.others(i); i.IsProgram() && s.children && n > 0 && !s.onlyProcess(i) && !s.ownOnly[filepath.Base(i.Path)] {
			fmt.Fprintf(stderr, "footfall: %s %s, too: slower now, but not recorded; with --follow=false they are left alone, and children not recorded\n",
				output.Count(n, "other process runs", "other processes run"), filepath.Base(i.Path))
		}
	}
}

// sayOwnOnly says of which files children were not recorded.
func (s *sharing) sayOwnOnly(session *uprobe.ProbeSet, stderr io.Writer) {
	if forked := session.Forked(); forked > 0 && len(s.ownOnly) > 0 {
		var names []string
		for name := range s.ownOnly {
			names = append(names, name)
		}
		slices.Sort(names)
		fmt.Fprintf(stderr, "footfall: %s made by fork: without calls of functions in %s, which other processes run, too\n",
			output.Count(forked, "child", "children"), strings.Join(names, ", "))
	}
}
