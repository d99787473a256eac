package tool

import (
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"footfall/formats/gocover"
)

// A merge is one of the commands that write data: merge, subtract, intersect.
type merge struct {
	*run
	adder
	p         *pod
	counts    map[functionKey][]uint32 // of the pod
	packages  map[string]*merged
	order     []*merged
	current   *merged
	directory int                  // that is being read
	found     map[functionKey]bool // intersect: functions of it; nil: all
	arguments arguments
}

// A merged package is one to be written.
type merged struct {
	of     gocover.Package
	counts map[uint32][]uint32 // by function
	index  map[gocover.Hash]uint32
}

// arguments are what all runs say of themselves.
type arguments struct {
	known    bool
	args     []string
	os, arch string
}

func (r *run) newMerge() (operation, error) {
	r.general = r.command != "merge"
	switch {
	case r.dirs == "":
		return nil, &usageError{"select input directories with '-i' option"}
	case r.command == "subtract" && strings.Count(r.dirs, ",") != 1:
		return nil, &usageError{"supply exactly two input dirs for subtract operation"}
	case r.out == "":
		return nil, &usageError{"select output directory with '-o' option"}
	}
	return &merge{run: r, adder: adder{relaxed: r.command == "merge"}, packages: make(map[string]*merged), directory: -1}, nil
}

func (m *merge) pod(p *pod) error {
	m.p, m.counts = p, make(map[functionKey][]uint32)
	if m.command == "intersect" {
		m.found = make(map[functionKey]bool)
	}
	return m.program(p.metaFile, p.meta)
}

func (m *merge) file(_ string, directory int, args map[string]string) {
	if m.command == "merge" {
		m.arguments.add(args)
		return
	}
	if directory == m.directory {
		return
	}
	switch {
	case directory == 0:
		m.found = nil
	case m.command == "intersect":
		m.prune()
		m.found = make(map[functionKey]bool)
	}
	m.directory = directory
}

// argumentsOf are those of the program that counted.
func argumentsOf(args map[string]string) (list []string) {
	if n, err := strconv.Atoi(args["argc"]); err == nil && n >= 0 && n <= len(args) {
		for i := range n {
			list = append(list, args["argv"+strconv.Itoa(i)])
		}
	}
	return list
}

func (a *arguments) add(args map[string]string) {
	list := argumentsOf(args)
	if !a.known {
		*a = arguments{true, list, args["GOOS"], args["GOARCH"]}
		return
	}
	if !slices.Equal(a.args, list) {
		a.args = nil
	}
	if a.os != args["GOOS"] {
		a.os = ""
	}
	if a.arch != args["GOARCH"] {
		a.arch = ""
	}
}

func (a *arguments) all() map[string]string {
	all := make(map[string]string)
	if len(a.args) > 0 {
		all["argc"] = strconv.Itoa(len(a.args))
		for i, arg := range a.args {
			all["argv"+strconv.Itoa(i)] = arg
		}
	}
	if a.os != "" {
		all["GOOS"] = a.os
	}
	if a.arch != "" {
		all["GOARCH"] = a.arch
	}
	return all
}

// prune takes out functions that the directory before has not called.
func (m *merge) prune() {
	if m.found == nil {
		return
	}
	maps.DeleteFunc(m.counts, func(k functionKey, _ []uint32) bool { return !m.found[k] })
	m.found = nil
}

func (m *merge) counters(f *gocover.FunctionCounters) error {
	if m.command == "merge" || m.directory == 0 {
		return m.added(&m.adder, m.counts, f)
	}
	to, ok := m.counts[keyOf(f)]
	if !ok {
		return nil
	}
	if m.found != nil {
		m.found[keyOf(f)] = true
	}
	for i, n := range f.Counts[:min(len(f.Counts), len(to))] {
		if (n != 0) == (m.command == "subtract") {
			to[i] = 0
		}
	}
	return nil
}

func (m *merge) endCounters() {
	if m.command == "intersect" {
		m.prune()
	}
}

