//go:build linux

// Package live reads the counters that GCC, Clang and Rust put into programs out
// of running ones, from outside: the program is not stopped, changed or asked.
//
// [Open] finds the counters in the program and in each of its libraries: the
// structures of GCC by the symbol __gcov_root or, in stripped ones, by what they
// look like; those of clang --coverage by the code that would write them; those
// of source-based coverage by sections. [CountedProcess.Snapshot] reads all counters, mostly with one
// system call, as [gcov.Counts]: encoded they are byte for byte the .gcda files
// that the program would write now. [CountedProcess.Profiles] reads source-based ones,
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
	encoding "encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"footfall/binary"
	"footfall/formats/gcov"
	"footfall/input"
	"footfall/output"
	"footfall/process"
)

// ErrNoCounters is returned for a process without counters.
var ErrNoCounters = errors.New("no counters of gcc or clang --coverage")

// ErrOnlyProfiles is returned for the units of a process that has no others but
// source-based counters: see [CountedProcess.Profiles]. It is one of ErrNoCounters.
var ErrOnlyProfiles = fmt.Errorf("%w, but source-based ones (-fprofile-instr-generate, Rust, Go): footfall live shows them, --dump writes them as the program would", ErrNoCounters)

// A CountedProcess is a running program whose counters can be read. Its methods must
// not be called at the same time.
type CountedProcess struct {
	PID  int
	Name string
	// FollowFiles has Snapshot read the data files that the program would write,
	// when they have changed, so that it knows what libgcov adds to the counters
	// when the program writes them, and can leave it out. It is for those who look
	// again and again.
	FollowFiles bool

	proc   *process.Process
	known  *Known   // nil: nothing is
	text   []byte   // of the memory map, when images were looked for; nil: it changed meanwhile
	images []*image // all that are mapped, most without counters
	plan   *plan
	loaded int // images that were given a number so far

	environ *process.Environ  // nil: not needed so far, or not known
	env     map[string]string // as it was there last

	guest   *guest // the program that is emulated, nil: none
	noGuest bool   // where it is was not found
}

// A Unit is the counters of one object file, at one time.
type Unit struct {
	Name   string // the data file that the program writes, as the compiler recorded it
	Image  string // the program or library that it is linked into
	Counts *gcov.Counts
	Load   *Load // of the image, for all of its units the same; nil: the kernel
	Gone   bool  // History only: it was not there at the last look
}

// An image is a program or library with counters.
type image struct {
	key     string
	path    string
	start   uint64
	parts   string // its part of the memory map
	program bool   // no library
	guest   *guest // nil: it runs on this CPU
	order   encoding.ByteOrder
	pointer int    // bytes
	root    uint64 // address of __gcov_root, 0: not known
	first   []byte // the pointer there
	rootAt  int    // in a snapshot
	units   []*unit
	symbols bool // its file has some, so that it tells whether there are counters
	code    clangCode
	profile *llvmSections // source-based counters
	profErr error         // why they cannot be used
	golang  *golang       // counters of Go
	problem error         // with some of the units, or all
	// unopened is why the file could not be opened: what only it tells is not
	// found then.
	unopened error

	id      int  // of its load
	broken  bool // it could not be read, or is no longer what it was: find it anew
	doubts  int  // how often that was done because of a problem
	doubted bool // the problem may be one of the moment
	gone    bool // and what is found then is another load

	files   *earlierRuns            // that the program would write to, if they are followed
	counted bool                    // the flag before a dump
	waited  bool                    // for what comes after a dump: the end of the program, or of the library
	judged  bool                    // what a dump has added
	earlier bool                    // that it is not known
	added   map[string]*gcov.Counts // by unit
}

// Open finds the counters in a process. It returns ErrNoCounters, wrapped, if
// there are none.
func Open(pid int) (*CountedProcess, error) { return open(pid, nil) }

func open(pid int, known *Known) (*CountedProcess, error) {
	pr, err := process.Open(pid)
	if err != nil {
		return nil, err
	}
	p := &CountedProcess{PID: pid, Name: pr.Name, proc: pr, known: known}
	for range tries + 1 {
		if err = p.refresh(false); err != nil || !p.broken() {
			break
		}
		time.Sleep(tryAgain)
	}
	if err != nil {
		pr.Close()
		return nil, err
	}
	if err := p.empty(); err != nil && !p.hasProfiles() {
		pr.Close()
		return nil, err
	}
	return p, nil
}

