package ask

import (
	"cmp"
	"context"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"footfall/fleet/store"
	"footfall/output"
)

// NeverRan is what did not run since a day, of what is in builds that were looked at since then.
type NeverRan struct {
	Days  int       `json:"days"`
	Since time.Time `json:"since"` // the beginning of a day, of UTC
	AsOf  time.Time `json:"as_of"`
	In    string    `json:"in"` // whose counts these are: of hosts, tests or all
	// Builds are those that were reported of since then, and Hosts how many hosts did.
	Builds []BuildEvidence `json:"builds"`
	Hosts  int             `json:"hosts"`
	// NoData are builds that were not. Functions that are only in these are counted, and not judged.
	NoData          []BuildEvidence `json:"builds_without_data"`
	NoDataFunctions int             `json:"functions_without_data"`
	// Functions is how many there are in builds that were looked at.
	Functions int           `json:"functions"`
	Unknown   int           `json:"functions_unknown"` // of these it is not known, in some process, whether they ran; the rest did not
	Never     []FunctionUse `json:"never_ran"`         // those with most lines first
	Files     []FileDead    `json:"files"`             // all of the sources of these functions, by name
}

// A FileDead is what of a source never ran.
type FileDead struct {
	File       string `json:"file"`
	Functions  int    `json:"functions"`
	Never      int    `json:"never_ran"`
	Lines      int    `json:"lines"` // of its functions
	NeverLines int    `json:"lines_never_ran"`
}

// defaultDays are those of a month.
const defaultDays = 30

func (a *Ask) neverRan(ctx context.Context, p *parameters) (Answer, error) {
	if err := p.everywhere(); err != nil {
		return nil, err
	}
	days, err := p.number("days", defaultDays)
	if err != nil {
		return nil, err
	}
	if err := a.origin(ctx, p); err != nil {
		return nil, err
	}
	now := a.now().UTC()
	answer := &NeverRan{Days: days, Since: daysAgo(now, days), AsOf: now.Truncate(time.Second), In: originNames[p.Origin], Never: []FunctionUse{}, Files: []FileDead{}}
	q := p.Query
	q.From = answer.Since
	if answer.Builds, answer.NoData, err = a.evidence(ctx, &q); err != nil {
		return nil, err
	}
	hosts, err := a.hosts(ctx, &q)
	if err != nil {
		return nil, err
	}
	tested, err := a.takeTested(ctx, answer)
	if err != nil {
		return nil, err
	}
	builds := slices.Concat(answer.Builds, answer.NoData, tested)
	answer.Hosts = hosts.count(buildsOf(builds))
	all, err := a.join(ctx, builds, p.Origin, func(*joined, int, sighting) {})
	if err != nil {
		return nil, err
	}
	answer.take(all, builds, hosts)
	return answer, nil
}

// takeTested takes builds out of those without data of which there are results of tests, where these do not count: nobody
// expects them on hosts.
func (a *Ask) takeTested(ctx context.Context, n *NeverRan) (tested []BuildEvidence, err error) {
	if n.In != originNames[store.OnHosts] || len(n.NoData) == 0 {
		return nil, nil
	}
	all, err := a.Store.Evidence(ctx, &store.Query{Builds: buildsOf(n.NoData)})
	known := make(map[string]bool)
	for _, e := range all {
		known[e.Build] = e.Pushed > 0 && e.Instances == 0
	}
	n.NoData = slices.DeleteFunc(n.NoData, func(e BuildEvidence) bool {
		if known[e.Build] {
			tested = append(tested, e)
		}
		return known[e.Build]
	})
	return tested, err
}

// take judges functions. The first ones of the builds have data.
func (n *NeverRan) take(all []*joined, builds []BuildEvidence, hosts hostsOf) {
	d := &describer{builds, hosts, make(map[string]int)}
	since := uint64(n.Since.Unix())
	files := make(map[string]*FileDead)
	for _, f := range all {
		if least := int(slices.Min(f.builds)); least >= len(n.Builds) {
			if least < len(n.Builds)+len(n.NoData) {
				n.NoDataFunctions++
			}
			continue
		}
		file := files[f.file]
		if file == nil {
			file = &FileDead{File: f.file}
			files[f.file] = file
		}
		n.Functions++
		file.Functions++
		file.Lines += int(f.fn.lines)
		if f.last < since && f.unsure >= since {
			n.Unknown++
		} else if f.last < since {
			file.Never++
			file.NeverLines += int(f.fn.lines)
			n.Never = append(n.Never, d.of(f))
		}
	}
	for _, f := range files {
		n.Files = append(n.Files, *f)
	}
	slices.SortFunc(n.Files, func(a, b FileDead) int { return strings.Compare(a.File, b.File) })
	worst(n.Never)
}

// Late tells whether a day or more of the time is one of which nobody reported, at its beginning.
func (n *NeverRan) Late() bool { return n.Observed().Sub(n.Since) >= 24*time.Hour }

// Observed is the beginning of the period that was looked at: that of the question, or later if nothing was
// reported of before.
func (n *NeverRan) Observed() time.Time {
	first := time.Time{}
	for _, e := range n.Builds {
		if first.IsZero() || e.First.Before(first) {
			first = e.First
		}
	}
	if first.Before(n.Since) {
		return n.Since
	}
	return first
}

