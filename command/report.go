package command

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"footfall/collect"
	"footfall/output"
	"footfall/report"
	"footfall/report/change"
	"footfall/report/exclude"
	"footfall/report/source"
)

// statusMissed is the exit status when a threshold was missed.
const statusMissed = 3

func newReportCommand() *cobra.Command {
	var o reportOptions
	cmd := &cobra.Command{
		Use:   "report [PATH...]",
		Short: "Show what was covered, from the data of GCC, Clang, Rust and Go and reports of other tools",
		Long: `Report searches each PATH (default: the working directory) for the files that
gcc --coverage and clang --coverage write, .gcno when compiling and .gcda when
the program ends, merges them and shows which lines, functions, branches and
conditions ran. A PATH may also be a single .gcno, .gcda or .o file. Footfall reads
the files of every compiler version without its gcov, even the .bb, .bbg and .da
files of GCC before 3.4.

So it reads source-based coverage, of clang -fprofile-instr-generate
-fcoverage-mapping and of Rust's -C instrument-coverage (cargo llvm-cov): profiles
(.profraw, .profdata) of all LLVM versions, in any mix, with the binaries that they
are of. These are found beside the profiles and in the directories that are
searched, by their build ID or by their functions; --object names others. Neither
llvm-profdata nor llvm-cov is needed. See docs/llvm.md.

And what programs of Go write that go build -cover made: covmeta and covcounters, in
the directories of their GOCOVERDIR. See docs/go.md.

A PATH may also be a report, recognised by its content: an lcov tracefile, JSON of
gcov, gcovr or footfall, Cobertura XML, a text profile of Go. All inputs become one
report.

Units that never ran count as not covered. Data files need not lie beside their
notes: --object-directory adds directories with notes, and trees written under
GCOV_PREFIX or -fprofile-dir are matched by path and stamp.

Relative names of sources start from the directory of compilation; --path-map maps
them to where they are now. Headers of the system and of the compiler are left out
unless --system-headers is given or an --include matches them. Branches that only
an exception decides do not count unless --exception-branches is given.

Patterns of --include and --exclude are matched against the absolute path and the
path from the root: * stays within a directory, ** does not, a pattern without a
slash matches in any directory, and a plain directory matches everything below it.
--exclude wins over --include.

The markers of lcov and gcovr exclude code: LCOV_EXCL_LINE, LCOV_EXCL_START and
_STOP, GCOVR_EXCL_FUNCTION, LCOV_EXCL_BR_LINE and more, see docs/report.md. So do
--exclude-lines and --exclude-branches, which match the text of lines,
--exclude-functions, in which * matches any characters, and --exclude-noncode.
--list-excluded shows what is excluded, and by which rule.

--test names the test that ran. Tracefiles and JSON hold names of tests, and merging
keeps the tests apart: --by-test and --tests-for query them. --tests-for-diff lists
the tests that a change needs, from coverage of the version before it: those that ran
a changed function. Its status is 3 if the coverage lacks parts of the change, such
as new sources: then run all tests.

Outputs, any number of them, each FORMAT or FORMAT=FILE ("-" is standard output):

  text       a table, the worst file first, and the largest uncalled functions
  ran        what ran, and nothing else: functions and their lines, most first
  lcov       a tracefile for lcov and genhtml 2.2 and later; lcov2 is for every
             lcov 2, lcov1 for lcov 1 and for services
  json       everything, see footfall json
  html=DIR   pages for a browser, index.html first; html=FILE.html is all in one page
  gcov=DIR   a listing of each source in DIR, as gcov writes them
  excluded   what is left out, and by which rule
  tests      what each test ran, the most useful first (--by-test)
  cobertura  XML for Jenkins, GitLab, Azure DevOps, Codecov
  sonarqube  XML, SonarQube's generic test coverage
  jacoco     XML for what reads JaCoCo's
  clover     XML for what reads Clover's
  coveralls  JSON for Coveralls
  gcovr      JSON for gcovr 8.7 --add-tracefile; gcovr5 is for 5.1 and 5.2
  csv        a table of the files
  markdown   a short summary for a pull request or a job
  github     annotations of GitHub Actions: the largest parts that never ran
  gitlab     a code quality report of GitLab: all that never ran
  badge      an SVG image with the percentage of lines covered
  history=FILE.jsonl  one line of totals more in FILE; pages then draw the trend

--diff-base shows the coverage of changed lines, those since a git revision or in
a unified diff, and which of them never ran; --fail-under patch=PERCENT is about
these (patch-branches, patch-functions: about their branches and functions).

Unusable input is reported on standard error, and the rest is processed. The exit
status is 1 if nothing could be reported and 3 if a threshold was missed.`,
		Example: `  # build, run, look
  gcc --coverage -o prog prog.c && ./prog && footfall report

  # for genhtml, and a table at the same time
  footfall report --output lcov=cov.info --output text build

  # for a pull request on GitHub: a summary, and annotations of the lines
  footfall report --output markdown=$GITHUB_STEP_SUMMARY --output github

  # only our sources, and fail if too little is tested
  footfall report --include 'src/**' --exclude '*_test.c' --fail-under lines=80,branches=60

  # more of a part of it, and the trend on the pages
  footfall report --fail-under lines=80,src/net:lines=95 --output history=past.jsonl --output html=cov

  # is what this branch changed tested?
  footfall report --diff-base origin/main --fail-under patch=90

  # leave out asserts and dump functions, and list what that excludes
  footfall report --exclude-branches '\bassert\(' --exclude-functions '*dump*'
  footfall report --exclude-branches '\bassert\(' --exclude-functions '*dump*' --list-excluded

  # one report of C++, Python and Go
  footfall report build python-coverage.xml cover.out --output html=cov

  # Clang's source-based coverage, or Rust's, of several programs and versions
  footfall report default.profraw
  footfall report target/debug --output html=cov

  # programs of Go, in one report with the C that they call
  footfall report $GOCOVERDIR build

  # which test runs this line?
  footfall report --test parser --output json=parser.json
  footfall report parser.json lexer.json --tests-for src/parse.c:120

  # which tests does my change need, by what they ran before it?
  footfall report main.json --tests-for-diff main

  # data of a device, objects of the build machine
  GCOV_PREFIX=/var/cov GCOV_PREFIX_STRIP=2 ./prog
  footfall report cov --object-directory build --path-map /ci/project=.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, args)
		},
	}
	o.define(cmd)
	defineMaxInput(cmd.Flags())
	showFirst(cmd, "output", "include", "exclude", "fail-under", "diff-base", "object-directory", "path-map", "root", "only-ran", "verbose")
	return cmd
}

type reportOptions struct {
	objectDirs, outputs, failUnder []string
	binaries                       []string
	diffBase                       string
	sources                        source.Options
	exclude                        excludeOptions
	exceptionBranches              bool
	verbose, quiet                 bool
	onlyRan, allowStale            bool
	order                          string
	test, testsFor, testsForDiff   string
	byTest                         bool
}

// define adds the options of every command that prints a report.
func (o *reportOptions) define(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVarP(&o.objectDirs, "object-directory", "o", nil, "search `DIR` for notes (.gcno), and binaries with coverage mapping, too")
	f.StringArrayVar(&o.binaries, "object", nil, "`FILE` is a binary with coverage mapping (Clang's, Rust's), whether profiles are of it or not; may be repeated")
	f.StringVar(&o.test, "test", "", "what ran, ran in the test of this `NAME`: outputs keep it, --by-test and --tests-for tell")
	f.BoolVar(&o.byTest, "by-test", false, "show what each test ran, and what only it ran (--output tests)")
	f.StringVar(&o.testsFor, "tests-for", "", "show which tests ran `FILE[:LINE[-LINE]]`")
	f.StringVar(&o.testsForDiff, "tests-for-diff", "", "list the tests that ran a function which `REV|FILE` changes, a revision of git or a unified diff; status 3: there may be more")
	o.defineShown(cmd)
	markQuestions(cmd, "by-test", "list-excluded", "tests-for", "tests-for-diff")
	shareFlags(cmd)
	wantValues(cmd)
	_ = cmd.MarkFlagDirname("object-directory")
}

// defineShown adds those of what is shown, wherever the coverage comes from.
func (o *reportOptions) defineShown(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&o.outputs, "output", []string{"text"}, "write `FORMAT[=FILE]`; may be repeated")
	f.StringVar(&o.sources.Root, "root", "", "show names below `DIR` from there (default: the working directory)")
	f.StringArrayVar(&o.sources.PathMaps, "path-map", nil, "`OLD=NEW`: what was compiled below OLD is now below NEW; the first that fits counts")
	f.StringArrayVar(&o.sources.Include, "include", nil, "report only sources that match `GLOB`; may be repeated")
	f.StringArrayVar(&o.sources.Exclude, "exclude", nil, "leave out sources that match `GLOB`; may be repeated")
	o.exclude.define(f)
	o.exclude.defineList(f)
	f.BoolVar(&o.sources.SystemHeaders, "system-headers", false, "report headers of the system and of the compiler too")
	f.BoolVar(&o.exceptionBranches, "exception-branches", false, "count and show branches that only an exception decides")
	f.BoolVar(&o.onlyRan, "only-ran", false, "leave out files, functions and lines that did not run, in every output")
	f.StringVar(&o.order, "sort", "", "show files in the `ORDER` missed, ran, lines (the most first) or name (default: the worst part covered first)")
	f.StringArrayVar(&o.failUnder, "fail-under", nil, "exit with status 3 if less than `[GLOB:]METRIC=PERCENT,...` of lines, functions, branches, conditions, calls or regions is covered, of all or of the sources that GLOB fits")
	f.StringVar(&o.diffBase, "diff-base", "", "show the coverage of what changed since `REV|FILE`, a revision of git or a unified diff; - is one on standard input")
	f.BoolVar(&o.allowStale, "allow-stale", false, "do not fail because changed sources were not built since")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "list every problem, and say what is so in every report")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "say only what is wrong")
	cmd.MarkFlagsMutuallyExclusive("verbose", "quiet")
	// What did not run is what these are about.
	cmd.MarkFlagsMutuallyExclusive("only-ran", "fail-under")
	cmd.MarkFlagsMutuallyExclusive("only-ran", "diff-base")
	_ = cmd.MarkFlagDirname("root")
	_ = cmd.RegisterFlagCompletionFunc("output", completeOutputs(report.Formats()))
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(report.Orders(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("fail-under", cobra.FixedCompletions([]string{"lines=", "functions=", "branches=", "conditions=", "calls="}, cobra.ShellCompDirectiveNoSpace))
}

// completeOutputs completes values of --output.
func completeOutputs(formats []output.Format) cobra.CompletionFunc {
	return cobra.FixedCompletions(output.Completions(formats), cobra.ShellCompDirectiveNoSpace)
}

// run is the command: check, collect, print, judge.
func (o *reportOptions) run(cmd *cobra.Command, paths []string) error {
	p, err := o.printer(cmd)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		paths = []string{"."}
	}

	// A report lives for a moment and holds little: collecting garbage rarely
	// saves a fifth of the time.
	defer collectLate(1600, lateUpTo)()
	r, err := collect.Files(paths, p.collecting())
	if err != nil {
		return err
	}
	wrong, notes := source.Wrong(r.Problems)
	source.PrintProblems(p.Stderr, wrong, o.verbose)
	source.PrintProblems(p.notes, notes, o.verbose)
	if err := r.Nothing(paths); err != nil {
		return err
	}
	r.Say(p.notes, o.verbose)
	return p.print(r)
}

// A printer prints reports as the options ask for.
type printer struct {
	*reportOptions
	report.Printing
	exclusions *exclude.Exclusions
	notes      io.Writer // standard error, for what is good to know
}

// printer checks the options.
func (o *reportOptions) printer(cmd *cobra.Command) (*printer, error) {
	p := &printer{reportOptions: o}
	p.Stdout, p.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
	if p.notes = p.Stderr; o.quiet {
		p.notes = io.Discard
	}
	p.ExceptionBranches, p.Verbose = o.exceptionBranches, o.verbose
	p.AllowStale = o.allowStale
	p.OnlyRan, p.Order = o.onlyRan, o.order
	if o.order != "" {
		if err := checkOrder(o.order); err != nil {
			return nil, usageError(err)
		}
	}
	var err error
	if p.Sources, err = source.NewSources(o.sources); err != nil {
		return nil, usageError(err)
	}
	if err := p.ParseRequest(o.outputsWanted(), o.failUnder, o.testsFor, o.diffBase, o.testsForDiff != ""); err != nil {
		return nil, usageError(err)
	}
	o.exclude.ReadInto, o.exclude.Differs = p.Sources.ReadInto, p.Sources.NoteDiffers
	if o.testsForDiff != "" { // sources have changed since: what they mark now is on other lines
		o.exclude.NoMarkers, o.exclude.Lines, o.exclude.Branches, o.exclude.NonCode = true, nil, nil, false
	}
	if p.exclusions, err = exclude.New(o.exclude.Options); err != nil {
		return nil, usageError(err)
	}
	if o.diffBase != "" {
		p.Diff, err = openDiff(p.Stderr, o.diffBase, p.Sources)
	}
	if err == nil && o.testsForDiff != "" {
		p.TestsForDiff, err = openDiff(p.Stderr, o.testsForDiff, p.Sources)
	}
	return p, err
}

// outputsWanted are the outputs, with those that other options ask for in place of
// the table.
func (o *reportOptions) outputsWanted() []string {
	outputs := o.outputs
	if o.exclude.list || o.byTest || o.testsFor != "" || o.testsForDiff != "" {
		outputs = slices.DeleteFunc(slices.Clone(outputs), func(output string) bool { return output == "text" || output == "text=-" })
	}
	if o.exclude.list {
		outputs = append(outputs, "excluded")
	}
	if o.byTest {
		outputs = append(outputs, "tests")
	}
	return outputs
}

// collecting are the options for what is to be collected.
func (p *printer) collecting() collect.Options {
	return collect.Options{Sources: p.Sources, Exclusions: p.exclusions, ObjectDirs: p.objectDirs, Binaries: p.binaries, Test: p.test, Progress: p.notes}
}

// print writes all outputs and judges by the thresholds.
func (p *printer) print(r *collect.Result) error {
	p.noteExcluded(r.Excluded)
	return missed(p.Print(r.Findings()))
}

// missed gives errors that have been told, such as of missed thresholds, their exit status.
func missed(err error) error {
	if errors.Is(err, report.ErrMissed) || errors.Is(err, report.ErrUnknownTests) {
		return &exitError{status: statusMissed}
	}
	return err
}

// openDiff reads the diff that base names.
func openDiff(stderr io.Writer, base string, sources *source.Sources) (*change.Diff, error) {
	d, err := change.OpenDiff(base, sources.Root())
	if err == nil && d.Warning != "" {
		fmt.Fprintf(stderr, "footfall: %s\n", d.Warning)
	}
	return d, err
}
