package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"footfall/formats/gcov"
	"footfall/formats/gcov/legacy"
	"footfall/formats/gcov/listing"
	"footfall/formats/gcov/llvmcov"
)

func newGcovCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "gcov [--gcc-version=VERSION] [OPTION...] SOURCE|OBJECT...",
		Short: "Do what gcov does, to the byte, for every compiler version",
		Long: `Gcov reads the notes and data files that belong to the named sources or objects,
writes SOURCE.gcov for each source with the counts of its lines, and prints a
summary. What it prints is what gcov of the compiler that wrote the notes prints,
for Clang's what llvm-cov gcov prints, and for the .bb and .bbg files of GCC 2.91
to 3.3 what theirs prints.

To be the gcov of one version, whatever the files say, use --gcc-version=12 or
--gcc-version=clang-19, set FOOTFALL_GCC_VERSION, or call footfall by the name of
that program: gcov-12, x86_64-linux-gnu-gcov-12, or llvm-cov-19 with gcov as its
first argument. So it can be the gcov of lcov, gcovr and other programs.

Options, which are those of the newest version:
` + strings.TrimRight(listing.OptionHelp(), "\n"),
		Example: `  # list a source, with branches
  footfall gcov -b hello.c
  less hello.c.gcov

  # all objects of a build at once, as JSON on standard output
  footfall gcov --json-format --stdout $(find build -name '*.gcda')

  # in place of gcov
  ln -s $(command -v footfall) /usr/local/bin/gcov-12
  lcov --capture --gcov-tool gcov-12 --directory build --output-file app.info`,
		DisableFlagParsing:    true,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || slices.Contains(args, "--help") && !slices.ContainsFunc(args, isVersionFlag) {
				if len(args) == 0 {
					return usageError(errors.New("gcov needs the name of a source or object"))
				}
				return cmd.Help()
			}
			if status := runGcov("footfall gcov", args, cmd.OutOrStdout(), cmd.ErrOrStderr()); status != 0 {
				return &exitError{status: status}
			}
			return nil
		},
	}
}

// gcovVersionFlag is our own: gcov has no option to be another version.
const gcovVersionFlag = "--gcc-version"

func isVersionFlag(arg string) bool {
	return arg == gcovVersionFlag || strings.HasPrefix(arg, gcovVersionFlag+"=")
}

// runGcov is gcov as called by the name prog. It returns the exit status.
func runGcov(prog string, args []string, stdout, stderr io.Writer) int {
	// As a report, it lives for a moment and holds less than gcov does.
	defer collectLate(400, lateUpToGcov)()
	p, args, err := gcovPersonality(prog, args)
	if err != nil {
		fmt.Fprintf(stderr, "footfall: %v\n", err)
		return statusUsage
	}
	if p.legacy != legacy.Any || p.gcc == 0 && !p.clang && legacy.Claims(args) {
		return legacy.Run(&legacy.Invocation{Prog: prog, Args: args, Stdout: stdout, Stderr: stderr}, p.legacy)
	}
	if p.clang {
		return llvmcov.Run(&llvmcov.Invocation{
			Prog: strings.TrimSuffix(prog, " gcov") + " gcov", Version: p.llvm, Args: args, Stdin: os.Stdin, Stdout: stdout, Stderr: stderr,
		})
	}
	return listing.Run(&listing.Invocation{Prog: prog, Args: args, Version: p.gcc, Stdout: stdout, Stderr: stderr})
}

// A personality is the gcov that we are to be: GCC's of some version, 0 for
// that of the files, or LLVM's.
type personality struct {
	gcc   gcov.Version
	clang bool
	llvm  int // 0: the newest
	// legacy is a gcov from before GCC 3.4.
	legacy legacy.Style
}

// gcovPersonality finds it in the name of the program, the arguments or the
// environment, and returns the arguments that are left.
func gcovPersonality(prog string, args []string) (personality, []string, error) {
	base := prog[strings.LastIndexByte(prog, '/')+1:]
	if _, version, ok := strings.Cut(base, "llvm-cov"); ok && len(args) > 0 {
		p, err := parsePersonality("clang" + version)
		return p, args[1:], err
	}
	named := os.Getenv("FOOTFALL_GCC_VERSION")
	if _, version, ok := strings.Cut(base, "gcov-"); ok {
		named = version
	}
	rest := make([]string, 0, len(args))
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			rest = append(rest, args[i:]...)
			i = len(args)
		case !isVersionFlag(arg):
			rest = append(rest, arg)
		case arg != gcovVersionFlag:
			named = arg[len(gcovVersionFlag)+1:]
		case i+1 == len(args):
			return personality{}, nil, errors.New("--gcc-version needs a version, as in --gcc-version=12")
		default:
			i++
			named = args[i]
		}
	}
	if named == "" {
		return personality{}, rest, nil
	}
	p, err := parsePersonality(named)
	return p, rest, err
}

// parsePersonality reads "12", "12.2", "4.8", "clang" or "clang-19".
func parsePersonality(name string) (personality, error) {
	bad := fmt.Errorf("%q is no version of a compiler: try 12, 12.2 or clang-19", name)
	if version, ok := strings.CutPrefix(name, "clang"); ok {
		if version == "" {
			return personality{clang: true}, nil
		}
		major, _, _ := strings.Cut(strings.TrimPrefix(version, "-"), ".")
		n, err := strconv.Atoi(major)
		if err != nil || n < 1 {
			return personality{}, bad
		}
		return personality{clang: true, llvm: n}, nil
	}
	if style, ok := legacy.ParseStyle(name); ok {
		return personality{legacy: style}, nil
	}
	parts := append(strings.Split(name, "."), "0")
	major, err := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	if err != nil || err2 != nil || minor < 0 || minor > 9 {
		return personality{}, bad
	}
	v := gcov.MakeVersion(major, minor)
	if !v.Known() {
		return personality{}, bad
	}
	return personality{gcc: v}, nil
}
