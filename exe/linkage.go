package exe

import "debug/elf"

// Exports returns the functions that the file has for others, by name. Of several versions
// of one it is the default one.
func (f *File) Exports() map[string]Function {
	symbols, err := f.elf.DynamicSymbols()
	if err != nil {
		return nil // linked statically
	}
	exports := make(map[string]Function)
	for _, s := range symbols {
		kind := elf.ST_TYPE(s.Info)
		if s.Section == elf.SHN_UNDEF || elf.ST_BIND(s.Info) == elf.STB_LOCAL || kind != elf.STT_FUNC && kind != elf.STT_GNU_IFUNC {
			continue
		}
		if _, ok := exports[s.Name]; ok && s.HasVersion && s.VersionIndex.IsHidden() {
			continue
		}
		exports[s.Name] = Function{Name: s.Name, Addr: s.Value, Size: s.Size, Indirect: kind == elf.STT_GNU_IFUNC}
	}
	return exports
}

// Definitions returns the functions in .symtab by name. A global one goes before local
// ones; of several local ones of a name it is any.
func (f *File) Definitions() map[string]Function {
	fs, err := f.functions(elf.SHT_SYMTAB)
	if err != nil {
		return nil
	}
	all := make(map[string]Function, len(fs))
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
	libraries, _ = f.elf.ImportedLibraries()
	if names, _ := f.elf.DynString(elf.DT_SONAME); len(names) > 0 {
		own = names[0]
	}
	return libraries, own
}

// EachSymbol calls visit with each symbol in .symtab that is defined in a section, in the
// order of the table. code tells that the section has code.
func (f *File) EachSymbol(visit func(s elf.Symbol, code bool)) {
	symbols, err := f.elf.Symbols()
	if err != nil {
		return
	}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && int(s.Section) < len(f.elf.Sections) {
			visit(s, f.elf.Sections[s.Section].Flags&elf.SHF_EXECINSTR != 0)
		}
	}
}
