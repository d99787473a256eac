//go:build linux

package collect

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"footfall/hook/patch"
	"footfall/input"
	"footfall/output"
	"footfall/process"
)

// This file is what is kept of programs over all their processes: a file for each build of a program or library, and for
// functions and lines, below the user's directory of states:
//
//	footfall/ran/BUILD-ID.functions.json
//
// What ran in any process ran; of what is not known in one, and ran in none, it is not known; the rest did
// not. So files of two can be added in any order, and once more.

// keptFormat is changed with what the files mean.
const keptFormat = 1

// A keptFile is what is kept of a program. Addresses are those of its functions and blocks, as the file has them.
type keptFile struct {
	Format  int       `json:"format"`
	Path    string    `json:"path"`
	BuildID string    `json:"build_id"`
	Kind    string    `json:"kind"`  // functions or lines
	Since   time.Time `json:"since"` // when it began, or began anew
	Until   time.Time `json:"until"` // when processes were last looked at
	// Processes is how many there were. Those are Watched that may be yet.
	Processes int           `json:"processes"`
	Watched   []keptProcess `json:"watched,omitempty"`
	// Lost is how many ended, or were restored, when nobody looked: what they ran since they were last
	// looked at, the first of them at LostSince, is not known.
	Lost      int                 `json:"lost,omitempty"`
	LostSince time.Time           `json:"lost_since,omitzero"`
	Ran       []uint64            `json:"ran"`
	Not       []uint64            `json:"not"`
	Unknown   map[string][]uint64 `json:"unknown,omitempty"` // by the reason
}

// A keptProcess is a process that is watched, and when it was last looked at, or that was until somebody ended
// that: then it has run on without being watched.
type keptProcess struct {
	PID   int       `json:"pid"`
	Ticks uint64    `json:"started"`
	Stack uint64    `json:"stack"`
	Boot  string    `json:"boot"`
	Seen  time.Time `json:"seen"`
	Ended bool      `json:"ended,omitempty"`
}

// is tells whether it is the same process, and runs the same program.
func (k *keptProcess) is(other *keptProcess) bool {
	return k.PID == other.PID && k.Ticks == other.Ticks && k.Stack == other.Stack && k.Boot == other.Boot
}

// runs tells whether it may run yet.
func (k *keptProcess) runs() bool {
	id, err := process.Identify(k.PID)
	return err == nil && k.Boot == bootID() && id == process.Identity{Ticks: k.Ticks, Stack: k.Stack}
}

func keptOf(p *process.Process) keptProcess {
	return keptProcess{PID: p.PID, Ticks: p.Start.Ticks, Stack: p.Start.Stack, Boot: bootID()}
}

func bootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}

// keptDirectory is where the files are.
func (r *Ran) keptDirectory() (string, error) {
	if dir := r.options.Directory; dir != "" {
		return dir, os.MkdirAll(dir, 0o700)
	}
	dir := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) { // as that specification has it
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("--keep: there is no place for what is kept (%w): set XDG_STATE_HOME to a directory", err)
		}
		dir = filepath.Join(home, ".local", "state")
	}
	dir = filepath.Join(dir, "footfall", "ran")
	return dir, os.MkdirAll(dir, 0o700)
}

// A kept is the file of a program, as this session uses it.
type kept struct {
	path, kind string
	file       *keptFile // as it was read or written last; nil: there is none yet
	counted    map[keptProcess]bool
	reset      bool // it begins anew
	foreign    bool // another one has begun anew meanwhile
}

// keep loads what is kept of a program, unless that is done.
func (r *Ran) keep(p *RanProgram) error {
	if p.kept != nil {
		return nil
	}
	if p.buildID == "" {
		return fmt.Errorf("%s has no build id, by which it would be known again: link it with -Wl,--build-id", p.Path)
	}
	dir, err := r.keptDirectory()
	if err != nil {
		return err
	}
	k := &kept{kind: r.what().String(), counted: make(map[keptProcess]bool)}
	k.path = filepath.Join(dir, p.buildID+"."+k.kind+".json")
	if k.file, err = readKept(k.path, k.kind); err != nil {
		return err
	}
	p.kept = k
	if k.file != nil {
		p.recall(k.file)
		k.file.Ran, k.file.Not, k.file.Unknown = nil, nil, nil
	}
	return nil
}

