package ask

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"footfall/coverage"
	"footfall/fleet/store"
	"footfall/fleet/units"
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
	*store.SQLite
	Ask
}

func newFleet(t *testing.T) *fleetTest {
	t.Helper()
	s, err := store.OpenSQLite(t.Context(), t.TempDir())
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
func twoReleases(t *testing.T) *fleetTest {
	f := newFleet(t)
	one, two := []string{"both", "gone", "never", "new", "old", "tested"}, []string{"both", "fresh", "never", "new", "old", "tested"}
	f.push("b1", "1.0", "a", "", 50, source("src/x.c", one, 5, 1, 0, 0, 2, 0))
	f.push("b1", "1.0", "b", "", 40, source("src/x.c", one, 7, 0, 0, 0, 0, 0), source("lib/y.c", []string{"helper"}, 1))
	f.push("b2", "2.0", "b", "", 3, source("src/x.c", two, 3, 4, 0, 2, 0, 0), source("lib/y.c", []string{"helper"}, 0))
	f.push("b2", "2.0", "", "parser", 2, source("src/x.c", two, 1, 0, 0, 0, 0, 9))
	f.push("b3", "3.0", "nobody", "", 1, source("src/x.c", []string{"later"}, 0))
	return f
}

// asked returns the text and the JSON of an answer, which is the same when it was read from that.
func asked(t *testing.T, f Fleet, s Style, question string, query string) (text, js string) {
	t.Helper()
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := f.Answer(t.Context(), question, values)
	if err != nil {
		t.Fatalf("%s: %v", question, err)
	}
	var b bytes.Buffer
	if err := answer.Text(&b, s); err != nil {
		t.Fatal(err)
	}
	j, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), string(j)
}

func check(t *testing.T, want, got string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNeverRan(t *testing.T) {
	f := twoReleases(t)
	text, js := asked(t, f, Style{}, "never-ran", "")
	fmt.Println(text, js)
	owners, problems, err := ReadOwners("CODEOWNERS", strings.NewReader("* @all\n/src/ @core # comment\nlib/* @lib\n[section]\n"))
	if err != nil || len(problems) != 1 {
		t.Fatal(problems, err)
	}
	text, _ = asked(t, f, Style{By: "owner", Owners: owners}, "never-ran", "in=all&days=60")
	fmt.Println(text)
	for _, q := range []string{"releases", "sizes", "changed?since=1.0", "who?of=helper", "who?of=both", "who?of=x.c:1-3", "tests?of=src/x.c:51", "trend", "trend?by=week", "trend?in=tests"} {
		name, query, _ := strings.Cut(q, "?")
		text, js = asked(t, f, Style{}, name, query)
		fmt.Printf("--- %s\n%s%s\n", q, text, js)
	}
	_ = context.Background
}
