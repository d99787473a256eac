package profile

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"

	"footfall/exe"
	"footfall/input"
)

// An image is a file with code: its names and lines.
type image struct {
	key       string // tells it from others
	path      string
	buildID   string
	low, high uint64 // of its code, as the file has it
	offset    uint64 // of its code in the file

	file      *exe.File
	names     *exe.File // that functions are of: file, or its debug file
	functions exe.Functions
	stripped  bool       // functions are only those that the dynamic linker knows
	lines     *exe.Lines // nil: none
	toNext    bool       // functions go on to the next one, as in gprof
	problem   string     // why names or lines are missing
	maker     int        // the process that made it at run time
	gone      bool       // its file, or that build of it, is not here
	open      []io.Closer

	framesLock sync.Mutex
	frameRules *exe.CallFrames
	framesRead bool
}

// A frame is a function and a line in it.
type frame struct {
	functionKey
	line int // in the file of the key
}

// openImage opens the program or library at path.
func openImage(path string) (*image, error) { return openImageFor(path, true) }

// openNames is openImage without lines, which take long.
func openNames(path string) (*image, error) { return openImageFor(path, false) }

func openImageFor(path string, lines bool) (*image, error) {
	f, err := input.Open(path)
	if err != nil {
		return nil, err
	}
	i, err := newImage(path, f, lines)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	i.open = append(i.open, f)
	return i, nil
}

// newImage reads names, and lines if they are needed, from r and, where they have been put
// into a file apart, from there.
func newImage(path string, r io.ReaderAt, needLines bool) (*image, error) {
	f, err := exe.Open(r)
	if err != nil {
		return nil, err
	}
	i := &image{key: path, path: path, buildID: f.BuildID(), file: f}
	if code := f.Executable(); len(code) > 0 {
		i.low, i.high = code[0][0], code[len(code)-1][1]
		i.offset = f.FileOffset(i.low)
	}
	names, lines := f, f
	if needLines && !f.HasLines() || !f.HasSymbols() {
		if apart := i.separate(); apart != nil {
			if !f.HasLines() {
				lines = apart
			}
			if !f.HasSymbols() {
				names = apart
			}
		}
	}
	i.names, i.stripped = names, !names.HasSymbols()
	i.functions, err = names.Functions()
	if err != nil && names != f {
		i.functions, err = f.Functions()
		i.stripped = true
	}
	if err != nil {
		i.problem = err.Error()
	}
	if !needLines {
		return i, nil
	}
	i.lines, err = lines.Lines()
	if err != nil && !errors.Is(err, exe.ErrNoLines) {
		i.problem = fmt.Sprintf("its debug information cannot be read: %v", err)
	}
	return i, nil
}

// separate opens the debug file of the image: by its build ID, or by the name
// that the image gives for it. nil if there is none.
func (i *image) separate() *exe.File {
	for _, p := range i.file.DebugPaths(i.path) {
		f, err := input.Open(p)
		if err != nil {
			continue
		}
		e, err := exe.Open(f)
		if err != nil || e.BuildID() != i.buildID {
			f.Close() // of another build
			continue
		}
		i.open = append(i.open, f)
		return e
	}
	return nil
}

func (i *image) close() {
	for _, c := range i.open {
		c.Close()
	}
	i.open = nil
}

// unnamed stands for code of an image that has no name.
func unnamed(path string) string { return "[" + strings.Trim(filepath.Base(path), "[]") + "]" }

// frames returns the functions of the code at addr, the innermost inlined one
// first.
func (i *image) frames(addr uint64) []frame {
	fn := i.functions.At(addr)
	if i.toNext {
		fn = i.functions.Before(addr)
	}
	outer := frame{functionKey: functionKey{name: unnamed(i.path), image: i.key}}
	if fn != nil {
		outer.functionKey = functionKey{name: fn.Name, file: fn.Unit, image: i.key, addr: fn.Addr}
	}
	if i.lines == nil {
		return []frame{outer}
	}
	var frames []frame
	for _, l := range i.lines.Frames(addr) {
		f := frame{functionKey: functionKey{name: l.Function, file: l.DeclFile, line: l.Start}}
		if !l.Inlined {
			f.functionKey.name = outer.name
			if fn == nil && l.Function != "" {
				f.functionKey.name = l.Function
			}
		}
		if f.file == "" {
			f.file = l.File
		}
		if f.file == l.File {
			f.line = l.Line
		}
		if f.functionKey.line == 0 { // not known to the debug information
			f.image, f.addr = outer.image, outer.addr
		}
		frames = append(frames, f)
	}
	if len(frames) == 0 {
		return []frame{outer}
	}
	return frames
}

// isELF tells whether b begins as an ELF file does.
func isELF(b []byte) bool { return len(b) >= 4 && string(b[:4]) == elf.ELFMAG }

// frameRow returns the rules for finding the caller of code, nil if there are none. It
// may be called from several goroutines.
func (i *image) frameRow(addr uint64) *exe.FrameRow {
	i.framesLock.Lock()
	defer i.framesLock.Unlock()
	if !i.framesRead && i.file != nil {
		i.framesRead = true
		i.frameRules, _ = i.file.CallFrames() // without: frame pointers
	}
	if i.frameRules == nil {
		return nil
	}
	row, ok := i.frameRules.Row(addr)
	if !ok {
		return nil
	}
	return &row
}
