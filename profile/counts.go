package profile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	pprof "github.com/google/pprof/profile"

	"footfall/binary"
	"footfall/compile/instrument"
	"footfall/demangle"
	"footfall/input"
	"footfall/process"
)

// FromCounts turns the counts that instrumented programs keep into a profile.
//
// Each call becomes a sample of its callee and its caller. Entries of a function
// whose callers do not count, such as those of main, have a callee only.
//
// Programs and libraries are where the counts say: owners are those who may say so.
func FromCounts(c *instrument.CountsFile, owners *input.Owners) (*Profile, error) {
	r := &countsReader{
		opens: owners.OpenNamed,
		b:     newBuilder(), index: c.Index(), images: make(map[*instrument.CountedImage]*image), others: make(map[string]*image),
		files: make(map[string]*linkedFile), orders: make(map[*instrument.CountedImage][]*linkedFile), uncounteds: make(map[uncountedKey]*pprof.Location),
	}
	defer r.close()
	for _, im := range c.Images {
		r.images[im] = r.image(im)
	}
	// Readers of pprof's format take the first mapping for the program, which lies
	// lowest in memory.
	if len(c.Images) > 0 {
		r.b.mapping(r.images[slices.MinFunc(c.Images, func(a, b *instrument.CountedImage) int { return cmp.Compare(a.Bias, b.Bias) })])
	}
	called := make(map[*instrument.CountedFunction]uint64)
	for _, im := range c.Images {
		for _, f := range im.Functions {
			r.sites(f, called)
		}
	}
	lost := 0
	for _, im := range c.Images {
		for _, f := range im.Functions {
			rest := int64(f.Calls) - int64(called[f])
			if rest < 0 && !runs(im.PID) {
				lost++
			}
			if rest > 0 {
				r.b.add([]*pprof.Location{r.entry(f)}, "", rest, 0)
			}
		}
	}
	if len(r.b.p.Sample) == 0 {
		return nil, fmt.Errorf("no function has been called so far")
	}
	if r.further > 0 {
		r.note("%d indirect calls went to more functions than a place of call keeps; they are counted without their caller", r.further)
	}
	if lost > 0 {
		were := "s were"
		if lost == 1 {
			were = " was"
		}
		r.note("%d function%s entered less often than called: threads lost counts; --update=atomic or --update=thread makes them exact", lost, were)
	} else if pid, n := losing(c); n > 1 {
		r.note("process %d has %d threads, which may lose some of each other's counts; --update=atomic or --update=thread makes them exact", pid, n)
	}
	return r.b.finish(r.notes)
}

// runs tells whether the process lives: it counts while its counts are read, and
// what it calls then, it has not entered yet.
func runs(pid int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	return err == nil
}

// losing returns a process that counts now, how many threads it has, and 0 if their
// increments are exact.
func losing(c *instrument.CountsFile) (pid, threads int) {
	for _, im := range c.Images {
		exact := func(f *instrument.CountedFunction) bool {
			return f.Calls == 0 || f.Update == instrument.Atomic || f.Update == instrument.Thread || f.Update == instrument.Locked ||
				f.Update == instrument.Single
		}
		if !slices.ContainsFunc(im.Functions, func(f *instrument.CountedFunction) bool { return !exact(f) }) {
			continue
		}
		p, err := process.Open(im.PID)
		if err != nil {
			continue
		}
		counts := MappedCounts(p) != ""
		p.Close()
		if counts {
			return im.PID, len(process.ThreadNames(im.PID))
		}
	}
	return 0, 0
}

// nameStripped gives the functions of a program without symbols the names that it
// has in its counts file.
func nameStripped(p *Profile, counts *instrument.CountsFile) {
	type code struct {
		image *instrument.CountedImage
		addr  uint64
	}
	named := make(map[code]*pprof.Function)
	last := uint64(0)
	for _, f := range p.Function {
		last = max(last, f.ID)
	}
	for _, im := range counts.Images {
		functions := countedFunctions(im)
		for _, l := range p.Location {
			if l.Mapping == nil || l.Mapping.File != im.Path || l.Mapping.BuildID != im.BuildID || len(l.Line) != 1 || l.Line[0].Function.Name != unnamed(im.Path) {
				continue
			}
			fn := functions.At(l.Address)
			if fn == nil {
				continue
			}
			f := named[code{im, fn.Addr}]
			if f == nil {
				last++
				f = &pprof.Function{ID: last, Name: demangle.Short(fn.Name), SystemName: fn.Name, Filename: fn.Unit}
				named[code{im, fn.Addr}] = f
				p.Function = append(p.Function, f)
			}
			l.Line[0].Function = f
		}
	}
}

