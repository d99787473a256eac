package command

import (
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"footfall/formats/gcov/tool"
)

// toolCommand completes a command that package tool carries out, which takes the
// arguments as gcov-tool does.
func toolCommand(cmd *cobra.Command) *cobra.Command {
	cmd.DisableFlagParsing = true
	cmd.DisableFlagsInUseLine = true
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if slices.Contains(args, "--help") {
			return cmd.Help()
		}
		inv := &tool.Invocation{
			Prog: "footfall", Args: append([]string{cmd.Name()}, args...),
			Stdin: os.Stdin, Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr(),
		}
		if status := tool.Run(inv); status != 0 {
			return &exitError{status: status}
		}
		return nil
	}
	return cmd
}

// runTool is gcov-tool as called by the name prog. It returns the exit status.
func runTool(prog string, args []string, stdout, stderr io.Writer) int {
	return tool.Run(&tool.Invocation{
		Prog: prog, Args: args, Version: namedVersion(prog, "gcov-tool-"), Stdin: os.Stdin, Stdout: stdout, Stderr: stderr,
	})
}
