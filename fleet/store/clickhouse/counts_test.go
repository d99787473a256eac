package clickhouse

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"footfall/fleet/store"
	"footfall/fleet/store/fixtures"
)

// number asks for one of a table.
func number(t *testing.T, s *Store, what, table string) (n uint64) {
	t.Helper()
	if err := s.db.query(t.Context(), "SELECT toUInt64("+what+") FROM "+table, func(a *answer) error { n = a.u64(); return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestMerged has ClickHouse merge the rows of a table: what was told twice is there once, and what differs stays.
func TestMerged(t *testing.T) {
	s := opened(t, parsed(t, fixtures.NewClickHouse(t), "merged"))
	list := fixtures.Units(1, 2)
	if err := s.PutBuild(t.Context(), &store.Build{ID: "b", Units: list}); err != nil {
		t.Fatal(err)
	}
	push := func(hits ...uint64) {
		t.Helper()
		b := &store.Batch{Build: "b", Window: fixtures.Day1, Instance: store.Instance{Host: "h"}, Usage: []store.Usage{{Unit: list[0].Hash(), Hits: hits}}}
		if err := s.Push(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	check := func(table string, rows uint64, want ...uint64) {
		t.Helper()
		for _, when := range []string{"as they were told", "merged"} {
			if diff := cmp.Diff(want, totalsOf(t, s)[unitID(list[0].Hash())]); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", table, when, diff)
			}
			if err := s.db.exec(t.Context(), "OPTIMIZE TABLE "+s.table(table)+" PARTITION "+fmt.Sprint(map[string]int64{"reached": fixtures.Day1.Unix() / week, "sums": fixtures.Day1.Unix() / month}[table])+" FINAL"); err != nil {
				t.Fatal(err)
			}
		}
		if n := number(t, s, "count()", s.table(table)); n != rows {
			t.Errorf("%s: %d rows, want %d", table, n, rows)
		}
	}
	for range 3 {
		push(5, 0)
		push(0, 7)
	}
	check("reached", 2, 5, 7)
	// A sum that was made of some of the windows only, and one of all of them.
	first := uint32(fixtures.Day1.Unix())
	roll := func() {
		t.Helper()
		if err := s.rollUp(t.Context(), s.db, first, first+day); err != nil {
			t.Fatal(err)
		}
	}
	roll()
	roll()
	push(6, 0)
	if err := s.Expire(t.Context(), fixtures.Day1.Add(24*time.Hour), time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	check("sums", 2, 6, 7)
}

// TestCorrupt has tables have what no vector is. Whoever asks for it is told where it is, and nothing is added up of it.
func TestCorrupt(t *testing.T) {
	d := parsed(t, fixtures.NewClickHouse(t), "corrupt")
	for n, packed := range []string{"", "\x01", "\x01\x02\x03", "\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		opened, err := d.Open(t.Context(), fmt.Sprint("project", n))
		if err != nil {
			t.Fatal(err)
		}
		s := opened.(*Store)
		t.Cleanup(func() { _ = s.Close() })
		list := fixtures.Units(1, 2)
		if err := s.PutBuild(t.Context(), &store.Build{ID: "b", Units: list}); err != nil {
			t.Fatal(err)
		}
		var reached, times rows
		build, unit := idOf("b"), unitID(list[0].Hash())
		reached.fixed(build[:])
		reached.fixed(unit[:])
		reached.u32(uint32(fixtures.Day1.Unix()))
		reached.fixed(make([]byte, 16))
		reached.u8(0)
		reached.text("h")
		reached.fixed(make([]byte, 16))
		reached.text(packed)
		reached.end()
		key := timesKey{build, unit, false}
		key.row(&times, newWriter(), 1, store.PackTimes([]uint64{1, 2}), []byte(packed))
		err = errors.Join(s.db.insert(t.Context(), s.table("reached"), reachedColumns, &reached), s.db.insert(t.Context(), s.table("times"), timesColumns, &times),
			s.db.exec(t.Context(), "INSERT INTO "+s.table("times")+" (build, unit, pushed, writer, version, told, first, last) SELECT build, unit, pushed, 'x', version, toDateTime(toUInt32(told) - 1209600), first, last FROM "+s.table("times")))
		if err != nil {
			t.Fatal(err)
		}
		for table, ask := range map[string]func() error{
			"reached": func() error {
				return errors.Join(s.Totals(t.Context(), &store.Query{}, false, func(store.Total) error { return nil }),
					s.Shares(t.Context(), &store.Query{}, []store.Hash{list[0].Hash()}, func(store.Share) error { return nil }),
					s.Expire(t.Context(), fixtures.Day1.Add(24*time.Hour), time.Unix(0, 0)))
			},
			"times": func() error {
				return errors.Join(s.LastSeen(t.Context(), &store.Query{}, func(store.LastSeen) error { return nil }), s.mergeTimes(t.Context(), s.db, build, "1", newWriter(), new(blocks)))
			},
		} {
			err := ask()
			want := fmt.Sprintf("table %s, unit %x: packed numbers of its 2 counters were expected", table, unit[:8])
			asked := map[string]int{"reached": 3, "times": 2}[table]
			if err == nil || strings.Count(err.Error(), want) != asked || errors.Is(err, store.ErrAway) {
				t.Errorf("%q: %v\nwant %d times: %s", packed, err, asked, want)
			}
		}
		if n := number(t, s, "count()", s.table("sums")); n > 0 {
			t.Errorf("%q: %d sums", packed, n)
		}
		// As many counters as nobody has memory for.
		if err := s.db.exec(t.Context(), "INSERT INTO "+s.table("unit")+" (unit, hash, kind, name, counters, program) SELECT unit, hash, kind, name, 4294967295, program FROM "+s.table("unit")); err != nil {
			t.Fatal(err)
		}
		if err := s.db.exec(t.Context(), "OPTIMIZE TABLE "+s.table("unit")+" FINAL"); err != nil { // the last row is left
			t.Fatal(err)
		}
		_, err = s.unitsOf(t.Context(), "b", true)
		for _, err := range []error{err, s.Units(t.Context(), &store.Query{}, func(store.Hash, store.Unit) error { return nil }), s.Totals(t.Context(), &store.Query{}, false, func(store.Total) error { return nil })} {
			if err == nil || !strings.Contains(err.Error(), "has 4294967295 counters") {
				t.Errorf("too many counters: %v", err)
			}
		}
	}
}
