//go:build linux

package compile

import (
	"path"
	"slices"
	"strings"
)

// A command is what matters of a compiler's command line.
type command struct {
	compiler string
	clang    bool
	// stops names the step after which the compiler stops: "everything" (before
	// an assembler would run), "assembling", or "" if it links.
	stops      string
	shared     bool
	static     bool
	runtime    bool // a runtime can be linked: the C library is
	lto        bool
	fat        bool     // -ffat-lto-objects: code beside what the linker compiles
	linker     string   // the name after -fuse-ld=
	linkerPath string   // of --ld-path, or -fuse-ld with a path
	prefixes   []string // -B
	output     string
	inputs     []string
	chosen     bool     // -x says what the inputs are
	target     []string // flags that choose the target, for the runtime
	cpu        string   // "" if not known
	keepR11    bool     // calls keep r11, or the program has its own use for it
	regions    bool     // Clang counts regions of the source (-fprofile-instr-generate)
}

// withArgument are the options whose argument is the next word.
var withArgument = map[string]bool{
	"-o": true, "-x": true, "-I": true, "-D": true, "-U": true, "-L": true, "-l": true, "-include": true, "-imacros": true,
	"-isystem": true, "-iquote": true, "-idirafter": true, "-iprefix": true, "-iwithprefix": true, "-iwithprefixbefore": true,
	"-isysroot": true, "-imultilib": true, "-MF": true, "-MT": true, "-MQ": true, "-MJ": true, "-Xlinker": true, "-Xassembler": true,
	"-Xpreprocessor": true, "-Xclang": true, "-mllvm": true, "-T": true, "-u": true, "-z": true, "-e": true, "-B": true, "-A": true,
	"-aux-info": true, "-dumpbase": true, "-dumpdir": true, "-dumpbase-ext": true, "-wrapper": true, "-target": true, "-arch": true,
	"--param": true, "-G": true, "-h": true, "-Tbss": true, "-Tdata": true, "-Ttext": true, "--sysroot": true,
}

// readCommand looks through a compiler's arguments.
func readCommand(compiler string, args []string) *command {
	base := path.Base(compiler)
	c := &command{compiler: compiler, clang: strings.Contains(base, "clang"), runtime: true, output: "a.out"}
	if strings.HasPrefix(base, "aarch64-") {
		c.cpu = "arm64"
	}
	args = expandResponseFiles(args, 0)
	for i := 0; i < len(args); i++ {
		a := args[i]
		next := ""
		if withArgument[a] && i+1 < len(args) {
			i++
			next = args[i]
		}
		c.argument(a, next)
	}
	return c
}

