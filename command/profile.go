package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"footfall/output"
	"footfall/process"
	"footfall/profile"
	"footfall/report/source"
)

func newProfileCommand() *cobra.Command {
	var o profileOptions
	cmd := &cobra.Command{
		Use:   "profile [SOURCE...] | --pid PID | -- PROGRAM [ARG...]",
		Short: "Show where a program spends its time, and who calls what how often",
		Long: `Profile shows the functions of a program with their CPU time and their exact
numbers of calls, as far as there are any.

  footfall profile -- PROGRAM ARG...
                 runs the program and samples it: any program, as it is. The
                 report goes to standard error, as standard output is the
                 program's, and the exit status is the program's.
  footfall profile --pid PID
                 samples a running program until it ends, for --duration, or
                 until Ctrl-C. Nothing in the program is changed.
  footfall profile SOURCE...
                 shows what was measured before. A SOURCE is a counts file
                 (footfall.PID.counts) of a program that was compiled by footfall
                 cc, also while that runs; a gmon.out together with the program,
                 built with -pg, that wrote it; a perf.data of Linux's perf record;
                 or a profile of pprof's format, such as --output pprof writes.
                 Several are added up; "-" is standard input. A program
                 alone stands for the counts files and the gmon.out in the working
                 directory, a number for a pid.
  footfall profile --diff A B
                 shows what B does more, or less, than A, in text, source or pprof.
                 Before gmon.out files goes their program: --diff PROGRAM A B.

Samples are taken by the kernel (perf_event_open, cpu-clock), of all threads and
of the processes that the program starts, also in libraries and in the kernel.
Without being root, that needs kernel.perf_event_paranoid of 2 or less; where it is
refused, a program after -- is sampled by timers of its threads, less often. Callers
are found by the rules in .eh_frame, or with --frame-pointers by these.

Outputs, any number of them, each FORMAT or FORMAT=FILE ("-" is standard output):

  text           a table of the functions, the most costly first
  callers        each function with its callers and callees
  source         the sources with the cost of each line
  gprof          the flat profile and the call graph, as gprof prints them
  html=FILE      one page for any browser: flame graph, table, callers and callees, sources
  json=FILE      everything, see footfall json
  pprof=FILE     for go tool pprof
  callgrind=FILE for KCachegrind and callgrind_annotate
  collapsed=FILE a line for each call stack, for flamegraph.pl
  speedscope=FILE for speedscope.app

Call counts are exact, samples are not. Time that was sampled without callers
(gmon.out) is distributed among them by their calls, and marked as an estimate.`,
		Example: `  # where does it spend its time?
  footfall profile -- ./prog input.txt

  # ten seconds of a server, as a page to click through
  footfall profile --pid 4711 --duration 10s --output html=server.html

  # exact numbers of calls, of a program compiled by footfall cc
  footfall profile --output callers footfall.4711.counts

  # what perf has recorded, on this machine or on another
  perf record --call-graph dwarf ./prog
  footfall profile perf.data --output callers

  # what gprof would say
  gcc -pg -o prog prog.c && ./prog && footfall profile prog gmon.out

  # keep a profile, and compare with it later
  footfall profile --output pprof=before.pb.gz -- ./prog
  footfall profile --diff before.pb.gz after.pb.gz`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, args)
		},
	}
	f := cmd.Flags()
	f.IntVarP(&o.pid, "pid", "p", 0, "sample the running process `PID`")
	f.DurationVar(&o.duration, "duration", 0, "with --pid: how long (default: until the program ends or Ctrl-C)")
	f.IntVarP(&o.record.Frequency, "frequency", "F", 999, "samples for a second of CPU time, `HZ`")
	f.BoolVar(&o.record.FramePointers, "frame-pointers", false, "find callers by frame pointers, for programs that have no .eh_frame")
	f.StringArrayVar(&o.outputs, "output", nil, "write `FORMAT[=FILE]`; may be repeated (default text)")
	f.StringArrayVar(&o.functions, "function", nil, "show only functions that match `GLOB`; may be repeated")
	f.IntVar(&o.top, "top", 40, "show at most `N` functions in text, 0 for all")
	f.StringVar(&o.event, "event", "", "of a perf.data with several events: show `NAME` (default: that of time)")
	f.BoolVar(&o.diff, "diff", false, "compare two sources")
	defineMaxInput(f)
	f.StringArrayVar(&o.pathMaps, "path-map", nil, "`OLD=NEW`: sources that were compiled below OLD are now below NEW; the first that fits counts")
	shareFlags(cmd)
	_ = cmd.RegisterFlagCompletionFunc("output", completeOutputs(profile.Formats()))
	return cmd
}

type profileOptions struct {
	pid, top                     int
	event                        string
	duration                     time.Duration
	record                       profile.RecordOptions
	outputs, functions, pathMaps []string
	diff                         bool

	sources *source.Sources
}

// A profileOutput is an output and where it goes: "-" is standard output.
type profileOutput struct {
	profile.Output
	target string
}

