package ask

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"footfall/coverage"
	"footfall/demangle"
	"footfall/fleet/store"
	"footfall/fleet/units"
)

// Who is on which hosts and with which labels something ran.
type Who struct {
	Of       string     `json:"of"`
	Places   []Place    `json:"places"` // that this may mean
	Hosts    []HostRuns `json:"hosts"`  // those that ran it most first
	Labels   []LabelRun `json:"labels"`
	Silent   int        `json:"hosts_without"` // that reported of builds which have it, and did not run it
	Pushed   uint64     `json:"runs_pushed"`   // in results that were pushed
	Reported int        `json:"hosts_reported"`
}

// A Place is a function, or lines of a source.
type Place struct {
	File     string `json:"file"`
	Line     int32  `json:"line"`
	Last     int32  `json:"last_line,omitempty"`
	Function string `json:"function,omitempty"`
}

// A HostRuns is how often it ran on a host: a function as often as it was called, lines as often as the one that ran most.
type HostRuns struct {
	Host string `json:"host"`
	Runs uint64 `json:"runs"`
}

// A LabelRun is how often it ran with a label.
type LabelRun struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Hosts int    `json:"hosts"`
	Runs  uint64 `json:"runs"`
}

// A wanted is what somebody asks about: a function, or a source and some of its lines.
type wanted struct {
	function    string
	file        string
	first, last int32
	// otherwise is the function that it may be, if there is no such source: those of Go have names such as main.parse.
	otherwise string
}

// parseWanted reads FUNCTION, FILE, FILE:LINE or FILE:FROM-TO. What looks like a path is one.
func parseWanted(text string) (wanted, error) {
	if text == "" {
		return wanted{}, wrong("of is missing: FUNCTION, FILE, FILE:LINE or FILE:FROM-TO")
	}
	at := strings.LastIndexByte(text, ':')
	if at > 0 {
		from, to, two := strings.Cut(text[at+1:], "-")
		if !two {
			to = from
		}
		first, err1 := strconv.ParseInt(from, 10, 32)
		last, err2 := strconv.ParseInt(to, 10, 32)
		if err1 == nil && err2 == nil {
			if first < 1 || last < first {
				return wanted{}, wrong("%q: lines are counted from 1, the first is named first", text)
			}
			return wanted{file: text[:at], first: int32(first), last: int32(last)}, nil
		}
	}
	if strings.Contains(text, "/") && !strings.ContainsAny(text, "(<:") || path.Ext(text) != "" && !strings.ContainsAny(text, "(<: ") {
		return wanted{file: text, first: 1, last: 1<<31 - 1, otherwise: text}, nil
	}
	return wanted{function: text}, nil
}

// fits tells whether a source, by its name, is the one.
func (w *wanted) fits(name string) bool {
	return name == w.file || strings.HasSuffix(name, "/"+strings.TrimPrefix(w.file, "/"))
}

// isFunction tells whether the function is meant, by its name with or without its scope and parameters.
func (w *wanted) isFunction(file string, f *coverage.Function) bool {
	if name := NameOf(file, f); name == w.function || lastWord(name) == w.function {
		return true
	}
	return slices.ContainsFunc(f.Symbols(), func(s string) bool { return slices.Contains(demangle.Spellings(s), w.function) })
}

// measure finds what is wanted in a file, and how often it ran.
func (w *wanted) measure(f *coverage.File) (places []Place, runs uint64) {
	if w.function == "" {
		for i := range f.Lines {
			if l := &f.Lines[i]; l.Number >= w.first && l.Number <= w.last && !l.Uncounted {
				if places == nil {
					places = []Place{{File: f.Name, Line: l.Number}}
				}
				places[0].Last = l.Number
				runs = max(runs, uint64(l.Count))
			}
		}
		return places, runs
	}
	for i, fn := range f.Functions {
		if fn.StartLine > 0 && w.isFunction(f.Name, fn) {
			places = append(places, Place{File: f.Name, Line: fn.StartLine, Function: NameOf(f.Name, fn)})
			called := uint64(fn.Count)
			if called == 0 { // lines are known where calls are not, as of tests
				for _, l := range f.LinesOf(i) {
					called = max(called, uint64(l.Count))
				}
			}
			runs += called
		}
	}
	return places, runs
}

