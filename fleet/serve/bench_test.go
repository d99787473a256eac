package serve

import (
	"fmt"
	"io"
	"log/slog"
	"net"
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

// atOnce is how many senders there are, each with a connection of its own: where batches come by the hundred a second there are
// thousands of agents, whose windows end at the same moment, and some hundred that wait for an answer.
const atOnce = 400

// counts has batches sent to a server by many at once, and says how many a second that are, and how many counters.
func counts(b *testing.B, list []store.Unit, batch func(n int64, memory *store.Batch)) {
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

func countsOf(b *testing.B, stores store.Stores, db *fixtures.ClickHouse, list []store.Unit, batch func(n int64, memory *store.Batch)) {
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
	for range atOnce {
		c := newClient() // each has a connection of its own
		senders.Go(func() {
			var one store.Batch
			for {
				n := next.Add(1)
				if n > int64(b.N) {
					return
				}
				batch(n, &one)
				for i := range one.Usage {
					counters.Add(int64(one.Usage[i].Counters()))
				}
				if err := c.Push(b.Context(), &one); err != nil {
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

// fill has a batch be one of the units, of which each second line ran, in the memory that it has.
func fill(b *store.Batch, window time.Time, of store.Instance, list []store.Unit, hashes []store.Hash, n int64) {
	if b.Usage == nil {
		for i := range list {
			b.Usage = append(b.Usage, store.Usage{Unit: hashes[i], Hits: make([]uint64, list[i].Counters)})
		}
	}
	b.Build, b.Window, b.Seen, b.Instance = "build", window, window, of
	for i := range b.Usage {
		hits := b.Usage[i].Hits
		for k := 0; k < len(hits); k += 2 {
			if count := uint64(n) * uint64(k%5); count > 0 {
				hits[k], hits[k+1] = count, 1
			}
		}
	}
}

func hashesOf(list []store.Unit) (hashes []store.Hash) {
	for i := range list {
		hashes = append(hashes, list[i].Hash())
	}
	return hashes
}

// BenchmarkAgents is batches of agents that have 2,000 changed functions of 10 lines each.
func BenchmarkAgents(b *testing.B) {
	list, window := linesOf(40, 500), time.Now().Truncate(time.Minute)
	hashes := hashesOf(list)
	counts(b, list, func(n int64, batch *store.Batch) {
		fill(batch, window, store.Instance{Host: fmt.Sprint(n % 50), PID: int(n % 200)}, list, hashes, n)
	})
}

// BenchmarkRan is batches of agents that watch programs without counters (agent --ran functions), of which 2,000 functions ran.
func BenchmarkRan(b *testing.B) {
	window := time.Now().Truncate(time.Minute)
	var list []store.Unit
	var usage []store.Usage
	for i := range 40 {
		f := &coverage.File{Name: fmt.Sprintf("unit%d.c", i)}
		for k := range 50 {
			name := fmt.Sprintf("function%d", k)
			f.Functions = append(f.Functions, &coverage.Function{Name: name, StartLine: int32(10*k + 1), EndLine: int32(10*k + 9), Count: 1, Instances: []coverage.Instance{{Name: name, Count: 1}}})
		}
		counted := units.OfRan(f, make([]bool, len(f.Functions)))
		list = append(list, counted.Unit)
		usage = append(usage, store.Usage{Unit: counted.Unit.Hash(), Hits: counted.Hits})
	}
	counts(b, list, func(n int64, batch *store.Batch) {
		*batch = store.Batch{Build: "build", Window: window, Seen: window, Instance: store.Instance{Host: fmt.Sprint(n % 50), PID: int(n % 200)}, Usage: usage}
	})
}

// BenchmarkJobs is jobs of a CI, each of which ran 20,000 lines of 50 files, in a commit.
func BenchmarkJobs(b *testing.B) {
	list, window := linesOf(50, 400), time.Now().Truncate(time.Minute)
	hashes := hashesOf(list)
	counts(b, list, func(n int64, batch *store.Batch) {
		batch.Once = true
		fill(batch, window, store.Instance{Boot: fmt.Sprint("job", n)}, list, hashes, n)
	})
}
