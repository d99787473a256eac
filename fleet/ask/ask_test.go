package ask

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"footfall/coverage"
	"footfall/fleet/store"
	"footfall/fleet/store/clickhouse"
	"footfall/fleet/store/fixtures"
	"footfall/fleet/store/sqlite"
	"footfall/fleet/units"
	"footfall/report"
)

// now is when the questions of tests are asked.
var now = time.Date(2026, 11, 26, 2, 0, 0, 0, time.UTC)

// source makes a file whose functions have three lines each, from the counts of these functions.
func source(name string, functions []string, counts ...int64) *coverage.File {
	f := &coverage.File{Name: name}
	for i, fn := range functions {
		start := int32(10*i + 1)
		f.Functions = append(f.Functions, &coverage.Function{StartLine: start, EndLine: start + 2, Name: fn, Count: counts[i],
			Instances: []coverage.Instance{{Name: fn, Count: counts[i]}}})
		for line := start; line <= start+2; line++ {
			f.Lines = append(f.Lines, coverage.Line{Number: line, Count: counts[i]})
		}
	}
	return f
}

// A fleetTest is a store that tests push to.
type fleetTest struct {
	*testing.T
	store.Store
	Ask
}

func newFleet(t *testing.T, stores store.Stores) *fleetTest {
	t.Helper()
	s, err := stores.Open(t.Context(), store.DefaultProject)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return &fleetTest{t, s, Ask{Store: s, Now: func() time.Time { return now }}}
}

// push has a host, "" for a result of a test, report files of a build, so many days ago.
func (f *fleetTest) push(build, release, host, test string, daysAgo int, files ...*coverage.File) {
	f.Helper()
	b := &store.Batch{Build: build, Window: now.Add(-time.Duration(daysAgo) * 24 * time.Hour), Instance: store.Instance{Host: host, PID: daysAgo, Labels: map[string]string{"zone": "eu"}}}
	if test != "" {
		b.Instance.Labels = map[string]string{testLabel: test}
	}
	list := store.Build{ID: build, Release: release}
	for _, file := range files {
		c := units.Of(file)
		list.Units = append(list.Units, c.Unit)
		b.Usage = append(b.Usage, store.Usage{Unit: c.Unit.Hash(), Hits: c.Hits})
	}
	if err := f.PutBuild(f.Context(), &list); err != nil {
		f.Fatal(err)
	}
	if host == "nobody" {
		return
	}
	if err := f.Push(f.Context(), b); err != nil {
		f.Fatal(err)
	}
}

// twoReleases is a fleet of two hosts and a test. In 1.0 old and gone ran, in 2.0 new and fresh do; tested is only tested;
// of never there is nothing; of later nobody knows, since its build was not deployed.
func twoReleases(t *testing.T, stores store.Stores) *fleetTest {
	f := newFleet(t, stores)
	one, two := []string{"both", "gone", "never", "new", "old", "tested"}, []string{"both", "fresh", "never", "new", "old", "tested"}
	f.push("b1", "1.0", "a", "", 50, source("src/x.c", one, 5, 1, 0, 0, 2, 0))
	f.push("b1", "1.0", "b", "", 40, source("src/x.c", one, 7, 0, 0, 0, 0, 0), source("lib/y.c", []string{"helper"}, 1))
	f.push("b2", "2.0", "b", "", 3, source("src/x.c", two, 3, 4, 0, 2, 0, 0), source("lib/y.c", []string{"helper"}, 0))
	f.push("b2", "2.0", "", "parser", 2, source("src/x.c", two, 1, 0, 0, 0, 0, 9))
	f.push("b3", "3.0", "nobody", "", 1, source("src/x.c", []string{"later"}, 0))
	return f
}

// asked returns the text and the JSON of an answer.
func asked(t *testing.T, f Fleet, question, query string) (text, js string) {
	t.Helper()
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := f.Answer(t.Context(), question, values)
	if err != nil {
		t.Errorf("%s: %v", question, err)
		return "", ""
	}
	var b bytes.Buffer
	if err := answer.Text(&b, Style{}); err != nil {
		t.Fatal(err)
	}
	j, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), string(j)
}

