//go:build linux

package live

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"footfall/input"
	"footfall/output"
	"footfall/process"
)

// This file is the source-based counters of a family: Clang's, Rust's and those of Go. A process begins with all that its
// parent had counted when it was forked, and nothing sets that to zero: it is read before the first instruction, and taken
// out. What the program writes when it ends does not change its counters but in two cases:
//
//   - With %m in the name of its file the runtime adds what is in the file to them, and writes the sum. From then on they
//     are its own, what it has inherited, and what the file had: the last is known of the first member that is seen, and
//     then from member to member.
//   - With %c they are in the file all the time, and shared by all that have mapped it: they count once for a file.

// A countedImage is source-based counters of an image in a member: either of LLVM or of Go.
type countedImage struct {
	*image
	inherited []byte         // what is not its own, as SourceProfile.counted; nil: nothing
	forked    []byte         // of that, what it has of its parent, whose counts are in the sum; nil: nothing, or not known
	zero      []byte         // of its counters, what is in no sum, as it was counted before a reset; nil: nothing
	outside   bool           // it had counts at its beginning, here, that are in no sum
	merges    *mergedFile    // nil: what is in files is not added to its counters
	wrote     bool           // it had added it already, and runs on
	atWrite   []byte         // what was in its counters when that was seen,
	atBirth   []byte         // inherited until then,
	settled   *SourceProfile // and what of it was its own; nil: own then
	own       *SourceProfile // at the last look; nil: there was none
	closed    bool           // it is not in memory any more: what it had counted then stays
	shared    sharedFile     // at the last look; none: its counters are in memory of its own
}

// A mergedFile is a file with %m in its name.
type mergedFile struct {
	name   string      // as the members have it
	shared atomic.Bool // by several of them
	known  bool        // what was in it before a member added that to its counters
	before []byte      // that, as SourceProfile.counted; nil: nothing
}

// copyFor is the image in a child of its member.
func (c *countedImage) copyFor() *countedImage {
	im := *c.image
	if im.golang != nil {
		g := *im.golang
		im.golang = &g
	}
	if c.merges != nil {
		c.merges.shared.Store(true)
	}
	return &countedImage{image: &im, merges: c.merges, wrote: c.wrote, outside: c.outside, zero: c.zero, shared: c.shared}
}

// program is what is read of an image.
func (m *member) program(c *countedImage) *CountedProcess {
	return &CountedProcess{PID: m.pid, Name: m.proc.Name, proc: m.proc, images: []*image{c.image}}
}

// readProfile reads counters as they are; nil: there are none so far.
func (m *member) readProfile(c *countedImage) (*SourceProfile, error) {
	list, problems, err := m.program(c).profiles()
	if err = errors.Join(append(problems, err)...); err != nil || len(list) == 0 {
		return nil, err
	}
	r := &list[0]
	if at := r.parts; r.Meta == nil && len(r.Bytes) != at.rest+(at.namesSize+7)&^7 {
		return nil, fmt.Errorf("%s: values that were counted are not added up over processes", r.Image)
	}
	return r, nil
}

// lookForProfiles looks for images with source-based counters in a member, which is locked. complete is false if there may be
// some later.
func (f *Family) lookForProfiles(m *member, maps process.Maps, when stage) (complete bool) {
	before := m.counted
	m.counted, complete = nil, true
	for _, mapped := range m.proc.Images(maps) {
		known := false
		for _, c := range before {
			if c.key == mapped.Key() && !c.closed {
				m.counted, known = append(m.counted, c), true
			}
		}
		if known {
			continue
		}
		found, final := f.profilesIn(m, mapped, maps)
		complete = complete && (final || when != running || !m.isStarting())
		for _, c := range found {
			f.begins(m, c, when)
			m.counted = append(m.counted, c)
		}
	}
	for _, c := range before {
		if !slices.Contains(m.counted, c) {
			c.closed = true
			m.counted = append(m.counted, c)
		}
	}
	return complete
}