func (c *command) argument(a, next string) {
	switch {
	case a == "-E" || a == "-S" || a == "-M" || a == "-MM" || a == "-fsyntax-only" || a == "-###" ||
		strings.HasPrefix(a, "-print-") || strings.HasPrefix(a, "--print-") || strings.HasPrefix(a, "-dump") && next == "" ||
		a == "--version" || strings.HasPrefix(a, "--help") || a == "-emit-llvm" || a == "-emit-ast":
		c.stops = "everything"
	case a == "-o":
		c.output = next
	case a == "-c":
		if c.stops == "" {
			c.stops = "assembling"
		}
	case a == "-shared":
		c.shared = true
	case a == "-static" || a == "-static-pie":
		c.static = true
	case a == "-nostdlib" || a == "-nostartfiles" || a == "-nodefaultlibs" || a == "-r" || a == "-ffreestanding" || a == "-nolibc":
		c.runtime = false
	case a == "-ffixed-r11" || a == "-fcall-saved-r11":
		c.keepR11 = true
	case strings.HasPrefix(a, "-fprofile-instr-generate"):
		c.regions = true
	case strings.HasPrefix(a, "-flto"):
		c.lto = true
	case a == "-fno-lto":
		c.lto = false
	case a == "-ffat-lto-objects" || a == "-fno-fat-lto-objects":
		c.fat = a == "-ffat-lto-objects"
	case strings.HasPrefix(a, "-fuse-ld="):
		c.linker = strings.TrimPrefix(a, "-fuse-ld=")
		if strings.Contains(c.linker, "/") && c.linkerPath == "" {
			c.linkerPath = c.linker
		}
	case strings.HasPrefix(a, "--ld-path="):
		c.linkerPath = strings.TrimPrefix(a, "--ld-path=")
	case strings.HasPrefix(a, "-B"):
		c.prefixes = append(c.prefixes, a+next)
	case a == "-x" && next != "none" && !slices.Contains([]string{"c", "c++", "c-header", "c++-header", "cpp-output", "c++-cpp-output", "assembler", "assembler-with-cpp"}, next):
		c.stops = "everything" // another language: who knows what it does
	case a == "-x" && strings.HasSuffix(next, "header"):
		c.stops = "everything"
	case a == "-x":
		c.chosen = true
	case a == "-target" || strings.HasPrefix(a, "--target="):
		c.target = append(c.target, a)
		if next != "" {
			c.target = append(c.target, next)
		}
		if strings.Contains(a+next, "aarch64") {
			c.cpu = "arm64"
		}
	case a == "--sysroot" || a == "-isysroot":
		c.target = append(c.target, a, next)
	case strings.HasPrefix(a, "-m") && next == "" || strings.HasPrefix(a, "--sysroot=") || strings.HasPrefix(a, "-fcf-protection") || strings.HasPrefix(a, "--gcc-toolchain"):
		c.target = append(c.target, a)
		if a == "-m32" {
			c.cpu = "386"
		}
	case a == "-" || !strings.HasPrefix(a, "-") && next == "":
		c.inputs = append(c.inputs, a)
	}
}

// expandResponseFiles replaces @FILE by the arguments in FILE. The compiler
// gets the original.
func expandResponseFiles(args []string, depth int) []string {
	var out []string
	for _, a := range args {
		name, ok := strings.CutPrefix(a, "@")
		if !ok || depth > 8 {
			out = append(out, a)
			continue
		}
		text, err := readRegular(name)
		if err != nil {
			out = append(out, a)
			continue
		}
		out = append(out, expandResponseFiles(splitWords(string(text)), depth+1)...)
	}
	return out
}

// splitWords splits as GCC does: at white space, with quotes and backslashes.
func splitWords(s string) []string {
	var words []string
	var word strings.Builder
	started := false
	var quote byte
	for i := 0; i < len(s); i++ {
		switch ch := s[i]; {
		case ch == '\\' && i+1 < len(s):
			i++
			word.WriteByte(s[i])
			started = true
		case quote != 0 && ch == quote:
			quote = 0
		case quote != 0:
			word.WriteByte(ch)
		case ch == '\'' || ch == '"':
			quote, started = ch, true
		case ch == ' ' || ch == '\t' || ch == '\n' || ch == '\r' || ch == '\f' || ch == '\v':
			if started {
				words = append(words, word.String())
				word.Reset()
				started = false
			}
		default:
			word.WriteByte(ch)
			started = true
		}
	}
	if started {
		words = append(words, word.String())
	}
	return words
}

// headers tells whether there are only headers to compile, for other compilations.
func (c *command) headers() bool {
	if c.chosen {
		return len(c.inputs) == 0
	}
	for _, in := range c.inputs {
		switch path.Ext(in) {
		case ".h", ".H", ".hh", ".hp", ".hxx", ".hpp", ".HPP", ".h++", ".tcc":
		default:
			return false
		}
	}
	return true
}

// sources returns the inputs that are compiled.
func (c *command) sources() []string {
	var list []string
	for _, in := range c.inputs {
		switch path.Ext(in) {
		case ".c", ".cc", ".cp", ".cxx", ".cpp", ".CPP", ".c++", ".C", ".i", ".ii", ".m", ".mm", ".s", ".S", ".sx":
			list = append(list, in)
		}
	}
	return list
}