func (a *Ask) who(ctx context.Context, p *parameters) (Answer, error) {
	of := p.one("of", "")
	w, err := parseWanted(of)
	if err != nil {
		return nil, err
	}
	answer := &Who{Of: of, Places: []Place{}, Hosts: []HostRuns{}, Labels: []LabelRun{}}
	hashes, err := a.unitsWith(ctx, &p.Query, &w, answer)
	if err == nil && len(hashes) == 0 && w.otherwise != "" {
		w = wanted{function: w.otherwise}
		hashes, err = a.unitsWith(ctx, &p.Query, &w, answer)
	}
	if err != nil {
		return nil, err
	}
	if len(hashes) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNoData, of)
	}
	known, err := a.programs(ctx, hashes)
	if err != nil {
		return nil, err
	}
	hosts := make(map[string]uint64)
	labels := make(map[[2]string]map[string]uint64) // hosts of each
	err = a.Store.Shares(ctx, &p.Query, hashes, func(s store.Share) error {
		u := known[s.Unit]
		_, runs, err := a.measure(&u, s.Hits, &w)
		if err != nil {
			return err
		}
		if runs == 0 {
			return nil
		}
		hosts[s.Host] += runs
		for name, value := range s.Labels {
			key := [2]string{name, value}
			if labels[key] == nil {
				labels[key] = make(map[string]uint64)
			}
			labels[key][s.Host] += runs
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	answer.take(hosts, labels)
	return answer, a.silent(ctx, p, hashes, answer)
}

// unitsWith finds the units that have what is wanted, and its places.
func (a *Ask) unitsWith(ctx context.Context, q *store.Query, w *wanted, answer *Who) (hashes []store.Hash, err error) {
	var candidates []store.Hash
	if err := a.Store.Units(ctx, q, func(hash store.Hash, u store.Unit) error {
		if !units.IsSource(u.Kind) || w.function != "" || a.fits(w, u.Name) {
			candidates = append(candidates, hash)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	err = a.Store.Programs(ctx, candidates, func(hash store.Hash, u store.Unit) error {
		if w.function != "" && !strings.Contains(string(u.Program), lastWord(w.function)) {
			return nil // names are in it as they are, or mangled, which keeps identifiers
		}
		if !units.IsSource(u.Kind) && !strings.Contains(string(u.Program), path.Base(w.file)) {
			return nil
		}
		places, _, err := a.measure(&u, make([]uint64, u.Counters), w)
		if err != nil {
			return err
		}
		for i := range places {
			if !slices.Contains(answer.Places, places[i]) {
				answer.Places = append(answer.Places, places[i])
			}
		}
		if len(places) > 0 {
			hashes = append(hashes, hash)
		}
		return nil
	})
	return hashes, err
}

// fits tells whether a source counts and is what is wanted, by its name as it was recorded or as it is.
func (a *Ask) fits(w *wanted, name string) bool {
	path, keep := a.resolve(name)
	return keep && (w.function != "" || w.fits(name) || w.fits(path))
}

// measure finds what is wanted in a unit, and how often it ran.
func (a *Ask) measure(u *store.Unit, hits []uint64, w *wanted) (places []Place, runs uint64, err error) {
	files, err := units.Files(u, hits)
	for _, f := range files {
		if err != nil || !a.fits(w, f.Name) {
			continue
		}
		f.Name, _ = a.resolve(f.Name)
		more, ran := w.measure(f)
		places = append(places, more...)
		if w.function != "" {
			runs += ran
		} else {
			runs = max(runs, ran)
		}
	}
	return places, runs, err
}

// lastWord is the last identifier of the name of a function, without its parameters.
func lastWord(name string) string {
	name = strings.ReplaceAll(name, "(anonymous namespace)", "")
	for i := range name {
		if name[i] == '(' && (i == 0 || name[i-1] != '.') { // else it is a receiver of Go
			name = name[:i]
			break
		}
	}
	at := strings.LastIndexFunc(name, func(r rune) bool {
		return !(r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= 0x80)
	})
	return name[at+1:]
}

func (w *Who) take(hosts map[string]uint64, labels map[[2]string]map[string]uint64) {
	for host, runs := range hosts {
		if host == "" {
			w.Pushed = runs
		} else {
			w.Hosts = append(w.Hosts, HostRuns{host, runs})
		}
	}
	slices.SortFunc(w.Hosts, func(a, b HostRuns) int { return cmp.Or(cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.Host, b.Host)) })
	for key, of := range labels {
		l := LabelRun{Name: key[0], Value: key[1]}
		for host, runs := range of {
			if host != "" {
				l.Hosts++
			}
			l.Runs += runs
		}
		w.Labels = append(w.Labels, l)
	}
	slices.SortFunc(w.Labels, func(a, b LabelRun) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.Value, b.Value))
	})
}

// silent counts the hosts that reported.
func (a *Ask) silent(ctx context.Context, p *parameters, hashes []store.Hash, answer *Who) error {
	have := make(map[string]bool) // builds
	all, err := a.Store.Evidence(ctx, &p.Query)
	if err != nil {
		return err
	}
	for _, e := range all {
		q := store.Query{Builds: []string{e.Build}}
		if e.Hosts == 0 {
			continue
		}
		if err := a.Store.Units(ctx, &q, func(hash store.Hash, _ store.Unit) error {
			if slices.Contains(hashes, hash) {
				have[e.Build] = true
			}
			return nil
		}); err != nil {
			return err
		}
	}
	hosts, err := a.hosts(ctx, &p.Query)
	if err != nil {
		return err
	}
	var builds []string
	for b := range have {
		builds = append(builds, b)
	}
	answer.Reported = hosts.count(builds)
	answer.Silent = max(0, answer.Reported-len(answer.Hosts))
	return nil
}

// Text writes tables of hosts and labels.
func (w *Who) Text(out io.Writer, s Style) error {
	for _, p := range w.Places {
		text := place(s, p.File, p.Line)
		if p.Last > p.Line {
			text += "-" + number0(p.Last)
		}
		if p.Function != "" {
			text += " " + p.Function
		}
		if err := say(out, "%s\n", text); err != nil {
			return err
		}
	}
	ran := "no host has reported of it\n"
	if w.Reported > 0 {
		ran = fmt.Sprintf("ran on %s of %s that reported of it\n", number(len(w.Hosts)), plural(w.Reported, "host"))
	}
	if err := say(out, "%s", ran); err != nil {
		return err
	}
	most := mostRows
	if s.All {
		most = 0
	}
	if w.Pushed > 0 {
		if err := say(out, "%s in results that were pushed\n", plural(int(min(w.Pushed, 1<<62)), "run")); err != nil {
			return err
		}
	}
	if len(w.Hosts) > 0 {
		t := newTable("runs", "host").right(0)
		for _, h := range w.Hosts {
			t.row(number(h.Runs), h.Host)
		}
		if err := say(out, "\n"); err != nil {
			return err
		}
		if err := t.write(out, most); err != nil {
			return err
		}
	}
	if len(w.Labels) > 0 {
		t := newTable("runs", "hosts", "label").right(0, 1)
		for _, l := range w.Labels {
			t.row(number(l.Runs), number(l.Hosts), l.Name+"="+l.Value)
		}
		if err := say(out, "\n"); err != nil {
			return err
		}
		return t.write(out, most)
	}
	return nil
}

// Tests are which tests ran a place.
type Tests struct {
	Of    string    `json:"of"`
	Tests []TestRun `json:"tests"` // those that ran most lines first
}

// A TestRun is what a test ran of it.
type TestRun struct {
	Test  string `json:"test"`
	Lines int    `json:"lines"`
	Runs  int64  `json:"runs"` // of the line that ran most
}

func (a *Ask) tests(ctx context.Context, p *parameters) (Answer, error) {
	of := p.one("of", "")
	w, err := parseWanted(of)
	if err != nil {
		return nil, err
	}
	if w.function != "" {
		return nil, wrong("of: %q is not FILE, FILE:LINE or FILE:FROM-TO", of)
	}
	set, err := a.tested(ctx, &p.Query, func(name string) bool {
		path, keep := a.resolve(name)
		return keep && (w.fits(name) || w.fits(path))
	})
	if err != nil {
		return nil, err
	}
	if set.Len() == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNoData, of)
	}
	answer := &Tests{Of: of, Tests: []TestRun{}}
	found := make(map[string]int)
	for _, f := range set.All() {
		for _, t := range f.Tests {
			for line, count := range t.Hits.All() {
				if line < w.first || line > w.last {
					continue
				}
				i, known := found[t.Name]
				if !known {
					i = len(answer.Tests)
					found[t.Name] = i
					answer.Tests = append(answer.Tests, TestRun{Test: t.Name})
				}
				one := &answer.Tests[i]
				one.Lines++
				one.Runs = max(one.Runs, count)
			}
		}
	}
	slices.SortFunc(answer.Tests, func(a, b TestRun) int {
		return cmp.Or(cmp.Compare(b.Lines, a.Lines), cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.Test, b.Test))
	})
	return answer, nil
}

// Text writes a table.
func (t *Tests) Text(w io.Writer, s Style) error {
	if len(t.Tests) == 0 {
		return say(w, "%s ran in no test\n", t.Of)
	}
	table := newTable("lines", "runs", "test").right(0, 1)
	for _, one := range t.Tests {
		table.row(number(one.Lines), number(one.Runs), one.Test)
	}
	return table.write(w, 0)
}