// everyAnswer is how twoReleases answers, for people.
var everyAnswer = []struct{ question, want string }{
	{"releases", `
hosts  processes  pushed  builds  first       last        release
    1          1       1       1  2026-11-23  2026-11-24  2.0
    2          2       0       1  2026-10-07  2026-10-17  1.0
    0          0       0       1  never       never       3.0
`},
	{"never-ran", `
4 of 7 functions never ran since 2026-10-27 (30 days), 12 lines
looked at: 1 build, 1 host, release 2.0
from 2026-10-27 to 2026-11-23 nobody reported: what ran then is not known
no data: 2 builds, releases 1.0, 3.0; 2 functions are in no other build, of which nothing is said

lines  never  of  directory
    9      3   6  src
    3      1   1  lib

lines  last ran    tested      builds  hosts  function  at
    3  2026-10-17  never            1      1  helper    lib/y.c:1
    3  never       never            1      1  never     src/x.c:21
    3  2026-10-07  never            1      1  old       src/x.c:41
    3  never       2026-11-24       1      1  tested    src/x.c:51
`},
	{"never-ran?in=all&days=60", `
1 of 8 functions never ran since 2026-09-27 (60 days), 3 lines
looked at: 2 builds, 2 hosts, releases 1.0, 2.0
from 2026-09-27 to 2026-10-07 nobody reported: what ran then is not known
no data: 1 build, release 3.0; 1 function is in no other build, of which nothing is said

lines  never  of  directory
    3      1   7  src

lines  last ran  tested  builds  hosts  function  at
    3  never     never        2      2  never     src/x.c:21
`},
	{"never-ran?release=3.0", `
nothing was reported since 2026-10-27: what never ran is not known
`},
	{"changed?since=1.0", `
before: 1 build, release 1.0
after:  1 build, release 2.0

ran, and runs no more: 2 functions
lines  first ran   last ran    hosts  function  at
    3  2026-10-17  2026-10-17      2  helper    lib/y.c:1
    3  2026-10-07  2026-10-07      2  old       src/x.c:41

did not run, and runs: 1 function
lines  first ran   last ran    hosts  function  at
    3  2026-11-23  2026-11-23      2  new       src/x.c:31

ran, and is gone: 1 function
lines  first ran   last ran    hosts  function  at
    3  2026-10-07  2026-10-07      2  gone      src/x.c:11

is new, and runs: 1 function
lines  first ran   last ran    hosts  function  at
    3  2026-11-23  2026-11-23      1  fresh     src/x.c:11
`},
	{"changed?since=2.0", `
before: 1 build, release 2.0
after: no host has reported of a later release; with --in all tests count, too
`},
	{"who?of=both", `
src/x.c:1 both
ran on 2 of 2 hosts that reported of it
1 run in results that were pushed

runs  host
  10  b
   5  a

runs  hosts  label
   1      0  test=parser
  15      2  zone=eu
`},
	{"who?of=y.c:2&host=b&from=10d", `
lib/y.c:2
ran on 0 of 1 host that reported of it
`},
	{"tests?of=src/x.c:51", `
lines  runs  test
    1     9  parser
`},
	{"trend", `
release  lines  of  functions  of  branches  of  builds  hosts
1.0      57.1%  21      57.1%   7         -   0       1      2
2.0      42.8%  21      42.8%   7         -   0       1      1
`},
	{"trend?in=tests", `
release  lines  of  functions  of  branches  of  builds  hosts
2.0      28.5%  21      28.5%   7         -   0       1      0
`},
	{"trend?by=week&from=2026-11-13", `
week        lines  of  functions  of  branches  of  builds  hosts
2026-11-13      -   0          -   0         -   0       0      0
2026-11-20  42.8%  21      42.8%   7         -   0       1      1
`},
}

// withStores runs a test with each kind of store.
func withStores(t *testing.T, test func(*testing.T, store.Stores)) {
	t.Run("sqlite", func(t *testing.T) { test(t, sqlite.Dir(t.TempDir())) })
	t.Run("clickhouse", func(t *testing.T) {
		stores, err := clickhouse.Parse(fixtures.NewClickHouse(t).Address)
		if err != nil {
			t.Fatal(err)
		}
		test(t, stores)
	})
}

