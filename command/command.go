// Package command is what a user types: each command is one file beside this one.
// This file has the command table, the choice of a command by the name that the
// program is called by, and the exit status.
package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"footfall/formats/llvm/tool"
	"footfall/output"
)

// Exit statuses; commands choose between them by the error that they return.
const (
	statusFailed = 1 // the work failed
	statusUsage  = 2 // the command line was wrong
)

// commands is the command table, in the order of the help text.
var commands = []func() *cobra.Command{
	newReportCommand,
	newDiffCommand,
	newLiveCommand,
	newMountCommand,
	newCCCommand,
	newInstrumentCommand,
	newProfileCommand,
	newTraceCommand,
	newCallersCommand,
	newGcovCommand,
	newMergeCommand,
	newMergeStreamCommand,
	newRewriteCommand,
	newOverlapCommand,
	newDumpCommand,
	newLLVMCovCommand,
	newLLVMProfdataCommand,
	newConfigCommand,
	newCompletionCommand,
	newDocsCommand,
	newVersionCommand,
}

// Main carries out the command line argv, argv[0] being the name that the program was
// called by, and returns the exit status.
func Main(argv []string) int {
	stdout, stderr := output.Standard(os.Stdout), output.Standard(os.Stderr)
	for name, program := range namedPrograms {
		if strings.Contains(filepath.Base(argv[0]), name) {
			return program(argv[0], argv[1:], stdout, stderr)
		}
	}
	if exportsLLVM(argv[0], argv[1:]) {
		return runLLVM(tool.Cov, argv[0], argv[1:], stdout, stderr)
	}
	if calledAsGcov(argv[0]) {
		return runGcov(argv[0], argv[1:], stdout, stderr)
	}
	status, done := asCompiler(&argv)
	if done {
		return status
	}
	return run(argv)
}

// namedPrograms are the programs beside gcov that footfall is when it is called
// by their names: gcov-dump-12.
var namedPrograms = map[string]func(prog string, args []string, stdout, stderr io.Writer) int{
	"gcov-dump":     runDump,
	"gcov-tool":     runTool,
	"llvm-profdata": runProfdata,
}

// calledAsGcov tells whether program names a gcov, of GCC or of LLVM: gcov-13,
// x86_64-linux-gnu-gcov-12, llvm-cov-19. Programs that run a gcov take the name
// of one and no arguments.
func calledAsGcov(program string) bool {
	name := filepath.Base(program)
	for other := range namedPrograms {
		if strings.Contains(name, other) {
			return false
		}
	}
	return strings.Contains(name, "gcov") || strings.Contains(name, "llvm-cov")
}

// run carries out the command line argv and returns the exit status. It alone
// prints errors.
func run(argv []string) int {
	root, started := newRootCommand(commands)
	root.SetOut(output.Standard(os.Stdout))
	root.SetErr(output.Stderr)
	if len(argv) < 2 {
		root.SetOut(output.Stderr)
		root.SetArgs([]string{"--help"})
		_ = root.Execute()
		return statusUsage
	}
	root.SetArgs(withoutConfig(root, argv[1:]))
	cmd, err := root.ExecuteC()
	if err == nil {
		return 0
	}
	exit := &exitError{status: statusFailed, err: err}
	if ended := (*output.ExitError)(nil); errors.As(err, &ended) {
		exit.status, exit.err = ended.Status, ended.Err
	} else if !errors.As(err, &exit) && !*started {
		// Flags and arguments are checked before a command starts.
		exit.status = statusUsage
	}
	if exit.err != nil {
		fmt.Fprintf(output.Stderr, "footfall: %v\n", err)
		if exit.status == statusUsage && !exit.inFile {
			fmt.Fprintf(output.Stderr, "'%s --help' shows the usage\n", cmd.CommandPath())
		}
	}
	return exit.status
}

// newRootCommand returns the command line's definition and a flag that is set
// once a command has been chosen and its arguments were found to be right.
func newRootCommand(known []func() *cobra.Command) (root *cobra.Command, started *bool) {
	cobra.EnableCommandSorting = false // the table's order is better
	started = new(bool)
	root = &cobra.Command{
		Use:   "footfall",
		Short: "Show what native programs run: lines, branches and calls",
		Long: `Footfall shows what a native program runs, while it runs: which lines, branches
and calls, how often, from where and for how long. It reads what GCC and Clang put
into programs.

Results go to standard output, everything said to a person to standard error.
The exit status is 0 on success, 1 if the work failed, 2 if the command line was
wrong, and 3 if a threshold was missed.`,
		Example: `  # what of prog.c does a run of the program reach?
  gcc --coverage -o prog prog.c
  ./prog
  footfall report

  # what has a server that was built so reached up to now? and as it goes on?
  footfall live redis-server
  footfall live redis-server --watch`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkValues(cmd); err != nil {
				return err
			}
			if configurable(cmd) {
				if _, err := applyConfig(cmd); err != nil {
					return err
				}
			}
			// Cobra checks these later, when it has no more to say about usage.
			if err := cmd.ValidateRequiredFlags(); err != nil {
				return err
			}
			if err := cmd.ValidateFlagGroups(); err != nil {
				return plainly(err)
			}
			*started = true
			return nil
		},
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.InitDefaultVersionFlag()
	defineConfigFlags(root)
	for _, newCommand := range known {
		cmd := newCommand()
		root.AddCommand(cmd)
		if cmd.DisableFlagParsing && cmd.Name() != "merge" {
			hideConfigFlags(cmd)
		}
	}
	return root, started
}

// wantsValue marks flags for which an empty text is a mistake: in a script it is
// a variable that is not set, and what it should ask for must not be forgotten.
const wantsValue = "footfall_wants_value"

// wantValues marks all flags of cmd so.
func wantValues(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { _ = cmd.Flags().SetAnnotation(f.Name, wantsValue, nil) })
}

// checkValues finds marked flags that were given an empty text.
func checkValues(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		if _, wants := f.Annotations[wantsValue]; wants && (len(values) == 0 || slices.Contains(values, "")) {
			err = fmt.Errorf("--%s is empty: is a variable not set?", f.Name)
		}
	})
	return err
}

// plainly says what cobra says of flags that exclude each other.
func plainly(err error) error {
	if _, set, ok := strings.Cut(err.Error(), "; ["); ok {
		if names, ok := strings.CutSuffix(set, "] were all set"); ok {
			return fmt.Errorf("--%s do not go together", strings.Join(strings.Fields(names), " and --"))
		}
	}
	return err
}

// An exitError ends footfall with a status of the command's choice.
type exitError struct {
	status int
	err    error // to be printed; nil: the command has said it all
	inFile bool  // the mistake is in a configuration file, not in the command line
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usageError marks err as a mistake in the command line.
func usageError(err error) error {
	return &exitError{status: statusUsage, err: err}
}
