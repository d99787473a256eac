package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"footfall/coverage"
	"footfall/live"
	"footfall/output"
	"footfall/proc"
	"footfall/report"
)

func newLiveCommand() *cobra.Command {
	var o liveOptions
	cmd := &cobra.Command{
		Use:   "live TARGET...",
		Short: "Show what running programs have covered so far, without stopping them",
		Long: `Live reads the counters of running programs that were built with gcc --coverage
or clang --coverage, from outside: a program is not stopped, changed or asked, and
needs no handler and no exit. A TARGET is a pid, a name, which stands for all
processes of that name, or kernel, for a kernel built with CONFIG_GCOV_KERNEL.
Several are added up. --list shows which processes have counters.

The report, its outputs and its options are those of footfall report. Notes
(.gcno) are looked for where the compiler wrote them, in the file system of the
program, moved by --path-map, and in the directories of --object-directory. Only
objects that are linked into the program count.

Reading needs the same user as the program's, or root (CAP_SYS_PTRACE).

  --watch        shows coverage grow, on the whole screen: files, functions,
                 sources, what is hot. Where standard output is no terminal, or
                 with --output, it writes the outputs again at each tick until
                 the program ends or footfall is interrupted.
  --dump=DIR     writes data files (.gcda) below DIR, under their recorded names:
                 byte for byte what the program would write now. Counters of
                 source-based coverage (Clang, Rust) become .profraw files.
  --in-place     adds the counts to the data files that the program would write,
                 as the program does when it ends, which it will do nevertheless
  --reset        makes counts start from zero: footfall remembers what they were
                 and subtracts it from then on. The program is not changed, and
                 no count is lost: what is shown or written by the same command is
                 exactly what was counted before. --total shows all counts
                 nevertheless, --reset=off forgets the reset. It is forgotten
                 when the program ends, or runs another by exec.
  --hard-reset   stops the program for a moment and sets the counters in its
                 memory to zero; =NAME only those of an object, such as
                 src/parse.o. Only where counters are atomic is that exact.

Counts are those since the last --reset, if there was one; --since-reset makes
sure that there was.

The exit status is 1 if nothing could be read and 3 if a threshold was missed.`,
		Example: `  # which processes have counters?
  footfall live --list

  # what has the server reached so far? and what from now on?
  footfall live redis-server
  footfall live redis-server --reset

  # watch it, looking again four times in a second
  footfall live redis-server --watch=250ms

  # for programs that want files
  footfall live 4711 --dump cov && footfall gcov cov/src/server.gcda
  footfall live 4711 --output lcov=now.info

  # add to the data files every hour what was counted in that hour
  footfall live 4711 --in-place --reset`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, args)
		},
	}
	o.define(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.list, "list", false, "list the processes that have counters")
	f.StringVar(&o.watch, "watch", "", "look again at each `INTERVAL` (1s)")
	f.Lookup("watch").NoOptDefVal = "1s"
	f.StringVar(&o.dump, "dump", "", "write data files below `DIR`")
	f.BoolVar(&o.inPlace, "in-place", false, "add to the data files that the program would write")
	f.StringVar(&o.reset, "reset", "", "start from zero; `off`: forget that")
	f.Lookup("reset").NoOptDefVal = "on"
	f.BoolVar(&o.sinceReset, "since-reset", false, "fail if there was no --reset")
	f.BoolVar(&o.total, "total", false, "show all counts, also those before the last --reset")
	f.StringVar(&o.hardReset, "hard-reset", "", "set the counters in the program to zero, or those of the object `NAME`")
	f.Lookup("hard-reset").NoOptDefVal = allObjects
	cmd.MarkFlagsMutuallyExclusive("since-reset", "total")
	cmd.MarkFlagsMutuallyExclusive("reset", "hard-reset")
	for _, other := range []string{"dump", "in-place", "reset", "hard-reset", "watch"} {
		cmd.MarkFlagsMutuallyExclusive("list", other)
	}
	for _, other := range []string{"in-place", "reset", "hard-reset"} {
		cmd.MarkFlagsMutuallyExclusive("watch", other)
	}
	_ = cmd.MarkFlagDirname("dump")
	_ = cmd.RegisterFlagCompletionFunc("reset", cobra.FixedCompletions([]string{"off"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

const allObjects = "all"

type liveOptions struct {
	reportOptions
	list, inPlace, sinceReset, total bool
	watch, dump, reset, hardReset    string
	interval                         time.Duration
}

func (o *liveOptions) run(cmd *cobra.Command, args []string) error {
	l := &liveTargets{options: o}
	p, err := o.printer(cmd)
	if err != nil {
		return err
	}
	if o.list {
		if len(args) > 0 {
			return usageError(errors.New("--list lists all processes: it takes no TARGET"))
		}
		return listLive(p.stdout, p.stderr, o.verbose)
	}
	if err := o.check(args); err != nil {
		return usageError(err)
	}
	defer collectLate(400)()
	l.printer = p
	defer l.close()
	if err := l.open(args); err != nil {
		return err
	}
	if o.watch != "" {
		return l.watch(cmd)
	}
	reset := o.reset != "" || o.hardReset != ""
	return l.once(!reset && o.dump == "" && !o.inPlace || cmd.Flags().Changed("output"))
}

func (o *liveOptions) check(args []string) (err error) {
	if len(args) == 0 {
		return errors.New("live needs a TARGET: a pid, a name, or kernel; --list shows what there is")
	}
	if o.reset != "" && o.reset != "on" && o.reset != "off" {
		return fmt.Errorf("--reset=%s: --reset or --reset=off", o.reset)
	}
	if o.watch != "" {
		if o.interval, err = time.ParseDuration(o.watch); err != nil || o.interval <= 0 {
			return fmt.Errorf("--watch=%s: an interval is like 1s or 250ms", o.watch)
		}
	}
	return nil
}

// A liveTarget is something with counters.
type liveTarget struct {
	title   string // "redis-server (pid 4711)"
	pid     int
	source  liveSource    // nil: its program has no counters, so far
	process *live.Process // nil for the kernel
	base    *live.Baseline
	history *live.History // nil until it was read once
	last    *taken        // what was read last
	ended   bool          // what was read last stays
}

// A liveSource is a process or the kernel.
type liveSource interface {
	Snapshot() ([]live.Unit, error)
	Key() string
}

func (t *liveTarget) root() string {
	if t.process == nil {
		return ""
	}
	return t.process.Root()
}

// liveTargets are what one command looks at.
type liveTargets struct {
	*printer
	options   *liveOptions
	targets   []*liveTarget
	baselines *live.Baselines
	finder    *report.Notes
	problems  []report.Problem // told once
	advised   bool

	watching   bool            // what is wrong is said when it is first seen
	said       map[string]bool // while watching
	problemsOf map[string]int  // how many there were of each kind at the last look
	pending    *[]string       // what is to be said on the screen, nil: standard error will do
}

func (l *liveTargets) close() {
	for _, t := range l.targets {
		if t.process != nil {
			t.process.Close()
		}
	}
}

// open opens what the arguments name. Of several processes of one name those
// that cannot be read are told, the others are enough.
func (l *liveTargets) open(args []string) (err error) {
	if l.finder, l.problems, err = report.NewNotes(l.objectDirs, l.sources); err != nil {
		return err
	}
	seen := make(map[int]bool)
	for _, arg := range args {
		if arg == "kernel" {
			k, err := live.OpenKernel("")
			if err != nil {
				return err
			}
			l.targets = append(l.targets, &liveTarget{title: "kernel", source: k})
			continue
		}
		pids, err := pidsOf(arg)
		if err != nil {
			return err
		}
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
			fmt.Fprintf(l.stderr, "footfall: left out: %v\n", err)
		}
	}
	if err := l.loadBaselines(); err != nil {
		return err
	}
	return nil
}

func (l *liveTargets) openProcess(pid int) error {
	t := new(liveTarget)
	if err := t.open(pid); err != nil {
		return err
	}
	l.targets = append(l.targets, t)
	return l.trust(t)
}

// trust has the sources that a program names be read as its user would read them.
func (l *liveTargets) trust(t *liveTarget) error {
	user, err := t.process.User()
	if err != nil {
		return err
	}
	l.sources.Owners.Note(user)
	if root := t.root(); !slices.Contains(l.sources.Roots, root) {
		l.sources.Roots = append(l.sources.Roots, root)
	}
	return nil
}

// open opens the program that the process runs now.
func (t *liveTarget) open(pid int) error {
	p, err := live.Open(pid)
	var kernel *proc.KernelThreadError
	if errors.As(err, &kernel) {
		return fmt.Errorf("%w; the counters of the kernel are shown by: footfall live kernel", err)
	}
	if err != nil {
		return err
	}
	*t = liveTarget{title: fmt.Sprintf("%s (pid %d)", output.Printable(p.Name), pid), pid: pid, source: p, process: p}
	return nil
}

// beginning is how long a program may take from exec to its first counters.
const beginning = 200 * time.Millisecond

// takeOnce is take. If the process becomes another program it reads that.
func (l *liveTargets) takeOnce(t *liveTarget) (*taken, error) {
	s, err := l.take(t)
	for end := time.Now().Add(beginning); errors.Is(err, proc.ErrReplaced) && time.Now().Before(end); {
		process := t.process
		for err = t.open(process.PID); errors.Is(err, live.ErrNoCounters) && time.Now().Before(end); err = t.open(process.PID) {
			time.Sleep(time.Millisecond)
		}
		process.Close()
		if err == nil {
			err = l.trust(t)
		}
		if err == nil {
			s, err = l.take(t)
		}
	}
	return s, err
}

// pidsOf returns the processes that an argument names.
func pidsOf(arg string) ([]int, error) {
	if pid, err := strconv.Atoi(arg); err == nil {
		return []int{pid}, nil
	}
	return proc.Find(arg)
}

// loadBaselines finds the resets that were made before.
func (l *liveTargets) loadBaselines() (err error) {
	if l.baselines, err = live.OpenBaselines(); err != nil {
		if l.options.sinceReset || l.options.reset != "" {
			return err
		}
		if !errors.Is(err, fs.ErrPermission) { // without the right to keep a reset there is none
			fmt.Fprintf(l.stderr, "footfall: %v\n", err)
		}
		return nil
	}
	if l.options.total {
		return nil
	}
	for _, t := range l.targets {
		if t.base, err = l.baselines.Load(t.source.Key()); err != nil {
			return err
		}
		switch {
		case t.base == nil && l.options.sinceReset:
			return fmt.Errorf("%s: there was no reset: footfall live --reset makes one", t.title)
		case t.base != nil && l.options.reset != "off" && l.options.hardReset == "":
			fmt.Fprintf(l.stderr, "footfall: %s: counts since the reset of %s (--total: all)\n", t.title, t.base.Time.Local().Format(time.DateTime))
		}
	}
	return nil
}

// A taken is a snapshot of a target.
type taken struct {
	*liveTarget
	all   []live.Unit
	units []live.Unit // since the reset, with what is gone; not to be changed
}

// take reads the counters of a target. Units that cannot be used are told; it
// is an error if none can.
func (l *liveTargets) take(t *liveTarget) (*taken, error) {
	if t.process != nil {
		t.process.FollowFiles = l.options.watch != ""
	}
	all, err := t.source.Snapshot()
	if len(all) == 0 && !(t.history != nil && errors.Is(err, live.ErrNoCounters)) {
		return nil, err
	}
	if len(all) > 0 { // else all libraries with counters are closed
		l.problem(t.title, err)
	}
	if t.history == nil {
		t.history, err = live.NewHistory(t.base)
		l.problem(t.title, err)
	}
	for _, e := range t.history.Take(all) {
		l.say("%s: %v", t.title, e)
	}
	if err := l.keepBaseline(t); err != nil {
		return nil, err
	}
	t.last = &taken{liveTarget: t, all: all, units: t.history.Units()}
	return t.last, nil
}

// keepBaseline takes out of the baseline that is kept what the program has made
// void: once its counters have grown that cannot be seen any more.
func (l *liveTargets) keepBaseline(t *liveTarget) error {
	if t.base == nil {
		return nil
	}
	base, less := t.history.Baseline()
	if !less || base != nil && len(base.Objects) == len(t.base.Objects) {
		return nil
	}
	if base == nil {
		_, err := l.baselines.Remove(t.source.Key())
		t.base = nil
		return err
	}
	t.base = base
	return l.baselines.Store(t.source.Key(), base)
}

// say tells something about a target.
func (l *liveTargets) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if l.pending != nil {
		*l.pending = append(*l.pending, text)
		return
	}
	fmt.Fprintf(l.stderr, "footfall: %s\n", text)
}

// sayOnce is say for what is the same at each tick.
func (l *liveTargets) sayOnce(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if l.said == nil {
		l.said = make(map[string]bool)
	}
	if !l.said[text] {
		l.said[text] = true
		l.say("%s", text)
	}
}

// problem keeps errors that were joined until they are told.
func (l *liveTargets) problem(title string, err error) {
	if err == nil {
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			l.problem(title, err)
		}
		return
	}
	if l.watching {
		l.sayOnce("%s: %v", title, err)
		return
	}
	l.problems = append(l.problems, report.Problem{File: title, Offset: -1, Kind: "objects that cannot be read", Err: err})
}

