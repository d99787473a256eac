//go:build linux

package compile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"footfall/compile/instrument"
	"footfall/output"
)

// ordersVariable has the orders for the step before the assembler, in which the
// compiler runs footfall by the name as.
const ordersVariable = "FOOTFALL_AS"

// Orders say what to do before the assembler runs.
type Orders struct {
	Assembler string
	Update    instrument.ProfileUpdate
	Only, Not []string
	Sources   []string // of the compiler's command line
	CPU       string
	Verbose   bool
	// Compiler and Target are those whose linker is to be run; Linker is its name
	// if the user gave one with a path.
	Compiler, Linker string
	Target           []string
	// Calls: insert what counts calls. Sites: tie sites to their functions.
	Calls, Sites bool
	// KeepR11: the program has its own use for that register.
	KeepR11 bool
}

// ReadOrders returns the orders if a compiler started the program argv as its
// assembler, nil if not.
func ReadOrders(argv []string) (*Orders, error) {
	text := os.Getenv(ordersVariable)
	if path.Base(argv[0]) != "as" || text == "" {
		return nil, nil
	}
	o := new(Orders)
	if !o.parse(text) || o.Assembler == "" {
		return nil, fmt.Errorf("%s is set by footfall cc only", ordersVariable)
	}
	return o, nil
}

// String writes orders as words, each with a value in quotes: JSON takes longer
// than anything else that is done for a small file.
func (o *Orders) String() string {
	var b []byte
	add := func(word string, values ...string) {
		for _, v := range values {
			b = strconv.AppendQuote(append(b, word...), v)
		}
	}
	add("assembler", o.Assembler)
	add("update", o.Update.String())
	add("only", o.Only...)
	add("not", o.Not...)
	add("source", o.Sources...)
	add("cpu", o.CPU)
	if o.Compiler != "" {
		add("compiler", o.Compiler)
		add("linker", o.Linker)
		add("target", o.Target...)
	}
	for word, set := range map[string]bool{"verbose": o.Verbose, "calls": o.Calls, "sites": o.Sites, "keep-r11": o.KeepR11} {
		if set {
			add(word, "")
		}
	}
	return string(b)
}

// parse is the inverse of String, false for other text.
func (o *Orders) parse(text string) bool {
	for text != "" {
		n := strings.IndexByte(text, '"')
		if n < 0 {
			return false
		}
		quoted, err := strconv.QuotedPrefix(text[n:])
		if err != nil {
			return false
		}
		value, err := strconv.Unquote(quoted)
		switch text[:n] {
		case "assembler":
			o.Assembler = value
		case "update":
			if o.Update = instrument.Locked; value != o.Update.String() {
				o.Update, err = instrument.ParseUpdate(value)
			}
		case "only":
			o.Only = append(o.Only, value)
		case "not":
			o.Not = append(o.Not, value)
		case "source":
			o.Sources = append(o.Sources, value)
		case "cpu":
			o.CPU = value
		case "compiler":
			o.Compiler = value
		case "linker":
			o.Linker = value
		case "target":
			o.Target = append(o.Target, value)
		case "verbose":
			o.Verbose = true
		case "calls":
			o.Calls = true
		case "sites":
			o.Sites = true
		case "keep-r11":
			o.KeepR11 = true
		default:
			return false
		}
		if err != nil {
			return false
		}
		text = text[n+len(quoted):]
	}
	return true
}

