//go:build linux

package collect

import (
	"bytes"
	encoding "encoding/binary"
	"iter"
	"math"
	"slices"
	"sync"

	"footfall/binary"
	"footfall/hook/patch"
	"footfall/process/target"
)

// This file is what is known of the functions of a program as it is kept while they are watched: there may be a hundred thousand,
// and the machine is that of others.

// A Reason is why something is not known, by a number; 0: it is.
type Reason uint16

// reasons are the texts of reasons, which stay.
var reasons = struct {
	sync.Mutex
	numbers map[string]Reason
	texts   []string
}{numbers: map[string]Reason{"": 0}, texts: []string{""}}

// reasonOf is the number of a text. If there are too many it is that of another one.
func reasonOf(text string) Reason {
	reasons.Lock()
	defer reasons.Unlock()
	n, known := reasons.numbers[text]
	if !known {
		if len(reasons.texts) > math.MaxUint16 {
			return math.MaxUint16
		}
		n = Reason(len(reasons.texts))
		reasons.numbers[text], reasons.texts = n, append(reasons.texts, text)
	}
	return n
}

func (n Reason) String() string {
	reasons.Lock()
	defer reasons.Unlock()
	return reasons.texts[n]
}

// ranSites are the sites of a program, of which each is a function or a block, the functions first, by number.
type ranSites struct {
	functions []uint32 // numbers of functions that are watched as a whole
	windows   []uint32 // where, in code, the window of each site is
	// code has, for each window, how far behind the beginning of the function or block it begins, its size, and its bytes. Of
	// what cannot be armed only a size of 0.
	code []byte
}

// noteFunction notes the site of a function, the last one so far.
func (p *RanProgram) noteFunction(fn *RanFunction, w *binary.EntryWindow) {
	p.sites.functions = append(p.sites.functions, uint32(len(p.Functions)-1))
	p.sites.add(fn.Addr, w)
}

// noteBlocks notes the sites of all blocks, which are sorted, behind those of functions. There are no more then.
func (p *RanProgram) noteBlocks() {
	s := &p.sites
	for _, b := range p.blocks {
		b.armed = b.window != nil
		s.add(b.addr, b.window)
		b.window = nil
	}
	s.functions, s.windows, s.code = slices.Clone(s.functions), slices.Clone(s.windows), bytes.Clone(s.code)
}

// add adds the window of a function or block; nil: it cannot be armed.
func (s *ranSites) add(addr uint64, w *binary.EntryWindow) {
	s.windows = append(s.windows, uint32(len(s.code)))
	if w == nil {
		w = &binary.EntryWindow{Addr: addr}
	}
	s.code = encoding.AppendUvarint(s.code, w.Addr-addr)
	s.code = append(encoding.AppendUvarint(s.code, uint64(len(w.Code))), w.Code...)
}

// codeAt is where the window of a site begins, behind its function or block, and its code; none: it cannot be armed.
func (s *ranSites) codeAt(n int) (behind uint64, code []byte) {
	code = s.code[s.windows[n]:]
	behind, size := encoding.Uvarint(code)
	code = code[size:]
	length, size := encoding.Uvarint(code)
	return behind, code[size : size+int(length) : size+int(length)]
}

// window is that of a site of which the function or block begins at addr; nil: it cannot be armed.
func (s *ranSites) window(n int, addr uint64) *binary.EntryWindow {
	behind, code := s.codeAt(n)
	if len(code) == 0 {
		return nil
	}
	w, err := binary.WindowOf(addr+behind, code)
	if err != nil { // it was one before
		return nil
	}
	return w
}

// site makes a site for an image of the program.
func (p *RanProgram) site(i *target.Image, n int) *patch.EntrySite {
	if n < len(p.sites.functions) {
		fn := p.Functions[p.sites.functions[n]]
		return patch.MovedSite(i, binary.FunctionSymbol{Addr: fn.Addr, Size: uint64(fn.Size)}, p.sites.window(n, fn.Addr))
	}
	b := p.blocks[n-len(p.sites.functions)]
	block := binary.Block{Addr: b.addr, End: b.end, Window: p.sites.window(n, b.addr)}
	return patch.BlockSite(i, binary.FunctionSymbol{Addr: b.fn.Addr, Size: uint64(b.fn.Size)}, &block)
}

