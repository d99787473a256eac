//go:build linux

package live

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"footfall/formats/gcov"
	"footfall/output"
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
	profiles   []*RawProfile
	merged     map[string]*mergedFile
	shared     map[string]*RawProfile
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
	own       []*RawProfile     // source-based counters at the last look; the family's lock

	found atomic.Pointer[findings] // for those that it forks, who do not wait for mu

	mu          sync.Mutex    // of what follows
	files       []byte        // process.MappedFilesKey, when images were looked for
	around      *surroundings // nil: no image has counters of which there are data files
	whole       bool          // all were found then
	images      []*placed
	counted     []*countedImage
	room        int    // words that are kept of it
	profileRoom int    // of those: what is in own
	guest       *guest // that it emulates, nil: none, or it was not looked for
	gone        bool
	last        map[*layout]words // what it had counted at the last look, where its end tells nothing
}

// Findings are what was found in a member.
type findings struct {
	mapped  []byte // as in member
	around  *surroundings
	whole   bool
	images  []*placed       // layout, at and files do not change
	counted []*countedImage // their image, and what they are merged into
}

// A placed is an image with counters in a member.
type placed struct {
	*layout
	at        uint64
	inherited *sparse // what is not its own, until counters are set to zero; nil: nothing
	// keeps tells that nobody but the program itself, by __gcov_reset, will set them to zero: what is inherited will be in
	// data files, too.
	keeps bool
	// silent: it has written its data files before it was seen, or before the fork, and writes none
	// any more.
	silent bool
	files  *fileSet
	// parted: it is not in memory any more, but what was inherited may be in the data files. Nothing is read of it.
	parted bool

	// Counters of which it is not known yet whether they are its own, and how long it had run then; that are.
	waiting, sure words
	sinceRan      time.Duration
}

// A sum is what was counted in an image.
type sum struct {
	*layout
	id    int
	ended words  // by processes that have ended, but for what is in files
	total words  // at the last look
	units []Unit // of total, nil: none were made of it so far
}

// A runningSum is what the members that run have counted in an image, at the last look.
type runningSum struct {
	words   words
	members []RunningMember
}

// A RunningMember is a process of a family that runs.
type RunningMember struct {
	PID   int
	Key   string    // which tells it from all others that this system has run since it was started
	Began time.Time // to a hundredth of a second
}

// Running is the part of what was counted in an image that those members had counted which ran at the last Snapshot.
type Running struct {
	Units   []Unit
	Members []RunningMember
}

// Running returns it for each load of the last Snapshot, by its ID, if KeepRunning is set: what a family of later on will
// read in the same processes. Without it that is nil.
func (f *Family) Running() map[int]Running {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make(map[int]Running)
	for l, r := range f.ran {
		s := f.sums[l]
		all[s.id] = Running{s.unitsOf(r.words), r.members}
	}
	return all
}

// Has tells whether a process is a member.
func (f *Family) Has(pid int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.members[pid] != nil
}

