package gocover

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
)

// This file writes programs and counts as go tool covdata merge does.

// A Writer makes one program of one, or of several.
type Writer struct {
	// Combine is set if functions of several programs are to be those of one: else it has one program.
	Combine bool

	mode        Mode
	granularity Granularity
	packages    []*writtenPackage
	byPath      map[string]*writtenPackage
	arguments   arguments
	hash        Hash // of the one program, if all of it is there
	bytes       []byte
}

// A writtenPackage has functions by number, and what they counted.
type writtenPackage struct {
	Package
	numbers map[string]uint32 // of functions by their description
	counts  map[uint32][]uint32
}

// Add adds a program with its counts, and the segments that these are the sum of; only packages that are wanted, nil: all. meta are
// the bytes of its covmeta file, name its name.
func (w *Writer) Add(name string, pod *Pod, meta []byte, segments []Segment, wanted func(path string) bool) error {
	if w.byPath == nil {
		w.mode, w.granularity, w.byPath = pod.Mode, pod.Granularity, make(map[string]*writtenPackage)
		w.hash, w.bytes = pod.Hash, meta
	} else if w.granularity != pod.Granularity {
		return fmt.Errorf("counter granularity clash while reading meta-data file %s: previous file had %v, new file has %v", name, w.granularity, pod.Granularity)
	}
	if wanted != nil || w.Combine {
		w.bytes = nil
	}
	w.mode = max(w.mode, pod.Mode)
	for i := range segments {
		w.arguments.add(&segments[i])
	}
	for i := range pod.Packages {
		if pkg := &pod.Packages[i]; wanted == nil || wanted(pkg.Path) {
			w.add(pod, uint32(i), pkg)
		}
	}
	return nil
}

func (w *Writer) add(pod *Pod, number uint32, pkg *Package) {
	to := w.byPath[pkg.Path]
	if to == nil {
		to = &writtenPackage{Package: *pkg, numbers: make(map[string]uint32), counts: make(map[uint32][]uint32)}
		if w.Combine {
			to.Functions = nil
		}
		w.byPath[pkg.Path] = to
		w.packages = append(w.packages, to)
	}
	for k := range pkg.Functions {
		f, at := &pkg.Functions[k], uint32(k)
		if w.Combine {
			key := string(f.describe(nil))
			n, known := to.numbers[key]
			if !known {
				n = uint32(len(to.Functions))
				to.Functions = append(to.Functions, *f)
				to.numbers[key] = n
			}
			at = n
		}
		counts := pod.counts[place{number, uint32(k)}]
		switch have := to.counts[at]; {
		case counts == nil:
		case have == nil:
			to.counts[at] = slices.Clone(counts)
		case len(have) == len(counts):
			for i, n := range counts {
				have[i], _ = added(have[i], n, w.mode)
			}
		}
	}
}

// describe appends what tells functions apart.
func (f *Function) describe(b []byte) []byte {
	b = append(append(b, f.Name...), f.File...)
	for _, u := range f.Units {
		for _, n := range [...]uint32{u.StartLine, u.StartColumn, u.EndLine, u.EndColumn, u.Statements} {
			b = binary.LittleEndian.AppendUint32(b, n)
		}
	}
	return binary.LittleEndian.AppendUint32(b, b2u(f.Literal))
}

func b2u(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// Meta are the bytes of the covmeta file, see ReadMeta, and its hash.
func (w *Writer) Meta() ([]byte, Hash) {
	if w.bytes != nil {
		return w.bytes, w.hash
	}
	var payloads [][]byte
	all := fnv.New128a()
	for _, p := range w.packages {
		b := p.bytes
		if w.Combine {
			b = p.encode()
		}
		payloads = append(payloads, b)
		one := fnv.New128a()
		_, _ = one.Write(b)
		_, _ = all.Write(one.Sum(nil))
	}
	texts := []byte{1, 0}
	begin := metaHead + 16*len(payloads) + len(texts)
	size := begin
	for _, b := range payloads {
		size += len(b)
	}
	le := binary.LittleEndian
	b := append(make([]byte, 0, size), metaMagic[:]...)
	b = le.AppendUint32(b, version)
	b = le.AppendUint64(b, uint64(size))
	b = le.AppendUint64(b, uint64(len(payloads)))
	b = all.Sum(b)
	hash := Hash(b[len(b)-len(Hash{}):])
	b = le.AppendUint32(b, uint32(metaHead+16*len(payloads)))
	b = le.AppendUint32(b, uint32(len(texts)))
	b = append(b, byte(w.mode), byte(w.granularity), 0, 0, 0, 0, 0, 0)
	at := begin
	for _, p := range payloads {
		b = le.AppendUint64(b, uint64(at))
		at += len(p)
	}
	for _, p := range payloads {
		b = le.AppendUint64(b, uint64(len(p)))
	}
	b = append(b, texts...)
	for _, p := range payloads {
		b = append(b, p...)
	}
	return b, hash
}

// A textTable numbers texts.
type textTable struct {
	index map[string]uint64
	list  []string
}

func (t *textTable) number(s string) uint64 {
	n, known := t.index[s]
	if !known {
		if t.index == nil {
			t.index = make(map[string]uint64)
		}
		n = uint64(len(t.list))
		t.index[s], t.list = n, append(t.list, s)
	}
	return n
}

func (t *textTable) encode(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(t.list)))
	for _, s := range t.list {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return b
}

