//go:build linux

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
	"footfall/process"
)

// maxEnded is how many processes that have ended are kept; of more the oldest
// go.
const maxEnded = 100

// A table is the processes that have directories.
type table struct {
	mu      sync.Mutex
	byName  map[string]*target // by the directory's name
	running map[int]*target    // by pid; some may have ended unnoticed
	ended   []*target          // in the order of their ends
	moved   func(name string)  // is told of names that another process has now, or none

	scanMu       sync.Mutex // of those below, held while processes are looked for
	looked       map[int]*look
	seen         map[int]time.Time // which pids there were the last time, and since when
	scanned      time.Time
	scanTook     time.Duration
	thoroughTook time.Duration // the last look at all processes

	stopOnce sync.Once
}

// A look is what was found out about a process without counters.
type look struct {
	id     process.Identity
	maps   string // its memory map; "": not looked at
	denied bool   // we may not look into it
	told   bool   // that it does not let itself be looked into
	first  time.Time
	again  time.Time // when to look next
}

func (t *table) init(moved func(name string)) {
	t.moved = moved
	t.byName = make(map[string]*target)
	t.running = make(map[int]*target)
	t.looked = make(map[int]*look)
}

// processes returns all by ascending pid, and the names of their directories.
func (t *table) processes() ([]*target, []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	names := slices.SortedFunc(maps.Keys(t.byName), func(a, b string) int {
		return cmp.Or(cmp.Compare(t.byName[a].pid, t.byName[b].pid), cmp.Compare(a, b))
	})
	all := make([]*target, len(names))
	for i, name := range names {
		all[i] = t.byName[name]
	}
	return all, names
}

// named returns the process of a directory.
func (t *table) named(name string) *target {
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
func (t *table) add(p *target) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.byName[p.name]; old != nil {
		n := 1
		for t.byName[p.name+"."+strconv.Itoa(n)] != nil {
			n++
		}
		t.byName[p.name+"."+strconv.Itoa(n)] = old
		t.moved(p.name)
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
func (t *table) remove(p *target) bool {
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
	maps.DeleteFunc(t.byName, func(name string, q *target) bool {
		if p == q {
			t.moved(name)
		}
		return p == q
	})
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
	all       bool
	kernel    bool
	selectors []process.Selector
}

func parseTargets(args []string) (targets, error) {
	t := targets{all: len(args) == 0}
	for _, arg := range args {
		if arg == "kernel" {
			t.kernel = true
			continue
		}
		s, err := process.ParseSelector(arg)
		if err != nil {
			return t, err
		}
		t.selectors = append(t.selectors, s)
	}
	return t, nil
}

// wants tells whether a process is one of them.
func (t *targets) wants(pid int) bool {
	return t.all || slices.ContainsFunc(t.selectors, func(s process.Selector) bool { return s.Selects(pid) })
}

// wanted returns those of pids that are, all of them looked at at once.
func (t *targets) wanted(pids []int) []int {
	if t.all {
		return pids
	}
	var found []int
	for _, s := range t.selectors {
		some, _ := s.Find() // none is no error: they may come
		found = append(found, some...)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// firstScan looks for all processes. A pid that was asked for must be there, a
// name may come later, and so may the counters of both: with a library.
func (m *Mount) firstScan() error {
	if m.targets.kernel {
		k, err := live.OpenKernel("")
		if err != nil {
			return err
		}
		p := newTarget(m, 0, "kernel", "", k)
		p.keep()
		m.table.add(p)
	}
	for _, s := range m.targets.selectors {
		if s.Follows() {
			continue
		}
		if m.ends() {
			return nil // New sees it
		}
		switch err := m.adopt(s.PID()); {
		case errors.Is(err, live.ErrNoCounters):
			m.notice(fmt.Sprintf("%v; it appears when it opens a library that has some", err))
		case errors.As(err, new(*live.StuckError)) && len(m.targets.selectors) > 1:
			m.notice(output.Printable(err.Error()))
		case err != nil:
			return err
		}
	}
	m.scan(0, true)
	if n := m.table.denied(); n > 0 && m.targets.all && os.Geteuid() != 0 {
		m.notice(fmt.Sprintf("%d of the processes cannot be looked into: run footfall as root for those", n))
	}
	for _, s := range m.targets.selectors {
		if !s.Follows() {
			continue
		}
		if pids, err := s.Find(); err != nil {
			m.notice(fmt.Sprintf("%v so far: it appears when it starts", err))
		} else if !slices.ContainsFunc(pids, m.table.isRunning) {
			m.notice(fmt.Sprintf("no process of %s has counters so far", s))
		}
	}
	return nil
}

// scan looks for processes that are new, unless that was done within the given time, or took more than a tenth
// of the time since. Those that were not there the last time are looked at always, as are those that came lately:
// they become other programs, and load libraries. To look at all the others, of which some may have become
// other programs since, takes long where there are thousands: that is done when it is thorough, and where it is quick.
func (m *Mount) scan(within time.Duration, thorough bool) {
	t := &m.table
	t.scanMu.Lock()
	defer t.scanMu.Unlock()
	if within > 0 && time.Since(t.scanned) < max(within, sharing*t.scanTook) {
		return
	}
	t.scanned = time.Now()
	pids, err := process.List()
	if err != nil {
		m.notice(err.Error())
		return
	}
	t.retire()
	var candidates []int
	if thorough || sharing*t.thoroughTook < max(within, quick) {
		candidates = m.targets.wanted(pids)
		t.thoroughTook = time.Since(t.scanned)
	} else {
		candidates = slices.DeleteFunc(t.young(pids), func(pid int) bool { return !m.targets.wants(pid) })
	}
	t.scanTook = time.Since(t.scanned) // to look into them is not to look for them
	for _, pid := range candidates {
		if m.ends() {
			return
		}
		if !t.isRunning(pid) {
			m.look(pid)
		}
	}
	t.remember(pids)
}

// quick is how long a look at all processes may take that is part of each scan, a tenth of this.
const quick = 100 * time.Millisecond

// young returns the pids that came lately.
func (t *table) young(pids []int) (young []int) {
	for _, pid := range pids {
		if first, known := t.seen[pid]; !known || t.scanned.Sub(first) < oftenUntil {
			young = append(young, pid)
		}
	}
	return young
}

// remember notes which processes there are.
func (t *table) remember(pids []int) {
	now := make(map[int]time.Time, len(pids))
	for _, pid := range pids {
		if now[pid] = t.scanned; !t.seen[pid].IsZero() {
			now[pid] = t.seen[pid]
		}
	}
	t.seen = now
	for pid := range t.looked {
		if now[pid].IsZero() {
			delete(t.looked, pid)
		}
	}
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
	id, err := process.Identify(pid)
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
	case errors.Is(err, live.ErrNoCounters), errors.Is(err, process.ErrExited), errors.Is(err, process.ErrReplaced):
	case m.targets.all && errors.As(err, new(*process.KernelThreadError)):
	default:
		var access *process.AccessError
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
	pr, err := process.Open(pid)
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
	source, err := m.known.OpenPatiently(pid)
	if err != nil {
		return err
	}
	source.FollowFiles = true
	p := newTarget(m, pid, directoryName(pid, source.Name), source.Root(), source)
	p.keep()
	if len(p.units)+len(p.profiles) == 0 {
		p.close()
		return process.ErrExited // already
	}
	m.table.add(p)
	return nil
}

// directoryName is how the directory of a process is called. Programs choose
// their names themselves.
func directoryName(pid int, name string) string {
	return fmt.Sprintf("%d-%s", pid, strings.ReplaceAll(output.Printable(name), "/", "_"))
}
