//go:build linux

package patch

import (
	"cmp"
	encoding "encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"footfall/binary"
	"footfall/binary/unwind"
	"footfall/process"
	"footfall/trace"
)

// A chainRow is what the trampoline knows of the code from an address on.
type chainRow struct{ addr, rule uint64 }

// Rules, as trampoline/amd64.S and arm64.S have them.
const (
	ruleEnd       = 0       // chains end
	rulePointer   = 1       // by frame pointers
	ruleTraced    = 2       // by traced callers, of which it is one: with its id from bit 8 on
	ruleSkipped   = 3       // by traced callers, of which it is none
	ruleDescribed = 1 << 49 // by .eh_frame
)

// unwindRows gives the trampoline what it needs to walk up the stack: the rows
// of all images by ascending address, and of functions without call-frame information, some of which
// have stubs. There is room for two tables, because threads may be about to look
// into the one before.
func (s *Session) unwindRows(stubs []*stub) error {
	r, p := s.region, s.p
	maps, _, err := p.Maps()
	if err != nil {
		return err
	}
	rows := []chainRow{{0, rulePointer}}
	before := r.rows
	r.rows = make(map[string][]unwind.CompactRow)
	for _, image := range p.Images(maps) {
		own, ok := before[image.Key()]
		if !ok {
			own = imageRows(image)
		}
		r.rows[image.Key()] = own
		for _, row := range own {
			rows = append(rows, chainRow{row.Addr, native.rule(row)})
		}
	}
	s.bare = slices.DeleteFunc(s.bare, func(u NoCFI) bool { _, there := r.rows[u.Image.Mapped.Key()]; return !there })
	rows = append(rows, bareRows(s.bare, stubs)...)
	slices.SortStableFunc(rows, func(a, b chainRow) int {
		return cmp.Or(cmp.Compare(a.addr, b.addr), a.known()-b.known())
	})
	if 16*(len(rows)+1) > rowsSize {
		return fmt.Errorf("process %d: %d unwind rows, there is room for %d", p.PID, len(rows), rowsSize/16)
	}
	offset := uint64(rowsAt)
	if r.settings().rows == r.addr+offset && before != nil {
		offset += rowsSize
	}
	// With zeros a chain ends.
	if err := unix.Fallocate(int(r.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(offset), rowsSize); err != nil {
		return os.NewSyscallError("fallocate", err)
	}
	r.writeRows(offset, rows)
	use := func() error {
		r.settings().rows, r.settings().rowCount = r.addr+offset, uint64(len(rows))
		return nil
	}
	if before == nil {
		return use() // nothing is switched on
	}
	return p.WhileStopped(use)
}

// writeRows writes a table, which ends with a row that no address is in.
func (r *region) writeRows(offset uint64, rows []chainRow) {
	at := r.memory[offset:]
	for _, row := range append(rows, chainRow{addr: math.MaxUint64}) {
		encoding.LittleEndian.PutUint64(at, row.addr)
		encoding.LittleEndian.PutUint64(at[8:], row.rule)
		at = at[16:]
	}
	r.sorted = rows
}

// known orders rows of one address: the last one counts.
func (r chainRow) known() int {
	switch {
	case r.rule&ruleDescribed != 0:
		return 4
	case r.rule == ruleEnd:
		return 3
	case r.rule&3 == ruleTraced:
		return 2
	case r.rule == ruleSkipped:
		return 1
	}
	return 0
}

// bareRows returns the rows of functions without call-frame information.
func bareRows(bare []NoCFI, stubs []*stub) []chainRow {
	rules := make(map[uint64]uint64) // by site
	for _, st := range stubs {
		switch st.mode {
		case leads, leadsSites, chainsOn, chainsOnSites:
			rules[st.site] = ruleTraced | uint64(st.id())<<8
		}
	}
	var rows []chainRow
	for _, u := range bare {
		rule := uint64(ruleSkipped)
		if u.Site != nil {
			rule = cmp.Or(rules[u.Site.Addr], rule)
		}
		rows = append(rows, chainRow{u.Low, rule}, chainRow{u.High, rulePointer})
	}
	return rows
}

// A ChainWay is how callers were found.
type ChainWay struct {
	Described bool // by .eh_frame
	Pointers  bool // by frame pointers, where that says nothing
	Traced    bool // by traced callers, where there is neither
}

// ChainWay returns how the callers of the chains were found.
func (s *Session) ChainWay(chains []trace.Chain) ChainWay {
	var w ChainWay
	for _, c := range chains {
		for _, address := range c.Addresses[:len(c.Addresses)-1] {
			w.Described = w.Described || s.region.ruleAt(address-1)&ruleDescribed != 0
		}
	}
	for i := range maxThreads {
		t := s.region.thread(i)
		w.Pointers = w.Pointers || atomic.LoadUint64(&t.byFP) > 0
		w.Traced = w.Traced || atomic.LoadUint64(&t.byTrace) > 0
	}
	return w
}

// ruleAt returns the rule for an address.
func (r *region) ruleAt(addr uint64) uint64 {
	n, _ := slices.BinarySearchFunc(r.sorted, addr+1, func(row chainRow, addr uint64) int { return cmp.Compare(row.addr, addr) })
	if n == 0 {
		return ruleEnd
	}
	return r.sorted[n-1].rule
}

// imageRows returns the rows of an image, nil if chains end in it.
func imageRows(image *process.MappedFile) []unwind.CompactRow {
	f, err := image.Open()
	if err != nil {
		return nil
	}
	defer f.Close()
	file, err := binary.Open(f)
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

// rule encodes a row as the trampoline wants it.
func (c *cpu) rule(row unwind.CompactRow) uint64 {
	switch {
	case row.Missing:
		return rulePointer
	case !row.Known:
		return ruleEnd
	}
	v := c.described(row)
	if v != ruleEnd && row.FromFramePointer {
		v |= 1 << 48
	}
	return v
}
