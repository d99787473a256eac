package ask

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"time"

	"footfall/coverage"
	"footfall/fleet/store"
	"footfall/fleet/units"
	"footfall/report"
)

// testLabel is the label that has the name of a test.
const testLabel = "test"

// Coverage returns what a selection ran, of builds that were reported of: others would look as if nothing of
// them ran. Parameters are those of a selection; "tests" with any value keeps apart which test ran what, and "file", which
// may be repeated, chooses units by their names. What is not known of anybody is [ErrNoData].
func (a *Ask) Coverage(ctx context.Context, values url.Values) (*coverage.Set, error) {
	p, err := parse(values, a.now(), "tests", "file")
	if err != nil {
		return nil, err
	}
	if values.Has("tests") {
		files := values["file"]
		return a.tested(ctx, &p.Query, func(name string) bool { return len(files) == 0 || slices.Contains(files, name) })
	}
	if values.Has("file") {
		return nil, wrong("file goes with tests")
	}
	return a.coverage(ctx, p)
}

func (a *Ask) coverage(ctx context.Context, p *parameters) (*coverage.Set, error) {
	if err := a.origin(ctx, p); err != nil {
		return nil, err
	}
	with, _, err := a.evidence(ctx, &p.Query)
	if err != nil {
		return nil, err
	}
	if len(with) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNoData, selectionText(p))
	}
	q := p.Query
	q.Builds, q.Releases = buildsOf(with), nil
	return a.set(ctx, &q)
}

// selectionText says what was asked for.
func selectionText(p *parameters) string {
	if len(p.values) == 0 {
		return "anything"
	}
	text, err := url.QueryUnescape(p.values.Encode())
	if err != nil {
		return p.values.Encode()
	}
	return text
}

func (a *Ask) set(ctx context.Context, q *store.Query) (*coverage.Set, error) {
	var list []store.Total
	if err := a.Store.Totals(ctx, q, true, func(t store.Total) error {
		list = append(list, t)
		return nil
	}); err != nil {
		return nil, err
	}
	return a.setOf(list, func(string) bool { return true }, func(int, *coverage.File) {})
}

// setOf makes a set of units and their counters, of the sources that are wanted, after change has seen each file that is a unit by
// the number of that.
func (a *Ask) setOf(list []store.Total, wanted func(name string) bool, change func(int, *coverage.File)) (*coverage.Set, error) {
	files, failed := make([]*coverage.File, len(list)), make([]error, len(list))
	coverage.Parallel(len(list), func(i int) {
		if !units.IsSource(list[i].Unit.Kind) {
			return // what all of them ran is found out together
		}
		var of []*coverage.File
		if of, failed[i] = units.Files(&list[i].Unit, list[i].Hits); failed[i] == nil {
			files[i] = of[0]
			change(i, files[i])
		}
		list[i].Unit.Program = nil
	})
	var sum coverage.Sum
	add := func(f *coverage.File) {
		if path, keep := a.resolve(f.Name); keep && wanted(f.Name) {
			f.Name = path
			sum.Add(f)
		}
	}
	var objects units.Sum
	for i, f := range files {
		if failed[i] == nil && !units.IsSource(list[i].Unit.Kind) {
			failed[i] = objects.Add(list[i])
			list[i] = store.Total{}
		} else if failed[i] == nil {
			add(f)
		}
		if failed[i] != nil {
			return nil, failed[i]
		}
		files[i] = nil
	}
	for _, f := range objects.Take().All() {
		add(f)
	}
	set := sum.Set()
	report.Reconcile(set) // what is left out of it was left out where it was made, too
	return set, nil
}

// programs returns units with their programs.
func (a *Ask) programs(ctx context.Context, hashes []store.Hash) (map[store.Hash]store.Unit, error) {
	known := make(map[store.Hash]store.Unit, len(hashes))
	err := a.Store.Programs(ctx, hashes, func(hash store.Hash, u store.Unit) error {
		known[hash] = u
		return nil
	})
	return known, err
}