// largestKept is how large a file may be.
const largestKept = 1 << 30

// readKept reads a file; nil: there is none.
func readKept(path, kind string) (*keptFile, error) {
	b, err := input.ReadFile(path, largestKept)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	f := new(keptFile)
	if err == nil {
		err = json.Unmarshal(b, f)
	}
	switch {
	case err != nil:
	case f.Format != keptFormat:
		err = fmt.Errorf("it has format %d, this footfall knows %d", f.Format, keptFormat)
	case f.Kind != kind:
		err = fmt.Errorf("it is about %q, not %s", f.Kind, kind)
	}
	if err != nil {
		return nil, fmt.Errorf("what --keep has kept, %s: %w; to begin anew: remove it", path, err)
	}
	return f, nil
}

// notWatched is why it is not known of a function whether it ran that earlier sessions do not have.
var notWatched = reasonOf("it was not watched in all processes that are kept")

// recall takes from a file what ran earlier.
func (p *RanProgram) recall(f *keptFile) {
	states := maps.Collect(p.keptStates())
	known := make(map[uint64]bool)
	for _, addr := range f.Ran {
		if s := states[addr]; s != nil {
			known[addr], s.Ran = true, true
		}
	}
	for _, addr := range f.Not {
		known[addr] = true
	}
	for why, list := range f.Unknown {
		for _, addr := range list {
			if s := states[addr]; s != nil {
				known[addr] = true
				s.cannot = cmp.Or(s.cannot, reasonOf(why), notWatched)
			}
		}
	}
	for addr, s := range states {
		if !known[addr] {
			s.cannot = cmp.Or(s.cannot, notWatched)
		}
	}
	for _, fn := range p.Functions {
		fn.noted = fn.Ran || slices.ContainsFunc(fn.blocks(), func(b *ranBlock) bool { return b.Ran })
	}
}

// keptStates are those that are kept, by their addresses: of blocks, and of functions that are not divided.
func (p *RanProgram) keptStates() iter.Seq2[uint64, *ranState] {
	return func(yield func(uint64, *ranState) bool) {
		for _, fn := range p.Functions {
			if len(fn.blocks()) == 0 && !yield(fn.Addr, &fn.ranState) {
				return
			}
		}
		for _, b := range p.blocks {
			if !yield(b.addr, &b.ranState) {
				return
			}
		}
	}
}

// A keptFact is what is known of the function or block at an address: now, or in a file.
type keptFact struct {
	addr uint64
	why  Reason
	from keptList
}

// A keptList is which list of a file has a fact, or that it is known now.
type keptList uint8

const (
	keptNow keptList = iota
	keptNowRan
	keptRan
	keptNot
	keptUnknown
)

// add adds what is known now to a file.
func (f *keptFile) add(p *RanProgram) {
	first := len(f.Ran)+len(f.Not)+len(f.Unknown) == 0
	facts := f.facts(p)
	f.Ran, f.Not, f.Unknown = []uint64{}, []uint64{}, make(map[string][]uint64)
	for len(facts) > 0 {
		n := 1
		for n < len(facts) && facts[n].addr == facts[0].addr {
			n++
		}
		addr := facts[0].addr
		switch ran, why := settleKept(facts[:n], first); {
		case ran:
			f.Ran = append(f.Ran, addr)
		case why != 0:
			f.Unknown[why.String()] = append(f.Unknown[why.String()], addr)
		default:
			f.Not = append(f.Not, addr)
		}
		facts = facts[n:]
	}
}

