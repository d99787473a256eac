//go:build linux

package live

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"footfall/formats/llvm"
	"footfall/output"
	"footfall/process"
)

// A HardReset tells what became of setting counters to zero.
type HardReset struct {
	Units    int // whose counters were set to zero; source-based ones of a program or library are one
	Counters int
	// Undone are the units with counters that the program has put back: a thread
	// was stopped between reading a counter and writing it, increased by one. It
	// cannot happen where counters are increased by atomic instructions.
	Undone         []string
	UndoneCounters int
	// Paused is how long the threads stood still.
	Paused time.Duration
}

// HardReset sets counters in the memory of the program to zero, for units whose
// names match, and source-based ones of images whose paths do, nil for all. All threads stand still meanwhile. Counts are also
// gone for what the program writes when it ends.
//
// Counters that the compiler keeps in a register during a loop come back when
// the loop ends; that can be any time later, and is not in the result.
func (p *CountedProcess) HardReset(match func(name string) bool) (*HardReset, error) {
	r := resetter{p: p, match: match, result: new(HardReset)}
	var zeroed time.Time
	begin := time.Now()
	err := p.proc.WhileStopped(func() error {
		err := r.zero()
		zeroed = time.Now()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("process %d (%s): %w", p.PID, output.Printable(p.Name), err)
	}
	r.result.Paused = time.Since(begin)
	if err := r.verify(zeroed); err != nil {
		return nil, fmt.Errorf("process %d (%s): counters were set to zero, but then: %w", p.PID, output.Printable(p.Name), err)
	}
	return r.result, nil
}

type resetter struct {
	p      *CountedProcess
	match  func(name string) bool
	result *HardReset
	zeroed []zeroed
	images []zeroedImage
}

// A zeroed is an array of counters that were set to zero.
type zeroed struct {
	unit   *unit
	array  *array
	before []byte
}

// A zeroedImage is source-based counters that were.
type zeroedImage struct {
	image  *image
	addr   uint64
	before []byte
}

// errUnwritten is returned where memory does not hold what was written.
var errUnwritten = errors.New("counters are not zero after they were set to zero")

// zero sets the counters to zero and looks whether they are. The threads are
// stopped.
func (r *resetter) zero() error {
	p := r.p
	if err := p.refresh(false); err != nil {
		return err
	}
	if err := p.read(); err != nil {
		p.findBroken()
		if err = p.refresh(false); err == nil {
			err = p.read()
		}
		if err != nil {
			return err
		}
	}
	var ranges []process.MemoryRange
	for _, im := range p.images {
		for _, u := range im.units {
			if r.match != nil && !r.match(u.name) {
				continue
			}
			r.result.Units++
			more, err := r.unit(im, u)
			if err != nil {
				return fmt.Errorf("%s: %w", u.name, err)
			}
			ranges = append(ranges, more...)
		}
		if im.profile == nil || im.profErr != nil || r.match != nil && !r.match(im.path) {
			continue
		}
		r.result.Units++
		more, err := r.profile(im)
		if err != nil {
			return fmt.Errorf("%s: source-based counters: %w", im.path, err)
		}
		ranges = append(ranges, more...)
	}
	if r.result.Units == 0 {
		return errors.New("no object of that name")
	}
	if err := p.proc.WriteRanges(ranges); err != nil {
		return err
	}
	return r.look(ranges)
}

// look reads back what was written.
func (r *resetter) look(written []process.MemoryRange) error {
	back := make([]process.MemoryRange, len(written))
	for i, w := range written {
		back[i] = process.MemoryRange{Addr: w.Addr, Bytes: make([]byte, len(w.Bytes))}
	}
	if err := r.p.proc.ReadRanges(back); err != nil {
		return err
	}
	for i, b := range back {
		if !bytes.Equal(b.Bytes, written[i].Bytes) {
			return errUnwritten
		}
	}
	return nil
}

// profile returns what is to be written for the source-based counters of an image, as the program's own
// __llvm_profile_reset_counters does: 0, of counters of one byte 0xff, and 0 for bitmaps and the counts of values.
func (r *resetter) profile(im *image) ([]process.MemoryRange, error) {
	p := im.profile
	maps, _, err := r.p.proc.Maps()
	if err != nil {
		return nil, err
	}
	var read profileRead
	ranges, err := read.plan(p, r.p.proc, maps, nil)
	if err != nil {
		return nil, err
	}
	if err := r.p.proc.ReadRanges(ranges); err != nil {
		return nil, err
	}
	counters, bits, err := p.place(r.p.proc, maps)
	if err != nil {
		return nil, err
	}
	zero, width := make([]byte, counters.size), 8
	if p.raw&llvm.FlagSingleBytes != 0 { // no thread puts these back: they are only ever set
		width, zero = 1, bytes.Repeat([]byte{0xff}, len(zero))
	} else {
		r.images = append(r.images, zeroedImage{im, counters.addr, read.counters})
	}
	r.result.Counters += len(zero) / width
	write := []process.MemoryRange{{Addr: counters.addr, Bytes: zero}}
	if bits.size > 0 {
		write = append(write, process.MemoryRange{Addr: bits.addr, Bytes: make([]byte, bits.size)})
	}
	records, err := p.readValues(read.data, r.p.proc)
	if err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	for _, record := range records {
		for _, s := range record.lists {
			for _, node := range s.nodes {
				write = append(write, process.MemoryRange{Addr: node + 8, Bytes: make([]byte, 8)})
			}
		}
	}
	return write, nil
}

// unit returns what is to be written for the counters of a unit.
func (r *resetter) unit(im *image, u *unit) ([]process.MemoryRange, error) {
	var ranges []process.MemoryRange
	for i := range u.funcs {
		for j := range u.funcs[i].arrays {
			a := &u.funcs[i].arrays[j]
			if a.length == 0 {
				continue
			}
			before := append([]byte(nil), r.p.plan.buf[a.at:a.at+8*a.length]...)
			r.zeroed = append(r.zeroed, zeroed{u, a, before})
			r.result.Counters += a.length
			if !isList(u.version, a.kind) {
				ranges = append(ranges, process.MemoryRange{Addr: a.addr, Bytes: make([]byte, 8*a.length)})
				continue
			}
			more, err := r.lists(im, a, before)
			if err != nil {
				return nil, err
			}
			ranges = append(ranges, more...)
		}
	}
	return ranges, nil
}

// lists returns the totals of sites and the counts in the nodes of their
// lists. The lists stay: a thread may be walking on one.
func (r *resetter) lists(im *image, a *array, sites []byte) ([]process.MemoryRange, error) {
	var ranges []process.MemoryRange
	l := listReader{image: im}
	node := make([]byte, 16+im.pointer)
	for at := 0; at+8*siteWords <= len(sites); at += 8 * siteWords {
		ranges = append(ranges, process.MemoryRange{Addr: a.addr + uint64(at), Bytes: make([]byte, 8)})
		next := l.pointer(int64(im.order.Uint64(sites[at+16:])))
		for n := 0; next != 0; n++ {
			if n == maxNodes {
				return nil, fmt.Errorf("a list of values at %#x does not end", next)
			}
			if _, err := r.p.proc.ReadAt(node, int64(next)); err != nil {
				return nil, fmt.Errorf("a list of values: %w", err)
			}
			ranges = append(ranges, process.MemoryRange{Addr: next + 8, Bytes: make([]byte, 8)})
			next = im.address(node[16:])
		}
	}
	return ranges, nil
}

func word(order binary.ByteOrder, b []byte, size int) uint64 {
	if size == 4 {
		return uint64(order.Uint32(b))
	}
	return order.Uint64(b)
}

// fastest is how many times in a second a counter may be increased at most, by
// all threads.
const fastest = 4e9

// verify looks which counters the program has put back. One that is as high as
// before, and cannot have been counted up to there since, was put back.
func (r *resetter) verify(zeroed time.Time) error {
	if err := r.p.read(); err != nil {
		return err
	}
	possible := uint64(time.Since(zeroed).Seconds() * fastest)
	undone := make(map[*unit]bool)
	for _, z := range r.zeroed {
		order := z.unit.image.order
		step := 8
		if isList(z.unit.version, z.array.kind) {
			step = 8 * siteWords // the totals
		}
		for at := 0; at+8 <= len(z.before); at += step {
			before, now := order.Uint64(z.before[at:]), order.Uint64(r.p.plan.buf[z.array.at+at:])
			if before <= possible || now < before {
				continue
			}
			if r.result.UndoneCounters++; !undone[z.unit] {
				undone[z.unit] = true
				r.result.Undone = append(r.result.Undone, z.unit.name)
			}
		}
	}
	return r.verifyImages(possible)
}

// verifyImages is verify for source-based counters.
func (r *resetter) verifyImages(possible uint64) error {
	for _, z := range r.images {
		now := make([]byte, len(z.before))
		if err := r.p.proc.ReadRanges([]process.MemoryRange{{Addr: z.addr, Bytes: now}}); err != nil {
			return err
		}
		undone := 0
		for at := 0; at+8 <= len(now); at += 8 {
			before, after := z.image.order.Uint64(z.before[at:]), z.image.order.Uint64(now[at:])
			if before > possible && after >= before {
				undone++
			}
		}
		if undone > 0 {
			r.result.UndoneCounters += undone
			r.result.Undone = append(r.result.Undone, z.image.path)
		}
	}
	return nil
}

// NameMatch returns a function that tells whether the recorded name of a data
// file ends in name, in whole parts of the path. The suffix may be left out.
func NameMatch(name string) func(string) bool {
	name = strings.TrimSuffix(strings.TrimPrefix(name, "/"), ".gcda")
	return func(recorded string) bool {
		recorded = strings.TrimSuffix(recorded, ".gcda")
		return recorded == name || strings.HasSuffix(recorded, "/"+name)
	}
}