// Close lets go of the process, unless it is stuck: then somebody still reads it.
func (p *CountedProcess) Close() error {
	if p.isStuck() {
		return nil
	}
	return p.proc.Close()
}

// Root is where the file system of the process is to be found, "" if it is
// ours.
func (p *CountedProcess) Root() string { return p.proc.Root() }

// User is whose the process is, as far as files are concerned.
func (p *CountedProcess) User() (input.User, error) { return p.proc.User() }

// Threads is the number of threads that the process has now.
func (p *CountedProcess) Threads() int { return p.proc.ThreadCount() }

// Forked tells whether the process was forked by the one that is its parent
// now, and runs the same program since. Then counters of GCC began from zero
// in the midst of the functions that had called fork.
func (p *CountedProcess) Forked() bool { return p.ForkedBy() != 0 }

// ForkedBy is the process that Forked tells of, 0 if it is not known. Source-based counters began with what that had counted.
func (p *CountedProcess) ForkedBy() (pid int) {
	parent, err := p.proc.Parent()
	if err != nil || p.proc.Start.Stack == 0 {
		return 0
	}
	if id, err := process.Identify(parent); err != nil || id.Stack != p.proc.Start.Stack {
		return 0
	}
	return parent
}

// An Ancestor is a process of which another is a fork, or a fork of a fork, and which runs the same program.
type Ancestor struct {
	Key    string    // by which its baseline is kept
	Forked time.Time // when the child was forked that leads to the process, at the latest: to a hundredth of a second
}

// mostAncestors is how many generations are looked at.
const mostAncestors = 64

// Ancestors are those that still run, the parent first. Source-based counters begin with those of the parent: what it was
// reset from before the fork is in them too.
func (p *CountedProcess) Ancestors() []Ancestor {
	list, _ := p.ancestors()
	return list
}

// ancestors also tells the process that became the program by exec, if it still runs.
func (p *CountedProcess) ancestors() (list []Ancestor, first int) {
	child := p.proc.Start
	first = p.PID
	parent, err := p.proc.Parent()
	for err == nil && child.Stack != 0 && len(list) < mostAncestors {
		id, failed := process.Identify(parent)
		if failed != nil || id.Stack != child.Stack {
			break
		}
		list = append(list, Ancestor{baselineKey(parent, id), child.Began().Add(10 * time.Millisecond)})
		child, first = id, parent
		var above *process.Process
		if above, err = process.Open(parent); err == nil {
			parent, err = above.Parent()
			above.Close()
		}
	}
	return list, first
}

// empty returns an error if there are no counters.
func (p *CountedProcess) empty() error {
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
		return fmt.Errorf("process %d (%s): %w", p.PID, output.Printable(p.Name), ErrOnlyProfiles)
	}
	if p.noGuest {
		return fmt.Errorf("process %d (%s): %w", p.PID, output.Printable(p.Name), errGuestBase)
	}
	for _, im := range p.images {
		if im.unopened == nil {
			continue
		}
		next := im.unopened.Error()
		if errors.Is(im.unopened, fs.ErrPermission) {
			next = "run footfall as root"
		}
		return fmt.Errorf("process %d (%s): %w, as far as can be seen: the file %s has been removed or replaced and cannot be opened, by which source-based counters are found: %s", p.PID, output.Printable(p.Name), ErrNoCounters, im.path, next)
	}
	return fmt.Errorf("process %d (%s): %w", p.PID, output.Printable(p.Name), ErrNoCounters)
}

// refresh looks at the memory map and finds counters in the images that are
// new, or in all.
func (p *CountedProcess) refresh(all bool) error {
	text, err := p.proc.MapText()
	if err == nil && !all && p.plan != nil && bytes.Equal(text, p.text) {
		return nil
	}
	var maps process.Maps
	if err == nil {
		maps, text, err = p.proc.Maps()
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", p.PID, err)
	}
	known := make(map[string]*image)
	for _, im := range p.images {
		known[im.key] = im
	}
	budget := newBudget()
	changed := p.plan == nil || len(known) != len(p.images)
	var images []*image
	files, own := p.files(maps)
	for i, mapped := range files {
		im := known[mapped.Key()]
		if all || im == nil || !im.found(mapped, p.text == nil) {
			before := im
			if i < own {
				im = p.known.find(p, mapped, maps, budget, before != nil)
			} else {
				im = p.find(mapped, maps, p.guest, budget)
			}
			p.identify(im, before)
			im.doubt(before)
			changed = true
		}
		images = append(images, im)
	}
	changed = changed || len(images) != len(p.images)
	p.text, p.images = text, images
	if now, err := p.proc.MapText(); err != nil || p.broken() || !bytes.Equal(now, text) {
		p.text = nil // look again next time
	}
	if !changed {
		return nil
	}
	p.plan, err = newPlan(images, nearby)
	return err
}

