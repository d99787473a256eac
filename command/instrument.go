package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"footfall/compile/instrument"
	"footfall/demangle"
	"footfall/input"
	"footfall/output"
	"footfall/report/source"
)

func newInstrumentCommand() *cobra.Command {
	var o instrumentOptions
	cmd := &cobra.Command{
		Use:   "instrument FILE.s... | --runtime FILE",
		Short: "Make a compiler's assembly count its calls",
		Long: `Instrument rewrites assembly that gcc -S or clang -S made, so that each function
counts how often it is entered, and each call how often it calls. FILE.s itself is
rewritten unless -o names another file; "-" is standard input or output.
Assembly for x86-64, i386 and arm64 is known.

The program must be linked with the runtime, an object that --runtime makes with
the C compiler $CC (default: cc) or the one that --cc names. At its end the program
writes a table of functions, calls, seconds and callers to the file stats, and
if the environment variable FOOTFALL_OUT names a file, all counts to that.

footfall cc does all of this in one step, for whole builds, and has the counts in
a file while the program runs.

Counted are functions that exist in the assembly, so not those that were inlined.
What cannot be treated safely is left as it is and said on standard error:
inline assembly, naked functions, files that no compiler made. A jump through a
register is a call or a switch; gcc -S -dp tells, and clang always does. On arm64
compile with -fno-ipa-ra when the compiler is gcc.

--update=thread, for --runtime too, gives each thread its own counters. It is for
dynamically linked programs on x86-64, not for shared libraries. --update=split is
the fastest for tiny functions, in programs with one thread on x86-64; counts of
signal handlers may be lost.`,
		Example: `  gcc -S someprogram.c
  footfall instrument someprogram.s
  gcc -c someprogram.s
  footfall instrument --runtime count.o
  gcc someprogram.o count.o -o someprogram
  ./someprogram
  cat stats`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 && o.runtime == "":
				return errors.New("instrument needs the name of an assembly file, or --runtime")
			case len(args) > 1 && o.output != "":
				return errors.New("-o is for one file")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "", "write to `FILE`")
	f.StringVar(&o.update, "update", "plain", "how counters are incremented: `plain`; thread or atomic, which are exact with threads; split, for tiny functions and one thread")
	f.StringArrayVar(&o.choice.only, "only", nil, "count only in sources and functions that match `GLOB`; may be repeated")
	f.StringArrayVar(&o.choice.not, "not", nil, "do not count in sources and functions that match `GLOB`; may be repeated")
	f.StringVar(&o.cpu, "cpu", "", "the assembly is for `CPU`: amd64, 386 or arm64 (default: what it looks like)")
	f.StringVar(&o.runtime, "runtime", "", "make the runtime: an object, or its source if `FILE` ends in .c")
	f.StringVar(&o.cc, "cc", "", "`COMMAND` that compiles the runtime, with flags such as -m32 (default: $CC, else cc)")
	_ = cmd.RegisterFlagCompletionFunc("update", cobra.FixedCompletions([]string{"plain", "atomic", "thread", "split"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("cpu", cobra.FixedCompletions([]string{"amd64", "386", "arm64"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

type instrumentOptions struct {
	output, update, cpu, runtime, cc string
	choice                           choice
}

func (o *instrumentOptions) run(cmd *cobra.Command, args []string) error {
	update, err := instrument.ParseUpdate(o.update)
	if err != nil {
		return usageError(err)
	}
	if err := o.choice.check(); err != nil {
		return usageError(err)
	}
	if o.runtime != "" {
		if err := o.makeRuntime(update); err != nil {
			return err
		}
	}
	for _, name := range args {
		if err := o.file(name, update, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()); err != nil {
			return err
		}
	}
	return nil
}

func readGiven(name string) ([]byte, error) {
	f, err := input.OpenGiven(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return input.ReadAll(f, name, input.MostData)
}

// file rewrites one file.
func (o *instrumentOptions) file(name string, update instrument.ProfileUpdate, stdin io.Reader, stdout, stderr io.Writer) error {
	var src []byte
	var err error
	if name == "-" {
		src, err = io.ReadAll(stdin)
	} else {
		src, err = readGiven(name)
	}
	if err != nil {
		return err
	}
	out, r, err := instrument.Rewrite(src, instrument.Options{CPU: o.cpu, Update: update, Select: o.choice.selector()})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, p := range r.Problems {
		fmt.Fprintf(stderr, "footfall: %s:%d: %s\n", name, p.Line, p.Msg)
	}
	if r.Functions == 0 {
		fmt.Fprintf(stderr, "footfall: %s: no function to count; left as it is\n", name)
	}
	to := o.output
	if to == "" {
		to = name
	}
	if to == "-" {
		_, err := stdout.Write(out)
		return err
	}
	return output.WriteBytes(to, out)
}

// makeRuntime makes the runtime that writes stats.
func (o *instrumentOptions) makeRuntime(update instrument.ProfileUpdate) error {
	threads := map[instrument.ProfileUpdate]int{instrument.Thread: 1}[update]
	signals := map[instrument.ProfileUpdate]int{instrument.Split: 1}[update]
	if strings.HasSuffix(o.runtime, ".c") {
		macros := fmt.Sprintf("#define FOOTFALL_STATS_ONLY 1\n#define FOOTFALL_THREADS %d\n#define FOOTFALL_SIGNALS %d\n", threads, signals)
		return output.WriteBytes(o.runtime, append([]byte(macros), instrument.Runtime()...))
	}
	cc := o.cc
	if cc == "" {
		cc = os.Getenv("CC")
	}
	if cc == "" {
		cc = "cc"
	}
	words := strings.Fields(cc)
	return compileRuntime(words[0], append(words[1:], "-DFOOTFALL_STATS_ONLY=1", fmt.Sprintf("-DFOOTFALL_THREADS=%d", threads), fmt.Sprintf("-DFOOTFALL_SIGNALS=%d", signals)), o.runtime)
}

// A choice says where to count, by --only and --not.
type choice struct{ only, not []string }

func (c *choice) check() error {
	for _, p := range append(c.only[:len(c.only):len(c.only)], c.not...) {
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf("pattern %q: %w", p, err)
		}
		if _, err := source.NewSources(source.Options{Include: []string{p}}); err != nil {
			return err
		}
	}
	return nil
}

// sourceMatches tells whether a source's path matches one of the patterns.
func sourceMatches(patterns []string, path string) bool {
	if len(patterns) == 0 || path == "" {
		return false
	}
	s, err := source.NewSources(source.Options{Include: patterns})
	if err != nil {
		return false
	}
	here, _ := os.Getwd()
	_, ok := s.Resolve(here, path)
	return ok
}

// source tells whether anything in a source may count.
func (c *choice) source(name string) bool {
	return !sourceMatches(c.not, name) && (len(c.only) == 0 || sourceMatches(c.only, name))
}

// selector tells which functions of a unit count; nil is all.
func (c *choice) selector() func(unit, function string) bool {
	if len(c.only)+len(c.not) == 0 {
		return nil
	}
	var unit string
	var functions func(string) bool
	return func(u, function string) bool {
		if functions == nil || u != unit {
			unit, functions = u, c.functions(u)
		}
		return functions(function)
	}
}

// functions returns the choice of functions in a source.
func (c *choice) functions(source string) func(string) bool {
	if sourceMatches(c.not, source) {
		return func(string) bool { return false }
	}
	all := len(c.only) == 0 || sourceMatches(c.only, source)
	return func(symbol string) bool {
		plain := demangle.Short(symbol)
		matches := func(p string) bool {
			a, _ := path.Match(p, symbol)
			b, _ := path.Match(p, plain)
			return a || b
		}
		if slices.ContainsFunc(c.not, matches) {
			return false
		}
		return all || slices.ContainsFunc(c.only, matches)
	}
}
