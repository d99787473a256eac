package tool

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"footfall/formats/llvm"
	"footfall/input"
)

// A profileShow is llvm-profdata show.
type profileShow struct {
	*Invocation
	counts, text, targets, sizes, detailed, all, context bool
	below, ids, covered, showVersion, temporal           bool
	function, out, format                                string
	json                                                 bool
	cutoffs                                              []uint64
	top, least                                           uint64

	b        bytes.Buffer
	profiles []*llvm.Profile
	names    llvm.Names
	shown    int
	fewer    int // functions below the cutoff
	sums     llvm.Counts
	hottest  hottest
	sites    [2]siteStatistics
}

// cutoffs of -detailed-summary up to LLVM 14.
var oldCutoffs = []uint64{800_000, 900_000, 950_000, 990_000, 999_000, 999_900, 999_990}

func (v *Invocation) showProfile(args []string) error {
	s := &profileShow{Invocation: v, out: "-", format: "text"}
	options := map[string]option{
		"sample": notHere(sampling), "memory": notHere(memory), "counts": {flag: &s.counts}, "text": {flag: &s.text}, "ic-targets": {flag: &s.targets}, "memop-sizes": {flag: &s.sizes},
		"detailed-summary": {flag: &s.detailed}, "all-functions": {flag: &s.all}, "showcs": {flag: &s.context}, "instr": {},
		"list-below-cutoff": {flag: &s.below}, "binary-ids": {flag: &s.ids}, "covered": {flag: &s.covered},
		"profile-version": {flag: &s.showVersion}, "temporal-profile-traces": {flag: &s.temporal},
		"function": text(&s.function), "o": text(&s.out), "output": text(&s.out), "show-format": text(&s.format),
		"topn": number("topn", &s.top), "value-cutoff": number("value-cutoff", &s.least),
		"detailed-summary-cutoffs": {value: s.addCutoffs},
	}
	if v.version() >= 15 {
		options["json"] = option{flag: &s.json}
	}
	rest, err := v.parse(args, options)
	if err != nil {
		return err
	}
	switch {
	case len(rest) == 0:
		return errors.New("the positional argument '<profdata-file>' is required unless '--debug-info' is provided")
	case len(rest) > 1:
		return usageError(fmt.Sprintf("Too many positional arguments specified!\nCan specify at most 1 positional arguments: See: %s --help", v.helpName()))
	case rest[0] == s.out:
		fmt.Fprintf(v.Stderr, "%s: Input file name cannot be the same as the output file name!\n", v.name())
		return saidError{}
	}
	if s.all && s.function != "" {
		fmt.Fprintln(v.Stderr, "warning: -function argument ignored: showing all functions")
	}
	if s.json || s.format == "json" {
		return errors.New("JSON output is not supported for instr profiles")
	}
	if s.format == "yaml" {
		return errors.New("YAML output is not supported for instr profiles")
	}
	if err := s.read(rest[0]); err != nil {
		return err
	}
	s.print()
	if s.out == "-" {
		_, err = v.Stdout.Write(s.b.Bytes())
		return err
	}
	if err := os.WriteFile(s.out, s.b.Bytes(), 0o666); err != nil {
		return fmt.Errorf("%s: %w", s.out, withoutPath(err))
	}
	return nil
}

func (s *profileShow) addCutoffs(list string) error {
	for part := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseUint(part, 0, 32)
		if err != nil {
			return usageError(fmt.Sprintf("for the --detailed-summary-cutoffs option: '%s' value invalid for uint argument!", part))
		}
		s.cutoffs = append(s.cutoffs, n)
	}
	return nil
}

func (s *profileShow) read(name string) error {
	b, err := input.ReadFile(name, input.Most())
	if err != nil {
		return fmt.Errorf("%s: %w", name, withoutPath(err))
	}
	if s.profiles, err = llvm.Read(b); err != nil {
		return fmt.Errorf("%s: %w", name, s.profileError(b, err))
	}
	if len(s.profiles) == 0 {
		return fmt.Errorf("%s: %w", name, s.capital(&fileError{text: "empty raw profile file"}))
	}
	s.names = make(llvm.Names)
	for _, p := range s.profiles {
		if s.Version == 0 {
			s.Version = newest(p)
		}
		for hash, name := range p.Names() {
			s.names[hash] = name
		}
	}
	return nil
}

func (s *profileShow) printf(format string, args ...any) { fmt.Fprintf(&s.b, format, args...) }

func (s *profileShow) isIR() bool { return s.profiles[0].Flags&llvm.FlagIR != 0 }

