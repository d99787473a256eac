package profile

import (
	"cmp"
	encoding "encoding/binary"
	"errors"
	"fmt"
	"slices"

	pprof "github.com/google/pprof/profile"

	"footfall/binary"
	"footfall/input"
)

// A Gmon is what a program that was built with -pg wrote to gmon.out.
//
//	header     "gmon", version u32 = 1, 12 spare bytes
//	histogram  tag 0, low addr, high addr, bins u32, rate u32 (Hz),
//	           unit [15]byte, abbreviation byte, bins * u16
//	arc        tag 1, from addr, self addr, count u32
//	blocks     tag 2, n u32, n * (addr, count addr)
//
// The byte order and the size of an address are those of the machine. Any
// records may follow each other. Addresses are those of the program's file,
// also if it is position independent.
type Gmon struct {
	Order      encoding.ByteOrder
	AddrSize   int
	Histograms []Histogram // of different ranges
	Arcs       []GmonArc   // of different ends
	Blocks     []GmonBlock
}

// A Histogram says how often the clock ticked in which code.
type Histogram struct {
	Low, High uint64 // addresses, High is beyond the last
	Rate      uint32 // ticks in a second
	Unit      string // "seconds"
	Bins      []int64
}

// A GmonArc says how often code was called from one place.
type GmonArc struct {
	From  uint64 // where the call returns to
	Self  uint64 // in the callee
	Count int64
}

// A GmonBlock says how often a basic block ran.
type GmonBlock struct {
	Addr  uint64
	Count uint64
}

const (
	gmonMagic      = "gmon"
	gmonHeaderSize = 4 + 4 + 12
	gmonVersion    = 1
	// gmonShared is the version of profiles of shared objects, by LD_PROFILE.
	gmonShared = 0x1ffff
)

const (
	gmonHistogram = iota
	gmonArc
	gmonBlocks
)

// A FormatError tells where a file is not what it should be.
type FormatError struct {
	Offset int
	Err    error
}

func (e *FormatError) Error() string { return fmt.Sprintf("at %#x: %v", e.Offset, e.Err) }
func (e *FormatError) Unwrap() error { return e.Err }

var errTruncated = errors.New("the file ends in the middle of a record; was the program killed while it wrote it?")

// IsGmon tells whether b begins as a gmon.out does.
func IsGmon(b []byte) bool { return len(b) >= 4 && string(b[:4]) == gmonMagic }

// ReadGmon decodes a gmon.out. The file does not tell the size of an address:
// addrSize is that of the program, 4 or 8, or 0 to find out.
func ReadGmon(b []byte, addrSize int) (*Gmon, error) {
	if !IsGmon(b) {
		return nil, &FormatError{0, errors.New("not a gmon.out: it does not begin with \"gmon\"")}
	}
	if len(b) < gmonHeaderSize {
		return nil, &FormatError{len(b), errTruncated}
	}
	g := &Gmon{Order: encoding.LittleEndian}
	if b[4] == 0 && b[7] != 0 {
		g.Order = encoding.BigEndian
	}
	switch v := g.Order.Uint32(b[4:]); v {
	case gmonVersion:
	case gmonShared:
		return nil, &FormatError{4, errors.New("the profile of a shared object (LD_PROFILE); sprof reads those")}
	default:
		return nil, &FormatError{4, fmt.Errorf("version %d of gmon.out is not known", v)}
	}
	if addrSize != 0 {
		err := g.read(b, addrSize)
		if err != nil && (&Gmon{Order: g.Order}).read(b, 12-addrSize) == nil {
			err = fmt.Errorf("written by a program of %d bits, the one named has %d", 8*(12-addrSize), 8*addrSize)
		}
		return g, err
	}
	err := g.read(b, 8)
	if err != nil {
		bits32 := &Gmon{Order: g.Order}
		if bits32.read(b, 4) == nil {
			return bits32, nil
		}
	}
	return g, err
}

// gmonReader reads fields from off on; after bytes that are missing it
// returns zeros and remembers.
type gmonReader struct {
	b         []byte
	off       int
	order     encoding.ByteOrder
	addrSize  int
	truncated bool
}

func (r *gmonReader) take(n int) []byte {
	if n > len(r.b)-r.off {
		r.truncated = true
		r.off = len(r.b)
		return make([]byte, min(n, 16))
	}
	r.off += n
	return r.b[r.off-n : r.off]
}

func (r *gmonReader) u32() uint32 { return r.order.Uint32(r.take(4)) }

func (r *gmonReader) addr() uint64 {
	if r.addrSize == 4 {
		return uint64(r.u32())
	}
	return r.order.Uint64(r.take(8))
}

