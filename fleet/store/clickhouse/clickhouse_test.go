package clickhouse

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"footfall/fleet/store"
	"footfall/fleet/store/fixtures"
)

// parsed is the address of a database of a server.
func parsed(t testing.TB, server *fixtures.ClickHouse, name string) *Database {
	t.Helper()
	d, err := Parse(server.Address + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func opened(t testing.TB, d *Database) *Store {
	t.Helper()
	s, err := d.Open(t.Context(), store.DefaultProject)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s.(*Store)
}

// TestStore has the store be as others are, in one server and in several.
func TestStore(t *testing.T) {
	servers := []*fixtures.ClickHouse{fixtures.NewClickHouse(t), fixtures.NewClickHouse(t)}
	for _, nodes := range []int{1, 2, 3} { // of three, two are databases of one server
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			n := 0
			fixtures.Contract(t, func(t *testing.T) (store.Store, func() store.Reader) {
				n++
				var addresses []string
				for i := range nodes {
					addresses = append(addresses, fmt.Sprintf("%s/d%d_%d_%d", servers[i%2].Address, nodes, n, i))
				}
				d, err := Parse(strings.Join(addresses, ","))
				if err != nil {
					t.Fatal(err)
				}
				return opened(t, d), func() store.Reader {
					r, err := d.Read(t.Context(), store.DefaultProject)
					if err != nil {
						t.Fatal(err)
					}
					return r
				}
			})
		})
	}
}