// shareSources gives functions in samples the sources that the counts know of them, and
// the other way round, so that each stays one function. Samples of a program without debug
// information know the unit of static functions only, and that without its directory;
// counts know no sources of what does not count.
func shareSources(samples, counts *Profile) {
	adoptSources(samples, counts)
	adoptSources(counts, samples)
}

// adoptSources gives functions in p the sources that are known in o.
func adoptSources(p, o *Profile) {
	type key struct{ image, symbol string }
	known := make(map[key][]*pprof.Function)
	for image, f := range outermost(o) {
		k := key{image, f.SystemName}
		if f.Filename != "" && !slices.Contains(known[k], f) {
			known[k] = append(known[k], f)
		}
	}
	for image, f := range outermost(p) {
		if f.StartLine != 0 {
			continue
		}
		var fit []*pprof.Function
		for _, g := range known[key{image, f.SystemName}] {
			if f.Filename == "" || filepath.Base(f.Filename) == filepath.Base(g.Filename) {
				fit = append(fit, g)
			}
		}
		if len(fit) == 1 {
			f.Filename, f.StartLine = fit[0].Filename, fit[0].StartLine
		}
	}
}

// outermost yields the functions that are symbols of an image, with its path
// or its build ID if it has one (a container has other paths), once for each of their
// locations.
func outermost(p *Profile) iter.Seq2[string, *pprof.Function] {
	return func(yield func(string, *pprof.Function) bool) {
		for _, l := range p.Location {
			if l.Mapping != nil && len(l.Line) > 0 && !yield(cmp.Or(l.Mapping.BuildID, l.Mapping.File), l.Line[len(l.Line)-1].Function) {
				return
			}
		}
	}
}

type countsReader struct {
	opens   opener
	b       *builder
	index   *instrument.Index
	images  map[*instrument.CountedImage]*image
	others  map[string]*image // by path; code that does not count
	further uint64
	notes   []string

	files      map[string]*linkedFile // by path
	orders     map[*instrument.CountedImage][]*linkedFile
	uncounteds map[uncountedKey]*pprof.Location
}

func (r *countsReader) close() {
	for _, i := range r.images {
		i.close()
	}
	for _, i := range r.others {
		i.close()
	}
}

// image makes names of those in the counts file; lines, and names of what does not count,
// are those of the image's file if that is still the same.
func (r *countsReader) image(im *instrument.CountedImage) *image {
	i := &image{path: im.Path, buildID: im.BuildID}
	switch file, err := r.openCounted(im); {
	case im.Path == "" && err != nil:
		r.note("process %d could not tell the path of its program, as it had no /proc: no lines", im.PID)
	case errors.Is(err, fs.ErrNotExist):
		r.note("%s is no longer there: no lines", im.Path)
	case err != nil:
		r.note("%s: no lines: %v", im.Path, err)
	case file.buildID != im.BuildID:
		r.note("%s has been built again since: no lines", im.Path)
		file.close()
	default:
		i = file
	}
	i.key = fmt.Sprintf("%s %s", im.Path, im.BuildID)
	counted := countedFunctions(im)
	i.functions = slices.DeleteFunc(i.functions, func(f binary.FunctionSymbol) bool { return counted.At(f.Addr) != nil })
	i.functions = append(i.functions, counted...)
	slices.SortFunc(i.functions, func(a, b binary.FunctionSymbol) int { return cmp.Compare(a.Addr, b.Addr) })
	return i
}

// openCounted opens the file of an image. A process that lives may see other files
// than we do, as in a container.
func (r *countsReader) openCounted(im *instrument.CountedImage) (*image, error) {
	i, err := openImageBy(im.Path, true, r.opens)
	if err == nil && i.buildID == im.BuildID {
		return i, nil
	}
	seen := fmt.Sprintf("/proc/%d/root%s", im.PID, im.Path)
	if im.Path == "" {
		seen = fmt.Sprintf("/proc/%d/exe", im.PID)
	}
	other, otherErr := openImageBy(seen, true, r.opens)
	switch {
	case otherErr != nil:
		return i, err
	case other.buildID != im.BuildID:
		other.close()
		return i, err
	}
	if i != nil {
		i.close()
	}
	other.path = im.Path
	if im.Path == "" {
		other.path, _ = os.Readlink(seen)
	}
	return other, nil
}

