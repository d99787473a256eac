package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"footfall/instrument"
)

func newCCCommand() *cobra.Command {
	var o ccOptions
	cmd := &cobra.Command{
		Use:   "cc [flags] -- COMPILER ARG...",
		Short: "Compile so that calls are counted, or for the other commands",
		Long: `Cc runs a compiler, gcc, g++, clang or clang++ of any version and target, with the
arguments that follow, and makes what it compiles count its calls:

  calls     count every entry of a function and every call, exactly; the compiler's
            assembly is rewritten, and a runtime is linked in
  coverage  count lines and branches, for footfall report, live and mount
            (--coverage -fprofile-update=atomic)
  trace     leave room at function entries that a tracer can patch while the
            program runs (-fpatchable-function-entry)

--for chooses; the default is calls. The program does what it did before. While it
runs, its calls are in the file footfall.PID.counts in its working directory,
or in the file that the environment variable FOOTFALL_OUT names (%p in it is the
PID; an empty name means none). The file stays when the program is killed. A child
of fork has its own. FOOTFALL_STATS=1 makes the program also write a table to the
file stats at its end.

--update=thread gives each thread its own counters: exact, and nearly as cheap as
plain ones, with which threads lose some. --update=atomic is exact and slow.
What is compiled with -fPIC, or for another CPU than x86-64, counts atomically
with thread, too. Linking needs the same --update.

In a build: CC="footfall cc -- gcc", or a link named footfall-gcc, footfall-g++,
footfall-clang-19 to footfall, whose flags stand in FOOTFALL_CC. With CMake set
CMAKE_C_COMPILER_LAUNCHER and CMAKE_C_LINKER_LAUNCHER (and CXX) to "footfall;cc;--".

What cannot be counted is compiled as it would be without footfall, with a warning
if that is a whole file: assembly in Intel's syntax, clang -flto. Assembly
that no compiler made is left alone. The exit status is the compiler's.`,
		Example: `  # a whole build
  make CC="footfall cc -- gcc" CXX="footfall cc -- g++"

  # exact with threads, and only in two directories
  footfall cc --update=thread --only 'src/net/**' --only 'src/db/**' -- gcc -O2 -c src/net/tcp.c

  # counts of calls, and coverage, in one program
  footfall cc --for calls,coverage -- g++ -O2 -o prog prog.cc`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("cc needs a compiler: footfall cc -- gcc -c prog.c")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			status, err := o.run(args)
			if err == nil && status != 0 {
				err = &exitError{status: status}
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.purposes, "for", []string{"calls"}, "`PURPOSE,...` of calls, coverage and trace")
	f.StringVar(&o.update, "update", "plain", "how counters of calls are incremented: `plain`, or thread or atomic, which are exact with threads")
	f.StringArrayVar(&o.choice.only, "only", nil, "only sources and functions that match `GLOB`; may be repeated")
	f.StringArrayVar(&o.choice.not, "not", nil, "no sources and functions that match `GLOB`; may be repeated")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "say what is left out")
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions([]string{"calls", "coverage", "trace"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("update", cobra.FixedCompletions([]string{"plain", "atomic", "thread"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// ccByName returns the arguments that a link named footfall-gcc and the like
// stands for, nil for other names.
func ccByName(argv []string) []string {
	compiler, ok := strings.CutPrefix(filepath.Base(argv[0]), "footfall-")
	if !ok || !isCompiler(compiler) {
		return nil
	}
	args := append([]string{"footfall", "cc"}, strings.Fields(os.Getenv("FOOTFALL_CC"))...)
	return append(append(args, "--", compiler), argv[1:]...)
}

func isCompiler(name string) bool {
	for _, known := range []string{"gcc", "g++", "clang", "cc", "c++"} {
		if name == known || strings.HasPrefix(name, known+"-") || strings.HasSuffix(name, "-"+known) ||
			strings.Contains(name, "-"+known+"-") || strings.HasPrefix(name, "clang++") {
			return true
		}
	}
	return false
}

type ccOptions struct {
	purposes []string
	update   string
	choice   choice
	verbose  bool
}

// run compiles, and returns the exit status of the compiler.
func (o *ccOptions) run(args []string) (int, error) {
	if _, err := instrument.ParseUpdate(o.update); err != nil {
		return 0, usageError(err)
	}
	if err := o.choice.check(); err != nil {
		return 0, usageError(err)
	}
	for _, p := range o.purposes {
		if !slices.Contains([]string{"calls", "coverage", "trace"}, p) {
			return 0, usageError(fmt.Errorf("%q is no purpose: calls, coverage and trace are", p))
		}
	}
	compiler, err := exec.LookPath(args[0])
	if err != nil {
		return 0, err
	}
	c := readCommand(args[0], args[1:])
	if c.stops == "everything" || len(c.inputs) == 0 {
		return 0, replaceProcess(compiler, args)
	}
	extra, after, env, err := o.additions(compiler, c)
	if err != nil {
		fmt.Fprintf(os.Stderr, "footfall: %v; compiled without counting\n", err)
		return 0, replaceProcess(compiler, args)
	}
	if len(extra)+len(after) == 0 {
		return 0, replaceProcess(compiler, args)
	}
	return compile(compiler, args, extra, after, env)
}

// replaceProcess becomes the compiler.
func replaceProcess(compiler string, args []string) error {
	return syscall.Exec(compiler, args, os.Environ())
}

// compile runs the compiler with additions. If that fails, so may the plain one,
// and what that says is what its user should see.
func compile(compiler string, args, extra, after, env []string) (int, error) {
	var stdin []byte
	if slices.Contains(args, "-") {
		var err error
		if stdin, err = io.ReadAll(os.Stdin); err != nil {
			return 0, err
		}
	}
	run := func(args []string, env []string, stderr io.Writer) (int, error) {
		cmd := exec.Command(compiler)
		cmd.Args = args
		cmd.Env = append(os.Environ(), env...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, stderr
		if stdin != nil {
			cmd.Stdin = bytes.NewReader(stdin)
		}
		err := cmd.Run()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return max(exit.ExitCode(), 1), nil
		}
		return 0, err
	}
	// Additions come first, so that the user's own flags win; what is linked
	// comes last.
	all := slices.Concat(args[:1], extra, args[1:], after)
	if terminalWidth(os.Stderr) > 0 {
		all = slices.Insert(all, 1, "-fdiagnostics-color=always") // it will see a pipe
	}
	var text bytes.Buffer
	status, err := run(all, env, &text)
	if err == nil && status == 0 {
		_, err = os.Stderr.Write(text.Bytes())
		return 0, err
	}
	status, plainErr := run(args, nil, os.Stderr)
	if plainErr == nil && status == 0 {
		reason, _, _ := strings.Cut(strings.TrimSpace(text.String()), "\n")
		fmt.Fprintf(os.Stderr, "footfall: compiled without counting, since that failed: %s\n", reason)
	}
	return status, plainErr
}

// A ccCommand is what matters of a compiler's command line.
type ccCommand struct {
	compiler string
	clang    bool
	// stops names the step after which the compiler stops: "everything" (before
	// an assembler would run), "assembling", or "" if it links.
	stops   string
	shared  bool
	static  bool
	pic     bool // -fPIC: code that may become part of a library
	runtime bool // a runtime can be linked: the C library is
	lto     bool
	inputs  []string
	target  []string // flags that choose the target, for the runtime
	cpu     string   // "" if not known
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
func readCommand(compiler string, args []string) *ccCommand {
	base := filepath.Base(compiler)
	c := &ccCommand{compiler: compiler, clang: strings.Contains(base, "clang"), runtime: true}
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

func (c *ccCommand) argument(a, next string) {
	switch {
	case a == "-E" || a == "-S" || a == "-M" || a == "-MM" || a == "-fsyntax-only" || a == "-###" ||
		strings.HasPrefix(a, "-print-") || strings.HasPrefix(a, "--print-") || strings.HasPrefix(a, "-dump") && next == "" ||
		a == "--version" || strings.HasPrefix(a, "--help") || a == "-emit-llvm" || a == "-emit-ast":
		c.stops = "everything"
	case a == "-c":
		if c.stops == "" {
			c.stops = "assembling"
		}
	case a == "-shared":
		c.shared = true
	case a == "-static" || a == "-static-pie":
		c.static = true
	case a == "-fPIC" || a == "-fpic":
		c.pic = true
	case a == "-fPIE" || a == "-fpie" || a == "-fno-PIC" || a == "-fno-pic" || a == "-fno-PIE" || a == "-fno-pie":
		c.pic = false
	case a == "-nostdlib" || a == "-nostartfiles" || a == "-nodefaultlibs" || a == "-r" || a == "-ffreestanding" || a == "-nolibc":
		c.runtime = false
	case strings.HasPrefix(a, "-flto"):
		c.lto = true
	case a == "-fno-lto":
		c.lto = false
	case a == "-x" && next != "none" && !slices.Contains([]string{"c", "c++", "c-header", "c++-header", "cpp-output", "c++-cpp-output", "assembler", "assembler-with-cpp"}, next):
		c.stops = "everything" // another language: who knows what it does
	case a == "-x" && strings.HasSuffix(next, "header"):
		c.stops = "everything"
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
		text, err := os.ReadFile(name)
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

// additions returns the flags to add before and after the user's, and variables
// for the assembler's step. Its error says why calls cannot be counted.
func (o *ccOptions) additions(compiler string, c *ccCommand) (extra, after, env []string, err error) {
	sources := c.sources()
	wanted := len(sources) == 0 || slices.ContainsFunc(sources, o.choice.source)
	orders := asOrders{Sources: sources, CPU: c.cpu, Verbose: o.verbose}
	for _, purpose := range o.purposes {
		switch {
		case purpose == "coverage" && wanted:
			extra = append(extra, "--coverage", "-fprofile-update=atomic")
		case purpose == "trace" && wanted && len(sources) > 0:
			extra = append(extra, "-fpatchable-function-entry=5")
			orders.Sites = !c.clang && majorVersion(compiler) < 14
		case purpose == "calls":
			orders.Calls = true
			flags, err := o.counting(c, sources)
			if err != nil {
				return nil, nil, nil, err
			}
			extra = append(extra, flags...)
			if c.stops != "" || !c.runtime {
				continue
			}
			macros, libraries := o.threads(c)
			object, err := cachedRuntime(compiler, append(macros, c.target...))
			if err != nil {
				return nil, nil, nil, err
			}
			after = append(after, "-x", "none", object)
			after = append(after, libraries...)
		}
	}
	if orders.Calls || orders.Sites {
		flags, variable, err := o.hook(compiler, c, orders)
		if err != nil {
			return nil, nil, nil, err
		}
		extra, env = append(extra, flags...), append(env, variable)
	}
	return extra, after, env, nil
}

// majorVersion returns that of a compiler, 0 if it does not tell.
func majorVersion(compiler string) int {
	out, _ := exec.Command(compiler, "-dumpversion").Output()
	text, _, _ := strings.Cut(strings.TrimSpace(string(out)), ".")
	n, _ := strconv.Atoi(text)
	return n
}

// threads returns what the runtime is compiled with, and what it is linked with,
// for threads that count apart.
func (o *ccOptions) threads(c *ccCommand) (macros, libraries []string) {
	switch {
	case o.update != instrument.Thread.String() || c.shared:
		return nil, nil
	case c.static:
		return []string{"-DFOOTFALL_THREADS=2"}, []string{"-Wl,--wrap=pthread_create"}
	}
	return []string{"-DFOOTFALL_THREADS=1"}, []string{"-ldl"} // dlsym, before glibc 2.34
}

// sources returns the inputs that are compiled.
func (c *ccCommand) sources() []string {
	var list []string
	for _, in := range c.inputs {
		switch filepath.Ext(in) {
		case ".c", ".cc", ".cp", ".cxx", ".cpp", ".CPP", ".c++", ".C", ".i", ".ii", ".m", ".mm", ".s", ".S", ".sx":
			list = append(list, in)
		}
	}
	return list
}

// counting returns the flags that make the compiler write assembly in which calls
// can be counted.
func (o *ccOptions) counting(c *ccCommand, sources []string) ([]string, error) {
	switch {
	case c.clang && c.lto && len(sources) > 0:
		return nil, errors.New("clang -flto makes no assembly")
	case c.clang && c.stops == "":
		return []string{"-fno-integrated-as", "-Qunused-arguments"}, nil
	case c.clang:
		return []string{"-fno-integrated-as"}, nil
	case c.cpu == "arm64":
		// GCC keeps values in x16 and x17 across calls of functions that it knows.
		return []string{"-fno-ipa-ra"}, nil
	}
	return []string{"-dp"}, nil // tells indirect tail calls from switches
}

// hook returns the flags that put our step before the assembler, and its orders.
func (o *ccOptions) hook(compiler string, c *ccCommand, orders asOrders) (flags []string, env string, err error) {
	dir, err := hookDir()
	if err != nil {
		return nil, "", err
	}
	orders.Only, orders.Not, orders.Update = o.choice.only, o.choice.not, o.update
	if o.update == instrument.Thread.String() && (c.pic || c.shared) {
		orders.Update = instrument.Atomic.String() // only a program has copies of its counters
	}
	if orders.Assembler, err = assembler(compiler, c.target); err != nil {
		return nil, "", err
	}
	text, err := json.Marshal(orders)
	return []string{"-B", dir + "/"}, asVariable + "=" + string(text), err
}

// assembler finds the one that the compiler would run. To ask takes as long as
// assembling a small file: the answer is kept.
func assembler(compiler string, target []string) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	info, err := os.Stat(compiler)
	if err != nil {
		return "", err
	}
	key := append([]string{compiler, info.ModTime().String(), os.Getenv("PATH"), os.Getenv("GCC_EXEC_PREFIX"), os.Getenv("COMPILER_PATH")}, target...)
	kept := filepath.Join(cache, "assembler-"+digest(key...))
	if name, err := os.Readlink(kept); err == nil {
		if _, err := os.Stat(name); err == nil {
			return name, nil
		}
		_ = os.Remove(kept)
	}
	out, err := exec.Command(compiler, append(target[:len(target):len(target)], "-print-prog-name=as")...).Output()
	if err != nil {
		return "", fmt.Errorf("%s -print-prog-name=as: %w", compiler, err)
	}
	name, err := exec.LookPath(strings.TrimSpace(string(out)))
	if err == nil && filepath.IsAbs(name) {
		_ = os.Symlink(name, kept) // without, the next one asks again
	}
	return name, err
}

// cacheDir returns a directory of the user's that lasts.
func cacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	dir := filepath.Join(base, "footfall")
	if err != nil {
		dir = fmt.Sprintf("%s-%d", dir, os.Getuid())
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || int(stat.Uid) != os.Getuid() || info.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("%s: what is in it will be run, but others can write there", dir)
	}
	return dir, nil
}

// hookDir returns a directory in which as is footfall.
func hookDir() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "as-"+digest(self))
	link := filepath.Join(dir, "as")
	if to, err := os.Readlink(link); err == nil && to == self {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if err := os.Symlink(self, link); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return dir, nil
}

// cachedRuntime returns the runtime's object for a compiler and target.
func cachedRuntime(compiler string, target []string) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	info, err := os.Stat(compiler)
	if err != nil {
		return "", err
	}
	key := []string{compiler, info.ModTime().String(), string(instrument.Runtime())}
	object := filepath.Join(cache, "runtime-"+digest(append(key, target...)...)+".o")
	if _, err := os.Stat(object); err == nil {
		return object, nil
	}
	tmp, err := os.CreateTemp(cache, "runtime-*.tmp")
	if err != nil {
		return "", err
	}
	_ = tmp.Close()
	defer os.Remove(tmp.Name())
	if err := compileRuntime(compiler, target, tmp.Name()); err != nil {
		return "", err
	}
	return object, os.Rename(tmp.Name(), object)
}

func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}
