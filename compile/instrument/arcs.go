package instrument

// A CallArc is the calls of one function by another.
type CallArc struct {
	Caller *CountedFunction
	Callee *CountedFunction // nil: one that does not count
	// Name is the callee's symbol, as the caller knows it. "" means an indirect
	// call of Address, or of several unknown functions if that is 0.
	Name    string
	Address uint64
	Count   uint64
}

// Arcs returns the calls at all sites that were called, added up for each pair of
// functions, in the order of the callers. A callee is found in its unit, else
// among the other functions of the process.
func (c *CountsFile) Arcs() []CallArc {
	x := c.Index()
	var arcs []CallArc
	for _, im := range c.Images {
		for _, f := range im.Functions {
			first := len(arcs)
			add := func(a CallArc) {
				if a.Count == 0 {
					return
				}
				for i := range arcs[first:] {
					if b := &arcs[first+i]; b.Callee == a.Callee && (a.Callee != nil || b.Name == a.Name && b.Address == a.Address) {
						b.Count += a.Count
						return
					}
				}
				a.Caller = f
				arcs = append(arcs, a)
			}
			for _, s := range f.Sites {
				if !s.Indirect {
					add(CallArc{Callee: x.Callee(f, &s), Name: s.Callee, Count: s.Count})
					continue
				}
				for _, t := range s.Targets {
					a := CallArc{Callee: x.At(f.Image, t.Address), Address: t.Address, Count: t.Count}
					if a.Callee != nil {
						a.Name = a.Callee.Name
					}
					add(a)
				}
				add(CallArc{Count: s.Further})
			}
		}
	}
	return arcs
}

// An Index finds functions of a counts file.
type Index struct {
	named map[nameKey][]symbolOf
	entry map[entryKey]*CountedFunction
}

// A nameKey is a symbol as the linker sees it: image and unit, by its names, are those of a
// local one, process tells the others from those of another program in the same file.
type nameKey struct {
	process process
	image   *CountedImage
	unit    uint64
	name    string
}

// A symbolOf is one of a function.
type symbolOf struct {
	*CountedFunction
	weak bool
}

type entryKey struct {
	process process
	address uint64
}

type process struct {
	pid int
	id  uint64
}

// Index returns the functions of all images, by name and by address.
func (c *CountsFile) Index() *Index {
	x := &Index{make(map[nameKey][]symbolOf), make(map[entryKey]*CountedFunction)}
	for _, im := range c.Images {
		for _, f := range im.Functions {
			x.add(symbolOf{f, f.weak}, f.Name, f.Local)
			for _, a := range f.Aliases {
				x.add(symbolOf{f, a.weak}, a.Name, a.Local)
			}
			if len(f.Code) > 0 {
				x.entry[entryKey{im.process(), f.Code[0].Start}] = f
			}
		}
	}
	return x
}

func (x *Index) add(s symbolOf, name string, local bool) {
	key := s.nameKey(name, local)
	x.named[key] = append(x.named[key], s)
}

// nameKey is that of a symbol as the function's unit means it.
func (f *CountedFunction) nameKey(name string, local bool) nameKey {
	key := nameKey{process: f.Image.process(), name: name}
	if local {
		key.image, key.unit = f.Image, f.names
	}
	return key
}

func (im *CountedImage) process() process { return process{im.PID, im.Process} }

// Callee returns the function that a direct call of f enters, nil if it does not
// count. Of an image's functions of one name the linker takes one that is not weak.
// A name may be in several images, as those of inline functions of C++ are:
// the dynamic linker has one of them called by all, or each image calls its own.
// The one that was entered tells.
func (x *Index) Callee(f *CountedFunction, s *CallSite) *CountedFunction {
	var best symbolOf
	for _, g := range x.named[f.nameKey(s.Callee, s.Local)] {
		var better bool
		switch {
		case best.CountedFunction == nil:
			better = true
		case g.Image == best.Image && g.weak != best.weak:
			better = best.weak
		default:
			better = best.Calls == 0 && g.Calls > 0 || g.Image == f.Image && best.Image != f.Image && (g.Calls > 0 || best.Calls == 0)
		}
		if better {
			best = g
		}
	}
	if best.weak && best.Calls == 0 {
		return nil // replaced by one that does not count
	}
	return best.CountedFunction
}

// At returns the function whose entry is at an address in the image's process, nil
// if none counts there.
func (x *Index) At(im *CountedImage, address uint64) *CountedFunction {
	return x.entry[entryKey{im.process(), address}]
}
