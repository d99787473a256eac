package command

import (
	"github.com/spf13/cobra"
)

func newRewriteCommand() *cobra.Command {
	return toolCommand(&cobra.Command{
		Use:   "rewrite [-o DIR] [-s FACTOR | -n MAX] [-v] [--exact] DIR",
		Short: "Scale the counts of a directory of .gcda files, as gcov-tool does",
		Long: `Rewrite multiplies the counts in the data files (.gcda) below a directory by a
factor and writes them to another. Masks, times and the values of profiles stay.
Data files that were there before are removed.

  -o, --output DIR       write to DIR (default: rewrite_profile)
  -s, --scale FACTOR     0.5 or 1/2
  -n, --normalize MAX    the factor that makes the largest count MAX; gcov-tool
                         does nothing for this option, and so it has an effect
                         only with --exact
      --exact            do what the options say
  -v, --verbose          tell of each file and function`,
		Example: `  # let a long run weigh no more than a short one
  footfall rewrite --exact -n 1000000 -o scaled long`,
	})
}