// NewFamily returns a family without members. selects tells which processes are to be
// members, of those that members start or become. It is to be closed.
func NewFamily(selects func(pid int) bool) *Family {
	f := &Family{
		layouts: newLayouts(), began: time.Now(), selects: selects, members: make(map[int]*member),
		sums: make(map[*layout]*sum), files: make(map[string]*fileSet), reaches: make(map[string]*reach), left: make(map[int]uint64), said: make(map[string]bool),
		merged: make(map[string]*mergedFile), shared: make(map[string]*RawProfile), unprofiled: make(map[string]string),
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

// Add makes a process a member, which it may be already.
func (f *Family) Add(pid int) error {
	f.mu.Lock()
	known := f.members[pid] != nil
	f.mu.Unlock()
	if known {
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

// recently is for how long it is of use to know when a process began: when it may not have
// written data files before it was seen.
const recently = 10 * time.Second

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

// Members returns how many processes run, and how many have ended.
func (f *Family) Members() (running, ended int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.members), f.ended
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

// lifetimes are the events of a family, in the thread that traces. All processes of the family that
// fork or end wait for that: so it does what can be done at once, for processes of which
// everything is known already. What may take long, or for ever, is for others to do.
type lifetimes struct{ *Family }

// Forked makes the child of a member one, and notes what it inherits.
func (f lifetimes) Forked(pid, parent int, byLibrary bool, goOn func(watch bool)) {
	m, err := newAttended(pid)
	if err != nil { // killed already
		goOn(false)
		return
	}
	counts := false // Exec discards what is in source-based counters.
	f.mu.Lock()
	from := f.members[parent]
	f.mu.Unlock()
	var known *findings
	if from != nil {
		known = from.found.Load()
	}
	if known != nil {
		m.files, m.whole, m.around = known.mapped, known.whole, known.around
		for _, im := range known.images {
			m.images = append(m.images, &placed{layout: im.layout, at: im.at, files: im.files, keeps: !im.resetsForks || !byLibrary})
		}
		for _, c := range known.counted {
			m.counted = append(m.counted, c.copyFor())
		}
		if files, err := m.proc.MappedFilesKey(); err == nil && bytes.Equal(files, m.files) && len(m.counted) == 0 && f.inheritsAtOnce(m, func() { goOn(false) }) {
			return
		}
	}
	f.meanwhile(m.proc, "what it counts is not known", func() { goOn(counts) }, func() (then func()) {
		f.look(m, forked)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.images = slices.DeleteFunc(m.images, func(im *placed) bool {
			im.keeps = !im.resetsForks || !byLibrary
			w := im.buffer()
			defer im.release(w)
			if im.read(m.proc, im.at, w) != nil {
				m.whole = false // look again
				return true
			}
			return !im.inherit(f.Family, m, im.sparseOf(w), im.flagsIn(w))
		})
		f.inheritProfiles(m)
		m.publish()
		if from != nil && m.whole { // its parent has what it has
			from.found.CompareAndSwap(known, m.found.Load())
		}
		has := len(m.counted) > 0
		return func() {
			counts = has
			if !f.join(m) {
				m.proc.Close()
			}
		}
	})
}

// inheritsAtOnce notes what a process inherits, in images that are known, if all of it can be read
// at once.
func (f *Family) inheritsAtOnce(m *member, goOn func()) bool {
	read, flags := make([]*sparse, len(m.images)), make([]int, len(m.images))
	for i, im := range m.images {
		var err error
		if read[i], flags[i], err = im.sparseAtOnce(m.proc, im.at); err != nil {
			return false
		}
	}
	f.mu.Lock()
	f.aside++
	f.mu.Unlock()
	goOn()
	images, kept := m.images, m.images[:0:0]
	for i, im := range images {
		if im.inherit(f, m, read[i], flags[i]) {
			kept = append(kept, im)
		}
	}
	m.images = kept
	m.publish()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.joins(m) {
		m.proc.Close()
	}
	f.back()
	return true
}

// back tells that a process that was let go has been dealt with, of a family that is locked.
func (f *Family) back() {
	if f.aside--; f.aside == 0 {
		f.settled.Broadcast()
	}
}

// standstill is how long a process may be made to stand still, should its memory not be there to be
// read: a program may handle its own page faults, or a file system may not answer.
const standstill = Patience

// meanwhile has somebody else look into a process that stands still, and lets it go on then: when it was
// looked at, and what is returned was done, or it has stood still for long enough.
func (f *Family) meanwhile(p *process.Process, lost string, goOn func(), look func() (then func())) {
	tell := func() {
		f.problem(fmt.Errorf("process %d (%s): its memory cannot be read in time: %s", p.PID, output.Printable(p.Name), lost))
		goOn()
	}
	go func() {
		timer := time.NewTimer(Patience)
		defer timer.Stop()
		select {
		case f.looking <- struct{}{}:
		case <-timer.C:
			tell()
			return
		}
		timer.Reset(standstill)
		looked, late := make(chan func()), make(chan struct{})
		go func() {
			then := look()
			<-f.looking
			select {
			case looked <- then:
			case <-late:
			}
		}()
		select {
		case then := <-looked:
			then()
			goOn()
		case <-timer.C:
			close(late)
			tell()
		}
	}()
}

// inherit notes what is in the counters of an image, s, and the flags of libgcov in it, of a process that has just
// been forked; false: there is no room for it.
func (im *placed) inherit(f *Family, m *member, s *sparse, flags int) bool {
	im.silent = im.keeps && flags&rootDumped != 0
	return im.without(f, m, s)
}

// without has what a member, which is locked, had in the counters of an image not count; false: there is no room for
// that.
func (im *placed) without(f *Family, m *member, s *sparse) bool {
	if len(s.parts) == 0 {
		return true
	}
	if !f.hasRoomFor(m, s.size()) {
		f.problem(fmt.Errorf("%s: %w", im.path, errRoom))
		return false
	}
	im.inherited = s
	return true
}

// flagsIn are the flags of libgcov in a buffer.
func (l *layout) flagsIn(w words) int {
	if l.root == 0 {
		return 0
	}
	return l.flags(w.bytes()[l.rootAt : l.rootAt+l.rootSize()])
}

// Execs reads source-based counters: nobody writes them before they are gone.
func (f lifetimes) Execs(pid int, goOn func()) {
	f.mu.Lock()
	m := f.members[pid]
	f.mu.Unlock()
	if m == nil {
		goOn()
		return
	}
	f.meanwhile(m.proc, "what it counted since the last look, before exec, is not known", goOn, func() func() {
		f.lookAtProfiles(m)
		return func() {}
	})
}

// Replaced: what the process had counted was written before exec, into the data files, or was read then (told), or is known from
// the last look.
func (f lifetimes) Replaced(pid int, told bool, goOn func(keep bool)) {
	f.mu.Lock()
	m := f.members[pid]
	f.mu.Unlock()
	if m != nil && !told {
		f.mu.Lock()
		lost := len(m.own) > 0 || len(f.shared) == 0 // else they are in a file
		f.mu.Unlock()
		if known := m.found.Load(); lost && known != nil && len(known.counted) > 0 {
			f.problem(fmt.Errorf("%s has become another program by exec: what it counted in source-based counters since the last look is not known", output.Printable(m.proc.Name)))
		}
	}
	next := func() {
		if m != nil {
			f.drop(m, &f.replaced)
		}
		if !f.selects(pid) {
			goOn(false)
			return
		}
		if m, err := newAttended(pid); err == nil && !f.join(m) {
			m.proc.Close()
		}
		goOn(true)
	}
	if m == nil {
		next()
		return
	}
	var kept []*placed
	if free := m.mu.TryLock(); free { // nobody reads it, who might be stuck
		kept = m.keptToExec()
		m.mu.Unlock()
		if len(kept) == 0 {
			next()
			return
		}
	}
	f.meanwhile(m.proc, "it has become another program, and what it had inherited may be counted twice", next, func() func() {
		if kept == nil {
			m.mu.Lock()
			kept = m.keptToExec()
			m.mu.Unlock()
		}
		written := m.written(f.Family, kept)
		return func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.dropped(m, &f.replaced, func() { // at the same moment, or somebody sees the files with what it had inherited
				for _, im := range written {
					im.inherited.subtractFrom(f.sumOf(im.layout).ended)
				}
			})
		}
	})
}

// written are those of images whose data files a member has written that does not tell of it any more.
func (m *member) written(f *Family, images []*placed) (written []*placed) {
	if n, known := m.proc.BytesWritten(); known && n == 0 {
		return nil
	}
	for _, im := range images {
		if im.files.wroteOneMore(f) {
			written = append(written, im)
		}
	}
	return written
}

// keptToExec has a member, which is locked, be none any more, since it has become another program. It returns the
// images whose data files have what it had inherited, if it has written them before.
func (m *member) keptToExec() (kept []*placed) {
	m.leaves()
	for _, im := range m.images {
		if im.owes() {
			kept = append(kept, im)
		}
	}
	return kept
}

// Ending reads the counters of a process that runs no more.
func (f lifetimes) Ending(pid int, goOn func()) {
	f.mu.Lock()
	m := f.members[pid]
	f.mu.Unlock()
	if m == nil {
		goOn()
		return
	}
	if f.endsAtOnce(m, goOn) {
		return
	}
	const lost = "what it counted since the last look, before it ended, is not known"
	f.meanwhile(m.proc, lost, func() {
		f.drop(m, &f.ended)
		goOn()
	}, func() func() {
		f.look(m, ending)
		m.mu.Lock()
		defer m.mu.Unlock()
		var counted []func()
		for _, im := range m.images {
			add, _ := f.last(m, im, false)
			counted = append(counted, add)
		}
		own := f.ownProfiles(m, ending)
		counted = append(counted, func() { m.own = own })
		m.leaves()
		return func() {
			m.mu.Lock() // before the family's, as everywhere
			defer m.mu.Unlock()
			f.mu.Lock()
			defer f.mu.Unlock()
			f.dropped(m, &f.ended, counted...)
		}
	})
}

// endsAtOnce is Ending where all can be read at once.
func (f *Family) endsAtOnce(m *member, goOn func()) bool {
	if !m.mu.TryLock() { // somebody reads it
		return false
	}
	defer m.mu.Unlock()
	files, err := m.proc.MappedFilesKey()
	if err != nil || !m.whole || len(m.counted) > 0 || !bytes.Equal(files, m.files) || m.around != nil && !m.around.are(m.proc) {
		return false
	}
	counted := make([]func(), 0, len(m.images))
	for _, im := range m.images {
		add, ok := f.last(m, im, true)
		if !ok {
			return false
		}
		counted = append(counted, add)
	}
	// Whoever adds up sees it either as a member or in the sum of those that have ended.
	f.mu.Lock()
	f.aside++
	is := f.dropped(m, &f.ended)
	f.mu.Unlock()
	goOn()
	m.leaves()
	f.mu.Lock()
	defer f.mu.Unlock()
	if is {
		for _, add := range counted {
			add()
		}
	}
	f.back()
	return true
}

// Vanished: a process was killed when it was about to be looked at.
func (f lifetimes) Vanished(pid int) {
	f.mu.Lock()
	m := f.members[pid]
	f.mu.Unlock()
	if m == nil {
		return
	}
	f.drop(m, &f.ended)
	go func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.leaves()
	}()
	f.problem(fmt.Errorf("process %d (%s) was killed a second time while it ended: what it counted since the last look is not known", pid, output.Printable(m.proc.Name)))
}

// leaves lets go of a member, which is locked and none any more.
func (m *member) leaves() {
	m.gone = true
	m.proc.Close()
}

// drop takes a member out, and counts it; false: it is none any more.
func (f *Family) drop(m *member, counted *int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dropped(m, counted)
}

// dropped is drop of a family that is locked. What the member has counted is added at the same moment.
func (f *Family) dropped(m *member, counted *int, last ...func()) bool {
	if f.members[m.pid] != m {
		return false
	}
	delete(f.members, m.pid)
	f.room -= m.room
	*counted++
	if counted == &f.ended {
		if len(f.left) > maxLeft {
			clear(f.left)
		}
		f.left[m.pid] = m.proc.Start.Ticks
	}
	for _, add := range last {
		add()
	}
	for _, r := range m.own {
		f.profiles = addProfile(f.profiles, r)
	}
	return true
}

const maxLeft = 1 << 14

func (f *Family) hasLeft(m *member) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left[m.pid] == m.proc.Start.Ticks
}

// last reads what an ending process, which is locked, has counted in an image. What it returns adds
// that to the sum, of a family that is locked. If it is to be done at once and cannot be, it is not
// done.
func (f *Family) last(m *member, im *placed, atOnce bool) (add func(), ok bool) {
	nothing := func() {}
	if im.parted {
		if atOnce {
			return nil, false
		}
		if len(m.written(f, []*placed{im})) == 0 {
			return nothing, true
		}
		return func() { im.inherited.subtractFrom(f.sumOf(im.layout).ended) }, true
	}
	if !im.tellsDumps() {
		f.problem(fmt.Errorf("%s: its counters (of Clang, or of GCC before 5) do not tell whether those of data files have been added to them: of processes that end, counts are those of the last look", im.path))
		w := m.last[im.layout]
		if w == nil {
			return nothing, true
		}
		return func() { im.add(f.sumOf(im.layout).ended, w) }, true
	}
	if atOnce && im.files != nil && !im.files.prompt {
		return nil, false
	}
	flags, err := im.flagsOf(m.proc, im.at, atOnce)
	if err != nil && atOnce {
		return nil, false
	}
	if !im.silent && err == nil && flags&rootDumped != 0 && im.files.wasWritten(m) {
		return func() {
			im.files.dumps++
			if im.inherited != nil && im.keeps {
				im.inherited.subtractFrom(f.sumOf(im.layout).ended) // the files have it as its own
			}
		}, true
	}
	if !im.silent && im.files != nil {
		finder := m.finder(im)
		switch locked := finder.locks(); {
		case len(locked) > 0 && atOnce:
			return nil, false
		case finder.writes(locked) != nil:
			f.problem(fmt.Errorf("%s: a process was killed while it wrote its data files, whose counts are among its own then: what it counted since the last look is not known", im.path))
			return nothing, true
		}
	}
	w := im.buffer()
	if atOnce {
		err = im.readAtOnce(m.proc, im.at, w)
	} else {
		err = im.read(m.proc, im.at, w)
	}
	if err != nil {
		im.release(w)
		if atOnce {
			return nil, false
		}
		if !errors.Is(err, errMoved) { // else the program has not begun, or is closing it
			f.problem(fmt.Errorf("process %d (%s): %s: it cannot be read at the end: %w", m.pid, output.Printable(m.proc.Name), im.path, err))
		}
		return nothing, true
	}
	return func() {
		if im.inherited == nil || !im.beingCleared(im.inherited, w) { // else it has counted nothing yet
			im.takeInherited(w)
			im.add(f.sumOf(im.layout).ended, w)
		}
		im.release(w)
	}, true
}

// takeInherited takes out of counters what the process has inherited, unless it has set them to zero
// since.
func (im *placed) takeInherited(w words) {
	if im.inherited == nil {
		return
	}
	if im.inherited.in(w) {
		im.inherited.subtractFrom(w)
	} else if !im.silent {
		im.inherited = nil
	}
}

// sumOf is that of a layout, of a family that is locked.
func (f *Family) sumOf(l *layout) *sum {
	s := f.sums[l]
	if s == nil {
		s = &sum{layout: l, id: len(f.order) + 1, ended: make(words, l.size()), total: make(words, l.size())}
		f.sums[l] = s
		f.order = append(f.order, s)
	}
	return s
}

// A stage is when a member is looked at. It stands still but for the first.
type stage uint8

const (
	running stage = iota
	forked
	ending
)

// look looks for images with counters in a member, if other files are mapped.
func (f *Family) look(m *member, when stage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	files, err := m.proc.MappedFilesKey() // before the map: what changes in between is seen at the next look
	if err != nil {
		return
	}
	if m.whole && bytes.Equal(files, m.files) {
		if m.around != nil && !m.around.are(m.proc) && when != forked { // the child of one that was up to date, or will be followed
			f.follow(m, when)
			m.publish()
		}
		return
	}
	maps, _, err := m.proc.Maps()
	if err != nil {
		return
	}
	if when == running && errors.Is(m.proc.Check(), process.ErrReplaced) {
		return // Replaced will be told; until then the family has to know what this one inherited
	}
	before := m.images
	m.images = nil
	complete := true
	finder := &CountedProcess{PID: m.pid, proc: m.proc, guest: m.guest}
	mappings, own := finder.files(maps)
	m.guest = finder.guest
	for n, mapped := range mappings {
		i := slices.IndexFunc(before, func(im *placed) bool { return im.at == mapped.Start && im.file == mapped.File() && !im.parted })
		if i >= 0 {
			m.images = append(m.images, before[i])
			continue
		}
		g := m.guest
		if n < own {
			g = nil
		}
		l, final := f.layoutOf(m, mapped, maps, g, when)
		complete = complete && final
		if l == nil {
			continue
		}
		im := &placed{layout: l, at: mapped.Start}
		if l.tellsDumps() {
			if im.files, err = f.filesOf(m, im, when); err != nil {
				f.problem(errFiles(im, err))
				continue
			}
		}
		if (when != running || m.fromStart || f.begin(m, im)) && (when == forked || f.since(m, im)) {
			m.images = append(m.images, im)
		}
	}
	for _, im := range before {
		if im.owes() && !slices.Contains(m.images, im) {
			im.parted = true
			m.images = append(m.images, im)
		}
	}
	if m.around != nil && !m.around.are(m.proc) {
		f.follow(m, when)
	}
	complete = f.lookForProfiles(m, maps, when) && complete
	m.files, m.whole = files, complete
	m.publish()
}

func errFiles(im *placed, err error) error {
	return fmt.Errorf("%s: its data files cannot be followed: what is counted there is left out: %w", im.path, err)
}

// owes tells whether what was inherited is in the data files as the process's own, as soon as it has written them.
func (im *placed) owes() bool {
	return im.inherited != nil && im.keeps && !im.silent && im.files != nil
}

// publish has those that the member forks know what was found in it, which is locked.
func (m *member) publish() {
	images := slices.DeleteFunc(slices.Clone(m.images), func(im *placed) bool { return im.parted })
	counted := slices.DeleteFunc(slices.Clone(m.counted), func(c *countedImage) bool { return c.closed })
	m.found.Store(&findings{m.files, m.around, m.whole, images, counted})
}

// begin notes what an image of a process has written already that is seen for the first
// time; false: there is no room for it.
func (f *Family) begin(m *member, im *placed) bool {
	w := im.buffer()
	defer im.release(w)
	if im.read(m.proc, im.at, w) != nil || im.flagsIn(w)&rootDumped == 0 {
		return true
	}
	im.silent = true
	f.problem(fmt.Errorf("process %d (%s): %s: it had written its data files before: its counts are those from now on", m.pid, output.Printable(m.proc.Name), im.path))
	return im.without(f, m, im.sparseOf(w))
}

// since has what was counted before a reset not be counted; false: there is no room for it.
func (f *Family) since(m *member, im *placed) bool {
	if m.base == nil || im.silent {
		return true
	}
	w := im.buffer()
	defer im.release(w)
	clear(w)
	for _, o := range m.base.Objects {
		for _, u := range im.units {
			if o.Name != u.name || o.Image != im.path {
				continue
			}
			if c, err := gcov.ReadCounts(o.Counts); err == nil {
				im.scatter(u, c, w)
			}
		}
	}
	im.keeps = true
	return im.without(f, m, im.sparseOf(w))
}

// layoutOf finds the counters of a mapped file. final is false if there may be some later.
func (f *Family) layoutOf(m *member, mapped *process.MappedFile, maps process.Maps, g *guest, when stage) (l *layout, final bool) {
	changed := mapped.Changed()
	known, none := f.layouts.of(mapped, changed)
	if none {
		return nil, true
	}
	if l := m.fitting(mapped, known); l != nil {
		return l, true
	}
	starting := when == running && m.isStarting() // its constructors have not run perhaps
	if len(known) > 0 && starting {
		return nil, false
	}
	defer f.layouts.alone(mapped)()
	if now, none := f.layouts.of(mapped, changed); none {
		return nil, true
	} else if l := m.fitting(mapped, now[len(known):]); l != nil { // somebody has found it meanwhile
		return l, true
	}
	l, err := f.layouts.find(f, m.proc, mapped, changed, maps, g, starting)
	if err != nil {
		f.problem(err)
	}
	return l, l != nil
}

// fitting returns the layout by which the counters of a mapped file can be read, nil: none.
func (m *member) fitting(mapped *process.MappedFile, layouts []*layout) *layout {
	for _, l := range layouts {
		w := l.buffer()
		err := l.read(m.proc, mapped.Start, w)
		l.release(w)
		if err == nil {
			return l
		}
	}
	return nil
}

// beginningOf is how long a program may run until it begins to count. On a busy machine that may be long after it was made.
const beginningOf = 20 * time.Millisecond

// isStarting tells whether a process may not have got to its own code so far: it has not run for long, and waits for nothing.
func (m *member) isStarting() bool {
	return isStarting(m.proc)
}

func isStarting(p *process.Process) bool {
	ran, sleeps, err := p.Activity()
	return err == nil && !sleeps && ran < beginningOf
}

// Snapshot returns what all members have counted, by object: each has one unit, which is
// not to be changed.
func (f *Family) Snapshot() ([]Unit, error) {
	// The order matters: what a process counts moves from its memory to the files, or to the sum
	// of those that have ended. Read the other way round it is missed until the next look,
	// never seen twice.
	f.mu.Lock()
	f.waitForAside()
	f.moving = false
	left := f.ended + f.replaced
	sets := slices.Clone(f.sets)
	f.mu.Unlock()
	for _, s := range sets {
		s.refresh(f)
	}
	now := make(map[*layout]words)
	f.mu.Lock()
	f.waitForAside() // whoever has written what was read is a member now, or among those that have ended
	for _, s := range sets {
		f.sumOf(s.layout)
	}
	order := slices.Clone(f.order)
	for _, s := range order {
		now[s.layout] = append(s.buffer()[:0], s.ended...)
	}
	var members []*member
	for _, m := range f.members {
		members = append(members, m)
	}
	f.mu.Unlock()
	for _, s := range sets {
		s.mu.Lock()
		s.addSince(now[s.layout], s.now, s.before)
		s.mu.Unlock()
	}
	ran := make(map[*layout]*runningSum)
	for _, m := range members {
		own, err := patiently(m.pid, func() (map[*layout]words, error) {
			own := make(map[*layout]words) // nobody else's, should it take long
			f.addRunning(m, own)
			return own, nil
		}, func(map[*layout]words) {})
		f.problem(err)
		for l, w := range own {
			if f.KeepRunning {
				ran[l] = ran[l].with(l, m, w)
			}
			if now[l] == nil {
				now[l] = w
				continue
			}
			l.add(now[l], w)
			l.release(w)
		}
	}
	f.mu.Lock()
	f.ran = ran
	order = slices.Clone(f.order)
	f.moving = f.moving || left != f.ended+f.replaced
	f.mu.Unlock()
	f.letGo(reachesOf(members))
	var units []Unit
	for _, s := range order {
		if w := now[s.layout]; w != nil {
			s.raise(w, s.total)
			if !slices.Equal(w, s.total) {
				copy(s.total, w)
				s.units = nil
			}
			s.release(w)
		}
		if s.units == nil {
			s.units = s.unitsOf(s.total)
		}
		units = append(units, s.units...)
	}
	return units, nil
}

// with is r, which may be nil, with what one more member has counted.
func (r *runningSum) with(l *layout, m *member, w words) *runningSum {
	if r == nil {
		r = &runningSum{words: make(words, l.size())}
	}
	l.add(r.words, w)
	r.members = append(r.members, runningMember(m))
	return r
}

func runningMember(m *member) RunningMember {
	return RunningMember{m.pid, baselineKey(m.pid, m.proc.Start), m.proc.Began()}
}

// waitForAside waits until no process is aside, of a family that is locked.
func (f *Family) waitForAside() {
	for f.aside > 0 {
		f.settled.Wait()
	}
}

// reachesOf are the ways to the data files of members; nil: they are not known now.
func reachesOf(members []*member) map[*reach]bool {
	used := make(map[*reach]bool)
	for _, m := range members {
		if !m.mu.TryLock() {
			return nil
		}
		for _, im := range m.images {
			if im.files != nil {
				im.files.mu.Lock()
				used[im.files.way] = true
				im.files.mu.Unlock()
			}
		}
		m.mu.Unlock()
	}
	return used
}

// unitsOf makes units of counters.
func (s *sum) unitsOf(w words) []Unit {
	load := &Load{ID: s.id, Path: s.path, At: s.start, Program: true, Group: s.id}
	counts, _ := s.counts(w.bytes(), nil)
	var units []Unit
	for i, u := range s.image.units {
		units = append(units, Unit{Name: u.name, Image: s.path, Counts: counts[i], Load: load})
	}
	return units
}

// addRunning adds what a member has counted so far, less what the files have of it already: modulo 2^64.
func (f *Family) addRunning(m *member, now map[*layout]words) {
	f.look(m, running)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.gone && !m.attended && m.proc.Check() != nil {
		f.lost(m)
		return
	}
	for _, im := range m.images {
		to := now[im.layout]
		if to == nil {
			f.mu.Lock()
			f.sumOf(im.layout)
			f.mu.Unlock()
			to = im.buffer()
			clear(to)
			now[im.layout] = to
		}
		w := im.buffer()
		own, dumping := false, false
		if !m.gone {
			own, dumping = f.readRunning(m, im, w)
		}
		switch {
		case own:
			im.add(to, w)
			if !m.attended || !im.tellsDumps() {
				f.keep(m, im.layout, w)
			}
		case im.owes():
			im.inherited.subtractFrom(to) // the files may have it already
			dumping = !im.parted
		}
		im.release(w)
		if dumping {
			f.mu.Lock()
			f.moving = true
			f.mu.Unlock()
		}
	}
}

// readRunning reads what a process that runs has counted itself; own is false if that is not known
// now, because it is writing its data files (dumping) or the image is gone.
func (f *Family) readRunning(m *member, im *placed, w words) (own, dumping bool) {
	if im.parted || im.read(m.proc, im.at, w) != nil {
		return false, false
	}
	if im.owes() && errors.Is(m.proc.Check(), process.ErrReplaced) {
		return false, false // these are the counters of what it has become
	}
	if im.inherited != nil && im.beingCleared(im.inherited, w) {
		if !m.proc.Sleeps() {
			clear(w)
			return true, true
		}
		// It is past that.
		if im.read(m.proc, im.at, w) != nil {
			return false, false
		}
	}
	flags := im.flagsIn(w)
	if im.silent && flags&rootDumped == 0 { // the program has set them to zero
		im.silent, im.inherited = false, nil
	}
	switch {
	case im.silent:
	case flags&rootDumped != 0:
		if im.files.wasWritten(m) {
			return false, true
		}
	case im.flagsAt(m.proc, im.at) != flags: // it has just done so, and may have ended
		return false, true
	case im.files != nil && im.mayHold(m, w):
		if !im.wait(m, w) {
			return false, true
		}
	case im.flagsAt(m.proc, im.at) != flags:
		return false, true
	default:
		im.waiting, im.sure = nil, nil
	}
	im.takeInherited(w)
	return true, false
}

// keep keeps what a member had counted at a look that may be the last one.
func (f *Family) keep(m *member, l *layout, w words) {
	if m.last == nil {
		m.last = make(map[*layout]words)
	}
	if m.last[l] == nil && !f.hasRoomFor(m, l.size()) {
		f.problem(fmt.Errorf("%s: %w when processes have ended", l.path, errRoom))
		return
	}
	m.last[l] = append(m.last[l][:0], w...)
}

// wait is for counters that the process has perhaps just been adding the files' to: if it has not ended by the time by which
// it would have written all, it was not. Then these are w. It is the process's own time: on a busy machine it may have got none.
func (im *placed) wait(m *member, w words) (sure bool) {
	ran, _, err := m.proc.Activity()
	if im.waiting != nil && err == nil && ran-im.sinceRan > writePatience {
		im.waiting, im.sure = nil, im.waiting
	}
	if im.waiting == nil {
		im.waiting, im.sinceRan = append(words(nil), w...), ran
	}
	copy(w, im.sure)
	return im.sure != nil
}

// lost is for a process that was not attended and has ended: what was read last is kept.
func (f *Family) lost(m *member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m.leaves()
	if !f.dropped(m, &f.ended) {
		return
	}
	for l, w := range m.last {
		l.add(f.sumOf(l).ended, w)
	}
}
