package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const day = 24 * 60 * 60

// limits say how far windows have been closed, rolled up to days, and days forgotten. They only grow.
type limits struct{ closed, rolled, forgotten uint32 }

func (s *Store) limits(ctx context.Context) (l limits, err error) {
	err = s.db.query(ctx, "SELECT what, max(at) FROM "+s.table("limits")+" GROUP BY what", func(a *answer) error {
		what, at := a.text(), a.u32()
		switch what {
		case "closed":
			l.closed = at
		case "rolled":
			l.rolled = at
		case "forgotten":
			l.forgotten = at
		}
		return nil
	})
	return l, err
}

func (s *Store) limit(ctx context.Context, what string, at uint32) error {
	var r rows
	r.text(what)
	r.u32(at)
	r.end()
	return s.db.insert(ctx, s.table("limits"), "what, at", &r)
}

// expiring is how long the sums of days may take.
const expiring = time.Hour

// Expire makes sums of days, and forgets. Several may do so at the same time, and may be killed: a day is closed first, so
// that nobody is told any more that something of it was taken; then its sums are made, which may be made again; then
// "rolled" says that these hold, from when on nobody reads its windows, which are dropped.
func (s *Store) Expire(ctx context.Context, rolled, forgotten time.Time) error {
	if err := s.open(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, expiring)
	defer cancel()
	until, before := seconds(rolled)/day*day, seconds(forgotten)
	l, err := s.limits(ctx)
	if err == nil && until > l.closed {
		err = s.limit(ctx, "closed", until)
	}
	if err == nil && until > l.rolled {
		err = s.onNodes(func(_ int, db *database) error { return s.rollUp(ctx, db, l.rolled, until) })
		if err == nil {
			err = s.limit(ctx, "rolled", until)
		}
	}
	if err == nil && before > l.forgotten {
		err = s.limit(ctx, "forgotten", before)
	}
	if err != nil {
		return err
	}
	// What counts once may lie in a later window, too, until that is rolled up: see slack.
	return s.onNodes(func(_ int, db *database) error {
		return errors.Join(s.drop(ctx, db, "usage", week, max(until, l.rolled)-min(slack, until)), s.drop(ctx, db, "rollup", month, max(before, l.forgotten)), s.drop(ctx, db, "instance", month, max(before, l.forgotten)))
	})
}

func seconds(t time.Time) uint32 { return uint32(max(0, min(t.Unix(), never-1))) }

// rollUp makes sums of the windows in [from, until) of a node, one day and build after the other, so that memory has those.
func (s *Store) rollUp(ctx context.Context, db *database, from, until uint32) error {
	type part struct {
		day   uint32
		build id
	}
	var parts []part
	err := db.query(ctx, fmt.Sprintf("SELECT DISTINCT toUInt32(intDiv(window, %d) * %[1]d), build FROM %s WHERE window >= %d AND window < %d", day, s.table("usage"), from, until), func(a *answer) error {
		parts = append(parts, part{a.u32(), a.id()})
		return nil
	})
	for _, p := range parts {
		if err != nil {
			return err
		}
		err = db.exec(ctx, fmt.Sprintf("INSERT INTO %s (build, unit, day, host, labels, hits) SELECT build, unit, toUInt32(%d) AS day, host, labels, maxForEachState(%s) AS hits FROM (SELECT build, unit, host, labels, %s FROM (%s) GROUP BY build, unit, host, labels) GROUP BY build, unit, day, host, labels",
			s.table("rollup"), p.day, sumOfHalves, halves, s.reached([]string{inIDs("build", []id{p.build})}, period{p.day, p.day + day})))
	}
	return err
}

// drop drops what of a table is before a time, whose parts have so many seconds each.
func (s *Store) drop(ctx context.Context, db *database, table string, size, before uint32) error {
	if before < size {
		return nil
	}
	var parts []string
	err := db.query(ctx, "SELECT DISTINCT partition FROM system.parts WHERE active AND database = "+quote(db.name)+" AND table = "+quote(s.prefix+table), func(a *answer) error {
		parts = append(parts, a.text())
		return nil
	})
	for _, p := range parts {
		var n uint32
		if _, bad := fmt.Sscanf(p, "%d", &n); bad != nil || (n+1)*size > before {
			continue
		}
		if err == nil {
			err = db.exec(ctx, fmt.Sprintf("ALTER TABLE %s DROP PARTITION %d", s.table(table), n))
		}
	}
	return err
}
