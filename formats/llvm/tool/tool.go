// Package tool stands in for llvm-profdata (merge and show) and llvm-cov (export, report and show): it takes their
// arguments and writes what those of a version of LLVM write. An option that it does not know is an error.
package tool

import (
	"errors"
	"fmt"
	"io"

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
}

// newestLLVM is what is imitated if nothing tells a version.
const newestLLVM = 23

// version is the one that is imitated.
func (v *Invocation) version() int {
	if v.Version == 0 {
		return newestLLVM
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
		fmt.Fprintf(v.Stderr, "%s: %v\n", v.name(), err)
	default:
		fmt.Fprintf(v.Stderr, "error: %v\n", err)
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
		if len(v.Args) == 0 {
			return fmt.Errorf("%s: no command is given, see docs/llvm.md", program)
		}
		do := commands[v.Args[0]]
		if do == nil {
			return fmt.Errorf("footfall knows no %s %s, see docs/llvm.md", program, v.Args[0])
		}
		v.command = " " + v.Args[0]
		return do(v.Args[1:])
	})
}
