package command

import (
	"slices"

	"github.com/spf13/cobra"
)

func newMergeCommand() *cobra.Command {
	cmd := toolCommand(&cobra.Command{
		Use:   "merge [-o DIR] [-w W1,W2,...] [-v] [--exact] DIR1 DIR2... | merge -o FILE PATH...",
		Short: "Add directories of .gcda files, as gcov-tool does, or reports of any tools",
		Long: `Merge adds the data files (.gcda, of GCC before 3.4 .da) of directories: those of
the same name below each directory become one below DIR, which is merged_profile
if there is no -o. What is written is what gcov-tool writes; with more than two
directories it is what gcov-tool writes when its result is merged with the next.
The .gcda files that were in DIR before are removed.

Arcs and averages are added, masks (conditions, paths) combined, the earliest of
times is kept, and value profiles are merged as by the compiler's run-time library.
Functions whose checksums differ, and files that are damaged or of another version,
are left out with a message.

  -o, --output DIR       write the result to DIR
  -w, --weight W1,W2     count each directory so many times, at least once
  -v, --verbose          tell of each file and function
      --exact            do not count the runs of a file double that is in one
                         directory only, and keep the byte order of the data

If a PATH or the output is a file, merge merges reports: lcov tracefiles, JSON of
gcov, gcovr and footfall, Cobertura, Go profiles, profiles of LLVM (.profraw,
.profdata), and directories of data with their notes or binaries, in any mix.
Functions are matched by place and name, decisions by kind; tests are kept apart, and
the more detailed report wins. Thousands of files take the memory of a few.

  -o, --output FILE      write FILE, whose name tells the format (.info, .json,
                         .xml, .html, .md, .csv), or FORMAT=FILE as with footfall
                         report, where - is standard output; may be repeated
      --intersect PATH   keep only what is in PATH, too; may be repeated: the union
      --subtract PATH    keep only what is not in PATH; may be repeated
      --test NAME        name the test of inputs that have none yet
      --max-input MB     read at most so much of one file, unpacked (4096)
      --config FILE      take the options that stand before all tables of FILE;
                         else merge takes none from a file
      --include GLOB, --exclude GLOB, --path-map OLD=NEW, --root DIR,
      --object-directory DIR, --object FILE, --system-headers, --exception-branches,
      --exclude-lines REGEX, --exclude-branches REGEX, --exclude-functions GLOB,
      --exclude-noncode, --no-markers, --marker-prefix NAME
                         as with footfall report. Of reports headers of the system
                         are kept, and what markers exclude; branches of exceptions
                         if all outputs are .info or .json, which mark them`,
		Example: `  # the runs of three machines
  footfall merge -o all host1 host2 host3
  footfall report all --object-directory build

  # one tracefile of many, in place of lcov -a ... -a ...
  footfall merge -o all.info shards/*.info

  # C++, Python and Go in one
  footfall merge -o all.xml build python-coverage.xml cover.out`,
	})
	tool := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if slices.Contains(args, "--help") {
			return tool(cmd, args)
		}
		args, file, err := cutConfigFlags(args)
		if err != nil {
			return usageError(err)
		}
		if !mergesReports(args) {
			return tool(cmd, args)
		}
		var options *config
		if file != "" {
			if options, err = readConfig(file, cmd.Root()); err == nil {
				err = options.check()
			}
			if err != nil {
				return configError(err)
			}
		}
		reports := newMergeReportsCommand(options)
		reports.SetArgs(args)
		reports.SetOut(cmd.OutOrStdout())
		reports.SetErr(cmd.ErrOrStderr())
		return reports.Execute()
	}
	return cmd
}

func newMergeStreamCommand() *cobra.Command {
	return toolCommand(&cobra.Command{
		Use:   "merge-stream [-w W1,W2] [-o DIR] [-v] [--exact] [FILE]",
		Short: "Add counters that a program without files has sent",
		Long: `Merge-stream reads what a program without a file system has sent from its section
.gcov_info (GCC's -fprofile-info-section), from FILE or standard input, and adds
it to the data files (.gcda) that it belongs to: those whose names are in the
stream, or where the stream has no names, those beside the notes with the same
stamp. docs/embedded.md shows how.

  -w, --weight W1,W2     count the files so many times, and the stream
  -o, --object-directory DIR
                         for data without names: the notes are below DIR
                         (default: the working directory)
  -v, --verbose          tell of each function
      --exact            do not count the runs of a new file double`,
		Example: `  qemu-system-arm -M mps2-an385 -semihosting -kernel firmware.elf > counters
  footfall merge-stream counters
  footfall report`,
	})
}