func (o *profileOptions) run(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	stdout, stderr := cmd.OutOrStdout(), cmd.ErrOrStderr()
	outputs, sources, err := o.check(args, dash, stdout)
	if err != nil {
		return usageError(err)
	}
	o.sources, o.record.Owners = sources, &sources.Owners
	if o.diff {
		return o.compare(args, outputs, sources, stdout, stderr)
	}
	var (
		p     *profile.Profile
		title string
		exit  error
	)
	switch {
	case dash >= 0:
		title = strings.Join(args, " ")
		p, exit, err = o.runProgram(cmd, args, stdout, stderr)
		if len(o.outputs) == 0 {
			stdout = stderr // standard output is the program's
		}
	case o.pid != 0:
		title = fmt.Sprintf("process %d", o.pid)
		p, err = o.attach(stderr)
	default:
		title = strings.Join(args[:min(len(args), 3)], " ")
		if n := len(args) - 3; n > 0 {
			title += fmt.Sprintf(" and %d more", n)
		}
		p, err = o.read(args, stderr)
	}
	if err == nil {
		err = o.show(p, title, outputs, sources, stdout, stderr)
	}
	if exit != nil {
		if err != nil {
			fmt.Fprintf(stderr, "footfall: %v\n", err)
		}
		return exit
	}
	return err
}

func (o *profileOptions) check(args []string, dash int, stdout io.Writer) ([]profileOutput, *source.Sources, error) {
	switch {
	case o.diff && (o.pid != 0 || dash >= 0 || compared(args) == nil):
		return nil, nil, errors.New("--diff compares two sources: --diff A B; those of gmon.out come after their program: --diff PROGRAM A B, or --diff PROGRAM A PROGRAM B")
	case dash > 0:
		return nil, nil, fmt.Errorf("%s: sources cannot be mixed with a program to run", args[0])
	case dash == 0 && len(args) == 0:
		return nil, nil, errors.New("no program after --")
	case dash == 0 && o.pid != 0, len(args) > 0 && o.pid != 0:
		return nil, nil, errors.New("--pid samples a running process: name nothing else")
	case o.event != "" && (o.pid != 0 || dash >= 0):
		return nil, nil, errors.New("--event is for files that perf wrote")
	case len(args) == 0 && o.pid == 0:
		return nil, nil, errors.New("nothing to show: name a counts file, a gmon.out with its program, a perf.data, --pid PID, or a program to run after --")
	case o.duration < 0, o.top < 0, o.pid < 0:
		return nil, nil, errors.New("--duration, --top and --pid cannot be negative")
	case o.record.Frequency < profile.MinFrequency || o.record.Frequency > profile.MaxFrequency:
		return nil, nil, fmt.Errorf("--frequency %d: from %d to %d", o.record.Frequency, profile.MinFrequency, profile.MaxFrequency)
	}
	if len(args) == 1 && dash < 0 && !o.diff {
		if pid, err := strconv.Atoi(args[0]); err == nil && pid > 0 {
			if _, err := os.Stat(args[0]); err != nil {
				o.pid = pid
			}
		}
	}
	if o.duration > 0 && o.pid == 0 {
		return nil, nil, errors.New("--duration needs --pid")
	}
	outputs, err := o.parseOutputs(output.Stdout{W: stdout, Program: dash >= 0})
	if err != nil {
		return nil, nil, err
	}
	for _, g := range o.functions {
		if _, err := filepath.Match(g, ""); err != nil {
			return nil, nil, fmt.Errorf("--function %q: %w", g, err)
		}
	}
	sources, err := source.NewSources(source.Options{PathMaps: o.pathMaps})
	return outputs, sources, err
}

func (o *profileOptions) parseOutputs(stdout output.Stdout) (outputs []profileOutput, err error) {
	wanted := o.outputs
	if len(wanted) == 0 {
		wanted = []string{"text"}
	}
	requests, err := output.Parse(wanted, profile.Formats(), stdout)
	for _, r := range requests {
		i := slices.IndexFunc(profile.Outputs, func(out profile.Output) bool { return out.Name == r.Format })
		outputs = append(outputs, profileOutput{profile.Outputs[i], r.File})
	}
	return outputs, err
}

// show prints the profile in all outputs.
func (o *profileOptions) show(p *profile.Profile, title string, outputs []profileOutput, sources *source.Sources, stdout, stderr io.Writer) error {
	for _, note := range p.Notes {
		fmt.Fprintf(stderr, "footfall: %s\n", note)
	}
	if p.NoCallers != "" && slices.ContainsFunc(outputs, func(o profileOutput) bool { return o.Callers }) {
		fmt.Fprintf(stderr, "footfall: %s\n", p.NoCallers)
	}
	r := &profile.View{Profile: p, Graph: profile.NewGraph(p), Title: title, Top: o.top}
	o.setUp(r, sources)
	return writeProfile(r, outputs, sources, stdout)
}

