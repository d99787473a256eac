package clickhouse

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"footfall/fleet/store"
)

// Sizes returns how much the store has.
func (s *Store) Sizes(ctx context.Context) (z store.Sizes, err error) {
	bytes := make(map[string]int64)
	for _, db := range s.nodes {
		if err := db.query(ctx, "SELECT table, toUInt64(sum(bytes_on_disk)) FROM system.parts WHERE active AND database = "+quote(db.name)+" GROUP BY table", func(a *answer) error {
			name, n := a.text(), a.u64()
			if table, ours := strings.CutPrefix(name, s.prefix); ours && !strings.Contains(table, prefix("-")[1:]) {
				bytes[table] += int64(n)
				z.Bytes += int64(n)
			}
			return nil
		}); err != nil {
			return z, err
		}
	}
	if z.Texts, z.TextBytes, err = s.texts(ctx); err != nil {
		return z, err
	}
	z.ProgramBytes, z.UsageBytes, z.DayBytes, z.SeenBytes = max(0, bytes["unit"]-z.TextBytes), bytes["reached"], bytes["sums"], bytes["times"]
	return z, s.steady(ctx, func(l limits) error {
		if l.closed > 0 {
			z.Closed = time.Unix(int64(l.closed), 0)
		}
		for _, part := range []struct {
			table string
			n     *int
		}{{"build", &z.Builds}, {"unit", &z.Units}, {"instance", &z.Instances}} {
			if err := s.db.query(ctx, "SELECT uniqExact("+part.table+") FROM "+s.table(part.table), func(a *answer) error {
				*part.n = int(a.u64())
				return nil
			}); err != nil {
				return err
			}
		}
		z.Units -= z.Texts
		var err error
		if z.Windows, z.FirstWindow, z.LastWindow, err = s.distinct(ctx, fmt.Sprintf("window FROM %s WHERE window >= %d", s.table("reached"), l.rolled)); err == nil {
			z.Days, z.FirstDay, z.LastDay, err = s.distinct(ctx, fmt.Sprintf("day FROM %s WHERE day >= %d AND day < %d", s.table("sums"), l.forgotten, l.rolled))
		}
		return err
	})
}

// distinct is how many times there are on all nodes, and the first and the last one.
func (s *Store) distinct(ctx context.Context, what string) (n int, first, last time.Time, err error) {
	all := make(map[uint32]bool)
	for _, db := range s.nodes {
		if err := db.query(ctx, "SELECT DISTINCT "+what, func(a *answer) error {
			all[a.u32()] = true
			return nil
		}); err != nil {
			return 0, first, last, err
		}
	}
	if len(all) == 0 {
		return 0, first, last, nil
	}
	times := slices.Sorted(maps.Keys(all))
	return len(times), time.Unix(int64(times[0]), 0), time.Unix(int64(times[len(times)-1]), 0), nil
}
