package patch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"footfall/exe"
	"footfall/proc"
)

// A Site is one in a running process.
type Site struct {
	exe.Site
	Addr  uint64 // in the process
	Image *Image
	Root  bool // with Filter.Roots: recording begins here
	// Arguments are those that are recorded with each call.
	Arguments []Argument

	mode  Mode // of its stub
	way   exitWay
	exits []exe.Exit // if they are sites
	room  int        // whole instructions of at least native.jumpSize bytes
	old   [8]byte
}

// An Image is a program or library of a process that has names.
type Image struct {
	Path  string
	Start uint64 // where it is mapped

	image     *proc.Image
	file      *exe.File
	symbols   *exe.File     // that has them
	names     exe.Functions // when namesDone
	namesDone bool
	lines     *exe.Lines
	linesDone bool
	bias      uint64

	exitFinder *exe.ExitFinder // when exits were wanted
	exitError  error

	open []io.Closer

	descriptor uintptr // of the file
	info       fs.FileInfo
}

// Images opens the images of a process. Those that cannot be opened are left
// out: the error says which, and the rest is returned too.
func Images(p *proc.Process) ([]*Image, error) {
	maps, _, err := p.Maps()
	if err != nil {
		return nil, err
	}
	var images []*Image
	var failed []error
	for _, i := range p.Images(maps) {
		if isOurs(i.Path) {
			continue
		}
		image, err := openImage(p, i)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", i.Path, err))
			continue
		}
		images = append(images, image)
	}
	return images, errors.Join(failed...)
}

func openImage(p *proc.Process, i *proc.Image) (*Image, error) {
	f, err := i.Open()
	if err != nil {
		return nil, err
	}
	file, err := exe.Open(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	image := &Image{Path: i.Path, Start: i.Start, image: i, file: file, symbols: file, bias: file.Bias(i.Start), open: []io.Closer{f}, descriptor: f.Fd()}
	image.info, _ = f.Stat()
	if !file.HasSymbols() {
		if apart := image.separate(p); apart != nil {
			image.symbols = apart
		}
	}
	return image, nil
}

// unchanged tells whether nobody has written to the file since it was opened.
func (i *Image) unchanged() bool {
	info, err := os.Stat(i.FileName())
	return err == nil && i.info != nil && info.Size() == i.info.Size() && info.ModTime().Equal(i.info.ModTime())
}

// functions reads the symbols, when they are needed first. Where there are none
// addresses must do.
func (i *Image) functions() exe.Functions {
	if !i.namesDone {
		i.namesDone = true
		i.names, _ = i.symbols.Functions()
	}
	return i.names
}

// separate opens the image's debug file, by its build ID or by the name that the
// image gives for it; nil if there is none.
func (i *Image) separate(p *proc.Process) *exe.File {
	for _, path := range i.file.DebugPaths(i.Path) {
		f, err := p.OpenInRoot(path)
		if err != nil {
			continue
		}
		file, err := exe.Open(f)
		if err != nil || file.BuildID() != i.file.BuildID() {
			f.Close() // of another build
			continue
		}
		i.open = append(i.open, f)
		return file
	}
	return nil
}

// Close closes the files.
func (i *Image) Close() {
	for _, c := range i.open {
		c.Close()
	}
}

// Sites lists the sites of the image, and how many entries of its lists cannot
// be used. Programs for another CPU, which an emulator has in its memory, have none.
func (i *Image) Sites() ([]*Site, int, error) {
	if i.file.Machine != native.machine || !i.file.HasSites() {
		return nil, 0, nil
	}
	found, unusable, err := i.file.Sites(i.functions())
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", i.Path, err)
	}
	sites := make([]*Site, len(found))
	for n, site := range found {
		sites[n] = &Site{Site: site, Addr: site.Addr + i.bias, Image: i}
	}
	return sites, unusable, nil
}

// Functions lists the functions of the image, whether they have room or not, but
// for those of which only a name is known. Their sites are the functions' first
// instructions.
func (i *Image) Functions() []*Site {
	var sites []*Site
	for _, fn := range i.functions() {
		if fn.Size > 0 && !fn.Indirect && i.file.FileOffset(fn.Addr) > 0 && !strings.HasSuffix(fn.Name, "@plt") {
			sites = append(sites, &Site{Site: exe.Site{Addr: fn.Addr, Function: fn}, Addr: fn.Addr + i.bias, Image: i})
		}
	}
	return sites
}

