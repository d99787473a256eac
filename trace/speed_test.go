package trace

import (
	"io"
	"testing"
	"time"
)

// BenchmarkOutputs measures how many events each output takes in a second.
func BenchmarkOutputs(b *testing.B) {
	var events []Event
	for i := uint64(0); i < 1000; i++ {
		events = append(events, Event{Time: 40 * i, Function: 0, Stack: 90}, Event{Time: 40*i + 10, Function: 1, Stack: 50},
			Event{Time: 40*i + 20, Function: 1, Exit: true, Stack: 50}, Event{Time: 40*i + 30, Function: 0, Exit: true, Stack: 90})
	}
	measure := func(name string, add func(Thread, []Event)) {
		b.Run(name, func(b *testing.B) {
			begin := time.Now()
			for range b.N {
				add(Thread{ID: 1, Name: "thread"}, events)
			}
			b.ReportMetric(float64(b.N*len(events))/time.Since(begin).Seconds()/1e6, "Mevents/s")
			b.ReportMetric(0, "ns/op")
		})
	}
	measure("raw", NewRawWriter(io.Discard, &header).Add)
	for _, format := range []string{"stats", "pprof", "perfetto", "chrome", "json", "graph"} {
		out := NewOutput(format, io.Discard, &header)
		measure(format, NewBuilder(&header, out).Add)
	}
}