// windowAt is where the window of a site is, as the file has it; has is false if it has none.
func (p *RanProgram) windowAt(n int) (addr uint64, has bool) {
	if k := n - len(p.sites.functions); k < 0 {
		addr = p.Functions[p.sites.functions[n]].Addr
	} else {
		addr = p.blocks[k].addr
	}
	behind, code := p.sites.codeAt(n)
	return addr + behind, len(code) > 0
}

// A ranPlace is what runs if a site does: a function or a block of it.
type ranPlace struct {
	fn    *RanFunction
	state *ranState // of the function or the block
}

// placeOf is what the site of a number is of.
func (p *RanProgram) placeOf(n int) ranPlace {
	if n < len(p.sites.functions) {
		fn := p.Functions[p.sites.functions[n]]
		return ranPlace{fn, &fn.ranState}
	}
	b := p.blocks[n-len(p.sites.functions)]
	return ranPlace{b.fn, &b.ranState}
}

// A ranPart is the sites of a session that are those of an image, from a number on.
type ranPart struct {
	first   int
	program *RanProgram
	image   *target.Image
}

func (p *ranPart) end() int { return p.first + len(p.program.sites.windows) }

// add adds the sites of an image.
func (t *ranProcess) add(program *RanProgram, i *target.Image) {
	first := 0
	if n := len(t.parts); n > 0 {
		first = t.parts[n-1].end()
	}
	t.parts = append(t.parts, ranPart{first, program, i})
}

// sitesOf are those of parts, which follow each other.
func sitesOf(parts []ranPart) patch.RanSites {
	if len(parts) == 0 {
		return patch.RanSites{}
	}
	first := parts[0].first
	at := func(n int) (p *ranPart, site int) {
		p = partOf(parts, first+n)
		return p, first + n - p.first
	}
	return patch.RanSites{
		Count: parts[len(parts)-1].end() - first,
		At: func(n int) *patch.EntrySite {
			p, site := at(n)
			return p.program.site(p.image, site)
		},
		Window: func(n int) (addr uint64, has bool) {
			p, site := at(n)
			addr, has = p.program.windowAt(site)
			return addr + p.image.Bias, has
		},
	}
}

// partOf is the part that has the site of a number.
func partOf(parts []ranPart, n int) *ranPart {
	i := len(parts) - 1
	for parts[i].first > n {
		i--
	}
	return &parts[i]
}

// place is what the session's site of a number is of.
func (t *ranProcess) place(n int) ranPlace {
	part := partOf(t.parts, n)
	return part.program.placeOf(n - part.first)
}

// places yields what all sites of the session are of.
func (t *ranProcess) places() iter.Seq2[int, ranPlace] {
	return func(yield func(int, ranPlace) bool) {
		for i := range t.parts {
			part := &t.parts[i]
			for n := range len(part.program.sites.windows) {
				if !yield(part.first+n, part.program.placeOf(n)) {
					return
				}
			}
		}
	}
}

// ranSources finds the sources of functions, and numbers them.
type ranSources struct {
	program *RanProgram
	looks   bool
	numbers map[string]int32
}

func newRanSources(p *RanProgram, looks bool) *ranSources {
	return &ranSources{p, looks, make(map[string]int32)}
}

// of is the source of a function, by 1 + its number, and where it begins there; 0: that is not known.
func (s *ranSources) of(site *patch.EntrySite) (source, line int32) {
	if !s.looks {
		return 0, 0
	}
	file, at := site.Source()
	if file == "" {
		return 0, 0
	}
	n, known := s.numbers[file]
	if !known {
		s.program.sources = append(s.program.sources, file)
		n = int32(len(s.program.sources))
		s.numbers[file] = n
	}
	return n, int32(at)
}
