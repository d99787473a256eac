//go:build linux

package process

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A Selector is what a TARGET of a command line stands for: processes that run, and,
// but for a pid alone, those that come later.
//
//	4711           that process
//	4711+          that process and its descendants
//	redis-server   what the kernel calls it, or the name of the file that it runs
//	post*          the same, with * ? and [...]
//	/usr/bin/x     the file that it runs; with * ? and [...], too
//	cgroup:NAME    the cgroup of that path, or of which that is a part, with those below; the
//	               beginning of a container's id
//	unit:NAME      a systemd unit: its cgroup. NAME.service, NAME.scope, NAME.slice say the same
type Selector struct {
	text    string
	kind    selectorKind
	pid     int
	pattern string
}

type selectorKind uint8

const (
	byPID selectorKind = iota
	byAncestor
	byName
	byPath
	byCgroup
	byNothing
)

// Everybody selects all processes.
func Everybody() Selector { return Selector{text: "*", kind: byNothing} }

// TargetKinds says in a few words what a TARGET may be, for messages.
const TargetKinds = "a pid, PID+ with its descendants, a name, a path, cgroup:NAME or unit:NAME"

// unitSuffixes are those of systemd units that have cgroups.
var unitSuffixes = []string{".service", ".scope", ".slice"}

// ParseSelector understands a TARGET.
func ParseSelector(text string) (Selector, error) {
	s := Selector{text: text, pattern: text}
	isUnit := func(name string) bool {
		return slices.ContainsFunc(unitSuffixes, func(suffix string) bool { return strings.HasSuffix(name, suffix) && len(name) > len(suffix) })
	}
	number, descends := strings.CutSuffix(text, "+")
	pid, err := strconv.Atoi(number)
	switch {
	case text == "":
		return s, fmt.Errorf("a TARGET is empty: it is %s", TargetKinds)
	case err == nil && pid > 0:
		s.kind, s.pid = byPID, pid
		if descends {
			s.kind = byAncestor
		}
		return s, nil
	case strings.HasPrefix(text, "cgroup:"):
		s.kind, s.pattern = byCgroup, strings.TrimPrefix(text, "cgroup:")
		if strings.Trim(s.pattern, "/") == "" {
			return s, fmt.Errorf("%s: the name of a cgroup is missing: a path below /sys/fs/cgroup, or a part of one", text)
		}
		return s, nil
	case strings.HasPrefix(text, "unit:"):
		s.kind, s.pattern = byCgroup, strings.TrimPrefix(text, "unit:")
		if s.pattern == "" {
			return s, fmt.Errorf("%s: the name of a unit is missing, as in unit:nginx", text)
		}
		if !isUnit(s.pattern) {
			s.pattern += ".service"
		}
		return s, nil
	case !strings.Contains(text, "/") && isUnit(text):
		s.kind = byCgroup
		return s, nil
	}
	s.kind = byName
	if strings.Contains(text, "/") {
		s.kind = byPath
		if s.pattern, err = filepath.Abs(text); err != nil {
			return s, err
		}
		if real, err := filepath.EvalSymlinks(s.pattern); err == nil {
			s.pattern = real // so does /proc/PID/exe
		}
	}
	if _, err := path.Match(s.pattern, ""); err != nil {
		return s, fmt.Errorf("%s: not a pattern: %w", text, err)
	}
	return s, nil
}

// String is the TARGET as it was typed.
func (s Selector) String() string { return s.text }

// PID is that of a selector of one process, which may have descendants; else 0.
func (s Selector) PID() int { return s.pid }

// Follows tells whether processes that come later may be selected: not by a pid alone.
func (s Selector) Follows() bool { return s.kind != byPID }

// Descends tells whether all descendants of a process are selected: whatever they become, also when a process
// in between has ended.
func (s Selector) Descends() bool { return s.kind == byAncestor }

// Find returns the processes that are selected now, by ascending pid; none is an error.
// The caller itself is left out. Of a pid it is not checked that there is one.
func (s Selector) Find() ([]int, error) {
	if s.kind == byPID {
		return []int{s.pid}, nil
	}
	all, err := List()
	if err != nil {
		return nil, err
	}
	is := s.among()
	found := slices.DeleteFunc(all, func(pid int) bool { return !is(pid) })
	if len(found) > 0 {
		return found, nil
	}
	switch s.kind {
	case byAncestor:
		return nil, fmt.Errorf("no process %d", s.pid)
	case byPath:
		return nil, fmt.Errorf("no process runs %s", s.pattern)
	case byCgroup:
		return nil, fmt.Errorf("no process is in a cgroup %q (they are below /sys/fs/cgroup; /proc/PID/cgroup shows that of a process)", s.pattern)
	}
	return nil, fmt.Errorf("no process is called %q", s.text)
}

