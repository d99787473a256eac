package ask

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"footfall/fleet/store"
)

// A BuildEvidence tells who has reported of a build.
type BuildEvidence struct {
	Build     string    `json:"build"`
	Release   string    `json:"release,omitempty"`
	Hosts     int       `json:"hosts"`
	Instances int       `json:"instances"`      // processes on these
	Results   int       `json:"results"`        // that were pushed
	First     time.Time `json:"first,omitzero"` // beginnings of windows; zero: never
	Last      time.Time `json:"last,omitzero"`
}

// evidence returns that of the builds of a query, in the order in which they were first reported.
func (a *Ask) evidence(ctx context.Context, q *store.Query) (with, without []BuildEvidence, err error) {
	all, err := a.Store.Evidence(ctx, q)
	for _, e := range all {
		one := BuildEvidence{e.Build, e.Release, e.Hosts, e.Instances, e.Pushed, utc(e.First), utc(e.Last)}
		if one.known() {
			with = append(with, one)
		} else {
			without = append(without, one)
		}
	}
	slices.SortStableFunc(with, func(a, b BuildEvidence) int { return a.First.Compare(b.First) })
	return with, without, err
}

// origin decides whose counts a question is about, unless that is said: those of hosts, if any has reported of the builds,
// and else results that were pushed. What tests run does not tell what is used.
func (a *Ask) origin(ctx context.Context, p *parameters) error {
	if p.values.Has("in") || len(p.Hosts) > 0 {
		return nil
	}
	all, err := a.Store.Evidence(ctx, &store.Query{Builds: p.Builds, Releases: p.Releases})
	p.Origin = store.Pushed
	if slices.ContainsFunc(all, func(e store.Evidence) bool { return e.Hosts > 0 }) {
		p.Origin = store.OnHosts
	}
	return err
}

// originNames are the values of parameter "in".
var originNames = map[store.Origin]string{store.Anywhere: "all", store.OnHosts: "hosts", store.Pushed: "tests"}

func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}

// seconds is a time of a vector.
func seconds(n uint64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(int64(n), 0).UTC()
}

// known tells whether there is any.
func (e *BuildEvidence) known() bool { return e.Instances+e.Results > 0 }

func buildsOf(list []BuildEvidence) []string {
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Build
	}
	return names
}

// A hostsOf has numbers of the hosts that reported of each build, in bits.
type hostsOf map[string][]uint64

// hosts returns who reported of the builds of a query.
func (a *Ask) hosts(ctx context.Context, q *store.Query) (hostsOf, error) {
	numbers, of := make(map[string]int), make(hostsOf)
	return of, a.Store.Reports(ctx, q, func(r store.HostReport) error {
		if r.Host == "" {
			return nil // a result that was pushed
		}
		n, known := numbers[r.Host]
		if !known {
			n = len(numbers)
			numbers[r.Host] = n
		}
		bits := of[r.Build]
		for len(bits) <= n/64 {
			bits = append(bits, 0)
		}
		bits[n/64] |= 1 << (n % 64)
		of[r.Build] = bits
		return nil
	})
}

// count returns how many hosts reported of any of the builds.
func (h hostsOf) count(builds []string) int {
	var together []uint64
	for _, b := range builds {
		for i, word := range h[b] {
			if i == len(together) {
				together = append(together, 0)
			}
			together[i] |= word
		}
	}
	return ones(together)
}

// A Release is a release, and who reported of it.
type Release struct {
	Release string          `json:"release"` // "": builds of which none was told
	Hosts   int             `json:"hosts"`
	First   time.Time       `json:"first,omitzero"`
	Last    time.Time       `json:"last,omitzero"`
	Builds  []BuildEvidence `json:"builds"`
}

// Processes is how many reported of it on hosts.
func (r *Release) Processes() (n int) {
	for _, b := range r.Builds {
		n += b.Instances
	}
	return n
}

// Results is how many were pushed of it.
func (r *Release) Results() (n int) {
	for _, b := range r.Builds {
		n += b.Results
	}
	return n
}

// Releases are those that are known, the newest first: by when they were first reported of, then by name.
type Releases struct {
	Releases []Release `json:"releases"`
}

func (a *Ask) releases(ctx context.Context, p *parameters) (Answer, error) {
	with, without, err := a.evidence(ctx, &p.Query)
	if err != nil {
		return nil, err
	}
	hosts, err := a.hosts(ctx, &p.Query)
	if err != nil {
		return nil, err
	}
	answer := &Releases{Releases: byRelease(append(with, without...), hosts)}
	slices.SortStableFunc(answer.Releases, func(a, b Release) int {
		return cmp.Or(b.First.Compare(a.First), b.Last.Compare(a.Last), strings.Compare(b.Release, a.Release))
	})
	return answer, nil
}

// byRelease has the builds by release, in the order of the first of each.
func byRelease(builds []BuildEvidence, hosts hostsOf) []Release {
	list := []Release{}
	for _, e := range builds {
		i := slices.IndexFunc(list, func(r Release) bool { return r.Release == e.Release })
		if i < 0 {
			i = len(list)
			list = append(list, Release{Release: e.Release})
		}
		r := &list[i]
		r.Builds = append(r.Builds, e)
		if !e.First.IsZero() && (r.First.IsZero() || e.First.Before(r.First)) {
			r.First = e.First
		}
		if e.Last.After(r.Last) {
			r.Last = e.Last
		}
	}
	for i := range list {
		list[i].Hosts = hosts.count(buildsOf(list[i].Builds))
	}
	return list
}

// Text writes a table.
func (r *Releases) Text(w io.Writer, _ Style) error {
	t := newTable("hosts", "processes", "pushed", "builds", "first", "last", "release").right(0, 1, 2, 3)
	for _, r := range r.Releases {
		t.row(number(r.Hosts), number(r.Processes()), number(r.Results()), number(len(r.Builds)), day(r.First), day(r.Last), releaseName(r.Release))
	}
	if len(r.Releases) == 0 {
		return say(w, "nothing has been reported yet\n")
	}
	return t.write(w, 0)
}

func releaseName(release string) string {
	if release == "" {
		return "(no release)"
	}
	return release
}
