package instrument

import "slices"

// An Arc is the calls of one function by another.
type Arc struct {
	Caller *Function
	Callee *Function // nil: one that does not count
	// Name is the callee's symbol, as the caller knows it. "" means an indirect
	// call of Address, or of several unknown functions if that is 0.
	Name    string
	Address uint64
	Count   uint64
}

// Arcs returns the calls at all sites that were called, added up for each pair of
// functions, in the order of the callers. A callee is found in its unit, else
// among the other functions of the process.
func (c *CountsFile) Arcs() []Arc {
	x := c.index()
	var arcs []Arc
	for _, im := range c.Images {
		for _, f := range im.Functions {
			first := len(arcs)
			add := func(a Arc) {
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
					add(Arc{Callee: x.named(f, s), Name: s.Callee, Count: s.Count})
					continue
				}
				for _, t := range s.Targets {
					a := Arc{Callee: x.at(f.Image, t.Address), Address: t.Address, Count: t.Count}
					if a.Callee != nil {
						a.Name = a.Callee.Name
					}
					add(a)
				}
				add(Arc{Count: s.Further})
			}
		}
	}
	return arcs
}

// A process tells the images of one from those of others in the same file.
type process struct {
	pid int
	id  uint64
}

// An index finds functions.
type index struct {
	local  map[localName]*Function
	global map[globalName][]*Function
	entry  map[entryAddress]*Function
}

type localName struct {
	image      *Image
	unit, name string
}

type globalName struct {
	process
	name string
}

type entryAddress struct {
	process
	address uint64
}

func (c *CountsFile) index() *index {
	x := &index{make(map[localName]*Function), make(map[globalName][]*Function), make(map[entryAddress]*Function)}
	for _, im := range c.Images {
		p := process{im.PID, im.Process}
		for _, f := range im.Functions {
			x.entry[entryAddress{p, f.Code[0].Start}] = f
			for _, name := range slices.Concat([]string{f.Name}, f.Aliases) {
				if f.Local {
					x.local[localName{im, f.Unit, name}] = f
				}
				key := globalName{p, name}
				x.global[key] = append(x.global[key], f)
			}
		}
	}
	return x
}

// named returns the callee of a direct call in f. A name that is not of the unit
// is that of the first image that has a function for others by it, as the
// dynamic linker chooses; hidden ones come from the same image.
func (x *index) named(f *Function, s Site) *Function {
	if s.Local {
		return x.local[localName{f.Image, f.Unit, s.Callee}]
	}
	var found *Function
	for _, g := range x.global[globalName{process{f.Image.PID, f.Image.Process}, s.Callee}] {
		if g.Local {
			continue
		}
		if g.Image == f.Image {
			return g
		}
		if found == nil {
			found = g
		}
	}
	return found
}

func (x *index) at(im *Image, address uint64) *Function {
	return x.entry[entryAddress{process{im.PID, im.Process}, address}]
}
