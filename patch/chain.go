package patch

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"footfall/exe"
	"footfall/proc"
)

// unwindRows gives the trampoline what it needs to walk up the stack: the rows
// of all images by ascending address.
func (r *region) unwindRows(p *proc.Process, blocks []*block) error {
	maps, _, err := p.Maps()
	if err != nil {
		return err
	}
	rows := []exe.UnwindRow{{}}
	for _, image := range p.Images(maps) {
		f, err := image.Open()
		if err != nil {
			continue
		}
		file, err := exe.Open(f)
		if err != nil {
			f.Close()
			continue
		}
		own, err := file.UnwindRows()
		bias := file.Bias(image.Start)
		f.Close()
		if err != nil {
			continue // chains end in that image
		}
		for _, row := range own {
			row.Addr += bias
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(a, b exe.UnwindRow) int {
		switch {
		case a.Addr < b.Addr:
			return -1
		case a.Addr > b.Addr:
			return 1
		}
		return 0
	})
	if 16*(len(rows)+1) > rowsSize {
		return fmt.Errorf("process %d: %d unwind rows, there is room for %d", p.PID, len(rows), rowsSize/16)
	}
	at := r.memory[r.rowsAt():]
	for _, row := range append(rows, exe.UnwindRow{Addr: math.MaxUint64}) {
		binary.LittleEndian.PutUint64(at, row.Addr)
		binary.LittleEndian.PutUint64(at[8:], rule(row))
		at = at[16:]
	}
	r.settings().rowCount = uint64(len(rows))
	return nil
}

// rule encodes a row as trampoline/amd64.S wants it; 0 ends the chain.
func rule(row exe.UnwindRow) uint64 {
	if !row.Known {
		return 0
	}
	v := uint64(uint32(row.CFA)) | uint64(uint16(row.FramePointer))<<32 | 1<<49
	if row.FromFramePointer {
		v |= 1 << 48
	}
	return v
}
