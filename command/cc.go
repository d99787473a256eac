//go:build linux

package command

import (
	"errors"

	"github.com/spf13/cobra"

	"footfall/compile"
	"footfall/compile/instrument"
)

func newCCCommand() *cobra.Command {
	var o ccOptions
	cmd := &cobra.Command{
		Use:   "cc [flags] -- COMPILER ARG...",
		Short: "Compile so that calls are counted, or for the other commands",
		Long: `Cc runs a compiler, gcc, g++, clang or clang++ of any version and target, with the
arguments that follow, and makes what it compiles count its calls:

  calls     count every entry of a function and every call, exactly; the compiler's
            assembly is rewritten, and a runtime is linked in
  coverage  count lines and branches, for footfall report, live and mount
            (--coverage -fprofile-update=atomic; with -fprofile-instr-generate, which
            is Clang's own way, its -fcoverage-mapping)
  trace     leave room at function entries that a tracer can patch while the
            program runs (-fpatchable-function-entry)

--for chooses; the default is calls. The program does what it did before. While it
runs, its calls are in the file footfall.PID.counts in its working directory,
or in the file that the environment variable FOOTFALL_OUT names (%p in it is the
PID; an empty name means none). The file stays when the program is killed. A child
of fork has its own. FOOTFALL_STATS=1 makes the program also write a table to the
file stats at its end.

Counts are exact, also with threads and signal handlers. --update=thread, the
default, gives each thread of a program its own counters; what is linked to a shared
library, or is for another CPU than x86-64, counts atomically, as with
--update=atomic: exact, but slow where functions are small. --update=plain is for what
never has two threads: with it they lose some. Linking needs the same --update.
--update=split is the fastest where tiny functions are called over and over, for
programs with one thread on x86-64.

In a build: CC="footfall cc -- gcc", or a link named footfall-gcc, footfall-g++,
footfall-clang-19 to footfall, whose flags stand in FOOTFALL_CC. With CMake set
CMAKE_C_COMPILER_LAUNCHER and CMAKE_C_LINKER_LAUNCHER (and CXX) to "footfall;cc;--".

What cannot be counted is compiled as it would be without footfall, with a warning
if that is a whole file: assembly in Intel's syntax. Assembly that no compiler
made is left alone. With -flto, what is compiled when a program is linked counts
like the rest. The exit status is the compiler's.`,
		Example: `  # a whole build
  make CC="footfall cc -- gcc" CXX="footfall cc -- g++"

  # only in two directories
  footfall cc --only 'src/net/**' --only 'src/db/**' -- gcc -O2 -c src/net/tcp.c

  # counts of calls, and coverage, in one program
  footfall cc --for calls,coverage -- g++ -O2 -o prog prog.cc`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("cc needs a compiler: footfall cc -- gcc -c prog.c")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			status, err := o.run(args)
			if err == nil && status != 0 {
				err = &exitError{status: status}
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.Purposes, "for", []string{"calls"}, "`PURPOSE,...` of calls, coverage and trace")
	f.StringVar(&o.update, "update", "thread", "how counters of calls are incremented: `thread` or atomic, which are exact; plain; split, for tiny functions and one thread")
	f.StringArrayVar(&o.choice.only, "only", nil, "only sources and functions that match `GLOB`; may be repeated")
	f.StringArrayVar(&o.choice.not, "not", nil, "no sources and functions that match `GLOB`; may be repeated")
	f.BoolVarP(&o.Verbose, "verbose", "v", false, "say what is left out")
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(compile.Purposes, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("update", cobra.FixedCompletions([]string{"plain", "atomic", "thread", "split"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

type ccOptions struct {
	compile.Options
	update string
	choice choice
}

// run compiles, and returns the exit status of the compiler.
func (o *ccOptions) run(args []string) (int, error) {
	var err error
	if o.Update, err = instrument.ParseUpdate(o.update); err != nil {
		return 0, usageError(err)
	}
	if err := o.choice.check(); err != nil {
		return 0, usageError(err)
	}
	if err := o.Check(); err != nil {
		return 0, usageError(err)
	}
	o.Only, o.Not, o.Wanted = o.choice.only, o.choice.not, o.choice.source
	return o.Run(args)
}