// profilesIn finds the source-based counters of a file that is mapped. final: there will be no others.
func (f *Family) profilesIn(m *member, mapped *process.MappedFile, maps process.Maps) (found []*countedImage, final bool) {
	changed := mapped.Changed()
	f.mu.Lock()
	none := changed != "" && f.unprofiled[mapped.File()] == changed
	f.mu.Unlock()
	if none {
		return nil, true
	}
	p := &CountedProcess{PID: m.pid, Name: m.proc.Name, proc: m.proc}
	im, mayHave := p.findProfiles(mapped, maps)
	if !mayHave {
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.unprofiled) >= maxNone {
			clear(f.unprofiled)
		}
		f.unprofiled[mapped.File()] = changed
		return nil, true
	}
	if im.profile != nil && im.profErr != nil {
		f.problem(fmt.Errorf("%s: source-based counters: %w", im.path, im.profErr))
	} else if im.profile != nil && im.profile.coverage {
		one := *im
		one.golang = nil
		found = append(found, &countedImage{image: &one})
	}
	if im.golang != nil {
		one := *im
		one.profile = nil
		found = append(found, &countedImage{image: &one})
	}
	return found, len(found) > 0
}

// begins notes what is not a member's own in an image that is seen in it for the first time.
func (f *Family) begins(m *member, c *countedImage, when stage) {
	r, err := m.readProfile(c)
	if err != nil || r == nil {
		return
	}
	if r.Meta == nil {
		f.followMerged(m, c, r, when)
	}
	if when != running {
		return
	}
	if !m.fromStart {
		c.inherited = f.fromParent(m, c, r)
	}
	c.forked = c.inherited
	for _, b := range m.since {
		before, err := r.countedIn(b.Bytes)
		switch {
		case b.Image != r.Key() || err != nil:
			continue
		case c.inherited == nil || r.Meta != nil:
			c.inherited = before
		default:
			r.parts.combine(c.inherited, before, func(a, b uint64) uint64 { return max(a, b) }, plusSet)
		}
		c.forked, c.zero = nil, before
	}
	if c.inherited != nil && !f.hasRoomFor(m, len(c.inherited)/8) {
		f.problem(fmt.Errorf("%s: %w", c.path, errRoom))
	}
	if written, _ := c.hasWritten(m); written && c.merges != nil {
		f.beganWritten(m, c, r)
	}
}

// beganWritten is for a member that had merged its profile when it was seen first.
func (f *Family) beganWritten(m *member, c *countedImage, r *SourceProfile) {
	all := r.counted()
	b, born := m.contents(c.merges.name)
	now, err := r.countedIn(b)
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.merges.before != nil && err == nil && bytes.Equal(now, c.merges.before) {
		c.merges.before = nil // that is what it has written itself
	}
	if c.merges.before != nil || born && err == nil && bytes.Equal(now, all) {
		c.settled = c.merges.added(c, r, true)
	} else {
		c.merges.before = now
		f.note(fmt.Errorf("process %d (%s): %s: it had written its profile before: its counts are those from now on", m.pid, output.Printable(m.proc.Name), c.path))
	}
	c.wrote, c.atWrite, c.inherited, c.outside, c.forked = true, all, all, true, nil
}

// sinceReset notes what a member had counted at a reset, its own or that of an ancestor before it was forked.
func (m *member) sinceReset(baselines *Baselines) error {
	if m.base != nil {
		m.since = m.base.Profiles
		return nil
	}
	ancestors, _ := m.program(&countedImage{}).ancestors()
	for _, a := range ancestors {
		base, err := baselines.Load(a.Key)
		if err != nil {
			return err
		}
		if base != nil && base.Time.Before(a.Forked) {
			m.since = base.Profiles
			return nil
		}
	}
	return nil
}

// fromParent is what a process that ran before it was seen has inherited, at most: what its parent, a member, has counted, too.
func (f *Family) fromParent(m *member, c *countedImage, r *SourceProfile) []byte {
	parent, err := m.proc.Parent()
	if err != nil || m.proc.Start.Stack == 0 || r.Meta != nil {
		return nil
	}
	f.mu.Lock()
	is := f.members[parent] != nil
	f.mu.Unlock()
	if !is {
		return nil
	}
	above, err := newMember(parent)
	if err != nil {
		return nil
	}
	defer above.proc.Close()
	if above.proc.Start.Stack != m.proc.Start.Stack { // it was not forked, but runs another program
		return nil
	}
	theirs, err := above.readProfile(c)
	if err != nil || theirs == nil || !theirs.sameBuild(r) {
		return nil
	}
	inherited, unsure := r.inherited(theirs)
	if unsure > 0 {
		f.problem(fmt.Errorf("process %d (%s): %s of %s ran in it and in its parent, too, before both were seen: what it has inherited of them counts twice", m.pid, output.Printable(m.proc.Name), output.Plural(unsure, "function"), c.path))
	}
	return inherited
}