// Assemble is the assembler: it rewrites the input, runs the real one with args
// and returns its exit status. Where that does not accept what was written, it
// gets the original. Selected tells which functions of a unit count, nil is all.
func (o *Orders) Assemble(args []string, selected func(unit, function string) bool) int {
	_ = os.Unsetenv(ordersVariable)
	p := program{path: o.Assembler, args: append([]string{o.Assembler}, args...), env: os.Environ()}
	at := inputOf(args)
	var src []byte
	var err error
	if at < 0 || args[at] == "-" || args[at] == "/dev/stdin" {
		src, err = io.ReadAll(os.Stdin)
		p.input = src
	} else {
		src, err = readRegular(args[at])
	}
	if err != nil {
		return finish(p.run()) // let the assembler say so, or read what can be read only once
	}
	out, problems, ok := o.rewrite(args, src, selected)
	if !ok {
		return finish(p.run())
	}
	counted := p
	counted.input, counted.catch = out, []int{2}
	if at >= 0 {
		counted.args = slices.Clone(p.args)
		counted.args[1+at] = "-"
	}
	if status, text, err := counted.run(); err == nil && status == 0 {
		for line := range bytes.Lines(text) {
			if !clangOnly(line) && !bytes.HasSuffix(line, []byte("Assembler messages:\n")) {
				_, _ = os.Stderr.Write(line)
			}
		}
		for _, p := range problems {
			fmt.Fprintf(output.Stderr, "footfall: %s\n", p)
		}
		return 0
	}
	status := finish(p.run())
	if status == 0 {
		fmt.Fprintf(output.Stderr, "footfall: %s: the assembler refuses what was changed; left as it is\n", strings.Join(o.Sources, ", "))
	}
	return status
}

// clangOnly tells whether the assembler warns of what its own of Clang does not: of
// sequences for thread-local variables, and of sections for LLVM's linker (C++ modules
// have one). Both are correct.
func clangOnly(line []byte) bool {
	return bytes.Contains(line, []byte("stand-alone `data16' prefix")) || bytes.Contains(line, []byte("unrecognized section type"))
}

// finish returns the exit status of an assembler that ran, or did not.
func finish(status int, _ []byte, err error) int {
	if err != nil {
		fmt.Fprintf(output.Stderr, "footfall: %v\n", err)
		return 1
	}
	return status
}

// inputOf returns the index of the input among the assembler's arguments, -1 if
// that is standard input.
func inputOf(args []string) int {
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
func (o *Orders) rewrite(args []string, src []byte, selected func(unit, function string) bool) (out []byte, problems []string, ok bool) {
	out = src
	if o.Sites {
		out = instrument.TieSites(src)
	}
	ok = o.Sites // not worth a comparison
	if o.Calls {
		if counted, said, some := o.count(args, out, selected); some {
			return counted, said, true
		}
	}
	return out, nil, ok
}

// count returns counted assembly, or false if there is nothing to count, and what
// to say.
func (o *Orders) count(args []string, src []byte, selected func(unit, function string) bool) (out []byte, problems []string, ok bool) {
	cpu := o.CPU
	for _, a := range args {
		switch a {
		case "--32":
			cpu = "386"
		case "--64":
			cpu = "amd64"
		}
	}
	defer func() {
		if bug := recover(); bug != nil { // of ours: the program is compiled all the same
			fmt.Fprintf(output.Stderr, "footfall: %s: left as it is, please report this: %v\n", strings.Join(o.Sources, ", "), bug)
			out, problems, ok = nil, nil, false
		}
	}()
	out, r, err := instrument.Rewrite(src, instrument.Options{CPU: cpu, Update: o.Update, Unit: o.source, Select: selected, Strip: true, KeepR11: o.KeepR11})
	switch {
	case errors.Is(err, instrument.ErrForeign):
		if o.Verbose {
			fmt.Fprintf(output.Stderr, "footfall: %s: %v\n", strings.Join(o.Sources, ", "), err)
		}
		return nil, nil, false
	case err != nil:
		if !errors.Is(err, instrument.ErrInstrumented) {
			fmt.Fprintf(output.Stderr, "footfall: %s: %v\n", strings.Join(o.Sources, ", "), err)
		}
		return nil, nil, false
	}
	if selected != nil && instrument.Merged(r.Unit) && !bytes.Contains(src, []byte("\t.loc\t")) && !bytes.Contains(src, []byte("\t.loc ")) {
		fmt.Fprintf(output.Stderr, "footfall: %s: --only and --not of sources need -g where -flto makes one of several\n", strings.Join(o.Sources, ", "))
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
func (o *Orders) source(recorded string) string {
	for _, s := range o.Sources {
		if path.Base(s) == path.Base(recorded) {
			return s
		}
	}
	return recorded
}