// tested returns what a selection ran, test by test, of the units whose names are wanted.
func (a *Ask) tested(ctx context.Context, q *store.Query, wanted func(name string) bool) (*coverage.Set, error) {
	var hashes []store.Hash
	err := a.Store.Units(ctx, q, func(hash store.Hash, u store.Unit) error {
		if !units.IsSource(u.Kind) || wanted(u.Name) {
			hashes = append(hashes, hash)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(hashes) == 0 {
		return new(coverage.Set), nil
	}
	known, err := a.programs(ctx, hashes)
	if err != nil {
		return nil, err
	}
	type key struct {
		test string
		unit store.Hash
	}
	sums := make(map[key][]uint64)
	for _, hash := range hashes { // that nothing of it ran is to be known, too
		sums[key{"", hash}] = make([]uint64, known[hash].Counters)
	}
	err = a.Store.Shares(ctx, q, hashes, func(s store.Share) error {
		k := key{s.Labels[testLabel], s.Unit}
		if sums[k] == nil {
			sums[k] = s.Hits
			return nil
		}
		store.Add(sums[k], s.Hits)
		return nil
	})
	if err != nil {
		return nil, err
	}
	list, tests := make([]store.Total, 0, len(sums)), make([]string, 0, len(sums))
	for k, hits := range sums {
		list, tests = append(list, store.Total{Unit: known[k.unit], Hash: k.unit, Hits: hits}), append(tests, k.test)
	}
	return a.setOf(list, wanted, func(i int, f *coverage.File) {
		if tests[i] != "" {
			f.NameTest(tests[i])
		}
	})
}

// A Point is what of the code of a release, or of builds that were reported of in a time, ran.
type Point struct {
	Release   string         `json:"release,omitempty"`
	From      time.Time      `json:"from"` // the first window, or the beginning of the time
	To        time.Time      `json:"to"`   // the last window, or the end of the time
	Builds    int            `json:"builds"`
	Hosts     int            `json:"hosts"` // that had reported by then and went on to
	Lines     coverage.Ratio `json:"lines"`
	Functions coverage.Ratio `json:"functions"`
	Branches  coverage.Ratio `json:"branches"`
}

// A Trend is coverage over releases or time.
type Trend struct {
	By     string  `json:"by"` // release, week or day
	In     string  `json:"in"` // whose counts these are: of hosts, tests or all
	Points []Point `json:"points"`
}

// mostPoints is how many a trend over time has at most.
const mostPoints = 60

func (a *Ask) trend(ctx context.Context, p *parameters) (Answer, error) {
	if err := a.origin(ctx, p); err != nil {
		return nil, err
	}
	answer := &Trend{By: p.one("by", "release"), In: originNames[p.Origin], Points: []Point{}}
	with, _, err := a.evidence(ctx, &p.Query)
	if err != nil {
		return nil, err
	}
	hosts, err := a.hosts(ctx, &p.Query)
	if err != nil {
		return nil, err
	}
	switch answer.By {
	case "release":
		for _, r := range byRelease(with, hosts) {
			q := p.Query
			q.Builds, q.Releases = buildsOf(r.Builds), nil
			point, err := a.point(ctx, &q, Point{Release: r.Release, From: r.First, To: r.Last, Builds: len(r.Builds), Hosts: r.Hosts})
			if err != nil {
				return nil, err
			}
			answer.Points = append(answer.Points, point)
		}
		return answer, nil
	case "day":
		err = a.overTime(ctx, p, 1, answer)
	case "week":
		err = a.overTime(ctx, p, 7, answer)
	default:
		err = wrong("by: %q is not release, week or day", answer.By)
	}
	return answer, err
}

// overTime adds points of so many days, until now.
func (a *Ask) overTime(ctx context.Context, p *parameters, days int, answer *Trend) error {
	from, to := p.From, p.To
	if to.IsZero() {
		to = daysAgo(a.now(), -1)
	}
	if from.IsZero() {
		from = to.AddDate(0, 0, -12*days)
	}
	if !from.Before(to) || from.AddDate(0, 0, days*mostPoints).Before(to) {
		return wrong("from %s to %s are not 1 to %d times %s", day(from), day(to), mostPoints, plural(days, "day"))
	}
	for begin := from; begin.Before(to); begin = begin.AddDate(0, 0, days) {
		q := p.Query
		q.From, q.To = begin, begin.AddDate(0, 0, days)
		with, _, err := a.evidence(ctx, &q)
		if err != nil {
			return err
		}
		hosts, err := a.hosts(ctx, &q)
		if err != nil {
			return err
		}
		point := Point{From: q.From.UTC(), To: q.To.UTC(), Builds: len(with), Hosts: hosts.count(buildsOf(with))}
		if len(with) > 0 {
			q.Builds, q.Releases = buildsOf(with), nil
			if point, err = a.point(ctx, &q, point); err != nil {
				return err
			}
		}
		answer.Points = append(answer.Points, point)
	}
	return nil
}

func (a *Ask) point(ctx context.Context, q *store.Query, p Point) (Point, error) {
	set, err := a.set(ctx, q)
	if err != nil {
		return p, err
	}
	t := set.Totals()
	p.Lines, p.Functions, p.Branches = t.Lines, t.Functions, t.Branches
	return p, nil
}

// Text writes a table.
func (t *Trend) Text(w io.Writer, _ Style) error {
	table := newTable(t.By, "lines", "of", "functions", "of", "branches", "of", "builds", "hosts").right(1, 2, 3, 4, 5, 6, 7, 8)
	for _, p := range t.Points {
		name := releaseName(p.Release)
		if t.By != "release" {
			name = day(p.From)
		}
		table.row(name, p.Lines.Rounded(), number(p.Lines.Total), p.Functions.Rounded(), number(p.Functions.Total), p.Branches.Rounded(), number(p.Branches.Total), number(p.Builds), number(p.Hosts))
	}
	if len(t.Points) == 0 {
		return say(w, "nothing has been reported of that\n")
	}
	return table.write(w, 0)
}
