package binary

import "debug/elf"

// Exports returns the functions that the file has for others, by name. Of several versions
// of one it is the default one.
func (f *File) Exports() map[string]FunctionSymbol {
	exports := make(map[string]FunctionSymbol)
	hidden, n := f.hiddenVersions(), 0
	err := f.eachSymbol(elf.SHT_DYNSYM, func(s *tableSymbol) bool {
		n++
		kind := elf.ST_TYPE(s.info)
		if s.section == elf.SHN_UNDEF || elf.ST_BIND(s.info) == elf.STB_LOCAL || kind != elf.STT_FUNC && kind != elf.STT_GNU_IFUNC {
			return true
		}
		name := string(s.name)
		if _, ok := exports[name]; ok && hidden(n) {
			return true
		}
		exports[name] = FunctionSymbol{Name: name, Addr: s.value, Size: s.size, Indirect: kind == elf.STT_GNU_IFUNC}
		return true
	})
	if err != nil {
		return nil // linked statically
	}
	return exports
}

// Definitions returns the functions in .symtab by name. A global one goes before local
// ones; of several local ones of a name it is any.
func (f *File) Definitions() map[string]FunctionSymbol {
	fs, err := f.functions(elf.SHT_SYMTAB)
	if err != nil {
		return nil
	}
	all := make(map[string]FunctionSymbol, len(fs))
	for _, local := range []bool{true, false} {
		for _, fn := range fs {
			if fn.Local == local {
				all[fn.Name] = fn
			}
		}
	}
	return all
}

// Needed returns the names of the libraries that the file needs, in the order in which the
// dynamic linker looks for names in them, and the name by which others need this one, "" if
// that is its file's.
func (f *File) Needed() (libraries []string, own string) {
	libraries = f.dynamicNames(elf.DT_NEEDED)
	if names := f.dynamicNames(elf.DT_SONAME); len(names) > 0 {
		own = names[0]
	}
	return libraries, own
}

// EachSymbol calls visit with each symbol in .symtab that is defined in a section, in the
// order of the table. code tells that the section has code.
func (f *File) EachSymbol(visit func(s elf.Symbol, code bool)) {
	_ = f.eachSymbol(elf.SHT_SYMTAB, func(s *tableSymbol) bool {
		if s.section != elf.SHN_UNDEF && int(s.section) < len(f.elf.Sections) {
			visit(elf.Symbol{Name: string(s.name), Info: s.info, Other: s.other, Section: s.section, Value: s.value, Size: s.size}, f.isCode(s))
		}
		return true
	})
}