func (m *merge) pkg(_ int, p *gocover.Package) error {
	if m.current = m.packages[p.Path]; m.current == nil {
		m.current = &merged{of: *p, counts: make(map[uint32][]uint32), index: make(map[gocover.Hash]uint32)}
		if m.combine {
			m.current.of.Functions = nil
		}
		m.packages[p.Path] = m.current
		m.order = append(m.order, m.current)
	}
	return nil
}

func (m *merge) function(pkg, index int, f *gocover.FuncDesc) error {
	counts, called := m.counts[functionKey{uint32(pkg), uint32(index)}]
	at := uint32(index)
	if m.combine {
		hash := f.Hash()
		known := false
		if at, known = m.current.index[hash]; !known {
			at = uint32(len(m.current.of.Functions))
			m.current.index[hash] = at
			m.current.of.Functions = append(m.current.of.Functions, *f)
		}
	}
	if !called {
		return nil
	}
	if to, ok := m.current.counts[at]; ok {
		over, err := m.add(to, counts)
		if over {
			m.warn("uint32 overflow during counter merge")
		}
		return err
	}
	m.current.counts[at] = counts
	return nil
}

func (m *merge) endPod() error {
	if m.combine {
		return nil
	}
	hash := m.p.meta.Hash
	var err error
	if m.wanted != nil {
		hash, err = m.writeMeta()
	} else {
		err = m.copyMeta()
	}
	if err != nil {
		return err
	}
	if err := m.writeCounters(hash); err != nil {
		return err
	}
	m.packages, m.order = make(map[string]*merged), nil
	m.mode, m.granularity = 0, 0
	return nil
}

func (m *merge) finish() error {
	if !m.combine {
		return nil
	}
	for _, p := range m.order {
		p.of.Bytes = p.of.Encode()
	}
	hash, err := m.writeMeta()
	if err != nil {
		return err
	}
	return m.writeCounters(hash)
}

// copyMeta copies the meta-data of the pod.
func (m *merge) copyMeta() error {
	b, err := read(m.p.metaFile)
	if err != nil {
		return fmt.Errorf("opening input meta-data file %s: %v", m.p.metaFile, err)
	}
	mode := os.FileMode(0o666)
	if info, err := os.Stat(m.p.metaFile); err == nil {
		mode = info.Mode()
	}
	name := filepath.Join(m.out, filepath.Base(m.p.metaFile))
	if err := os.WriteFile(name, b, mode); err != nil {
		return fmt.Errorf("opening output meta-data file %s: %v", name, err)
	}
	return nil
}

// writeMeta writes meta-data of the packages so far.
func (m *merge) writeMeta() (gocover.Hash, error) {
	all, one := fnv.New128a(), fnv.New128a()
	meta := &gocover.Meta{Mode: m.mode, Granularity: m.granularity}
	for _, p := range m.order {
		one.Reset()
		one.Write(p.of.Bytes)
		all.Write(one.Sum(nil))
		meta.Packages = append(meta.Packages, p.of)
	}
	meta.Hash = gocover.Hash(all.Sum(nil))
	name := filepath.Join(m.out, gocover.MetaName(meta.Hash))
	if err := os.WriteFile(name, meta.Encode(), 0o666); err != nil {
		return meta.Hash, fmt.Errorf("unable to open output meta-data file %s: %v", name, err)
	}
	return meta.Hash, nil
}

// writeCounters writes those of the packages so far, as of process 0.
func (m *merge) writeCounters(hash gocover.Hash) error {
	s := gocover.CounterSegment{Arguments: m.arguments.all()}
	for i, p := range m.order {
		for _, f := range slices.Sorted(maps.Keys(p.counts)) {
			s.Functions = append(s.Functions, gocover.FunctionCounters{Package: uint32(i), Function: f, Counts: p.counts[f]})
		}
	}
	name := filepath.Join(m.out, gocover.CountersName(hash, 0, time.Now().UnixNano()))
	m.arguments = arguments{}
	if err := os.WriteFile(name, s.Encode(hash), 0o666); err != nil {
		return fmt.Errorf("opening counter data file %s: %v", name, err)
	}
	return nil
}
