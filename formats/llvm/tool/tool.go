// Package tool stands in for llvm-profdata and llvm-cov: it takes their arguments and writes what they write. It knows
// llvm-profdata merge (binary), and llvm-cov export -format=lcov; an option that it does not know is an error.
package tool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"footfall/formats/llvm"
	"footfall/input"
)

// An Invocation is one call of a program.
type Invocation struct {
	Args    []string
	Version int // of LLVM, 0: the newest that wrote the data
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
}

// run does something, says what went wrong, and returns the exit status.
func (v *Invocation) run(do func() error) int {
	if err := do(); err != nil {
		fmt.Fprintf(v.Stderr, "error: %v\n", err)
		return 1
	}
	return 0
}

// An option is one of those that take a value, or not.
type option struct {
	value func(string) error // nil: there is none
	flag  *bool
}

// parse takes options with one or two dashes, values after = or as the next argument, and returns what is left.
func (v *Invocation) parse(args []string, options map[string]option) (rest []string, err error) {
	options["llvm-version"] = option{value: func(s string) (err error) {
		if v.Version, err = strconv.Atoi(s); err != nil || v.Version < 9 || v.Version > 23 {
			err = fmt.Errorf("--llvm-version=%s: known are 9 to 23", s)
		}
		return err
	}}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			return append(rest, args...), nil
		}
		if len(arg) < 2 || arg[0] != '-' {
			rest = append(rest, arg)
			continue
		}
		name, value, joined := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		o, known := options[name]
		switch {
		case !known:
			return nil, fmt.Errorf("%s: footfall does not know this option, see docs/llvm.md", arg)
		case o.value == nil:
			if o.flag != nil {
				*o.flag = !joined || value == "true" || value == "1"
			}
			continue
		case !joined && len(args) == 0:
			return nil, fmt.Errorf("%s needs a value", arg)
		case !joined:
			value, args = args[0], args[1:]
		}
		if err := o.value(value); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

func text(to *string) option {
	return option{value: func(s string) error { *to = s; return nil }}
}

func ignored() option { return option{value: func(string) error { return nil }} }

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
	return v.run(func() error {
		if len(v.Args) == 0 || v.Args[0] != "merge" {
			return errors.New("footfall knows llvm-profdata merge, see docs/llvm.md")
		}
		return v.merge(v.Args[1:])
	})
}

// A weighted input is a file, or a directory of files, whose counts count so many times.
type weighted struct {
	name   string
	weight uint64
}

type merging struct {
	inputs     []weighted
	out, mode  string
	sparse     bool
	version    int // the newest that wrote an input
	reader     llvm.Reader
	indexer    llvm.Indexer
	bad, total int
}

func (v *Invocation) merge(args []string) error {
	m := merging{out: "-", mode: "any"}
	list := func(name string) error { return m.list(name, v.Stdin) }
	rest, err := v.parse(args, map[string]option{
		"sparse": {flag: &m.sparse}, "o": text(&m.out), "output": text(&m.out), "f": {value: list}, "input-files": {value: list},
		"weighted-input": {value: m.weighted}, "failure-mode": text(&m.mode), "num-threads": ignored(), "j": ignored(),
		"instr": {}, "binary": {},
	})
	if err != nil {
		return err
	}
	for _, name := range rest {
		m.inputs = append(m.inputs, weighted{name, 1})
	}
	if len(m.inputs) == 0 {
		return errors.New("no input files specified. See llvm-profdata merge -help")
	}
	if m.mode != "any" && m.mode != "all" {
		return fmt.Errorf("--failure-mode=%s: footfall knows any and all", m.mode)
	}
	for _, in := range m.inputs {
		if err := m.input(in, v.Stderr); err != nil {
			return err
		}
	}
	if m.bad == m.total {
		return errors.New("no profile can be merged")
	}
	version := v.Version
	if version == 0 {
		version = max(m.version, 9)
	}
	b := m.indexer.Index(version, m.sparse)
	if m.out == "-" {
		_, err := v.Stdout.Write(b)
		return err
	}
	return os.WriteFile(m.out, b, 0o666)
}

// weighted takes WEIGHT,NAME.
func (m *merging) weighted(s string) error {
	number, name, ok := strings.Cut(s, ",")
	weight, err := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil || weight == 0 {
		return fmt.Errorf("input weight must be a positive integer: %s", s)
	}
	m.inputs = append(m.inputs, weighted{name, weight})
	return nil
}

// list reads names, one a line; WEIGHT,NAME and # comments.
func (m *merging) list(name string, stdin io.Reader) error {
	b, err := []byte(nil), error(nil)
	if name == "-" {
		b, err = io.ReadAll(input.Limit(stdin))
	} else {
		b, err = input.ReadFile(name, input.Most())
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
		case strings.Contains(line, ","):
			if err := m.weighted(line); err != nil {
				return err
			}
		default:
			m.inputs = append(m.inputs, weighted{line, 1})
		}
	}
	return nil
}

