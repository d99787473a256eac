package command

import (
	"github.com/spf13/cobra"
)

func newOverlapCommand() *cobra.Command {
	return toolCommand(&cobra.Command{
		Use:   "overlap [-f] [-F] [-o] [-h] [-t THRESHOLD] [-v] [--exact] DIR1 DIR2",
		Short: "Compare two directories of .gcda files, as gcov-tool does",
		Long: `Overlap tells how alike two profiles are: the sum, over all counters, of the
smaller of its shares of all counts in each directory. It prints what gcov-tool
prints, which since GCC 9 does not know the sums and finds no overlap at all;
--exact computes them.

  -f, --function         tell of each function
  -o, --object           tell of each object
  -F, --fullname         with directories
  -h, --hotonly          leave out what is not hot
  -t, --hot_threshold T  hot are counters with this share of all (0.005)
      --exact            compute the overlap
  -v, --verbose          tell of each file and function

The exit status is 1 if there is no overlap.`,
		Example: `  footfall overlap --exact -o before after`,
	})
}
