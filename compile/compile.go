//go:build linux

// Package compile runs compilers in such a way that what they compile counts its
// calls, or is prepared for footfall's other commands.
//
// A compiler is told by -B to look for its assembler in a directory in which
// there is a link to footfall by the name as. So footfall runs once more, as
// the step before the assembler (assembler.go), and has its orders in a
// variable of the environment. Clang's linker is footfall likewise, because it may
// have to compile (link.go). What must be asked of a compiler or compiled by it is kept
// in the user's cache (cache.go).
//
// How assembly is rewritten is package instrument's knowledge.
package compile

import (
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"footfall/compile/instrument"
	"footfall/output"
)

// Purposes are what programs can be compiled for.
var Purposes = []string{"calls", "coverage", "trace"}

// Options say for what to compile.
type Options struct {
	Purposes []string
	// Update is how calls are counted; instrument.Thread is for programs that are linked by
	// Run, too, and in others as exact as Atomic.
	Update instrument.ProfileUpdate
	// Only and Not are patterns of sources and functions, as they are for the
	// assembler's step.
	Only, Not []string
	// Wanted tells whether anything in a source may count, nil is all.
	Wanted  func(source string) bool
	Verbose bool // say what is left out
}

// ByName returns the arguments of footfall that a link to it named footfall-gcc
// and the like stands for, nil for other names.
func ByName(argv []string) []string {
	compiler, ok := strings.CutPrefix(path.Base(argv[0]), "footfall-")
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

// Check finds mistakes in the options.
func (o *Options) Check() error {
	for _, p := range o.Purposes {
		if !slices.Contains(Purposes, p) {
			return fmt.Errorf("%q is no purpose: calls, coverage and trace are", p)
		}
	}
	return nil
}

// Run runs the compiler args[0], and returns its exit status. Where it can it
// becomes the compiler, and does not return.
func (o *Options) Run(args []string) (int, error) {
	if o.Update == instrument.Thread {
		o.Update = instrument.Locked
	}
	args = withoutLauncher(args)
	compiler, err := lookPath(args[0])
	if err != nil {
		return 0, err
	}
	c := readCommand(args[0], args[1:])
	if c.stops == "everything" || c.headers() {
		return 0, become(compiler, args, nil)
	}
	extra, after, env, err := o.additions(compiler, c)
	if err != nil {
		fmt.Fprintf(output.Stderr, "footfall: %v; compiled without counting\n", err)
		return 0, become(compiler, args, nil)
	}
	if len(extra)+len(after) == 0 {
		return 0, become(compiler, args, nil)
	}
	// Additions come first, so that the user's own flags win; what is linked
	// comes last.
	all := slices.Concat(args[:1], extra, args[1:], after)
	if o.harmless(compiler, c) {
		_ = become(compiler, all, env) // else the other way says why not
	}
	status, err := compile(compiler, args, all, env)
	if err == nil && status == 0 && c.stops == "" && len(after) > 0 && o.Update == instrument.Locked && !c.shared {
		unlock(c.output)
	}
	return status, err
}

// withoutLauncher leaves out what keeps or distributes compilations: it knows
// nothing of the assembler's step, and would give back what was compiled with other
// orders. What has options of its own is not called to compile.
func withoutLauncher(args []string) []string {
	for len(args) > 1 && !strings.HasPrefix(args[1], "-") && slices.Contains([]string{"ccache", "sccache", "distcc", "icecc"}, path.Base(args[0])) {
		args = args[1:]
	}
	return args
}

// become replaces this process by the compiler.
func become(compiler string, args, env []string) error {
	return syscall.Exec(compiler, args, append(os.Environ(), env...))
}

// harmless tells whether additions cannot make the compiler fail: GCC knows -B
// and -dp in all versions, and the assembler's step helps itself.
func (o *Options) harmless(compiler string, c *command) bool {
	if c.stops != "assembling" || c.clang || c.cpu == "arm64" || !slices.Equal(o.Purposes, []string{"calls"}) {
		return false
	}
	f, err := os.Open(compiler)
	if err != nil {
		return false
	}
	defer f.Close()
	to, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd())) // cc may be anything
	name := path.Base(to)
	return strings.Contains(name, "gcc") || strings.Contains(name, "g++")
}

// compile runs the compiler with additions. If that fails, so may the plain one,
// and what that says is what its user should see.
func compile(compiler string, plain, all, env []string) (int, error) {
	p := program{path: compiler, args: all, env: append(os.Environ(), env...), catch: []int{2}}
	if slices.Contains(plain, "-") {
		var err error
		if p.input, err = io.ReadAll(os.Stdin); err != nil {
			return 0, err
		}
	}
	if terminal(2) {
		p.args = slices.Insert(all, 1, "-fdiagnostics-color=always") // it will see a pipe
	}
	status, text, err := p.run()
	if err == nil && status == 0 {
		_, err = os.Stderr.Write(text)
		return 0, err
	}
	p.args, p.env, p.catch = plain, os.Environ(), nil
	status, _, plainErr := p.run()
	if plainErr == nil && status == 0 {
		reason, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
		if err != nil {
			reason = err.Error()
		}
		fmt.Fprintf(output.Stderr, "footfall: compiled without counting, since that failed: %s\n", reason)
	}
	return status, plainErr
}

func terminal(fd uintptr) bool {
	var settings [256]byte // struct termios is less
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TCGETS, uintptr(unsafe.Pointer(&settings)))
	return errno == 0
}