// note keeps a sentence for the user, once.
func (r *countsReader) note(format string, args ...any) {
	if s := fmt.Sprintf(format, args...); !slices.Contains(r.notes, s) {
		r.notes = append(r.notes, s)
	}
}

// countedFunctions returns the functions that an image counts, by ascending
// address, as its file has it.
func countedFunctions(im *instrument.CountedImage) binary.Functions {
	var functions binary.Functions
	for _, f := range im.Functions {
		for n, code := range f.Code {
			name := f.Name
			if n > 0 {
				name += ".cold"
			}
			functions = append(functions, binary.FunctionSymbol{Name: name, Addr: code.Start - im.Bias, Size: code.End - code.Start, Unit: f.Unit, Local: f.Local})
		}
	}
	slices.SortFunc(functions, func(a, b binary.FunctionSymbol) int { return cmp.Compare(a.Addr, b.Addr) })
	return functions
}

func (r *countsReader) entry(f *instrument.CountedFunction) *pprof.Location {
	if len(f.Code) == 0 {
		return r.b.named(f.Name, f.Image.Path)
	}
	return r.b.outer(r.images[f.Image], f.Code[0].Start-f.Image.Bias)
}

// sites adds the calls that a function made.
func (r *countsReader) sites(f *instrument.CountedFunction, called map[*instrument.CountedFunction]uint64) {
	image := r.images[f.Image]
	for _, s := range f.Sites {
		caller := r.b.outer(image, s.Address-f.Image.Bias)
		if len(f.Code) > 0 && (s.Address < f.Code[0].Start || s.Address >= f.Code[0].End) {
			// A cold part is not called by anybody: what it calls, the function calls.
			caller.Line[0].Function = r.entry(f).Line[0].Function
		}
		add := func(callee *pprof.Location, n uint64) {
			if n > 0 {
				r.b.add([]*pprof.Location{callee, caller}, "", int64(n), 0)
			}
		}
		if !s.Indirect {
			if callee := r.index.Callee(f, &s); callee != nil {
				called[callee] += s.Count
				add(r.entry(callee), s.Count)
			} else {
				add(r.uncounted(f.Image, s.Callee), s.Count)
			}
			continue
		}
		for _, t := range s.Targets {
			if callee := r.index.At(f.Image, t.Address); callee != nil {
				called[callee] += t.Count
				add(r.entry(callee), t.Count)
			} else {
				add(r.elsewhere(f.Image, t.Address), t.Count)
			}
		}
		r.further += s.Further
	}
}

// elsewhere is code that does not count, such as a library's.
func (r *countsReader) elsewhere(im *instrument.CountedImage, addr uint64) *pprof.Location {
	for _, m := range im.Maps {
		if addr < m.Start || addr >= m.End {
			continue
		}
		i := r.other(m.Path)
		if i.file != nil {
			if at, ok := i.file.CodeAddress(addr - m.Start + m.Offset); ok {
				return r.called(i, at)
			}
		}
		return r.b.named(unnamed(m.Path), m.Path)
	}
	return r.b.named("[unknown]", "")
}

// called is the function of code that does not count. One that is chosen when the program
// starts is called at several places: they have its name alone.
func (r *countsReader) called(i *image, addr uint64) *pprof.Location {
	if f := i.functions.At(addr); f != nil && f.Indirect {
		return r.b.named(f.Name, i.path)
	}
	return r.b.outer(i, addr)
}

// other returns a file whose code does not count, or not all of it; sources of what it has
// are those that samples have.
func (r *countsReader) other(path string) *image {
	i, ok := r.others[path]
	if !ok {
		var err error
		if i, err = openImageBy(path, false, r.opens); err != nil { // lines take long
			i = &image{key: path, path: path}
		}
		r.others[path] = i
	}
	return i
}

// IsCounts tells whether b begins as a counts file does.
func IsCounts(b []byte) bool {
	_, err := instrument.ReadCounts(b[:min(len(b), 8)])
	return len(b) >= 8 && err != instrument.ErrNotCounts
}