// TestNodes names the servers of a store otherwise than they were named first.
func TestNodes(t *testing.T) {
	server := fixtures.NewClickHouse(t)
	address := func(names ...string) *Database {
		var list []string
		for _, name := range names {
			list = append(list, server.Address+"/"+name)
		}
		d, err := Parse(strings.Join(list, ","))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	s := opened(t, address("a", "b"))
	sim := fixtures.Simulate(4, 2, 9)
	if err := s.PutBuild(t.Context(), &sim.Build); err != nil {
		t.Fatal(err)
	}
	for _, b := range sim.Batches {
		if err := s.Push(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	for n, db := range s.nodes {
		if some, err := s.counts(t.Context(), db); !some || err != nil {
			t.Errorf("node %d has counts: %v, %v", n, some, err)
		}
	}
	alone := opened(t, address("alone"))
	if err := alone.PutBuild(t.Context(), &sim.Build); err != nil {
		t.Fatal(err)
	}
	if err := alone.Push(t.Context(), sim.Batches[0]); err != nil {
		t.Fatal(err)
	}
	if err := alone.db.exec(t.Context(), "TRUNCATE TABLE "+alone.table("node")); err != nil { // as of an older footfall
		t.Fatal(err)
	}
	for _, wrong := range [][]string{{"b", "a"}, {"a"}, {"b"}, {"a", "b", "c"}, {"c", "a"}, {"alone", "c"}, {"c", "alone"}} {
		d := address(wrong...)
		if _, err := d.Open(t.Context(), store.DefaultProject); err == nil || !strings.Contains(err.Error(), "name all, in the order") && !strings.Contains(err.Error(), "without the other servers") {
			t.Errorf("%q: %v", wrong, err)
		}
		if wrong[0] != "c" && len(wrong) < 3 {
			if _, err := d.Read(t.Context(), store.DefaultProject); err == nil && wrong[0] != "alone" {
				t.Errorf("%q is read", wrong)
			}
		}
	}
	for _, right := range []*Database{address("a", "b"), address("alone")} {
		opened(t, right)
	}
	if diff := cmp.Diff(sim.Truth, fixtures.Totals(t, s, &store.Query{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestServers has two servers before one database, which know only what is in that.
func TestServers(t *testing.T) {
	d := parsed(t, fixtures.NewClickHouse(t), "two")
	one, two := opened(t, d), opened(t, d)
	list := fixtures.Units(1, 2)
	if err := one.PutBuild(t.Context(), &store.Build{ID: "b", Units: list}); err != nil {
		t.Fatal(err)
	}
	later := fixtures.Day1.Add(24 * time.Hour)
	batch := func(owner, host, boot string, once bool, window time.Time, hits ...uint64) *store.Batch {
		return &store.Batch{Build: "b", Once: once, Window: window, Usage: []store.Usage{{Unit: list[0].Hash(), Hits: hits}},
			Instance: store.Instance{Host: host, Boot: boot, Owner: owner, Labels: map[string]string{`it's`: `a\b` + "\n\xff"}}}
	}
	push := func(s *Store, want error, b *store.Batch) {
		t.Helper()
		if err := s.Push(t.Context(), b); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if unknown, err := two.Announce(t.Context(), "b", "1.0", []store.Hash{list[0].Hash(), {1}}); err != nil || len(unknown) != 1 {
		t.Errorf("unknown units: %x, %v", unknown, err)
	}
	push(one, nil, batch("me", "", "job", true, fixtures.Day1, 1, 2))
	push(two, nil, batch("me", "", "job", true, later, 2, 1)) // is of the first day
	push(two, store.ErrOwner, batch("you", "", "job", true, fixtures.Day1, 50, 50))
	push(two, nil, batch("me", `o'host\`, "", false, fixtures.Day1, 10, 0))
	ask := func(s store.Reader, q *store.Query, want ...uint64) {
		t.Helper()
		if diff := cmp.Diff(want, fixtures.Totals(t, s, q)["unit000.c"]); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", q, diff)
		}
	}
	for _, s := range []*Store{one, two} {
		ask(s, &store.Query{Releases: []string{"1.0"}}, 12, 2)
		ask(s, &store.Query{From: later}, 0, 0)
		ask(s, &store.Query{Hosts: []string{`o'host\`}}, 10, 0)
		ask(s, &store.Query{Labels: map[string]string{`it's`: `a\b` + "\n\xff"}}, 12, 2)
	}
	expired := make(chan error)
	for _, s := range []*Store{one, two} {
		go func() { expired <- s.Expire(context.WithoutCancel(t.Context()), later, time.Unix(0, 0)) }()
	}
	if err := errors.Join(<-expired, <-expired); err != nil {
		t.Fatal(err)
	}
	// A server that has not been told since refuses what another has closed.
	one.told.closed = 0
	push(one, store.ErrClosed, batch("me", `o'host\`, "", false, fixtures.Day1, 99, 0))
	push(two, store.ErrClosed, batch("me", "", "job", true, later, 99, 0))
	for _, s := range []*Store{one, two} {
		ask(s, &store.Query{}, 12, 2)
		ask(s, &store.Query{To: later, Hosts: []string{`o'host\`}}, 10, 0)
	}
	evidence, err := one.Evidence(t.Context(), &store.Query{})
	if err != nil || len(evidence) != 1 || evidence[0].Hosts != 1 || evidence[0].Instances != 1 || evidence[0].Pushed != 1 {
		t.Errorf("%+v, %v", evidence, err)
	}
}

// TestAway kills the database again and again, or one of its servers. What fails meanwhile says so, and is sent again.
func TestAway(t *testing.T) {
	t.Run("one", func(t *testing.T) { testAway(t, fixtures.NewClickHouse(t)) })
	t.Run("two", func(t *testing.T) { testAway(t, fixtures.NewClickHouse(t), fixtures.NewClickHouse(t)) })
}

func testAway(t *testing.T, servers ...*fixtures.ClickHouse) {
	var addresses []string
	for _, server := range servers {
		addresses = append(addresses, server.Address+"/away")
	}
	d, err := Parse(strings.Join(addresses, ","))
	if err != nil {
		t.Fatal(err)
	}
	s := opened(t, d)
	sim := fixtures.Simulate(4, 2, 5)
	if err := s.PutBuild(t.Context(), &sim.Build); err != nil {
		t.Fatal(err)
	}
	acknowledged := make(map[int]bool)
	for i, b := range sim.Batches {
		if err := s.Push(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if acknowledged[i] = true; i%15 != 7 {
			continue
		}
		server := servers[i/15%len(servers)]
		server.Kill()
		if err := s.Push(t.Context(), b); !errors.Is(err, store.ErrAway) {
			t.Errorf("pushed to nobody: %v", err)
		}
		if err := s.Totals(t.Context(), &store.Query{}, false, func(store.Total) error { return nil }); !errors.Is(err, store.ErrAway) {
			t.Errorf("asked nobody: %v", err)
		}
		server.Start()
		sim.CheckAcknowledged(t, s, acknowledged)
	}
	if diff := cmp.Diff(sim.Truth, fixtures.Totals(t, s, &store.Query{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSchema completes one that was begun, and leaves that of a newer footfall as it is.
func TestSchema(t *testing.T) {
	d := parsed(t, fixtures.NewClickHouse(t), "schema")
	if _, err := d.Read(t.Context(), store.DefaultProject); err == nil || !strings.Contains(err.Error(), "nothing has been stored there") {
		t.Errorf("read where nothing is: %v", err)
	}
	s := opened(t, d)
	for _, table := range []string{"times", "sums", "limits", versionTable} {
		if err := s.db.exec(t.Context(), "DROP TABLE "+s.table(table)); err != nil {
			t.Fatal(err)
		}
	}
	opened(t, d)
	for _, project := range []string{"web", "a-b__c"} {
		if _, err := d.Open(t.Context(), project); err != nil {
			t.Fatal(err)
		}
	}
	names, err := d.Projects(t.Context())
	if diff := cmp.Diff([]string{"default", "a-b__c", "web"}, names); err != nil || diff != "" {
		t.Errorf("projects: %v (-want +got):\n%s", err, diff)
	}
	var r rows
	r.u32(1000)
	r.u64(0)
	r.end()
	if err := s.db.insert(t.Context(), s.table(versionTable), "version, told", &r); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Open(t.Context(), store.DefaultProject); err == nil || !strings.Contains(err.Error(), "written by a newer one") {
		t.Errorf("opened one of a newer footfall: %v", err)
	}
	wrong := *d.nodes[0]
	wrong.password = "wrong"
	if _, err := (&Database{[]*database{&wrong}}).Open(t.Context(), store.DefaultProject); err == nil || !strings.Contains(err.Error(), "does not let us in") {
		t.Errorf("with a wrong password: %v", err)
	}
}

// TestParse does not repeat passwords.
func TestParse(t *testing.T) {
	for address, want := range map[string]string{
		"http://u:secret@h:8123": "clickhouse:http://h:8123/footfall", "https://h/db": "clickhouse:https://h/db",
		"http://u:a,b@h:8123,https://u:secret@i/x": "clickhouse:http://h:8123/footfall,https://i/x", "http://h,http://h/footfall": "", "http://h,": "",
		"h:8123": "", "ftp://u:secret@h/x": "", "http://u:secr%zz@h": "", "http://h/a/b": "", "http://h/a?x=1": "",
	} {
		d, err := Parse(address)
		if err == nil && d.String() != want || err != nil && (want != "" || strings.Contains(err.Error(), "secr")) {
			t.Errorf("%s: %v, %v", address, d, err)
		}
	}
}

// FuzzAnswer reads any bytes as rows.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("\x03abc\x02\x02\x01\x02\x02\x02\x01\x01\x03\x06\x01\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("\xff\xff\xff\xff\x0f"))
	f.Add([]byte("\x00\x01\xff\xff\xff\x1f"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a := &answer{r: bufio.NewReader(bytes.NewReader(b))}
		rest := len(b) + 1
		var m merger
		for a.more() {
			text := a.text()
			hits, err := m.greatest(a, 2)
			if err == nil && len(hits) != 2 {
				t.Fatalf("%d counters", len(hits))
			}
			states := a.array(8)
			if err == nil && a.err == nil && len(text)+len(states)*8 > rest {
				t.Errorf("%d bytes and %d numbers were read of %d", len(text), len(states), rest)
			}
		}
	})
}
