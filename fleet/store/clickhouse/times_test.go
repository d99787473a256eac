package clickhouse

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"footfall/fleet/store"
	"footfall/fleet/store/fixtures"
)

// A sightings is a store, and when counters of a unit counted in windows that it was told of.
type sightings struct {
	t     *testing.T
	s     *Store
	unit  store.Unit
	truth [][]uint64
}

func newSightings(t *testing.T, s *Store) *sightings {
	t.Helper()
	unit := fixtures.Units(1, 6)[0]
	if err := s.PutBuild(t.Context(), &store.Build{ID: "b", Units: []store.Unit{unit}}); err != nil {
		t.Fatal(err)
	}
	return &sightings{t, s, unit, [][]uint64{make([]uint64, 6), make([]uint64, 6)}}
}

// push tells a store that counters counted in a window, some minutes after the first.
func (o *sightings) push(s *Store, minute int, counters ...int) error {
	window := fixtures.Day1.Add(time.Duration(minute) * time.Minute)
	b := &store.Batch{Build: "b", Window: window, Instance: store.Instance{Host: "h"}, Usage: []store.Usage{{Unit: o.unit.Hash(), Hits: make([]uint64, 6)}}}
	for _, c := range counters {
		b.Usage[0].Hits[c] = 1
	}
	store.Note(o.truth[0], o.truth[1], b.Usage[0].Hits, uint64(window.Unix()))
	return s.Push(o.t.Context(), b)
}

// check asks when the counters were seen, as rows were told and after ClickHouse has merged them, which there are so many of
// then.
func (o *sightings) check(when string, rows uint64) {
	o.t.Helper()
	for range 2 {
		got := seenOf(o.t, o.s)[fmt.Sprintf("%x false", unitID(o.unit.Hash()))]
		if diff := cmp.Diff(o.truth, got); diff != "" {
			o.t.Errorf("%s (-want +got):\n%s", when, diff)
		}
		for _, week := range o.weeks() {
			if err := o.s.db.exec(o.t.Context(), fmt.Sprintf("OPTIMIZE TABLE %s PARTITION %d FINAL", o.s.table("times"), week)); err != nil {
				o.t.Fatal(err)
			}
		}
	}
	if n := number(o.t, o.s, "count()", o.s.table("times")); n != rows {
		o.t.Errorf("%s: %d rows, want %d", when, n, rows)
	}
}

func (o *sightings) weeks() (list []uint32) {
	o.t.Helper()
	if err := o.s.db.query(o.t.Context(), fmt.Sprintf("SELECT DISTINCT toUInt32(intDiv(toUInt32(told), %d)) FROM %s", week, o.s.table("times")), func(a *answer) error {
		list = append(list, a.u32())
		return nil
	}); err != nil {
		o.t.Fatal(err)
	}
	return list
}

// TestTimesForgotten has a writer forget what it has told, as after a failure or when there is much, and others write.
func TestTimesForgotten(t *testing.T) {
	server := fixtures.NewClickHouse(t)
	d := parsed(t, server, "forgotten")
	one, two := opened(t, d), opened(t, d)
	o := newSightings(t, one)
	push := func(s *Store, minute int, counters ...int) {
		t.Helper()
		if err := o.push(s, minute, counters...); err != nil {
			t.Fatal(err)
		}
	}
	push(one, 5, 0, 1)
	push(one, 7, 1, 2)
	push(one, 6, 0, 1, 2) // tells something new of two of them
	push(one, 6, 0, 2)    // and nothing
	o.check("one writer", 1)
	var late rows // a request that was sent again, since it seemed lost
	key := timesKey{idOf("b"), unitID(o.unit.Hash()), false}
	at := uint64(fixtures.Day1.Unix()) + 5*60
	key.row(&late, one.told.times.writer, 1, store.PackTimes([]uint64{at, at, 0, 0, 0, 0}), store.PackTimes([]uint64{at, at, 0, 0, 0, 0}))
	if err := one.db.insert(t.Context(), one.table("times"), timesColumns, &late); err != nil {
		t.Fatal(err)
	}
	o.check("a row that comes late", 1)
	push(two, 3, 2)
	push(two, 20, 3)
	o.check("two writers", 2)
	one.told.times.kept = mostTimes + 1
	clear(one.told.times.told)
	push(one, 4, 4)
	push(one, 2, 4)
	o.check("one has forgotten", 3)
	server.Kill()
	if err := o.push(one, 9, 0); !errors.Is(err, store.ErrAway) {
		t.Fatal(err)
	}
	server.Start()
	push(one, 9, 0)
	push(one, 10, 5)
	o.check("after a failure", 4)
}

