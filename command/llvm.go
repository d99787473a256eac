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
		Use:   "llvm-cov export|report|show [--llvm-version N] BINARY [-object FILE]... -instr-profile PROFILE [OPTION]... [SOURCE...]",
		Short: "Export, sum up and show source-based coverage, as llvm-cov does",
		Long: `Llvm-cov writes what llvm-cov export, report and show write, byte for byte, of the
LLVM version --llvm-version (9 to 23), or else of the newest that wrote the PROFILE.
It is also called by the name llvm-cov-19, which tells the version. Binaries and
profiles may be of any version; if none is to be imitated a raw profile will do.
LLVM_COV=.../llvm-cov has cargo llvm-cov run it.

  export   JSON, or with -format=lcov a tracefile
  report   a table of files, or with -show-functions of the functions of SOURCEs
  show     sources with counts; its pages (-format=html) are those of footfall report

Options are those of llvm-cov, but for -arch, -name-allowlist, -dump and debuginfod.
Footfall report reads the same, and has more outputs.`,
		Example: `  footfall llvm-cov export -format=lcov ./prog -instr-profile=all.profdata > cov.info
  footfall llvm-cov report --llvm-version 19 ./prog -object lib.so -instr-profile=all.profdata
  footfall llvm-cov show ./prog -instr-profile=all.profdata -show-branches=count prog.c`,
	}, tool.Cov)
}

func newLLVMProfdataCommand() *cobra.Command {
	return llvmCommand(&cobra.Command{
		Use:   "llvm-profdata merge|show [--llvm-version N] [OPTION]... -o FILE INPUT...",
		Short: "Merge and show profiles of LLVM, as llvm-profdata does",
		Long: `Llvm-profdata merge merges raw, indexed and text profiles of any version, files and
directories, into an indexed one: byte for byte what llvm-profdata merge of
--llvm-version (9 to 23) writes, or else of the newest that wrote an input. It is
also called by the name llvm-profdata-19, which tells the version.

  -sparse                     leave out functions in which nothing ran
  -o, -output FILE            write to FILE; - is standard output
  -text                       write text
  -f, -input-files FILE       read names from FILE: NAME or WEIGHT,NAME, one a line
  -weighted-input WEIGHT,FILE count it so many times
  -failure-mode any|all|warn  fail if any input is bad, if all are, or never
  -num-threads N, -j N        have no effect

Llvm-profdata show prints a profile, with the options of that version; sample and
memory profiles are not known.`,
		Example: `  footfall llvm-profdata merge -sparse -o all.profdata prof/*.profraw
  footfall llvm-profdata show -all-functions -counts all.profdata`,
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
	v := tool.Invocation{Name: prog, Args: args, Stdin: os.Stdin, Stdout: stdout, Stderr: stderr}
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