// left tells whether n records of size bytes are left.
func (r *gmonReader) left(n uint32, size int) bool {
	if int64(n)*int64(size) > int64(len(r.b)-r.off) {
		r.truncated = true
	}
	return !r.truncated
}

func (g *Gmon) read(b []byte, addrSize int) error {
	g.AddrSize = addrSize
	r := &gmonReader{b: b, off: gmonHeaderSize, order: g.Order, addrSize: addrSize}
	arcs := make(map[[2]uint64]int)
	for r.off < len(b) {
		at := r.off
		var err error
		switch tag := r.take(1)[0]; tag {
		case gmonHistogram:
			err = g.histogram(r)
		case gmonArc:
			a := GmonArc{r.addr(), r.addr(), int64(r.u32())}
			if !r.truncated {
				g.addArc(a, arcs)
			}
		case gmonBlocks:
			if n := r.u32(); r.left(n, 2*addrSize) {
				for range n {
					g.Blocks = append(g.Blocks, GmonBlock{r.addr(), r.addr()})
				}
			}
		default:
			err = fmt.Errorf("a record of the unknown kind %d", tag)
		}
		if r.truncated {
			err = errTruncated
		}
		if err != nil {
			return &FormatError{at, err}
		}
	}
	return nil
}

func (g *Gmon) histogram(r *gmonReader) error {
	h := Histogram{Low: r.addr(), High: r.addr()}
	n := r.u32()
	h.Rate = r.u32()
	unit := r.take(16)
	if !r.left(n, 2) {
		return nil
	}
	h.Unit = string(slices.DeleteFunc(slices.Clone(unit[:15]), func(c byte) bool { return c == 0 }))
	switch {
	case n == 0 && h.Low == h.High:
		return nil
	case h.High <= h.Low || n == 0 || uint64(n) > h.High-h.Low:
		return fmt.Errorf("a histogram of %d bins for the addresses %#x to %#x", n, h.Low, h.High)
	case h.Rate == 0:
		return errors.New("a histogram of 0 ticks in a second")
	}
	h.Bins = make([]int64, n)
	for i := range h.Bins {
		h.Bins[i] = int64(r.order.Uint16(r.take(2)))
	}
	return g.addHistogram(h)
}

// addHistogram adds to the histogram of the same range.
func (g *Gmon) addHistogram(h Histogram) error {
	for i := range g.Histograms {
		old := &g.Histograms[i]
		switch {
		case old.High <= h.Low || h.High <= old.Low:
			continue
		case old.Low != h.Low || old.High != h.High || len(old.Bins) != len(h.Bins):
			return fmt.Errorf("the histogram of %#x to %#x overlaps that of %#x to %#x: profiles of different programs?", h.Low, h.High, old.Low, old.High)
		case old.Rate != h.Rate:
			return fmt.Errorf("histograms of %d and of %d ticks in a second cannot be added", old.Rate, h.Rate)
		}
		for j, n := range h.Bins {
			old.Bins[j] += n
		}
		return nil
	}
	g.Histograms = append(g.Histograms, h)
	return nil
}

func (g *Gmon) addArc(a GmonArc, at map[[2]uint64]int) {
	ends := [2]uint64{a.From, a.Self}
	if i, ok := at[ends]; ok {
		g.Arcs[i].Count += a.Count
		return
	}
	at[ends] = len(g.Arcs)
	g.Arcs = append(g.Arcs, a)
}

// Add adds another run of the same program, as gprof -s does.
func (g *Gmon) Add(other *Gmon) error {
	if g.Order != other.Order || g.AddrSize != other.AddrSize {
		return errors.New("the files are of machines of different kinds")
	}
	for _, h := range other.Histograms {
		h.Bins = slices.Clone(h.Bins)
		if err := g.addHistogram(h); err != nil {
			return err
		}
	}
	arcs := make(map[[2]uint64]int, len(g.Arcs))
	for i, a := range g.Arcs {
		arcs[[2]uint64{a.From, a.Self}] = i
	}
	for _, a := range other.Arcs {
		g.addArc(a, arcs)
	}
	g.addBlocks(other.Blocks)
	return nil
}

func (g *Gmon) addBlocks(blocks []GmonBlock) {
	at := make(map[uint64]int, len(g.Blocks))
	for i, b := range g.Blocks {
		at[b.Addr] = i
	}
	for _, b := range blocks {
		if i, ok := at[b.Addr]; ok {
			g.Blocks[i].Count += b.Count
			continue
		}
		at[b.Addr] = len(g.Blocks)
		g.Blocks = append(g.Blocks, b)
	}
}