// followMerged finds the file into which a member merges its profile, if it does, and what is in it.
func (f *Family) followMerged(m *member, c *countedImage, r *SourceProfile, when stage) {
	place, err := m.program(c).startPlacer()
	if err != nil {
		return
	}
	_, place.named = m.program(c).ancestors()
	name, merges, err := r.own.fileName(place)
	if err != nil || !merges {
		return // where it is not known the file is a new one, as it is by default
	}
	if dir, err := os.Readlink(place.dir); !path.IsAbs(name) && place.root == "" && err == nil {
		name = filepath.Join(dir, name)
	} else if !path.IsAbs(name) {
		name = filepath.Join(strings.TrimPrefix(place.dir, place.root), name)
	}
	key := place.here(filepath.Join(place.root, name)) + " " + r.Key()
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.merges = f.merged[key]; c.merges != nil {
		c.merges.shared.Store(true)
		return
	}
	c.merges = &mergedFile{name: name, known: true}
	f.merged[key] = c.merges
	b, born := m.contents(name)
	switch {
	case b == nil: // it is not there
	case when == ending:
		c.merges.known = born
	default:
		c.merges.before, _ = r.countedIn(b) // the runtime, too, adds nothing of another build
	}
}

// contents reads a file as a member does, and tells whether it was made after that had begun; nil: it is not there.
func (m *member) contents(name string) (b []byte, born bool) {
	file, err := m.proc.OpenInRoot(name)
	if err != nil {
		return nil, false
	}
	defer file.Close()
	if b, err = input.ReadAll(file, name, maxDataFile); err != nil {
		return nil, false
	}
	if b == nil {
		b = []byte{} // it is just being written
	}
	return b, bornSince(int(file.Fd()), m.proc)
}

// bornSince tells whether a file was made after a process had begun.
func bornSince(fd int, p *process.Process) bool {
	var st unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &st) != nil || st.Mask&unix.STATX_BTIME == 0 {
		return false
	}
	began := p.Began()
	return st.Btime.Sec > began.Unix() || st.Btime.Sec == began.Unix() && int(st.Btime.Nsec) >= began.Nanosecond()
}

// hasWritten tells whether the runtime has written a profile, where the file has the symbols that tell; writing: it has begun to,
// and may have added what is in the file to the counters.
func (c *countedImage) hasWritten(m *member) (written, writing bool) {
	if c.profile == nil || c.profile.writtenAt == 0 {
		return false, false
	}
	return c.isSet(m, c.profile.writtenAt), c.isSet(m, c.profile.writingAt)
}

// isSet tells whether a pointer is one.
func (c *countedImage) isSet(m *member, addr uint64) bool {
	b := make([]byte, c.profile.pointer)
	_, err := m.proc.ReadAt(b, int64(addr))
	return addr != 0 && err == nil && c.profile.address(b) != 0
}

// inheritProfiles notes what a child, which is locked and has run nothing so far, has of its parent.
func (f *Family) inheritProfiles(m *member) {
	for _, c := range m.counted {
		r, err := m.readProfile(c)
		if err != nil || r == nil {
			continue
		}
		c.inherited = r.counted()
		if c.merges != nil { // which of several it is depends on the process
			f.followMerged(m, c, r, forked)
		}
		if written, _ := c.hasWritten(m); written {
			c.wrote, c.outside = true, true // what is in the file is in its counters
		}
		if !c.outside && r.Meta == nil {
			c.forked = r.parts.since(c.inherited, c.zero)
		}
		if !f.hasRoomFor(m, len(c.inherited)/8) {
			f.problem(fmt.Errorf("%s: %w", c.path, errRoom))
		}
	}
}