// TestAnswers asks the store, and a server that has it: what a client reads from JSON is the same.
func TestAnswers(t *testing.T) { withStores(t, testAnswers) }

func testAnswers(t *testing.T, stores store.Stores) {
	f := twoReleases(t, stores)
	server := httptest.NewServer(f.API())
	defer server.Close()
	client := &Client{Server: getter(server.URL), Read: readReport}
	for _, c := range everyAnswer {
		name, query, _ := strings.Cut(c.question, "?")
		text, js := asked(t, f, name, query)
		if diff := cmp.Diff(strings.TrimPrefix(c.want, "\n"), text); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.question, diff)
		}
		othersText, othersJS := asked(t, client, name, query)
		if diff := cmp.Diff(text+js, othersText+othersJS); diff != "" {
			t.Errorf("%s, of a server (-want +got):\n%s", c.question, diff)
		}
	}
	sizes, _ := f.Answer(t.Context(), "sizes", nil)
	if z := sizes.(*Sizes); z.Builds != 3 || z.Units != 4 || z.Instances != 4 || z.Windows != 4 || z.SeenBytes == 0 || !z.Closed.IsZero() {
		t.Errorf("%+v", z)
	}
	for question, want := range map[string]error{
		"nothing": ErrUnknown, "never-ran?days=0": ErrWrong, "never-ran?host=a": ErrWrong, "never-ran?dayz=1": ErrWrong, "who": ErrWrong, "who?of=zzz": ErrNoData,
		"who?of=x.c:3-1": ErrWrong, "tests?of=both": ErrWrong, "changed?since=9": ErrNoData, "changed": ErrWrong, "releases?label=x": ErrWrong, "releases?in=x": ErrWrong, "trend?from=x": ErrWrong,
	} {
		name, query, _ := strings.Cut(question, "?")
		values, _ := url.ParseQuery(query)
		if _, err := f.Answer(t.Context(), name, values); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", question, err, want)
		}
	}
}

// TestNames asks for functions by names that look like those of files, and by their last words.
func TestNames(t *testing.T) {
	f := newFleet(t, sqlite.Dir(t.TempDir()))
	f.push("b", "1", "a", "", 3, source("main.go", []string{"main.parse", "main.(*reader).Next"}, 5, 2))
	f.push("b", "1", "a", "", 2, source("x.cc", []string{"_ZN2ns5parseEi", "parser.c", "_ZN12_GLOBAL__N_16hiddenEi"}, 7, 1, 1))
	for of, want := range map[string]string{
		"main.parse": "main.go:1", "ns::parse": "x.cc:1", "ns::parse(int)": "x.cc:1", "parse": "main.go:1 x.cc:1", "Next": "main.go:11", "main.(*reader).Next": "main.go:11",
		"main.go": "main.go:1", "x.cc": "x.cc:1", "parser.c": "x.cc:11", "hidden": "x.cc:21", "(anonymous namespace)::hidden(int)": "x.cc:21",
	} {
		answer, err := f.Answer(t.Context(), "who", url.Values{"of": {of}})
		if err != nil {
			t.Errorf("%s: %v", of, err)
			continue
		}
		var got []string
		for _, p := range answer.(*Who).Places {
			got = append(got, fmt.Sprintf("%s:%d", p.File, p.Line))
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", of, diff)
		}
	}
}

// TestChangedOfTests compares with a release of which only tests were reported, beside one that hosts run.
func TestChangedOfTests(t *testing.T) {
	f := newFleet(t, sqlite.Dir(t.TempDir()))
	functions := []string{"both", "later"}
	f.push("b1", "1.0", "a", "", 5, source("x.c", functions, 1, 1))
	f.push("b2", "1.1", "", "unit", 4, source("x.c", functions, 1, 0))
	f.push("b3", "1.2", "", "unit", 3, source("x.c", functions, 2, 3))
	for query, want := range map[string]string{
		"since=1.0": "before: 1 build, release 1.0\nafter: no host has reported of a later release; with --in all tests count, too\n",
		"since=1.1": "before: 1 build, release 1.1\nafter:  1 build, release 1.2\n\nran, and runs no more: 0 functions\n\ndid not run, and runs: 1 function\n",
		"since=1.2": "before: 1 build, release 1.2\nafter: nothing was reported of a later release\n",
	} {
		if text, _ := asked(t, f, "changed", query); !strings.HasPrefix(text, want) {
			t.Errorf("%s: %s\nwant %s", query, text, want)
		}
	}
}