// Selects tells whether a process is selected.
func (s Selector) Selects(pid int) bool { return s.among()(pid) }

// among returns what tells it of one process after the other.
func (s Selector) among() func(pid int) bool {
	switch s.kind {
	case byPID:
		return func(pid int) bool { return pid == s.pid }
	case byAncestor:
		return newAncestry(s.pid).has
	case byPath:
		return s.runs
	case byNothing:
		return func(int) bool { return true }
	case byCgroup:
		return func(pid int) bool {
			b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
			return err == nil && inCgroup(string(b), s.pattern)
		}
	}
	return s.isCalled
}

func (s Selector) isCalled(pid int) bool {
	if comm, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm"); err == nil && s.matches(strings.TrimSuffix(string(comm), "\n")) {
		return true
	}
	exe, err := exeOf(pid)
	return err == nil && s.matches(filepath.Base(exe))
}

func (s Selector) runs(pid int) bool {
	exe, err := exeOf(pid)
	return err == nil && s.matches(exe)
}

// matches compares with the pattern, which may be a name with [ or * in it, too.
func (s Selector) matches(name string) bool {
	if name == s.pattern {
		return true
	}
	is, _ := path.Match(s.pattern, name)
	return is
}

// exeOf is the file that a process runs, as the process sees it.
func exeOf(pid int) (string, error) {
	exe, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	return strings.TrimSuffix(exe, deletedSuffix), err
}

// An ancestry tells whose descendant a process is; what was found out is kept.
type ancestry struct {
	first int
	known map[int]bool
}

func newAncestry(first int) *ancestry {
	return &ancestry{first, map[int]bool{first: true, 0: false, 1: first == 1}}
}

func (a *ancestry) has(pid int) bool {
	is, known := a.known[pid]
	if known {
		return is
	}
	a.known[pid] = false // should they go in a circle
	parent, err := parentOf(pid)
	is = err == nil && a.has(parent)
	a.known[pid] = is
	return is
}

func parentOf(pid int) (int, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, err
	}
	if parent := statusField(b, "PPid"); parent > 0 {
		return parent, nil
	}
	return 0, errors.New("it has no parent")
}

// inCgroup tells whether a process is in a cgroup or below it, by its file cgroup, a line for
// each hierarchy; in version 2 there is one:
//
//	0::/system.slice/docker-6f9c0d….scope
func inCgroup(text, name string) bool {
	whole := strings.HasPrefix(name, "/") || strings.Contains(name, "/")
	name = strings.Trim(strings.TrimPrefix(name, "/sys/fs/cgroup/"), "/")
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) < 3 {
			continue
		}
		group := strings.Trim(parts[2], "/")
		if whole {
			if group == name || strings.HasPrefix(group, name+"/") {
				return true
			}
			continue
		}
		if slices.ContainsFunc(strings.Split(group, "/"), func(part string) bool { return part == name || isContainer(part, name) }) {
			return true
		}
	}
	return false
}

// isContainer tells whether a part of a cgroup's path is that of a container whose id begins
// so: docker-ID.scope, libpod-ID.scope, cri-containerd-ID.scope, or ID alone.
func isContainer(part, id string) bool {
	const shortest, length = 12, 64 // hexadecimal digits
	part = strings.TrimSuffix(part, ".scope")
	part = part[strings.LastIndexByte(part, '-')+1:]
	isHex := func(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }
	return len(part) == length && isHex(part) && len(id) >= shortest && isHex(id) && strings.HasPrefix(part, id)
}

// ContainerOf is the container that a process is in, by its cgroup: the first 12 digits of its
// id; "": in none that is known.
func ContainerOf(pid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return ""
	}
	for part := range strings.FieldsFuncSeq(string(b), func(r rune) bool { return r == '/' || r == '\n' || r == ':' }) {
		id := strings.TrimSuffix(part, ".scope")
		id = id[strings.LastIndexByte(id, '-')+1:]
		if len(id) > 12 && isContainer(part, id[:12]) {
			return id[:12]
		}
	}
	return ""
}
