//go:build linux

package command

import (
	"errors"
	"fmt"
	"footfall/collect"
	"time"

	"github.com/spf13/cobra"
)

func newLiveCommand() *cobra.Command {
	var o liveOptions
	cmd := &cobra.Command{
		Use:   "live TARGET... [-- COMMAND [ARG...]]",
		Short: "Show what running programs have covered so far, without stopping them",
		Long: `Live reads the counters of running programs that were built with gcc --coverage
or clang --coverage, with source-based counters (Clang, Rust) or with go build
-cover. It reads from outside: the program is not stopped or changed, and needs no
signal handler and no exit. Several programs are added up. --list shows which
processes have counters; --list TARGET what these offer: counters, and whether --ran
can tell lines or functions. A TARGET is one of

  4711           a process
  4711+          it and its descendants
  redis-server   all processes of that name; with * ? and [...], as in 'post*'
  /usr/bin/redis-server
                 all that run that file; with * ? and [...], too
  cgroup:NAME    those in a cgroup and below: its path, a part of that, or the
                 beginning of a container's id
  unit:NAME      those of a systemd unit; or NAME.service, NAME.slice
  kernel         a kernel built with CONFIG_GCOV_KERNEL

With a COMMAND after --, footfall runs it and shows what ran in the programs
meanwhile: functions and their lines, most lines first (--output ran), on standard
error, since standard output is the COMMAND's. The exit status is that of the
COMMAND. Work that the programs do for other clients is shown as well, and what
processes did that came and went meanwhile.

The report, its outputs and its options are those of footfall report. Notes
(.gcno) are looked for where the compiler wrote them, in the file system of the
program, moved by --path-map, and in the directories of --object-directory. Only
objects that are linked into the program count.

Reading needs the same user as the program's, or root (CAP_SYS_PTRACE).

  --watch        shows coverage grow, on the full screen: files, functions,
                 sources, what is hot. If standard output is not a terminal, or
                 with --output, it rewrites the outputs at each tick at which
                 something was counted, until the program ends or footfall is
                 interrupted. With any TARGET but a
                 plain pid, processes that come later are followed, and what
                 those have counted that end is kept.
  --serve        shows it in a browser: the pages of the report, alive, with what became
                 covered in the last minute and which lines are hot. footfall prints the
                 address, with a key; several browsers may look. A COMMAND after -- becomes
                 a button. =ADDRESS:PORT is where to listen; else only this machine can
                 connect. SIGINT ends it.
  --each         keeps processes apart: each is a test that is called by its title,
                 as ps shows it, with its pid. The table shows what each has run,
                 what only it, and what it adds to others (--by-test). Outputs keep
                 it, as those of tests: json, lcov.
  --dump=DIR     writes data files (.gcda) below DIR, under their recorded names:
                 byte for byte what the program would write now. Counters of
                 source-based coverage (Clang, Rust) become .profraw files, those
                 of Go covmeta and covcounters.
  --in-place     adds the counts to the data files that the program would write,
                 as the program itself does when it ends (and still will)
  --reset        makes counts start from zero: footfall saves the counters and
                 subtracts them afterwards. The program is not changed, and no
                 count is lost: what the same command shows or writes is exactly
                 what was counted before. --total shows all counts, --reset=off
                 discards the reset. It is also discarded when the program ends
                 or calls exec.
  --hard-reset   stops the program briefly and sets the counters in its memory
                 to zero; =NAME only those of one object, such as src/parse.o.
                 This is exact only if the counters are atomic.

  --ran=functions, --ran=lines
                 shows which functions, or which lines, run from now on, of any x86-64
                 program: it needs no counters and no rebuild. The first instructions of
                 each function, or of each block of code, are moved into code that notes
                 that they ran, and put back as soon as that is seen. Lines need a line
                 table (-g), in the program or in a debug file; without one functions are
                 told. SIGINT ends it, or --duration, or the end of the programs; a
                 COMMAND after --, and without a TARGET that is started and looked at
                 itself. With --watch functions are told as they run. Of functions that
                 were running already, or cannot be changed, it is not known whether they
                 ran, nor of some lines: they are in no total, and marked in pages.
                 Libraries of the system are looked at where an --include names them. If
                 footfall is killed the programs go on; footfall trace --repair restores
                 them. See docs/any-binary.md.
  --follow-exec  with --ran and a program after --: what that and its children become by
                 exec is watched, too, from its beginning, unless it is of the system
                 (/bin, /usr/bin, ...) and no --include names it. Of a test suite
                 that is what its programs run.
  --keep         with --ran: leaves the programs watched when footfall ends. The next
                 one shows what ran meanwhile, too, and adds it to what earlier
                 processes of the same build ran: what a release never runs. That is
                 kept below $XDG_STATE_HOME, or ~/.local/state. Without --keep the next
                 one shows that, and ends it; footfall trace --repair just ends it.
                 With --reset it begins anew after what ran has been shown.

Counts are those since the last --reset, if there was one; --since-reset fails if
there was none.

The exit status is 1 if nothing could be read and 3 if a threshold was missed.`,
		Example: `  # which processes have counters?
  footfall live --list

  # what does this request run in the server? and in one with a process for each connection?
  footfall live redis-server -- redis-cli lpush list 1 2 3
  footfall live postgres -- psql -c 'select 1'

  # what has the server reached so far? and what from now on?
  footfall live redis-server
  footfall live redis-server --reset

  # watch it, looking again four times in a second
  footfall live redis-server --watch=250ms

  # watch it in a browser, with a button that shows what a request runs
  footfall live redis-server --serve
  footfall live redis-server --serve -- redis-cli lpush list 1 2 3
  # what do the processes of a server run that the others do not?
  footfall live postgres --each

  # which functions of a program that was built for nothing of the sort run, and which never?
  footfall live --ran functions nginx --duration 10m
  footfall live --ran functions nginx -- curl -s http://127.0.0.1/
  # and which lines, if it has a line table or a debug file?
  footfall live --ran lines --output html=ran -- ./unit-tests

  # and which lines does a test suite run, whatever it starts?
  footfall live --ran lines --follow-exec --output html=ran -- make check

  # which functions has this release never run, in all its processes since the first time?
  footfall live --ran functions --keep nginx --duration 1s

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
	f.BoolVar(&o.list, "list", false, "list the processes that have counters, or those of TARGETs and what they offer; of many of one program the first, with -v each (--output text, json)")
	f.StringVar(&o.watch, "watch", "", "look again at each `INTERVAL` (1s)")
	f.Lookup("watch").NoOptDefVal = "1s"
	f.StringVar(&o.serve, "serve", "", "show pages in browsers that connect to `ADDRESS:PORT` ("+servedAt+")")
	f.Lookup("serve").NoOptDefVal = servedAt
	f.BoolVar(&o.each, "each", false, "keep processes apart, as tests that are called by their titles; without --output: --by-test")
	f.StringVar(&o.dump, "dump", "", "write data files below `DIR`")
	f.BoolVar(&o.inPlace, "in-place", false, "add to the data files that the program would write")
	f.StringVar(&o.reset, "reset", "", "start from zero; `off`: forget that")
	f.Lookup("reset").NoOptDefVal = "on"
	f.StringVar(&o.ran, "ran", "", "show which `functions` or lines run from now on, of programs without counters, too")
	f.BoolVar(&o.followExec, "follow-exec", false, "with --ran -- PROGRAM: watch the programs, too, that it or its children become by exec")
	f.BoolVar(&o.keep, "keep", false, "with --ran: programs stay watched when footfall ends, and what ran is kept over all their processes")
	f.DurationVar(&o.duration, "duration", 0, "end --ran after that `TIME`, such as 10s")
	f.BoolVar(&o.sinceReset, "since-reset", false, "fail if there was no --reset")
	f.BoolVar(&o.total, "total", false, "show all counts, also those before the last --reset")
	f.StringVar(&o.hardReset, "hard-reset", "", "set the counters in the program to zero, or those of the object `NAME`")
	f.Lookup("hard-reset").NoOptDefVal = collect.AllObjects
	cmd.MarkFlagsMutuallyExclusive("since-reset", "total")
	cmd.MarkFlagsMutuallyExclusive("reset", "hard-reset")
	for _, other := range []string{"dump", "in-place", "reset", "hard-reset", "watch", "serve"} {
		cmd.MarkFlagsMutuallyExclusive("list", other)
	}
	for _, other := range []string{"in-place", "reset", "hard-reset"} {
		cmd.MarkFlagsMutuallyExclusive("watch", other)
		cmd.MarkFlagsMutuallyExclusive("serve", other)
	}
	cmd.MarkFlagsMutuallyExclusive("serve", "dump")
	for _, other := range []string{"list", "watch", "serve", "dump", "in-place", "reset", "hard-reset", "test"} {
		cmd.MarkFlagsMutuallyExclusive("each", other)
	}
	_ = cmd.MarkFlagDirname("dump")
	_ = cmd.RegisterFlagCompletionFunc("ran", cobra.FixedCompletions([]string{"functions", "lines"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("reset", cobra.FixedCompletions([]string{"off"}, cobra.ShellCompDirectiveNoFileComp))
	showFirst(cmd, "list", "watch", "reset", "dump", "in-place", "output", "include", "only-ran", "object-directory", "path-map")
	return cmd
}

type liveOptions struct {
	reportOptions
	list, inPlace, sinceReset, total bool
	each                             bool
	watch, dump, reset, hardReset    string
	ran                              string // "": counters are read
	keep, followExec                 bool
	duration                         time.Duration
	serve                            string   // "": no pages
	command                          []string // after --
	interval                         time.Duration
}

func (o *liveOptions) run(cmd *cobra.Command, args []string) error {
	if o.ran != "" {
		return o.runRan(cmd, args)
	}
	for _, of := range []string{"duration", "keep", "follow-exec"} {
		if cmd.Flags().Changed(of) {
			return usageError(fmt.Errorf("--%s goes with --ran", of))
		}
	}
	args, err := o.cutCommand(cmd, args)
	if err != nil {
		return usageError(err)
	}
	if o.each && !cmd.Flags().Changed("output") {
		o.byTest = true
	}
	p, err := o.printer(cmd)
	if err != nil {
		return err
	}
	if o.list {
		return listLive(p.Stdout, p.Stderr, args, o.outputs, o.verbose)
	}
	if err := errors.Join(o.check(args), o.checkServe(cmd)); err != nil {
		return usageError(err)
	}
	late := lateUpTo
	if o.interval > 0 {
		late = lateUpToWatch
	}
	defer collectLate(400, late)()
	l := &liveReport{printer: p, options: o, flush: func() {}}
	if l.Targets, err = collect.OpenTargets(args, l.looking()); err != nil {
		l.flush()
		return err
	}
	defer l.Close()
	defer l.flush()
	switch {
	case o.serve != "":
		return l.serve()
	case o.watch != "":
		return l.watch(cmd)
	case o.command != nil:
		return l.during(o.command)
	}
	reset := o.reset != "" || o.hardReset != ""
	return l.once(!reset && o.dump == "" && !o.inPlace || cmd.Flags().Changed("output"))
}

// looking are the options for how targets are looked at.
func (l *liveReport) looking() collect.TargetOptions {
	o, p := l.options, l.printer
	looking := collect.TargetOptions{
		Options: p.collecting(), Follow: o.watch != "" || o.serve != "" || o.command != nil, Each: o.each, Total: o.total, SinceReset: o.sinceReset,
		Resets: o.reset != "", Forgets: o.reset == "off" || o.hardReset != "", Verbose: o.verbose, Stderr: p.Stderr, Notes: p.notes,
	}
	if o.verbose {
		return looking
	}
	group := collect.Group(p.Stderr)
	looking.Stderr, l.flush = group, group.Flush
	if !o.quiet {
		looking.Notes = group
	}
	return looking
}

func (o *liveOptions) check(args []string) (err error) {
	if len(args) == 0 {
		return errors.New("live needs a TARGET: a pid, PID+, a name, a path, cgroup:NAME, unit:NAME or kernel; --list shows what there is")
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

// A liveReport is a report about running programs.
type liveReport struct {
	*printer
	*collect.Targets
	options *liveOptions
	flush   func() // writes what was said of several processes
}

// once carries out the command without --watch.
func (l *liveReport) once(show bool) error {
	snapshots, err := l.Take(l.options.dump != "")
	if err != nil {
		return err
	}
	if len(snapshots) == 0 && (l.options.dump == "" || show) {
		return errors.New("no counters could be read")
	}
	var failed []error
	if l.options.dump != "" {
		failed = append(failed, l.Dump(l.options.dump, snapshots))
	}
	if l.options.inPlace {
		failed = append(failed, l.WriteInPlace(snapshots))
	}
	if show {
		failed = append(failed, l.report(snapshots))
	} else {
		l.PrintProblems()
	}
	if err := errors.Join(failed...); err != nil {
		return err // what could not be shown or written is not reset
	}
	switch {
	case l.options.hardReset != "":
		return l.HardReset(snapshots, l.options.hardReset)
	case l.options.reset == "off":
		return l.ForgetReset(snapshots)
	case l.options.reset != "":
		return l.Reset(snapshots)
	}
	return nil
}

// report collects the coverage of the snapshots and prints it.
func (l *liveReport) report(snapshots []*collect.Snapshot) error {
	r, err := l.Collect(snapshots, true)
	l.flush()
	if err != nil {
		return err
	}
	return l.print(r)
}
