//go:build linux

package live

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"footfall/process"
)

// A Family is processes that come and go, whose counts are added up: those of the ones that
// run and of all that have ended. It is told of their lifetimes by a [process.Attendant] and reads
// each at its last moment. Counts are exact as soon as the processes that wrote
// their data files have ended, and never fall before.
//
// # What a process has counted
//
// Counters in memory are not always the process's own:
//
//   - A fork inherits its parent's. libgcov's wrapper of fork then sets them to zero, a while
//     later, one after another. So what is inherited is read when the process begins, and taken
//     out unless some counter is less than it was; while some are and the others are what they
//     were, the process has counted nothing.
//   - When libgcov writes the data files it adds what was in them to the counters in memory.
//     From then on the process's share is in the files only: as many processes as write them,
//     what they counted is what the files have more than before the first of them.
//     This goes for exec, too.
//
// What the processes of one program have in common is looked for once: see layout.
type Family struct {
	attendant *process.Attendant
	layouts   *layouts
	began     time.Time
	selects   func(pid int) bool
	// Baselines are the resets that were made of members before they were added; nil: none counts. To be
	// set before the first is added.
	Baselines *Baselines
	// KeepRunning has Snapshot keep what [Family.Running] returns. To be set before the first.
	KeepRunning bool
	// Since is told of each of them, and returns what is to be told, or nil.
	Since func(name string, pid int, b *Baseline) error

	mu       sync.Mutex
	members  map[int]*member
	sums     map[*layout]*sum
	order    []*sum
	files    map[string]*fileSet
	sets     []*fileSet // of files, and those of which a program has been built anew
	reaches  map[string]*reach
	left     map[int]uint64 // members that have ended, and when they began: the kernel may need a while for the rest
	ended    int
	replaced int     // members that have become other programs
	problems []error // to be told
	said     map[string]bool
	moving   bool // counts were on their way from memory to files at the last look
	// Of source-based counters: what those have counted that have ended, files into which they are merged, or in which they are
	// all the time, by name, and images without any.
	profiles   []*SourceProfile
	merged     map[string]*mergedFile
	shared     map[sharedFile]*SourceProfile
	unprofiled map[string]string // when they were changed last
	room       int               // words that are kept of counters
	aside      int               // processes that have been let go, whose counts are about to be added or whose members about to be known
	settled    *sync.Cond
	looking    chan struct{} // one for each of those who look into a process that stands still
	ran        map[*layout]*runningSum
}

// A member is a process of a family.
type member struct {
	pid      int
	began    time.Time // was seen first
	proc     *process.Process
	attended bool
	// fromStart: it was told of when it had run nothing so far.
	fromStart bool
	base      *Baseline         // what was counted before a reset; nil: there was none
	since     []BaselineProfile // the same of source-based counters, of an ancestor's, too
	own       []*SourceProfile  // source-based counters at the last look; the family's lock

	found atomic.Pointer[findings] // for those that it forks, who do not wait for mu
	// The same of how it forks; and how often that was tried to find out.
	clears    atomic.Pointer[clearing]
	clearings atomic.Int32

	mu          sync.Mutex // of what follows
	files       []byte     // mappedFiles, when images were looked for
	emulates    emulation
	around      *surroundings // nil: no image has counters of which there are data files
	whole       bool          // all were found then
	past        bool          // it was seen past the clearing of its counters, after a fork that was not told of
	images      []*placed
	counted     []*countedImage
	room        int    // words that are kept of it
	profileRoom int    // of those: what is in own
	guest       *guest // that it emulates, nil: none, or it was not looked for
	gone        bool
	last        map[*layout]words // what it had counted at the last look, where its end tells nothing
}

// NewFamily returns a family without members. selects tells which processes are to be
// members, of those that members start or become. It is to be closed.
func NewFamily(selects func(pid int) bool) *Family {
	f := &Family{
		layouts: newLayouts(), began: time.Now(), selects: selects, members: make(map[int]*member),
		sums: make(map[*layout]*sum), files: make(map[string]*fileSet), reaches: make(map[string]*reach), left: make(map[int]uint64), said: make(map[string]bool),
		merged: make(map[string]*mergedFile), shared: make(map[sharedFile]*SourceProfile), unprofiled: make(map[string]string),
	}
	f.settled, f.looking = sync.NewCond(&f.mu), make(chan struct{}, maxSlow)
	f.attendant = process.NewAttendant(lifetimes{f})
	return f
}

// Close lets go of the processes.
func (f *Family) Close() {
	f.attendant.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		if m.mu.TryLock() { // else somebody reads it, who is stuck
			m.leaves()
			m.mu.Unlock()
		}
	}
	clear(f.members)
	for _, r := range f.reaches {
		r.close()
	}
	clear(f.reaches)
}

