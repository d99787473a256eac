package ask

import (
	"fmt"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"footfall/coverage"
	"footfall/fleet/store"
	"footfall/fleet/store/clickhouse"
	"footfall/fleet/store/fixtures"
	"footfall/fleet/store/sqlite"
	"footfall/fleet/units"
)

// BenchmarkNeverRan asks what never ran in 30 days on 1,000 hosts, of 100,000 functions of 20 lines in 2,000 sources, of three
// releases of which each has a fifth of the sources changed. Cold is the first question to a store that has just been
// opened, warm one to a server that has answered before. With FOOTFALL_BENCH_STORE=DIR the store is kept there.
func BenchmarkNeverRan(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) {
		dir := os.Getenv("FOOTFALL_BENCH_STORE")
		if dir == "" {
			dir = b.TempDir()
		}
		if _, err := os.Stat(dir + "/footfall.db"); err != nil {
			fillLarge(b, sqlite.Dir(dir))
		}
		neverRan(b, nil, func() (store.Reader, error) { return sqlite.Read(b.Context(), dir) })
	})
	b.Run("clickhouse", func(b *testing.B) {
		db := fixtures.NewClickHouse(b)
		stores, err := clickhouse.Parse(db.Address)
		if err != nil {
			b.Fatal(err)
		}
		fillLarge(b, stores)
		neverRan(b, db, func() (store.Reader, error) { return stores.Read(b.Context(), store.DefaultProject) })
	})
}

func neverRan(b *testing.B, db *fixtures.ClickHouse, open func() (store.Reader, error)) {
	question := func(a *Ask) *NeverRan {
		answer, err := a.Answer(b.Context(), "never-ran", url.Values{})
		if err != nil {
			b.Fatal(err)
		}
		return answer.(*NeverRan)
	}
	opened := func() *Ask {
		s, err := open()
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = s.Close() })
		return &Ask{Store: s, Now: func() time.Time { return now }}
	}
	if n := question(opened()); n.Hosts != 1000 || n.Functions < 100_000 || len(n.Never) == 0 || len(n.Builds) != 3 {
		b.Fatalf("%d hosts, %d functions, %d never ran, %d builds", n.Hosts, n.Functions, len(n.Never), len(n.Builds))
	}
	b.Run("cold", func(b *testing.B) {
		defer fixtures.ReportCPU(b, db)()
		for b.Loop() {
			question(opened())
		}
	})
	b.Run("warm", func(b *testing.B) {
		a := opened()
		question(a)
		defer fixtures.ReportCPU(b, db)()
		for b.Loop() {
			question(a)
		}
	})
}

// fillLarge makes the store of the benchmark. Each host reports of 2,000 functions.
func fillLarge(b *testing.B, stores store.Stores) {
	s, err := stores.Open(b.Context(), store.DefaultProject)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	const sources, functions, hosts = 2000, 50, 1000
	for release := range 3 {
		build := store.Build{ID: fmt.Sprint("build", release), Release: fmt.Sprint("1.", release)}
		var hits [][]uint64
		for i := range sources {
			version := 0
			if i%5 == release {
				version = release
			}
			c := units.Of(largeSource(i, version, functions))
			build.Units = append(build.Units, c.Unit)
			hits = append(hits, c.Hits)
		}
		if err := s.PutBuild(b.Context(), &build); err != nil {
			b.Fatal(err)
		}
		var senders sync.WaitGroup
		some := make(chan bool, 8) // at a time
		for host := release; host < hosts; host += 3 {
			batch := &store.Batch{Build: build.ID, Window: now.Add(-time.Duration(host%29) * 24 * time.Hour), Instance: store.Instance{Host: fmt.Sprint("host", host), PID: 1}}
			for i := host % 50; i < sources; i += 50 {
				batch.Usage = append(batch.Usage, store.Usage{Unit: build.Units[i].Hash(), Hits: hits[i]})
			}
			some <- true
			senders.Go(func() {
				if err := s.Push(b.Context(), batch); err != nil {
					b.Error(err)
				}
				<-some
			})
		}
		senders.Wait()
	}
}

// largeSource has functions of 20 lines with code, of which each third never runs.
func largeSource(number, version, functions int) *coverage.File {
	f := &coverage.File{Name: fmt.Sprintf("src/dir%02d/source%04d.c", number%100, number)}
	for i := range functions {
		start := int32(30*i + 1 + version)
		name, count := fmt.Sprintf("source%04d_function%02d", number, i), int64(1000*(i%3))
		f.Functions = append(f.Functions, &coverage.Function{StartLine: start, EndLine: start + 25, Name: name, Count: count, Instances: []coverage.Instance{{Name: name, Count: count}}})
		for line := start; line < start+20; line++ {
			f.Lines = append(f.Lines, coverage.Line{Number: line, Count: count})
		}
	}
	return f
}
