package clickhouse

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"footfall/fleet/store"
)

// When counters were seen to count is told by several who know nothing of each other. Each is a writer: of a unit of a build
// it tells all that it knows again when it knows more, so that of its rows in a week ClickHouse keeps the last (the one of
// the greatest version), and questions merge those of all writers and weeks. Who forgets what it has told is another writer
// from then on: a row that has less must not stand for one that has more.
//
// Weeks are those of ClickHouse's clock. What was told in those that are over is merged to rows of today, so that there are
// not ever more of them.

// timesColumns are those of table times that are told, in the order in which rows have them.
const timesColumns = "build, unit, pushed, writer, version, first, last"

type timesKey struct {
	build, unit id
	pushed      bool
}

// row adds a row of times, which are packed.
func (k *timesKey) row(r *rows, writer id, version uint64, first, last []byte) {
	pushed := uint8(0)
	if k.pushed {
		pushed = 1
	}
	r.fixed(k.build[:])
	r.fixed(k.unit[:])
	r.u8(pushed)
	r.fixed(writer[:])
	r.u64(version)
	r.bytes(first)
	r.bytes(last)
	r.end()
}

// A toldTimes is what a writer has told of when counters were seen to count.
type toldTimes struct {
	writer  id
	version uint64 // of its last row
	told    map[timesKey]*seenTimes
	kept    int // bytes in told

	hits, first, last []uint64
}

type packedTimes struct{ first, last []byte }

// mostTimes is how many bytes are kept of these at most, and timesOverhead what they take with no times.
const (
	mostTimes     = 64 << 20
	timesOverhead = 200
)

// newWriter is an id that nobody has.
func newWriter() (writer id) {
	_, _ = rand.Read(writer[:]) // which never fails
	return writer
}

func (t *toldTimes) forget() {
	t.writer, t.version = newWriter(), 0
	t.told, t.kept = make(map[timesKey]*seenTimes), 0
}

// see adds a row of when counters were seen to count, unless that was told.
func (t *toldTimes) see(key timesKey, counted store.Vector, window uint32, r *rows) error {
	of := t.told[key]
	if of != nil && of.newest == window && counted.Within(of.in) {
		return nil
	}
	t.hits = counted.Into(t.hits)
	if of == nil && t.kept > mostTimes {
		t.forget()
	}
	t.first, t.last = zeros(t.first, len(t.hits)), zeros(t.last, len(t.hits))
	if of != nil {
		if err := errors.Join(store.UnpackTimes(of.first, t.first), store.UnpackTimes(of.last, t.last)); err != nil {
			return err
		}
	}
	changed := store.Note(t.first, t.last, t.hits, uint64(window))
	if of == nil {
		if !changed {
			return nil
		}
		of = &seenTimes{in: make([]uint64, (len(t.hits)+63)/64)}
		t.told[key] = of
		t.kept += timesOverhead + 8*len(of.in)
	}
	of.note(t.last, window)
	if !changed {
		return nil
	}
	now := packedTimes{store.PackTimes(t.first), store.PackTimes(t.last)}
	t.kept += len(now.first) + len(now.last) - len(of.first) - len(of.last)
	of.packedTimes = now
	t.version++
	key.row(r, t.writer, t.version, now.first, now.last)
	return nil
}

// A seenTimes is what was told of a unit: when its counters were seen to count, and which were in the newest window, a bit for each.
// Most of what agents send is of counters that others counted in that window, too.
type seenTimes struct {
	packedTimes
	newest uint32
	in     []uint64
}

// note notes which counters were seen last in a window, or later, unless it knows of one that is newer.
func (s *seenTimes) note(last []uint64, window uint32) {
	if window < s.newest {
		return
	}
	s.newest = window
	clear(s.in)
	for i, at := range last {
		if at >= uint64(window) {
			s.in[i/64] |= 1 << (i % 64)
		}
	}
}

// A timesReader reads when counters were seen to count: of each writer its last row, whatever ClickHouse has merged yet.
type timesReader struct {
	// counters is how many a unit has; -1: it is left out.
	counters func(unit id) (int, error)
	// use gets what all writers have told, in the order of keys. The vectors are for the call only.
	use func(key timesKey, first, last []uint64) error

	key         timesKey
	n           int // counters of its unit; -1: nothing is used
	first, last []uint64
	other       []uint64
	packed      packedTimes
}

