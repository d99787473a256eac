//go:build linux

package collect

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"footfall/collect/find"
	"footfall/input"
	"footfall/live"
	"footfall/output"
	"footfall/process"
	"footfall/report/source"
)

// A Target is something that runs and has counters.
type Target struct {
	Title string // "redis-server (pid 4711)"
	test  string // by which the process is kept apart; "": it is not

	pid     int
	source  counters             // nil: its program has no counters, so far
	process *live.CountedProcess // nil for the kernel; the first one of a family
	family  *family              // nil: one process, or the kernel
	base    *live.Baseline
	history *live.History     // nil until it was read once
	last    *Snapshot         // what was read last
	zero    map[string][]byte // source-based counters at the reset, by image
	ended   error             // why what was read last stays; nil: it runs
}

// counters are those of a process or of the kernel.
type counters interface {
	Snapshot() ([]live.Unit, error)
	Key() string
}

// root is where the target's file system is to be found, "" if it is ours.
func (t *Target) root() string {
	if t.process == nil {
		return ""
	}
	return t.process.Root()
}

// FileName returns a name for files about the target: redis-server-4711.
func (t *Target) FileName() string {
	if t.process == nil {
		return "kernel"
	}
	return fmt.Sprintf("%s-%d", strings.ReplaceAll(output.Printable(t.process.Name), "/", "_"), t.process.PID)
}

// TargetOptions say how targets are looked at.
type TargetOptions struct {
	Options
	Follow     bool // again and again
	Each       bool // what each process has run is kept apart, as that of a test
	Total      bool // no reset counts
	SinceReset bool // there must have been one
	Resets     bool // what is wrong with keeping resets is an error
	Forgets    bool // resets: they are not said
	Verbose    bool
	Stderr     io.Writer // for what is wrong
	Notes      io.Writer // for what is good to know
}

// Targets are what one command looks at.
type Targets struct {
	List []*Target

	options   TargetOptions
	known     *live.Known
	baselines *live.Baselines
	finder    *find.NotesFinder
	problems  []source.Problem // told once
	advised   bool
	unsure    int // functions of the last look that may have counts twice

	following  bool            // what is wrong is said when it is first seen
	said       map[string]bool // while following
	problemsOf map[string]int  // how many there were of each kind at the last look
	pending    *[]string       // what is to be said on the screen, nil: standard error will do
}

// OpenTargets opens what the arguments name: pids, names, kernel. Of several
// processes of one name those that cannot be read are told, the others are enough.
// The targets are to be closed.
func OpenTargets(args []string, o TargetOptions) (_ *Targets, err error) {
	l := &Targets{options: o, known: live.NewKnown()}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	if o.Follow {
		l.options.Cache = NewCache(o.Sources)
	}
	if l.finder, l.problems, err = find.NewNotesFinder(o.ObjectDirs, o.Sources); err != nil {
		return nil, err
	}
	seen := make(map[int]bool)
	var left []error
	for _, arg := range args {
		err := l.open(arg, seen)
		var stuck *live.StuckError
		if errors.As(err, &stuck) {
			left = append(left, err)
		} else if err != nil {
			return nil, err
		}
	}
	if len(l.List) == 0 {
		return nil, errors.Join(left...)
	}
	for _, err := range left {
		l.leaveOut(err)
	}
	return l, l.loadBaselines()
}

// leaveOut tells that one of several cannot be looked at.
func (l *Targets) leaveOut(err error) {
	var stuck *live.StuckError
	if errors.As(err, &stuck) {
		l.say("%s", output.Printable(err.Error()))
		return
	}
	l.say("left out: %v", err)
}

// open opens what an argument names. seen are the pids that others have named.
func (l *Targets) open(arg string, seen map[int]bool) error {
	if arg == "kernel" {
		k, err := live.OpenKernel("")
		if err == nil {
			l.List = append(l.List, &Target{Title: "kernel", test: "kernel", source: k})
		}
		return err
	}
	selector, err := process.ParseSelector(arg)
	if err != nil {
		return err
	}
	pids, err := selector.Find()
	if err != nil {
		return err
	}
	if l.options.Follow && selector.Follows() {
		pids = slices.DeleteFunc(pids, func(pid int) bool { return seen[pid] })
		return l.openFamily(selector, pids, maps.Clone(seen))
	}
	return l.openEach(pids, seen)
}

// openEach opens processes that are each looked at by itself. It is enough if one can be.
func (l *Targets) openEach(pids []int, seen map[int]bool) error {
	var refused []error
	for _, pid := range pids {
		if seen[pid] {
			continue
		}
		seen[pid] = true
		if err := l.openProcess(pid); err != nil {
			refused = append(refused, err)
		}
	}
	if len(refused) == len(pids) {
		return errors.Join(refused...)
	}
	for _, err := range refused {
		if !errors.Is(err, process.ErrExited) { // since it was found
			l.leaveOut(err)
		}
	}
	return nil
}

