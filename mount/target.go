//go:build linux

package mount

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"footfall/collect/find"
	"footfall/formats/gcov"
	"footfall/input"
	"footfall/live"
	"footfall/output"
	"footfall/process"
)

// A counted has counters: a live.CountedProcess or a live.Kernel.
type counted interface {
	Snapshot() ([]live.Unit, error)
}

// Files that are opened within this many times what a snapshot takes share it,
// but none is older than maxShared, and none serves the same file twice: who
// reads a file, does something and reads it again sees what that has run.
const (
	sharing   = 10
	maxShared = time.Second
)

// A target is a process or the kernel: a directory of the tree.
type target struct {
	m      *Mount
	pid    int // 0: the kernel
	name   string
	fsRoot string      // of its file system, "" for ours
	user   *input.User // with whose rights the sources that it names are read; nil: ours
	trace  tracefile

	ended atomic.Bool

	mu         sync.Mutex    // of all below; held while a snapshot is taken
	source     counted       // nil when the process has ended
	reply      chan reply    // of a snapshot that is being taken; nil: none is
	asked      time.Time     // when that was begun
	late       bool          // the last reader did not get what was true when he asked
	at         time.Time     // when counters were last to be read
	looked     bool          // it was, or has become, one for somebody who looks up a file
	took       time.Duration // the last snapshot, or the one before it
	tookBefore time.Duration // the last one
	read       bool          // there was one
	// version is increased when the counts that are shown may have changed.
	version int
	history *live.History
	units   []*live.Unit // of the history, in its order
	placed  int          // how many of them have files
	events  []string     // what happened to the counters, each once
	// profiles are source-based counters and those of Go, in the order in which they were found; places are where
	// sources of Go may be.
	profiles []*profiled
	places   []string
	root     *node
}

func newTarget(m *Mount, pid int, name, fsRoot string, s counted) *target {
	p := &target{m: m, pid: pid, name: name, fsRoot: fsRoot, source: s, root: newDirectory(m.nextIno)}
	p.history, _ = live.NewHistory(nil) // only a baseline can be bad
	if of, ok := s.(interface{ User() (input.User, error) }); ok {
		if user, err := of.User(); err == nil {
			p.user = &user
		}
	}
	p.trace.render = func() []byte { return m.tracefile([]*target{p}) }
	return p
}

// keep reads the counters, so that they are there when the process has ended;
// those of the kernel once only.
func (p *target) keep() {
	if p.ended.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid != 0 || !p.read {
		p.refresh(false)
	}
}

// patience is how long a snapshot may take before readers get the one before.
// Only a process that is stuck in the kernel needs that long.
const patience = 2 * time.Second

type reply struct {
	units    []live.Unit
	err      error
	profiles []live.SourceProfile
	unusable error // profiles
}

// refresh reads the counters, unless that was done a moment ago and is good
// enough.
func (p *target) refresh(always bool) {
	if p.source == nil || !always && !p.late && time.Since(p.at) < min(sharing*p.took, maxShared) {
		return
	}
	p.at, p.looked = time.Now(), false
	if p.reply != nil {
		select {
		case r := <-p.reply:
			p.replied(r)
		default:
			p.keptBack()
			return
		}
		// It was begun for one before, and is as old as that: what has run since, he
		// who reads now has to see.
		if p.source == nil {
			return
		}
	}
	p.ask()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case r := <-p.reply:
		p.replied(r)
		return
	case <-timer.C:
	case <-input.Hurried():
	}
	select {
	case r := <-p.reply: // both were there: it is we who have waited
		p.replied(r)
	default:
		p.keptBack()
	}
}

// ask begins a snapshot.
func (p *target) ask() {
	p.asked, p.reply = time.Now(), make(chan reply, 1)
	go func(source counted, to chan<- reply) {
		var r reply
		r.units, r.err = source.Snapshot()
		r.profiles, r.unusable = profiles(source)
		to <- r
	}(p.source, p.reply)
}

