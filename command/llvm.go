package command

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"footfall/coverage"
	"footfall/formats/llvm/tool"
	"footfall/output"
	"footfall/report"
	"footfall/report/source"
)

// This file has the programs of LLVM that footfall stands in for, beside llvm-cov gcov.

func newLLVMCovCommand() *cobra.Command {
	return llvmCommand("llvm-cov", "export, report or show", &cobra.Command{
		Use:   "llvm-cov export|report|show [--llvm-version N] BINARY [-object FILE]... -instr-profile PROFILE [OPTION]... [SOURCE...]",
		Short: "Export, sum up and show source-based coverage, as llvm-cov does",
		Long: `Llvm-cov writes what llvm-cov export, report and show write, byte for byte, of the
LLVM version --llvm-version (9 to 23), or else of the newest that wrote the PROFILE.
It is also called by the name llvm-cov-19, which tells the version. Binaries and
profiles may be of any version; if none is to be imitated a raw profile will do.
LLVM_COV=.../llvm-cov has cargo llvm-cov run it.

  export   JSON, or with -format=lcov a tracefile: -summary-only, -skip-functions,
           -skip-expansions, -skip-branches, -unify-instantiations
  report   a table of files, or with -show-functions of the functions of SOURCEs:
           -show-region-summary, -show-branch-summary, -show-mcdc-summary,
           -show-instantiation-summary
  show     sources with counts: -show-line-counts, -show-regions, -show-expansions,
           -show-line-counts-or-regions, -show-instantiations, -show-branches=count,
           -show-branches=percent, -show-mcdc, -output-dir DIR, -project-title TITLE;
           its pages (-format=html) are those of footfall report

All take -object, -instr-profile, -path-equivalence, -compilation-dir, -Xdemangler,
-ignore-filename-regex, -name, -name-regex, -name-allowlist, -line-coverage-lt and
other limits, -debug-file-directory, -check-binary-ids, -empty-profile, -use-color.
Footfall report reads the same, and has more outputs.`,
		Example: `  footfall llvm-cov export -format=lcov ./prog -instr-profile=all.profdata > cov.info
  footfall llvm-cov report --llvm-version 19 ./prog -object lib.so -instr-profile=all.profdata
  footfall llvm-cov show ./prog -instr-profile=all.profdata -show-branches=count prog.c`,
	}, tool.Cov)
}

func newLLVMProfdataCommand() *cobra.Command {
	return llvmCommand("llvm-profdata", "merge or show", &cobra.Command{
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

func llvmCommand(program, commands string, cmd *cobra.Command, do func(*tool.Invocation) int) *cobra.Command {
	cmd.DisableFlagParsing = true
	cmd.DisableFlagsInUseLine = true
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usageError(fmt.Errorf("%s needs a command: %s", program, commands))
		}
		if slices.Contains(args, "--help") || slices.Contains(args, "-help") {
			return cmd.Help()
		}
		if status := runLLVM(program, do, "", args, cmd.OutOrStdout(), cmd.ErrOrStderr()); status != 0 {
			return &exitError{status: status}
		}
		return nil
	}
	return cmd
}

var llvmVersion = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`-([0-9]{1,2})$`) })

// runLLVM runs program as called by the name prog, which may tell the version.
func runLLVM(program string, do func(*tool.Invocation) int, prog string, args []string, stdout, stderr io.Writer) int {
	v := tool.Invocation{Name: prog, Args: args, Stdin: os.Stdin, Stdout: stdout, Stderr: stderr}
	v.Help = func() error {
		if status := run([]string{"footfall", program, "--help"}); status != 0 {
			return &exitError{status: status}
		}
		return nil
	}
	v.Pages = func(p tool.Pages) error { return writeLLVMPages(p, stdout, stderr) }
	defer collectLate(400, lateUpTo)()
	if m := llvmVersion().FindStringSubmatch(filepath.Base(prog)); m != nil {
		v.Version, _ = strconv.Atoi(m[1])
	}
	return do(&v)
}

// writeLLVMPages writes what show -format=html asks for, with names from the directory that all sources have in common.
func writeLLVMPages(p tool.Pages, stdout, stderr io.Writer) error {
	r := &report.Report{Set: p.Set, Root: commonDir(p.Set), Time: p.Time, ReadSource: p.Source}
	r.Shown = func(path string) string {
		if rest, ok := source.Below(path, r.Root); ok && rest != "" {
			return rest
		}
		return path
	}
	problems, err := r.WritePages(p.Title, p.Dir, stdout)
	for _, p := range problems {
		fmt.Fprintf(stderr, "warning: %s: %v\n", output.Printable(p.File), p.Err)
	}
	return err
}

// commonDir is the deepest directory that has all files of a set, "" if there is none.
func commonDir(set *coverage.Set) string {
	if set.Len() == 0 {
		return ""
	}
	dir := filepath.Dir(set.At(0).Name)
	for i := range set.Len() {
		for _, in := source.Below(set.At(i).Name, dir); !in; _, in = source.Below(set.At(i).Name, dir) {
			if dir == filepath.Dir(dir) {
				return ""
			}
			dir = filepath.Dir(dir)
		}
	}
	return dir
}

func runProfdata(prog string, args []string, stdout, stderr io.Writer) int {
	return runLLVM("llvm-profdata", tool.Profdata, prog, args, stdout, stderr)
}

// calledAsLLVMCov tells whether llvm-cov is called, for what is not its gcov.
func calledAsLLVMCov(prog string, args []string) bool {
	return strings.Contains(filepath.Base(prog), "llvm-cov") && (len(args) == 0 || args[0] != "gcov")
}