// read reads what a condition chooses.
func (r *timesReader) read(ctx context.Context, s *Store, db *database, where string) error {
	r.n = -1
	query := fmt.Sprintf("SELECT build, unit, pushed, argMax(first, version), argMax(last, version) FROM %s WHERE %s GROUP BY build, unit, pushed, writer ORDER BY build, unit, pushed", s.table("times"), where)
	some := false
	err := db.query(ctx, query, func(a *answer) error {
		key := timesKey{a.id(), a.id(), a.u8() != 0}
		r.packed.first = a.into(r.packed.first)
		r.packed.last = a.into(r.packed.last)
		if a.err != nil {
			return nil
		}
		if some && key == r.key {
			return r.merge()
		}
		err := r.done()
		some, r.key = true, key
		if err == nil {
			r.n, err = r.counters(key.unit)
		}
		if err != nil || r.n < 0 {
			return err
		}
		r.first, r.last = zeros(r.first, r.n), zeros(r.last, r.n)
		return r.merge()
	})
	if err != nil {
		return err
	}
	return r.done()
}

// done has what was read of a key be used.
func (r *timesReader) done() error {
	if r.n < 0 {
		return nil
	}
	return r.use(r.key, r.first, r.last)
}

// merge merges what a writer has told.
func (r *timesReader) merge() error {
	if r.n < 0 {
		return nil
	}
	r.other = slices.Grow(r.other[:0], r.n)[:r.n]
	err := store.UnpackTimes(r.packed.first, r.other)
	if err == nil {
		store.Earliest(r.first, r.other)
		err = store.UnpackTimes(r.packed.last, r.other)
	}
	if err != nil {
		return unpacked("times", r.key.unit, r.n, err)
	}
	store.Greatest(r.last, r.other)
	return nil
}

// compactTimes merges what was told on a node in weeks that ended more than a day ago, and drops it when that is there.
// Several may do so at the same time, and may be killed: what is told twice does no harm. It waits until half of the rows
// are not needed, so that what nobody tells any more is not written again and again.
func (s *Store) compactTimes(ctx context.Context, db *database) error {
	var weeks uint32
	if err := db.query(ctx, fmt.Sprintf("SELECT toUInt32(intDiv(toUInt32(now()) - %d, %d))", day, week), func(a *answer) error {
		weeks = a.u32()
		return nil
	}); err != nil {
		return err
	}
	old := fmt.Sprintf("intDiv(toUInt32(told), %d) < %d", week, weeks)
	var rows, keys uint64
	if err := db.query(ctx, fmt.Sprintf("SELECT toUInt64(count()), toUInt64(uniqExact(build, unit, pushed)) FROM %s WHERE %s", s.table("times"), old), func(a *answer) error {
		rows, keys = a.u64(), a.u64()
		return nil
	}); err != nil || rows < 2*keys || rows == 0 {
		return err
	}
	builds, err := buildsIn(ctx, db, s.table("times")+" WHERE "+old)
	if err != nil {
		return err
	}
	all := blocks{db: db, table: s.table("times"), columns: timesColumns}
	writer := newWriter()
	for _, build := range builds {
		if err := s.mergeTimes(ctx, db, build, old, writer, &all); err != nil {
			return err
		}
	}
	if err := all.flush(ctx); err != nil {
		return err
	}
	return s.drop(ctx, db, "times", week, weeks*week)
}

// mergeTimes merges the old ones of a build, as a writer that has told nothing of it.
func (s *Store) mergeTimes(ctx context.Context, db *database, build id, old string, writer id, all *blocks) error {
	is := inIDs("build", []id{build})
	units, err := s.countersOf(ctx, fmt.Sprintf("unit IN (SELECT unit FROM %s WHERE %s)", s.table("member"), is))
	if err != nil {
		return err
	}
	r := timesReader{counters: func(unit id) (int, error) {
		u, known := units[unit]
		if !known { // what was seen of a unit came after it
			return 0, fmt.Errorf("table times has unit %x of a build that has no such unit in table member", unit[:8])
		}
		return u.counters, nil
	}, use: func(key timesKey, first, last []uint64) error {
		key.row(&all.rows, writer, 1, store.PackTimes(first), store.PackTimes(last))
		return all.wrote(ctx)
	}}
	return r.read(ctx, s, db, is+" AND "+old)
}
