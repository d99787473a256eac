package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"footfall/fleet/store"
)

// A condition is text of SQL and its arguments.
type condition struct {
	all  []string
	args []any
}

func (c *condition) add(text string, args ...any) {
	c.all = append(c.all, text)
	c.args = append(c.args, args...)
}

// oneOf is the condition that an expression is one of the values; none: any.
func (c *condition) oneOf(expression string, values []string) {
	if len(values) == 0 {
		return
	}
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = v
	}
	c.add(expression+" IN (?"+strings.Repeat(", ?", len(values)-1)+")", args...)
}

func (c *condition) String() string {
	if len(c.all) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.all, " AND ")
}

// from is the condition that a host is of an origin.
func (c *condition) from(o store.Origin, host string) {
	switch o {
	case store.OnHosts:
		c.add(host + " <> ''")
	case store.Pushed:
		c.add(host + " = ''")
	}
}

// buildsOf is the condition of the query for table build.
func buildsOf(q *store.Query) (c condition) {
	c.oneOf("build.name", q.Builds)
	c.oneOf("build.release", q.Releases)
	return c
}

// kindOf is the condition of the query for table unit.
func kindOf(q *store.Query) string {
	if q.Texts {
		return "unit.kind = '" + store.Text + "'"
	}
	return "unit.kind <> '" + store.Text + "'"
}

// countedOf is that for usage or rollup, by the names of their columns.
func countedOf(q *store.Query, at, host string) condition {
	c := buildsOf(q)
	if !q.From.IsZero() {
		c.add(at+" >= ?", q.From.Unix())
	}
	if !q.To.IsZero() {
		c.add(at+" < ?", q.To.Unix())
	}
	c.oneOf(host, q.Hosts)
	c.from(q.Origin, host)
	for name, value := range q.Labels {
		text, _ := json.Marshal(name)
		c.add("json_extract(labels.text, ?) = ?", "$."+string(text), value)
	}
	return c
}

// Totals calls use with each unit of the builds of the query, and the sums of what that chooses.
func (s *Store) Totals(ctx context.Context, q *store.Query, programs bool, use func(store.Total) error) error {
	return s.reading(ctx, func(tx *sql.Tx) error {
		sums, err := sumsOf(ctx, tx, q)
		if err != nil {
			return err
		}
		return unitsOf(ctx, tx, q, programs, func(id int64, u store.Unit, hash store.Hash) error {
			hits := sums[id]
			if hits == nil {
				hits = make([]uint64, u.Counters)
			}
			return use(store.Total{Unit: u, Hash: hash, Hits: hits})
		})
	})
}

// Units calls use with each unit, or text, of the builds of the query, without its program.
func (s *Store) Units(ctx context.Context, q *store.Query, use func(store.Hash, store.Unit) error) error {
	return s.reading(ctx, func(tx *sql.Tx) error {
		return unitsOf(ctx, tx, q, false, func(_ int64, u store.Unit, hash store.Hash) error { return use(hash, u) })
	})
}

// reading calls do in a transaction, within which nothing changes.
func (s *Store) reading(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	return do(tx)
}