// FileOffset returns where in the image's file the site is.
func (s *Site) FileOffset() uint64 { return s.Image.file.FileOffset(s.Site.Addr) }

// FileName is a name by which this process, and the kernel for it, can open the
// file as long as the image is open.
func (i *Image) FileName() string { return fmt.Sprintf("/proc/self/fd/%d", i.descriptor) }

// IsProgram tells whether the image is the program itself, not a library.
func (i *Image) IsProgram() bool { return i.image.IsProgram() }

// Narrow tells whether the image is of 32 bits.
func (i *Image) Narrow() bool { return i.file.PointerSize() == 4 }

// LoadsLibraries tells whether code of the image asks the dynamic linker for libraries.
func (i *Image) LoadsLibraries() bool { return i.file.Imports("dlopen") || i.file.Imports("dlmopen") }

// GoCode returns where the code of Go is, in which all functions that call others keep frame
// pointers, as it is in the process; ok is false if there is none.
func (i *Image) GoCode() (low, high uint64, ok bool) {
	if !slices.ContainsFunc([]string{".gopclntab", ".data.rel.ro.gopclntab", ".go.buildinfo"}, i.file.Has) {
		return 0, 0, false
	}
	addr, size, ok := i.file.Section(".text")
	return addr + i.bias, addr + size + i.bias, ok
}

// UnwindRows returns how to find callers from code of the image, at the
// addresses that it has in the process; nil if chains end in it.
func (i *Image) UnwindRows() []exe.UnwindRow { return imageRows(i.image) }

// Contains tells whether an address of the process is in the image.
func (i *Image) Contains(addr uint64) bool {
	for _, part := range i.image.Parts {
		if part.Start <= addr && addr < part.End {
			return true
		}
	}
	return false
}

// Function returns the function that has the address of the process, and how
// far into it that is; nil if none is known.
func (i *Image) Function(addr uint64) (*exe.Function, uint64) {
	fn := i.functions().At(addr - i.bias)
	if fn == nil {
		return nil, addr - i.bias
	}
	return fn, addr - i.bias - fn.Addr
}

// Frames returns where in the source an address of the process is, as
// exe.Lines does.
func (i *Image) Frames(p *proc.Process, addr uint64) []exe.Frame {
	i.loadLines(p)
	if i.lines == nil {
		return nil
	}
	return i.lines.Frames(addr - i.bias)
}

// loadLines opens the debug information.
func (i *Image) loadLines(p *proc.Process) {
	if i.linesDone {
		return
	}
	i.linesDone = true
	file := i.file
	if !file.HasLines() {
		if apart := i.separate(p); apart != nil {
			file = apart
		}
	}
	i.lines, _ = file.Lines()
}

// Parameters returns those of the function of a site, as exe.Lines does.
func (s *Site) Parameters(p *proc.Process) ([]exe.Parameter, error) {
	i := s.Image
	i.loadLines(p)
	if i.lines == nil {
		return nil, exe.ErrNoLines
	}
	return i.lines.Parameters(s.behind() - i.bias)
}

// behind is where the function goes on: GCC's debug information of one on arm64 begins
// behind the nops.
func (s *Site) behind() uint64 { return s.Addr + uint64(s.Size) }

// Source returns where the function of a site begins in the source; "" if that
// is not known.
func (s *Site) Source(p *proc.Process) (file string, line int) {
	frames := s.Image.Frames(p, s.behind())
	if len(frames) == 0 {
		return "", 0
	}
	f := frames[len(frames)-1]
	if f.DeclFile != "" {
		return f.DeclFile, f.Start
	}
	return f.File, f.Line
}

// symbol returns the address in the process of a symbol of the image.
func (i *Image) symbol(name string) (addr uint64, ok bool) {
	for _, find := range []func(string) ([]uint64, error){i.symbols.Symbols, i.file.DynamicSymbols} {
		if found, err := find(name); err == nil && len(found) > 0 {
			return found[0] + i.bias, true
		}
	}
	return 0, false
}