// doubt has an image with a problem be looked at again a few times: it may be
// that it was just being loaded, or closed, and something else is there. Only what
// is wrong in the same way each time is a problem of the image.
func (im *image) doubt(before *image) {
	var unknown *UnknownVersionError
	if im.problem == nil || errors.As(im.problem, &unknown) {
		return
	}
	if before != nil && before.problem != nil && before.problem.Error() == im.problem.Error() {
		im.doubts = before.doubts
	}
	if im.doubted = im.doubts < tries; im.doubted {
		im.doubts++
		im.broken = true
	}
}

// found tells whether an image need not be looked at again. unsure: the memory
// map changed while it was looked at.
func (im *image) found(mapped *process.MappedFile, unsure bool) bool {
	switch {
	case im.broken:
		return false
	case im.problem != nil || len(im.units) == 0:
		return !unsure && im.parts == partsOf(mapped) || im.order == nil
	}
	return true
}

// partsOf is an image's part of the memory map.
func partsOf(mapped *process.MappedFile) string { return partsAt(mapped, 0) }

// partsAt is partsOf, with addresses from one on.
func partsAt(mapped *process.MappedFile, from uint64) string {
	var b strings.Builder
	for _, m := range mapped.Parts {
		fmt.Fprintf(&b, "%x-%x%t%t ", m.Start-from, m.End-from, m.Write, m.Exec)
	}
	return b.String()
}

// find finds the counters of one image.
func (p *CountedProcess) find(mapped *process.MappedFile, maps process.Maps, g *guest, budget *budget) *image {
	im := &image{key: mapped.Key(), path: mapped.Path, start: mapped.Start, parts: partsOf(mapped), guest: g}
	roots, err := p.roots(mapped, im)
	if err != nil && !errors.Is(err, binary.ErrNoSymbols) || im.order == nil {
		im.golang = nil
		return im // not an ELF file: fonts and archives are mapped too
	}
	w := &walker{pages: newPages(p.proc), image: im, order: im.order, pointer: im.pointer, maps: maps, budget: budget}
	if err != nil {
		im.units, im.problem = w.scan(mapped.Parts)
	}
	im.symbols = err == nil
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
	if im.root == 0 && len(im.units) > 0 {
		if im.root = w.findRoot(mapped.Parts); im.root != 0 {
			if b, err := w.read(im.root, im.pointer); err == nil {
				im.first = slices.Clone(b)
			} else {
				im.root = 0
			}
		}
	}
	var others []*unit
	if im.guest == nil {
		others, err = w.clang(im.code, mapped.Parts)
	} else {
		err = im.ofOthers()
	}
	im.units, im.problem = append(im.units, others...), errors.Join(im.problem, err)
	im.program = len(im.units) > 0 && (mapped.IsProgram() || im.guest != nil && im.guest.program == im.key)
	if errors.Is(im.problem, unix.EFAULT) {
		im.broken, im.gone, im.problem = true, true, &ComesAndGoesError{im.path}
	}
	p.prepareProfiles(im, w, mapped)
	return im
}

// prepareProfiles finds the source-based counters of an image by what its file tells.
func (p *CountedProcess) prepareProfiles(im *image, w *walker, mapped *process.MappedFile) {
	if im.profile != nil {
		im.profErr = im.profile.prepare(w)
	}
	if im.golang != nil && !im.golang.prepare(p.proc, w.maps, mapped.Parts) {
		im.golang = nil
	}
}

// findProfiles is find for source-based counters alone; mayHave tells whether the file is of a program that may have some.
func (p *CountedProcess) findProfiles(mapped *process.MappedFile, maps process.Maps) (im *image, mayHave bool) {
	im = &image{key: mapped.Key(), path: mapped.Path, start: mapped.Start}
	_, _ = p.roots(mapped, im)
	if mayHave = im.order != nil && (im.profile != nil || im.golang != nil); mayHave {
		p.prepareProfiles(im, &walker{pages: newPages(p.proc), image: im, order: im.order, pointer: im.pointer, maps: maps, budget: newBudget()}, mapped)
	}
	return im, mayHave
}

