package command

import (
	"slices"

	"github.com/spf13/cobra"

	"footfall/formats/gocover/tool"
)

func newCovdataCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "covdata textfmt|percent|func|pkglist|merge -i DIR[,DIR]... [OPTION]...",
		Short: "Print and merge what programs of Go have counted, as go tool covdata does",
		Long: `Covdata prints what programs counted that were built with go build -cover, from the
directories that GOCOVERDIR named: what go tool covdata prints, without Go.

  textfmt    write a profile as go test -coverprofile does to the file -o
  percent    how much of each package ran; -o writes a profile, too
  func       how much of each function ran
  pkglist    the packages
  merge      write the counts of each program as one to the directory -o;
             with -pcombine those of all programs

  -i DIR,... directories with covmeta and covcounters files
  -pkg P,... only packages that match a pattern, in which ... is anything

Footfall report reads these directories, and has more outputs.`,
		Example: `  footfall covdata percent -i=cov
  footfall covdata textfmt -i=unit,integration -o=cover.out`,
		DisableFlagParsing: true,
	}
	cmd.DisableFlagsInUseLine = true
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 || slices.ContainsFunc(args, func(arg string) bool { return arg == "-h" || arg == "-help" || arg == "--help" }) {
			return cmd.Help()
		}
		if status := tool.Run(&tool.Invocation{Args: args, Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr()}); status != 0 {
			return &exitError{status: status}
		}
		return nil
	}
	return cmd
}
