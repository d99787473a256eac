//go:build linux

package patch

import (
	"encoding/binary"
	"testing"
)

// callersSectionOf makes a section with one table.
func callersSectionOf(depth, slots uint32, fill func(slot int) (count uint64, callers []uint64)) []byte {
	le := binary.LittleEndian
	slotSize := 16 + 8*depth
	b := append(make([]byte, 64), callersMagic...)
	for _, v := range []uint32{callersHead + slots*slotSize, depth, slots, slotSize} {
		b = le.AppendUint32(b, v)
	}
	b = le.AppendUint64(le.AppendUint64(b, 3), 0x1234)
	for i := range slots {
		count, callers := fill(int(i))
		b = append(le.AppendUint64(b, count), make([]byte, 8)...)
		for n := range depth {
			a := uint64(0)
			if int(n) < len(callers) {
				a = callers[n]
			}
			b = le.AppendUint64(b, a)
		}
	}
	return b
}

func TestReadCallers(t *testing.T) {
	b := callersSectionOf(2, 4, func(i int) (uint64, []uint64) { return uint64(i), []uint64{7, 9}[:i/2] })
	tables, err := readCallers(append(b, b...))
	if err != nil || len(tables) != 2 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	got := tables[1].table
	if got.Lost != 3 || got.Depth != 2 || tables[1].function != 0x1234 || len(got.Chains) != 3 || len(got.Chains[0].Addresses) != 0 || got.Chains[2].Addresses[0] != 7 {
		t.Errorf("got %+v", got)
	}
}

func FuzzReadCallers(f *testing.F) {
	f.Add(callersSectionOf(3, 2, func(int) (uint64, []uint64) { return 5, []uint64{1, 2, 3} }))
	f.Add(callersSectionOf(1, 1, func(int) (uint64, []uint64) { return 0, nil })[8:])
	f.Fuzz(func(t *testing.T, data []byte) {
		tables, err := readCallers(data)
		if err != nil {
			return
		}
		for _, table := range tables {
			for _, c := range table.table.Chains {
				if c.Count == 0 || len(c.Addresses) > table.table.Depth {
					t.Errorf("chain %+v of a table of depth %d", c, table.table.Depth)
				}
			}
		}
	})
}