// roots returns the addresses of __gcov_root, or binary.ErrNoSymbols where only a
// scan can tell.
func (p *CountedProcess) roots(mapped *process.MappedFile, im *image) ([]uint64, error) {
	r, err := mapped.Open()
	if err != nil {
		im.unopened = err
		return nil, im.headOf(mapped, p.proc)
	}
	defer r.Close()
	f, err := binary.Open(r)
	if err != nil {
		return nil, err
	}
	im.order, im.pointer = f.Order, f.PointerSize()
	bias := f.Bias(mapped.Start)
	if im.guest != nil {
		bias = mapped.Start - f.LoadAddress()
	}
	im.code = clangCodeOf(f, bias)
	if im.guest != nil {
		im.code.name(f)
	}
	symbols := func(name string) ([]uint64, error) {
		values, err := f.Symbols(name)
		if errors.Is(err, binary.ErrNoSymbols) {
			values, err = p.separate(f, mapped.Path, name)
		}
		return values, err
	}
	im.profile = profileOf(f, bias, symbols)
	if im.guest == nil {
		im.golang = golangOf(f, bias, symbols)
	}
	values, err := symbols("__gcov_root")
	for i := range values {
		values[i] += bias
	}
	return values, err
}

// separate looks into the separate debug file, in the root of the process. A file without
// build ID has none that is certain to be of its build.
func (p *CountedProcess) separate(f *binary.File, path, name string) ([]uint64, error) {
	if f.BuildID() == "" {
		return nil, binary.ErrNoSymbols
	}
	debug, r := f.OpenDebug(path, p.proc.OpenInRoot)
	if debug == nil {
		return nil, binary.ErrNoSymbols
	}
	defer r.Close()
	return debug.Symbols(name)
}

// headOf takes from memory what an image's file would tell, where that cannot
// be opened: the first bytes of an ELF file say class and byte order.
func (im *image) headOf(mapped *process.MappedFile, mem io.ReaderAt) error {
	var b [6]byte
	if _, err := mem.ReadAt(b[:], int64(mapped.Start)); err != nil || string(b[:4]) != "\x7fELF" {
		return errors.New("not an ELF file")
	}
	im.pointer, im.order = 8, encoding.LittleEndian
	if b[4] == 1 {
		im.pointer = 4
	}
	if b[5] == 2 {
		im.order = encoding.BigEndian
	}
	im.code = clangCodeInMemory(mem, mapped.Start)
	return binary.ErrNoSymbols
}

// Snapshot reads all counters as they are now. Images and units that cannot be
// used are told in the error, beside the units that can, one that could not be
// read now as a [*ComesAndGoesError]; without units the error is why there are none:
// process.ErrExited, or another program runs.
//
// While the program writes its data files its counters are not its own: Snapshot
// then waits for it, a second at most, and the loads tell of it if that was not
// enough. A library that is just being closed is left out.
func (p *CountedProcess) Snapshot() ([]Unit, error) {
	begin := time.Now()
	var earlier settledUnits
	for try := 1; ; try++ {
		before, began := p.fileStamps(), time.Now()
		units, err := p.snapshot()
		if len(units) == 0 {
			return nil, err
		}
		unsettled := p.unsettled(units, before, began)
		earlier = earlier.with(units, unsettled)
		again := slices.ContainsFunc(unsettled, func(im *image) bool {
			return earlier[im.id] == nil && (try < settleTries || im.program && time.Since(begin) < writePatience)
		})
		if !again {
			problems := []error{err}
			for _, im := range unsettled {
				var problem error
				units, problem = earlier.replace(units, im)
				problems = append(problems, problem)
			}
			if !p.wait(units, time.Since(begin)) {
				p.judge(units)
				return units, errors.Join(problems...)
			}
		}
		time.Sleep(min(time.Millisecond<<min(try, 4), 10*time.Millisecond))
	}
}

// settledUnits are the last counters of each load that were its own, of those
// that were read for one snapshot.
type settledUnits map[int][]Unit

// with takes what was read, without what is unsettled.
func (s settledUnits) with(units []Unit, unsettled []*image) settledUnits {
	if len(unsettled) == 0 {
		return s
	}
	now := make(settledUnits)
	for _, u := range units {
		if !slices.ContainsFunc(unsettled, func(im *image) bool { return im.id == u.Load.ID }) {
			now[u.Load.ID] = append(now[u.Load.ID], u)
		} else if s[u.Load.ID] != nil {
			now[u.Load.ID] = s[u.Load.ID]
		}
	}
	return now
}