// keptBack tells that readers get the counts from before.
func (p *target) keptBack() {
	p.late = true
	p.m.notice(p.name + ": " + tooLate)
}

var tooLate = fmt.Sprintf("its memory cannot be read within %v: it keeps the counts from before", patience)

func (p *target) replied(r reply) {
	// It may have waited for the program to finish writing: that is no measure.
	took := time.Since(p.asked)
	p.took, p.tookBefore, p.reply, p.late = min(took, p.tookBefore), took, nil, false
	p.use(r)
}

// use takes what a snapshot has given.
func (p *target) use(r reply) {
	p.takeProfiles(r.profiles)
	p.noticeProfiles(r.unusable)
	none := errors.Is(r.err, live.ErrNoCounters) // all libraries are closed, or it has only profiles
	if len(r.units) > 0 || none {
		p.take(r.units)
	}
	switch {
	case errors.Is(r.err, process.ErrExited), errors.Is(r.err, process.ErrReplaced):
		p.end()
	case r.err != nil && !none:
		p.m.notice(fmt.Sprintf("%s: %v", p.name, r.err))
	}
}

// end lets go of the process; what was read last stays.
func (p *target) end() {
	if c, ok := p.source.(io.Closer); ok && p.reply == nil {
		c.Close()
	}
	p.source = nil
	p.ended.Store(true)
}

// close lets go of the process, if that has not been done.
func (p *target) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.source != nil {
		p.end()
	}
}

// take remembers what was read.
func (p *target) take(units []live.Unit) {
	p.read = true
	for _, e := range p.history.Take(units) {
		p.tell(e)
	}
	p.show()
}

// tell has the user know what happened to counters: where he reads, and now. That
// a library is closed is neither here nor there.
func (p *target) tell(e live.CounterEvent) {
	if text := output.Printable(e.String()); e.Kind != live.Closed && !slices.Contains(p.events, text) && len(p.events) < maxEvents {
		p.events = append(p.events, text)
		if e.Kind != live.Reloaded {
			p.m.notice(p.name + ": " + text)
		}
	}
}

// maxEvents is how many things are told about a process.
const maxEvents = 100

// show takes the counts of the history. Units that are new get their files when somebody looks: of many processes
// that come and go nobody does. In a container notes are found as long as the process runs.
func (p *target) show() {
	p.version++
	for i, u := range p.history.Units() {
		if i < len(p.units) {
			*p.units[i] = u
			continue
		}
		p.units = append(p.units, &u)
	}
	if p.fsRoot != "" {
		p.placeAll()
	}
}

// placeAll gives units their files that have none.
func (p *target) placeAll() {
	for ; p.placed < len(p.units); p.placed++ {
		p.place(p.units[p.placed])
	}
}

// place gives a unit its file, with links beside. A name that several have is
// one file, as it is on disk: the sum, if they are of one object.
func (p *target) place(u *live.Unit) {
	parts := components(u.Name)
	for n := 1; n <= maxCopies; n++ {
		leaf := p.root.at(withCopy(parts, n), p.m.nextIno)
		switch {
		case leaf == nil, !leaf.isNew() && leaf.units == nil:
			continue // something is in the way
		case leaf.isNew():
			leaf.units = []*live.Unit{u}
			p.links(u, n)
		case leaf.units[0].Counts.Clone().Merge(u.Counts) == nil:
			leaf.units = append(leaf.units, u)
		case leaf.gone():
			leaf.units = []*live.Unit{u}
			p.m.notice(fmt.Sprintf("%s: %s: its library was built and loaded anew: the counts of the one before are left out", p.name, u.Name))
		default:
			continue // another object of the same name
		}
		return
	}
	p.m.notice(fmt.Sprintf("%s: %s: left out, too many objects have this name", p.name, u.Name))
}

