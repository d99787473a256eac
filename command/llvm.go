package command

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"footfall/formats/llvm/tool"
)

// This file has the programs of LLVM that footfall stands in for, beside llvm-cov gcov.

func newLLVMCovCommand() *cobra.Command {
	return llvmCommand(&cobra.Command{
		Use:   "llvm-cov export -format=lcov [--llvm-version N] BINARY [-object FILE]... -instr-profile PROFILE [SOURCE...]",
		Short: "Export source-based coverage, as llvm-cov does",
		Long: `Llvm-cov writes the tracefile that llvm-cov export -format=lcov writes, byte for
byte, of the LLVM version --llvm-version (9 to 23), or else of the newest that wrote
the PROFILE. It is also called by the name llvm-cov-19, which tells the version.
The profile and the binaries may be of any version; a raw profile will do.

  -format lcov               the one that is there
  -instr-profile FILE        a profile
  -object FILE               a binary, beside the first argument; may be repeated
  -ignore-filename-regex RE  leave out sources of such names; may be repeated
  -summary-only, -skip-functions, -skip-branches, -unify-instantiations
                             as llvm-cov

Footfall report reads the same, and has more outputs.`,
		Example: `  footfall llvm-cov export -format=lcov ./prog -instr-profile=all.profdata > cov.info`,
	}, tool.Cov)
}

func newLLVMProfdataCommand() *cobra.Command {
	return llvmCommand(&cobra.Command{
		Use:   "llvm-profdata merge [-sparse] [--llvm-version N] -o FILE INPUT...",
		Short: "Merge profiles of LLVM, as llvm-profdata does",
		Long: `Llvm-profdata merges raw, indexed and text profiles of any version, files and
directories, into an indexed one: byte for byte what llvm-profdata merge of
--llvm-version (9 to 23) writes, or else of the newest that wrote an input. It is
also called by the name llvm-profdata-19, which tells the version.

  -sparse                     leave out functions in which nothing ran
  -o, -output FILE            write to FILE; - is standard output
  -f, -input-files FILE       read names from FILE: NAME or WEIGHT,NAME, one a line
  -weighted-input WEIGHT,FILE count it so many times
  -failure-mode any|all       fail if any input is bad, or if all are
  -num-threads N, -j N        have no effect`,
		Example: `  footfall llvm-profdata merge -sparse -o all.profdata prof/*.profraw`,
	}, tool.Profdata)
}

func llvmCommand(cmd *cobra.Command, run func(*tool.Invocation) int) *cobra.Command {
	cmd.DisableFlagParsing = true
	cmd.DisableFlagsInUseLine = true
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 || slices.Contains(args, "--help") || slices.Contains(args, "-help") {
			return cmd.Help()
		}
		if status := runLLVM(run, "", args, cmd.OutOrStdout(), cmd.ErrOrStderr()); status != 0 {
			return &exitError{status: status}
		}
		return nil
	}
	return cmd
}

var llvmVersion = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`-([0-9]{1,2})$`) })

// runLLVM runs a program as called by the name prog, which may tell the version.
func runLLVM(run func(*tool.Invocation) int, prog string, args []string, stdout, stderr io.Writer) int {
	v := tool.Invocation{Args: args, Stdin: os.Stdin, Stdout: stdout, Stderr: stderr}
	if m := llvmVersion().FindStringSubmatch(filepath.Base(prog)); m != nil {
		v.Version, _ = strconv.Atoi(m[1])
	}
	return run(&v)
}

func runProfdata(prog string, args []string, stdout, stderr io.Writer) int {
	return runLLVM(tool.Profdata, prog, args, stdout, stderr)
}

// exportsLLVM tells whether llvm-cov is called for what is not its gcov.
func exportsLLVM(prog string, args []string) bool {
	return len(args) > 0 && slices.Contains([]string{"export", "report", "show"}, args[0]) && strings.Contains(filepath.Base(prog), "llvm-cov")
}
