// Package command is what a user types: each command is one file beside this one.
// This file has the command table and the choice of a command by the name that the
// program is called by.
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

	"footfall/command/asgcov"
	_ "footfall/command/early/listing" // is gcov of small files, before all else
	"footfall/formats/llvm/tool"
	"footfall/output"
)

// An entry is a command in the table. Most have so many options that to define those of
// all takes longer than small work does, so a command is made when it is needed.
type entry struct {
	group string // under which the help has it
	name  string
	make  func() *cobra.Command
}

// commands is the command table, in the order of the help text.
func commands() []entry {
	const coverage, fleet, calls, files, itself = "Coverage", "Many machines", "Calls and time", "Data files", "Footfall itself"
	return []entry{
		{coverage, "report", newReportCommand},
		{coverage, "live", newLiveCommand},
		{coverage, "mount", newMountCommand},
		{coverage, "diff", newDiffCommand},
		{coverage, "merge", newMergeCommand},
		{coverage, "gcov", newGcovCommand},
		{coverage, "llvm-cov", newLLVMCovCommand},
		{fleet, "fleet", newFleetCommand},
		{fleet, "serve", newServeCommand},
		{fleet, "agent", newAgentCommand},
		{fleet, "push", newPushCommand},
		{calls, "trace", newTraceCommand},
		{calls, "callers", newCallersCommand},
		{calls, "profile", newProfileCommand},
		{calls, "cc", newCCCommand},
		{calls, "instrument", newInstrumentCommand},
		{files, "dump", newDumpCommand},
		{files, "rewrite", newRewriteCommand},
		{files, "overlap", newOverlapCommand},
		{files, "merge-stream", newMergeStreamCommand},
		{files, "llvm-profdata", newLLVMProfdataCommand},
		{files, "covdata", newCovdataCommand},
		{itself, "config", newConfigCommand},
		{itself, "json", newJSONCommand},
		{itself, "completion", newCompletionCommand},
		{itself, "docs", newDocsCommand},
		{itself, "version", newVersionCommand},
	}
}

// tellOfOthers are commands that tell of all commands.
var tellOfOthers = []string{"config", "completion", "docs"}

// called returns the command that argv begins with, or all where others may be asked for.
func called(argv []string) []entry {
	all := commands()
	if len(argv) < 2 || slices.Contains(tellOfOthers, argv[1]) {
		return all
	}
	if i := slices.IndexFunc(all, func(e entry) bool { return e.name == argv[1] }); i >= 0 {
		return all[i : i+1]
	}
	return all
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
	if calledAsLLVMCov(argv[0], argv[1:]) {
		return runLLVM("llvm-cov", tool.Cov, argv[0], argv[1:], stdout, stderr)
	}
	if asgcov.IsName(argv[0]) {
		return runGcov(argv[0], argv[1:], stdout, stderr)
	}
	status, done := asCompiler(&argv)
	if done {
		return status
	}
	return run(argv)
}

// namedPrograms are [asgcov.Others].
var namedPrograms = map[string]func(prog string, args []string, stdout, stderr io.Writer) int{
	"gcov-dump":     runDump,
	"gcov-tool":     runTool,
	"llvm-profdata": runProfdata,
	"covdata":       runCovdata,
}

// run carries out the command line argv and returns the exit status. It alone
// prints errors.
func run(argv []string) int {
	root, started := newRootCommand(called(argv))
	root.SetOut(output.Standard(os.Stdout))
	root.SetErr(output.Stderr)
	if len(argv) < 2 {
		root.SetOut(output.Stderr)
		root.SetArgs([]string{"--help"})
		_ = root.Execute()
		return statusUsage
	}
	root.InitDefaultHelpCmd()
	checkHelpTopic(root)
	if argv[1] == cobra.ShellCompRequestCmd {
		plainTexts(root)
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
func newRootCommand(known []entry) (root *cobra.Command, started *bool) {
	cobra.EnableCommandSorting = false // the table's order is better
	started = new(bool)
	root = &cobra.Command{
		Use:   "footfall",
		Short: "Show what native programs run: lines, branches and calls",
		Long: `Footfall shows what a native program runs, while it runs: which lines, branches
and calls, how often, from where and for how long. It reads the counters that GCC,
Clang, Rust and Go put into programs; trace, callers, profile and live --ran need
none.

Results go to standard output, everything said to a person to standard error.
The exit status is 0 on success, 1 if the work failed, 2 if the command line was
wrong, and 3 if a threshold was missed. Pages that help texts name, docs/..., are
below /usr/share/doc/footfall where a package has installed footfall.`,
		Example: `  # what of prog.c does a run of the program reach?
  gcc --coverage -o prog prog.c
  ./prog
  footfall report

  # what has a server that was built so reached up to now? what does one request run?
  footfall live redis-server
  footfall live redis-server -- redis-cli lpush list 1 2 3

  # which functions of any program run, and where does its time go?
  footfall live --ran functions nginx --duration 10s
  footfall profile --pid 4711 --duration 10s`,
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
				return plainly(err)
			}
			if err := cmd.ValidateFlagGroups(); err != nil {
				return plainly(err)
			}
			*started = true
			return nil
		},
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetUsageFunc(printUsage)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(suggest)
	root.InitDefaultVersionFlag()
	defineConfigFlags(root)
	addCommands(root, known)
	return root, started
}

func addCommands(root *cobra.Command, known []entry) {
	for _, e := range known {
		cmd := e.make()
		if !root.ContainsGroup(e.group) {
			root.AddGroup(&cobra.Group{ID: e.group, Title: e.group})
		}
		cmd.GroupID = e.group
		root.SetHelpCommandGroupID(e.group) // the last
		root.AddCommand(cmd)
	}
}

// addOthers adds the commands that were not called, at their places.
func addOthers(root *cobra.Command) {
	had := slices.Clone(root.Commands())
	if len(had) >= len(commands()) {
		return
	}
	root.RemoveCommand(had...)
	for _, e := range commands() {
		if i := slices.IndexFunc(had, func(cmd *cobra.Command) bool { return cmd.Name() == e.name }); i >= 0 {
			root.AddCommand(had[i])
			had = slices.Delete(had, i, i+1)
		} else {
			addCommands(root, []entry{e})
		}
	}
	root.AddCommand(had...) // cobra's own
}