// ownProfiles reads what a member, which is locked, has counted itself.
func (f *Family) ownProfiles(m *member, when stage) (own []*SourceProfile) {
	for _, c := range m.counted {
		if c.closed {
			if c.own != nil {
				own = append(own, c.withParents())
			}
			continue
		}
		r, err := m.readProfile(c)
		if err != nil || r == nil {
			if when == ending && err != nil {
				f.problem(fmt.Errorf("process %d (%s): %s: it cannot be read at the end: %w", m.pid, output.Printable(m.proc.Name), c.path, err))
			}
		} else if shared, is := m.sharedBy(c, r); is {
			f.mu.Lock()
			f.keepShared(shared, r)
			f.mu.Unlock()
			c.own = nil
		} else if when == ending {
			c.own = f.lastOwn(m, c, r)
		} else {
			c.own = c.ownNow(m, r)
		}
		if c.own != nil {
			own = append(own, c.withParents())
		}
	}
	return own
}

// ownNow is what a member that runs has counted itself; r is all that is in its counters.
func (c *countedImage) ownNow(m *member, r *SourceProfile) *SourceProfile {
	if c.merges != nil && c.profile.writtenAt == 0 && c.merges.shared.Load() && c.mayHaveAdded(m, r) {
		return c.own
	}
	if c.merges != nil && !c.wrote {
		switch written, writing := c.hasWritten(m); {
		case written && c.own == nil, writing && !written:
			return c.own
		case written:
			// It runs on perhaps: what it counts from now on is its own again.
			c.atWrite, c.atBirth = r.counted(), c.inherited
			c.wrote, c.inherited = true, r.counted()
			r.parts.combine(c.inherited, c.own.counted(), minusCount, minusSet)
			return c.own
		}
	}
	return c.andSettled(r.less(c.inherited))
}

// withParents is own with what was inherited.
func (c *countedImage) withParents() *SourceProfile {
	if c.forked == nil {
		return c.own
	}
	o := *c.own
	o.Inherited = o.with(c.forked).Bytes
	return &o
}

// andSettled adds what a member had counted before own.
func (c *countedImage) andSettled(own *SourceProfile) *SourceProfile {
	if c.settled == nil {
		return own
	}
	both, err := c.settled.plus(own)
	if err != nil {
		return own
	}
	return both
}

// lastOwn is what a member that ends has counted itself; r is all that is in its counters.
func (f *Family) lastOwn(m *member, c *countedImage, r *SourceProfile) *SourceProfile {
	if c.merges == nil {
		return r.less(c.inherited)
	}
	if c.wrote && c.atWrite != nil && bytes.Equal(c.atWrite, r.counted()) { // it was at its end then
		if c.settled != nil {
			return c.settled
		}
		c.wrote, c.inherited = false, c.atBirth
	}
	tells := c.profile.writtenAt != 0 && !c.wrote // else what the file has, and the counters, must do
	inFile := tells || c.mayHaveAdded(m, r)
	written, writing := c.hasWritten(m)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch file := c.merges; {
	case tells && writing && !written:
		f.note(fmt.Errorf("%s: a process was killed while it wrote its profile: what it counted since the last look is not known", c.path))
		return c.own
	case tells && !written, !inFile:
		return c.andSettled(r.less(c.inherited))
	case !file.known:
		file.known, file.before = true, r.counted()
		f.note(fmt.Errorf("%s: what was in %s before process %d (%s) added its counts is not known: these are left out", c.path, output.Printable(file.name), m.pid, output.Printable(m.proc.Name)))
		return c.own
	case !tells && file.shared.Load():
		f.note(fmt.Errorf("%s: it does not tell whether a process has merged its profile into the file of several (%%m): it is stripped, or did so before its end: counts of those that end may be too low", c.path))
		return c.andSettled(file.added(c, r, false))
	default:
		return c.andSettled(file.added(c, r, tells))
	}
}

// mayHaveAdded tells whether a member may have written its profile, by what is in the file: which another one may just be
// writing.
func (c *countedImage) mayHaveAdded(m *member, r *SourceProfile) bool {
	var before []byte
	for range 5 {
		b, _ := m.contents(c.merges.name)
		if b == nil {
			return false
		}
		now, err := r.countedIn(b)
		if err == nil && r.parts.covers(now, r.counted()) {
			return true
		}
		if err == nil && bytes.Equal(b, before) {
			return false
		}
		before = b
		time.Sleep(2 * time.Millisecond)
	}
	return true
}

