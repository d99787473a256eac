// Package asgcov is gcov as others call it: that of a version of GCC, of Clang or of
// GCC 2 and 3, whichever name, options and environment ask for.
package asgcov

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"footfall/formats/gcov"
	"footfall/formats/gcov/legacy"
	"footfall/formats/gcov/listing"
	"footfall/formats/gcov/llvmcov"
)

// versionFlag is our own: gcov has no option to be another version.
const versionFlag = "--gcc-version"

func isVersionFlag(arg string) bool {
	return arg == versionFlag || strings.HasPrefix(arg, versionFlag+"=")
}

// WantsHelp tells whether arguments of footfall gcov ask for footfall's help; that of gcov
// is of a version.
func WantsHelp(args []string) bool {
	return slices.Contains(args, "--help") && !slices.ContainsFunc(args, isVersionFlag)
}

// Others are the programs beside gcov that footfall is when it is called by their names:
// gcov-dump-12.
var Others = [...]string{"gcov-dump", "gcov-tool", "llvm-profdata", "covdata"}

// IsName tells whether program names a gcov, of GCC or of LLVM: gcov-13,
// x86_64-linux-gnu-gcov-12, llvm-cov-19. Programs that run a gcov take the name
// of one and no arguments.
func IsName(program string) bool {
	name := filepath.Base(program)
	for _, other := range Others {
		if strings.Contains(name, other) {
			return false
		}
	}
	return strings.Contains(name, "gcov") || strings.Contains(name, "llvm-cov")
}

// Run is gcov as called by the name prog. It returns the exit status.
func Run(prog string, args []string, stdout, stderr io.Writer) int {
	p, args, err := choose(prog, args)
	if err != nil {
		fmt.Fprintf(stderr, "footfall: %v\n", err)
		return 2 // wrong usage, as of any command
	}
	if p.legacy != legacy.Any || p.GCC == 0 && !p.clang && legacy.Claims(args) {
		return legacy.Run(&legacy.Invocation{Prog: prog, Args: args, Stdout: stdout, Stderr: stderr}, p.legacy)
	}
	if p.clang {
		return llvmcov.Run(&llvmcov.Invocation{
			Prog: strings.TrimSuffix(prog, " gcov") + " gcov", Version: p.llvm, Args: args, Stdin: os.Stdin, Stdout: stdout, Stderr: stderr,
		})
	}
	return listing.Run(&listing.Invocation{Prog: prog, Args: args, Version: p.GCC, Stdout: stdout, Stderr: stderr})
}

// A Personality is the gcov that we are to be: GCC's of some version, 0 for
// that of the files, or LLVM's.
type Personality struct {
	GCC   gcov.Version
	clang bool
	llvm  int // 0: the newest
	// legacy is a gcov from before GCC 3.4.
	legacy legacy.Style
}

// choose finds it in the name of the program, the arguments or the
// environment, and returns the arguments that are left.
func choose(prog string, args []string) (Personality, []string, error) {
	base := prog[strings.LastIndexByte(prog, '/')+1:]
	if _, version, ok := strings.Cut(base, "llvm-cov"); ok && len(args) > 0 {
		p, err := Parse("clang" + version)
		return p, args[1:], err
	}
	named := os.Getenv("FOOTFALL_GCC_VERSION")
	if _, version, ok := strings.Cut(base, "gcov-"); ok {
		named = version
	}
	rest := make([]string, 0, len(args))
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			rest = append(rest, args[i:]...)
			i = len(args)
		case !isVersionFlag(arg):
			rest = append(rest, arg)
		case arg != versionFlag:
			named = arg[len(versionFlag)+1:]
		case i+1 == len(args):
			return Personality{}, nil, errors.New("--gcc-version needs a version, as in --gcc-version=12")
		default:
			i++
			named = args[i]
		}
	}
	if named == "" {
		return Personality{}, rest, nil
	}
	p, err := Parse(named)
	return p, rest, err
}

// Parse reads "12", "12.2", "4.8", "clang" or "clang-19".
func Parse(name string) (Personality, error) {
	bad := fmt.Errorf("%q is no version of a compiler: try 12, 12.2 or clang-19", name)
	if version, ok := strings.CutPrefix(name, "clang"); ok {
		if version == "" {
			return Personality{clang: true}, nil
		}
		major, _, _ := strings.Cut(strings.TrimPrefix(version, "-"), ".")
		n, err := strconv.Atoi(major)
		if err != nil || n < 1 {
			return Personality{}, bad
		}
		return Personality{clang: true, llvm: n}, nil
	}
	if style, ok := legacy.ParseStyle(name); ok {
		return Personality{legacy: style}, nil
	}
	parts := append(strings.Split(name, "."), "0")
	major, err := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	if err != nil || err2 != nil || minor < 0 || minor > 9 {
		return Personality{}, bad
	}
	v := gcov.MakeVersion(major, minor)
	if !v.Known() {
		return Personality{}, bad
	}
	return Personality{GCC: v}, nil
}