// input adds a file, or all files below a directory.
func (m *merging) input(in weighted, stderr io.Writer) error {
	info, err := input.Stat(in.name)
	if err == nil && info.IsDir() {
		return filepath.WalkDir(in.name, func(name string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			return m.input(weighted{name, in.weight}, stderr)
		})
	}
	m.total++
	if err := m.file(in); err != nil {
		m.bad++
		if err = fmt.Errorf("%s: %w", in.name, err); m.mode == "any" {
			return err
		}
		fmt.Fprintf(stderr, "warning: %v\n", err)
	}
	return nil
}

func (m *merging) file(in weighted) error {
	b, err := input.ReadFile(in.name, input.Most())
	if err != nil {
		return withoutPath(err)
	}
	list, err := m.reader.Read(b)
	if err != nil {
		return err
	}
	for _, p := range list {
		m.version = max(m.version, newest(p))
		p.Scale(in.weight)
		others, err := m.indexer.Add(p)
		if err != nil {
			return err
		}
		if len(others) > 0 {
			return fmt.Errorf("%s: %w", others[0], llvm.ErrOtherNumber)
		}
	}
	return nil
}

func withoutPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// Cov is llvm-cov, but for llvm-cov gcov. It returns the exit status.
func Cov(v *Invocation) int {
	return v.run(func() error {
		if len(v.Args) == 0 || v.Args[0] != "export" {
			return errors.New("footfall knows llvm-cov export -format=lcov, see docs/llvm.md")
		}
		return v.export(v.Args[1:])
	})
}

func (v *Invocation) export(args []string) error {
	var objects []string
	var ignore []*regexp.Regexp
	var o llvm.LcovOptions
	format, profile, unify := "text", "", true
	rest, err := v.parse(args, map[string]option{
		"format": text(&format), "instr-profile": text(&profile), "unify-instantiations": {flag: &unify},
		"object": {value: func(s string) error { objects = append(objects, s); return nil }},
		"ignore-filename-regex": {value: func(s string) error {
			re, err := regexp.CompilePOSIX(s)
			ignore = append(ignore, re)
			return err
		}},
		"summary-only": {flag: &o.SummaryOnly}, "skip-functions": {flag: &o.SkipFunctions}, "skip-branches": {flag: &o.SkipBranches},
		"skip-expansions": {}, "num-threads": ignored(), "j": ignored(), "use-color": {},
	})
	switch {
	case err != nil:
		return err
	case format != "lcov":
		return fmt.Errorf("-format=%s: footfall knows lcov, see docs/llvm.md", format)
	case profile == "":
		return errors.New("-instr-profile is missing")
	}
	if len(rest) > 0 { // also beside -object
		objects, rest = append(rest[:1:1], objects...), rest[1:]
	}
	if len(objects) == 0 {
		return errors.New("no filenames specified")
	}
	c, err := v.load(objects, profile)
	if err != nil {
		return err
	}
	o.UnifyInstances = v.Version >= 21 && unify
	for _, name := range c.Files() {
		if !slices.ContainsFunc(ignore, func(re *regexp.Regexp) bool { return re.MatchString(name) }) && selected(rest, name) {
			o.Files = append(o.Files, name)
		}
	}
	var out bytes.Buffer
	if err := c.WriteLcov(&out, o); err != nil {
		return err
	}
	_, err = v.Stdout.Write(out.Bytes())
	return err
}

// selected tells whether a file is one of those that are named, or in a directory that is; all are if none is named.
func selected(names []string, file string) bool {
	return len(names) == 0 || slices.ContainsFunc(names, func(name string) bool {
		abs, err := filepath.Abs(name)
		return name == file || err == nil && (abs == file || strings.HasPrefix(file, abs+"/"))
	})
}

func (v *Invocation) load(objects []string, profile string) (*llvm.Coverage, error) {
	b, err := input.ReadFile(profile, input.Most())
	if err != nil {
		return nil, fmt.Errorf("%s: Could not read profile data!: %w", profile, withoutPath(err))
	}
	list, err := llvm.Read(b)
	if err != nil {
		return nil, fmt.Errorf("failed to load coverage: '%s': %w", profile, err)
	}
	var x llvm.Indexer
	for _, p := range list {
		if v.Version == 0 {
			v.Version = newest(p)
		}
		if _, err := x.Add(p); err != nil {
			return nil, fmt.Errorf("failed to load coverage: '%s': %w", profile, err)
		}
	}
	if v.Version == 0 {
		v.Version = 23
	}
	var binaries []*llvm.Binary
	for _, name := range objects {
		f, err := input.Open(name)
		if err != nil {
			return nil, fmt.Errorf("failed to load coverage: '%s': %w", name, withoutPath(err))
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return nil, err
		}
		found, err := llvm.ReadBinaries(name, f, info.Size())
		if err != nil && (!errors.Is(err, llvm.ErrNoMapping) || len(objects) == 1) {
			return nil, fmt.Errorf("failed to load coverage: '%s': %w", name, err)
		}
		binaries = append(binaries, found...)
	}
	c := llvm.Load(binaries, x.Profile(), llvm.Rules{Version: v.Version})
	if n := len(c.Mismatches); n > 0 {
		fmt.Fprintf(v.Stderr, "warning: %d functions have mismatched data\n", n)
	}
	return c, nil
}
