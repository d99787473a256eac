package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"

	"footfall/instrument"
)

// asVariable has the orders of footfall cc for the assembler's step, in which
// the compiler runs footfall by the name as.
const asVariable = "FOOTFALL_AS"

// asOrders say what to do before the assembler runs.
type asOrders struct {
	Assembler string
	Update    string
	Only, Not []string
	Sources   []string // of the compiler's command line
	CPU       string
	Verbose   bool
	// Calls: insert what counts calls. Sites: tie sites to their functions.
	Calls, Sites bool
}

// runAs is the assembler: it rewrites the input and runs the real one. Where that
// does not accept what was written, it gets the original.
func runAs(args []string) int {
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // it lives for a moment
	var o asOrders
	if err := json.Unmarshal([]byte(os.Getenv(asVariable)), &o); err != nil || o.Assembler == "" {
		fmt.Fprintf(os.Stderr, "footfall: %s is set by footfall cc only\n", asVariable)
		return statusFailed
	}
	_ = os.Unsetenv(asVariable)
	at := asInput(args)
	var src []byte
	var err error
	if at < 0 || args[at] == "-" {
		src, err = io.ReadAll(os.Stdin)
	} else {
		src, err = os.ReadFile(args[at])
	}
	if err != nil {
		// Let the assembler say so.
		return assemble(o.Assembler, args, nil, os.Stderr)
	}
	out, problems, ok := o.rewrite(args, src)
	if ok {
		counted := append([]string(nil), args...)
		if at >= 0 {
			counted[at] = "-"
		}
		var text bytes.Buffer
		if assemble(o.Assembler, counted, out, &text) == 0 {
			for line := range strings.Lines(text.String()) {
				// Clang's sequences for thread-local variables are correct nevertheless.
				if !strings.Contains(line, "stand-alone `data16' prefix") && !strings.HasSuffix(line, "Assembler messages:\n") {
					fmt.Fprint(os.Stderr, line)
				}
			}
			for _, p := range problems {
				fmt.Fprintf(os.Stderr, "footfall: %s\n", p)
			}
			return 0
		}
	}
	status := assemble(o.Assembler, args, src, os.Stderr)
	if ok && status == 0 {
		fmt.Fprintf(os.Stderr, "footfall: %s: the assembler refuses what was changed; left as it is\n", strings.Join(o.Sources, ", "))
	}
	return status
}

// assemble runs the assembler. Input that was read from standard input must be
// given again.
func assemble(program string, args []string, stdin []byte, stderr io.Writer) int {
	cmd := exec.Command(program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), os.Stdout, stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return max(exit.ExitCode(), 1)
	}
	fmt.Fprintf(stderr, "footfall: %v\n", err)
	return statusFailed
}

// asInput returns the index of the input among the assembler's arguments, -1 if
// that is standard input.
func asInput(args []string) int {
	input := -1
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-o" || a == "-I" || a == "--defsym" || a == "-MD" || a == "--MD" || a == "-G":
			i++
		case a == "-" || !strings.HasPrefix(a, "-"):
			input = i
		}
	}
	return input
}

// rewrite returns changed assembly, or false if there is nothing to change, and
// what to say.
func (o *asOrders) rewrite(args []string, src []byte) (out []byte, problems []string, ok bool) {
	out = src
	if o.Sites {
		out = instrument.TieSites(src)
	}
	ok = o.Sites // not worth a comparison
	if o.Calls {
		if counted, said, some := o.count(args, out); some {
			return counted, said, true
		}
	}
	return out, nil, ok
}

// count returns counted assembly, or false if there is nothing to count, and what
// to say.
func (o *asOrders) count(args []string, src []byte) (out []byte, problems []string, ok bool) {
	update, err := instrument.ParseUpdate(o.Update)
	if err != nil {
		return nil, nil, false
	}
	cpu := o.CPU
	for _, a := range args {
		switch a {
		case "--32":
			cpu = "386"
		case "--64":
			cpu = "amd64"
		}
	}
	c := choice{only: o.Only, not: o.Not}
	out, r, err := instrument.Rewrite(src, instrument.Options{CPU: cpu, Update: update, Unit: o.source, Select: c.selector()})
	switch {
	case errors.Is(err, instrument.ErrForeign):
		if o.Verbose {
			fmt.Fprintf(os.Stderr, "footfall: %s: %v\n", strings.Join(o.Sources, ", "), err)
		}
		return nil, nil, false
	case err != nil:
		if !errors.Is(err, instrument.ErrInstrumented) {
			fmt.Fprintf(os.Stderr, "footfall: %s: %v\n", strings.Join(o.Sources, ", "), err)
		}
		return nil, nil, false
	}
	if o.Verbose {
		for _, p := range r.Problems {
			problems = append(problems, fmt.Sprintf("%s: %s", r.Unit, p.Msg))
		}
	}
	return out, problems, r.Functions > 0
}

// source returns the source's name on the command line for the one that the
// compiler recorded, which may lack the directory.
func (o *asOrders) source(recorded string) string {
	for _, s := range o.Sources {
		if filepath.Base(s) == filepath.Base(recorded) {
			return s
		}
	}
	return recorded
}
