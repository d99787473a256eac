package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"footfall/fleet/store"
	"footfall/fleet/store/fixtures"
)

// An older is a store of a version of the schema of before 3, written to and asked as the footfall of then did.
type older struct {
	t *testing.T
	s *Store
}

func olderStore(t *testing.T, d *Database, version int) *older {
	t.Helper()
	s := d.store(store.DefaultProject)
	for n, db := range s.nodes {
		err := db.adapt(t.Context())
		if hasCode(err, unknownDatabase) {
			if err = db.outside().exec(t.Context(), "CREATE DATABASE `"+db.name+"`"); err == nil {
				err = db.adapt(t.Context())
			}
		}
		for v := 0; err == nil && v < version; v++ {
			err = s.apply(t.Context(), db, v, "")
		}
		if err == nil && version > 1 {
			var node rows
			node.u32(uint32(n))
			node.u32(uint32(len(s.nodes)))
			node.end()
			err = db.insert(t.Context(), s.table("node"), "number, nodes", &node)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return &older{t, s}
}

// old are the names of the tables of then in queries of then.
func (o *older) old(query string, args ...any) string {
	return strings.ReplaceAll(fmt.Sprintf(query, args...), "$", o.s.prefix)
}

// push writes a batch: all that is not counted as today, the rest as numbers.
func (o *older) push(b *store.Batch) {
	o.t.Helper()
	s, ctx := o.s, o.t.Context()
	p := newPush(b)
	w := written{reached: make([]rows, len(s.nodes)), times: make([]rows, len(s.nodes))}
	err := s.look(ctx, p)
	if err == nil {
		err = s.claims(ctx, []*push{p})
	}
	if err = errors.Join(err, p.err); err == nil {
		err = s.add(p, &w)
	}
	w.reached, w.times = make([]rows, len(s.nodes)), make([]rows, len(s.nodes))
	if err == nil {
		err = s.send(ctx, &w)
	}
	for _, u := range b.Usage {
		unit := unitID(u.Unit)
		if err == nil {
			err = o.insert(s.nodes[s.shard(unit)], p, unit, u.Hits)
		}
	}
	if err != nil {
		o.t.Fatal(err)
	}
}

func (o *older) insert(db *database, p *push, unit id, hits []uint64) error {
	var usage, seen rows
	usage.fixed(p.build[:])
	usage.fixed(unit[:])
	usage.u32(p.window)
	usage.fixed(p.instance[:])
	once := uint8(0)
	if p.batch.Once {
		once = 1
	}
	usage.u8(once)
	usage.text(p.batch.Instance.Host)
	usage.fixed(p.labels[:])
	usage.length(len(hits))
	for _, n := range hits {
		usage.u64(n)
	}
	usage.end()
	seen.fixed(p.build[:])
	seen.fixed(unit[:])
	pushed := uint8(0)
	if p.batch.Instance.Host == "" {
		pushed = 1
	}
	seen.u8(pushed)
	for _, unseen := range []uint32{never, 0} { // of the first times, and of the last
		seen.length(len(hits))
		for _, n := range hits {
			if n == 0 {
				seen.u32(unseen)
			} else {
				seen.u32(p.window)
			}
		}
	}
	seen.end()
	return errors.Join(db.insert(o.t.Context(), o.s.table("usage_in"), "build, unit, window, instance, once, host, labels, v", &usage),
		db.insert(o.t.Context(), o.s.table("seen_in"), "build, unit, pushed, f, l", &seen))
}

// reached, halves and sumOfHalves are of the queries of then.
func (o *older) reached(first, last uint32) string {
	return o.old("SELECT build, unit, host, labels, maxForEachMerge(hits) AS m FROM `$usage` WHERE window >= %d AND window < %d GROUP BY build, unit, host, labels, instance, if(once = 1, toUInt32(0), window) HAVING min(window) >= %d AND min(window) < %d",
		first-slack, last+slack, first, last)
}

const (
	halves      = "sumForEach(arrayMap(x -> bitShiftRight(x, 32), m)) AS hi, sumForEach(arrayMap(x -> bitAnd(x, 4294967295), m)) AS lo"
	sumOfHalves = "arrayMap((h, l) -> if(h + bitShiftRight(l, 32) > 4294967295, toUInt64(18446744073709551615), toUInt64(bitShiftLeft(h, 32) + l)), hi, lo)"
)

// expire makes sums of the windows of a day, all of which it keeps, as a server that was killed then does.
func (o *older) expire(at uint32) {
	o.t.Helper()
	s, ctx := o.s, o.t.Context()
	err := s.limit(ctx, "closed", at+day)
	for _, db := range s.nodes {
		if err == nil {
			err = db.exec(ctx, o.old("INSERT INTO `$rollup` (build, unit, day, host, labels, hits) SELECT build, unit, toUInt32(%d) AS day, host, labels, maxForEachState(%s) AS hits FROM (SELECT build, unit, host, labels, %s FROM (%s) GROUP BY build, unit, host, labels) GROUP BY build, unit, day, host, labels",
				at, sumOfHalves, halves, o.reached(at, at+day)))
		}
	}
	if err == nil {
		err = s.limit(ctx, "rolled", at+day)
	}
	if err != nil {
		o.t.Fatal(err)
	}
}

// totals are sums by unit, of what is from a day on that has not been rolled up, and of all days.
func (o *older) totals(rolled uint32) map[id][]uint64 {
	o.t.Helper()
	sums := make(map[id][]uint64)
	for _, db := range o.s.nodes {
		if err := db.query(o.t.Context(), o.old("SELECT unit, %s FROM (SELECT unit, %s FROM (%s UNION ALL SELECT build, unit, host, labels, maxForEachMerge(hits) AS m FROM `$rollup` GROUP BY build, unit, host, labels, day) GROUP BY unit)",
			sumOfHalves, halves, o.reached(rolled, never-day)), func(a *answer) error {
			sums[a.id()] = a.array(8)
			return nil
		}); err != nil {
			o.t.Fatal(err)
		}
	}
	return sums
}

// seen are first and last times, by unit and whether it was pushed.
func (o *older) seen() map[string][][]uint64 {
	o.t.Helper()
	times := make(map[string][][]uint64)
	for _, db := range o.s.nodes {
		if err := db.query(o.t.Context(), o.old("SELECT unit, pushed, minForEachMerge(first), maxForEachMerge(last) FROM `$seen` GROUP BY unit, pushed"), func(a *answer) error {
			key := fmt.Sprintf("%x %v", a.id(), a.u8() != 0)
			first, last := a.array(4), a.array(4)
			for i := range first {
				if first[i] == never {
					first[i] = 0
				}
			}
			times[key] = [][]uint64{first, last}
			return nil
		}); err != nil {
			o.t.Fatal(err)
		}
	}
	return times
}

// fill has a build and batches of three days, of which the first two are rolled up: of hosts, some told twice and in pieces,
// and of jobs that count once, told again a day later. It returns when what is not rolled up begins.
func (o *older) fill() (sim *fixtures.Simulation, rolled uint32) {
	o.t.Helper()
	sim = fixtures.Simulate(6, 3, 7)
	if err := o.s.PutBuild(o.t.Context(), &sim.Build); err != nil {
		o.t.Fatal(err)
	}
	for i, b := range sim.Batches {
		days := time.Duration(b.Instance.PID%3) * 24 * time.Hour
		b.Window = b.Window.Add(days)
		b.Instance.Labels = map[string]string{"region": fmt.Sprint(b.Instance.PID % 2)}
		if b.Instance.PID == 5 { // of the third day
			b.Instance.Host, b.Instance.Boot, b.Once = "", "job", true
			b.Window = b.Window.Add(time.Duration(i%2) * slack / 2 * time.Second)
		}
		o.push(b)
	}
	most := &store.Batch{Build: sim.Build.ID, Window: fixtures.Day1, Instance: store.Instance{Host: "most", PID: 1}}
	for range 2 {
		most.Instance.PID++
		most.Usage = []store.Usage{{Unit: sim.Build.Units[0].Hash(), Hits: slices.Repeat([]uint64{math.MaxUint64 - 1}, sim.Build.Units[0].Counters)}}
		o.push(most)
	}
	first := uint32(fixtures.Day1.Unix())
	o.expire(first)
	o.expire(first + day)
	return sim, first + 2*day
}

// TestVersions has stores of older schemas be brought to this one by two servers, which are killed again and again, and
// ClickHouse once, and asks what the footfall of then was asked.
func TestVersions(t *testing.T) {
	servers := []*fixtures.ClickHouse{fixtures.NewClickHouse(t), fixtures.NewClickHouse(t)}
	for version, addresses := range map[int]string{1: servers[0].Address + "/v", 2: servers[0].Address + "/w," + servers[1].Address + "/w"} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			d, err := Parse(addresses)
			if err != nil {
				t.Fatal(err)
			}
			o := olderStore(t, d, version)
			_, rolled := o.fill()
			totals, seen := o.totals(rolled), o.seen()
			if _, err := d.Read(t.Context(), store.DefaultProject); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("has version %d", version)) {
				t.Errorf("read: %v", err)
			}
			kills := 0
			for requests := 0; !openKilled(t, addresses, requests); requests += 1 + requests/8 {
				if kills++; kills == 12 {
					servers[0].Kill()
					servers[0].Start()
				}
			}
			if kills < 12 {
				t.Errorf("it was killed %d times", kills)
			}
			s := opened(t, d)
			if diff := cmp.Diff(totals, totalsOf(t, s)); diff != "" {
				t.Errorf("totals (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(seen, seenOf(t, s)); diff != "" {
				t.Errorf("seen (-want +got):\n%s", diff)
			}
			sizes, err := s.Sizes(t.Context())
			if err != nil || sizes.Windows == 0 || sizes.Days != 2 || sizes.UsageBytes == 0 || sizes.DayBytes == 0 || sizes.SeenBytes == 0 {
				t.Errorf("sizes: %+v, %v", sizes, err)
			}
			for _, db := range s.nodes {
				if err := db.query(t.Context(), "SELECT name FROM system.tables WHERE database = "+quote(db.name), func(a *answer) error {
					if name := a.text(); strings.HasPrefix(name, "usage") || strings.HasPrefix(name, "rollup") || strings.HasPrefix(name, "seen") {
						t.Errorf("table %s is left", name)
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
			var unit id
			p := &push{batch: &store.Batch{}}
			if err := o.insert(s.db, p, unit, nil); !hasCode(err, unknownTable) || errors.Is(err, store.ErrAway) {
				t.Errorf("an older footfall writes: %v", err)
			}
		})
	}
}

// totalsOf and seenOf ask for what an older answers.
func totalsOf(t *testing.T, s *Store) map[id][]uint64 {
	t.Helper()
	sums := make(map[id][]uint64)
	if err := s.Totals(t.Context(), &store.Query{}, false, func(total store.Total) error { sums[unitID(total.Hash)] = total.Hits; return nil }); err != nil {
		t.Fatal(err)
	}
	return sums
}

func seenOf(t *testing.T, s *Store) map[string][][]uint64 {
	t.Helper()
	times := make(map[string][][]uint64)
	if err := s.LastSeen(t.Context(), &store.Query{}, func(l store.LastSeen) error {
		times[fmt.Sprintf("%x %v", unitID(l.Hash), l.Pushed)] = [][]uint64{slices.Clone(l.First), slices.Clone(l.Last)}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return times
}

// openKilled has two servers open a store at once, which end after so many requests, and so many and a half. It tells whether
// one of them was done before.
func openKilled(t *testing.T, addresses string, requests int) (done bool) {
	var group sync.WaitGroup
	var opened atomic.Bool
	for n := range 2 {
		d, err := Parse(addresses)
		if err != nil {
			t.Fatal(err)
		}
		left := new(atomic.Int64)
		left.Store(int64(requests + n*requests/2))
		for _, db := range d.nodes {
			db.client = &http.Client{Transport: &failing{left}}
		}
		group.Go(func() {
			s, err := d.Open(t.Context(), store.DefaultProject)
			if err == nil {
				opened.Store(true)
				err = s.Close()
			}
			if err != nil && !errors.Is(err, store.ErrAway) {
				t.Errorf("after %d requests: %v", requests, err)
			}
		})
	}
	group.Wait()
	return opened.Load() || t.Failed()
}

// A failing fails from some request on.
type failing struct{ left *atomic.Int64 }

func (f *failing) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.left.Add(-1) < 0 {
		return nil, errors.New("killed")
	}
	return http.DefaultTransport.RoundTrip(r)
}

// TestVersionsInserting has an older footfall be inserting while another brings the schema to this version. What it is told
// was taken counts.
func TestVersionsInserting(t *testing.T) {
	d := parsed(t, fixtures.NewClickHouse(t), "v")
	o := olderStore(t, d, 2)
	sim := fixtures.Simulate(1, 1, 1)
	if err := o.s.PutBuild(t.Context(), &sim.Build); err != nil {
		t.Fatal(err)
	}
	o.push(sim.Batches[0])
	// An insert is under way as long as its rows have not all come.
	in, body := io.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	query := "INSERT INTO " + o.s.table("usage_in") + " (build, unit, window, instance, once, host, labels, v) FORMAT TSV"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, o.s.db.address+"/?database=v&query="+strings.ReplaceAll(query, " ", "+"), in)
	if err != nil {
		t.Fatal(err)
	}
	request.SetBasicAuth(o.s.db.user, o.s.db.password)
	taken := make(chan bool)
	go func() {
		r, err := http.DefaultClient.Do(request)
		if err == nil {
			_ = r.Body.Close()
		}

		taken <- err == nil && r.StatusCode == http.StatusOK
	}()
	list := sim.Build.Units[0]
	row := fmt.Sprintf("%s\t%s\t%d\tanother\t0\thost\t\t[%s7]\n", tsv(idOf(sim.Build.ID)), tsv(unitID(list.Hash())), fixtures.Day1.Unix(), strings.Repeat("7,", list.Counters-1))
	if _, err := io.WriteString(body, strings.Repeat(row, 4<<20/len(row))); err != nil { // it begins when so much is there
		t.Fatal(err)
	}
	for inserting := uint64(0); inserting == 0 && ctx.Err() == nil; {
		if err := o.s.db.query(ctx, "SELECT toUInt64(count()) FROM system.processes WHERE startsWith(query, 'INSERT')", func(a *answer) error { inserting = a.u64(); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan *Store)
	go func() {
		s, err := d.Open(ctx, store.DefaultProject)
		if err != nil {
			t.Error(err)
		}
		opened, _ := s.(*Store)
		done <- opened
	}()
	waited := make(chan error) // of a ClickHouse whose DROP does not wait itself
	go func() { waited <- o.s.awaitInserts(ctx, o.s.db) }()
	select {
	case <-done:
		t.Fatal("nobody waited")
	case err := <-waited:
		t.Fatalf("it was not waited for what is inserted: %v", err)
	case <-time.After(time.Second):
	}
	if _, err := io.WriteString(body, row); err != nil {
		t.Fatal(err)
	}
	_ = body.Close()
	was, s := <-taken, <-done
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if s == nil {
		t.FailNow()
	}
	defer s.Close()
	want := uint64(0)
	if was {
		want = 7
	}
	t.Logf("the insert was taken: %v", was)
	hits := totalsOf(t, s)[unitID(list.Hash())]
	if before := o.batchHits(sim.Batches[0]); hits[0] != before+want {
		t.Errorf("%d counts, want %d and %d", hits[0], before, want)
	}
}

func (o *older) batchHits(b *store.Batch) uint64 {
	if len(b.Usage) == 0 {
		return 0
	}
	return b.Usage[0].Hits[0]
}

// tsv is a string as ClickHouse reads it from text.
func tsv(v id) string {
	text := quote(string(v[:]))
	return text[1 : len(text)-1]
}