// sumsOf adds up what the query chooses, by unit.
func sumsOf(ctx context.Context, tx *sql.Tx, q *store.Query) (map[int64][]uint64, error) {
	sums := make(map[int64][]uint64)
	for _, table := range []struct{ text, at, host string }{
		{"SELECT usage.unit, unit.counters, usage.hits FROM usage JOIN unit ON unit.id = usage.unit JOIN instance ON instance.id = usage.instance" +
			" JOIN build ON build.id = instance.build JOIN labels ON labels.id = instance.labels", "usage.window", "instance.host"},
		{"SELECT rollup.unit, unit.counters, rollup.hits FROM rollup JOIN unit ON unit.id = rollup.unit" +
			" JOIN build ON build.id = rollup.build JOIN labels ON labels.id = rollup.labels", "rollup.day", "rollup.host"},
	} {
		where := countedOf(q, table.at, table.host)
		err := each(ctx, tx, table.text+where.String(), where.args, func(scan func(...any) error) error {
			var unit int64
			var counters int
			var packed sql.RawBytes
			if err := scan(&unit, &counters, &packed); err != nil {
				return err
			}
			hits, err := store.UnpackVector(packed, counters)
			if err != nil {
				return fmt.Errorf("unit %d: %w", unit, err)
			}
			if sums[unit] == nil {
				sums[unit] = hits
			} else {
				store.Add(sums[unit], hits)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return sums, nil
}

// unitsOf calls use with each unit of the builds of the query.
func unitsOf(ctx context.Context, tx *sql.Tx, q *store.Query, programs bool, use func(id int64, u store.Unit, hash store.Hash) error) error {
	program := "NULL"
	if programs {
		program = "unit.program"
	}
	where := buildsOf(q)
	return each(ctx, tx, "SELECT unit.id, unit.kind, unit.name, unit.counters, unit.hash, "+program+
		" FROM unit WHERE "+kindOf(q)+" AND unit.id IN (SELECT build_unit.unit FROM build_unit JOIN build ON build.id = build_unit.build"+where.String()+") ORDER BY unit.name, unit.id",
		where.args, func(scan func(...any) error) error {
			var id int64
			var u store.Unit
			var hash, packed []byte
			err := scan(&id, &u.Kind, &u.Name, &u.Counters, &hash, &packed)
			if err == nil && programs {
				if u.Program, err = unpacker.DecodeAll(packed, nil); err != nil {
					err = fmt.Errorf("unit %s: %w", u.Name, err)
				}
			}
			if err != nil {
				return err
			}
			return use(id, u, hashOf(hash))
		})
}

// LastSeen calls use with each unit of the builds of the query, and when its counters were seen to count.
func (s *Store) LastSeen(ctx context.Context, q *store.Query, use func(store.LastSeen) error) error {
	return s.reading(ctx, func(tx *sql.Tx) error {
		where := buildsOf(q)
		where.add(kindOf(q))
		var firsts, lasts []uint64
		return each(ctx, tx, `SELECT build.name, unit.kind, unit.name, unit.counters, unit.hash, IFNULL(seen.pushed, 0), seen.first, seen.last
			FROM build_unit JOIN build ON build.id = build_unit.build JOIN unit ON unit.id = build_unit.unit
			LEFT JOIN seen ON seen.build = build_unit.build AND seen.unit = build_unit.unit`+where.String()+" ORDER BY build_unit.build, build_unit.unit, seen.pushed",
			where.args, func(scan func(...any) error) error {
				var l store.LastSeen
				var hash, first, last sql.RawBytes
				if err := scan(&l.Build, &l.Unit.Kind, &l.Unit.Name, &l.Unit.Counters, &hash, &l.Pushed, &first, &last); err != nil {
					return err
				}
				l.Hash = hashOf(hash)
				firsts, lasts = slices.Grow(firsts[:0], l.Unit.Counters), slices.Grow(lasts[:0], l.Unit.Counters)
				l.First, l.Last = firsts[:l.Unit.Counters], lasts[:l.Unit.Counters]
				if first == nil {
					clear(l.First)
					clear(l.Last)
				} else if err := errors.Join(store.UnpackTimes(first, l.First), store.UnpackTimes(last, l.Last)); err != nil {
					return fmt.Errorf("unit %s: %w", l.Unit.Name, err)
				}
				return use(l)
			})
	})
}

// Evidence returns for each build of the query who reported of it.
func (s *Store) Evidence(ctx context.Context, q *store.Query) (all []store.Evidence, err error) {
	err = s.reading(ctx, func(tx *sql.Tx) error {
		on := reportedOf(q)
		where := buildsOf(q)
		return each(ctx, tx, `SELECT build.name, build.release, COUNT(NULLIF(host, '')), IFNULL(SUM(instances), 0), IFNULL(SUM(instances) FILTER (WHERE host = ''), 0), IFNULL(MIN(first), 0), IFNULL(MAX(last), 0)
			FROM build LEFT JOIN reported ON `+strings.Join(on.all, " AND ")+where.String()+" GROUP BY build.id ORDER BY build.id", append(on.args, where.args...), func(scan func(...any) error) error {
			var e store.Evidence
			var first, last int64
			if err := scan(&e.Build, &e.Release, &e.Hosts, &e.Instances, &e.Pushed, &first, &last); err != nil {
				return err
			}
			if e.Instances -= e.Pushed; e.Instances+e.Pushed > 0 {
				e.First, e.Last = time.Unix(first, 0), time.Unix(last, 0)
			}
			all = append(all, e)
			return nil
		})
	})
	return all, err
}

// reportedOf is the condition for table reported.
func reportedOf(q *store.Query) (c condition) {
	c.add("reported.build = build.id")
	if !q.From.IsZero() {
		c.add("reported.last >= ?", q.From.Unix())
	}
	if !q.To.IsZero() {
		c.add("reported.first < ?", q.To.Unix())
	}
	c.oneOf("reported.host", q.Hosts)
	c.from(q.Origin, "reported.host")
	return c
}

// Reports calls use with each build of the query and each host that reported of it, as [Store.Evidence] has them.
func (s *Store) Reports(ctx context.Context, q *store.Query, use func(store.HostReport) error) error {
	return s.reading(ctx, func(tx *sql.Tx) error {
		where, builds := reportedOf(q), buildsOf(q)
		where.all, where.args = append(where.all, builds.all...), append(where.args, builds.args...)
		return each(ctx, tx, "SELECT build.name, build.release, host, instances, first, last FROM reported JOIN build ON build.id = reported.build"+where.String()+
			" ORDER BY build.id, host", where.args, func(scan func(...any) error) error {
			var r store.HostReport
			var first, last int64
			if err := scan(&r.Build, &r.Release, &r.Host, &r.Instances, &first, &last); err != nil {
				return err
			}
			r.First, r.Last = time.Unix(first, 0), time.Unix(last, 0)
			return use(r)
		})
	})
}

// Programs calls use with the units that have these hashes, and leaves out those that are not known.
func (s *Store) Programs(ctx context.Context, hashes []store.Hash, use func(store.Hash, store.Unit) error) error {
	return s.reading(ctx, func(tx *sql.Tx) error {
		find, err := tx.PrepareContext(ctx, "SELECT kind, name, counters, program FROM unit WHERE hash = ?")
		if err != nil {
			return err
		}
		defer find.Close()
		for _, hash := range hashes {
			var u store.Unit
			var packed []byte
			err := find.QueryRowContext(ctx, hash[:]).Scan(&u.Kind, &u.Name, &u.Counters, &packed)
			if errors.Is(err, sql.ErrNoRows) {
				continue
			}
			if err == nil {
				u.Program, err = unpacker.DecodeAll(packed, nil)
			}
			if err != nil {
				return fmt.Errorf("unit %x %s: %w", hash[:8], u.Name, err)
			}
			if err := use(hash, u); err != nil {
				return err
			}
		}
		return nil
	})
}

// each calls use for each row.
func each(ctx context.Context, tx *sql.Tx, query string, args []any, use func(scan func(...any) error) error) error {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := use(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
