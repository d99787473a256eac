// Package tool stands in for llvm-profdata (merge and show) and llvm-cov (export, report and show): it takes their
// arguments and writes what those of a version of LLVM write. An option that it does not know is an error.
package tool

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

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

	program, command string // for messages: llvm-cov, and " report"
	given            bool   // the version is
	colors           bool
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
			return fmt.Errorf("%s: no command is given, see docs/llvm.md", program)
		}
		do := commands[args[0]]
		if do == nil {
			return fmt.Errorf("footfall knows no %s %s, see docs/llvm.md", program, args[0])
		}
		v.command = " " + args[0]
		return do(args[1:])
	})
}

// versionBefore takes --llvm-version before the command.
func (v *Invocation) versionBefore(args []string) ([]string, error) {
	if len(args) == 0 || !strings.HasPrefix(args[0], "-") {
		return args, nil
	}
	name, value, joined := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
	args = args[1:]
	if name != versionOption {
		return nil, fmt.Errorf("%s: a command is expected before options, see docs/llvm.md", v.program)
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
