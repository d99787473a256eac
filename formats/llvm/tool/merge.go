package tool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"footfall/formats/llvm"
	"footfall/input"
)

// A weighted input is a file, or a directory of files, whose counts count so many times.
type weighted struct {
	name   string
	weight uint64
}

const (
	sampling  = "is about sample profiles"
	memory    = "is about profiles of memory"
	remapping = "gives functions other names"
)

type merging struct {
	*Invocation
	inputs    []weighted
	out, mode string
	sparse    bool
	text      bool
	gcc       bool
	listed    bool // inputs are printed, and that is all
	newest    int  // that wrote an input
	reader    llvm.Reader
	owners    input.Owners
	buf       []byte
	indexer   llvm.Indexer
	bad       int
	hinted    bool
}

func (v *Invocation) merge(args []string) error {
	m := merging{Invocation: v, out: "-", mode: "any"}
	var lists, weights []string
	rest, err := v.parse(args, map[string]option{
		"sparse": {flag: &m.sparse}, "o": text(&m.out), "output": text(&m.out), "f": list(&lists), "input-files": list(&lists),
		"weighted-input": list(&weights), "failure-mode": text(&m.mode), "num-threads": ignored(), "j": ignored(),
		"instr": {}, "binary": {}, "text": {flag: &m.text}, "gcc": {flag: &m.gcc}, "dump-input-file-list": {flag: &m.listed},
		"sample": notHere(sampling), "memory": notHere(memory), "remapping-file": notHere(remapping), "r": notHere(remapping),
		"keep-vtable-symbols": notHere("keeps names of tables of virtual functions"), "write-prev-version": notHere("writes the version before"),
		"supplement-instr-with-sample": notHere(sampling),
	})
	if err != nil {
		return err
	}
	if m.mode != "any" && m.mode != "all" && m.mode != "warn" {
		return usageError(fmt.Sprintf("for the --failure-mode option: Cannot find option named '%s'!", m.mode))
	}
	for _, name := range rest {
		if err := m.expand(weighted{name, 1}); err != nil {
			return err
		}
	}
	for _, s := range weights {
		if err := m.weighted(s); err != nil {
			return err
		}
	}
	for _, name := range lists {
		if err := m.list(name); err != nil {
			return err
		}
	}
	if len(m.inputs) == 0 {
		return fmt.Errorf("no input files specified. See %s -help", v.name())
	}
	if m.listed {
		for _, in := range m.inputs {
			fmt.Fprintf(m.Stdout, "%d,%s\n", in.weight, in.name)
		}
		return nil
	}
	if m.gcc {
		return errors.New("unknown format is specified")
	}
	for _, in := range m.inputs {
		if err := m.file(in); err != nil {
			m.bad++
			fmt.Fprintf(m.Stderr, "warning: %s: %v\n", in.name, err)
		}
	}
	if m.mode != "warn" && (m.bad == len(m.inputs) || m.bad > 0 && m.mode == "any") {
		return errors.New("no profile can be merged")
	}
	return m.write()
}

func (m *merging) write() error {
	if m.Version == 0 {
		m.Version = max(m.newest, llvm.OldestLLVM)
	}
	var b []byte
	if m.text {
		b = m.indexer.Text(m.Version, m.sparse)
	} else {
		b = m.indexer.Index(m.Version, m.sparse)
	}
	if m.out == "-" {
		_, err := m.Stdout.Write(b)
		return err
	}
	if err := os.WriteFile(m.out, b, 0o666); err != nil {
		return fmt.Errorf("%s: %w", m.out, withoutPath(err))
	}
	return nil
}

// weighted takes WEIGHT,NAME.
func (m *merging) weighted(s string) error {
	number, name, ok := strings.Cut(s, ",")
	weight, err := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil || weight == 0 {
		return errors.New("input weight must be a positive integer")
	}
	return m.expand(weighted{name, weight})
}

// list reads names, one a line; WEIGHT,NAME and # comments.
func (m *merging) list(name string) error {
	b, err := []byte(nil), error(nil)
	if name == "-" {
		b, err = io.ReadAll(input.Limit(m.Stdin))
	} else {
		b, err = input.ReadFile(name, input.Most())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, withoutPath(err))
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
			if err := m.expand(weighted{line, 1}); err != nil {
				return err
			}
		}
	}
	return nil
}

// expand adds a file, which must be there, or all files below a directory.
func (m *merging) expand(in weighted) error {
	info, err := input.Stat(in.name)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", in.name, withoutPath(err))
	case !info.IsDir():
		m.inputs = append(m.inputs, in)
		return nil
	}
	return filepath.WalkDir(in.name, func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			m.inputs = append(m.inputs, weighted{name, in.weight})
		}
		return err
	})
}

// errOtherKind is how LLVM says that counts of other kinds are not added.
const errOtherKind = words("Merge IR generated profile with Clang generated profile.")

func (m *merging) file(in weighted) error {
	b, _, err := m.owners.ReadInto(m.buf, in.name, input.Most())
	if err != nil {
		return withoutPath(err)
	}
	m.buf = b[:0] // nothing that is read from it leads into it
	list, err := m.reader.Read(b)
	if err != nil {
		return m.profileError(b, err)
	}
	for _, p := range list {
		m.newest = max(m.newest, newest(p))
		others, err := m.indexer.AddWeighted(p, in.weight)
		if err != nil {
			if errors.Is(err, llvm.ErrOtherKind) && m.version() >= 12 {
				return errOtherKind
			}
			return err
		}
		for _, o := range others {
			m.notAdded(in.name, o)
		}
	}
	return nil
}

// notAdded tells of a function that could not be added to what was before, and goes on without.
func (m *merging) notAdded(file string, o llvm.NotAdded) {
	said := map[llvm.Difference]string{
		llvm.OtherCounters: "function basic block count change detected (counter mismatch)",
		llvm.OtherBitmap:   "function bitmap size change detected (bitmap size mismatch)",
		llvm.Overflow:      "counter overflow",
	}
	fmt.Fprintf(m.Stderr, "%s: %s: %s\n", file, o.Name, said[o.Difference])
	if !m.hinted && o.Difference == llvm.OtherCounters {
		fmt.Fprintln(m.Stderr, "Make sure that all profile data to be merged is generated from the same binary.")
		m.hinted = true
	}
}
