// Package live reads the counters that GCC, Clang and Rust put into programs out
// of running ones, from outside: the program is not stopped, changed or asked.
//
// [Open] finds the counters in the program and in each of its libraries: the
// structures of GCC by the symbol __gcov_root or, in stripped ones, by what they
// look like; those of clang --coverage by the code that would write them; those
// of source-based coverage by sections. [Process.Snapshot] reads all counters, mostly with one
// system call, as [gcov.Counts]: encoded they are byte for byte the .gcda files
// that the program would write now. [Process.Profiles] reads source-based ones,
// as .profraw files. Libraries that come and go between snapshots are noticed.
//
// # What a snapshot is
//
// Counters are read one after the other while the program counts: related ones
// may differ by a few. Counts that the compiler keeps in a register until a
// loop ends are not there yet.
//
// # Hostile programs
//
// What is in another process may be anything. Pointers must lead into memory
// that is mapped, lists must end, numbers have limits; what does not hold is an
// error for that image or unit. Names of files are as the program has them:
// [Dump] writes nothing outside of its directory.
package live

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"footfall/exe"
	"footfall/gcov"
	"footfall/proc"
)

// ErrNoCounters is returned for a process without counters.
var ErrNoCounters = errors.New("no counters of gcc or clang --coverage")

// ErrOnlyProfiles is returned for the units of a process that has no others but
// source-based counters: see [Process.Profiles]. It is one of ErrNoCounters.
var ErrOnlyProfiles = fmt.Errorf("%w, but source-based ones (-fprofile-instr-generate, Rust): footfall live --dump writes them as .profraw files", ErrNoCounters)

// A Process is a running program whose counters can be read. Its methods must
// not be called at the same time.
type Process struct {
	PID  int
	Name string

	proc   *proc.Process
	text   []byte   // of the memory map, when images were looked for
	images []*image // all that are mapped, most without counters
	plan   *plan
}

// A Unit is the counters of one object file, at one time.
type Unit struct {
	Name   string // the data file that the program writes, as the compiler recorded it
	Image  string // the program or library that it is linked into
	Counts *gcov.Counts
}

// An image is a program or library with counters.
type image struct {
	key     string
	path    string
	order   binary.ByteOrder
	pointer int    // bytes
	root    uint64 // address of __gcov_root, 0: not known
	first   []byte // the pointer there
	rootAt  int    // in a snapshot
	units   []*unit
	code    clangCode
	profile *profile // source-based counters
	profErr error    // why they cannot be used
	problem error    // with some of the units, or all
	// unopened is why the file could not be opened: what only it tells is not
	// found then.
	unopened error
}

// Open finds the counters in a process. It returns ErrNoCounters, wrapped, if
// there are none.
func Open(pid int) (*Process, error) {
	pr, err := proc.Open(pid)
	if err != nil {
		return nil, err
	}
	p := &Process{PID: pid, Name: pr.Name, proc: pr}
	if err := p.refresh(false); err != nil {
		pr.Close()
		return nil, err
	}
	if err := p.empty(); err != nil && !p.hasProfiles() {
		pr.Close()
		return nil, err
	}
	return p, nil
}

// Close lets go of the process.
func (p *Process) Close() error { return p.proc.Close() }

// Root is where the file system of the process is to be found, "" if it is
// ours.
func (p *Process) Root() string { return p.proc.Root() }

