package command

import (
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"footfall/command/asgcov"
	"footfall/formats/gcov/listing"
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
			if len(args) == 0 {
				return usageError(errors.New("gcov needs the name of a source or object"))
			}
			if asgcov.WantsHelp(args) {
				return cmd.Help()
			}
			if status := runGcov("footfall gcov", args, cmd.OutOrStdout(), cmd.ErrOrStderr()); status != 0 {
				return &exitError{status: status}
			}
			return nil
		},
	}
}

// runGcov is gcov as called by the name prog, where it is not done before (package early).
func runGcov(prog string, args []string, stdout, stderr io.Writer) int {
	// As a report, it lives for a moment and holds less than gcov does.
	defer collectLate(400, lateUpToGcov)()
	return asgcov.Run(prog, args, stdout, stderr)
}