// once carries out the command without --watch.
func (l *liveTargets) once(show bool) error {
	var snapshots []*taken
	for _, t := range l.targets {
		s, err := l.takeOnce(t)
		if err != nil && len(l.targets) > 1 && !errors.Is(err, live.ErrNoCounters) {
			fmt.Fprintf(l.stderr, "footfall: left out: %v\n", err)
			continue
		}
		if err != nil {
			if l.profilesOnly(t) {
				continue
			}
			return err
		}
		snapshots = append(snapshots, s)
	}
	if len(snapshots) == 0 && (l.options.dump == "" || show) {
		return errors.New("no counters could be read")
	}
	var failed []error
	if l.options.dump != "" {
		failed = append(failed, l.dump(l.options.dump, snapshots))
	}
	if l.options.inPlace {
		failed = append(failed, l.writeInPlace(snapshots))
	}
	if show {
		failed = append(failed, l.report(snapshots))
	} else {
		report.PrintProblems(l.stderr, l.problems, l.verbose)
	}
	if err := errors.Join(failed...); err != nil {
		return err // what could not be shown or written is not reset
	}
	return l.resetAfter(snapshots)
}

// report collects the coverage of the snapshots and prints it.
func (l *liveTargets) report(snapshots []*taken) error {
	set, err := l.collect(snapshots, true)
	if err != nil {
		return err
	}
	return l.print(set)
}

