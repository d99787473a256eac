package command

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"footfall/command/asgcov"
	"footfall/formats/gcov"
	"footfall/formats/gcov/tool"
)

func newDumpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "dump [-l] [-p] [-r] [-s] FILE...",
		Short: "Print the records of .gcno and .gcda files, as gcov-dump does",
		Long: `Dump prints the records of notes (.gcno) and data (.gcda) files, one a line, in the
words of gcov-dump of the compiler that wrote them. Every version's files are
read, of both byte orders; called gcov-dump-12, footfall is the gcov-dump of that
version and warns of files of another.

  -l, --long     print what is in the records too
  -p             print where the records stand: bytes, before GCC 12 words
  -r, --raw      print counters on one line
  -s, --stable   print values of profiles in a fixed order

Files that are cut are printed as far as they go. The exit status is that of
gcov-dump: always 0.`,
		Example: `  # which functions has this object, and what did each count?
  footfall dump -l main.gcda

  # did two runs count the same?
  diff <(footfall dump -ls a/main.gcda) <(footfall dump -ls b/main.gcda)`,
		DisableFlagParsing:    true,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError(errors.New("dump needs the name of a notes or data file"))
			}
			if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
				return cmd.Help()
			}
			if status := runDump("footfall dump", args, cmd.OutOrStdout(), cmd.ErrOrStderr()); status != 0 {
				return &exitError{status: status}
			}
			return nil
		},
	}
}

// runDump is gcov-dump as called by the name prog. It returns the exit status.
func runDump(prog string, args []string, stdout, stderr io.Writer) int {
	return tool.RunDump(&tool.DumpInvocation{Prog: prog, Args: args, Version: namedVersion(prog, "gcov-dump-"), Stdout: stdout, Stderr: stderr})
}

// namedVersion is the version behind prefix in the name of a program, 0 for
// none.
func namedVersion(prog, prefix string) gcov.Version {
	_, version, ok := strings.Cut(prog[strings.LastIndexByte(prog, '/')+1:], prefix)
	if !ok {
		return 0
	}
	p, err := asgcov.Parse(version)
	if err != nil {
		return 0
	}
	return p.GCC
}