// Close lets go of the processes.
func (l *Targets) Close() {
	for _, t := range l.List {
		if t.family != nil {
			t.family.close()
		}
		if t.process != nil {
			t.process.Close()
		}
	}
}

func (l *Targets) openProcess(pid int) error {
	t := new(Target)
	if err := t.open(pid, l.known); err != nil {
		return err
	}
	if l.options.Each {
		t.test = testName(pid, t.process.Name)
	}
	l.List = append(l.List, t)
	return l.admit(t)
}

// admit takes a program that was opened: the files that it maps are followed if the options
// say so, and the sources that it names are read as its user would read them.
func (l *Targets) admit(t *Target) error {
	t.process.FollowFiles = l.options.Follow
	user, err := t.process.User()
	if err == nil {
		readAs(l.options.Sources, t.pid, user, t.root())
	}
	return err
}

// readAs has sources that a process names be read as its user, whose root directory is that of the process,
// would read them.
func readAs(sources *source.Sources, pid int, user input.User, root string) {
	sources.Owners.NoteProcess(pid, user)
	if !slices.Contains(sources.Roots, root) {
		sources.Roots = append(sources.Roots, root)
	}
}

// open opens the program that the process runs now.
func (t *Target) open(pid int, known *live.Known) error {
	p, err := known.OpenPatiently(pid)
	var kernel *process.KernelThreadError
	if errors.As(err, &kernel) {
		return fmt.Errorf("%w; the counters of the kernel are shown by: footfall live kernel", err)
	}
	if err != nil {
		return err
	}
	*t = Target{Title: fmt.Sprintf("%s (pid %d)", output.Printable(p.Name), pid), pid: pid, source: p, process: p}
	return nil
}

// loadBaselines finds the resets that were made before.
func (l *Targets) loadBaselines() (err error) {
	if l.baselines, err = live.OpenBaselines(); err != nil {
		if l.options.SinceReset || l.options.Resets {
			return err
		}
		if !errors.Is(err, fs.ErrPermission) { // without the right to keep a reset there is none
			fmt.Fprintf(l.options.Stderr, "footfall: %v\n", err)
		}
		return nil
	}
	if l.options.Total {
		return nil
	}
	for _, t := range l.List {
		if t.base, err = l.baselines.Load(t.source.Key()); err != nil {
			return err
		}
		if t.base == nil && t.process != nil && t.family == nil && t.process.HasProfiles() {
			if t.base, err = l.inherited(t.process); err != nil {
				return err
			}
		}
		t.zero = zeroOf(t.base)
		switch {
		case t.family != nil && t.family.reset.Load():
		case t.base == nil && l.options.SinceReset:
			return fmt.Errorf("%s: there was no reset: footfall live --reset makes one", t.Title)
		case t.base != nil && !l.options.Forgets:
			fmt.Fprintf(l.options.Notes, "footfall: %s: counts since the reset of %s (--total: all)\n", t.Title, t.base.Time.Local().Format(time.DateTime))
		}
	}
	return nil
}

// inherited is the baseline of source-based counters of a process that was forked after one that it descends from was
// reset: it began with counters of which that was taken. nil: there is none.
func (l *Targets) inherited(p *live.CountedProcess) (*live.Baseline, error) {
	for _, a := range p.Ancestors() {
		base, err := l.baselines.Load(a.Key)
		if err != nil {
			return nil, err
		}
		if base != nil && len(base.Profiles) > 0 && base.Time.Before(a.Forked) {
			return &live.Baseline{Time: base.Time, Profiles: base.Profiles}, nil
		}
	}
	return nil, nil
}

// keepBaseline takes out of the baseline that is kept what the program has made
// void: once its counters have grown that cannot be seen any more.
func (l *Targets) keepBaseline(t *Target) error {
	if t.base == nil {
		return nil
	}
	base, less := t.history.Baseline()
	if !less || base != nil && len(base.Objects) == len(t.base.Objects) {
		return nil
	}
	if base == nil && len(t.base.Profiles) > 0 {
		base = &live.Baseline{Time: t.base.Time}
	}
	if base != nil {
		base.Profiles = t.base.Profiles
	}
	if base == nil {
		_, err := l.baselines.Remove(t.source.Key())
		t.base = nil
		return err
	}
	t.base = base
	return l.baselines.Store(t.source.Key(), base)
}

// zeroOf are the source-based counters of a baseline, by image.
func zeroOf(b *live.Baseline) map[string][]byte {
	if b == nil || len(b.Profiles) == 0 {
		return nil
	}
	zero := make(map[string][]byte)
	for _, p := range b.Profiles {
		zero[p.Image] = p.Bytes
	}
	return zero
}