// print prints functions, then what is said of all of them.
func (s *profileShow) print() {
	if !s.text && s.below {
		s.printf("The list of functions with the maximum counter less than %d:\n", s.least)
	}
	if s.text && s.isIR() {
		s.printf(":ir\n")
	}
	s.hottest.most, s.hottest.stable = s.top, s.version() >= 22
	for _, p := range s.profiles {
		for i := range p.Counted {
			s.printFunction(&p.Counted[i])
		}
	}
	if s.text || s.covered {
		return
	}
	s.printLevel()
	if s.all || s.function != "" {
		s.printf("Functions shown: %d\n", s.shown)
	}
	s.printf("Total functions: %d\n", s.sums.Functions)
	if s.version() < 22 {
		s.printFewer()
	}
	s.printf("Maximum function count: %d\nMaximum internal block count: %d\n", s.sums.MostEntry, s.sums.MostInner)
	if s.version() >= 20 {
		s.printBlocks()
	}
	if s.version() >= 22 {
		s.printFewer()
	}
	if s.top > 0 {
		s.printf("Top %d functions with the largest internal block counts: \n", s.top)
		for _, f := range s.hottest.sorted() {
			s.printf("  %s, max count = %d\n", f.name, f.count)
		}
	}
	if s.shown > 0 && s.targets {
		s.printf("Statistics for indirect call sites profile:\n")
		s.printSites(&s.sites[llvm.CallTargets])
	}
	if s.shown > 0 && s.sizes {
		s.printf("Statistics for memory intrinsic calls sizes profile:\n")
		s.printSites(&s.sites[llvm.MemorySizes])
	}
	s.printDetails()
}

// printFewer prints how many functions are below -value-cutoff.
func (s *profileShow) printFewer() {
	if s.least > 0 {
		s.printf("Number of functions with maximum count (< %d): %d\n", s.least, s.fewer)
		s.printf("Number of functions with maximum count (>= %d): %d\n", s.least, s.sums.Functions-uint64(s.fewer))
	}
}

func (s *profileShow) printLevel() {
	if !s.isIR() {
		s.printf("Instrumentation level: Front-end\n")
		return
	}
	s.printf("Instrumentation level: IR")
	if s.version() >= 12 {
		s.printf("  entry_first = %d", flag(s.profiles[0], llvm.FlagEntry))
	}
	if s.version() >= 20 {
		s.printf("  instrument_loop_entries = %d", flag(s.profiles[0], llvm.FlagLoopEntries))
	}
	s.printf("\n")
}

func flag(p *llvm.Profile, of uint64) int {
	if p.Flags&of != 0 {
		return 1
	}
	return 0
}

func (s *profileShow) printBlocks() {
	s.printf("Total number of blocks: %d\nTotal count: %d\n", s.sums.Blocks, s.sums.Total)
}

// printDetails prints what is asked for at the end.
func (s *profileShow) printDetails() {
	cutoffs := slices.Sorted(slices.Values(s.cutoffs))
	if s.detailed && len(cutoffs) == 0 {
		if cutoffs = llvm.DefaultCutoffs(); s.version() < 15 {
			cutoffs = oldCutoffs
		}
	}
	if s.detailed {
		if s.version() < 10 {
			s.printf("Detailed summary:\n")
		}
		if s.version() < 20 {
			s.printBlocks()
		}
		if s.version() >= 10 {
			s.printf("Detailed summary:\n")
		}
		for _, c := range s.sums.Cutoffs(cutoffs) {
			part := float32(c.Cutoff) / 1_000_000 * 100
			if s.version() < 20 {
				s.printf("%d blocks with count >= %d account for %s percentage of the total counts.\n", c.Blocks, c.Count, percentage(part))
				continue
			}
			of := llvm.Ratio{Covered: int(c.Blocks), Total: int(s.sums.Blocks)}
			s.printf("%d blocks (%.2f%%) with count >= %d account for %s%% of the total counts.\n", c.Blocks, of.Percent(), c.Count, percentage(part))
		}
	}
	if s.ids {
		s.printIDs()
	}
	if s.showVersion {
		s.printf("Profile version: %d\n", s.profiles[0].Version)
	}
}

// percentage is printf's %0.6g.
func percentage(f float32) string { return strconv.FormatFloat(float64(f), 'g', 6, 64) }

