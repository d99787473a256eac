package perfdata

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
)

// TestGroup decodes the pieces of a file from the last to the first: what the counters of
// a group have come further goes to the same samples.
func TestGroup(t *testing.T) {
	const (
		sampleType = sampleIP | sampleTID | sampleTime | sampleRead | sampleIdentifier
		leader     = 5 // IDs
		member     = 6
		samples    = 40000
	)
	order := binary.AppendByteOrder(binary.LittleEndian)
	for _, inherit := range []bool{false, true} {
		file := &testFile{order: order}
		for i, id := range []uint64{leader, member} {
			e := testEvent{kind: 1, config: uint64(2 * i), period: 1000, sampleType: sampleType, readFormat: readGroup | readID | readEnabled, ids: []uint64{id}}
			if inherit {
				e.flags = 1 << 1
			}
			file.events = append(file.events, e)
		}
		// Two threads, of which the second one's page faults come in steps of 3.
		want := make(map[[2]uint64]uint64)
		for n := range uint64(samples) {
			thread := n % 2
			clock, faults := 1000*(n/2+1), (1+2*thread)*(n/4)
			if !inherit {
				clock, faults = 1000*(n+1), n/4
			}
			w := &writer{order: order}
			w.u64(leader, 0x1000+n).u32(7, uint32(8+thread)).u64(n, 2, n, clock, leader, faults, member)
			file.record(recordSample, modeUser, w.b)
			want[[2]uint64{thread, 0}] += 1000
		}
		if inherit {
			want[[2]uint64{0, 1}], want[[2]uint64{1, 1}] = samples/4-1, 3*(samples/4-1)
		} else {
			want[[2]uint64{0, 1}] = samples/4 - 1
		}
		b := file.bytes()
		f, err := Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Scan(func(SidebandEvent) {}); err != nil {
			t.Fatal(err)
		}
		var chunks []Chunk
		if err := f.Chunks(func(c Chunk) error {
			chunks = append(chunks, c)
			return nil
		}); err != nil || len(chunks) < 3 {
			t.Fatal(len(chunks), err)
		}
		slices.Reverse(chunks)
		d, got := f.NewDecoder(), make(map[[2]uint64]uint64)
		for _, c := range chunks {
			d.Samples(c, func(s *Sample) {
				got[[2]uint64{uint64(s.TID - 8), s.Event.Config / 2}] += s.Period
				if s.Event.Config == 0 && s.Period != 1000 || s.Event.Config == 2 && (s.Period > 3 || s.User[0] < 0x1000) {
					t.Fatalf("%s: %d", s.Event.Name, s.Period)
				}
			})
		}
		for k, n := range want {
			if got[k] != n {
				t.Errorf("inherited %v: thread %d, event %d: %d, want %d", inherit, k[0], k[1], got[k], n)
			}
		}
		if len(got) != len(want) || d.Damaged > 0 {
			t.Errorf("%v, %d damaged", got, d.Damaged)
		}
	}
}
