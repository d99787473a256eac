//go:build linux

package live

import (
	"crypto/sha256"
	encoding "encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"footfall/binary"
	"footfall/formats/gocover"
	"footfall/process"
)

// Programs of Go that were built with -cover have all their counters in one array of u32, of which the linker's
// moduledata tell, and a list of packages, which these enter themselves in when they are initialised. Words are those of
// the program, a text is its address and its length, a slice its address, its length and its room.
//
//	moduledata                   pointer to the table of functions (.gopclntab), ...
//	  words 24 to 31             beginnings and ends of sections
//	  word 32, 33                beginning and end of the counters; equal without -cover
//	internal/coverage/rtcov.Meta a slice of packages:
//	  pointer                    to what the compiler wrote of it
//	  length u32, hash [16]u8
//	  text                       its path
//	  number                     -1, or the negative one that it uses in counters, of packages of the runtime
//	  mode u8, granularity u8
//
// A function has in the array: the number of its counters, its package's number in the list plus 1, or that negative
// one, its own, and its counters. The first three are written when it is first called; before that, all is 0. What a
// program writes when it ends is made of just these, see internal/coverage/cfile/emit.go in Go.
//
// Where symbols are missing the section .go.module of Go 1.26 is moduledata; of other versions, and the list, what they
// look like tells.
const (
	moduleCounters = 32 // words
	moduleWords    = 34

	goHashAt     = 16 // of what the compiler wrote
	mostPackages = 1 << 16
	mostPackage  = 1 << 26 // bytes
	mostMeta     = 1 << 30
	mostGoWords  = 1 << 28 // bytes of counters
	mostGoSearch = 64 << 20
)

// golang is where the counters of an image are.
type golang struct {
	order   encoding.ByteOrder
	pointer int
	module  uint64 // moduledata; 0: to be searched
	table   uint64 // .gopclntab, to which it points
	list    uint64 // the slice of packages; 0: to be searched
	parts   process.Maps
	build   string // see SourceProfile.BuildID

	counters section // none before the dynamic linker has been there
	known    [3]uint64
	meta     *gocover.Meta
	file     []byte // of meta
	hard     map[int32]uint32
}

// golangOf takes from an image's file where counters of Go may be, nil if it is none of Go.
func golangOf(f *binary.File, bias uint64, symbols func(name string) ([]uint64, error)) *golang {
	g := &golang{order: f.Order, pointer: f.PointerSize(), build: f.BuildID()}
	if b, err := f.Contents(".note.go.buildid"); err == nil && g.build == "" && len(b) > 16 { // its head is that of all
		sum := sha256.Sum256(b)
		g.build = hex.EncodeToString(sum[:10])
	}
	for _, name := range []string{".gopclntab", ".data.rel.ro.gopclntab"} {
		if addr, _, ok := f.Section(name); ok {
			g.table = addr + bias
		}
	}
	if g.table == 0 {
		return nil
	}
	for name, to := range map[string]*uint64{"runtime.firstmoduledata": &g.module, "internal/coverage/rtcov.Meta": &g.list} {
		if found, err := symbols(name); err == nil && len(found) == 1 {
			*to = found[0] + bias
		}
	}
	if addr, _, ok := f.Section(".go.module"); ok && g.module == 0 {
		g.module = addr + bias
	}
	return g
}

// prepare finds the counters, and tells whether there are any.
func (g *golang) prepare(mem memory, all process.Maps, parts process.Maps) bool {
	g.parts = slices.Clone(parts)
	if n := len(parts); n > 0 {
		if bss := all.At(parts[n-1].End); bss != nil && bss.Inode == 0 {
			g.parts = append(g.parts, *bss)
		}
	}
	if g.module == 0 {
		g.search(mem, true, moduleWords*g.pointer, func(addr uint64, b []byte) bool {
			if g.isModule(b, all) {
				g.module = addr
			}
			return g.module != 0
		})
	}
	b := make([]byte, moduleWords*g.pointer)
	if g.module == 0 {
		return false
	}
	if _, err := mem.ReadAt(b, int64(g.module)); err != nil || !g.isModule(b, all) {
		return false
	}
	begin, end := g.word(b[moduleCounters*g.pointer:]), g.word(b[(moduleCounters+1)*g.pointer:])
	g.counters = section{begin, end - begin}
	return end > begin
}