// empty returns an error if there are no counters.
func (p *Process) empty() error {
	var problems []error
	for _, im := range p.images {
		if len(im.units) > 0 {
			return nil
		}
		problems = append(problems, im.problem, im.profErr)
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	if p.hasProfiles() {
		return fmt.Errorf("process %d (%s): %w", p.PID, p.Name, ErrOnlyProfiles)
	}
	for _, im := range p.images {
		if im.unopened == nil {
			continue
		}
		next := im.unopened.Error()
		if errors.Is(im.unopened, fs.ErrPermission) {
			next = "run footfall as root"
		}
		return fmt.Errorf("process %d (%s): %w, as far as can be seen: the file %s has been removed or replaced and cannot be opened, by which source-based counters are found: %s", p.PID, p.Name, ErrNoCounters, im.path, next)
	}
	return fmt.Errorf("process %d (%s): %w", p.PID, p.Name, ErrNoCounters)
}

// refresh looks at the memory map and finds counters in the images that are
// new, or in all.
func (p *Process) refresh(all bool) error {
	text, err := p.proc.MapText()
	if err == nil && !all && bytes.Equal(text, p.text) {
		return nil
	}
	var maps proc.Maps
	if err == nil {
		maps, text, err = p.proc.Maps()
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", p.PID, err)
	}
	known := make(map[string]*image)
	if !all {
		for _, im := range p.images {
			known[im.key] = im
		}
	}
	budget := newBudget()
	before := len(known)
	var images []*image
	for _, mapped := range p.proc.Images(maps) {
		im := known[mapped.Key()]
		if im == nil {
			im = p.find(mapped, maps, budget)
			before = -1
		}
		images = append(images, im)
	}
	p.text, p.images = text, images
	if before == len(images) {
		return nil
	}
	p.plan, err = newPlan(images, nearby)
	return err
}

// find finds the counters of one image.
func (p *Process) find(mapped *proc.Image, maps proc.Maps, budget *budget) *image {
	im := &image{key: mapped.Key(), path: mapped.Path}
	roots, err := p.roots(mapped, im)
	if err != nil && !errors.Is(err, exe.ErrNoSymbols) || im.order == nil {
		return im // not an ELF file: fonts and archives are mapped too
	}
	w := &walker{pages: newPages(p.proc), image: im, order: im.order, pointer: im.pointer, maps: maps, budget: budget}
	if err != nil {
		im.units, im.problem = w.scan(mapped.Parts)
	}
	for _, root := range roots {
		b, err := w.read(root, im.pointer)
		if err != nil {
			im.problem = fmt.Errorf("%s: __gcov_root: %w", im.path, err)
			continue
		}
		im.root, im.first = root, slices.Clone(b)
		if im.units, im.problem = w.list(w.address(b)); len(im.units) > 0 {
			break
		}
	}
	units, err := w.clang(im.code, mapped.Parts)
	im.units, im.problem = append(im.units, units...), errors.Join(im.problem, err)
	if im.profile != nil {
		im.profErr = im.profile.prepare(w)
	}
	return im
}

// roots returns the addresses of __gcov_root, or exe.ErrNoSymbols where only a
// scan can tell.
func (p *Process) roots(mapped *proc.Image, im *image) ([]uint64, error) {
	r, err := mapped.Open()
	if err != nil {
		im.unopened = err
		return nil, im.headOf(mapped, p.proc)
	}
	defer r.Close()
	f, err := exe.Open(r)
	if err != nil {
		return nil, err
	}
	im.order, im.pointer = f.Order, f.PointerSize()
	im.code = clangCodeOf(f, f.Bias(mapped.Start))
	symbols := func(name string) ([]uint64, error) {
		values, err := f.Symbols(name)
		if errors.Is(err, exe.ErrNoSymbols) {
			values, err = p.separate(f, name)
		}
		return values, err
	}
	im.profile = profileOf(f, f.Bias(mapped.Start), symbols)
	values, err := symbols("__gcov_root")
	bias := f.Bias(mapped.Start)
	for i := range values {
		values[i] += bias
	}
	return values, err
}

// separate looks into the separate debug file.
func (p *Process) separate(f *exe.File, name string) ([]uint64, error) {
	path := exe.DebugPath(f.BuildID())
	if path == "" {
		return nil, exe.ErrNoSymbols
	}
	r, err := p.proc.OpenInRoot(path)
	if err != nil {
		return nil, exe.ErrNoSymbols
	}
	defer r.Close()
	debug, err := exe.Open(r)
	if err != nil {
		return nil, exe.ErrNoSymbols
	}
	return debug.Symbols(name)
}

// headOf takes from memory what an image's file would tell, where that cannot
// be opened: the first bytes of an ELF file say class and byte order.
func (im *image) headOf(mapped *proc.Image, mem io.ReaderAt) error {
	var b [6]byte
	if _, err := mem.ReadAt(b[:], int64(mapped.Start)); err != nil || string(b[:4]) != "\x7fELF" {
		return errors.New("not an ELF file")
	}
	im.pointer, im.order = 8, binary.LittleEndian
	if b[4] == 1 {
		im.pointer = 4
	}
	if b[5] == 2 {
		im.order = binary.BigEndian
	}
	im.code = clangCodeInMemory(mem, mapped.Start)
	return exe.ErrNoSymbols
}

// Snapshot reads all counters as they are now. Images and units that cannot be
// used are told in the error, beside the units that can; without units the
// error is why there are none: proc.ErrExited, or another program runs.
func (p *Process) Snapshot() ([]Unit, error) {
	var err error
	for try := range 3 {
		if err = p.proc.Check(); err != nil {
			return nil, fmt.Errorf("process %d (%s): %w", p.PID, p.Name, err)
		}
		if err = p.refresh(try > 0); err != nil {
			return nil, err
		}
		if err = p.read(); err == nil {
			return p.units()
		}
	}
	if exited := p.proc.Check(); exited != nil {
		err = exited
	}
	return nil, fmt.Errorf("process %d (%s): %w", p.PID, p.Name, err)
}

// read fills the plan's buffer.
func (p *Process) read() error {
	err := p.proc.ReadRanges(p.plan.ranges)
	if err != nil {
		// Two ranges that are near may have a hole between them.
		apart, planErr := newPlan(p.images, 0)
		if planErr != nil {
			return planErr
		}
		if err = p.proc.ReadRanges(apart.ranges); err != nil {
			return err
		}
		p.plan = apart
	}
	if !p.plan.unmoved(p.images) {
		return errMoved
	}
	return nil
}

// units makes units of the plan's buffer.
func (p *Process) units() ([]Unit, error) {
	var units []Unit
	var problems []error
	for _, im := range p.images {
		problems = append(problems, im.problem)
		counts, bad := im.counts(p.plan.buf, p.proc)
		for i, u := range im.units {
			if bad[i] != nil {
				problems = append(problems, bad[i])
				continue
			}
			units = append(units, Unit{Name: u.name, Image: im.path, Counts: counts[i]})
		}
	}
	if len(units) == 0 {
		problems = append(problems, p.empty())
	}
	return units, errors.Join(problems...)
}