// replace puts the last counters of an image in place of unsettled ones. Where
// there are none those of a program say so, and those of a library are left out.
func (s settledUnits) replace(units []Unit, im *image) ([]Unit, error) {
	mine := func(u Unit) bool { return u.Load.ID == im.id }
	if last := s[im.id]; last != nil {
		return append(slices.DeleteFunc(units, mine), last...), nil
	}
	if !im.program {
		return slices.DeleteFunc(units, mine), &ComesAndGoesError{im.path}
	}
	for _, u := range units {
		if mine(u) {
			u.Load.Writing = true
		}
	}
	return units, nil
}

const (
	tries       = 3 // of reading all images at once, before each is read alone
	settleTries = 5 // before libraries that come and go meanwhile are left out
	tryAgain    = 500 * time.Microsecond
)

func (p *CountedProcess) snapshot() ([]Unit, error) {
	var err error
	for range tries {
		if err = p.proc.Check(); err == nil {
			err = p.refresh(false)
		}
		if err != nil {
			return nil, p.gone(err)
		}
		if p.broken() {
			time.Sleep(tryAgain)
			continue
		}
		if err = p.read(); err == nil {
			return p.units()
		}
		p.findBroken()
	}
	if exited := p.proc.Check(); exited != nil {
		return nil, p.gone(exited)
	}
	return p.unitsApart()
}

// gone says of which process an error is.
func (p *CountedProcess) gone(err error) error {
	return fmt.Errorf("process %d (%s): %w", p.PID, output.Printable(p.Name), err)
}

// broken tells whether there are images to be found anew.
func (p *CountedProcess) broken() bool {
	return slices.ContainsFunc(p.images, func(im *image) bool { return im.broken })
}

// findBroken marks the images that cannot be read, or are no longer what they
// were, and sees to it that the next refresh looks at them again.
func (p *CountedProcess) findBroken() {
	for _, im := range p.images {
		p.readAlone(im)
	}
}

// readAlone reads the counters of one image. It returns nil for one that is
// broken.
func (p *CountedProcess) readAlone(im *image) *plan {
	p.plan = nil // places in snapshots are those of this image now
	pl, err := newPlan([]*image{im}, 0)
	if err == nil {
		err = p.proc.ReadRanges(pl.ranges)
	}
	im.gone = im.gone || err != nil || !pl.unmovedUnits(im)
	if im.broken = im.gone || !pl.unmoved([]*image{im}); im.broken {
		p.text = nil
		return nil
	}
	return pl
}

// unitsApart reads one image after the other: some come and go too fast.
func (p *CountedProcess) unitsApart() ([]Unit, error) {
	if err := p.refresh(false); err != nil {
		return nil, err
	}
	var units []Unit
	var problems []error
	for _, im := range p.images {
		pl := p.readAlone(im)
		if pl == nil {
			problems = append(problems, &ComesAndGoesError{im.path})
			continue
		}
		more, bad := p.unitsOf([]*image{im}, pl.buf)
		units, problems = append(units, more...), append(problems, bad...)
	}
	if err := p.proc.Check(); err != nil {
		return nil, p.gone(err)
	}
	if len(units) == 0 {
		problems = append(problems, p.empty())
	}
	return units, errors.Join(problems...)
}

// read fills the plan's buffer.
func (p *CountedProcess) read() error {
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
func (p *CountedProcess) units() ([]Unit, error) {
	units, problems := p.unitsOf(p.images, p.plan.buf)
	if len(units) == 0 {
		problems = append(problems, p.empty())
	}
	return units, errors.Join(problems...)
}

func (p *CountedProcess) unitsOf(images []*image, buf []byte) (units []Unit, problems []error) {
	loads := p.loads(images, buf)
	for _, im := range images {
		if im.doubted {
			problems = append(problems, &ComesAndGoesError{im.path})
		} else {
			problems = append(problems, im.problem)
		}
		counts, bad := im.counts(buf, p.proc)
		for i, u := range im.units {
			if bad[i] != nil {
				problems = append(problems, bad[i])
				continue
			}
			units = append(units, Unit{Name: u.name, Image: im.path, Counts: counts[i], Load: loads[im]})
		}
	}
	return units, problems
}