// isModule tells whether b, which is where moduledata may be, has the bounds of counters.
func (g *golang) isModule(b []byte, all process.Maps) bool {
	if g.word(b) != g.table {
		return false
	}
	begin, end := g.word(b[moduleCounters*g.pointer:]), g.word(b[(moduleCounters+1)*g.pointer:])
	return begin <= end && begin%4 == 0 && end%4 == 0 && end-begin <= mostGoWords && (begin == end || holds(all, section{begin, end - begin}))
}

func (g *golang) word(b []byte) uint64 { return word(g.order, b, g.pointer) }

// search calls visit for each word of the image's memory, with what size bytes from it on are, until that is true: of its
// variables first, then, if readOnly is set, of what the dynamic linker may have made read-only.
func (g *golang) search(mem memory, readOnly bool, size int, visit func(addr uint64, b []byte) bool) {
	left := uint64(mostGoSearch)
	for _, write := range []bool{true, false} {
		for _, m := range g.parts {
			if !m.Read || m.Exec || m.Write != write || !write && !readOnly {
				continue
			}
			b := make([]byte, min(m.End-m.Start, left))
			left -= uint64(len(b))
			n, _ := mem.ReadAt(b, int64(m.Start))
			for at := 0; at+size <= n; at += g.pointer {
				if visit(m.Start+uint64(at), b[at:at+size]) {
					return
				}
			}
		}
	}
}

// read reads what the program would write now. It returns nil before a package has entered itself in the list.
func (g *golang) read(mem memory, ranges func([]process.MemoryRange) error, all process.Maps) (*gocover.CounterSegment, error) {
	if err := g.readList(mem, all); err != nil || g.meta == nil {
		return nil, err
	}
	b := make([]byte, g.counters.size)
	if err := ranges([]process.MemoryRange{{Addr: g.counters.addr, Bytes: b}}); err != nil {
		return nil, err
	}
	words := make([]uint32, len(b)/4)
	for i := range words {
		words[i] = g.order.Uint32(b[4*i:])
	}
	return g.functions(words)
}

// functions takes the counters of each function that was called out of the array.
func (g *golang) functions(words []uint32) (*gocover.CounterSegment, error) {
	s := new(gocover.CounterSegment)
	for i := 0; i < len(words); i++ {
		n := int(words[i])
		if n == 0 {
			continue
		}
		if i+3 > len(words) || n > len(words)-i-3 {
			return nil, fmt.Errorf("counters of Go: a function of %d at word %d of %d", n, i, len(words))
		}
		f := gocover.FunctionCounters{Package: words[i+1] - 1, Function: words[i+2], Counts: words[i+3 : i+3+n]}
		if id := int32(words[i+1]); id < 0 {
			f.Package = g.hard[id]
		}
		switch {
		case words[i+1] == 0: // it is just being called for the first time
		case slices.ContainsFunc(f.Counts, func(n uint32) bool { return n != 0 }):
			s.Functions = append(s.Functions, f)
		}
		i += 2 + n
	}
	return s, nil
}

// packageSizes are where the parts of a package are in the list.
func (g *golang) packageSizes() (length, hash, number, mode, size int) {
	if g.pointer == 4 {
		return 4, 8, 32, 36, 40
	}
	return 8, 12, 48, 56, 64
}

// readList reads the packages, if there are more than at the last look.
func (g *golang) readList(mem memory, all process.Maps) error {
	if g.list == 0 {
		g.searchList(mem, all)
	}
	if g.list == 0 {
		return nil
	}
	head := make([]byte, 3*g.pointer)
	if _, err := mem.ReadAt(head, int64(g.list)); err != nil {
		return fmt.Errorf("packages: %w", err)
	}
	now := [3]uint64{g.word(head), g.word(head[g.pointer:]), g.word(head[2*g.pointer:])}
	if now == g.known || now[1] == 0 {
		return nil
	}
	if now[1] > now[2] || now[1] > mostPackages {
		return fmt.Errorf("a list of %d packages, with room for %d", now[1], now[2])
	}
	meta, err := g.packages(mem, now[0], int(now[1]))
	if err != nil {
		return err
	}
	g.known, g.meta, g.file = now, meta, meta.Encode()
	return nil
}

