// Package tool stands in for go tool covdata: it takes its arguments and writes what it writes, but for what -v
// tells.
package tool

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"strings"

	"footfall/formats/gocover"
	"footfall/input"
)

// An Invocation is one call of the program.
type Invocation struct {
	Args           []string // without the program's name
	Stdout, Stderr io.Writer
}

// A usageError ends the program with the help of a command, or of all.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

// errReported has been told.
var errReported = errors.New("already reported")

// run is one call under way.
type run struct {
	*Invocation
	command        string
	flags          *flag.FlagSet
	dirs, out, pkg string
	combine        bool
	live           bool                  // debugdump: functions that ran only
	wanted         func(pkg string) bool // nil: all
	general        bool                  // a wrong use is told with the help of all commands
	operation      operation
}

// An operation is what a command does with the data, in this order: for each pod its meta-data, the counters of each
// function in each file, the end of these, and each function of each package that is wanted.
type operation interface {
	pod(p *pod) error
	file(name string, directory int, arguments map[string]string)
	counters(f *gocover.FunctionCounters) error
	endCounters()
	pkg(index int, p *gocover.Package) error
	function(pkg, index int, f *gocover.FuncDesc) error
	endPod() error
	finish() error
}

// Run is go tool covdata. It returns the exit status.
func Run(v *Invocation) int {
	r := &run{Invocation: v}
	err := r.run()
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		r.usage(usage.message)
		return 2
	case err != errReported:
		fmt.Fprintf(v.Stderr, "error: %v\n", err)
	}
	return 1
}

func (r *run) run() error {
	if len(r.Args) == 0 {
		r.general = true
		return &usageError{"missing command selector"}
	}
	r.command = r.Args[0]
	if !isCommand(r.command) {
		r.general = true
		return &usageError{fmt.Sprintf("unknown command selector %q", r.command)}
	}
	r.define()
	if err := r.flags.Parse(r.Args[1:]); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(r.Stderr, err)
		}
		return &usageError{}
	}
	if r.flags.NArg() > 0 {
		return &usageError{"unknown extra arguments"}
	}
	r.wanted = packages(r.pkg)
	var err error
	switch r.command {
	case "merge", "subtract", "intersect":
		r.operation, err = r.newMerge()
	case "debugdump":
		r.operation, err = r.newDebugDump()
	default:
		r.operation, err = r.newDump()
	}
	if err != nil {
		return err
	}
	pods, err := collectPods(strings.Split(r.dirs, ","))
	if err != nil {
		return fmt.Errorf("reading inputs: %v", err)
	}
	if len(pods) == 0 {
		r.warn("no applicable files found in input directories")
	}
	for _, p := range pods {
		if err := r.visit(p); err != nil {
			return err
		}
	}
	return r.operation.finish()
}

func isCommand(name string) bool {
	switch name {
	case "textfmt", "percent", "pkglist", "func", "merge", "subtract", "intersect", "debugdump":
		return true
	}
	return false
}

// define has all the flags that Go's has: the help lists them.
func (r *run) define() {
	f := flag.NewFlagSet("covdata", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Int("v", 0, "Verbose trace output level")
	f.Bool("h", false, "Panic on fatal errors (for stack trace)")
	f.Bool("hw", false, "Panic on warnings (for stack trace)")
	f.StringVar(&r.dirs, "i", "", "Input dirs to examine (comma separated)")
	f.StringVar(&r.pkg, "pkg", "", "Restrict output to package(s) matching specified package pattern.")
	f.String("cpuprofile", "", "Write CPU profile to specified file")
	f.String("memprofile", "", "Write memory profile to specified file")
	f.Int("memprofilerate", 0, "Set memprofile sampling rate to value")
	switch r.command {
	case "textfmt", "percent":
		f.StringVar(&r.out, "o", "", "Output text format to file")
	case "debugdump":
		f.BoolVar(&r.live, "live", false, "Select only live (executed) functions for dump output.")
	case "merge":
		f.BoolVar(&r.combine, "pcombine", false, "Combine profiles derived from distinct program executables")
		fallthrough
	case "subtract", "intersect":
		f.StringVar(&r.out, "o", "", "Output directory to write")
	}
	r.flags = f
}

func (r *run) warn(format string, args ...any) {
	fmt.Fprintf(r.Stderr, "warning: "+format+"\n", args...)
}

// packages makes of patterns, in which ... is any text, what tells whether a package is one of them; nil: all are.
func packages(patterns string) func(string) bool {
	if patterns == "" {
		return nil
	}
	var list []*regexp.Regexp
	for _, p := range strings.Split(patterns, ",") {
		if p == "" {
			continue
		}
		p = regexp.QuoteMeta(p)
		if before, ok := strings.CutSuffix(p, `/\.\.\.`); ok {
			p = before + `(/\.\.\.)?` // net/... is net, too
		}
		if re, err := regexp.Compile("^" + strings.ReplaceAll(p, `\.\.\.`, ".*") + "$"); err == nil {
			list = append(list, re)
		}
	}
	return func(name string) bool {
		for _, re := range list {
			if re.MatchString(name) {
				return true
			}
		}
		return false
	}
}

// broken is how Go's reader tells of a file that it cannot read.
func broken(format string, args ...any) error {
	return fmt.Errorf("error: "+format+"\n", args...)
}

const mostFile = 1 << 30

func read(name string) ([]byte, error) {
	var owners *input.Owners
	b, _, err := owners.ReadInto(nil, name, min(mostFile, input.Most()))
	return b, err
}

func (r *run) visit(p *pod) error {
	b, err := read(p.metaFile)
	if err != nil {
		return broken("unable to open meta-file %s", p.metaFile)
	}
	if p.meta, err = gocover.ReadMeta(b); err != nil {
		return broken("decoding meta-file %s: %s", p.metaFile, err)
	}
	o := r.operation
	if err := o.pod(p); err != nil {
		return err
	}
	for i, name := range p.files {
		b, err := read(name)
		if err != nil {
			return broken("opening counter data file %s: %s", name, err)
		}
		c, err := gocover.ReadCounters(b)
		if err != nil && (c == nil || len(c.Segments) == 0) {
			return broken("reading counter data file %s: %s", name, err)
		}
		run := &c.Segments[0] // others Go's does not read
		o.file(name, p.origins[i], run.Arguments)
		for k := range run.Functions {
			if err := o.counters(&run.Functions[k]); err != nil {
				return err
			}
		}
	}
	o.endCounters()
	for i := range p.meta.Packages {
		pkg := &p.meta.Packages[i]
		if r.wanted != nil && !r.wanted(pkg.Path) {
			continue
		}
		if err := o.pkg(i, pkg); err != nil {
			return err
		}
		for k := range pkg.Functions {
			if err := o.function(i, k, &pkg.Functions[k]); err != nil {
				return err
			}
		}
	}
	return o.endPod()
}
