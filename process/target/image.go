//go:build linux

// Package target finds what there is in a program to trace: the images of a running
// process, or one file by itself, with their symbols, functions and sources, and the
// functions that patterns choose. It changes nothing; how functions are traced is known to the
// packages of hook/.
package target

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"footfall/binary"
	"footfall/binary/unwind"
	"footfall/input"
	"footfall/process"
)

// An Image is a program or library that has names, mapped by a process or just a file.
type Image struct {
	Path   string
	Start  uint64              // where it is mapped
	Bias   uint64              // what to add to addresses of the file for those in the process
	File   *binary.File        // as it is mapped
	Mapped *process.MappedFile // nil: it is just a file

	process   *process.Process // nil: it is just a file
	symbols   *binary.File     // that has them
	names     binary.Functions // when namesDone
	namesDone bool
	lines     *binary.Lines
	linesDone bool

	exitFinder  *binary.ExitFinder // when exits were wanted
	exitError   error
	entryFinder *binary.EntryFinder // when windows of entries were wanted

	open  []io.Closer
	debug []io.Closer // opened for lines

	descriptor uintptr // of the file
	info       fs.FileInfo
}

// Open opens an image of a process.
func Open(p *process.Process, i *process.MappedFile) (*Image, error) {
	f, err := i.Open()
	if err != nil {
		return nil, err
	}
	image, err := newImage(i.Path, f, p)
	if err != nil {
		f.Close()
		return nil, err
	}
	image.Start, image.Bias, image.Mapped = i.Start, image.File.Bias(i.Start), i
	return image, nil
}

// OpenFile opens a program or library that need not run: addresses are those of the file.
func OpenFile(path string) (*Image, error) {
	f, err := input.Open(path)
	if err != nil {
		return nil, err
	}
	image, err := newImage(path, f, nil)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return image, nil
}

// newImage reads the headers of a file, which is closed with the image.
func newImage(path string, f *os.File, p *process.Process) (*Image, error) {
	file, err := binary.Open(f)
	if err != nil {
		return nil, err
	}
	i := &Image{Path: path, File: file, process: p, symbols: file, open: []io.Closer{f}, descriptor: f.Fd()}
	i.info, _ = f.Stat()
	if !file.HasSymbols() {
		if apart := i.separate(&i.open); apart != nil {
			i.symbols = apart
		}
	}
	return i, nil
}

// Images opens the images of a process. Those that cannot be opened are left
// out: the error says which, and the rest is returned too.
func Images(p *process.Process) ([]*Image, error) {
	maps, _, err := p.Maps()
	if err != nil {
		return nil, err
	}
	var images []*Image
	var failed []error
	for _, i := range p.Images(maps) {
		if process.IsOurs(i.Path) {
			continue
		}
		image, err := Open(p, i)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", i.Path, err))
			continue
		}
		images = append(images, image)
	}
	return images, errors.Join(failed...)
}

// Unchanged tells whether nobody has written to the file since it was opened.
func (i *Image) Unchanged() bool {
	info, err := os.Stat(i.FileName())
	return err == nil && i.info != nil && info.Size() == i.info.Size() && info.ModTime().Equal(i.info.ModTime())
}

// Names reads the symbols, when they are needed first. Where there are none
// addresses must do.
func (i *Image) Names() binary.Functions {
	if !i.namesDone {
		i.namesDone = true
		i.names, _ = i.symbols.Functions()
		if i.symbols == i.File && !i.File.HasSymbols() {
			if mini, err := i.File.MiniDebug(); err == nil {
				if names, err := i.File.FunctionsWith(mini); err == nil {
					i.names = names
				}
			}
		}
	}
	return i.names
}

// separate opens the image's debug file, by its build ID or by the name that the
// image gives for it; nil if there is none.
func (i *Image) separate(open *[]io.Closer) *binary.File {
	opener := input.Open
	if i.process != nil {
		opener = i.process.OpenInRoot
	}
	file, f := i.File.OpenDebug(i.Path, opener)
	if file != nil {
		*open = append(*open, f)
	}
	return file
}

// Close closes the files.
func (i *Image) Close() {
	i.Release()
	for _, c := range i.open {
		c.Close()
	}
}

// Release lets go of all that has been read of the file: it is read again when it is needed.
func (i *Image) Release() {
	i.names, i.namesDone, i.lines, i.linesDone = nil, false, nil, false
	i.exitFinder, i.exitError, i.entryFinder = nil, nil, nil
	for _, c := range i.debug {
		c.Close()
	}
	i.debug = nil
}

// FileName is a name by which this process, and the kernel for it, can open the
// file as long as the image is open.
func (i *Image) FileName() string { return fmt.Sprintf("/proc/self/fd/%d", i.descriptor) }

// IsProgram tells whether the image is the program itself, not a library.
func (i *Image) IsProgram() bool { return i.Mapped == nil || i.Mapped.IsProgram() }

// Is32Bit tells whether the image is a 32-bit one.
func (i *Image) Is32Bit() bool { return i.File.PointerSize() == 4 }

