package command

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	covdata "footfall/formats/gocover/tool"
)

func newCovdataCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "covdata percent|func|textfmt|pkglist|merge|subtract|intersect|debugdump -i DIR[,DIR]... [-o OUT] [-pkg PATTERN,...]",
		Short: "Work on data of go build -cover, as go tool covdata does",
		Long: `Covdata does what go tool covdata does with the directories of GOCOVERDIR, and
writes the same to the byte: no Go is needed. It is also called by the name covdata.

  percent          how many statements of each package ran; -o FILE: textfmt, too
  func             how many of each function
  textfmt -o FILE  a text profile, for go tool cover
  pkglist          the import paths of the packages
  merge, subtract, intersect -o DIR
                   the data of all directories; the first without what ran in the
                   second; what ran in all
  debugdump        all that the files say; -live: of functions that ran
  -i DIR,DIR       directories with covmeta and covcounters files
  -pkg PATTERN,... only packages of these import paths; ... is any text
  -pcombine        merge: make one program of several

Footfall report reads the same, and has more outputs. See docs/go.md.`,
		Example: `  footfall covdata percent -i cov
  footfall covdata merge -i unit,integration -o all`,
		DisableFlagParsing:    true,
		DisableFlagsInUseLine: true,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usageError(errors.New("covdata needs a command, such as percent"))
		}
		if args[0] == "--help" {
			return cmd.Help()
		}
		if status := runCovdata("", args, cmd.OutOrStdout(), cmd.ErrOrStderr()); status != 0 {
			return &exitError{status: status}
		}
		return nil
	}
	return cmd
}

// runCovdata is go tool covdata, by whatever name it is called. It returns the exit status.
func runCovdata(_ string, args []string, stdout, stderr io.Writer) int {
	return covdata.Run(&covdata.Invocation{Args: args, Stdout: stdout, Stderr: stderr})
}
