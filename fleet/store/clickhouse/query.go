package clickhouse

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"footfall/fleet/store"
)

// slack is how much later than at first what counts once may have been told again, by two servers at the same moment.
const slack = 24 * 60 * 60

// reached is a query of what each instance has reached in each window that began in a period: the greatest values.
func (s *Store) reached(where []string, in period) string {
	where = append(slices.Clone(where), fmt.Sprintf("window >= %d AND window < %d", in.first-min(slack, in.first), in.last+min(slack, never-in.last)))
	return fmt.Sprintf("SELECT build, unit, host, labels, maxForEachMerge(hits) AS m FROM %s WHERE %s GROUP BY build, unit, host, labels, instance, if(once = 1, toUInt32(0), window) HAVING min(window) >= %d AND min(window) < %d",
		s.table("usage"), strings.Join(where, " AND "), in.first, in.last)
}

// Sums end at the most that a number holds: those of the upper and of the lower halves of numbers tell whether they do.
const (
	halves      = "sumForEach(arrayMap(x -> bitShiftRight(x, 32), m)) AS hi, sumForEach(arrayMap(x -> bitAnd(x, 4294967295), m)) AS lo"
	sumOfHalves = "arrayMap((h, l) -> if(h + bitShiftRight(l, 32) > 4294967295, toUInt64(18446744073709551615), toUInt64(bitShiftLeft(h, 32) + l)), hi, lo)"
)

// conditions are those of a query on usage and rollup but for time; none: it chooses nothing.
func (s *Store) conditions(q *store.Query, builds []build) (where []string, none bool) {
	where = []string{"1"}
	if len(q.Builds)+len(q.Releases) > 0 {
		if len(builds) == 0 {
			return nil, true
		}
		where = append(where, inBuilds(builds))
	}
	if len(q.Hosts) > 0 {
		where = append(where, inTexts("host", q.Hosts))
	}
	switch q.Origin {
	case store.OnHosts:
		where = append(where, "host != ''")
	case store.Pushed:
		where = append(where, "host = ''")
	}
	if len(q.Labels) > 0 {
		var has []string
		for name, value := range q.Labels {
			has = append(has, fmt.Sprintf("has(names, %[1]s) AND values[indexOf(names, %[1]s)] = %[2]s", quote(name), quote(value)))
		}
		where = append(where, fmt.Sprintf("labels IN (SELECT labels FROM %s WHERE %s)", s.table("labels"), strings.Join(has, " AND ")))
	}
	return where, false
}

// counted is a query of all that a query chooses: by window, and by day of those that have been rolled up.
func (s *Store) counted(q *store.Query, where []string, l limits) string {
	of := period{0, never}
	if !q.From.IsZero() {
		of.first = seconds(q.From)
	}
	if !q.To.IsZero() {
		of.last = seconds(q.To)
	}
	windows := period{max(of.first, l.rolled), max(of.last, l.rolled)}
	days := append(slices.Clone(where), fmt.Sprintf("day >= %d AND day < %d", max(of.first, l.forgotten), min(of.last, l.rolled)))
	return fmt.Sprintf("%s UNION ALL SELECT build, unit, host, labels, maxForEachMerge(hits) AS m FROM %s WHERE %s GROUP BY build, unit, host, labels, day",
		s.reached(where, windows), s.table("rollup"), strings.Join(days, " AND "))
}

