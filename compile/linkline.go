//go:build linux

package compile

import (
	"bytes"
	"io"
	"os"
	"path"
	"slices"
	"strings"
)

// A linkLine is what matters of a linker's command line.
type linkLine struct {
	args   []string // without response files
	output int      // index of the output's name, -1: not given as one expects
	inputs []linkInput
	// first is where the first of the inputs is, or the --start-lib before it, behind
	// which objects are linked only if they are needed.
	first int
	// own is an option by which the user wants something else of link-time
	// optimization than a program.
	own string
	// excludes: symbols of archives are hidden by the archive's name.
	excludes           bool
	relocatable, trace bool
	fat                bool // objects may have bitcode beside their code
}

// A linkInput is an object or archive of which some is bitcode.
type linkInput struct {
	at, words int // its arguments: words is 2 for -l NAME
	file      string
	archive   bool
	bitcode   int // members, or 1
	native    []member
}

// readLinkLine looks through a linker's arguments.
func readLinkLine(args []string) *linkLine {
	l := &linkLine{args: expandResponseFiles(args, 0), output: -1}
	var dirs []string
	root := ""
	l.each(func(name, value string, at, _ int) {
		switch name {
		case "L", "library-path":
			dirs = append(dirs, value)
		case "sysroot":
			root = value
		case "o", "output":
			l.output = at
		case "exclude-libs":
			l.excludes = true
		case "fat-lto-objects":
			l.fat = true
		case "no-fat-lto-objects":
			l.fat = false
		case "r", "i", "relocatable":
			l.relocatable = true
		case "t", "trace":
			l.trace = true
		case "plugin-opt":
			l.ownOption(value)
		default:
			l.ownOption(name)
		}
	})
	for i, d := range dirs {
		if rest, ok := strings.CutPrefix(d, "="); ok {
			dirs[i] = root + rest
		} else if rest, ok := strings.CutPrefix(d, "$SYSROOT"); ok {
			dirs[i] = root + rest
		}
	}
	l.findInputs(dirs)
	return l
}

// ownOption notes an option that makes a linker write something else.
func (l *linkLine) ownOption(name string) {
	for _, own := range []string{"emit-asm", "lto-emit-asm", "emit-llvm", "lto-emit-llvm", "thinlto-index-only", "obj-path", "lto-obj-path", "thinlto-distributor"} {
		if name == own || strings.HasPrefix(name, own+"=") {
			l.own = name
		}
	}
}

// each calls see with each option, without its dashes, and its value; at is the
// index of that one, and words their number. Words without dashes have the name "".
func (l *linkLine) each(see func(name, value string, at, words int)) {
	for i := 0; i < len(l.args); i++ {
		a := l.args[i]
		if len(a) < 2 || a[0] != '-' {
			see("", a, i, 1)
			continue
		}
		name, value, given := strings.Cut(strings.TrimPrefix(a[1:], "-"), "=")
		if (a[1] == 'L' || a[1] == 'l') && len(a) > 2 {
			name, value, given = a[1:2], a[2:], true
		}
		words := 1
		switch name {
		case "o", "output", "L", "library-path", "l", "library", "sysroot", "plugin", "plugin-opt", "exclude-libs":
			if !given && i+1 < len(l.args) {
				i++
				value, words = l.args[i], 2
			}
		}
		see(name, value, i, words)
	}
}

// findInputs finds the inputs with bitcode.
func (l *linkLine) findInputs(dirs []string) {
	static, lib := false, -1
	l.each(func(name, value string, at, words int) {
		file := ""
		switch name {
		case "static", "Bstatic", "dn", "non_shared":
			static = true
		case "Bdynamic", "dy", "call_shared":
			static = false
		case "start-lib":
			lib = at
		case "end-lib":
			lib = -1
		case "":
			file = value
		case "l", "library":
			file = findLibrary(value, dirs, static)
		}
		if file == "" {
			return
		}
		in := linkInput{at: at - words + 1, words: words, file: file}
		if in.look(l.fat); in.bitcode > 0 {
			if len(l.inputs) == 0 {
				l.first = in.at
				if lib >= 0 {
					l.first = lib
				}
			}
			l.inputs = append(l.inputs, in)
		}
	})
}

// findLibrary returns the file for -l NAME, "" if it is in none of the dirs.
func findLibrary(name string, dirs []string, static bool) string {
	names := []string{"lib" + name + ".so", "lib" + name + ".a"}
	if exact, ok := strings.CutPrefix(name, ":"); ok {
		names = []string{exact}
	} else if static {
		names = names[1:]
	}
	for _, d := range dirs {
		for _, n := range names {
			file := path.Join(d, n)
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
				return file
			}
		}
	}
	return ""
}

// look sees what an input is. What cannot be read is left to the linker.
func (in *linkInput) look(fat bool) {
	f, info, err := open(in.file)
	if err != nil {
		return
	}
	if !info.Mode().IsRegular() {
		_ = f.Close()
		return
	}
	if isBitcode(f, info.Size(), fat) {
		in.bitcode = 1
	}
	magic := make([]byte, 8)
	_, _ = f.ReadAt(magic, 0)
	_ = f.Close()
	if string(magic) != archiveMagic && string(magic) != thinMagic {
		return
	}
	in.archive = true
	members, err := readArchive(in.file)
	if err != nil {
		return
	}
	for _, m := range members {
		if isBitcode(m.data, m.data.Size(), fat) {
			in.bitcode++
		} else {
			in.native = append(in.native, m)
		}
	}
}

// isBitcode tells whether a file is LLVM's bitcode, with or without its wrapper,
// or if fat an object that has it in a section.
func isBitcode(r io.ReaderAt, size int64, fat bool) bool {
	var magic [4]byte
	_, _ = r.ReadAt(magic[:], 0)
	switch string(magic[:]) {
	case "BC\xc0\xde", "\xde\xc0\x17\x0b":
		return true
	case "\x7fELF":
		if !fat {
			return false
		}
		data, err := io.ReadAll(io.NewSectionReader(r, 0, size))
		return err == nil && bytes.Contains(data, []byte(".llvm.lto\x00"))
	}
	return false
}

// with returns the arguments without those of the plugin, with objects before the
// first input, and with others in the place of inputs, by their index in args.
func (l *linkLine) with(objects []string, replaced map[int][]string) []string {
	var out []string
	l.each(func(name, _ string, at, words int) {
		first := at - words + 1
		if first == l.first {
			out = append(out, objects...)
		}
		if by, ok := replaced[first]; ok {
			out = append(out, by...)
			return
		}
		switch name {
		case "plugin", "plugin-opt", "fat-lto-objects":
		default:
			out = append(out, l.args[first:at+1]...)
		}
	})
	return out
}

// named returns the arguments with another name for the output.
func (l *linkLine) named(output string) []string {
	args := slices.Clone(l.args)
	if name, _, ok := strings.Cut(args[l.output], "="); ok && strings.HasPrefix(name, "-") {
		output = name + "=" + output
	}
	args[l.output] = output
	return args
}