// facts are those of the file and of now, by address.
func (f *keptFile) facts(p *RanProgram) []keptFact {
	facts := make([]keptFact, 0, len(p.Functions)+len(p.blocks)+len(f.Ran)+len(f.Not))
	for addr, s := range p.keptStates() {
		from := keptNow
		if s.Ran {
			from = keptNowRan
		}
		facts = append(facts, keptFact{addr, s.Unknown, from})
	}
	list := func(addrs []uint64, why Reason, from keptList) {
		for _, addr := range addrs {
			facts = append(facts, keptFact{addr, why, from})
		}
	}
	list(f.Ran, 0, keptRan)
	list(f.Not, 0, keptNot)
	for why, addrs := range f.Unknown {
		list(addrs, cmp.Or(reasonOf(why), notWatched), keptUnknown)
	}
	slices.SortFunc(facts, func(a, b keptFact) int {
		return cmp.Or(cmp.Compare(a.addr, b.addr), cmp.Compare(a.from, b.from))
	})
	return facts
}

// settleKept says of the facts of one address whether it ran, or why that is not known; first tells that the file was empty.
func settleKept(facts []keptFact, first bool) (ran bool, why Reason) {
	now, before := false, false
	for _, is := range facts {
		switch is.from {
		case keptNow:
			now, why = true, is.why
		case keptNowRan:
			now, ran = true, true
		case keptRan:
			before, ran = true, true
		case keptNot:
			before = true
		case keptUnknown:
			before, why = true, is.why
		}
	}
	if why == 0 && (!now || !first && !before) {
		why = notWatched
	}
	return ran, why
}

// tally brings up to date which processes there are and were.
func (f *keptFile) tally(k *kept, ours []*ranProcess, now time.Time) {
	lose := func(lost keptProcess) {
		f.Lost++
		if f.LostSince.IsZero() || lost.Seen.Before(f.LostSince) {
			f.LostSince = lost.Seen
		}
	}
	var alive []keptProcess
	for _, w := range f.Watched {
		at := slices.IndexFunc(ours, func(t *ranProcess) bool { return w.is(&t.kept) })
		switch {
		case at >= 0:
			if id := ours[at].kept; !k.counted[id] { // it has been watched before, and is now again
				k.counted[id] = true
				if !ours[at].takenOver && !w.Ended {
					lose(w)
				}
			}
		case w.runs():
			alive = append(alive, w)
		case w.Ended:
		default:
			lose(w)
		}
	}
	for _, t := range ours {
		if !k.counted[t.kept] {
			k.counted[t.kept] = true
			f.Processes++
		}
		if w := t.kept; t.stays || w.runs() {
			w.Seen, w.Ended = now, !t.stays
			alive = append(alive, w)
		}
	}
	f.Watched = alive
}

