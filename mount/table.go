package mount

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"footfall/live"
	"footfall/output"
	"footfall/proc"
)

// maxEnded is how many processes that have ended are kept; of more the oldest
// go.
const maxEnded = 100

// A table is the processes that have directories.
type table struct {
	mu      sync.Mutex
	byName  map[string]*process // by the directory's name
	running map[int]*process    // by pid; some may have ended unnoticed
	ended   []*process          // in the order of their ends

	scanMu   sync.Mutex // of those below, held while processes are looked for
	looked   map[int]*look
	scanned  time.Time
	scanTook time.Duration

	stopOnce sync.Once
}

// A look is what was found out about a process without counters.
type look struct {
	id     proc.Identity
	maps   string // its memory map; "": not looked at
	denied bool   // we may not look into it
	told   bool   // that it does not let itself be looked into
	first  time.Time
	again  time.Time // when to look next
}

func (t *table) init() {
	t.byName = make(map[string]*process)
	t.running = make(map[int]*process)
	t.looked = make(map[int]*look)
}

// processes returns all by ascending pid, and the names of their directories.
func (t *table) processes() ([]*process, []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	names := slices.SortedFunc(maps.Keys(t.byName), func(a, b string) int {
		return cmp.Or(cmp.Compare(t.byName[a].pid, t.byName[b].pid), cmp.Compare(a, b))
	})
	all := make([]*process, len(names))
	for i, name := range names {
		all[i] = t.byName[name]
	}
	return all, names
}

// named returns the process of a directory.
func (t *table) named(name string) *process {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byName[name]
}

// isRunning tells whether the pid has a directory and has not ended.
func (t *table) isRunning(pid int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.running[pid]
	return p != nil && !p.ended.Load()
}

// add gives a process its directory. One that has ended and was called the same
// gets a number behind its name.
func (t *table) add(p *process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.byName[p.name]; old != nil {
		n := 1
		for t.byName[p.name+"."+strconv.Itoa(n)] != nil {
			n++
		}
		t.byName[p.name+"."+strconv.Itoa(n)] = old
	}
	t.byName[p.name] = p
	t.running[p.pid] = p
}

// retire moves those that have ended out of the way of new ones.
func (t *table) retire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for pid, p := range t.running {
		if p.ended.Load() {
			delete(t.running, pid)
			t.ended = append(t.ended, p)
		}
	}
	for len(t.ended) > maxEnded {
		t.forget(0)
	}
}

// remove forgets a process that has ended. It returns false for one that runs.
func (t *table) remove(p *process) bool {
	t.retire()
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.ended, p)
	if i < 0 {
		return false
	}
	t.forget(i)
	return true
}

// forget drops the i-th of the ended.
func (t *table) forget(i int) {
	p := t.ended[i]
	t.ended = slices.Delete(t.ended, i, i+1)
	maps.DeleteFunc(t.byName, func(_ string, q *process) bool { return p == q })
}

// close lets go of all processes.
func (t *table) close() {
	all, _ := t.processes()
	for _, p := range all {
		p.close()
	}
}

// Targets are which processes are wanted.
type targets struct {
	all    bool
	kernel bool
	pids   []int
	names  []string
}

func parseTargets(args []string) (targets, error) {
	t := targets{all: len(args) == 0}
	for _, arg := range args {
		pid, err := strconv.Atoi(arg)
		switch {
		case arg == "":
			return t, errors.New("a target is a pid, the name of a process, or kernel: one is empty")
		case arg == "kernel":
			t.kernel = true
		case err == nil:
			t.pids = append(t.pids, pid)
		default:
			t.names = append(t.names, arg)
		}
	}
	return t, nil
}

