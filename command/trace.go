//go:build linux

package command

import (
	"github.com/spf13/cobra"

	"footfall/record"
)

func newTraceCommand() *cobra.Command {
	var o record.Options
	cmd := &cobra.Command{
		Use:   "trace TARGET | -- PROGRAM [ARGUMENT...]",
		Short: "Show the calls of functions in a running program, as they happen",
		Long: `Trace records the calls of functions in a running program, with their times. It
inserts code into the program from outside, and restores the program when it ends.
The program is not restarted and loads no library. TARGET is a process id, the name
of one process, or kernel; a program after -- is started and traced from its
beginning.

Any x86-64 program will do, also one without symbols: the first instructions of a
function are run elsewhere, and a jump takes their place. A program that is compiled
with room for that jump is changed less, which costs little while it is not traced,
and works on arm64, too (there 2 instead of 5 is enough):

  gcc -fpatchable-function-entry=5                        or 16,11; clang too,
                                                          or its -fxray-instrument
  gcc -pg -mfentry -mnop-mcount -mrecord-mcount -fno-pie -no-pie

Named functions that have no room, and whose first instructions cannot be moved, are
traced by the kernel's uprobes, in the same trace: as root, and a hundred times
slower. --way permits only some of the three: sites, moved, uprobes. The kernel
itself is traced by its own tracers: as root, with -f GLOB or MODULE:GLOB.

Entries are recorded; with --exits also exits, and so durations. --function chooses
functions (default: all), --notrace leaves some out. A PATTERN is

  GLOB            a name as in C++ or as the linker has it, * and ? are special
  FILE:GLOB       in that source file       LIBRARY:GLOB   in that library
  /EXPRESSION/    a regular expression

--graph-from, --depth, --min-duration and --sample filter calls in the program
itself, before anything is written. All of them imply --exits.

Outputs, any number of them, each FORMAT or FORMAT=FILE ("-" is standard output):

  graph       text, as function_graph of ftrace writes it (the default)
  stats       a table: calls, total, self, average and longest time
  perfetto    for ui.perfetto.dev           chrome    for chrome://tracing
  pprof       a profile with calls and wall time, for go tool pprof
  html        a page with a flame graph and a table, for any browser
  collapsed   call stacks and their time, for flame graphs
  json        all calls, see footfall json
  raw         the events; --read makes any other output of them, or of some of
              them: --function, --notrace, --graph-from, --depth, --min-duration

With --count calls are only counted, for a table (counts, the default) or json. Without
a FILE they go to standard output, or to standard error if footfall started the program,
since the two share standard output.

Events that come faster than they are read are dropped, and their number is reported;
--flight-recorder keeps the newest ones instead and shows them at the end.

--args records the arguments of a function with its calls: all that the debug
information describes, or the named ones, argN for the Nth integer or pointer (1 to 6
are in registers, on arm64 1 to 8), farg1 for floating point:

  --args open_file --args 'log_line:arg1/d,arg3/s,farg1'

/d and /u are decimal, /x hexadecimal, /p a pointer, /c a character, /s a string
of which 48 bytes are kept; a number of bits may follow, as in /d64. Invalid
pointers do no harm.

Children made by fork are traced too, until they call exec. With --follow-exec
the programs after exec are traced as well, each from its beginning, with the same
functions and filters; a program without matching functions is not touched.
Libraries that are loaded meanwhile are traced from their constructors on.

--set changes a running trace from another terminal: other functions, filters,
--off and --on. The given settings replace the earlier ones.

If footfall is killed the program continues, slower; --repair restores it, and so
does the next trace of it.`,
		Example: `  # which functions can be traced?
  footfall trace --list redis-server 'dict*'
  footfall trace --list ./prog               # of a file, which need not run

  # what happens in a second, with durations
  footfall trace redis-server -f 'dict*' -n dictHashKey --exits --duration 1s

  # where does the time of slow commands go?
  footfall trace redis-server --graph-from processCommand --min-duration 100us

  # with what of libraries that were not compiled for it
  footfall trace redis-server -f 'dict*' -f 'libc*:malloc' --exits --duration 1s

  # which keys?
  footfall trace redis-server -f dictSdsHash --args 'dictSdsHash:arg1/s'

  # a program from its beginning, for Perfetto, and a table
  footfall trace --exits --output perfetto=prog.pftrace --output stats -- ./prog

  # all programs of a build or a test
  footfall trace --follow-exec -f 'parse_*' --output stats -- make test

  # other functions, now
  footfall trace --set redis-server -f 'zset*' -n zsetLength

  # what does the kernel do in a read?
  footfall trace kernel --graph-from ksys_read --depth 4 --duration 100ms

  # record now, look later
  footfall trace redis-server --exits --duration 5s --output raw=redis.trace
  footfall trace --read redis.trace --output stats`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Targets, o.Given = args, cmd.Flags().Changed
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				o.Targets, o.Program = args[:dash], append([]string{}, args[dash:]...) // not nil
			}
			o.Stdout, o.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return record.Trace(&o)
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.Functions, "function", "f", nil, "trace functions that fit `PATTERN`; may be repeated (default: all)")
	f.StringArrayVarP(&o.Notrace, "notrace", "n", nil, "do not trace functions that fit `PATTERN`; may be repeated")
	f.BoolVar(&o.Exits, "exits", false, "record exits too: durations")
	f.BoolVar(&o.Count, "count", false, "only count calls: the cheapest way")
	f.StringArrayVar(&o.GraphFrom, "graph-from", nil, "record only what is called by functions that fit `PATTERN`, and these")
	f.IntVar(&o.Depth, "depth", 0, "record at most `N` calls within each other")
	f.DurationVar(&o.MinDuration, "min-duration", 0, "record only calls that take at least this `TIME`, such as 10us")
	f.StringVar(&o.Sample, "sample", "", "record of outermost calls only one in N, at random: `1/N`")
	f.DurationVar(&o.Duration, "duration", 0, "end after this `TIME` (default: when interrupted or the program ends)")
	f.StringArrayVar(&o.Threads, "thread", nil, "record only threads whose id or name fits `THREAD`; may be repeated (default: all)")
	f.Uint64Var(&o.Events, "events", 0, "end after `N` events")
	f.StringArrayVar(&o.Outputs, "output", []string{"graph"}, "write `FORMAT[=FILE]`; may be repeated")
	f.StringSliceVar(&o.Ways, "way", nil, "trace functions only by these `WAYS`: sites, moved, uprobes (default: all; for each function the first that serves it)")
	f.BoolVar(&o.Newest, "flight-recorder", false, "keep the newest events of each thread and write them at the end")
	f.IntVar(&o.Buffer, "buffer", 4, "memory for events of each thread, in `MB`; a power of 2")
	f.BoolVar(&o.List, "list", false, "list the functions of TARGET that can be traced, or those that fit the PATTERNs after it; TARGET may be a FILE, with a / in its name, of a program that need not run")
	f.BoolVar(&o.Repair, "repair", false, "restore a TARGET whose footfall was killed")
	f.StringVar(&o.Read, "read", "", "read a `FILE` that was written with --output raw=FILE")
	f.BoolVar(&o.Set, "set", false, "change a trace that runs: functions, filters, --off, --on")
	f.BoolVar(&o.Off, "off", false, "with --set: switch all functions off, until --on")
	f.BoolVar(&o.On, "on", false, "with --set: switch them on again")
	f.StringArrayVar(&o.Args, "args", nil, "record arguments of `FUNCTION[:arg1/s,arg2/x...]`; may be repeated")
	f.BoolVar(&o.Follow, "follow", true, "record the calls of children made by fork, too")
	f.BoolVar(&o.FollowExec, "follow-exec", false, "trace the programs, too, that the process or its children become by exec")
	cmd.MarkFlagsMutuallyExclusive("list", "repair", "read", "set")
	for _, recording := range []string{"exits", "count", "sample", "args", "duration", "buffer", "flight-recorder", "follow"} {
		cmd.MarkFlagsMutuallyExclusive("read", recording)
	}
	cmd.MarkFlagsMutuallyExclusive("off", "on")
	cmd.MarkFlagsMutuallyExclusive("count", "exits")
	cmd.MarkFlagsMutuallyExclusive("count", "args")
	cmd.MarkFlagsMutuallyExclusive("count", "flight-recorder")
	cmd.MarkFlagsMutuallyExclusive("count", "events")
	cmd.MarkFlagsMutuallyExclusive("flight-recorder", "events")
	cmd.MarkFlagsMutuallyExclusive("duration", "repair")
	for _, other := range []string{"repair", "read", "set"} {
		cmd.MarkFlagsMutuallyExclusive("way", other)
	}
	for _, other := range []string{"list", "repair", "read", "set"} {
		cmd.MarkFlagsMutuallyExclusive("follow-exec", other)
	}
	_ = cmd.RegisterFlagCompletionFunc("output", completeOutputs(record.Formats()))
	_ = cmd.RegisterFlagCompletionFunc("way", cobra.FixedCompletions(record.WayNames(), cobra.ShellCompDirectiveNoFileComp))
	showFirst(cmd, "list", "function", "notrace", "exits", "duration", "output", "graph-from", "min-duration", "args", "count")
	return cmd
}