// LoadsLibraries tells whether code of the image asks the dynamic linker for libraries.
func (i *Image) LoadsLibraries() bool { return i.File.Imports("dlopen") || i.File.Imports("dlmopen") }

// GoCode returns where the code of Go is, in which all functions that call others keep frame
// pointers, as it is in the process; ok is false if there is none.
func (i *Image) GoCode() (low, high uint64, ok bool) {
	if !slices.ContainsFunc([]string{".gopclntab", ".data.rel.ro.gopclntab", ".go.buildinfo"}, i.File.Has) {
		return 0, 0, false
	}
	addr, size, ok := i.File.Section(".text")
	return addr + i.Bias, addr + size + i.Bias, ok
}

// UnwindRows returns how to find callers from code of the image, at the
// addresses that it has in the process; nil if chains end in it.
func (i *Image) UnwindRows() []unwind.CompactRow {
	rows, err := i.File.UnwindRows()
	if err != nil {
		return nil
	}
	for n := range rows {
		rows[n].Addr += i.Bias
	}
	return rows
}

// ExitFinder returns that of the file.
func (i *Image) ExitFinder() (*binary.ExitFinder, error) {
	if i.exitFinder == nil && i.exitError == nil {
		sites, _, err := i.File.Sites(i.Names())
		if err == nil {
			i.exitFinder, err = i.File.ExitFinder(i.Names(), sites)
		}
		i.exitError = err
	}
	return i.exitFinder, i.exitError
}

// EntryFinder returns that of the file.
func (i *Image) EntryFinder() (*binary.EntryFinder, error) {
	if i.entryFinder == nil {
		exits, err := i.ExitFinder()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", i.Path, err)
		}
		i.entryFinder = exits.EntryFinder()
	}
	return i.entryFinder, nil
}

// IsStatic tells whether the file is a program that has all its libraries within.
func (i *Image) IsStatic() bool {
	needed, own := i.File.Needed()
	return len(needed) == 0 && own == ""
}

// Contains tells whether an address of the process is in the image.
func (i *Image) Contains(addr uint64) bool {
	if i.Mapped == nil {
		return false
	}
	for _, part := range i.Mapped.Parts {
		if part.Start <= addr && addr < part.End {
			return true
		}
	}
	return false
}

// Function returns the function that has the address of the process, and how
// far into it that is; nil if none is known.
func (i *Image) Function(addr uint64) (*binary.FunctionSymbol, uint64) {
	at := i.fileAddress(addr)
	fn := i.Names().At(at)
	if fn == nil {
		return nil, at
	}
	return fn, at - fn.Addr
}

// fileAddress returns the address that the file has for one of the process. Programs map parts of their code
// again elsewhere, as V8 does with its built-in functions.
func (i *Image) fileAddress(addr uint64) uint64 {
	at := addr - i.Bias
	if i.Mapped == nil || i.File.IsExecutable(at) {
		return at
	}
	for _, part := range i.Mapped.Parts {
		if part.Exec && part.Start <= addr && addr < part.End {
			if again, ok := i.File.CodeAddress(part.Offset + addr - part.Start); ok {
				return again
			}
		}
	}
	return at
}

// Frames returns where in the source an address of the process is, as
// binary.Lines does.
func (i *Image) Frames(addr uint64) []binary.Frame {
	i.loadLines()
	if i.lines == nil {
		return nil
	}
	return i.lines.Frames(i.fileAddress(addr))
}

// Lines returns the debug information; nil if there is none.
func (i *Image) Lines() *binary.Lines {
	i.loadLines()
	return i.lines
}

// loadLines opens the debug information.
func (i *Image) loadLines() {
	if i.linesDone {
		return
	}
	i.linesDone = true
	file := i.File
	if !file.HasLines() {
		if apart := i.separate(&i.debug); apart != nil {
			file = apart
		}
	}
	i.lines, _ = file.Lines()
}

// NamedBy says where the names of functions come from: symbols, debug file, .gnu_debugdata or dynamic
// symbols; "" if there are none.
func (i *Image) NamedBy() string {
	switch {
	case len(i.Names()) == 0:
		return ""
	case i.symbols != i.File:
		return "debug file"
	case i.File.HasSymbols():
		return "symbols"
	case i.File.Has(".gnu_debugdata"):
		return ".gnu_debugdata"
	}
	return "dynamic symbols"
}

// LinesBy says where lines come from: debug information, or debug file; "" if there are none.
func (i *Image) LinesBy() string {
	if i.File.HasLines() {
		return "debug information"
	}
	if apart := i.separate(&i.debug); apart != nil && apart.HasLines() {
		return "debug file"
	}
	return ""
}

// Symbol returns the address in the process of a symbol of the image.
func (i *Image) Symbol(name string) (addr uint64, ok bool) {
	for _, find := range []func(string) ([]uint64, error){i.symbols.Symbols, i.File.DynamicSymbols} {
		if found, err := find(name); err == nil && len(found) > 0 {
			return found[0] + i.Bias, true
		}
	}
	return 0, false
}
