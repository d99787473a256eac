package command

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"footfall/collect"
	"footfall/coverage"
	"footfall/output"
	"footfall/report"
	"footfall/report/change"
	"footfall/report/exclude"
	"footfall/report/source"
)

func newDiffCommand() *cobra.Command {
	var o diffOptions
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Compare two reports: what lost coverage, what gained",
		Long: `Diff compares the coverage of two versions of a program, or of two test runs of
one. OLD and NEW are each a directory with .gcno and .gcda files, a tracefile of
lcov, or another file that footfall report writes and reads.

Lines and functions are compared with themselves, wherever they are now, if
--source-diff tells how the sources differ: the revisions of git that OLD and NEW
are of, or a unified diff. Without it the sources are taken as unchanged.

Each line, function, branch and outcome of a condition is in one category, as in
genhtml 2 of lcov:

  LBC  lost baseline coverage: unchanged code that ran, and does not now
  UNC  uncovered new code        GNC  gained new coverage: new code that runs
  GBC  gained baseline coverage: unchanged code that runs now, and did not
  CBC  UBC  unchanged code that runs, does not run, as before
  GIC  UIC  unchanged, but was no code before: runs, does not run
  ECB  EUB  unchanged, but is no code now: ran, did not run
  DCB  DUB  deleted code: ran, did not run

A function whose body was changed is new code, unless it is lost. Sources that
lay below another directory when OLD was made are found by the rest of the path.

Outputs, any number of them, each FORMAT or FORMAT=FILE ("-" is standard output):
text, json (all that is not as it was, see footfall json), html (one page, with both
versions side by side), markdown (a summary for a comment on a pull request).

--fail-over makes the exit status 3 if there is more than a number of lost lines
(lost=0), of new lines that do not run (new=5), or of functions, branches or
conditions (lost-branches=0, new-functions=0).`,
		Example: `  # what did this branch do to the coverage?
  footfall report --output lcov=new.info build
  footfall diff main.info new.info --source-diff main..HEAD

  # two runs of one program
  footfall diff run1/ run2/

  # fail if any unchanged code lost its coverage
  footfall diff old.json new.json --source-diff changes.patch --fail-over lost=0`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	f := cmd.Flags()
	f.StringVar(&o.sourceDiff, "source-diff", "", "how the sources differ: `REV..REV|FILE`, revisions of git or a unified diff; - is one on standard input")
	f.StringArrayVar(&o.outputs, "output", []string{"text"}, "write `FORMAT[=FILE]`: text, json, markdown, html; may be repeated")
	f.StringArrayVar(&o.failOver, "fail-over", nil, "exit with status 3 if there is more than `WHAT=NUMBER,...` of lost, new, lost-functions, new-branches, ...")
	f.StringArrayVarP(&o.objectDirs, "object-directory", "o", nil, "search `DIR` for notes (.gcno) too")
	f.StringVar(&o.sources.Root, "root", "", "show names below `DIR` from there (default: the working directory)")
	f.StringArrayVar(&o.sources.PathMaps, "path-map", nil, "`OLD=NEW`: what was compiled below OLD is now below NEW; the first that fits counts")
	f.StringArrayVar(&o.sources.Include, "include", nil, "compare only sources that match `GLOB`; may be repeated")
	f.StringArrayVar(&o.sources.Exclude, "exclude", nil, "leave out sources that match `GLOB`; may be repeated")
	o.exclude.define(f)
	f.BoolVar(&o.sources.SystemHeaders, "system-headers", false, "compare headers of the system and of the compiler too")
	f.BoolVar(&o.exceptionBranches, "exception-branches", false, "count branches that only an exception decides")
	defineMaxInput(f)
	f.BoolVarP(&o.verbose, "verbose", "v", false, "list every problem")
	shareFlags(cmd)
	wantValues(cmd)
	for _, dir := range []string{"object-directory", "root"} {
		_ = cmd.MarkFlagDirname(dir)
	}
	_ = cmd.RegisterFlagCompletionFunc("output", completeOutputs(report.ComparisonFormats()))
	_ = cmd.RegisterFlagCompletionFunc("fail-over", cobra.FixedCompletions([]string{"lost=", "new=", "lost-functions=", "new-functions=", "lost-branches=", "new-branches="}, cobra.ShellCompDirectiveNoSpace))
	showFirst(cmd, "source-diff", "fail-over", "output", "include", "exclude", "object-directory", "path-map", "root")
	return cmd
}

