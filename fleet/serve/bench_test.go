package serve

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"footfall/coverage"
	"footfall/fleet/client"
	"footfall/fleet/store"
	"footfall/fleet/store/fixtures"
	"footfall/fleet/store/sqlite"
	"footfall/fleet/units"
)

// counts has batches sent to a server by eight senders at once, and says how many a second that are, and
// how many counters.
func counts(b *testing.B, list []store.Unit, batch func(n int64) *store.Batch) {
	b.Run("sqlite", func(b *testing.B) { countsOf(b, sqlite.Dir(b.TempDir()), nil, list, batch) })
	b.Run("clickhouse", func(b *testing.B) {
		db := fixtures.NewClickHouse(b)
		stores, err := storesOf("clickhouse:" + db.Address)
		if err != nil {
			b.Fatal(err)
		}
		countsOf(b, stores, db, list, batch)
	})
}

func countsOf(b *testing.B, stores store.Stores, db *fixtures.ClickHouse, list []store.Unit, batch func(n int64) *store.Batch) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		if err := Serve(b.Context(), l, Options{Stores: stores, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}); err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(served.Wait)
	server := "http://" + l.Addr().String()
	newClient := func() *client.Client {
		c, err := client.New(server, "")
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	if err := newClient().Tell(b.Context(), "build", "1", list); err != nil {
		b.Fatal(err)
	}
	var next, counters atomic.Int64
	var senders sync.WaitGroup
	cpu := fixtures.ReportCPU(b, db)
	b.ResetTimer()
	for range sendersAtOnce() {
		c := newClient() // each has a connection of its own
		senders.Go(func() {
			for {
				n := next.Add(1)
				if n > int64(b.N) {
					return
				}
				one := batch(n)
				for i := range one.Usage {
					counters.Add(int64(len(one.Usage[i].Hits)))
				}
				if err := c.Push(b.Context(), one); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	senders.Wait()
	cpu()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "batches/s")
	b.ReportMetric(float64(counters.Load())/b.Elapsed().Seconds()/1e6, "Mcounters/s")
}

func linesOf(files, lines int) (list []store.Unit) {
	for i := range files {
		f := &coverage.File{Name: fmt.Sprintf("unit%d.c", i)}
		for line := range lines {
			f.Lines = append(f.Lines, coverage.Line{Number: int32(line) + 1})
		}
		list = append(list, units.Of(f).Unit)
	}
	return list
}

func fill(b *store.Batch, list []store.Unit, n int64) *store.Batch {
	for i := range list {
		hits := make([]uint64, list[i].Counters)
		for k := 0; k < len(hits); k += 2 {
			if count := uint64(n) * uint64(k%5); count > 0 {
				hits[k], hits[k+1] = count, 1
			}
		}
		b.Usage = append(b.Usage, store.Usage{Unit: list[i].Hash(), Hits: hits})
	}
	return b
}

// BenchmarkAgents is batches of agents that have 2,000 changed functions of 10 lines each.
func BenchmarkAgents(b *testing.B) {
	list, window := linesOf(40, 500), time.Now().Truncate(time.Minute)
	counts(b, list, func(n int64) *store.Batch {
		return fill(&store.Batch{Build: "build", Window: window, Seen: window, Instance: store.Instance{Host: fmt.Sprint(n % 50), PID: int(n % 200)}}, list, n)
	})
}

// BenchmarkJobs is jobs of a CI, each of which ran 20,000 lines of 50 files, in a commit.
func BenchmarkJobs(b *testing.B) {
	list, window := linesOf(50, 400), time.Now().Truncate(time.Minute)
	counts(b, list, func(n int64) *store.Batch {
		return fill(&store.Batch{Build: "build", Window: window, Seen: window, Once: true, Instance: store.Instance{Boot: fmt.Sprint("job", n)}}, list, n)
	})
}

func sendersAtOnce() int {
	n := 8
	fmt.Sscan(os.Getenv("SENDERS"), &n)
	return n
}
