// Package tool stands in for llvm-profdata (merge and show) and llvm-cov (export, report and show): it takes their
// arguments and writes what those of a version of LLVM write. An option that it does not know is an error.
package tool

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"footfall/coverage"
	"footfall/formats/llvm"
)

// An Invocation is one call of a program.
type Invocation struct {
	// Name is that by which the program was called, for messages; "": llvm-cov or llvm-profdata.
	Name    string
	Args    []string
	Version int // of LLVM, 0: the newest that wrote the data
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	// Dir is that from which names of sources on the command line are seen; "": the working directory.
	Dir string
	// Source reads a source file; nil: of this machine.
	Source func(name string) ([]byte, error)
	// Pages writes what show -format=html asks for; nil: that is refused.
	Pages func(Pages) error
	// Help writes what --help asks for.
	Help func() error

	program, command string // for messages: llvm-cov, and " report"
	given            bool   // the version is
	colors           bool
}

// Pages are what llvm-cov show -format=html makes pages of.
type Pages struct {
	Set   *coverage.Set
	Dir   string    // where they go; "": all in one, to standard output
	Title string    // "": there is none
	Time  time.Time // of the profile; zero: it is not shown
	// Source reads a source by its name in the Set; nothing is said.
	Source func(name string) ([]byte, error)
}

// version is the one that is imitated.
func (v *Invocation) version() int {
	if v.Version == 0 {
		return llvm.NewestLLVM
	}
	return v.Version
}

// run does something, says what went wrong, and returns the exit status.
func (v *Invocation) run(do func() error) int {
	err := do()
	var usage usageError
	var file *fileError
	var said saidError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &said):
	case errors.As(err, &usage):
		fmt.Fprintf(v.Stderr, "%s: %v\n", v.usageName(), err)
	default:
		v.colored(v.Stderr, red, fmt.Sprintf("error: %v\n", err))
		if errors.As(err, &file) && file.hint != "" {
			fmt.Fprintf(v.Stderr, "note: %s\n", file.hint)
		}
	}
	return 1
}

// A saidError has been told.
type saidError struct{}

func (saidError) Error() string { return "" }

// newest is the newest LLVM that writes a version of a format.
func newest(p *llvm.Profile) int {
	switch p.Format {
	case llvm.Raw:
		return map[uint32]int{4: 9, 5: 11, 7: 13, 8: 16, 9: 18, 10: 22, 11: 23}[p.Version]
	case llvm.Indexed:
		return map[uint32]int{5: 9, 6: 11, 7: 14, 8: 15, 9: 16, 10: 17, 11: 18, 12: 21, 13: 22, 14: 23}[p.Version]
	}
	return 0
}

// Profdata is llvm-profdata. It returns the exit status.
func Profdata(v *Invocation) int {
	return v.dispatch("llvm-profdata", map[string]func([]string) error{"merge": v.merge, "show": v.showProfile})
}

// Cov is llvm-cov, but for llvm-cov gcov. It returns the exit status.
func Cov(v *Invocation) int {
	return v.dispatch("llvm-cov", map[string]func([]string) error{"export": v.export, "report": v.report, "show": v.show})
}

func (v *Invocation) dispatch(program string, commands map[string]func([]string) error) int {
	v.program, v.given = program, v.Version != 0
	return v.run(func() error {
		args, err := v.versionBefore(v.Args)
		if err != nil {
			return err
		}
		v.given = v.given || v.Version != 0
		if len(args) == 0 {
			return v.noCommand("")
		}
		if done, err := v.asked(args); done {
			return err
		}
		do := commands[args[0]]
		switch {
		case do == nil && slices.Contains(unknown, args[0]):
			return fmt.Errorf("footfall knows no %s %s, see docs/llvm.md", program, args[0])
		case do == nil:
			return v.noCommand(args[0])
		}
		v.command = " " + args[0]
		return do(args[1:])
	})
}

// unknown are commands of LLVM's programs that are not known here.
var unknown = []string{"order", "overlap"}

// asked answers --version and --help, of the program or of a command.
func (v *Invocation) asked(args []string) (done bool, err error) {
	for _, arg := range args {
		switch arg {
		case "--":
			return false, nil
		case "-version", "--version":
			_, err := fmt.Fprintf(v.Stdout, "footfall LLVM version %s\n  Optimized build.\n", release(v.version()))
			return true, err
		case "-help", "--help", "-h":
			if v.Help != nil {
				return true, v.Help()
			}
		}
	}
	return false, nil
}

// noCommand says that there is no command, or none of that name.
func (v *Invocation) noCommand(name string) error {
	base := filepath.Base(v.called())
	switch {
	case v.program == "llvm-cov":
		if name != "" {
			fmt.Fprintf(v.Stderr, "Unrecognized command: %s.\n\n", name)
		}
		fmt.Fprint(v.Stderr, covUsage)
	case v.version() < 17 && name == "":
		fmt.Fprintf(v.Stderr, "%s: No command specified!\nUSAGE: %[1]s <merge|show|overlap> [args...]\n", base)
	case v.version() < 17:
		fmt.Fprintf(v.Stderr, "%s: Unknown command!\nUSAGE: %[1]s <merge|show|overlap> [args...]\n", base)
	case name == "":
		program := v.program
		if v.version() < 20 {
			program = "llvm-profata" // so they misspell it
		}
		fmt.Fprintf(v.Stderr, "%s: No subcommand specified! Run %s --help for usage.\n", base, program)
	default:
		fmt.Fprintf(v.Stderr, "%s: Unknown subcommand '%s'.  Try: '%s --help'\n", base, name, v.called())
	}
	return saidError{}
}

const covUsage = `Usage: llvm-cov {export|gcov|report|show} [OPTION]...

Shows code coverage information.

Subcommands:
  export: Export instrprof file to structured format.
  gcov:   Work with the gcov format.
  report: Summarize instrprof style coverage information.
  show:   Annotate source files using instrprof style coverage.
`

// versionBefore takes --llvm-version before the command.
func (v *Invocation) versionBefore(args []string) ([]string, error) {
	if len(args) == 0 || !strings.HasPrefix(args[0], "-") {
		return args, nil
	}
	all := args
	name, value, joined := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
	args = args[1:]
	if name != versionOption {
		return all, nil
	}
	if !joined && len(args) > 0 {
		value, args = args[0], args[1:]
	}
	return args, v.setVersion(value)
}

const versionOption = "llvm-version"

func (v *Invocation) setVersion(s string) (err error) {
	if v.Version, err = strconv.Atoi(s); err != nil || v.Version < llvm.OldestLLVM || v.Version > llvm.NewestLLVM {
		return fmt.Errorf("--%s=%s: known are %d to %d", versionOption, s, llvm.OldestLLVM, llvm.NewestLLVM)
	}
	v.given = true
	return nil
}