// steady calls do with the limits, and again if these have changed meanwhile: what it has read may have been dropped.
func (s *Store) steady(ctx context.Context, do func(limits) error) error {
	l, err := s.limits(ctx)
	for err == nil {
		if err = do(l); err != nil {
			break
		}
		var now limits
		now, err = s.limits(ctx)
		if now.rolled == l.rolled && now.forgotten == l.forgotten {
			break
		}
		l = now
	}
	return err
}

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
		u := store.Unit{Kind: a.text(), Name: a.text(), Counters: int(a.u32())}
		packed := a.bytes()
		if a.err != nil {
			return nil
		}
		if programs {
			var err error
			if u.Program, err = unpacker().DecodeAll(packed, nil); err != nil {
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

// countersOf returns how many counters units have, by their ids, and their hashes.
func (s *Store) countersOf(ctx context.Context, where string) (map[id]unit, error) {
	units := make(map[id]unit)
	return units, s.db.query(ctx, "SELECT hash, counters FROM "+s.table("unit")+" WHERE "+where, func(a *answer) error {
		var u unit
		a.fixed(u.hash[:])
		u.counters = int(a.u32())
		units[unitID(u.hash)] = u
		return nil
	})
}

// Totals calls use with each unit of the builds of the query, and the sums of what that chooses.
func (s *Store) Totals(ctx context.Context, q *store.Query, programs bool, use func(store.Total) error) error {
	builds, err := s.builds(ctx, q)
	if err != nil || len(builds) == 0 {
		return err
	}
	where, _ := s.conditions(q, builds)
	units, err := s.countersOf(ctx, s.member(q, builds))
	if err != nil {
		return err
	}
	var sums map[id][]uint64
	var mu sync.Mutex // of sums: nodes are asked at the same time
	err = s.steady(ctx, func(l limits) error {
		sums = make(map[id][]uint64)
		query := fmt.Sprintf("SELECT unit, %s FROM (SELECT unit, %s FROM (%s) GROUP BY unit)", sumOfHalves, halves, s.counted(q, where, l))
		return s.onNodes(func(_ int, db *database) error {
			return db.query(ctx, query, func(a *answer) error {
				unit := a.id()
				u, known := units[unit]
				if !known { // it was told a moment ago
					a.skip(8)
					return nil
				}
				hits := a.numbers(u.counters)
				mu.Lock()
				sums[unit] = hits
				mu.Unlock()
				return nil
			})
		})
	})
	if err != nil {
		return err
	}
	return s.eachUnit(ctx, s.member(q, builds), programs, func(hash store.Hash, u store.Unit) error {
		hits := sums[unitID(hash)]
		if hits == nil {
			hits = make([]uint64, u.Counters)
		}
		return use(store.Total{Unit: u, Hash: hash, Hits: hits})
	})
}

// Shares calls use with each host's part of what was counted in the units, by the sets of labels that it reported with.
func (s *Store) Shares(ctx context.Context, q *store.Query, hashes []store.Hash, use func(store.Share) error) error {
	builds, err := s.builds(ctx, q)
	if err != nil || len(builds) == 0 {
		return err
	}
	where, _ := s.conditions(q, builds)
	if len(hashes) == 0 {
		return s.shares(ctx, q, where, s.member(q, builds), use)
	}
	return inParts(hashes, func(of string) error { return s.shares(ctx, q, append(slices.Clone(where), of), of, use) })
}

func (s *Store) shares(ctx context.Context, q *store.Query, where []string, which string, use func(store.Share) error) error {
	units, err := s.countersOf(ctx, which)
	if err != nil {
		return err
	}
	labels, err := s.labels(ctx)
	if err != nil {
		return err
	}
	var list []store.Share
	var mu sync.Mutex // of list
	err = s.steady(ctx, func(l limits) error {
		list = list[:0]
		query := fmt.Sprintf("SELECT unit, host, labels, %s FROM (SELECT unit, host, labels, %s FROM (%s) GROUP BY unit, host, labels)", sumOfHalves, halves, s.counted(q, where, l))
		return s.onNodes(func(_ int, db *database) error {
			return db.query(ctx, query, func(a *answer) error {
				unit := a.id()
				u, known := units[unit]
				one := store.Share{Host: a.text(), Unit: u.hash}
				one.Labels = labels[a.id()]
				if !known { // it was told a moment ago
					a.skip(8)
					return nil
				}
				one.Hits = a.numbers(u.counters)
				mu.Lock()
				list = append(list, one)
				mu.Unlock()
				return nil
			})
		})
	})
	for i := range list {
		if err == nil {
			err = use(list[i])
		}
	}
	return err
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

// LastSeen calls use with each unit of the builds of the query, and when its counters were seen to count.
func (s *Store) LastSeen(ctx context.Context, q *store.Query, use func(store.LastSeen) error) error {
	builds, err := s.builds(ctx, q)
	if err != nil || len(builds) == 0 {
		return err
	}
	units := make(map[id]store.LastSeen)
	if err := s.eachUnit(ctx, s.member(q, builds), false, func(hash store.Hash, u store.Unit) error {
		units[unitID(hash)] = store.LastSeen{Unit: u, Hash: hash}
		return nil
	}); err != nil {
		return err
	}
	names := make(map[id]string)
	for i := range builds {
		names[builds[i].id] = builds[i].name
	}
	r := seenReader{s: s, units: units, names: names, use: use}
	if len(s.nodes) == 1 {
		return r.read(ctx, s.db, 0, builds)
	}
	for i := range builds { // which come one after the other
		for n, db := range s.nodes {
			if err := r.read(ctx, db, n, builds[i:i+1]); err != nil {
				return err
			}
		}
	}
	return nil
}

// A seenReader reads when the counters of units were seen to count.
type seenReader struct {
	s     *Store
	units map[id]store.LastSeen // without times
	names map[id]string         // of builds
	use   func(store.LastSeen) error

	firsts, lasts []uint64
	members       []member // that have not been met, in the order of ids
}

// A member is a unit of a build.
type member struct{ build, unit id }

func (m *member) before(other *member) bool {
	return cmp.Or(bytes.Compare(m.build[:], other.build[:]), bytes.Compare(m.unit[:], other.unit[:])) < 0
}

// read reads the units of builds that a node has, those that never counted included.
func (r *seenReader) read(ctx context.Context, db *database, node int, builds []build) error {
	s := r.s
	r.members = r.members[:0]
	if err := s.db.query(ctx, fmt.Sprintf("SELECT DISTINCT build, unit FROM %s WHERE %s ORDER BY build, unit", s.table("member"), inBuilds(builds)), func(a *answer) error {
		if m := (member{a.id(), a.id()}); s.shard(m.unit) == node {
			r.members = append(r.members, m)
		}
		return nil
	}); err != nil {
		return err
	}
	var scratch []byte
	err := db.query(ctx, fmt.Sprintf("SELECT build, unit, pushed, minForEachMerge(first), maxForEachMerge(last) FROM %s WHERE %s GROUP BY build, unit, pushed ORDER BY build, unit, pushed",
		s.table("seen"), inBuilds(builds)), func(a *answer) error {
		m := member{a.id(), a.id()}
		pushed := a.u8() != 0
		if err := r.unseen(&m); err != nil {
			return err
		}
		if len(r.members) > 0 && r.members[0] == m {
			r.members = r.members[1:]
		}
		l, known := r.vectors(m)
		if !known { // it was told a moment ago
			a.skip(4)
			a.skip(4)
			return nil
		}
		l.Pushed = pushed
		a.times(l.First, never, &scratch)
		a.times(l.Last, never, &scratch)
		if a.err != nil {
			return nil
		}
		return r.use(l)
	})
	if err != nil {
		return err
	}
	return r.unseen(nil)
}

// vectors is a member, with memory for its times.
func (r *seenReader) vectors(m member) (l store.LastSeen, known bool) {
	l, known = r.units[m.unit]
	n := l.Unit.Counters
	r.firsts, r.lasts = slices.Grow(r.firsts[:0], n), slices.Grow(r.lasts[:0], n)
	l.Build, l.First, l.Last = r.names[m.build], r.firsts[:n], r.lasts[:n]
	return l, known
}

// unseen uses the members before one, which were never seen; nil: all that are left.
func (r *seenReader) unseen(until *member) error {
	for len(r.members) > 0 && (until == nil || r.members[0].before(until)) {
		l, known := r.vectors(r.members[0])
		r.members = r.members[1:]
		clear(l.First)
		clear(l.Last)
		if !known {
			continue // it was told a moment ago
		}
		if err := r.use(l); err != nil {
			return err
		}
	}
	return nil
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