// added is what a member has counted itself that has added what was in the file to its counters, r: certainly, or perhaps.
func (file *mergedFile) added(c *countedImage, r *SourceProfile, certain bool) *SourceProfile {
	before, all := file.before, r.counted()
	not := slices.Clone(before) // what is not its own
	switch {
	case before == nil:
		file.before = all
		return r.less(c.inherited)
	case c.inherited != nil:
		r.parts.combine(not, c.inherited, plusCount, plusSet)
	}
	switch {
	case r.parts.covers(all, not):
		file.before = slices.Clone(all)
		r.parts.combine(all, not, minusCount, minusSet)
		if c.own != nil { // that something ran is known of it, if it had run before, too
			r.parts.combine(all, c.own.counted(), func(a, _ uint64) uint64 { return a }, plusSet)
		}
		return r.with(all)
	case !certain: // it has added nothing perhaps, or the end of another one was seen before
		return c.own
	case !r.parts.covers(before, all): // the file was begun anew
		file.before = all
		return r.less(c.inherited)
	}
	// Another one has added what this one had written, and its end was seen before. So its own is counted already, and what
	// it had inherited, too.
	none := r.parts.nothing()
	if c.inherited != nil {
		r.parts.combine(none, c.inherited, minusCount, minusSet)
	}
	return r.with(none)
}

// A sharedFile has counters in it, which all processes count in that have mapped it.
type sharedFile struct {
	file  string // its device and inode
	first int    // the process that has begun it by becoming the program, 0 where that adds to what is in it
}

// sharedBy tells the file that has the counters of an image in it, which others may have mapped, too; false: they are its own.
// What is asked for that of a process that ends may be gone already: then it is what it was at the last look, or for its parent.
func (m *member) sharedBy(c *countedImage, r *SourceProfile) (sharedFile, bool) {
	if c.profile == nil {
		return sharedFile{}, false
	}
	maps, _, err := m.proc.Maps()
	if err != nil {
		return c.shared, c.shared.file != ""
	}
	counters, _, err := c.profile.place(m.proc, maps)
	if err != nil {
		return c.shared, c.shared.file != ""
	}
	if counters.addr == c.profile.counters.addr {
		return sharedFile{}, false
	}
	at := maps.At(counters.addr)
	if at == nil || at.Inode == 0 {
		return sharedFile{}, false
	}
	if file := fmt.Sprintf("%s %d", at.Device, at.Inode); c.shared.file != file {
		c.shared = sharedFile{file, m.beginsFile(c, r)}
	}
	return c.shared, true
}

// beginsFile tells the process that has begun the file of a member's counters.
func (m *member) beginsFile(c *countedImage, r *SourceProfile) int {
	if place, err := m.program(c).startPlacer(); err == nil {
		if _, merges, _ := r.own.fileName(place); merges { // else who becomes the program by exec begins it anew
			return 0
		}
	}
	_, first := m.program(c).ancestors()
	return first
}

// keepShared has the counters in a file count once, whoever has mapped it and is read first; the family is locked.
func (f *Family) keepShared(file sharedFile, r *SourceProfile) {
	if was := f.shared[file]; was != nil && was.sameBuild(r) {
		all := was.counted()
		r.parts.combine(all, r.counted(), func(a, b uint64) uint64 { return max(a, b) }, plusSet)
		r = r.with(all)
	}
	f.shared[file] = r
}

// Profiles returns the source-based counters of all members, by image: with those of all that have ended.
func (f *Family) Profiles() []SourceProfile {
	f.lookAtAllProfiles()
	f.mu.Lock()
	sum := slices.Clone(f.profiles)
	var rest []*SourceProfile
	for _, m := range f.members {
		rest = append(rest, m.own...)
	}
	for _, r := range f.shared {
		rest = append(rest, r)
	}
	f.mu.Unlock()
	for _, r := range rest {
		sum = addProfile(sum, r)
	}
	profiles := make([]SourceProfile, 0, len(sum))
	taken := make(map[string]bool)
	for _, r := range sum {
		one := *r
		if one.Meta == nil {
			one.Name = profileName(one.Image, taken)
		}
		profiles = append(profiles, one)
	}
	slices.SortFunc(profiles, func(a, b SourceProfile) int { return strings.Compare(a.Key(), b.Key()) })
	return profiles
}