type diffOptions struct {
	sourceDiff                    string
	outputs, failOver, objectDirs []string
	sources                       source.Options
	exclude                       excludeOptions
	exceptionBranches, verbose    bool
}

func (o *diffOptions) run(cmd *cobra.Command, args []string) error {
	stdout, stderr := cmd.OutOrStdout(), cmd.ErrOrStderr()
	outputs, limits, err := o.parse(stdout)
	if err != nil {
		return usageError(err)
	}
	sources, err := source.NewSources(o.sources)
	if err != nil {
		return usageError(err)
	}
	o.exclude.ReadInto = sources.ReadInto
	exclusions, err := exclude.New(o.exclude.Options)
	if err != nil {
		return usageError(err)
	}
	defer collectLate(400, lateUpTo)()
	var changes *change.Diff
	if o.sourceDiff != "" {
		if changes, err = openDiff(stderr, o.sourceDiff, sources); err != nil {
			return err
		}
	}
	var sets [2]*coverage.Set
	unseen := 0
	for i, path := range args {
		var n int
		if sets[i], n, err = o.load(cmd, path, sources); err != nil {
			return err
		}
		unseen += n
	}
	if changes == nil { // else the sources were others when OLD was made
		exclusions.Apply(sets[0], sources.Shown)
	}
	excluded, problems := exclusions.Apply(sets[1], sources.Shown)
	source.PrintProblems(stderr, problems, o.verbose)
	if len(excluded.List) > 0 {
		fmt.Fprintf(stderr, "footfall: %v in NEW\n", excluded)
	}
	c := &report.ComparisonReport{
		Comparison: change.Compare(sets[0], sets[1], changes, excluded, sources),
		Shown:      sources.Shown, ExceptionBranches: o.exceptionBranches, Root: sources.Root(), ReadSource: sources.Read,
	}
	if slices.ContainsFunc(outputs, func(o output.Request) bool { return o.Format == "html" }) {
		c.Private = sources.Private(sets[1])
	}
	source.PrintProblems(stderr, c.Problems(), o.verbose)
	if n := c.Included(); changes == nil && n > 0 {
		fmt.Fprintf(stderr, "footfall: other lines than before have code in %d sources, which are taken as unchanged: --source-diff tells how they differ\n", n)
	}
	var failed []error
	for _, out := range outputs {
		failed = append(failed, c.Write(out, stdout))
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return missed(report.Judge(stderr, limits, unseen, c.Exceeded))
}

func (o *diffOptions) parse(stdout io.Writer) (outputs []output.Request, limits []report.Limit, err error) {
	if outputs, err = output.Parse(o.outputs, report.ComparisonFormats(), output.Stdout{W: stdout}); err != nil {
		return nil, nil, err
	}
	for _, s := range report.CommaSeparated(o.failOver) {
		l, err := report.ParseLimit(s)
		if err != nil {
			return nil, nil, err
		}
		limits = append(limits, l)
	}
	return outputs, limits, nil
}

// load reads one of the two reports, and tells how many problems with it hide code.
func (o *diffOptions) load(cmd *cobra.Command, path string, sources *source.Sources) (*coverage.Set, int, error) {
	stderr := cmd.ErrOrStderr()
	r, err := collect.Files([]string{path}, collect.Options{Sources: sources, ObjectDirs: o.objectDirs, Progress: stderr})
	if err != nil {
		return nil, 0, err
	}
	source.PrintProblems(stderr, r.Problems, o.verbose)
	return r.Set, source.Unseen(r.Problems), r.Nothing([]string{path})
}
