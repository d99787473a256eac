//go:build linux

package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"footfall/collect"
	"footfall/output"
	"footfall/process"
	"footfall/record"
	"footfall/report"
)

// This file is live --ran: what runs of programs that have no counters.

// runRan is the command with --ran.
func (o *liveOptions) runRan(cmd *cobra.Command, args []string) error {
	if err := o.checkRan(cmd); err != nil {
		return usageError(err)
	}
	targets := args
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		targets, o.command = args[:dash], args[dash:]
		if len(o.command) == 0 {
			return usageError(errors.New("no COMMAND after --"))
		}
	}
	if len(targets)+len(o.command) == 0 {
		return usageError(errors.New("live --ran needs a TARGET: a pid, PID+, a name, a path, cgroup:NAME or unit:NAME; or, after --, a program"))
	}
	if o.followExec && (len(targets) > 0 || o.command == nil) {
		return usageError(errors.New("--follow-exec needs a program after --, and no TARGET: of a TARGET by name or path programs are seen that it becomes"))
	}
	if o.command != nil && o.watch != "" {
		return usageError(errors.New("--watch does not go with a COMMAND, at whose end it is shown what ran"))
	}
	if o.command != nil && !cmd.Flags().Changed("output") {
		cmd.SetOut(cmd.ErrOrStderr()) // standard output is the program's
	}
	p, err := o.printer(cmd)
	if err != nil {
		return err
	}
	l := &ranReport{printer: p, options: o, tells: !cmd.Flags().Changed("output"), signals: make(chan os.Signal, 4)}
	// From here on a signal ends what is done, when processes have been put back.
	signal.Notify(l.signals, os.Interrupt, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(l.signals)
	if len(targets) == 0 {
		return l.launch()
	}
	if l.Ran, err = collect.OpenRan(targets, l.looking()); err != nil {
		return err
	}
	if o.command != nil {
		return l.during()
	}
	fmt.Fprintf(l.notes, "footfall: %s: %s; SIGINT (Ctrl-C) ends this and shows what ran\n", l.Names(), l.armed())
	return errors.Join(l.follow(), l.end())
}

// ofLines are outputs that say nothing of functions.
var ofLines = []string{"ran", "sonarqube", "coveralls", "gcov", "github", "gitlab", "badge", "excluded", "tests"}

// checkRan says which options do not go with --ran.
func (o *liveOptions) checkRan(cmd *cobra.Command) error {
	if err := errors.Join(checkRanKind(o.ran), checkRanDuration(o.duration)); err != nil {
		return err
	}
	switch {
	case o.reset != "" && o.reset != "on":
		return fmt.Errorf("--reset=%s does not go with --ran", o.reset)
	case o.reset != "" && !o.keep:
		return errors.New("--reset goes with --ran if --keep does: without that, what ran is always what ran since footfall began")
	}
	if o.watch != "" {
		var err error
		if o.interval, err = time.ParseDuration(o.watch); err != nil || o.interval <= 0 {
			return fmt.Errorf("--watch=%s: an interval is like 1s or 250ms", o.watch)
		}
	}
	for _, out := range o.outputs {
		if o.ran == ranLines {
			break
		}
		if name, _, _ := strings.Cut(out, "="); slices.Contains(ofLines, name) {
			return fmt.Errorf("--output %s is about lines: --ran functions knows none", name)
		}
	}
	for _, limit := range report.CommaSeparated(o.failUnder) {
		if o.ran == ranLines {
			break
		}
		if of := limit[strings.LastIndexByte(limit, ':')+1:]; !strings.HasPrefix(of, "functions") {
			return fmt.Errorf("--fail-under %s: --ran functions knows functions only", limit)
		}
	}
	for _, other := range []string{"only-ran", "list", "serve", "each", "dump", "in-place", "since-reset", "total", "hard-reset", "object-directory", "object", "test", "by-test", "tests-for", "tests-for-diff", "diff-base"} {
		if f := cmd.Flags().Lookup(other); f != nil && f.Changed {
			return fmt.Errorf("--%s does not go with --ran", other)
		}
	}
	return nil
}

// What --ran can be.
const (
	ranFunctions = "functions"
	ranLines     = "lines"
)

