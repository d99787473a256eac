package patch

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"footfall/exe"
	"footfall/proc"
)

// unwindRows gives the trampoline what it needs to walk up the stack: the rows
// of all images by ascending address. There is room for two tables, because
// threads may be about to look into the one before.
func (r *region) unwindRows(p *proc.Process) error {
	maps, _, err := p.Maps()
	if err != nil {
		return err
	}
	rows := []exe.UnwindRow{{Missing: true}}
	before := r.rows
	r.rows = make(map[string][]exe.UnwindRow)
	for _, image := range p.Images(maps) {
		own, ok := before[image.Key()]
		if !ok {
			own = imageRows(image)
		}
		r.rows[image.Key()] = own
		rows = append(rows, own...)
	}
	slices.SortStableFunc(rows, func(a, b exe.UnwindRow) int { return cmp.Compare(a.Addr, b.Addr) })
	if 16*(len(rows)+1) > rowsSize {
		return fmt.Errorf("process %d: %d unwind rows, there is room for %d", p.PID, len(rows), rowsSize/16)
	}
	offset := r.rowsAt()
	if r.settings().rows == r.addr+offset && before != nil {
		offset += rowsSize
	}
	// With zeros a chain ends.
	if err := unix.Fallocate(int(r.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(offset), rowsSize); err != nil {
		return os.NewSyscallError("fallocate", err)
	}
	at := r.memory[offset:]
	for _, row := range append(rows, exe.UnwindRow{Addr: math.MaxUint64}) {
		binary.LittleEndian.PutUint64(at, row.Addr)
		binary.LittleEndian.PutUint64(at[8:], rule(row))
		at = at[16:]
	}
	use := func() error {
		r.settings().rows, r.settings().rowCount = r.addr+offset, uint64(len(rows))
		return nil
	}
	if before == nil {
		return use() // nothing is switched on
	}
	return p.WhileStopped(use)
}

// imageRows returns the rows of an image, nil if chains end in it.
func imageRows(image *proc.Image) []exe.UnwindRow {
	f, err := image.Open()
	if err != nil {
		return nil
	}
	defer f.Close()
	file, err := exe.Open(f)
	if err != nil {
		return nil
	}
	rows, err := file.UnwindRows()
	if err != nil {
		return nil
	}
	bias := file.Bias(image.Start)
	for i := range rows {
		rows[i].Addr += bias
	}
	return rows
}

// rule encodes a row as trampoline/amd64.S wants it; 0 ends the chain.
func rule(row exe.UnwindRow) uint64 {
	switch {
	case row.Missing:
		return 1
	case !row.Known:
		return 0
	}
	v := uint64(uint32(row.CFA)) | uint64(uint16(row.FramePointer))<<32 | 1<<49
	if row.FromFramePointer {
		v |= 1 << 48
	}
	return v
}
