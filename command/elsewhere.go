//go:build !linux

package command

import (
	"errors"

	"github.com/spf13/cobra"
)

// These commands look into running programs, or change how ELF programs are made.
var (
	newLiveCommand    = needsLinux("live TARGET...", "Show what running programs have covered so far, without stopping them", "it reads the memory of running programs")
	newAgentCommand   = needsLinux("agent --server URL [TARGET...]", "Send what the programs of this machine run to footfall serve", "it reads the memory of running programs")
	newMountCommand   = needsLinux("mount DIR [TARGET...]", "Show the live counters of running programs as a tree of .gcda files", "it reads the memory of running programs")
	newTraceCommand   = needsLinux("trace TARGET | -- PROGRAM [ARGUMENT...]", "Show the calls of functions in a running program, as they happen", "it changes running programs")
	newCallersCommand = needsLinux("callers TARGET FUNCTION", "Count the chains of callers that reach a function of a running program", "it changes running programs")
	newCCCommand      = needsLinux("cc [flags] -- COMPILER ARG...", "Compile so that calls are counted, or for the other commands", "the programs that it makes are ELF files of Linux")
)

// needsLinux makes a command that says so. Its options are not looked at.
func needsLinux(use, short, why string) func() *cobra.Command {
	return func() *cobra.Command {
		cmd := &cobra.Command{
			Use:                use,
			Short:              short + " (needs Linux)",
			Long:               "This command needs Linux: " + why + ".",
			DisableFlagParsing: true,
			Annotations:        map[string]string{elsewhere: why},
		}
		cmd.RunE = func(*cobra.Command, []string) error {
			return errors.New(cmd.Name() + ": needs Linux: " + why)
		}
		return cmd
	}
}

// asCompiler is nothing here: no program is made.
func asCompiler(*[]string) (status int, done bool) { return 0, false }

func compileRuntime(string, []string, string) error {
	return errors.New("instrument --runtime: needs Linux: the object is an ELF file; a runtime.c can be written")
}