// find returns the pids that are wanted now.
func (t *targets) find() ([]int, error) {
	if t.all {
		return proc.List()
	}
	pids := slices.Clone(t.pids)
	for _, name := range t.names {
		found, err := proc.Find(name)
		if err == nil {
			pids = append(pids, found...)
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

// firstScan looks for all processes. A pid that was asked for must be there, a
// name may come later, and so may the counters of both: with a library.
func (m *Mount) firstScan() error {
	if m.targets.kernel {
		k, err := live.OpenKernel("")
		if err != nil {
			return err
		}
		p := newProcess(m, 0, "kernel", "", k)
		p.keep()
		m.table.add(p)
	}
	for _, pid := range m.targets.pids {
		switch err := m.adopt(pid); {
		case errors.Is(err, live.ErrNoCounters):
			m.notice(fmt.Sprintf("%v; it appears when it opens a library that has some", err))
		case err != nil:
			return err
		}
	}
	m.scan(0)
	if n := m.table.denied(); n > 0 && m.targets.all && os.Geteuid() != 0 {
		m.notice(fmt.Sprintf("%d of the processes cannot be looked into: run footfall as root for those", n))
	}
	for _, name := range m.targets.names {
		if pids, err := proc.Find(name); err != nil {
			m.notice(fmt.Sprintf("%v so far: it appears when it starts", err))
		} else if !slices.ContainsFunc(pids, m.table.isRunning) {
			m.notice(fmt.Sprintf("no process called %q has counters so far", name))
		}
	}
	return nil
}

// scan looks for processes that are new, unless that was done within the given
// time, or took more than a tenth of the time since.
func (m *Mount) scan(within time.Duration) {
	t := &m.table
	t.scanMu.Lock()
	defer t.scanMu.Unlock()
	if within > 0 && time.Since(t.scanned) < max(within, sharing*t.scanTook) {
		return
	}
	t.scanned = time.Now()
	pids, err := m.targets.find()
	if err != nil {
		m.notice(err.Error())
		return
	}
	t.retire()
	for _, pid := range pids {
		if !t.isRunning(pid) {
			m.look(pid)
		}
	}
	for pid := range t.looked {
		if _, there := slices.BinarySearch(pids, pid); !there {
			delete(t.looked, pid)
		}
	}
	t.scanTook = time.Since(t.scanned)
}

// denied counts the processes that we may not look into.
func (t *table) denied() int {
	t.scanMu.Lock()
	defer t.scanMu.Unlock()
	n := 0
	for _, l := range t.looked {
		if l.denied {
			n++
		}
	}
	return n
}

const (
	oftenUntil = 10 * time.Second // after this time a process is only looked at
	seldom     = 10 * time.Second // so often, if its memory map has changed;
	wanted     = time.Second      // so often if it was asked for
)

// look looks for counters in a process that had none so far. A young one may
// be about to become another program or to load a library.
func (m *Mount) look(pid int) {
	now := time.Now()
	l := m.table.looked[pid]
	if l == nil {
		l = &look{first: now}
		m.table.looked[pid] = l
	}
	id, err := proc.Identify(pid)
	if err != nil || id == l.id && now.Before(l.again) {
		return
	}
	if id != l.id {
		*l = look{id: id, first: now}
	}
	age := now.Sub(l.first)
	rest := wanted
	if m.targets.all {
		rest = seldom
	}
	l.again = now.Add(min(age, rest))
	if age > oftenUntil && !l.changed(pid) {
		return
	}
	switch err := m.adopt(pid); {
	case err == nil:
		delete(m.table.looked, pid)
	case errors.Is(err, live.ErrNoCounters), errors.Is(err, proc.ErrExited), errors.Is(err, proc.ErrReplaced):
	default:
		var access *proc.AccessError
		var stuck *live.StuckError
		if errors.As(err, &stuck) {
			if !l.told {
				m.notice(output.Printable(err.Error()))
			}
			l.told = true
			return
		}
		if l.denied = errors.As(err, &access); !l.denied || !m.targets.all {
			m.notice(err.Error())
		}
	}
}

// changed tells whether the memory map is another than when it was asked last.
func (l *look) changed(pid int) bool {
	pr, err := proc.Open(pid)
	if err != nil {
		return false
	}
	defer pr.Close()
	text, err := pr.MapText()
	if err != nil || string(text) == l.maps {
		return false
	}
	l.maps = string(text)
	return true
}

// adopt gives a process a directory if it has counters.
func (m *Mount) adopt(pid int) error {
	source, err := live.OpenPatiently(pid)
	if err != nil {
		return err
	}
	source.FollowFiles = true
	p := newProcess(m, pid, directoryName(pid, source.Name), source.Root(), source)
	p.keep()
	if len(p.units) == 0 { // it has ended already
		p.close()
		return proc.ErrExited
	}
	m.table.add(p)
	return nil
}

// directoryName is how the directory of a process is called. Programs choose
// their names themselves.
func directoryName(pid int, name string) string {
	return fmt.Sprintf("%d-%s", pid, strings.ReplaceAll(output.Printable(name), "/", "_"))
}