func checkRanKind(kind string) error {
	if kind != ranFunctions && kind != ranLines {
		return fmt.Errorf("--ran=%s: it is functions or lines", kind)
	}
	return nil
}

func checkRanDuration(d time.Duration) error {
	if d < 0 {
		return errors.New("--duration must not be negative")
	}
	return nil
}

// A ranReport is a report about what ran in programs without counters.
type ranReport struct {
	*printer
	*collect.Ran
	options *liveOptions
	tells   bool // no output is asked for: with --watch functions are told as they run
	signals chan os.Signal
}

func (l *ranReport) looking() collect.RanOptions {
	return collect.RanOptions{Sources: l.Sources, Stderr: l.Stderr, Notes: l.notes, Verbose: l.options.verbose, Lines: l.options.ran == ranLines, Keep: l.options.keep}
}

// armed says how much is watched.
func (l *ranReport) armed() string {
	all, blocks := 0, 0
	for _, p := range l.Programs() {
		all += len(p.Functions)
		blocks += p.Blocks()
	}
	if blocks > 0 {
		return fmt.Sprintf("%s in %s watched", output.Plural(blocks, "block"), output.Plural(all, "function"))
	}
	return output.Plural(all, "function") + " watched"
}

// follow looks what runs until a signal comes, the time is over, or all processes have ended.
func (l *ranReport) follow() error {
	var over <-chan time.Time
	if l.options.duration > 0 {
		over = time.After(l.options.duration)
	}
	var tick <-chan time.Time
	if l.options.watch != "" && !l.tells {
		ticker := time.NewTicker(l.options.interval)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		found, next, err := l.Look()
		if l.options.watch != "" && l.tells {
			l.tell(found)
		}
		if errors.Is(err, process.ErrExited) {
			fmt.Fprintf(l.notes, "footfall: no process is left\n")
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-tick:
			if err := l.rewrite(); err != nil {
				return err
			}
		case <-l.signals:
			return nil
		case <-over:
			return nil
		case <-time.After(next):
		}
	}
}

// tell writes functions that ran for the first time.
func (l *ranReport) tell(found []*collect.RanFunction) {
	now := time.Now().Format("15:04:05.000")
	for _, fn := range found {
		where := ""
		if file := fn.File(); file != "" {
			where = fmt.Sprintf("  %s:%d", output.Printable(l.Sources.Shown(file)), fn.Line)
		}
		fmt.Fprintf(l.Stdout, "%s  %s%s\n", now, output.Printable(fn.Name()), where)
	}
}

// rewrite writes the outputs as of now. Thresholds are judged at the end.
func (l *ranReport) rewrite() error {
	r, err := l.Result(l.collecting())
	if err == nil {
		err = l.Print(r.Findings())
	}
	if errors.Is(err, report.ErrMissed) {
		return nil
	}
	return err
}

// end puts the processes back, unless they are kept, and shows what ran. What could not be shown is not
// reset.
func (l *ranReport) end() error {
	if l.options.reset == "" {
		err := l.Close()
		return errors.Join(err, l.show(), l.sayKept())
	}
	if _, _, err := l.Look(); err != nil && !errors.Is(err, process.ErrExited) {
		return errors.Join(err, l.Close())
	}
	l.Settle()
	err := l.show()
	if err == nil || errors.Is(err, report.ErrMissed) {
		err = errors.Join(err, l.Reset())
	}
	return errors.Join(err, l.Close(), l.sayKept())
}

// show shows what ran.
func (l *ranReport) show() error {
	if l.lists() {
		width, _ := output.Style(l.Stdout)
		return collect.PrintRan(l.Stdout, l.Programs(), l.Sources.Shown, width)
	}
	r, err := l.Result(l.collecting())
	if err == nil {
		err = l.print(r)
	}
	return err
}

// sayKept says over what it is kept what ran, and how that ends.
func (l *ranReport) sayKept() error {
	for _, p := range l.Programs() {
		if text := p.Watched(); text != "" {
			fmt.Fprintf(l.notes, "footfall: %s: %s\n", output.Printable(p.ShortName()), text)
		}
	}
	if stay := l.Stay(); len(stay) > 0 {
		fmt.Fprintf(l.notes, "footfall: %s still watched: the next footfall live --ran %s --keep shows what ran meanwhile, too; footfall trace --repair %d ends it\n", output.Count(len(stay), "process is", "processes are"), l.options.ran, stay[0])
	}
	return nil
}

