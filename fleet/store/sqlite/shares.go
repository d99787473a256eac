package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"

	"footfall/fleet/store"
)

// hashOf returns the hash that a column has.
func hashOf(b []byte) (h store.Hash) {
	copy(h[:], b)
	return h
}

// A shareKey is whose part of a unit it is.
type shareKey struct {
	host         string
	labels, unit int64
}

// A hashedUnit is what is needed of a unit to read its vectors.
type hashedUnit struct {
	hash     store.Hash
	counters int
}

// Shares calls use with each host's part of what was counted in the units, by the sets of labels that it reported with,
// in no order. No units are all.
func (s *Store) Shares(ctx context.Context, q *store.Query, units []store.Hash, use func(store.Share) error) error {
	return s.reading(ctx, func(tx *sql.Tx) error {
		known, err := unitsByID(ctx, tx, units)
		if err != nil || len(known) == 0 {
			return err
		}
		sums := make(map[shareKey][]uint64)
		for _, table := range []timed{
			{"usage", "window", "instance.host", "instance.labels", " JOIN instance ON instance.id = usage.instance JOIN build ON build.id = instance.build"},
			{"rollup", "day", "rollup.host", "rollup.labels", " JOIN build ON build.id = rollup.build"},
		} {
			if err := table.add(ctx, tx, q, known, len(units) == 0, sums); err != nil {
				return err
			}
		}
		labels, err := allLabels(ctx, tx)
		if err != nil {
			return err
		}
		for key, hits := range sums {
			if err := use(store.Share{Host: key.host, Labels: labels[key.labels], Unit: known[key.unit].hash, Hits: hits}); err != nil {
				return err
			}
		}
		return nil
	})
}

// A timed table has vectors by time and then by unit; joins lead to build.
type timed struct{ name, at, host, labels, joins string }

// add adds to sums what the query chooses of the units, which all may be. The table's key begins with the time, so units
// are looked up in each window or day that there is, one after the other, whatever else was counted then.
func (t timed) add(ctx context.Context, tx *sql.Tx, q *store.Query, units map[int64]hashedUnit, all bool, sums map[shareKey][]uint64) error {
	where := countedOf(q, t.name+"."+t.at, t.host)
	from := t.name
	if !all {
		// CROSS JOIN has SQLite keep this order.
		from = fmt.Sprintf(`(WITH RECURSIVE at(x) AS (SELECT MIN(%[2]s) FROM %[1]s
			UNION ALL SELECT (SELECT MIN(%[2]s) FROM %[1]s WHERE %[2]s > at.x) FROM at WHERE at.x IS NOT NULL)
			SELECT x FROM at) at CROSS JOIN %[1]s ON %[1]s.%[2]s = at.x AND %[1]s.unit IN (%[3]s)`, t.name, t.at, idList(units))
	}
	return each(ctx, tx, fmt.Sprintf("SELECT %s.unit, %s, %s, %s.hits FROM %s%s JOIN labels ON labels.id = %s%s", t.name, t.host, t.labels, t.name, from, t.joins, t.labels, where.String()),
		where.args, func(scan func(...any) error) error {
			var key shareKey
			var packed sql.RawBytes
			if err := scan(&key.unit, &key.host, &key.labels, &packed); err != nil {
				return err
			}
			of, known := units[key.unit]
			if !known {
				return nil // a text, which counts nothing
			}
			hits, err := store.UnpackVector(packed, of.counters)
			if err != nil {
				return fmt.Errorf("unit %d: %w", key.unit, err)
			}
			if sums[key] == nil {
				sums[key] = hits
			} else {
				store.Add(sums[key], hits)
			}
			return nil
		})
}

func idList(units map[int64]hashedUnit) string {
	ids := make([]string, 0, len(units))
	for id := range units {
		ids = append(ids, fmt.Sprint(id))
	}
	return strings.Join(ids, ",")
}

// unitsByID returns the units that have these hashes, all for none.
func unitsByID(ctx context.Context, tx *sql.Tx, hashes []store.Hash) (map[int64]hashedUnit, error) {
	units := make(map[int64]hashedUnit)
	take := func(scan func(...any) error) error {
		var id int64
		var u hashedUnit
		var hash []byte
		err := scan(&id, &hash, &u.counters)
		u.hash = hashOf(hash)
		units[id] = u
		return err
	}
	if len(hashes) == 0 {
		return units, each(ctx, tx, "SELECT id, hash, counters FROM unit WHERE kind <> ?", []any{store.Text}, take)
	}
	for _, hash := range hashes {
		if err := each(ctx, tx, "SELECT id, hash, counters FROM unit WHERE hash = ?", []any{hash[:]}, take); err != nil {
			return nil, err
		}
	}
	return units, nil
}

func allLabels(ctx context.Context, tx *sql.Tx) (map[int64]map[string]string, error) {
	labels := make(map[int64]map[string]string)
	err := each(ctx, tx, "SELECT id, text FROM labels", nil, func(scan func(...any) error) error {
		var id int64
		var text []byte
		if err := scan(&id, &text); err != nil {
			return err
		}
		of := make(map[string]string)
		if err := json.Unmarshal(text, &of); err != nil {
			return fmt.Errorf("labels %d: %w", id, err)
		}
		labels[id] = of
		return nil
	})
	return labels, err
}
