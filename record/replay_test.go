//go:build linux

package record

import (
	"bytes"
	"regexp"
	"slices"
	"testing"

	"footfall/trace"
)

// TestPasses checks that calls of a recording are shown by time, though what one
// thread did in a pass comes before what others did.
func TestPasses(t *testing.T) {
	h := &trace.Header{PID: 1, Functions: []trace.Function{{Name: "f"}}}
	var text bytes.Buffer
	out := trace.NewOutput("graph", &text, h)
	all := &outputs{header: h, told: 1, ordered: true, builder: trace.NewBuilder(h, out)}
	p := newPasses(all, nil)
	for _, block := range []struct {
		thread int
		times  []uint64
	}{{1, []uint64{1, 4}}, {2, []uint64{2, 3}}, {1, []uint64{6, 9}}, {2, []uint64{5, 7}}, {3, []uint64{8}}, {2, []uint64{10}}, {2, []uint64{11}}, {1, []uint64{12}}} {
		events := []trace.Event{{Word: true, Time: 99}}
		for _, time := range block.times {
			events = append(events, trace.Event{Time: time * 1000, Stack: 100})
		}
		p.add(trace.Thread{ID: block.thread}, events)
	}
	held := 0
	for _, q := range p.order.queues {
		for _, e := range q.events {
			if !e.Word {
				held++
			}
		}
	}
	if held >= 12 {
		t.Errorf("%d events are held", held)
	}
	p.order.end()
	if _, err := all.builder.Close(0); err != nil {
		t.Fatal(err)
	}
	var times []string
	for _, m := range regexp.MustCompile(`0\.0000(\d\d) `).FindAllStringSubmatch(text.String(), -1) {
		times = append(times, m[1])
	}
	if want := []string{"01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12"}; !slices.Equal(times, want) {
		t.Errorf("%v\n%s", times, text.String())
	}
}