// lists tells whether the functions are listed, in place of a report.
func (l *ranReport) lists() bool {
	if !l.tells || l.options.ran == ranFunctions {
		return l.tells
	}
	for _, p := range l.Programs() {
		if p.NoLines {
			fmt.Fprintf(l.Stderr, "footfall: %s: it has no line table, nor a debug file that is found: which functions ran is all that can be told\n", output.Printable(p.Path))
		}
	}
	return !slices.ContainsFunc(l.Programs(), func(p *collect.RanProgram) bool { return !p.NoLines })
}

// during shows what ran while a command did.
func (l *ranReport) during() error {
	program := exec.Command(l.options.command[0], l.options.command[1:]...)
	program.Stdin, program.Stdout, program.Stderr = os.Stdin, os.Stdout, os.Stderr
	status, err := l.lookWhile(program, program.Start, false)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	return l.ended(status)
}

// launch starts a program, and shows what of it ran.
func (l *ranReport) launch() error {
	program := exec.Command(l.options.command[0], l.options.command[1:]...)
	program.Stdin, program.Stdout, program.Stderr = os.Stdin, os.Stdout, os.Stderr
	if l.options.followExec {
		return l.launchFollowing(program)
	}
	p, release, err := process.StartAtEntry(program)
	if err != nil {
		return record.NotStarted(l.options.command[0], err)
	}
	kill := func(err error) error {
		_ = program.Process.Kill()
		_ = program.Wait()
		return err
	}
	if l.Ran, err = collect.OpenRanOf(p, l.looking()); err != nil {
		return kill(err)
	}
	status, err := l.lookWhile(program, release, true)
	if err != nil {
		return kill(errors.Join(err, l.Close()))
	}
	return l.ended(status)
}

// launchFollowing is launch for a program that becomes others by exec, as its children do.
func (l *ranReport) launchFollowing(program *exec.Cmd) error {
	follower, err := process.FollowCommand(program)
	if err != nil {
		return record.NotStarted(l.options.command[0], err)
	}
	l.Ran = collect.OpenRanFollowing(follower, l.looking())
	for err == nil {
		select {
		case s := <-l.signals:
			passOn(program, s)
		default:
			var next time.Duration
			if _, next, err = l.Look(); err == nil {
				time.Sleep(next)
			}
		}
	}
	if errors.Is(err, process.ErrExited) {
		err = nil
	}
	shown := l.end()
	follower.Close()
	status, waitErr := statusOf(l.Stderr, l.options.command[0], program.Wait())
	if len(l.Programs()) == 0 && shown == nil {
		fmt.Fprintf(l.Stderr, "footfall: no program was watched: those of the system are if an --include names them, as in --include /usr/bin/make\n")
	}
	if err := errors.Join(err, shown, waitErr); err != nil {
		return err
	}
	if status != 0 {
		return &exitError{status: status}
	}
	return nil
}

// ended shows what ran, and has the exit status be that of the command.
func (l *ranReport) ended(status int) error {
	if err := l.end(); err != nil {
		return err
	}
	if status != 0 {
		return &exitError{status: status}
	}
	return nil
}

// lookWhile looks what runs until a program has ended, which start lets begin, and returns its exit
// status, that of shells if a signal ended it. Of a program that is looked at itself the end is seen:
// it is not waited for before, as who waits would be told of stops, too.
func (l *ranReport) lookWhile(program *exec.Cmd, start func() error, itself bool) (status int, err error) {
	if err := start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	wait := func() { go func() { ended <- program.Wait() }() }
	if !itself {
		wait()
	}
	next := time.Duration(0)
	for {
		select {
		case err = <-ended:
			return statusOf(l.Stderr, l.options.command[0], err)
		case s := <-l.signals:
			passOn(program, s)
		case <-time.After(next):
			if _, next, err = l.Look(); err == nil {
				continue
			}
			if next = time.Hour; itself {
				wait()
			}
		}
	}
}