// TestCompactTimes has what was told long ago be merged, by two at once, one of whom is killed.
func TestCompactTimes(t *testing.T) {
	d := parsed(t, fixtures.NewClickHouse(t), "compact")
	one, two := opened(t, d), opened(t, d)
	o := newSightings(t, one)
	// age has all have been told so many days earlier.
	age := func(days int) {
		t.Helper()
		table := one.table("times")
		var parts []uint32
		err := one.db.exec(t.Context(), fmt.Sprintf("INSERT INTO %s (build, unit, pushed, writer, version, told, first, last) SELECT build, unit, pushed, writer, version, toDateTime(toUInt32(told) - %d), first, last FROM %[1]s", table, days*day))
		if parts = o.weeks(); err == nil {
			err = one.db.exec(t.Context(), fmt.Sprintf("ALTER TABLE %s DROP PARTITION %d", table, slices.Max(parts)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	compact := func(s *Store) {
		t.Helper()
		if err := s.Expire(t.Context(), time.Unix(0, 0), time.Unix(0, 0)); err != nil {
			t.Error(err)
		}
	}
	for i, s := range []*Store{one, two} {
		for c := range 6 {
			if c == 3+i {
				continue
			}
			if err := o.push(s, 10*c-i, c); err != nil {
				t.Fatal(err)
			}
		}
	}
	compact(one)
	o.check("this week", 2)
	age(14)
	o.check("long ago", 2)
	this := uint32(number(t, one, fmt.Sprintf("intDiv(toUInt32(now()), %d)", week), "system.one"))
	// One was killed after it had written what it merged.
	if err := one.mergeTimes(t.Context(), one.db, idOf("b"), "1", newWriter(), &blocks{db: one.db, table: one.table("times"), columns: timesColumns}); err != nil {
		t.Fatal(err)
	}
	all := blocks{db: one.db, table: one.table("times"), columns: timesColumns}
	err := one.mergeTimes(t.Context(), one.db, idOf("b"), "1", newWriter(), &all)
	if err = errors.Join(err, all.flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	o.check("killed", 3)
	done := make(chan bool)
	for _, s := range []*Store{one, two} {
		go func() {
			compact(s)
			done <- true
		}()
	}
	<-done
	<-done
	if weeks := o.weeks(); !slices.Equal(weeks, []uint32{this}) {
		t.Errorf("what was told is of weeks %d, want %d", weeks, this)
	}
	rows := number(t, one, "count()", one.table("times"))
	if rows < 2 || rows > 3 { // of who was killed, and of one or two
		t.Errorf("%d rows", rows)
	}
	o.check("merged", rows)
	// What nobody else tells is not written again.
	age(14)
	compact(one)
	if rows := number(t, one, "count()", one.table("times")); rows != 1 {
		t.Errorf("%d rows, merged", rows)
	}
	age(14)
	before := o.weeks()
	compact(one)
	if weeks := o.weeks(); !slices.Equal(weeks, before) {
		t.Errorf("what was merged before is of week %d, and was of %d", weeks, before)
	}
	// Who has told it knows that, and tells what is new.
	if err := o.push(two, 100, 4); err != nil {
		t.Fatal(err)
	}
	o.check("later", 2)
}