// getter asks a server of a test.
type getter string

func (g getter) Get(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	r, err := http.Get(string(g) + path + "?" + query.Encode())
	if err != nil {
		return nil, err
	}
	if r.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", path, r.Status)
	}
	return r.Body, nil
}

func readReport(name string) (*coverage.Set, error) {
	set, _ := report.ReadFiles([]string{name}, report.ReadOptions{})
	return set, nil
}

// TestCoverage has the sums of hosts, of tests, and test by test, here and from a server, as coverage and as JSON that is the
// report's own.
func TestCoverage(t *testing.T) { withStores(t, testCoverage) }

func testCoverage(t *testing.T, stores store.Stores) {
	f := twoReleases(t, stores)
	server := httptest.NewServer(f.API())
	defer server.Close()
	client := &Client{Server: getter(server.URL), Read: readReport}
	for query, want := range map[string]string{
		"release=1.0":            "lib/y.c [1] src/x.c [12 1 0 0 2 0]",
		"release=1.0&host=a":     "lib/y.c [0] src/x.c [5 1 0 0 2 0]",
		"release=2.0":            "lib/y.c [0] src/x.c [3 4 0 2 0 0]",
		"release=2.0&in=all":     "lib/y.c [0] src/x.c [4 4 0 2 0 9]",
		"in=tests":               "lib/y.c [0] src/x.c [1 0 0 0 0 9]",
		"label=zone%3Deu":        "lib/y.c [1] src/x.c [15 4 1 0 2 2 0]",
		"tests=all&file=src/x.c": "src/x.c [16 0 4 1 0 2 2 9] parser",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		for name, fleet := range map[string]Fleet{"store": f, "server": client} {
			set, err := fleet.Coverage(t.Context(), values)
			if err != nil {
				t.Errorf("%s, %s: %v", query, name, err)
				continue
			}
			var got []string
			for _, file := range set.All() {
				var counts []int64
				for _, fn := range file.Functions {
					counts = append(counts, fn.Count)
				}
				got = append(got, file.Name, fmt.Sprint(counts))
				for _, test := range file.Tests {
					got = append(got, test.Name)
				}
			}
			if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", query, name, diff)
			}
		}
	}
	if _, err := f.Coverage(t.Context(), url.Values{"release": {"3.0"}}); !errors.Is(err, ErrNoData) {
		t.Errorf("of a release that nobody has reported of: %v", err)
	}
}

// TestOwners has the last pattern that fits decide, as GitHub's documentation says, and a line that makes no sense be left out.
func TestOwners(t *testing.T) {
	owners, problems, err := ReadOwners("CODEOWNERS", strings.NewReader(`# comment
*            @global1 @global2
*.c          @c-owner # inline
/build/logs/ @doctocat
docs/*       docs@example.com
apps/        @octocat
/scripts/    @doctocat @octocat
**/logs      @logs
/apps/github
[Section]
`))
	if err != nil || len(problems) != 1 {
		t.Fatal(problems, err)
	}
	for file, want := range map[string]string{
		"a.h": "@global1 @global2", "src/a.c": "@c-owner", "build/logs/x": "@logs", "build/logs/y/z.c": "@logs", "docs/getting-started.md": "docs@example.com",
		"docs/build-app/troubleshooting.md": "@global1 @global2", "x/apps/y.c": "@octocat", "scripts/run.sh": "@doctocat @octocat", "deep/logs/z.c": "@logs",
		"apps/github/x.c": Nobody, "/usr/include/x.h": Nobody,
	} {
		if got := strings.Join(owners.Of(file), " "); got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
	f := twoReleases(t, sqlite.Dir(t.TempDir()))
	answer, err := f.Answer(t.Context(), "never-ran", nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range answer.(*NeverRan).Groups(Style{By: "owner", Owners: owners}) {
		got = append(got, fmt.Sprint(g.Name, " ", g.Never, "/", g.Functions))
	}
	if diff := cmp.Diff([]string{"@c-owner 4/7"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