// Groupings are what [NeverRan] can be counted by.
func Groupings() []string { return []string{"directory", "owner", "file", "function"} }

// A Group is a directory, an owner or a source, and what of it never ran.
type Group struct {
	Name string
	FileDead
}

// GroupsOf are those that a source is in: several for one with several owners.
func GroupsOf(s Style, file string) []string {
	switch s.By {
	case "owner":
		return s.Owners.Of(file)
	case "file":
		return []string{s.shown(file)}
	}
	return []string{path.Dir(s.shown(file))}
}

// Groups are those of a grouping, the one with the most lines that never ran first.
func (n *NeverRan) Groups(s Style) []Group {
	var groups []Group
	numbers := make(map[string]int)
	for _, f := range n.Files {
		for _, name := range GroupsOf(s, f.File) {
			i, known := numbers[name]
			if !known {
				i = len(groups)
				numbers[name] = i
				groups = append(groups, Group{Name: name})
			}
			g := &groups[i]
			g.Functions += f.Functions
			g.Never += f.Never
			g.Lines += f.Lines
			g.NeverLines += f.NeverLines
		}
	}
	slices.SortStableFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.NeverLines, a.NeverLines), cmp.Compare(a.Name, b.Name))
	})
	return groups
}

// mostRows is how many rows are shown unless all are wanted.
const mostRows = 20

// Text writes what never ran by groups, and the largest functions.
func (n *NeverRan) Text(w io.Writer, s Style) error {
	lines := 0
	for _, f := range n.Files {
		lines += f.NeverLines
	}
	if len(n.Builds) == 0 {
		return say(w, "nothing was reported since %s: what never ran is not known\n", day(n.Since))
	}
	err := say(w, "%s of %s never ran since %s (%s), %s\n", number(len(n.Never)), plural(n.Functions, "function"), day(n.Since), plural(n.Days, "day"), plural(lines, "line"))
	if err == nil {
		err = n.writeEvidence(w)
	}
	most := mostRows
	if s.All {
		most = 0
	}
	if err == nil && s.By != "function" {
		t := newTable("lines", "never", "of", cmp.Or(s.By, "directory")).right(0, 1, 2)
		for _, g := range n.Groups(s) {
			if g.Never > 0 {
				t.row(number(g.NeverLines), number(g.Never), number(g.Functions), g.Name)
			}
		}
		if len(t.rows) > 1 {
			if err = say(w, "\n"); err == nil {
				err = t.write(w, most)
			}
		}
	}
	if err != nil || len(n.Never) == 0 {
		return err
	}
	if err := say(w, "\n"); err != nil {
		return err
	}
	t := newTable("lines", "last ran", "tested", "builds", "hosts", "function", "at").right(0, 3, 4)
	for i := range n.Never {
		f := &n.Never[i]
		t.row(number(f.Lines), day(f.Last), day(f.Tested), number(f.Builds), number(f.Hosts), f.Function, place(s, f.File, f.Line))
	}
	return t.write(w, most)
}

// writeEvidence says what that rests on.
func (n *NeverRan) writeEvidence(w io.Writer) error {
	err := say(w, "looked at: %s, %s, %s\n", plural(len(n.Builds), "build"), whereText(n.Builds, n.Hosts), releasesText(n.Builds))
	if err == nil && n.Unknown > 0 {
		err = say(w, "not known: %s, in processes that were not watched from their start, or whose code cannot be watched there\n", plural(n.Unknown, "function"))
	}
	if err == nil && n.Late() {
		err = say(w, "from %s to %s nobody reported: what ran then is not known\n", day(n.Since), day(n.Observed()))
	}
	if err == nil && len(n.NoData) > 0 {
		err = say(w, "no data: %s, %s; %s in no other build, of which nothing is said\n", plural(len(n.NoData), "build"), releasesText(n.NoData),
			map[bool]string{true: plural(n.NoDataFunctions, "function") + " is", false: plural(n.NoDataFunctions, "function") + " are"}[n.NoDataFunctions == 1])
	}
	return err
}

// whereText says on how many hosts, or of how many pushed results, evidence is.
func whereText(builds []BuildEvidence, hosts int) string {
	if hosts > 0 {
		return plural(hosts, "host")
	}
	results := 0
	for _, e := range builds {
		results += e.Results
	}
	return "no host, " + plural(results, "result") + " of tests"
}

// releasesText names the releases of builds.
func releasesText(builds []BuildEvidence) string {
	var names []string
	for _, e := range builds {
		if e.Release != "" && !slices.Contains(names, e.Release) {
			names = append(names, e.Release)
		}
	}
	switch more := len(names) - 5; {
	case len(names) == 0:
		return "of no release"
	case len(names) == 1:
		return "release " + output.Printable(names[0])
	case more > 0:
		return "releases " + output.Printable(strings.Join(names[:5], ", ")) + " and " + number(more) + " more"
	}
	return "releases " + output.Printable(strings.Join(names, ", "))
}

func place(s Style, file string, line int32) string { return s.shown(file) + ":" + number0(line) }