// packages reads those of a list.
func (g *golang) packages(mem memory, addr uint64, n int) (*gocover.Meta, error) {
	length, hash, number, mode, size := g.packageSizes()
	b := make([]byte, n*size)
	if _, err := mem.ReadAt(b, int64(addr)); err != nil {
		return nil, fmt.Errorf("packages: %w", err)
	}
	var counts gocover.Mode
	var granularity gocover.Granularity
	list := make([]gocover.Package, 0, n)
	g.hard = make(map[int32]uint32)
	sum := 0
	for i := range n {
		e := b[i*size : (i+1)*size]
		bytes := int(g.order.Uint32(e[length:]))
		if sum += bytes; bytes > mostPackage || bytes < goHashAt+16 || sum > mostMeta {
			return nil, fmt.Errorf("package %d of %d bytes", i, bytes)
		}
		text := make([]byte, bytes)
		if _, err := mem.ReadAt(text, int64(g.word(e))); err != nil {
			return nil, fmt.Errorf("package %d: %w", i, err)
		}
		if string(text[goHashAt:goHashAt+16]) != string(e[hash:hash+16]) {
			return nil, fmt.Errorf("package %d is not what its hash says", i)
		}
		p, err := gocover.ReadPackage(text)
		if err != nil {
			return nil, fmt.Errorf("package %d: %w", i, err)
		}
		list = append(list, *p)
		if id := int32(g.word(e[number:])); id < -1 {
			g.hard[id] = uint32(i)
		}
		if m := gocover.Mode(e[mode]); counts == 0 && m.Counts() {
			counts = m
		}
		if granularity == 0 {
			granularity = gocover.Granularity(e[mode+1])
		}
	}
	if counts == 0 {
		return nil, errors.New("no package has a mode of counters that is known")
	}
	return gocover.NewMeta(counts, granularity, list), nil
}

// searchList finds the slice of packages of a program without symbols: the first one of which is one.
func (g *golang) searchList(mem memory, all process.Maps) {
	length, hash, _, mode, size := g.packageSizes()
	first, head := make([]byte, size), make([]byte, goHashAt+16)
	g.search(mem, false, 3*g.pointer, func(addr uint64, b []byte) bool {
		at, n, room := g.word(b), g.word(b[g.pointer:]), g.word(b[2*g.pointer:])
		if n == 0 || n > room || room > mostPackages || at == 0 || at%uint64(g.pointer) != 0 || all.At(at) == nil {
			return false
		}
		if _, err := mem.ReadAt(first, int64(at)); err != nil || first[mode] == 0 || first[mode] > 5 || first[mode+1] == 0 || first[mode+1] > 2 {
			return false
		}
		if _, err := mem.ReadAt(head, int64(g.word(first))); err != nil {
			return false
		}
		if g.order.Uint32(head) != g.order.Uint32(first[length:]) || string(head[goHashAt:]) != string(first[hash:hash+16]) {
			return false
		}
		g.list = addr
		return true
	})
}

// golangProfiles reads the counters of Go of the images that are known.
func (p *CountedProcess) golangProfiles(all process.Maps) (profiles []SourceProfile, problems []error) {
	for _, im := range p.images {
		if im.golang == nil {
			continue
		}
		s, err := im.golang.read(p.proc, p.proc.ReadRanges, all)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", im.path, err))
			continue
		}
		if s == nil {
			continue
		}
		s.Arguments = p.arguments()
		hash := im.golang.meta.Hash
		profiles = append(profiles, SourceProfile{
			Image: im.path, Name: gocover.CountersName(hash, p.PID, time.Now().UnixNano()), Bytes: s.Encode(hash),
			Meta: im.golang.file, MetaName: gocover.MetaName(hash), Sets: im.golang.meta.Mode == gocover.Set, BuildID: im.golang.build,
			counters: int64(im.golang.counters.size),
		})
	}
	return profiles, problems
}

// arguments are what a program of Go says of its run.
func (p *CountedProcess) arguments() map[string]string {
	all := map[string]string{"GOOS": "linux", "GOARCH": runtime.GOARCH}
	args, err := p.proc.Arguments()
	if err != nil {
		return all
	}
	all["argc"] = strconv.Itoa(len(args))
	for i, a := range args {
		all["argv"+strconv.Itoa(i)] = a
	}
	return all
}

// Places are where the modules of a program may be, as we reach them: its working directory, and the directories of its
// images with counters of Go.
func (p *CountedProcess) Places() (dirs []string) {
	if place, err := p.startPlacer(); err == nil {
		if dir, err := filepath.EvalSymlinks(place.dir); err == nil {
			dirs = append(dirs, dir)
		}
	}
	for _, im := range p.images {
		if im.golang != nil {
			dirs = append(dirs, filepath.Join(p.Root()+"/", path.Dir(im.path)))
		}
	}
	return dirs
}
