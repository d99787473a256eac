package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"footfall/coverage"
	"footfall/fleet/ask"
	"footfall/input"
	"footfall/output"
	"footfall/report"
	"footfall/report/exclude"
	"footfall/report/source"
)

// This file is footfall fleet: questions to what a fleet has run.

type fleetOptions struct {
	reportOptions
	serverOptions
	store                           string
	releases, builds, hosts, labels []string
	in, from, to                    string
	days                            int
	by, since, until, codeowners    string
	diff                            string
	all                             bool
}

// fleetQuestions are what can be asked, and what each takes: an argument, and flags of its own.
var fleetQuestions = []struct {
	name, argument string
	flags          []string
	coverage       bool // the answer is one, for all outputs of a report
}{
	{"releases", "", nil, false},
	{"coverage", "", []string{"by", "codeowners", "all"}, true},
	{"never-ran", "", []string{"days", "by", "codeowners", "all"}, false},
	{"changed", "", []string{"since", "until", "all"}, false},
	{"who", "FUNCTION|FILE[:LINE[-LINE]]", []string{"all"}, false},
	{"tests", "FILE[:LINE[-LINE]]", []string{"diff"}, false},
	{"trend", "", []string{"by"}, false},
	{"sizes", "", nil, false},
}

func newFleetCommand() *cobra.Command {
	var o fleetOptions
	cmd := &cobra.Command{
		Use:   "fleet QUESTION [ARGUMENT] --server URL|--store sqlite:DIR|clickhouse:URL",
		Short: "Ask what a fleet has run: of a release, what never, since when, where, in which tests",
		Long: `Fleet answers questions about what programs on many machines have run, and tests of
many jobs, from a server of footfall serve or from its store, which may be in use.

  releases     what was reported of which release, from how many hosts
  coverage     what ran of a selection, in any output of footfall report; or --by
               owner, directory or file
  never-ran    functions that did not run in --days days, of builds that were
               looked at, by directory, or --by owner, file or function
  changed      what began to run, and what runs no more, since the release --since
  who FUNCTION, who FILE[:LINE[-LINE]]
               on which hosts that ran, and with which labels
  tests FILE[:LINE[-LINE]], tests --diff REV|FILE
               which tests run that; which a change needs, see footfall report
               --tests-for-diff
  trend        coverage of the releases, or --by week or day
  sizes        how much the store has, and from when

A selection is any of --release, --build, --host, --label, --from and --to. Counts are
those of hosts where there are any, and else results of tests that were pushed; --in
says otherwise.

That a function never ran is only said of builds that somebody has reported of: the
answer has on how many hosts, and since when. Functions are the same in several
builds if source and name are. Owners are those of a CODEOWNERS file, as on GitHub.

--output json has the answers for programs, see footfall json. The token for
the server is in the environment's FOOTFALL_TOKEN, or in --token-file.`,
		Example: `  # which code of ours does nobody use?
  footfall fleet never-ran --server http://127.0.0.1:7117 --days 90 --by owner

  # pages of a release, over all hosts; an lcov tracefile of those in one zone
  footfall fleet coverage --server http://127.0.0.1:7117 --release 2.1 --output html=cov
  footfall fleet coverage --store sqlite:/var/lib/footfall --label zone=eu --output lcov=eu.info

  # what did the release change, and who runs this?
  footfall fleet changed --server http://127.0.0.1:7117 --since 2.0
  footfall fleet who parse_header --server http://127.0.0.1:7117

  # which tests does my change need?
  footfall fleet tests --diff main --server http://127.0.0.1:7117 --release "$(git rev-parse main)"`,
		Args: func(_ *cobra.Command, args []string) error { return checkFleetArguments(args) },
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	f := cmd.Flags()
	o.serverOptions.define(cmd, "ask")
	f.StringVar(&o.store, "store", "", "ask the store `sqlite:DIR` or clickhouse:URL")
	f.StringArrayVar(&o.releases, "release", nil, "only of the release `NAME`; may be repeated")
	f.StringArrayVar(&o.builds, "build", nil, "only of the build `ID`; may be repeated")
	f.StringArrayVar(&o.hosts, "host", nil, "only on the host `NAME`; may be repeated")
	f.StringArrayVar(&o.labels, "label", nil, "only what has the label `NAME=VALUE`; may be repeated")
	f.StringVar(&o.in, "in", "", "only on hosts, only what was pushed, or both: `hosts|tests|all`")
	f.StringVar(&o.from, "from", "", "only windows from `TIME` on: 2026-11-01, 2026-11-01T12:00:00Z or 30d, which is so many days ago")
	f.StringVar(&o.to, "to", "", "only windows before `TIME`")
	f.IntVar(&o.days, "days", 30, "never-ran: in the last `N` days")
	f.StringVar(&o.by, "by", "", "never-ran: by `WHAT`: directory, owner, file or function; coverage: by directory, owner or file; trend: by release, week or day")
	f.StringVar(&o.codeowners, "codeowners", "", "owners are those of `FILE` (default: CODEOWNERS, as GitHub finds it)")
	f.StringVar(&o.since, "since", "", "changed: compare with the release `NAME`")
	f.StringVar(&o.until, "until", "", "changed: compare only the release `NAME` with that, not all later ones")
	f.StringVar(&o.diff, "diff", "", "tests: those that ran a function which `REV|FILE` changes, a revision of git or a unified diff; status 3: there may be more")
	f.BoolVar(&o.all, "all", false, "show all rows")
	o.defineShown(cmd)
	cmd.MarkFlagsMutuallyExclusive("server", "store")
	cmd.MarkFlagsOneRequired("server", "store")
	shareFlags(cmd)
	wantValues(cmd)
	for _, name := range []string{"no-markers", "marker-prefix"} { // see coverage
		_ = cmd.Flags().MarkHidden(name)
	}
	_ = cmd.MarkFlagFilename("codeowners")
	_ = cmd.RegisterFlagCompletionFunc("in", cobra.FixedCompletions([]string{"hosts", "tests", "all"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(groupings(), cobra.ShellCompDirectiveNoFileComp))
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return questionNames(), cobra.ShellCompDirectiveNoFileComp
	}
	showFirst(cmd, "server", "store", "token-file", "release", "host", "label", "in", "from", "to", "days", "by", "codeowners", "since", "until", "diff", "all", "output")
	return cmd
}

func questionNames() (names []string) {
	for _, q := range fleetQuestions {
		names = append(names, q.name)
	}
	return names
}

func checkFleetArguments(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("a question is missing: one of %s", strings.Join(questionNames(), ", "))
	}
	i := slices.Index(questionNames(), args[0])
	if i < 0 {
		return fmt.Errorf("there is no question %q; there are %s", args[0], strings.Join(questionNames(), ", "))
	}
	switch argument := fleetQuestions[i].argument; {
	case argument == "" && len(args) > 1:
		return fmt.Errorf("%s takes no argument", args[0])
	case len(args) > 2:
		return fmt.Errorf("%s takes one argument, %s", args[0], argument)
	}
	return nil
}

// check tells which options were given that do not go with the question.
func (o *fleetOptions) check(cmd *cobra.Command, args []string) error {
	name := args[0]
	q := fleetQuestions[slices.Index(questionNames(), name)]
	var taken []string // by other questions
	for _, other := range fleetQuestions {
		taken = append(taken, other.flags...)
	}
	for _, flag := range taken {
		if cmd.Flags().Changed(flag) && !slices.Contains(q.flags, flag) {
			return fmt.Errorf("--%s does not go with %s", flag, name)
		}
	}
	for _, flag := range []string{"fail-under", "diff-base", "only-ran", "sort", "list-excluded"} {
		switch {
		case !cmd.Flags().Changed(flag):
		case !q.coverage:
			return fmt.Errorf("--%s does not go with %s: it is for coverage", flag, name)
		case o.by != "":
			return fmt.Errorf("--%s does not go with --by", flag)
		}
	}
	switch {
	case q.argument != "" && len(args) == 1 && o.diff == "":
		return fmt.Errorf("%s needs %s", name, q.argument)
	case len(args) == 2 && o.diff != "":
		return fmt.Errorf("--diff does not go with %s", q.argument)
	case name == "changed" && o.since == "":
		return errors.New("changed needs --since, the release with which others are compared")
	case name == "never-ran" && checkDays(o.days) != nil:
		return fmt.Errorf("--days=%w", checkDays(o.days))
	case q.coverage && o.by != "" && !slices.Contains(ask.CoverageGroupings(), o.by):
		return fmt.Errorf("--by=%s: it is one of %s", o.by, strings.Join(ask.CoverageGroupings(), ", "))
	case name == "never-ran" && o.by != "" && !slices.Contains(ask.Groupings(), o.by):
		return fmt.Errorf("--by=%s: it is one of %s", o.by, strings.Join(ask.Groupings(), ", "))
	}
	return nil
}

func checkDays(n int) error {
	if n < 1 || n > 1<<15 {
		return fmt.Errorf("%d: 1 to %d were expected", n, 1<<15)
	}
	return nil
}

// groupings are all values of --by.
func groupings() []string { return append(ask.Groupings(), "release", "week", "day") }

func checkBy(v string) error {
	if !slices.Contains(groupings(), v) {
		return fmt.Errorf("%q is none of %s", v, strings.Join(groupings(), ", "))
	}
	return nil
}

// values are the parameters of the question.
func (o *fleetOptions) values(args []string) url.Values {
	v := url.Values{}
	for name, all := range map[string][]string{"release": o.releases, "build": o.builds, "host": o.hosts, "label": o.labels} {
		if len(all) > 0 {
			v[name] = all
		}
	}
	for name, value := range map[string]string{"in": o.in, "from": o.from, "to": o.to, "since": o.since, "until": o.until} {
		if value != "" {
			v.Set(name, value)
		}
	}
	switch args[0] {
	case "never-ran":
		v.Set("days", strconv.Itoa(o.days))
	case "trend":
		if o.by != "" {
			v.Set("by", o.by)
		}
	}
	if len(args) == 2 {
		v.Set("of", args[1])
	}
	return v
}

// run answers.
func (o *fleetOptions) run(cmd *cobra.Command, args []string) error {
	if err := o.check(cmd, args); err != nil {
		return usageError(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	name := args[0]
	if name == "coverage" && o.by == "" || name == "tests" && o.diff != "" {
		return o.coverage(ctx, cmd, args)
	}
	request, err := o.request(cmd)
	if err != nil {
		return usageError(err)
	}
	sources, err := source.NewSources(o.sources)
	if err != nil {
		return usageError(err)
	}
	style, err := o.style(cmd.ErrOrStderr(), sources)
	if err != nil {
		return err
	}
	fleet, closing, err := o.open(ctx, sources)
	if err != nil {
		return err
	}
	defer closing()
	var answer ask.Answer
	if name == "coverage" {
		var set *coverage.Set
		if set, err = fleet.Coverage(ctx, o.values(args)); err == nil {
			answer = ask.GroupCoverage(set, style)
		}
	} else {
		answer, err = fleet.Answer(ctx, name, o.values(args))
	}
	if err != nil {
		return fleetError(err)
	}
	return writeAnswer(cmd.OutOrStdout(), request, answer, style)
}

// fleetError makes a wrong question one of usage.
func fleetError(err error) error {
	if errors.Is(err, ask.ErrWrong) {
		return usageError(err)
	}
	return err
}

// answerFormats are the outputs of answers.
func answerFormats() []output.Format { return []output.Format{{Name: "text"}, {Name: "json"}} }

// request is what --output asks for, one.
func (o *fleetOptions) request(cmd *cobra.Command) (output.Request, error) {
	if len(o.outputs) != 1 {
		return output.Request{}, errors.New("--output: one was expected")
	}
	list, err := output.Parse(o.outputs, answerFormats(), output.Stdout{W: cmd.OutOrStdout()})
	if err != nil {
		return output.Request{}, err
	}
	return list[0], nil
}

func writeAnswer(stdout io.Writer, r output.Request, answer ask.Answer, style ask.Style) error {
	write := func(w io.Writer) error { return answer.Text(w, style) }
	if r.Format == "json" {
		write = func(w io.Writer) error {
			b, err := json.Marshal(answer)
			if err == nil {
				_, err = w.Write(append(b, '\n'))
			}
			return err
		}
	}
	if r.File == "-" {
		return write(stdout)
	}
	return output.Write(r.File, write)
}

// style says how sources are shown, and whose they are.
func (o *fleetOptions) style(stderr io.Writer, sources *source.Sources) (ask.Style, error) {
	here := func(file string) string {
		path, _ := sources.Resolve("", file)
		return path
	}
	s := ask.Style{By: o.by, All: o.all, Shown: func(file string) string { return sources.Shown(here(file)) }}
	if o.by != "owner" {
		return s, nil
	}
	name, top := o.codeowners, sources.Root()
	if name == "" {
		if name, top = findOwners(sources.Root()); name == "" {
			return s, fmt.Errorf("no CODEOWNERS in %s or above, .github or docs: --codeowners=FILE names it", sources.Root())
		}
	}
	f, err := os.Open(name)
	if err != nil {
		return s, err
	}
	defer f.Close()
	var problems []error
	if s.Owners, problems, err = ask.ReadOwners(name, f); err != nil {
		return s, err
	}
	for _, problem := range problems {
		fmt.Fprintf(stderr, "footfall: %s\n", output.Printable(problem.Error()))
	}
	s.Owners.Path = func(file string) string {
		if rest, ok := source.Below(here(file), top); ok && rest != "" {
			return filepath.ToSlash(rest)
		}
		return here(file)
	}
	return s, nil
}

// findOwners finds CODEOWNERS where GitHub and GitLab do, from a directory up to the top of its repository.
func findOwners(dir string) (name, top string) {
	for {
		for _, at := range []string{".github", "", "docs", ".gitlab"} {
			name := filepath.Join(dir, at, "CODEOWNERS")
			if input.IsFile(name) {
				return name, dir
			}
		}
		up := filepath.Dir(dir)
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil || up == dir {
			return "", ""
		}
		dir = up
	}
}

// open returns who is asked.
func (o *fleetOptions) open(ctx context.Context, sources *source.Sources) (fleet ask.Fleet, closing func(), err error) {
	if o.server != "" {
		server, err := o.client()
		if err != nil {
			return nil, nil, err
		}
		read := func(name string) (*coverage.Set, error) {
			set, problems := report.ReadFiles([]string{name}, report.ReadOptions{Sources: sources})
			problems = append(problems, report.Reconcile(set)...)
			if source.Unseen(problems) > 0 {
				return nil, fmt.Errorf("answer of %s: %w", o.server, problems[0].Err)
			}
			return set, nil
		}
		return &ask.Client{Server: server, Read: read}, func() {}, nil
	}
	s, err := readStore(ctx, o.store)
	if err != nil {
		return nil, nil, err
	}
	resolve := func(name string) (string, bool) { return sources.Resolve("", name) }
	return &ask.Ask{Store: s, Resolve: resolve}, func() { _ = s.Close() }, nil
}

// coverage makes a report of the answer, or says which tests a change needs.
func (o *fleetOptions) coverage(ctx context.Context, cmd *cobra.Command, args []string) error {
	o.testsForDiff = o.diff
	values := o.values(args)
	if o.diff != "" {
		values.Set("tests", "all")
	}
	o.exclude.NoMarkers = true // who pushed has left out what they exclude; the sources here may be others
	p, err := o.printer(cmd)
	if err != nil {
		return err
	}
	fleet, closing, err := o.open(ctx, p.Sources)
	if err != nil {
		return err
	}
	defer closing()
	defer collectLate(400, lateUpTo)()
	set, err := fleet.Coverage(ctx, values)
	if err != nil {
		return fleetError(err)
	}
	if set.Len() == 0 {
		return errors.New("nothing to report: no source of the selection is one that is to be reported")
	}
	var excluded exclude.Excluded
	if p.exclusions != nil {
		var problems []source.Problem
		excluded, problems = p.exclusions.Apply(set, p.Sources.Shown)
		source.PrintProblems(p.Stderr, problems, o.verbose)
	}
	p.noteExcluded(excluded)
	return missed(p.Print(report.Findings{Set: set, Excluded: excluded, Made: time.Now()}))
}