func (s *profileShow) printIDs() {
	var ids []string
	for _, p := range s.profiles {
		for _, id := range p.BuildIDs {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	if len(ids) == 0 && (s.version() < 17 || s.profiles[0].Format == llvm.Text) {
		return
	}
	if s.version() < 16 && s.profiles[0].Format != llvm.Raw {
		return
	}
	s.printf("Binary IDs: \n")
	for _, id := range ids {
		s.printf("%s\n", id)
	}
}

// printFunction prints what is asked for of a function, and counts it.
func (s *profileShow) printFunction(c *llvm.Counted) {
	if s.isIR() && (c.Hash>>60&1 != 0) != s.context {
		return
	}
	show := s.all || s.function != "" && strings.Contains(c.Name, s.function)
	if show && s.text {
		c.AppendText(&s.b, s.names)
		return
	}
	s.sums.Add(c)
	most := uint64(0)
	sum := uint64(0)
	for _, n := range c.Counts {
		most, sum = max(most, n), sum+n
	}
	if s.covered {
		if most > 0 {
			s.printf("%s\n", c.Name)
		}
		return
	}
	if most < s.least {
		s.fewer++
		if s.below {
			s.printf("  %s: (Max = %d Sum = %d)\n", c.Name, most, sum)
		}
		return
	}
	if s.below {
		return
	}
	s.hottest.add(c.Name, most)
	if show {
		s.printCounts(c)
	}
}

func (s *profileShow) printCounts(c *llvm.Counted) {
	if s.shown++; s.shown == 1 {
		s.printf("Counters:\n")
	}
	s.printf("  %s:\n    Hash: 0x%016x\n    Counters: %d\n", c.Name, c.Hash, len(c.Counts))
	inner := c.Counts
	if !s.isIR() && len(c.Counts) > 0 {
		s.printf("    Function count: %d\n", c.Counts[0])
		inner = c.Counts[1:]
	}
	if s.targets {
		s.printf("    Indirect Call Site Count: %d\n", len(sitesOf(c, llvm.CallTargets)))
	}
	sizes := sitesOf(c, llvm.MemorySizes)
	if s.sizes && len(sizes) > 0 {
		s.printf("    Number of Memory Intrinsics Calls: %d\n", len(sizes))
	}
	if s.counts {
		s.printf("    Block counts: [")
		for i, n := range inner {
			if i > 0 {
				s.printf(", ")
			}
			s.printf("%d", n)
		}
		s.printf("]\n")
	}
	if s.targets {
		s.printf("    Indirect Target Results:\n")
		s.printValues(c, llvm.CallTargets)
	}
	if s.sizes && len(sizes) > 0 {
		s.printf("    Memory Intrinsic Size Results:\n")
		s.printValues(c, llvm.MemorySizes)
	}
}

func sitesOf(c *llvm.Counted, kind int) []llvm.ValueSite {
	if kind < len(c.Values) {
		return c.Values[kind]
	}
	return nil
}

// siteStatistics sum up sites: how many have how many values.
type siteStatistics struct {
	sites, withValues, values int
	times                     []int // by the number of values, from 1
}

func (s *profileShow) printValues(c *llvm.Counted, kind int) {
	all := &s.sites[kind]
	for i, site := range sitesOf(c, kind) {
		all.sites++
		all.values += len(site)
		if n := len(site); n > 0 {
			all.withValues++
			for len(all.times) < n {
				all.times = append(all.times, 0)
			}
			all.times[n-1]++
		}
		sum := uint64(0)
		for _, v := range site {
			sum += v.Count
		}
		for _, v := range site {
			s.printf("\t[ %2d, ", i)
			if kind == llvm.MemorySizes {
				s.printf("%4d", v.Value)
			} else {
				s.printf("%s", s.names[v.Value])
			}
			s.printf(", %10d ] (%.2f%%)\n", int64(v.Count), float64(v.Count)*100/float64(max(sum, 1)))
		}
	}
}

func (s *profileShow) printSites(all *siteStatistics) {
	s.printf("  Total number of sites: %d\n  Total number of sites with values: %d\n  Total number of profiled values: %d\n",
		all.sites, all.withValues, all.values)
	s.printf("  Value sites histogram:\n\tNumTargets, SiteCount\n")
	for i, n := range all.times {
		if n > 0 {
			s.printf("\t%d, %d\n", i+1, n)
		}
	}
}

// hottest are the functions with the largest counts. Up to LLVM 21 they are kept in a heap as std::priority_queue of GCC's
// library makes it, on which it depends which of those that are equal stay, and their order. The smallest is the root.
type hottest struct {
	most   uint64
	stable bool // since LLVM 22: those that are equal stay in their order
	heap   []hotFunction
}

type hotFunction struct {
	name  string
	count uint64
}

func (h *hottest) add(name string, count uint64) {
	switch {
	case h.most == 0:
		return
	case h.stable:
		h.heap = append(h.heap, hotFunction{name, count})
		return
	case uint64(len(h.heap)) == h.most:
		if h.heap[0].count >= count {
			return
		}
		h.pop()
	}
	h.heap = append(h.heap, hotFunction{})
	h.raise(len(h.heap)-1, hotFunction{name, count})
}

// raise puts f into the hole, or above.
func (h *hottest) raise(hole int, f hotFunction) {
	for parent := (hole - 1) / 2; hole > 0 && h.heap[parent].count > f.count; parent = (hole - 1) / 2 {
		h.heap[hole] = h.heap[parent]
		hole = parent
	}
	h.heap[hole] = f
}

// pop takes the root out; the hole goes down to a leaf before the last one rises from there.
func (h *hottest) pop() hotFunction {
	root := h.heap[0]
	n := len(h.heap) - 1
	last := h.heap[n]
	h.heap = h.heap[:n]
	if n == 0 {
		return root
	}
	hole := 0
	for {
		child := 2*hole + 1
		if child >= n {
			break
		}
		if child+1 < n && h.heap[child+1].count <= h.heap[child].count {
			child++
		}
		h.heap[hole] = h.heap[child]
		hole = child
	}
	h.raise(hole, last)
	return root
}

// sorted empties the heap, the largest first.
func (h *hottest) sorted() []hotFunction {
	if h.stable {
		slices.SortStableFunc(h.heap, func(a, b hotFunction) int { return cmp.Compare(b.count, a.count) })
		return h.heap[:min(uint64(len(h.heap)), h.most)]
	}
	var list []hotFunction
	for len(h.heap) > 0 {
		list = append(list, h.pop())
	}
	slices.Reverse(list)
	return list
}