func (o *profileOptions) setUp(r *profile.View, sources *source.Sources) {
	if len(o.functions) > 0 {
		r.Match = func(name string) bool {
			return slices.ContainsFunc(o.functions, func(g string) bool {
				ok, _ := filepath.Match(g, name)
				return ok
			})
		}
	}
	r.Shown = func(name string) string {
		if !filepath.IsAbs(name) {
			return name // as the compiler recorded it
		}
		path, _ := sources.Resolve("", name)
		return sources.Shown(path)
	}
	r.Open = func(name string) (io.ReadCloser, error) {
		path, _ := sources.Resolve("", name)
		text, err := sources.Read(path)
		return io.NopCloser(bytes.NewReader(text)), err
	}
}

// writeProfileFile writes a file; with sources that not everybody may read it is for
// us only.
func writeProfileFile(r *profile.View, out profileOutput, sources *source.Sources) error {
	var b bytes.Buffer
	if err := r.Print(&b, out.Output); err != nil {
		return err
	}
	if sources.HasReadPrivate() {
		defer output.Secretly()()
	}
	return output.Write(out.target, func(w io.Writer) error {
		_, err := b.WriteTo(w)
		return err
	})
}

func writeProfile(r *profile.View, outputs []profileOutput, sources *source.Sources, stdout io.Writer) error {
	var failed []error
	for _, out := range outputs {
		if out.target != "-" {
			r.Color = false
			failed = append(failed, writeProfileFile(r, out, sources))
			continue
		}
		_, r.Color = output.Style(stdout)
		failed = append(failed, r.Print(stdout, out.Output))
	}
	return errors.Join(failed...)
}

// runProgram samples a program from its begin to its end. exit carries its
// status on.
func (o *profileOptions) runProgram(cmd *cobra.Command, args []string, stdout, stderr io.Writer) (p *profile.Profile, exit, err error) {
	// What would end us ends the program, and then there is a report.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	program := exec.CommandContext(ctx, args[0], args[1:]...)
	program.Cancel = func() error { return program.Process.Signal(syscall.SIGTERM) }
	program.Stdin, program.Stdout, program.Stderr = os.Stdin, os.Stdout, os.Stderr
	// Ctrl-C is for the program. What it does then is still of interest.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGQUIT)
	defer signal.Stop(signals)

	begin := time.Now()
	p, waitErr, err := profile.RecordCommand(program, o.record)
	if program.ProcessState == nil {
		return nil, nil, cmp.Or(err, waitErr)
	}
	if err == nil {
		// The files are there since the program started: it counted nothing before.
		p, err = profile.AddCounts(p, os.Getenv("FOOTFALL_OUT"), begin, o.record.Owners)
	}
	switch status, by, known := output.ProgramStatus(waitErr); {
	case known:
		if by != 0 {
			fmt.Fprintf(stderr, "footfall: %s was ended by a signal: %v\n", args[0], by)
		}
		exit = &exitError{status: status}
	case waitErr != nil:
		err = errors.Join(err, waitErr)
	}
	return p, exit, err
}

// attach samples a running process.
func (o *profileOptions) attach(stderr io.Writer) (*profile.Profile, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.duration)
		defer cancel()
	} else if output.Terminal(stderr) != nil {
		fmt.Fprintf(stderr, "footfall: sampling process %d, Ctrl-C ends it\n", o.pid)
	}
	if target, err := process.Open(o.pid); err == nil { // else sampling will say what is wrong
		user, err := target.User()
		target.Close()
		if err != nil {
			return nil, err
		}
		o.record.Owners.NoteProcess(o.pid, user)
	}
	return profile.Record(ctx, o.pid, o.record)
}

// read reads profiles that are in files.
func (o *profileOptions) read(names []string, stderr io.Writer) (*profile.Profile, error) {
	files, err := profile.ReadFiles(names, o.event, &o.sources.Owners)
	if err != nil {
		return nil, err
	}
	for _, note := range files.Notes {
		fmt.Fprintf(stderr, "footfall: %s\n", note)
	}
	return files.Profile()
}

// compared returns the two sources that --diff compares, each with the program that
// it needs, if any.
func compared(args []string) [][]string {
	switch {
	case len(args) == 2:
		return [][]string{args[:1], args[1:]}
	case len(args) == 3 && profile.IsProgram(args[0]):
		return [][]string{args[:2], {args[0], args[2]}}
	case len(args) == 4 && profile.IsProgram(args[0]) && profile.IsProgram(args[2]):
		return [][]string{args[:2], args[2:]}
	}
	return nil
}

// compare shows the difference of two profiles.
func (o *profileOptions) compare(args []string, outputs []profileOutput, sources *source.Sources, stdout, stderr io.Writer) error {
	var ps [2]*profile.Profile
	var titles [2]string
	for i, names := range compared(args) {
		p, err := o.read(names, stderr)
		if err != nil {
			return err
		}
		ps[i], titles[i] = p, strings.Join(names, " ")
	}
	r, err := profile.NewDiff(ps[0], ps[1])
	if err != nil {
		return err
	}
	r.Title, r.Top = titles[0]+" → "+titles[1], o.top
	o.setUp(r, sources)
	return writeProfile(r, outputs, sources, stdout)
}