// Profile gives the counts names, those of the program that wrote them, and owners
// are those who may say where its debug information is.
func (g *Gmon) Profile(program string, owners *input.Owners) (*Profile, error) {
	file, err := input.Open(program)
	if err != nil {
		return nil, err
	}
	image, err := imageOf(program, file, true, owners.OpenNamed)
	if err != nil {
		return nil, err
	}
	defer image.close()
	if image.file.PointerSize() != g.AddrSize || image.file.Order != g.Order {
		return nil, fmt.Errorf("%s: the profile was written on a machine of another kind", program)
	}
	if image.stripped {
		image.functions, image.problem = nil, "no symbol table, the program has been stripped"
	}
	if image.functions == nil {
		return nil, fmt.Errorf("%s: %s: gmon.out needs that of the program as it was linked", program, image.problem)
	}
	image.toNext = true
	b := newBuilder()
	ticks := make(map[*pprof.Function]float64)
	if err := g.times(b, image, ticks); err != nil {
		return nil, err
	}
	for _, a := range g.Arcs {
		if !image.has(a.Self) {
			continue
		}
		chain := []*pprof.Location{b.outer(image, a.Self)}
		if image.has(a.From) {
			from := a.From
			// The caller's line is that of the call, which ends where From begins. But
			// in the sums of gprof -s, From is where the caller begins.
			if f := image.functions.Before(from); f.Addr != from {
				from--
			}
			chain = append(chain, b.outer(image, from))
		}
		b.add(chain, "", a.Count, 0)
	}
	for _, block := range g.Blocks {
		b.p.Comments = append(b.p.Comments, fmt.Sprintf("block %#x ran %d times", block.Addr, block.Count))
	}
	if len(b.p.Sample) == 0 {
		return nil, errors.New("nothing was counted: no calls, and the program ended before the clock ticked")
	}
	p, err := b.finish(nil)
	if err == nil {
		p.symbols = image.gprofSymbols(b.p.Location)
		p.symbols.ticks = ticks
	}
	return p, err
}

// times turns ticks into times of functions, and adds them to counted. A bin whose code belongs
// to several gives each its part.
func (g *Gmon) times(b *builder, image *image, counted map[*pprof.Function]float64) error {
	inside, ticks, bytes := int64(0), int64(0), int64(0)
	for _, h := range g.Histograms {
		if h.Unit != "" && h.Unit != "seconds" {
			return fmt.Errorf("a histogram of %q, expected seconds", h.Unit)
		}
		tick := 1e9 / float64(h.Rate)
		b.p.Period = int64(tick)
		// gprof counts in units of two bytes, and so must we for its times.
		low := h.Low / 2
		scale := float64(h.High/2-low) / float64(len(h.Bins))
		bytes = int64(scale) * 2
		for i, n := range h.Bins {
			if n == 0 {
				continue
			}
			ticks += n
			from := low + uint64(scale*float64(i))
			to := low + uint64(scale*float64(i+1))
			for _, part := range image.split(from, to) {
				inside += n
				credit := float64(part.units) * float64(n) / scale
				l := b.outer(image, part.addr)
				counted[l.Line[0].Function] += credit
				b.add([]*pprof.Location{l}, "", 0, int64(credit*tick+0.5))
			}
		}
	}
	if ticks > 0 && inside == 0 {
		return errors.New("no tick of the clock falls into the program: another one, or another build?")
	}
	if len(g.Histograms) > 0 {
		b.p.Comments = append(b.p.Comments, fmt.Sprintf(histogramComment, bytes, ticks))
	}
	return nil
}

// histogramComment keeps what gprof's output tells of the histogram.
const histogramComment = "histogram of %d bytes to a bin: %d ticks"

type binPart struct {
	addr  uint64
	units int64
}

// split returns the parts of a range, in units of two bytes, that belong to
// one function each.
func (i *image) split(from, to uint64) []binPart {
	var parts []binPart
	for at := from; at < to; {
		next := to
		n, _ := slices.BinarySearchFunc(i.functions, 2*at+2, func(f binary.FunctionSymbol, addr uint64) int {
			return cmp.Compare(f.Addr, addr)
		})
		if n < len(i.functions) {
			next = min(to, max(at+1, i.functions[n].Addr/2))
		}
		// The function's first byte may be the unit's second.
		addr := 2 * at
		if n > 0 {
			addr = max(addr, i.functions[n-1].Addr)
		}
		if i.has(addr) {
			parts = append(parts, binPart{addr, int64(next - at)})
		}
		at = next
	}
	return parts
}

// has tells whether a function of the image has code at the address.
func (i *image) has(addr uint64) bool {
	return addr < i.high && i.functions.Before(addr) != nil
}
