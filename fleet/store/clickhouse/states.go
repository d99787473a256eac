package clickhouse

import (
	"context"
	"fmt"
	"time"

	"footfall/fleet/store"
)

// What versions 1 and 2 of the schema kept as states of aggregate functions is copied to the tables of version 3, packed.
//
// An older footfall may be writing: first what it inserts into goes, so that it is told so and acknowledges nothing, and
// what it sums days into and asks gets another name. Then all is copied that was inserted until then, and goes when that is
// done. What is copied twice is the same: it may be killed anywhere, and several may do it at once.

// stateTables are those with states, and how they are copied.
var stateTables = []struct {
	name string
	copy func(*Store, context.Context, *database, string) error
}{{"usage", (*Store).copyUsage}, {"rollup", (*Store).copyRollup}, {"seen", (*Store).copySeen}}

// statesEnd is what is added to their names.
const statesEnd = "_states"

// packStates does so on a node.
func (s *Store) packStates(ctx context.Context, db *database) error {
	for _, input := range []string{"usage_in", "usage_mv", "seen_in", "seen_mv"} { // without its view an input loses what comes in
		if err := db.exec(ctx, "DROP TABLE IF EXISTS "+s.table(input)); err != nil {
			return err
		}
	}
	for _, table := range stateTables {
		err := db.exec(ctx, "RENAME TABLE "+s.table(table.name)+" TO "+s.table(table.name+statesEnd))
		if err != nil && !hasCode(err, unknownTable, tableExists) {
			return err
		}
	}
	if err := s.awaitInserts(ctx, db); err != nil {
		return err
	}
	for _, table := range stateTables {
		for _, name := range []string{table.name, table.name + statesEnd} { // both, if two servers have made a schema at once
			err := table.copy(s, ctx, db, s.table(name))
			if hasCode(err, unknownTable, droppedTable) {
				continue // somebody has copied all of it
			}
			if err == nil {
				err = db.exec(ctx, "DROP TABLE IF EXISTS "+s.table(name))
			}
			if err != nil {
				return fmt.Errorf("table %s: %w", name, err)
			}
		}
	}
	return nil
}

// awaitInserts waits for what was being inserted when tables were dropped and renamed, which may go on.
func (s *Store) awaitInserts(ctx context.Context, db *database) error {
	inserting := fmt.Sprintf("startsWith(query, %s) OR startsWith(query, %s) OR startsWith(query, %s)",
		quote("INSERT INTO "+s.table("usage_in")), quote("INSERT INTO "+s.table("seen_in")), quote("INSERT INTO "+s.table("rollup")+" "))
	for {
		running := uint64(0)
		if err := db.query(ctx, "SELECT toUInt64(count()) FROM system.processes WHERE "+inserting, func(a *answer) error {
			running = a.u64()
			return nil
		}); err != nil || running == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (s *Store) copyUsage(ctx context.Context, db *database, table string) error {
	to := blocks{db: db, table: s.table("reached"), columns: reachedColumns}
	return to.copyStates(ctx, table, "window", "instance, once, host, labels", func(a *answer) {
		instance, once, host, labels := a.id(), a.u8(), a.text(), a.id()
		to.fixed(instance[:])
		to.u8(once)
		to.text(host)
		to.fixed(labels[:])
	})
}

func (s *Store) copyRollup(ctx context.Context, db *database, table string) error {
	to := blocks{db: db, table: s.table("sums"), columns: sumsColumns}
	return to.copyStates(ctx, table, "day", "host, labels", func(a *answer) {
		host, labels := a.text(), a.id()
		to.text(host)
		to.fixed(labels[:])
	})
}

// copyStates writes the rows of a table of states, of which the time is in a column; other columns of the key are copied by rest.
func (to *blocks) copyStates(ctx context.Context, table, time, others string, rest func(a *answer)) error {
	all, err := parts(ctx, to.db, time, table)
	for _, p := range all {
		if err != nil {
			return err
		}
		err = to.db.query(ctx, "SELECT unit, "+time+", "+others+", finalizeAggregation(hits) FROM "+table+" WHERE "+p.is(time), func(a *answer) error {
			unit, at := a.id(), a.u32()
			to.fixed(p.build[:])
			to.fixed(unit[:])
			to.u32(at)
			rest(a)
			hits := a.array(8)
			if a.err != nil {
				return nil // the query fails, and what is not whole is not sent
			}
			to.bytes(store.PackVector(hits))
			to.end()
			return to.wrote(ctx)
		})
	}
	if err != nil {
		return err
	}
	return to.flush(ctx)
}

// copySeen merges what is of a key, since of a writer there is one row of each.
func (s *Store) copySeen(ctx context.Context, db *database, table string) error {
	builds, err := buildsIn(ctx, db, table)
	to, writer := blocks{db: db, table: s.table("times"), columns: timesColumns}, newWriter()
	for _, build := range builds {
		if err != nil {
			return err
		}
		err = db.query(ctx, "SELECT unit, pushed, minForEachMerge(first), maxForEachMerge(last) FROM "+table+" WHERE "+inIDs("build", []id{build})+" GROUP BY unit, pushed", func(a *answer) error {
			key := timesKey{build, a.id(), a.u8() != 0}
			first, last := a.array(4), a.array(4)
			if a.err != nil {
				return nil
			}
			for i, at := range first {
				if at == never {
					first[i] = 0
				}
			}
			key.row(&to.rows, writer, 1, store.PackTimes(first), store.PackTimes(last))
			return to.wrote(ctx)
		})
	}
	if err != nil {
		return err
	}
	return to.flush(ctx)
}