// ResetInherited has what processes inherit count from now on: what [Family.Profiles] tells of that from then on is what their
// parents have counted since. It is for who takes away what was counted until now.
func (f *Family) ResetInherited() {
	f.mu.Lock()
	members := slices.Collect(maps.Values(f.members))
	for i, r := range f.profiles {
		f.profiles[i] = r.withoutInherited()
	}
	f.mu.Unlock()
	for _, m := range members {
		_, err := patiently(m.pid, func() (struct{}, error) {
			f.resetInherited(m)
			return struct{}{}, nil
		}, func(struct{}) {})
		f.problem(err)
	}
}

func (f *Family) resetInherited(m *member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.counted {
		if c.closed || c.golang != nil {
			continue
		}
		if r, err := m.readProfile(c); err == nil && r != nil {
			if c.zero == nil && !f.hasRoomFor(m, len(r.counted())/8) {
				f.problem(fmt.Errorf("%s: %w", c.path, errRoom))
			}
			c.zero = r.counted()
		}
		c.forked = nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, r := range m.own {
		m.own[i] = r.withoutInherited()
	}
}

// lookAtAllProfiles reads the members that run.
func (f *Family) lookAtAllProfiles() {
	f.mu.Lock()
	f.waitForAside()
	members := make([]*member, 0, len(f.members))
	for _, m := range f.members {
		members = append(members, m)
	}
	f.mu.Unlock()
	for _, m := range members {
		_, err := patiently(m.pid, func() (struct{}, error) {
			f.lookAtProfiles(m)
			return struct{}{}, nil
		}, func(struct{}) {})
		f.problem(err)
	}
}

// MemberProfiles are the source-based counters of a member that runs.
type MemberProfiles struct {
	RunningMember
	Profiles []SourceProfile // what it has counted itself
}

// TakeProfiles is Profiles for who adds up by itself: what those have counted that run, at this look, and what those had
// that have ended since the last one, added up by build. The family forgets the latter, and so its sums stay small: counters
// of Go, of 32 bits, stay at the largest number otherwise.
// Counters that are in a file all the time (%c) are in neither: shared are the images of such.
func (f *Family) TakeProfiles() (ended []SourceProfile, running []MemberProfiles, shared []string) {
	f.lookAtAllProfiles()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.profiles {
		ended = append(ended, *r)
	}
	f.profiles = nil
	for _, r := range f.shared {
		shared = append(shared, r.Image)
	}
	for _, m := range f.members {
		if len(m.own) == 0 {
			continue
		}
		one := MemberProfiles{RunningMember: runningMember(m)}
		for _, r := range m.own {
			one.Profiles = append(one.Profiles, *r)
		}
		running = append(running, one)
	}
	return ended, running, shared
}

// Places are [CountedProcess.Places] of a member; none if it is none any more.
func (f *Family) Places(pid int) []string {
	m := f.member(pid)
	if m == nil {
		return nil
	}
	known := m.found.Load()
	if known == nil {
		return nil
	}
	p := &CountedProcess{PID: m.pid, proc: m.proc}
	for _, c := range known.counted {
		p.images = append(p.images, c.image)
	}
	return p.Places()
}

// lookAtProfiles reads a member that runs.
func (f *Family) lookAtProfiles(m *member) {
	f.look(m, running)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone || len(m.counted) == 0 || m.proc.Check() != nil {
		return // what was read last stays
	}
	own := f.ownProfiles(m, running)
	room := 0
	for _, r := range own {
		room += len(r.Bytes) / 8
	}
	if more := room - m.profileRoom; more > 0 && !f.hasRoomFor(m, more) {
		f.problem(fmt.Errorf("process %d (%s): %w", m.pid, output.Printable(m.proc.Name), errRoom))
		return
	}
	m.profileRoom = max(room, m.profileRoom)
	f.mu.Lock()
	defer f.mu.Unlock()
	m.own = own
}

// addProfile adds what was counted to sums of which there is one for each build of an image.
func addProfile(sums []*SourceProfile, more *SourceProfile) []*SourceProfile {
	for i, s := range sums {
		if s.sameBuild(more) {
			if sum, err := s.plus(more); err == nil {
				sums[i] = sum
			}
			return sums
		}
	}
	return append(sums, more)
}