// recently is for how long it is of use to know when a process began: when it may not have
// written data files before it was seen.
const recently = 10 * time.Second

// Add makes a process a member, which it may be already.
func (f *Family) Add(pid int) error {
	if f.Has(pid) {
		return nil
	}
	m, err := newMember(pid)
	if err != nil {
		return err
	}
	if began := m.proc.Began(); time.Since(began) < recently {
		m.began = began
	}
	if f.hasLeft(m) {
		m.proc.Close()
		return nil
	}
	if f.Baselines != nil {
		if m.base, err = f.Baselines.Load(baselineKey(pid, m.proc.Start)); err != nil {
			f.problem(err)
		} else if m.base != nil && f.Since != nil {
			f.problem(f.Since(m.proc.Name, pid, m.base))
		}
		if err := m.sinceReset(f.Baselines); err != nil {
			f.problem(err)
		}
	}
	joined := false
	err = f.attendant.Attend(pid, true, func() {
		m.attended = true
		joined = f.join(m)
	})
	switch {
	case err == nil && joined:
	case err == nil || errors.Is(err, process.ErrExited): // it has ended, or a member has just made it
		m.proc.Close()
		return nil
	default:
		f.join(m)
		f.problem(fmt.Errorf("%w: what it counts between the last look and its end is not known, nor what it starts", err))
	}
	_, err = patiently(pid, func() (struct{}, error) {
		f.look(m, running) // which takes long the first time
		return struct{}{}, nil
	}, func(struct{}) {})
	f.problem(err) // it stays a member
	return nil
}

// join has a process be a member; false: another one has been faster.
func (f *Family) join(m *member) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.joins(m)
}

// joins is join of a family that is locked.
func (f *Family) joins(m *member) bool {
	if f.members[m.pid] != nil || f.left[m.pid] == m.proc.Start.Ticks {
		f.room -= m.room
		return false
	}
	f.members[m.pid] = m
	return true
}

func newMember(pid int) (*member, error) {
	p, err := process.Open(pid)
	if err != nil {
		return nil, err
	}
	return &member{pid: pid, began: time.Now(), proc: p}, nil
}

// newAttended is newMember of a process of which the attendant tells.
func newAttended(pid int) (*member, error) {
	p, err := process.OpenAttended(pid)
	if err != nil {
		return nil, err
	}
	return &member{pid: pid, began: time.Now(), proc: p, attended: true, fromStart: true}, nil
}

// Has tells whether a process is a member.
func (f *Family) Has(pid int) bool { return f.member(pid) != nil }

// Members returns how many processes run, and how many have ended.
func (f *Family) Members() (running, ended int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.members), f.ended
}

// member is the member that a process is, nil if it is none.
func (f *Family) member(pid int) *member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.members[pid]
}

// Tells tells whether a process is a member whose children, and what it becomes, the family notices by itself.
func (f *Family) Tells(pid int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[pid]
	return m != nil && m.attended
}

// Settled tells whether the last Snapshot has all that the members had counted then: none was
// writing its data files or ended meanwhile.
func (f *Family) Settled() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.moving
}

// Problems returns what was wrong since it was last called.
func (f *Family) Problems() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	problems := f.problems
	f.problems = nil
	return problems
}

// problem notes what is to be told, once.
func (f *Family) problem(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.note(err)
}

// note is problem where the family is locked.
func (f *Family) note(err error) {
	if err == nil || f.said[err.Error()] || len(f.said) > maxSaid {
		return
	}
	f.said[err.Error()] = true
	if len(f.said) > maxSaid {
		err = fmt.Errorf("%d problems were told: more are not", maxSaid)
	}
	f.problems = append(f.problems, err)
}

// Of what is kept there is a limit, whatever processes there are: a program may make new images, and
// whom it forks inherits what it has counted.
const (
	maxRoom = 1 << 27 // words
	maxSaid = 1000    // problems that are told
	maxSlow = 64      // processes that are looked into at a time: each may keep a thread of ours
)

var errRoom = fmt.Errorf("more than footfall keeps of counters for a family, %d MB: what is counted there is not known", maxRoom>>20*8)

// hasRoom takes room for words that are kept.
func (f *Family) hasRoom(words int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.room+words > maxRoom {
		return false
	}
	f.room += words
	return true
}

// hasRoomFor is hasRoom for as long as a member is one.
func (f *Family) hasRoomFor(m *member, words int) bool {
	if !f.hasRoom(words) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	m.room += words
	return true
}