// encode makes the bytes of a package, see readPackage.
func (p *Package) encode() []byte {
	var texts textTable
	texts.number("")
	path, name, module := texts.number(p.Path), texts.number(p.Name), texts.number(p.Module)
	hash := fnv.New128a()
	for _, s := range []string{p.Path, p.Name, p.Module} {
		_, _ = hash.Write([]byte(s))
	}
	var functions [][]byte
	for i := range p.Functions {
		f := &p.Functions[i]
		_, _ = hash.Write(f.describe(nil))
		functions = append(functions, f.encode(&texts))
	}
	le := binary.LittleEndian
	b := make([]byte, 4)
	b = le.AppendUint32(b, uint32(name))
	b = le.AppendUint32(b, uint32(path))
	b = le.AppendUint32(b, uint32(module))
	b = hash.Sum(b)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint32(b, uint32(len(texts.list)))
	b = le.AppendUint32(b, uint32(len(functions)))
	encoded := texts.encode(nil)
	at := packageHead + 4*len(functions) + len(encoded)
	for _, f := range functions {
		b = le.AppendUint32(b, uint32(at))
		at += len(f)
	}
	b = append(b, encoded...)
	for _, f := range functions {
		b = append(b, f...)
	}
	le.PutUint32(b, uint32(len(b)))
	return b
}

func (f *Function) encode(texts *textTable) []byte {
	b := binary.AppendUvarint(nil, uint64(len(f.Units)))
	b = binary.AppendUvarint(b, texts.number(f.Name))
	b = binary.AppendUvarint(b, texts.number(f.File))
	for _, u := range f.Units {
		for _, n := range [...]uint32{u.StartLine, u.StartColumn, u.EndLine, u.EndColumn, u.Statements} {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	return binary.AppendUvarint(b, uint64(b2u(f.Literal)))
}

// Counters are the bytes of the covcounters file, see ReadCounters, for a program of that hash.
func (w *Writer) Counters(hash Hash) []byte {
	le := binary.LittleEndian
	b := append([]byte(nil), countersMagic[:]...)
	b = le.AppendUint32(b, version)
	b = append(append(b, hash[:]...), ulebNumbers, 0, 0, 0, 0, 0, 0, 0)
	head := len(b)
	b = append(b, make([]byte, 16)...)

	var texts textTable
	texts.number("")
	pairs := w.arguments.pairs()
	keys := slices.Sorted(maps.Keys(pairs))
	for _, key := range keys {
		texts.number(key)
		texts.number(pairs[key])
	}
	begin := len(b)
	b = texts.encode(b)
	le.PutUint32(b[head+8:], uint32(len(b)-begin))
	begin = len(b)
	b = binary.AppendUvarint(b, uint64(len(keys)))
	for _, key := range keys {
		b = binary.AppendUvarint(b, texts.number(key))
		b = binary.AppendUvarint(b, texts.number(pairs[key]))
	}
	b = append(b, make([]byte, -len(b)&3)...)
	le.PutUint32(b[head+12:], uint32(len(b)-begin))

	functions := uint64(0)
	for i, p := range w.packages {
		for _, k := range slices.Sorted(maps.Keys(p.counts)) {
			functions++
			counts := p.counts[k]
			b = binary.AppendUvarint(b, uint64(len(counts)))
			b = binary.AppendUvarint(b, uint64(i))
			b = binary.AppendUvarint(b, uint64(k))
			for _, n := range counts {
				b = binary.AppendUvarint(b, uint64(n))
			}
		}
	}
	le.PutUint64(b[head:], functions)
	b = append(append(b, countersMagic[:]...), 0, 0, 0, 0)
	b = le.AppendUint32(b, 1)
	return le.AppendUint32(b, 0)
}

// arguments are what is known of how all processes were called.
type arguments struct {
	some            bool
	command         []string
	system, machine string
}

func (a *arguments) add(s *Segment) {
	command, system, machine := s.Command(), s.Arguments["GOOS"], s.Arguments["GOARCH"]
	if !a.some {
		*a = arguments{true, command, system, machine}
		return
	}
	if !slices.Equal(a.command, command) {
		a.command = nil
	}
	if a.system != system {
		a.system = ""
	}
	if a.machine != machine {
		a.machine = ""
	}
}

func (a *arguments) pairs() map[string]string {
	pairs := make(map[string]string)
	if len(a.command) > 0 {
		pairs["argc"] = strconv.Itoa(len(a.command))
	}
	for i, arg := range a.command {
		pairs["argv"+strconv.Itoa(i)] = arg
	}
	for key, value := range map[string]string{"GOOS": a.system, "GOARCH": a.machine} {
		if value != "" {
			pairs[key] = value
		}
	}
	return pairs
}
