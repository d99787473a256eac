package clickhouse

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"footfall/fleet/store"
)

// slack is how much later than at first what counts once may have been told again, by two servers at the same moment.
const slack = 24 * 60 * 60

// reached is a query of what each instance has reached in each window that began in a period, as often as it was told.
func (s *Store) reached(where []string, in period) string {
	where = append(slices.Clone(where), fmt.Sprintf("window >= %d AND window < %d", in.first-min(slack, in.first), in.last+min(slack, never-in.last)))
	return fmt.Sprintf("SELECT unit, host, labels, 'reached' AS told, groupUniqArray(hits) AS vectors FROM %s WHERE %s GROUP BY build, unit, host, labels, instance, if(once = 1, toUInt32(0), window) HAVING min(window) >= %d AND min(window) < %d",
		s.table("reached"), strings.Join(where, " AND "), in.first, in.last)
}

// conditions are those of a query on reached and sums but for time; none: it chooses nothing.
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

// counted is a query of all that a query chooses: by instance and window, and by day of those that have been rolled up.
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
	return fmt.Sprintf("%s UNION ALL SELECT unit, host, labels, 'sums' AS told, groupUniqArray(hits) AS vectors FROM %s WHERE %s GROUP BY build, unit, host, labels, day",
		s.reached(where, windows), s.table("sums"), strings.Join(days, " AND "))
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

// zeros is n zeros, in the memory of v if there is enough.
func zeros(v []uint64, n int) []uint64 {
	v = slices.Grow(v[:0], n)[:n]
	clear(v)
	return v
}

// A merger reads what has been told of a vector, again and again, and merges it.
type merger struct{ v, other []uint64 }

// greatest reads an array of packed vectors of n counters, and returns the greatest of each counter, which holds until the
// merger reads again.
func (m *merger) greatest(a *answer, n int) ([]uint64, error) {
	m.v, m.other = slices.Grow(m.v[:0], n)[:n], slices.Grow(m.other[:0], n)[:n]
	none := true
	err := a.each(func(b []byte) error {
		if none {
			none = false
			return store.UnpackInto(b, m.v)
		}
		if err := store.UnpackInto(b, m.other); err != nil {
			return err
		}
		store.Greatest(m.v, m.other)
		return nil
	})
	if none {
		clear(m.v)
	}
	return m.v, err
}

// A count is what an instance has reached in a window, or all of them in a day, in a unit. Its hits are for the call only.
type count struct {
	countKey
	hits []uint64
}

// A countKey is what counts are added up by.
type countKey struct {
	unit   id
	host   string
	labels id
}

// A countReader reads rows of what [Store.reached] and [Store.counted] ask for.
type countReader struct {
	units map[id]unit
	merger
}

// read reads a row. known is that its unit is one of the reader's.
func (r *countReader) read(a *answer) (c count, known bool, err error) {
	c.countKey = countKey{a.id(), a.text(), a.id()}
	table := a.text()
	u, known := r.units[c.unit]
	if !known {
		a.skip()
		return c, false, nil
	}
	if c.hits, err = r.greatest(a, u.counters); err != nil {
		err = unpacked(table, c.unit, u.counters, err)
	}
	return c, true, err
}

// unpacked is the error of a vector, or of times, that a table has.
func unpacked(table string, unit id, counters int, err error) error {
	return fmt.Errorf("table %s, unit %x: packed numbers of its %d counters were expected, restore the table from a backup: %w", table, unit[:8], counters, err)
}

// eachCount calls use, one call after the other, with what was counted in units, of all nodes. It may begin anew: again is
// called before.
func (s *Store) eachCount(ctx context.Context, q *store.Query, where []string, units map[id]unit, again func(), use func(*count)) error {
	return s.steady(ctx, func(l limits) error {
		again()
		var mu sync.Mutex
		query := "SELECT unit, host, labels, told, vectors FROM (" + s.counted(q, where, l) + ")"
		return s.onNodes(func(_ int, db *database) error {
			r := countReader{units: units}
			return db.query(ctx, query, func(a *answer) error {
				c, known, err := r.read(a)
				if err != nil || a.err != nil || !known { // it was told a moment ago
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				use(&c)
				return nil
			})
		})
	})
}

// add adds what was counted to sums.
func add[K comparable](sums map[K][]uint64, key K, hits []uint64) {
	if sum := sums[key]; sum != nil {
		store.Add(sum, hits)
	} else {
		sums[key] = slices.Clone(hits)
	}
}

// countersOf returns how many counters units have, by their ids, and their hashes.
func (s *Store) countersOf(ctx context.Context, where string) (map[id]unit, error) {
	units := make(map[id]unit)
	return units, s.db.query(ctx, "SELECT hash, counters FROM "+s.table("unit")+" WHERE "+where, func(a *answer) (err error) {
		var u unit
		a.fixed(u.hash[:])
		u.counters, err = a.counters()
		units[unitID(u.hash)] = u
		return err
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
	sums := make(map[id][]uint64)
	if err := s.eachCount(ctx, q, where, units, func() { clear(sums) }, func(c *count) { add(sums, c.unit, c.hits) }); err != nil {
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
	sums := make(map[countKey][]uint64)
	if err := s.eachCount(ctx, q, where, units, func() { clear(sums) }, func(c *count) { add(sums, c.countKey, c.hits) }); err != nil {
		return err
	}
	for key, hits := range sums {
		if err := use(store.Share{Host: key.host, Labels: labels[key.labels], Unit: units[key.unit].hash, Hits: hits}); err != nil {
			return err
		}
	}
	return nil
}
