package profile

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"footfall/binary"
	"footfall/binary/unwind"
	"footfall/input"
)

// An image is a file with code: its names and lines.
type image struct {
	key       string // tells it from others
	path      string
	buildID   string
	low, high uint64 // of its code, as the file has it
	offset    uint64 // of its code in the file

	file      *binary.File
	names     *binary.File // that functions are of: file, or its debug file
	functions binary.Functions
	stripped  bool          // functions are only those that the dynamic linker knows
	lines     *binary.Lines // nil: none
	toNext    bool          // functions go on to the next one, as in gprof
	problem   string        // why names or lines are missing
	maker     int           // the process that made it at run time
	gone      bool          // its file, or that build of it, is not here
	open      []io.Closer

	framesLock sync.Mutex
	frameRules *unwind.Table
	framesRead bool
}

// A frame is a function and a line in it.
type frame struct {
	functionKey
	line int // in the file of the key
}

// openImage opens the program or library at path.
func openImage(path string) (*image, error) { return openImageBy(path, true, input.Open) }

// An opener opens files, as [input.Open] does.
type opener func(name string) (*os.File, error)

func openImageBy(path string, lines bool, open opener) (*image, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	return imageOf(path, f, lines, open)
}

// imageOf is the image of a file that it closes; open opens what that names.
func imageOf(path string, f *os.File, lines bool, open opener) (*image, error) {
	i, err := newImage(path, f, lines, open)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	i.open = append(i.open, f)
	return i, nil
}

// newImage reads names, and lines if they are needed, from r and, where they have been put
// into a file apart, from there, which is opened by open.
func newImage(path string, r io.ReaderAt, needLines bool, open opener) (*image, error) {
	f, err := binary.Open(r)
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
		if apart := i.separate(open); apart != nil {
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
	if err != nil && !errors.Is(err, binary.ErrNoLines) {
		i.problem = fmt.Sprintf("its debug information cannot be read: %v", err)
	}
	return i, nil
}

// separate opens the debug file of the image: by its build ID, or by the name
// that the image gives for it. nil if there is none.
func (i *image) separate(open opener) *binary.File {
	file, f := i.file.OpenDebug(i.path, open)
	if file != nil {
		i.open = append(i.open, f)
	}
	return file
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
		if fn != nil && fn.Size > 0 { // what follows it is known to no debug information
			addr = min(addr, fn.Addr+fn.Size-1)
		}
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
func (i *image) frameRow(addr uint64) *unwind.Row {
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
