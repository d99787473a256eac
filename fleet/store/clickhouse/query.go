package clickhouse

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"footfall/fleet/store"
)

// A build is one that there is.
type build struct {
	id            id
	name, release string
	first, last   uint64 // when it was told, and the release
}

// builds returns those of a query in the order in which they were told.
func (s *Store) builds(ctx context.Context, q *store.Query) (list []build, err error) {
	found := make(map[id]*build)
	where := ""
	if len(q.Builds) > 0 {
		where = " WHERE " + inTexts("name", q.Builds)
	}
	err = s.db.query(ctx, "SELECT build, name, release, told FROM "+s.table("build")+where, func(a *answer) error {
		one := build{id: a.id(), name: a.text(), release: a.text()}
		told := a.u64()
		b := found[one.id]
		if b == nil {
			b = &build{id: one.id, name: one.name, first: told}
			found[one.id] = b
		}
		b.first = min(b.first, told)
		if one.release != "" && told >= b.last {
			b.release, b.last = one.release, told
		}
		return nil
	})
	for _, b := range found {
		if len(q.Releases) == 0 || slices.Contains(q.Releases, b.release) {
			list = append(list, *b)
		}
	}
	slices.SortFunc(list, func(a, b build) int { return cmp.Or(cmp.Compare(a.first, b.first), strings.Compare(a.name, b.name)) })
	return list, err
}

func inBuilds(list []build) string {
	return in("build", list, func(b *build) string { return string(b.id[:]) })
}

// member is the condition that a unit is one of builds, which a query is about.
func (s *Store) member(q *store.Query, builds []build) string {
	is := "<>"
	if q.Texts {
		is = "="
	}
	return fmt.Sprintf("kind %s %s AND unit IN (SELECT unit FROM %s WHERE %s)", is, quote(store.Text), s.table("member"), inBuilds(builds))
}

// eachUnit calls use with units, of which the condition tells, in the order of their names.
func (s *Store) eachUnit(ctx context.Context, where string, programs bool, use func(store.Hash, store.Unit) error) error {
	program := "''"
	if programs {
		program = "program"
	}
	return s.db.query(ctx, fmt.Sprintf("SELECT hash, kind, name, counters, %s FROM %s WHERE %s ORDER BY name, unit LIMIT 1 BY unit", program, s.table("unit"), where), func(a *answer) error {
		var hash store.Hash
		a.fixed(hash[:])
		u := store.Unit{Kind: a.text(), Name: a.text()}
		var err error
		u.Counters, err = a.counters()
		packed := a.bytes()
		if err != nil || a.err != nil {
			return err
		}
		if programs {
			if u.Program, err = unpacker.DecodeAll(packed, nil); err != nil {
				return fmt.Errorf("unit %s: %w", u.Name, err)
			}
		}
		return use(hash, u)
	})
}

// Units calls use with each unit, or text, of the builds of the query.
func (s *Store) Units(ctx context.Context, q *store.Query, use func(store.Hash, store.Unit) error) error {
	builds, err := s.builds(ctx, q)
	if err != nil || len(builds) == 0 {
		return err
	}
	return s.eachUnit(ctx, s.member(q, builds), false, use)
}

// Programs calls use with the units that have these hashes.
func (s *Store) Programs(ctx context.Context, hashes []store.Hash, use func(store.Hash, store.Unit) error) error {
	return inParts(hashes, func(where string) error { return s.eachUnit(ctx, where, true, use) })
}

// inParts calls do with conditions for units of these hashes, each for as many as a query may name.
func inParts(hashes []store.Hash, do func(where string) error) error {
	for some := range slices.Chunk(hashes, idsTogether) {
		ids := make([]id, len(some))
		for i, hash := range some {
			ids[i] = unitID(hash)
		}
		if err := do(inIDs("unit", ids)); err != nil {
			return err
		}
	}
	return nil
}

// labels returns the sets of labels that there are.
func (s *Store) labels(ctx context.Context) (map[id]map[string]string, error) {
	all := make(map[id]map[string]string)
	return all, s.db.query(ctx, "SELECT labels, names, values FROM "+s.table("labels"), func(a *answer) error {
		key, names, values := a.id(), a.texts(), a.texts()
		of := make(map[string]string, len(names))
		for i := range min(len(names), len(values)) {
			of[names[i]] = values[i]
		}
		all[key] = of
		return nil
	})
}

// sorted are labels by their names.
func sorted(labels map[string]string) (names, values []string) {
	for name := range labels {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		values = append(values, labels[name])
	}
	return names, values
}

// Reports calls use with each build of the query and each host that reported of it.
func (s *Store) Reports(ctx context.Context, q *store.Query, use func(store.HostReport) error) error {
	builds, err := s.builds(ctx, q)
	if err != nil || len(builds) == 0 {
		return err
	}
	of, err := s.reports(ctx, q, builds)
	for i := range builds {
		for _, r := range of[builds[i].id] {
			if err == nil {
				err = use(r)
			}
		}
	}
	return err
}

// reports are those of a query, by build, and by host.
func (s *Store) reports(ctx context.Context, q *store.Query, builds []build) (map[id][]store.HostReport, error) {
	names := make(map[id]*build)
	for i := range builds {
		names[builds[i].id] = &builds[i]
	}
	timeless := *q
	timeless.Labels = nil
	where, _ := s.conditions(&timeless, builds)
	var during []string
	if !q.From.IsZero() {
		during = append(during, fmt.Sprintf("maxMerge(last) >= %d", seconds(q.From)))
	}
	if !q.To.IsZero() {
		during = append(during, fmt.Sprintf("minMerge(first) < %d", seconds(q.To)))
	}
	having := ""
	if len(during) > 0 {
		having = " HAVING " + strings.Join(during, " AND ")
	}
	all := make(map[id][]store.HostReport)
	return all, s.db.query(ctx, fmt.Sprintf("SELECT build, host, uniqExactMerge(instances), minMerge(first), maxMerge(last) FROM %s WHERE %s GROUP BY build, host%s ORDER BY build, host", s.table("reported"), strings.Join(where, " AND "), having), func(a *answer) error {
		key := a.id()
		r := store.HostReport{Host: a.text(), Instances: int(a.u64()), First: time.Unix(int64(a.u32()), 0), Last: time.Unix(int64(a.u32()), 0)}
		if b := names[key]; b != nil {
			r.Build, r.Release = b.name, b.release
			all[key] = append(all[key], r)
		}
		return nil
	})
}

// Evidence returns for each build of the query who reported of it.
func (s *Store) Evidence(ctx context.Context, q *store.Query) (all []store.Evidence, err error) {
	builds, err := s.builds(ctx, q)
	if err != nil || len(builds) == 0 {
		return nil, err
	}
	of, err := s.reports(ctx, q, builds)
	if err != nil {
		return nil, err
	}
	for i := range builds {
		e := store.Evidence{Build: builds[i].name, Release: builds[i].release}
		for n, r := range of[builds[i].id] {
			if r.Host == "" {
				e.Pushed += r.Instances
			} else {
				e.Hosts++
				e.Instances += r.Instances
			}
			if n == 0 || r.First.Before(e.First) {
				e.First = r.First
			}
			if r.Last.After(e.Last) {
				e.Last = r.Last
			}
		}
		all = append(all, e)
	}
	return all, nil
}