// collect returns the coverage of the snapshots. What a reader of it should
// know is said if tell is set.
func (l *liveTargets) collect(snapshots []*taken, tell bool) (*coverage.Set, error) {
	var images []report.Image
	for _, s := range snapshots {
		root := s.root()
		for _, u := range s.units {
			im := report.Image{Root: root}
			im.Name, im.Bytes = u.Name, u.Counts.Encode()
			images = append(images, im)
		}
	}
	l.made = time.Now()
	objects := l.finder.Pair(images)
	stderr := l.stderr
	if !tell {
		stderr = io.Discard
	}
	set, problems, stats := collect(objects, l.sources, l.test, stderr)
	if objects.LeaveOutRebuilt(problems) {
		set, problems, stats = collect(objects, l.sources, l.test, stderr)
	}
	problems = append(problems, l.exclude(set)...)
	problems = slices.Concat(l.problems, objects.Problems, problems)
	report.PrintProblems(stderr, problems, l.verbose)
	l.sayMore(problems, tell)
	l.problems = nil
	if err := l.allExcluded(set); err != nil {
		return nil, err
	}
	if set.Totals().Lines.Total == 0 {
		return nil, l.nothing(objects)
	}
	objects.Outside = nil
	impossible := stats.Inconsistent
	stats.Inconsistent = 0 // they have other reasons than in files
	notes(stderr, objects, stats, l.sources)
	if tell {
		l.noteImpossible(impossible, snapshots)
		l.noteExcluded()
		l.advise(snapshots)
	}
	return set, nil
}

