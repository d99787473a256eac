package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"footfall/fleet/store"
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
	if err := s.forgetTexts(ctx, max(before, l.forgotten)/day*day); err != nil {
		return err
	}
	// What counts once may lie in a later window, too, until that is rolled up: see slack.
	return s.onNodes(func(_ int, db *database) error {
		return errors.Join(s.drop(ctx, db, "reached", week, max(until, l.rolled)-min(slack, until)), s.drop(ctx, db, "sums", month, max(before, l.forgotten)), s.drop(ctx, db, "instance", month, max(before, l.forgotten)), s.compactTimes(ctx, db))
	})
}

func seconds(t time.Time) uint32 { return uint32(max(0, min(t.Unix(), never-1))) }

// rollUp makes sums of the windows in [from, until) of a node, one day and build after the other.
func (s *Store) rollUp(ctx context.Context, db *database, from, until uint32) error {
	parts, err := parts(ctx, db, "window", fmt.Sprintf("%s WHERE window >= %d AND window < %d", s.table("reached"), from, until))
	for _, p := range parts {
		if err == nil {
			err = s.sumDay(ctx, db, p)
		}
	}
	return err
}

// A part is what is of a build and a day.
type part struct {
	day   uint32
	build id
}

// is is the condition that a row with a time is one of a part.
func (p *part) is(time string) string {
	return fmt.Sprintf("%s AND %s >= %d AND %[2]s < %[4]d", inIDs("build", []id{p.build}), time, p.day, uint64(p.day)+day)
}

// parts are those of rows that have a time.
func parts(ctx context.Context, db *database, time, rows string) (all []part, err error) {
	err = db.query(ctx, fmt.Sprintf("SELECT DISTINCT toUInt32(intDiv(%s, %d) * %[2]d), build FROM %s", time, day, rows), func(a *answer) error {
		all = append(all, part{a.u32(), a.id()})
		return nil
	})
	return all, err
}

// buildsIn are those that rows have.
func buildsIn(ctx context.Context, db *database, rows string) (all []id, err error) {
	err = db.query(ctx, "SELECT DISTINCT build FROM "+rows, func(a *answer) error {
		all = append(all, a.id())
		return nil
	})
	return all, err
}

// sumsColumns are those of table sums, in the order in which rows have them.
const sumsColumns = "build, unit, day, host, labels, hits"

// sumDay makes sums of the windows of a day and a build on a node. They come in the order of what they are added up by, so
// that memory has one sum.
func (s *Store) sumDay(ctx context.Context, db *database, p part) error {
	build := inIDs("build", []id{p.build})
	units, err := s.countersOf(ctx, fmt.Sprintf("unit IN (SELECT unit FROM %s WHERE %s)", s.table("member"), build))
	if err != nil {
		return err
	}
	r := countReader{units: units}
	var sum *count
	sums := blocks{db: db, table: s.table("sums"), columns: sumsColumns}
	done := func() error {
		if sum == nil {
			return nil
		}
		sums.fixed(p.build[:])
		sums.fixed(sum.unit[:])
		sums.u32(p.day)
		sums.text(sum.host)
		sums.fixed(sum.labels[:])
		sums.bytes(store.PackVector(sum.hits))
		sums.end()
		return sums.wrote(ctx)
	}
	query := "SELECT unit, host, labels, told, vectors FROM (" + s.reached([]string{build}, period{p.day, p.day + day}) + ") ORDER BY unit, host, labels"
	if err := db.query(ctx, query, func(a *answer) error {
		c, known, err := r.read(a)
		switch {
		case err != nil || a.err != nil:
			return err
		case !known: // what was counted in a unit came after it
			return fmt.Errorf("table reached has unit %x of a build that has no such unit in table member", c.unit[:8])
		case sum != nil && sum.countKey == c.countKey:
			store.Add(sum.hits, c.hits)
			return nil
		}
		err = done()
		sum = &count{c.countKey, slices.Clone(c.hits)}
		return err
	}); err != nil {
		return err
	}
	return errors.Join(done(), sums.flush(ctx))
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
