package clickhouse

import (
	"context"
	"fmt"
	"strings"
	"time"

	"footfall/fleet/store"
)

// Sizes returns how much the store has.
func (s *Store) Sizes(ctx context.Context) (z store.Sizes, err error) {
	bytes := make(map[string]int64)
	err = s.db.query(ctx, "SELECT table, toUInt64(sum(bytes_on_disk)) FROM system.parts WHERE active AND database = "+quote(s.db.name)+" GROUP BY table", func(a *answer) error {
		name, n := a.text(), a.u64()
		if table, ours := strings.CutPrefix(name, s.prefix); ours && !strings.Contains(table, prefix("-")[1:]) {
			bytes[table] = int64(n)
			z.Bytes += int64(n)
		}
		return nil
	})
	if err != nil {
		return z, err
	}
	z.ProgramBytes, z.UsageBytes, z.DayBytes, z.SeenBytes = bytes["unit"], bytes["usage"], bytes["rollup"], bytes["seen"]
	return z, s.steady(ctx, func(l limits) error {
		if l.closed > 0 {
			z.Closed = time.Unix(int64(l.closed), 0)
		}
		for _, part := range []struct {
			query       string
			n           *int
			first, last *time.Time
		}{
			{"uniqExact(build), toUInt32(0), toUInt32(0) FROM " + s.table("build"), &z.Builds, nil, nil},
			{"uniqExact(unit), toUInt32(0), toUInt32(0) FROM " + s.table("unit"), &z.Units, nil, nil},
			{"uniqExact(instance), toUInt32(0), toUInt32(0) FROM " + s.table("instance"), &z.Instances, nil, nil},
			{fmt.Sprintf("uniqExact(window), min(window), max(window) FROM %s WHERE window >= %d", s.table("usage"), l.rolled), &z.Windows, &z.FirstWindow, &z.LastWindow},
			{fmt.Sprintf("uniqExact(day), min(day), max(day) FROM %s WHERE day >= %d AND day < %d", s.table("rollup"), l.forgotten, l.rolled), &z.Days, &z.FirstDay, &z.LastDay},
		} {
			if err := s.db.query(ctx, "SELECT "+part.query, func(a *answer) error {
				n, first, last := a.u64(), a.u32(), a.u32()
				*part.n = int(n)
				if part.first != nil && n > 0 {
					*part.first, *part.last = time.Unix(int64(first), 0), time.Unix(int64(last), 0)
				}
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
}