// save writes what is known of a program.
func (r *Ran) save(p *RanProgram) error {
	k := p.kept
	if k.foreign {
		return nil
	}
	lock, err := os.OpenFile(filepath.Join(filepath.Dir(k.path), "lock"), os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // and so unlocks it
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	f, err := readKept(k.path, k.kind)
	if err != nil {
		return err
	}
	if f != nil && k.file != nil && !k.reset && !f.Since.Equal(k.file.Since) {
		k.foreign = true
		r.say("%s: another footfall has begun anew (--reset): what this one saw is not added", p.Path)
		return nil
	}
	now := time.Now()
	if f == nil || k.reset {
		f = &keptFile{Format: keptFormat, Path: p.Path, BuildID: p.buildID, Kind: k.kind, Since: now}
		if k.file != nil && !k.reset { // somebody has removed it
			f.Since = k.file.Since
		}
	}
	f.Until = now
	f.add(p)
	f.tally(k, r.of(p), now)
	b, err := json.Marshal(f)
	if err == nil {
		err = output.Replace(k.path, b)
	}
	if err == nil {
		k.file, k.reset = f, false
		f.Ran, f.Not, f.Unknown = nil, nil, nil // they are read again
	}
	return err
}

// of returns the processes of a program.
func (r *Ran) of(p *RanProgram) []*ranProcess {
	return slices.DeleteFunc(slices.Clone(r.processes), func(t *ranProcess) bool { return !slices.Contains(t.programs, p) })
}

// How often what has run is saved: if there is anything new, and if not.
const (
	saveNews  = 10 * time.Second
	saveTimes = time.Minute
)

// saveAll saves what is known of all programs that are kept.
func (r *Ran) saveAll() error {
	r.saved, r.news = time.Now(), false
	defer r.giveBack() // to merge with what there is takes as much as what is known
	r.Settle()
	var failed []error
	for _, p := range r.programs {
		if p.kept != nil {
			failed = append(failed, r.save(p))
		}
	}
	return errors.Join(failed...)
}

// saveSometimes is saveAll if it is time for that.
func (r *Ran) saveSometimes() {
	since := time.Since(r.saved)
	if r.keeping() && (since > saveTimes || since > saveNews && r.news) {
		if err := r.saveAll(); err != nil {
			r.say("%v", err)
		}
	}
}

// keeping tells whether anything is kept.
func (r *Ran) keeping() bool {
	return slices.ContainsFunc(r.programs, func(p *RanProgram) bool { return p.kept != nil })
}

// what is watched.
func (r *Ran) what() patch.Keeping {
	if r.options.Lines {
		return patch.KeepsBlocks
	}
	return patch.KeepsFunctions
}

var notAlways = reasonOf("it was not watched all the time")

// takeGaps notes of what a process has run without being watched, which earlier sessions have watched.
func (r *Ran) takeGaps(t *ranProcess) {
	for site, place := range t.places() {
		p := place.fn.program
		if p.kept == nil || p.kept.file == nil || !slices.ContainsFunc(p.kept.file.Watched, func(w keptProcess) bool { return w.is(&t.kept) }) {
			continue
		}
		if t.takenOver && t.session.Gaps[site] || !t.takenOver {
			place.state.cannot = cmp.Or(place.state.cannot, notAlways)
		}
	}
}

// Reset begins anew: what has run is watched again, and forgotten. It is for a Ran that stays.
func (r *Ran) Reset() error {
	var failed []error
	for state := range r.states() {
		*state = ranState{cannot: state.never, never: state.never}
	}
	r.processes = slices.DeleteFunc(r.processes, func(t *ranProcess) bool {
		if t.session == nil {
			t.close()
			return true
		}
		failed = append(failed, t.session.Rearm())
		return false
	})
	for _, p := range r.programs {
		if p.kept != nil {
			p.kept.reset, p.kept.foreign = true, false
			clear(p.kept.counted)
		}
	}
	return errors.Join(append(failed, r.saveAll())...)
}

// BuildID is the one by which it is kept; "": it is not.
func (p *RanProgram) BuildID() string {
	if p.kept == nil {
		return ""
	}
	return p.buildID
}

// Since is when what is kept began, or began anew; zero: nothing is.
func (p *RanProgram) Since() time.Time {
	if p.kept == nil || p.kept.file == nil {
		return time.Time{}
	}
	return p.kept.file.Since
}

// Watches tells whether a process of the program is watched now.
func (r *Ran) Watches(p *RanProgram) bool {
	return slices.ContainsFunc(r.of(p), func(t *ranProcess) bool { return t.session != nil })
}

// PIDs are the processes of the program that are known.
func (r *Ran) PIDs(p *RanProgram) (pids []int) {
	for _, t := range r.of(p) {
		pids = append(pids, t.p.PID)
	}
	return pids
}

// Watched says over what a program is kept, "" if it is not.
func (p *RanProgram) Watched() string {
	if p.kept == nil || p.kept.file == nil {
		return ""
	}
	f := p.kept.file
	const form = "2006-01-02 15:04:05"
	text := fmt.Sprintf("watched from %s to %s in %s", f.Since.Local().Format(form), f.Until.Local().Format(form), output.Count(f.Processes, "process", "processes"))
	if f.Lost > 0 {
		text += fmt.Sprintf("; what %s ran after %s is not known: nobody looked when they ended", output.Count(f.Lost, "of them", "of them"), f.LostSince.Local().Format(form))
	}
	return text
}
