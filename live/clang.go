//go:build linux

package live

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"footfall/binary"
	"footfall/formats/gcov"
	"footfall/process"
)

// Clang's --coverage has no structure in memory as GCC's has. Each object file
// gets a function that tells the runtime, call by call, what to write, and a
// constructor that registers it:
//
//	constructor (in .init_array):
//		llvm_gcov_init(writeout, reset)
//
//	writeout:
//		llvm_gcda_start_file(name, version, checksum)
//		for each function:
//			llvm_gcda_emit_function(ident, checksum, cfg checksum)
//			llvm_gcda_emit_arcs(number, counters)
//		llvm_gcda_summary_info()
//		llvm_gcda_end_file()
//
// At -O0 writeout walks tables; optimized it is a row of calls with constants,
// and the tables are gone. So the function itself is run here, by a machine
// that knows as much of the CPU as that needs, and its calls are written down.
// This needs no symbols, and no layout but that of arguments. Until version 9
// version is a text, and emit_function has the arguments ident, name, checksum,
// whether there is a cfg checksum, cfg checksum.

// clangCode is what is needed of an image to find the units of Clang.
type clangCode struct {
	machine      elf.Machine
	constructors uint64 // address of .init_array
	size         uint64 // in bytes
	named        bool   // there is a function __llvm_gcov_writeout; asked on CPUs that machine does not know
}

// clangCodeOf takes from an image's file where Clang's units begin.
func clangCodeOf(f *binary.File, bias uint64) clangCode {
	c := clangCode{machine: f.Machine}
	if addr, size, ok := f.Section(".init_array"); ok {
		c.constructors, c.size = addr+bias, size
	}
	if !c.runs() {
		c.name(f)
	}
	return c
}

// name looks for the function that writes data files, where it cannot be run.
func (c *clangCode) name(f *binary.File) {
	found, _ := f.Symbols("__llvm_gcov_writeout")
	c.named = len(found) > 0
}

// clangCodeInMemory is clangCodeOf for an image whose file cannot be opened:
// the table for the dynamic linker knows the constructors too.
func clangCodeInMemory(mem io.ReaderAt, start uint64) clangCode {
	f, err := binary.OpenMapped(mem, start)
	if err != nil {
		return clangCode{}
	}
	c, bias := clangCode{machine: f.Machine}, f.Bias(start)
	addr, size, ok := f.Dynamic()
	if !ok || size > maxDynamic {
		return c
	}
	table := make([]byte, size)
	if _, err := mem.ReadAt(table, int64(addr+bias)); err != nil {
		return c
	}
	word := func(b []byte) uint64 { return f.Order.Uint64(b) }
	if f.PointerSize() == 4 {
		word = func(b []byte) uint64 { return uint64(f.Order.Uint32(b)) }
	}
	// Pairs of a tag and a value.
	for entry := 2 * f.PointerSize(); len(table) >= entry; table = table[entry:] {
		switch value := word(table[entry/2:]); elf.DynTag(word(table)) {
		case elf.DT_INIT_ARRAY:
			c.constructors = value + bias
		case elf.DT_INIT_ARRAYSZ:
			c.size = value
		}
	}
	return c
}

// maxDynamic is the largest table for the dynamic linker: those of browsers
// have some 1000 bytes.
const maxDynamic = 1 << 16

// runs tells whether functions of the image can be run here.
func (c *clangCode) runs() bool { return c.machine == elf.EM_X86_64 || c.machine == elf.EM_386 }

const (
	maxConstructors = 1 << 16
	// maxPrologue is how many instructions a constructor that registers counters
	// needs until it calls.
	maxPrologue = 100
	// maxSteps are run in an image, and so many more for each call: a function
	// needs about 30.
	maxSteps     = 1 << 22
	stepsForCall = 100
)

// clang finds the units of Clang in the image.
func (w *walker) clang(code clangCode, parts process.Maps) ([]*unit, error) {
	if !code.runs() {
		if code.named {
			return nil, fmt.Errorf("%s: counters of clang --coverage in a program for %v can only be read on amd64 and 386", w.image.path, code.machine)
		}
		return nil, nil
	}
	n := min(int(code.size)/w.pointer, maxConstructors)
	if n <= 0 {
		return nil, nil
	}
	table, err := w.read(code.constructors, n*w.pointer)
	if err != nil {
		return nil, nil // not there: the file is another
	}
	table = slices.Clone(table)
	m := newMachine(w.pages, w.pointer, maxSteps)
	var units []*unit
	var problems []error
	for i := range n {
		writeout := w.registered(m, w.address(table[i*w.pointer:]), parts)
		if writeout == 0 {
			continue
		}
		found, err := w.written(m, writeout)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: counters of clang --coverage, function at %#x: %w", w.image.path, writeout, err))
		}
		units = append(units, found...)
	}
	return units, errors.Join(problems...)
}

// registered returns the function that a constructor registers, 0 if it is
// none that registers counters.
func (w *walker) registered(m *machine, constructor uint64, parts process.Maps) uint64 {
	writeout := w.firstCall(m, constructor, parts).args[0]
	if !isCode(parts, writeout) {
		return 0
	}
	first := w.firstCall(m, writeout, parts)
	if name, err := w.text(first.args[0]); err != nil || !strings.HasSuffix(name, ".gcda") {
		return 0
	}
	return writeout
}