// sayMore says, at later ticks of a watch, that there are more problems than
// before.
func (l *liveTargets) sayMore(problems []report.Problem, told bool) {
	of := make(map[string]int)
	for _, p := range problems {
		of[p.Kind]++
	}
	for _, p := range problems {
		if of[p.Kind] > l.problemsOf[p.Kind] {
			if !told {
				l.sayOnce("%s: %v", p.Kind, p)
			}
		}
	}
	l.problemsOf = of
}

// nothing says why there is nothing to report.
func (l *liveTargets) nothing(objects *report.Objects) error {
	var titles []string
	for _, t := range l.targets {
		titles = append(titles, t.title)
	}
	who := strings.Join(titles, ", ")
	rebuilt := func(p report.Problem) bool { return errors.Is(p.Err, report.ErrRebuilt) }
	switch {
	case len(objects.Units) == 0 && slices.ContainsFunc(objects.Problems, rebuilt):
		return fmt.Errorf("nothing to report: the notes (.gcno) of %s are of another build: start it again, or name the directory of the old notes with --object-directory", who)
	case len(objects.Units) == 0 && len(objects.Problems) > 0:
		return fmt.Errorf("nothing to report: %s has counters, but their notes (.gcno) are not where the compiler wrote them: name their directory with --object-directory", who)
	case len(l.options.sources.Include)+len(l.options.sources.Exclude) > 0:
		return errors.New("nothing to report: --include and --exclude leave no source with code")
	case l.sources.OmittedSystemHeaders() > 0:
		return errors.New("nothing to report: all code is in system headers, --system-headers includes them")
	}
	return fmt.Errorf("nothing to report: no code in the notes of %s", who)
}

