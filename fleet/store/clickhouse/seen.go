package clickhouse

import (
	"bytes"
	"cmp"
	"context"
	"fmt"

	"footfall/fleet/store"
)

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

	zeros   []uint64
	members []member // that have not been met, in the order of ids
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
	times := timesReader{counters: r.counters, use: r.seen}
	if err := times.read(ctx, s, db, inBuilds(builds)); err != nil {
		return err
	}
	return r.unseen(nil)
}

// counters is how many a unit has; -1: it was told a moment ago.
func (r *seenReader) counters(unit id) (int, error) {
	if l, known := r.units[unit]; known {
		return l.Unit.Counters, nil
	}
	return -1, nil
}

// seen uses what was seen of a member.
func (r *seenReader) seen(key timesKey, first, last []uint64) error {
	m := member{key.build, key.unit}
	if err := r.unseen(&m); err != nil {
		return err
	}
	if len(r.members) > 0 && r.members[0] == m {
		r.members = r.members[1:]
	}
	l := r.units[key.unit]
	l.Build, l.Pushed, l.First, l.Last = r.names[key.build], key.pushed, first, last
	return r.use(l)
}

// unseen uses the members before one, which were never seen; nil: all that are left.
func (r *seenReader) unseen(until *member) error {
	for len(r.members) > 0 && (until == nil || r.members[0].before(until)) {
		m := r.members[0]
		r.members = r.members[1:]
		l, known := r.units[m.unit]
		if !known {
			continue // it was told a moment ago
		}
		r.zeros = zeros(r.zeros, l.Unit.Counters)
		l.Build, l.First, l.Last = r.names[m.build], r.zeros, r.zeros
		if err := r.use(l); err != nil {
			return err
		}
	}
	return nil
}