// firstCall returns the first call of a function; its target is 0 if there is
// none soon.
func (w *walker) firstCall(m *machine, entry uint64, parts process.Maps) call {
	var first call
	if !isCode(parts, entry) {
		return first
	}
	saved := m.steps
	m.steps = min(maxPrologue, saved)
	allowed := m.steps
	_ = m.run(entry, func(c call) bool { // anything: most constructors do other things
		first = c
		return false
	})
	m.steps = saved - (allowed - m.steps)
	return first
}

func isCode(parts process.Maps, addr uint64) bool {
	m := parts.At(addr)
	return m != nil && m.Exec
}

// written returns the units that a function writes: one, or as many as object
// files were linked into one before they were compiled.
func (w *walker) written(m *machine, writeout uint64) ([]*unit, error) {
	var calls []call
	left := 4 + 2*min(max(w.budget.funcs, 0), maxUnitFuncs)
	err := m.run(writeout, func(c call) bool {
		calls = append(calls, c)
		m.steps += stepsForCall
		return len(calls) < left
	})
	w.budget.funcs -= len(calls) / 2
	switch {
	case err != nil:
		return nil, err
	case len(calls) >= left:
		return nil, errTooMany
	}
	head, err := w.read(writeout, clangHead)
	if err != nil {
		return nil, err
	}
	var units []*unit
	for _, file := range splitCalls(calls) {
		u := &unit{image: w.image, addr: writeout, head: slices.Clone(head), clang: true}
		if err := w.clangUnit(u, file); err != nil {
			return units, err
		}
		units = append(units, u)
	}
	return units, nil
}

// clangHead is how much of a function's code is compared to notice when it goes.
const clangHead = 16

// splitCalls splits what was called into files. Each begins with a call to the
// same function.
func splitCalls(calls []call) [][]call {
	var files [][]call
	for i, c := range calls {
		if c.target == calls[0].target {
			files = append(files, nil)
		}
		files[len(files)-1] = append(files[len(files)-1], calls[i])
	}
	return files
}

// clangUnit makes a unit of the calls that write it.
func (w *walker) clangUnit(u *unit, calls []call) (err error) {
	if w.budget.units--; w.budget.units < 0 {
		return errTooMany
	}
	if err := expectOrder(calls); err != nil {
		return err
	}
	start := calls[0].args
	if u.name, err = w.text(start[0]); err != nil || !strings.HasSuffix(u.name, ".gcda") {
		return fmt.Errorf("name at %#x is none of a data file", start[0])
	}
	u.version, u.stamp = gcov.Version(start[1]), uint32(start[2])
	byText := !looksLikeVersion(u.version)
	if byText {
		text, err := w.read(start[1], 4)
		if err != nil {
			return fmt.Errorf("%s: version: %w", u.name, err)
		}
		u.version = gcov.Version(w.order.Uint32(text))
	}
	if !looksLikeVersion(u.version) || !u.version.Known() || u.version.HasObjectChecksum() {
		return fmt.Errorf("%s: data of version %q: Clang's runtime writes those of 402*, 408* and B11* (-coverage-version); others are not guessed", u.name, u.version)
	}
	u.funcs = make([]function, 0, len(calls)/2-1)
	for calls = calls[1 : len(calls)-2]; len(calls) > 0; calls = calls[2:] {
		var f function
		if err := w.clangFunction(&f, calls[0].args, calls[1].args, byText); err != nil {
			return fmt.Errorf("%s: function %d: %w", u.name, len(u.funcs), err)
		}
		u.funcs = append(u.funcs, f)
	}
	return nil
}

// expectOrder checks that calls are start, function, arcs, function, arcs ...,
// summary, end.
func expectOrder(calls []call) error {
	n := len(calls)
	if n < 3 || n%2 == 0 {
		return fmt.Errorf("%d calls, expected an odd number of them", n)
	}
	targets := []uint64{calls[0].target, calls[n-2].target, calls[n-1].target}
	for i := 1; i < n-2; i += 2 {
		if calls[i].target != calls[1].target || calls[i+1].target != calls[2].target {
			return fmt.Errorf("call %d is to an unexpected function, at %#x or %#x", i, calls[i].target, calls[i+1].target)
		}
	}
	if n > 3 {
		targets = append(targets, calls[1].target, calls[2].target)
	}
	slices.Sort(targets)
	if len(slices.Compact(slices.Clone(targets))) != len(targets) {
		return errors.New("its calls are not those that write a data file")
	}
	return nil
}

func (w *walker) clangFunction(f *function, args, arcs [5]uint64, named bool) error {
	f.ident = uint32(args[0])
	if named {
		if args[3]&0xff != 0 {
			return errors.New("it has a checksum of its graph, which is not known in this version")
		}
		var err error
		if f.name, err = w.text(args[1]); err != nil {
			return fmt.Errorf("name: %w", err)
		}
		f.line = uint32(args[2])
	} else {
		f.line, f.cfg = uint32(args[1]), uint32(args[2])
	}
	n, addr := int(uint32(arcs[0])), arcs[1]
	if w.budget.counters -= min(n, maxFuncCounters+1); n > maxFuncCounters || w.budget.counters < 0 {
		return fmt.Errorf("%d counters: %w", n, errTooMany)
	}
	if n > 0 && !w.isMapped(addr, false) {
		return fmt.Errorf("counters at %#x, where there is no memory", addr)
	}
	f.arrays = []array{{kind: gcov.KindArcs, length: n, addr: addr}}
	return nil
}
