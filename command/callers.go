//go:build linux

package command

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"footfall/hook/patch"
	"footfall/record"
)

func newCallersCommand() *cobra.Command {
	var o record.CallersOptions
	var header bool
	cmd := &cobra.Command{
		Use:   "callers TARGET FUNCTION",
		Short: "Count the chains of callers that reach a function of a running program",
		Long: `Callers answers who calls a hot function, and how often, in a running program: for
each call of FUNCTION it counts the chain of the nearest callers, --depth of
them, in a table in memory. Chains are compared whole, and none is sampled or
estimated. TARGET is a process id or the name of one process, or kernel. FUNCTION
is a PATTERN of footfall trace: a name, FILE:NAME, LIBRARY:NAME or /EXPRESSION/.

FUNCTION may be one of any x86-64 program, as for footfall trace; if it has no room
for a jump, and its first instructions cannot be moved, uprobes of the kernel count,
which needs root and costs a hundred times as much; --way sites,moved does without
them. The callers need nothing. They are found by the tables that exist for
exceptions (.eh_frame), so that programs without frame pointers work, and by frame
pointers where code has no such table. Functions that have neither are traced
meanwhile, as all that may be callers: each of their calls costs some nanoseconds
then, and those that had begun before end their chains. The result says which way it was. A
chain ends early where there is none, at a signal handler and where the thread began.
A function that jumped to FUNCTION as its last act (a tail call) is not on the stack
any more.

A program that counts by itself is only read: if it was compiled by footfall cc, which
knows the place of each call but no longer chains, and FUNCTION has no room; or if
FUNCTION counts its callers by a line FOOTFALL_CALLERS(3), for which --header writes
the header. Without --duration all that was counted since its beginning is shown.

Outputs, any number of them, each FORMAT or FORMAT=FILE ("-" is standard output):

  text        chains with source lines, the most frequent first (the default)
  json        a list of {"chain":[{"function":...,"file":...,"line":...}],"count":N},
              the nearest caller first
  html        a page with a flame graph, for any browser: html=FILE
  pprof       a profile with the value calls, for go tool pprof
  collapsed   for flame graphs

When it has ended, or is interrupted, the program is as before.`,
		Example: `  # who hashes all the time?
  footfall callers redis-server dictGenHashFunction --duration 2s

  # longer chains, as a flame graph
  footfall callers redis-server zmalloc --depth 10 --output html=zmalloc.html

  # who writes to files, in the kernel
  footfall callers kernel vfs_write --depth 5 --duration 2s

  # one line in the function: FOOTFALL_CALLERS(3);
  footfall callers --header > footfall_callers.h`,
		Args: func(cmd *cobra.Command, args []string) error {
			if header {
				return cobra.NoArgs(cmd, args)
			}
			if len(args) != 2 {
				return errors.New("give a TARGET and a FUNCTION")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if header {
				_, err := io.WriteString(cmd.OutOrStdout(), patch.CallersHeader)
				return err
			}
			o.DepthGiven = cmd.Flags().Changed("depth")
			o.Stdout, o.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return record.Callers(&o, args[0], args[1])
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Depth, "depth", 3, "follow `N` callers, at most 30")
	f.DurationVar(&o.Duration, "duration", 0, "end after this `TIME` (default: when interrupted or the program ends)")
	f.StringArrayVar(&o.Outputs, "output", []string{"text"}, "write `FORMAT[=FILE]`; may be repeated")
	f.StringSliceVar(&o.Ways, "way", nil, "count only by these `WAYS`: sites, moved, uprobes (default: all; for each function the first that serves it)")
	f.IntVar(&o.Top, "top", 20, "show the `N` most frequent chains as text; 0: all")
	f.BoolVar(&o.Watch, "watch", false, "show the chains while they are counted, every second")
	f.BoolVar(&header, "header", false, "write footfall_callers.h, by which functions count their callers themselves")
	f.IntVar(&o.Buffer, "buffer", 4, "memory for chains of each thread, in `MB`; a power of 2")
	_ = cmd.RegisterFlagCompletionFunc("way", cobra.FixedCompletions(record.WayNames(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("output", completeOutputs(record.CallerFormats()))
	return cmd
}
