package sqlite

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"footfall/fleet/store"
	"footfall/fleet/store/fixtures"
)

// BenchmarkPush pushes batches of 2,000 changed functions of 20 counters, in units of 50, from eight
// agents at once: how many a second is what the metric says.
func BenchmarkPush(b *testing.B) {
	s, err := Open(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	build := store.Build{ID: "build", Units: fixtures.Units(40, 1000)}
	if err := s.PutBuild(b.Context(), &build); err != nil {
		b.Fatal(err)
	}
	var next atomic.Int64
	var agents sync.WaitGroup
	b.ResetTimer()
	for agent := range 8 {
		agents.Go(func() {
			for {
				n := next.Add(1)
				if n > int64(b.N) {
					return
				}
				batch := &store.Batch{Build: "build", Window: fixtures.Day1, Instance: store.Instance{Host: fmt.Sprint(agent), PID: int(n % 25)}}
				for i := range build.Units {
					u := &build.Units[i]
					hits := make([]uint64, u.Counters)
					for c := range hits {
						hits[c] = uint64(n) * uint64(c%5)
					}
					batch.Usage = append(batch.Usage, store.Usage{Unit: u.Hash(), Hits: hits})
				}
				if err := s.Push(b.Context(), batch); err != nil {
					b.Error(err)
				}
			}
		})
	}
	agents.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "batches/s")
}
