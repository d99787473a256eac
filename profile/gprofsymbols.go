package profile

import (
	"cmp"
	"debug/elf"
	"slices"
	"strings"

	pprof "github.com/google/pprof/profile"

	"footfall/binary"
)

// gprofSymbols are the functions of a program as gprof knows them. It numbers all, also those
// that were never called.
type gprofSymbols struct {
	functions binary.Functions
	own       binary.Functions  // as we know them
	files     map[uint64]string // of static functions that ran, by address
	ticks     map[*pprof.Function]float64
}

// of returns the one that a function is for gprof, nil if it is none, such as sort.part.0, or
// if it is not known.
func (s *gprofSymbols) of(n *Node) *binary.FunctionSymbol {
	if s == nil || n.addr == 0 {
		return nil
	}
	f, own := s.functions.Before(n.addr), s.own.Before(n.addr)
	if f == nil || own == nil || f.Addr != own.Addr {
		return nil
	}
	return f
}

// gprofSymbols returns the functions of the program, with files of those that have code at
// the locations.
func (i *image) gprofSymbols(locations []*pprof.Location) *gprofSymbols {
	s := &gprofSymbols{own: i.functions, files: make(map[uint64]string)}
	i.names.EachSymbol(func(symbol elf.Symbol, code bool) {
		if gprofKnows(symbol, code) {
			s.functions = append(s.functions, binary.FunctionSymbol{Name: symbol.Name, Addr: symbol.Value, Local: elf.ST_BIND(symbol.Info) == elf.STB_LOCAL,
				Size: uint64(boolean(elf.ST_TYPE(symbol.Info) == elf.STT_FUNC))})
		}
	})
	s.unite()
	for _, l := range locations {
		f := s.functions.Before(l.Address)
		if f == nil || !f.Local || i.lines == nil || s.files[f.Addr] != "" {
			continue
		}
		if frames := i.lines.Frames(f.Addr); len(frames) > 0 {
			s.files[f.Addr] = frames[len(frames)-1].File
		}
	}
	return s
}

// gprofKnows tells whether gprof takes the symbol for a function: what is in code or weak,
// whatever its type, but for functions that are chosen when the program starts, and local ones
// with a dollar sign or a dot, such as sort.part.0. (It means to take f.constprop.0, but looks
// beyond the end of such a name and takes it by chance.)
func gprofKnows(s elf.Symbol, code bool) bool {
	kind := elf.ST_TYPE(s.Info)
	if kind == elf.STT_GNU_IFUNC || kind == elf.STT_SECTION || kind == elf.STT_FILE || s.Name == "" {
		return false
	}
	switch elf.ST_BIND(s.Info) {
	case elf.STB_WEAK:
		return kind != elf.STT_OBJECT && kind != elf.STT_TLS
	case elf.STB_GLOBAL:
		return code
	case elf.STB_LOCAL:
		return code && !strings.ContainsAny(s.Name, "$.")
	}
	return false
}

// unite keeps one function of each address: a global one, then one of the type of functions
// (which have a size here), then one with fewer underscores, then the first.
func (s *gprofSymbols) unite() {
	better := func(a, b binary.FunctionSymbol) bool {
		underscores := func(f binary.FunctionSymbol) int {
			return min(2, len(f.Name)-len(strings.TrimLeft(f.Name, "_")))
		}
		if a.Local != b.Local {
			return b.Local
		}
		if a.Size != b.Size {
			return a.Size > b.Size
		}
		return underscores(a) < underscores(b)
	}
	slices.SortStableFunc(s.functions, func(a, b binary.FunctionSymbol) int {
		return cmp.Or(cmp.Compare(a.Addr, b.Addr), cmp.Compare(b.Size, a.Size), cmp.Compare(boolean(a.Local), boolean(b.Local)))
	})
	n := 0
	for _, f := range s.functions {
		switch {
		case n == 0 || s.functions[n-1].Addr != f.Addr:
			s.functions[n] = f
			n++
		case better(f, s.functions[n-1]):
			s.functions[n-1] = f
		}
	}
	s.functions = s.functions[:n]
}
