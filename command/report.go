package command

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"footfall/coverage"
	"footfall/formats/gcov"
	"footfall/output"
	"footfall/report"
)

// statusMissed is the exit status when a threshold was missed.
const statusMissed = 3

func newReportCommand() *cobra.Command {
	var o reportOptions
	cmd := &cobra.Command{
		Use:   "report [PATH...]",
		Short: "Show what was covered, from the data of GCC and Clang and reports of other tools",
		Long: `Report searches each PATH (default: the working directory) for the files that
gcc --coverage and clang --coverage write, .gcno when compiling and .gcda when
the program ends, merges them and shows which lines, functions, branches and
conditions ran. A PATH may also be a single .gcno, .gcda or .o file. Every version
of the compilers is read, without its gcov, also the .bb, .bbg and .da files of GCC
before 3.4.

A PATH may also be a report: a tracefile of lcov, JSON of gcov, gcovr or footfall,
Cobertura's XML, a profile of Go. Its content tells what it is. All become one.

Units that never ran count as not covered. Data files need not lie beside their
notes: --object-directory names places with more notes, and trees written under
GCOV_PREFIX or -fprofile-dir are matched by path and by stamp.

Sources are named by the directory in which they were compiled; --path-map says
where they are now. Headers of the system and of the compiler are left out unless
--system-headers or an --include asks for them. Branches that only an exception
decides are left out of the branch numbers unless --exception-branches is given.

A pattern of --include and --exclude is matched with the absolute path and with
the path from the root: * stays within a directory, ** does not, a pattern
without a slash fits in any directory, and a plain path fits all below it. What
is both included and excluded is excluded.

Markers in sources leave code out, those of lcov and gcovr: LCOV_EXCL_LINE,
LCOV_EXCL_START and _STOP, GCOVR_EXCL_FUNCTION, LCOV_EXCL_BR_LINE and more, see
docs/report.md. So do --exclude-lines and --exclude-branches, which match the text
of lines, --exclude-functions, in which * fits any letters, and --exclude-noncode.
--list-excluded shows what is left out, and why.

--test gives a name to what ran. Tracefiles and JSON keep names of tests, and merging
keeps them apart: --by-test and --tests-for ask for them.

Outputs, any number of them, each FORMAT or FORMAT=FILE ("-" is standard output):

  text       a table, the worst file first, and the largest uncalled functions
  lcov       a tracefile for lcov and genhtml 2.2 and later; lcov2 is for every
             lcov 2, lcov1 for lcov 1 and for services
  json       all there is, see docs/report.md
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
  markdown   a short summary for a comment on a change, or of a job
  github     annotations of GitHub Actions: the largest parts that never ran
  gitlab     a code quality report of GitLab: all that never ran
  badge      a picture (SVG) of the part of the lines that is covered

--diff-base shows the coverage of changed lines, since a revision of git or by a
unified diff, and which of them never ran; --fail-under patch=PERCENT is about
these (patch-branches, patch-functions: theirs).

What cannot be used is said on standard error and the rest is reported. The exit
status is 1 if nothing could be reported and 3 if a threshold was missed.`,
		Example: `  # build, run, look
  gcc --coverage -o prog prog.c && ./prog && footfall report

  # for genhtml, and a table at the same time
  footfall report --output lcov=cov.info --output text build

  # for a pull request on GitHub: a summary, and annotations of the lines
  footfall report --output markdown=$GITHUB_STEP_SUMMARY --output github

  # only our sources, and fail if too little is tested
  footfall report --include 'src/**' --exclude '*_test.c' --fail-under lines=80,branches=60

  # is what this branch changed tested?
  footfall report --diff-base origin/main --fail-under patch=90

  # what asserts and dumps do is no concern of tests; what did that leave out?
  footfall report --exclude-branches '\bassert\(' --exclude-functions '*dump*'
  footfall report --exclude-branches '\bassert\(' --exclude-functions '*dump*' --list-excluded

  # one report of C++, Python and Go
  footfall report build python-coverage.xml cover.out --output html=cov

  # which test runs this line?
  footfall report --test parser --output json=parser.json
  footfall report parser.json lexer.json --tests-for src/parse.c:120

  # data of a device, objects of the build machine
  GCOV_PREFIX=/var/cov GCOV_PREFIX_STRIP=2 ./prog
  footfall report cov --object-directory build --path-map /ci/project=.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, args)
		},
	}
	o.define(cmd)
	defineMaxInput(cmd.Flags())
	return cmd
}

type reportOptions struct {
	objectDirs, outputs, failUnder []string
	diffBase                       string
	sources                        report.SourceOptions
	exclude                        excludeOptions
	exceptionBranches, verbose     bool
	test, testsFor                 string
	byTest                         bool
}

// define adds the options of every command that prints a report.
func (o *reportOptions) define(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVarP(&o.objectDirs, "object-directory", "o", nil, "search `DIR` for notes (.gcno) too")
	f.StringArrayVar(&o.outputs, "output", []string{"text"}, "write `FORMAT[=FILE]`; may be repeated")
	f.StringVar(&o.sources.Root, "root", "", "show names below `DIR` from there (default: the working directory)")
	f.StringArrayVar(&o.sources.PathMaps, "path-map", nil, "`OLD=NEW`: what was compiled below OLD is now below NEW; the first that fits counts")
	f.StringArrayVar(&o.sources.Include, "include", nil, "report only sources that match `GLOB`; may be repeated")
	f.StringArrayVar(&o.sources.Exclude, "exclude", nil, "leave out sources that match `GLOB`; may be repeated")
	o.exclude.define(f)
	o.exclude.defineList(f)
	f.BoolVar(&o.sources.SystemHeaders, "system-headers", false, "report headers of the system and of the compiler too")
	f.BoolVar(&o.exceptionBranches, "exception-branches", false, "count and show branches that only an exception decides")
	f.StringArrayVar(&o.failUnder, "fail-under", nil, "exit with status 3 if less than `METRIC=PERCENT,...` of lines, functions, branches, conditions or calls is covered")
	f.StringVar(&o.diffBase, "diff-base", "", "show the coverage of what changed since `REV|FILE`, a revision of git or a unified diff; - is one on standard input")
	f.StringVar(&o.test, "test", "", "what ran, ran in the test of this `NAME`: outputs keep it, --by-test and --tests-for tell")
	f.BoolVar(&o.byTest, "by-test", false, "show what each test ran, and what only it ran (--output tests)")
	f.StringVar(&o.testsFor, "tests-for", "", "show which tests ran `FILE[:LINE[-LINE]]`")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "list every problem")
	shareFlags(cmd)
	wantValues(cmd)
	for _, dir := range []string{"object-directory", "root"} {
		_ = cmd.MarkFlagDirname(dir)
	}
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(suffixed(report.Formats(), "="), cobra.ShellCompDirectiveNoSpace))
	_ = cmd.RegisterFlagCompletionFunc("fail-under", cobra.FixedCompletions([]string{"lines=", "functions=", "branches=", "conditions=", "calls="}, cobra.ShellCompDirectiveNoSpace))
}

// commaSeparated returns the parts of values of a flag that may be repeated. It
// keeps empty ones, which pflag's own lists forget.
func commaSeparated(values []string) (parts []string) {
	for _, v := range values {
		parts = append(parts, strings.Split(v, ",")...)
	}
	return parts
}

// suffixed returns the texts with the suffix.
func suffixed(texts []string, suffix string) []string {
	var out []string
	for _, s := range texts {
		out = append(out, s+suffix)
	}
	return out
}

// run is the command: check, find, collect, print, judge.
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
	defer collectLate(1600)()
	objects, err := report.Find(paths, o.objectDirs, p.sources)
	if err != nil {
		return err
	}
	set, problems, stats := collect(objects, p.sources, p.test, p.stderr)
	problems = append(problems, p.exclude(set)...)
	problems = append(objects.Problems, problems...)
	report.PrintProblems(p.stderr, problems, o.verbose)
	p.unseen = report.Unseen(problems)
	if err := p.allExcluded(set); err != nil {
		return err
	}
	if err := nothing(paths, objects, set, p.sources, o.sources); err != nil {
		return err
	}
	notes(p.stderr, objects, stats, p.sources)
	p.noteExcluded()
	p.made, p.built = newest(p.made, objects), objects.Built()
	return p.print(set)
}

// A printer prints reports as the options ask for.
type printer struct {
	*reportOptions
	outputs        []report.Output
	thresholds     []report.Threshold
	diff           *report.SourceDiff // nil: not asked for
	sources        *report.Sources
	exclusions     *report.Exclusions
	excluded       report.Excluded // of the set that is to be printed
	unseen         int             // problems that hide code, see report.Unseen
	made           time.Time       // when the data were written
	built          time.Time       // when the newest object was compiled; zero: not known
	sourceDate     time.Time       // to be told in its place, unless zero
	stdout, stderr io.Writer
}

// printer checks the options.
func (o *reportOptions) printer(cmd *cobra.Command) (*printer, error) {
	if o.exclude.list || o.byTest || o.testsFor != "" { // in place of the table
		o.outputs = slices.DeleteFunc(slices.Clone(o.outputs), func(output string) bool { return output == "text" || output == "text=-" })
	}
	if o.exclude.list {
		o.outputs = append(o.outputs, "excluded")
	}
	if o.byTest {
		o.outputs = append(o.outputs, "tests")
	}
	p := &printer{reportOptions: o, stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr()}
	if err := p.parse(); err != nil {
		return nil, usageError(err)
	}
	if p.diffBase == "" {
		return p, nil
	}
	var err error
	p.diff, err = openDiff(p.stderr, p.diffBase, p.sources)
	return p, err
}

func (p *printer) parse() (err error) {
	onStdout := 0
	if p.sourceDate, err = sourceDate(); err != nil {
		return err
	}
	for _, s := range p.reportOptions.outputs {
		out, err := report.ParseOutput(s)
		if err != nil {
			return err
		}
		if p.outputs = append(p.outputs, out); out.Target == "-" {
			onStdout++
		}
	}
	if p.testsFor != "" {
		onStdout++
		if err := report.CheckTestsFor(p.testsFor); err != nil {
			return err
		}
	}
	if onStdout > 1 {
		return errors.New("more than one output goes to standard output: give the others a file")
	}
	for _, s := range commaSeparated(p.failUnder) {
		t, err := report.ParseThreshold(s)
		if err != nil {
			return err
		}
		if t.OfPatch() && p.diffBase == "" {
			return fmt.Errorf("threshold %q: --diff-base tells what the patch is", s)
		}
		p.thresholds = append(p.thresholds, t)
	}
	if p.sources, err = report.NewSources(p.reportOptions.sources); err != nil {
		return err
	}
	p.reportOptions.exclude.ReadFile = p.sources.Read
	p.exclusions, err = report.NewExclusions(p.reportOptions.exclude.ExcludeOptions)
	return err
}

// print writes all outputs and judges by the thresholds.
func (p *printer) print(set *coverage.Set) error {
	if !p.sourceDate.IsZero() {
		p.made = p.sourceDate
	}
	r := &report.Report{Set: set, Shown: p.sources.Shown, Root: p.sources.Root(), Time: p.made, Built: p.built, Excluded: p.excluded, ExceptionBranches: p.exceptionBranches, ReadSource: p.sources.Read}
	r.Private = slices.ContainsFunc(p.outputs, report.Output.ShowsSources) && p.sources.Private(set)
	if p.diff != nil {
		r.Patch = report.NewPatch(p.diff, set, p.excluded, p.sources)
		patchNotes(p.stderr, r, p.verbose)
	}
	r.Width, r.Color = output.Style(p.stdout)
	var failed []error
	for _, out := range p.outputs {
		problems, err := r.Write(out, p.stdout)
		report.PrintProblems(p.stderr, problems, p.verbose)
		failed = append(failed, err)
	}
	if p.testsFor != "" {
		failed = append(failed, r.PrintTestsFor(p.stdout, p.testsFor))
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return judge(p.stderr, p.thresholds, p.unseen, r.Missed)
}

// nothing returns an error that says why, if there is nothing to report.
func nothing(paths []string, objects *report.Objects, set *coverage.Set, sources *report.Sources, o report.SourceOptions) error {
	if set.Totals().Lines.Total > 0 {
		return nil
	}
	where := strings.Join(paths, ", ")
	switch {
	case len(objects.Reports) > 0 && len(objects.Units) == 0 && len(o.Include)+len(o.Exclude) == 0 && sources.OmittedSystemHeaders() == 0:
		return fmt.Errorf("nothing to report: no lines in %s", where)
	case len(objects.Reports)+len(objects.Units)+len(objects.Problems) == 0:
		return fmt.Errorf("no coverage data (.gcno, .gcda) in %s: compile with --coverage and run the program, or name the directory of the objects", where)
	case len(objects.Reports)+len(objects.Units) == 0:
		return fmt.Errorf("nothing to report: no notes (.gcno) that can be used in %s", where)
	case len(o.Include)+len(o.Exclude) > 0:
		return errors.New("nothing to report: --include and --exclude leave no source with code")
	case sources.OmittedSystemHeaders() > 0:
		return errors.New("nothing to report: all code is in system headers, --system-headers includes them")
	}
	return fmt.Errorf("nothing to report: no code in the %d notes files in %s", len(objects.Units), where)
}

// notes tells what a reader of the report should know about it.
func notes(w io.Writer, objects *report.Objects, stats gcov.Stats, sources *report.Sources) {
	switch {
	case len(objects.Units) == 0: // reports only
	case objects.Data == 0:
		fmt.Fprintf(w, "footfall: no data files (.gcda): nothing has run yet, or the program did not end by itself\n")
	case stats.NeverRun == 1:
		fmt.Fprintf(w, "footfall: 1 of %d units never ran; it counts as not covered\n", stats.Objects)
	case stats.NeverRun > 0:
		fmt.Fprintf(w, "footfall: %d of %d units never ran; they count as not covered\n", stats.NeverRun, stats.Objects)
	}
	if n := stats.Inconsistent; n > 0 {
		fmt.Fprintf(w, "footfall: impossible counts in %s: of threads (-fprofile-update=atomic makes them exact), or of ways out that compilers do not count, as by longjmp: their counts are estimates\n", output.Plural(n, "function"))
	}
	if n := len(objects.Outside); n > 0 {
		fmt.Fprintf(w, "footfall: the notes of %d of %d units were found elsewhere, as %s; units there that never ran are counted with --object-directory\n", n, stats.Objects, objects.Outside[0])
	}
	switch n := sources.OmittedSystemHeaders(); {
	case n == 1:
		fmt.Fprintf(w, "footfall: 1 system header left out; --system-headers includes it\n")
	case n > 1:
		fmt.Fprintf(w, "footfall: %d system headers left out; --system-headers includes them\n", n)
	}
}

// openDiff reads the diff that base names.
func openDiff(stderr io.Writer, base string, sources *report.Sources) (*report.SourceDiff, error) {
	d, err := report.OpenDiff(base, sources.Root())
	if err == nil && d.Warning != "" {
		fmt.Fprintf(stderr, "footfall: %s\n", d.Warning)
	}
	return d, err
}

// patchNotes says what is not known of a patch.
func patchNotes(w io.Writer, r *report.Report, all bool) {
	report.PrintProblems(w, r.Patch.Problems(), all)
	switch {
	case !r.Patch.Clear() || r.Patch.Totals(r.Set).Lines.Total > 0:
	case r.Patch.Empty():
		fmt.Fprintf(w, "footfall: the diff has no changed lines: thresholds of the patch are not judged\n")
	default:
		fmt.Fprintf(w, "footfall: no changed line has code: thresholds of the patch are not judged\n")
	}
}

// judge tells which thresholds were missed, and returns the error for that.
func judge[T any](w io.Writer, thresholds []T, unseen int, miss func(T) string) error {
	missed := unseen > 0 && len(thresholds) > 0
	if missed {
		fmt.Fprintf(w, "footfall: %s cannot be read to the end, empty or without notes: what they cover is not known, no threshold can be said to be met\n", output.Plural(unseen, "input"))
	}
	for _, t := range thresholds {
		if m := miss(t); m != "" {
			fmt.Fprintf(w, "footfall: %s\n", m)
			missed = true
		}
	}
	if missed {
		return &exitError{status: statusMissed}
	}
	return nil
}
