package store

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// BenchmarkPush pushes batches of 2,000 changed functions of 20 counters, in units of 50, from eight
// agents at once: how many a second is what the metric says.
func BenchmarkPush(b *testing.B) {
	s, err := OpenSQLite(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	build := Build{ID: "build", Units: units(40, 1000)}
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
				batch := &Batch{Build: "build", Window: day1, Instance: Instance{Host: fmt.Sprint(agent), PID: int(n % 25)}}
				for i := range build.Units {
					u := &build.Units[i]
					hits := make([]uint64, u.Counters)
					for c := range hits {
						hits[c] = uint64(n) * uint64(c%5)
					}
					batch.Usage = append(batch.Usage, Usage{u.Hash(), hits})
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

// BenchmarkUnpackVector reads vectors of 1,000 counters, of which one of five is 0.
func BenchmarkUnpackVector(b *testing.B) {
	v := make([]uint64, 1000)
	for i := range v {
		v[i] = uint64(i%5) * 77
	}
	packed := PackVector(v)
	for b.Loop() {
		if _, err := UnpackVector(packed, len(v)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds()/1e6, "Mcounters/s")
}
