//go:build linux

package record

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"footfall/binary/unwind"
	"footfall/hook/patch"
	"footfall/process/target"
	"footfall/trace"
)

// chainRows are what chains are followed by where the kernel does it: .eh_frame and, in code
// of Go, which has none, frame pointers.
type chainRows struct {
	rows     []unwind.CompactRow
	pointers map[uint64]bool // addresses of rows that are not of .eh_frame
}

// newChainRows returns those of images.
func newChainRows(images []*target.Image) *chainRows {
	r := &chainRows{pointers: make(map[uint64]bool)}
	for _, i := range images {
		rows := i.UnwindRows()
		if low, high, ok := i.GoCode(); ok {
			rows = r.throughGo(rows, low, high)
		}
		r.rows = append(r.rows, rows...)
	}
	slices.SortStableFunc(r.rows, func(a, b unwind.CompactRow) int { return cmp.Compare(a.Addr, b.Addr) })
	return r
}

// throughGo returns rows of an image with frame pointers for the code of Go that they do not
// describe.
func (r *chainRows) throughGo(rows []unwind.CompactRow, low, high uint64) []unwind.CompactRow {
	pointer := func(addr uint64) unwind.CompactRow {
		r.pointers[addr] = true
		return unwind.CompactRow{Addr: addr, CFA: 16, FramePointer: -16, Return: -8, FromFramePointer: true, Known: true}
	}
	all := []unwind.CompactRow{pointer(low), {Addr: high, Missing: true}}
	for _, row := range rows {
		if row.Missing && low <= row.Addr && row.Addr < high {
			row = pointer(row.Addr)
		}
		all = append(all, row)
	}
	return all
}

// at returns the row for an address, nil if there is none.
func (r *chainRows) at(addr uint64) *unwind.CompactRow {
	n, _ := slices.BinarySearchFunc(r.rows, addr, func(row unwind.CompactRow, addr uint64) int {
		if row.Addr <= addr {
			return -1
		}
		return 1
	})
	if n == 0 {
		return nil
	}
	return &r.rows[n-1]
}

// way tells how callers were found.
func (r *chainRows) way(chains []trace.Chain) (w patch.ChainWay) {
	for _, chain := range chains {
		for i := range len(chain.Addresses) - 1 {
			if row := r.at(chain.Addresses[i] - 1); row != nil && r.pointers[row.Addr] {
				w.Pointers = true
			} else {
				w.Described = true
			}
		}
	}
	return w
}

// began are functions that nothing called.
var began = []string{"_start", "clone", "__clone", "__clone3", "clone3", "runtime.goexit", "runtime.mstart", "runtime.rt0_go", "runtime.mcall", "runtime.systemstack", "runtime.asmcgocall"}

// endOf says why a chain ends before it has as many callers as were wanted; "" if it does
// not, or where a thread began.
func (c *callers) endOf(addresses []uint64) string {
	if c.program == nil || c.program.chains.rows == nil || len(addresses) == 0 || len(addresses) >= c.depth {
		return ""
	}
	last := addresses[len(addresses)-1] - 1
	inside := func(i *target.Image) bool { return i.Contains(last) }
	at := slices.IndexFunc(c.images(), inside)
	if at < 0 {
		return "code of no file, made while the program runs"
	}
	name := fmt.Sprintf("%#x", last)
	if f, _ := c.images()[at].Function(last); f != nil {
		name = f.Name
	}
	row := c.program.chains.rows.at(last)
	switch {
	case slices.Contains(began, strings.TrimSuffix(name, ".abi0")):
		return ""
	case row == nil || row.Missing:
		return "no .eh_frame describes " + name
	case row.Known && c.program.chains.rows.pointers[row.Addr]:
		return "the frame pointer leads nowhere"
	case row.Known:
		return "the stack cannot be read there, or has no return address"
	case strings.Contains(name, "start"): // the program's beginning, by whatever name
		return ""
	}
	return "the .eh_frame of " + name + " says that nothing called it, or has rules that are not followed"
}
