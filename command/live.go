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
	f.Lookup("hard-reset").NoOptDefVal = collect.AllObjects
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

type liveOptions struct {
	reportOptions
	list, inPlace, sinceReset, total bool
	watch, dump, reset, hardReset    string
	interval                         time.Duration
}

func (o *liveOptions) run(cmd *cobra.Command, args []string) error {
	p, err := o.printer(cmd)
	if err != nil {
		return err
	}
	if o.list {
		if len(args) > 0 {
			return usageError(errors.New("--list lists all processes: it takes no TARGET"))
		}
		return listLive(p.Stdout, p.Stderr, o.verbose)
	}
	if err := o.check(args); err != nil {
		return usageError(err)
	}
	defer collectLate(400)()
	l := &liveReport{printer: p, options: o}
	if l.Targets, err = collect.OpenTargets(args, o.looking(p)); err != nil {
		return err
	}
	defer l.Close()
	if o.watch != "" {
		return l.watch(cmd)
	}
	reset := o.reset != "" || o.hardReset != ""
	return l.once(!reset && o.dump == "" && !o.inPlace || cmd.Flags().Changed("output"))
}

// looking are the options for how targets are looked at.
func (o *liveOptions) looking(p *printer) collect.TargetOptions {
	return collect.TargetOptions{
		Options: p.collecting(), Follow: o.watch != "", Total: o.total, SinceReset: o.sinceReset,
		Resets: o.reset != "", Forgets: o.reset == "off" || o.hardReset != "", Verbose: o.verbose, Stderr: p.Stderr,
	}
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

// A liveReport is a report about running programs.
type liveReport struct {
	*printer
	*collect.Targets
	options *liveOptions
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
	if err != nil {
		return err
	}
	return l.print(r)
}