// noteImpossible says why counts of functions are impossible, as far as that is
// known.
func (l *liveTargets) noteImpossible(functions int, snapshots []*taken) {
	if functions == 0 {
		return
	}
	torn, forked, reset := false, false, false
	for _, s := range snapshots {
		reset = reset || s.base != nil || s.history.WasReset()
		if s.process == nil {
			continue
		}
		forked = forked || s.process.Forked()
		if s.process.Threads() > 1 {
			u, err := s.process.Updates()
			torn = torn || err != nil || u.Plain > 0 || u.Atomic == 0
		}
	}
	var why []string
	if torn {
		why = append(why, "torn by threads (-fprofile-update=atomic makes them exact)")
	}
	if forked {
		why = append(why, "running when the process was forked, where its counters begin from zero")
	}
	if reset {
		why = append(why, "running at the reset")
	}
	if len(why) == 0 {
		why = append(why, "running when they were read")
	}
	fmt.Fprintf(l.stderr, "footfall: impossible counts in %s, %s: their counts are estimates\n", output.Plural(functions, "function"), strings.Join(why, ", or "))
}

// advise says how counts could be better.
func (l *liveTargets) advise(snapshots []*taken) {
	if l.advised {
		return
	}
	l.advised = true
	held, objects := 0, map[string]bool(nil)
	first := ""
	for _, s := range snapshots {
		if s.process == nil {
			continue
		}
		u, err := s.process.Updates()
		if err != nil || u.Held == 0 {
			continue
		}
		if objects == nil {
			objects, first = make(map[string]bool), u.HeldIn[0]
		}
		held = max(held, u.Held)
		for _, name := range u.HeldIn {
			objects[name] = true
		}
	}
	if held > 0 {
		fmt.Fprintf(l.stderr, "footfall: %s of loops in %s (most in %s) are kept in a register until the loop ends, and may be too low: build with -fprofile-update=atomic or -fno-tree-loop-im\n",
			output.Plural(held, "counter"), output.Plural(len(objects), "object"), strings.TrimSuffix(filepath.Base(first), ".gcda"))
	}
}