// gone tells whether none of a file's units is in the last snapshot.
func (leaf *node) gone() bool {
	return !slices.ContainsFunc(leaf.units, func(u *live.Unit) bool { return !u.Gone })
}

// links puts links to the notes and to the sources of a unit into the tree.
func (p *target) links(u *live.Unit, n int) {
	notes, sources := p.m.sources.of(p.reading(u.Name, u.Counts))
	p.link(notesName(u.Name), n, notes)
	for _, s := range sources {
		p.link(s.name, n, s.path)
	}
}

// reading is a data file of the process.
func (p *target) reading(name string, counts *gcov.Counts) gcov.Reading {
	return gcov.Reading{Name: name, Root: p.fsRoot, Counts: counts}
}

func (p *target) link(name string, n int, target string) {
	if leaf := p.root.at(withCopy(components(name), n), p.m.nextIno); leaf != nil && leaf.isNew() {
		leaf.link = target
	}
}

// lookupState returns the data file of a node as it is now, for a thread that may
// be about to open it.
func (p *target) lookupState(n *node, by uint32) *state {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refresh(!p.looked || n.looks.used(p.at, p.took, by))
	p.looked = true
	n.looks.add(p.at, by)
	if n.state == nil || n.version != p.version {
		n.state, n.version = n.state.next(n.content(), p.at), p.version
	}
	return n.state
}

// open notes that the state of a node was opened.
func (p *target) open(n *node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n.looks.opened = true
}

// counts are those of the data file. The process must be locked.
func (n *node) counts() *gcov.Counts {
	c := n.units[0].Counts
	if len(n.units) > 1 {
		c = c.Clone()
		for _, u := range n.units[1:] {
			// place has tried it: they are of one object.
			_ = c.Merge(u.Counts)
		}
	}
	return c
}

// reset makes the counters of a node, or of the whole process, start from zero. It
// returns false if they cannot be read: from the counts from before they cannot start.
func (p *target) reset(n *node) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refresh(true); p.late {
		return false
	}
	p.resetProfiles(n)
	if n == nil {
		p.history.Reset(nil)
	} else if n.profile == nil {
		p.history.Reset(func(u live.Unit) bool {
			return slices.ContainsFunc(n.units, func(of *live.Unit) bool {
				return of.Image == u.Image && of.Name == u.Name && of.Counts.Stamp == u.Counts.Stamp
			})
		})
	}
	p.show()
	return true
}

// lookup returns an entry of a directory of the tree, having looked for new libraries: what is of the process, or
// what somebody has written there.
func (p *target) lookup(dir *node, name string) (*node, *scratch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if child := dir.children[name]; child != nil {
		return child, nil
	}
	if s := dir.scratch[name]; s != nil {
		return nil, s
	}
	p.refresh(false)
	p.placeAll()
	return dir.children[name], nil
}

// list calls entry for each entry of a directory of the tree that is of the process, and written for each other.
func (p *target) list(dir *node, entry func(name string, n *node), written func(name string, s *scratch)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refresh(false)
	p.placeAll()
	for name, child := range dir.children {
		if name != unlisted || child.special == 0 {
			entry(name, child)
		}
	}
	for name, s := range dir.scratch {
		if dir.children[name] == nil {
			written(name, s)
		}
	}
}

// readings returns all files of counters of the process, and what is to be told of
// them. Its profiles are added to objects.
func (p *target) readings(objects *find.Objects) ([]gcov.Reading, []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refresh(true)
	p.placeAll()
	p.addProfiles(objects)
	var readings []gcov.Reading
	var walk func(n *node)
	walk = func(n *node) {
		if n.units != nil {
			readings = append(readings, p.reading(n.units[0].Name, n.counts()))
		}
		for _, name := range slices.Sorted(maps.Keys(n.children)) {
			walk(n.children[name])
		}
	}
	walk(p.root)
	events := slices.Clone(p.events)
	if p.late {
		events = append(events, tooLate)
	}
	return readings, events
}
