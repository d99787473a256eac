// Package tool stands in for go tool covdata: textfmt, percent, func, pkglist and merge.
package tool

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"footfall/formats/gocover"
	"footfall/input"
)

// An Invocation is one call.
type Invocation struct {
	Args           []string
	Stdout, Stderr io.Writer
}

// A usageError is one of the command line.
type usageError struct{ error }

// Run does what is asked for, says what went wrong, and returns the exit status.
func Run(v *Invocation) int {
	err := v.run()
	if err == nil {
		return 0
	}
	fmt.Fprintf(v.Stderr, "error: %v\n", err)
	if errors.As(err, new(usageError)) {
		return 2
	}
	return 1
}

type options struct {
	in, out, packages string
	combine           bool
}

func (v *Invocation) run() error {
	if len(v.Args) == 0 {
		return usageError{errors.New("missing command selector")}
	}
	var o options
	flags := flag.NewFlagSet("covdata", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.in, "i", "", "")
	flags.StringVar(&o.packages, "pkg", "", "")
	command := v.Args[0]
	switch command {
	case "merge":
		flags.BoolVar(&o.combine, "pcombine", false, "")
		fallthrough
	case "textfmt", "percent":
		flags.StringVar(&o.out, "o", "", "")
	case "func", "pkglist":
	default:
		return usageError{fmt.Errorf("footfall knows no covdata %s: textfmt, percent, func, pkglist and merge, see docs/go.md", command)}
	}
	if err := flags.Parse(v.Args[1:]); err != nil {
		return usageError{err}
	}
	switch {
	case flags.NArg() > 0:
		return usageError{errors.New("unknown extra arguments")}
	case o.in == "":
		return usageError{errors.New("select input directories with '-i' option")}
	case command == "textfmt" && o.out == "":
		return usageError{errors.New("select output file name with '-o' option")}
	case command == "merge" && o.out == "":
		return usageError{errors.New("select output directory with '-o' option")}
	}
	programs, err := v.read(strings.Split(o.in, ","))
	if err != nil {
		return err
	}
	if command == "merge" {
		return v.merge(programs, &o)
	}
	return v.print(command, programs, &o)
}

// A program is one with its files.
type program struct {
	name     string // of the covmeta file
	bytes    []byte
	pod      *gocover.Pod
	segments []gocover.Segment
}

// read reads the programs of directories, by the names of their covmeta files.
func (v *Invocation) read(dirs []string) ([]program, error) {
	metas := make(map[string]string) // by tag
	counters := make(map[string][]string)
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("reading inputs: %w", err)
		}
		for _, e := range entries {
			name := filepath.Join(dir, e.Name())
			tag := gocover.Tag(name)
			switch {
			case e.IsDir() || tag == "":
			case gocover.IsCounters(name):
				counters[tag] = append(counters[tag], name)
			case metas[tag] == "":
				metas[tag] = name
			}
		}
	}
	if len(metas) == 0 {
		fmt.Fprintln(v.Stderr, "warning: no applicable files found in input directories")
	}
	var list []program
	for tag, name := range metas {
		p := program{name: name}
		b, err := input.ReadFile(name, input.Most())
		if err != nil {
			return nil, err
		}
		meta, err := gocover.ReadMeta(b)
		if err != nil {
			return nil, fmt.Errorf("decoding meta-file %s: %w", name, err)
		}
		p.bytes, p.pod = b, gocover.NewPod(meta)
		for _, name := range counters[tag] {
			if err := v.counters(&p, name); err != nil {
				return nil, err
			}
		}
		if p.pod.Overflown {
			fmt.Fprintln(v.Stderr, "warning: uint32 overflow during counter merge")
		}
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b program) int { return strings.Compare(a.name, b.name) })
	return list, nil
}

func (v *Invocation) counters(p *program, name string) error {
	b, err := input.ReadFile(name, input.Most())
	if err != nil {
		return err
	}
	c, err := gocover.ReadCounters(b)
	if err != nil {
		return fmt.Errorf("reading counter data file %s: %w", name, err)
	}
	p.segments = append(p.segments, c.Segments...)
	for _, err := range p.pod.Add(c) {
		fmt.Fprintf(v.Stderr, "warning: %s: %v: left out\n", name, err)
	}
	return nil
}

// wanted makes the test of -pkg: patterns, of which one must match, ... is anything.
func wanted(patterns string) func(string) bool {
	if patterns == "" {
		return nil
	}
	var list []*regexp.Regexp
	for p := range strings.SplitSeq(patterns, ",") {
		if p == "" {
			continue
		}
		re := strings.ReplaceAll(regexp.QuoteMeta(p), `\.\.\.`, `.*`)
		if begin, ok := strings.CutSuffix(re, `/.*`); ok {
			re = begin + `(/.*)?`
		}
		list = append(list, regexp.MustCompile(`^`+re+`$`))
	}
	return func(path string) bool {
		return slices.ContainsFunc(list, func(re *regexp.Regexp) bool { return re.MatchString(path) })
	}
}

func (v *Invocation) print(command string, programs []program, o *options) error {
	p := gocover.Profile{Strict: command == "textfmt"}
	for _, program := range programs {
		if err := p.Add(program.name, program.pod, wanted(o.packages)); err != nil {
			return err
		}
	}
	if o.out != "" {
		var b bytes.Buffer
		if len(programs) > 0 {
			if err := p.WriteText(&b); err != nil {
				return err
			}
		}
		if err := os.WriteFile(o.out, b.Bytes(), 0o666); err != nil {
			return err
		}
	}
	switch {
	case len(programs) == 0:
	case command == "percent":
		return p.WritePercent(v.Stdout)
	case command == "func":
		return p.WriteFunctions(v.Stdout)
	case command == "pkglist":
		for _, path := range p.Packages() {
			fmt.Fprintln(v.Stdout, path)
		}
	}
	return nil
}

func (v *Invocation) merge(programs []program, o *options) error {
	w := gocover.Writer{Combine: o.combine}
	for i, p := range programs {
		if err := w.Add(p.name, p.pod, p.bytes, p.segments, wanted(o.packages)); err != nil {
			return err
		}
		if o.combine && i+1 < len(programs) {
			continue
		}
		if err := write(&w, o.out); err != nil {
			return err
		}
		w = gocover.Writer{}
	}
	return nil
}

func write(w *gocover.Writer, dir string) error {
	meta, hash := w.Meta()
	if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("covmeta.%x", hash)), meta, 0o666); err != nil {
		return fmt.Errorf("unable to open output meta-data file %w", err)
	}
	name := fmt.Sprintf("covcounters.%x.0.%d", hash, time.Now().UnixNano())
	return os.WriteFile(filepath.Join(dir, name), w.Counters(hash), 0o666)
}
