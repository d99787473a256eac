package llvm

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"footfall/coverage"
	"footfall/formats/llvm/fixtures"
)

// refused are runs in which llvm-cov refuses what is read here.
var refused = map[string]string{
	"clang-11/macros-archive": "llvm-cov 11 calls the archive malformed",
}

// lcovRun takes from a command line what llvm-cov was to export.
type lcovRun struct {
	objects, profiles []string
	options           LcovOptions
}

func parseLcovRun(cmd []string, version int) (l lcovRun) {
	l.options.UnifyInstances = version >= 21
	for args := cmd[2:]; len(args) > 0; args = args[1:] {
		arg := args[0]
		switch value, _ := strings.CutPrefix(arg, "-instr-profile="); {
		case arg == "-object":
			args = args[1:]
			l.objects = append(l.objects, args[0])
		case strings.HasPrefix(arg, "-object="):
			l.objects = append(l.objects, strings.TrimPrefix(arg, "-object="))
		case value != arg:
			l.profiles = append(l.profiles, value)
		case arg == "-skip-functions":
			l.options.SkipFunctions = true
		case arg == "-skip-branches":
			l.options.SkipBranches = true
		case arg == "-summary-only":
			l.options.SummaryOnly = true
		case !strings.HasPrefix(arg, "-"):
			l.objects = append(l.objects, arg)
		}
	}
	return l
}

func readFixture(t testing.TB, f *fixtures.Fixture, name string) *Profile {
	t.Helper()
	list, err := Read(f.Files[name])
	if err != nil || len(list) != 1 {
		t.Fatalf("%s/%s: %d profiles, %v", f.Name(), name, len(list), err)
	}
	return list[0]
}

func binariesOf(t testing.TB, f *fixtures.Fixture, names []string) (list []*Binary) {
	t.Helper()
	for _, name := range names {
		b := f.Files[strings.TrimPrefix(name, "./")]
		found, err := ReadBinaries(name, bytes.NewReader(b), int64(len(b)), "")
		if err != nil {
			t.Fatalf("%s/%s: %v", f.Name(), name, err)
		}
		list = append(list, found...)
	}
	return list
}

// TestLcov compares with what llvm-cov export -format=lcov of each version printed, to the byte.
func TestLcov(t *testing.T) {
	n := 0
	for _, f := range fixtures.All(t) {
		for _, run := range f.Runs {
			if !strings.HasPrefix(run.Name, "export-lcov") || refused[f.Name()] != "" {
				continue
			}
			n++
			l := parseLcovRun(run.Cmd, f.Version)
			c := Load(binariesOf(t, f, l.objects), readFixture(t, f, l.profiles[0]), Rules{Version: f.Version})
			l.options.Files = c.Files()
			var out bytes.Buffer
			if err := c.WriteLcov(&out, l.options); err != nil {
				t.Fatal(err)
			}
			if out.String() != run.Stdout {
				t.Errorf("%s: %s (-llvm-cov +footfall)\n%s", f.Name(), run.Name, cmp.Diff(run.Stdout, out.String()))
			}
		}
	}
	if n < 150 {
		t.Errorf("%d runs", n)
	}
}

// setDiffers are lines of a Set that its version's llvm-cov has otherwise.
var setDiffers = map[string]string{
	"clang-14/fmt-args /src/llvm/data/clang-14/fmt-args/src/include/fmt/format.h DA:1137": "up to LLVM 16 a line that begins with what was skipped has no count",
	"clang-19/fmt-args /src/llvm/data/clang-19/fmt-args/src/test/args-test.cc BRDA:185":   "line 185 has branches, but no count: they are on that before it",
	"clang-19/fmt-args /src/llvm/data/clang-19/fmt-args/src/test/args-test.cc BRDA:184":   "see BRDA:185",
}

// collected is the Set of a run of llvm-cov's.
func collected(t *testing.T, f *fixtures.Fixture, l lcovRun) (*coverage.Set, Stats) {
	t.Helper()
	sum := NewSum()
	if _, err := sum.Add(readFixture(t, f, l.profiles[0])); err != nil {
		t.Fatal(err)
	}
	var images []Image
	for _, b := range binariesOf(t, f, l.objects) {
		images = append(images, Image{Binary: b})
	}
	return Collect(images, CollectOptions{Source: anySource, Shared: []Shared{{Sum: sum}}})
}

// TestSet compares the lines, functions and branches of a Set with the tracefile of llvm-cov, from indexed profiles, as
// llvm-cov reads them.
func TestSet(t *testing.T) {
	n := 0
	for _, f := range fixtures.All(t) {
		run := f.Run("export-lcov")
		if run == nil || refused[f.Name()] != "" {
			continue
		}
		n++
		l := parseLcovRun(run.Cmd, f.Version)
		set, stats := collected(t, f, l)
		if len(stats.Mismatches)+len(stats.Damaged)+stats.Impossible > 0 {
			t.Errorf("%s: %+v", f.Name(), stats)
		}
		compareSet(t, f, run.Stdout, set)
		// Regions, of which tests of tool compare what llvm-cov report prints.
		c := Load(binariesOf(t, f, l.objects), readFixture(t, f, l.profiles[0]), Rules{Version: f.Version})
		for _, file := range set.All() {
			got, want := file.Totals().Regions, c.FileSummary(file.Name).Regions
			if got.Covered != want.Covered || got.Total != want.Total {
				t.Errorf("%s: %s: %v regions, llvm-cov has %v", f.Name(), file.Name, got, want)
			}
			if strings.HasPrefix(f.Name(), "rust-") { // where the signature of a function is a region of its own
				for _, l := range file.Lines {
					if !slices.ContainsFunc(file.Functions, func(fn *coverage.Function) bool { return fn.StartLine <= l.Number && l.Number <= fn.EndLine }) {
						t.Errorf("%s: %s:%d is in no function", f.Name(), file.Name, l.Number)
					}
				}
			}
		}
	}
	if n < 125 {
		t.Errorf("%d programs", n)
	}
}

func anySource(_, name string) (string, bool) { return name, true }

func compareSet(t *testing.T, f *fixtures.Fixture, tracefile string, set *coverage.Set) {
	t.Helper()
	// From LLVM 21 on llvm-cov adds branches of macros that have nothing in common, and prints ways that are constant.
	branches := f.Version < 21 || !strings.HasPrefix(f.Program, "macros") && !strings.HasPrefix(f.Program, "mcdc")
	want, got := factsOfTracefile(tracefile, branches), factsOfSet(set, branches)
	for at := range setDiffers {
		if program, fact, _ := strings.Cut(at, " "); program == f.Name() {
			if want[fact] == got[fact] {
				t.Errorf("%s: no difference", at)
			}
			delete(got, fact)
			delete(want, fact)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-llvm-cov +Set)\n%s", f.Name(), diff)
	}
}

// factsOfTracefile are the counts of lines, and of functions and branches as a Set has them: the names of local
// functions are without their file, those of one name added; of branches of a line the sum.
func factsOfTracefile(text string, branches bool) map[string]uint64 {
	facts := make(map[string]uint64)
	file := ""
	for line := range strings.Lines(text) {
		tag, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		var a, b, c, d uint64
		switch tag {
		case "SF":
			file = rest
		case "DA":
			fmt.Sscanf(rest, "%d,%d", &a, &b)
			facts[fmt.Sprintf("%s DA:%d", file, a)] = b
		case "FN", "FNDA":
			number, name, _ := strings.Cut(rest, ",")
			fmt.Sscan(number, &a)
			name = name[strings.LastIndexAny(name, ":;")+1:]
			if tag == "FN" {
				facts[fmt.Sprintf("%s FN:%d,%s", file, a, name)] = 1
			} else {
				facts[fmt.Sprintf("%s FNDA:%s", file, name)] += a
			}
		case "BRDA":
			if fmt.Sscanf(rest, "%d,%d,%d,%d", &a, &b, &c, &d); branches && d > 0 {
				facts[fmt.Sprintf("%s BRDA:%d", file, a)] += d
			}
		}
	}
	return facts
}

func factsOfSet(set *coverage.Set, branches bool) map[string]uint64 {
	facts := make(map[string]uint64)
	for _, f := range set.All() {
		for _, fn := range f.Functions {
			for _, in := range fn.Instances {
				facts[fmt.Sprintf("%s FN:%d,%s", f.Name, fn.StartLine, in.Name)] = 1
				facts[fmt.Sprintf("%s FNDA:%s", f.Name, in.Name)] += uint64(in.Count)
			}
		}
		for _, l := range f.Lines {
			facts[fmt.Sprintf("%s DA:%d", f.Name, l.Number)] = uint64(l.Count)
			for _, b := range l.Branches {
				if branches && b.Count > 0 {
					facts[fmt.Sprintf("%s BRDA:%d", f.Name, l.Number)] += uint64(b.Count)
				}
			}
		}
	}
	return facts
}

// TestRawEqualsIndexed reads the raw profiles of which base.profdata was made (r*, pool*), pairs them with their
// binaries and adds them up: the Set is the same.
func TestRawEqualsIndexed(t *testing.T) {
	n := 0
	for _, f := range fixtures.All(t) {
		run := f.Run("export-lcov")
		if run == nil || refused[f.Name()] != "" {
			continue
		}
		n++
		l := parseLcovRun(run.Cmd, f.Version)
		binaries := binariesOf(t, f, l.objects)
		images := make([]Image, len(binaries))
		for i, b := range binaries {
			images[i].Binary = b
		}
		shared := NewSum()
		for _, name := range slices.Sorted(maps.Keys(f.Files)) {
			if !strings.HasSuffix(name, ".profraw") || name == "both.profraw" {
				continue
			}
			list, err := Read(f.Files[name])
			if err != nil {
				t.Fatalf("%s/%s: %v", f.Name(), name, err)
			}
			for _, p := range list {
				to := shared
				if i, how := Pair(p, binaries); how != Unpaired {
					if images[i].Counts == nil {
						images[i].Counts = NewSum()
					}
					to = images[i].Counts
				} else if !strings.Contains(f.Program, "-archive") {
					t.Errorf("%s/%s: its binary was not found", f.Name(), name)
				}
				if others, err := to.Add(p); err != nil || len(others) > 0 {
					t.Errorf("%s/%s: %v %v", f.Name(), name, others, err)
				}
			}
		}
		set, stats := Collect(images, CollectOptions{Source: anySource, Shared: []Shared{{Sum: shared}}})
		if len(stats.Mismatches)+len(stats.Damaged)+stats.Impossible > 0 {
			t.Errorf("%s: %+v", f.Name(), stats)
		}
		compareSet(t, f, run.Stdout, set)
		// Regions, of which tests of tool compare what llvm-cov report prints.
		c := Load(binariesOf(t, f, l.objects), readFixture(t, f, l.profiles[0]), Rules{Version: f.Version})
		for _, file := range set.All() {
			got, want := file.Totals().Regions, c.FileSummary(file.Name).Regions
			if got.Covered != want.Covered || got.Total != want.Total {
				t.Errorf("%s: %s: %v regions, llvm-cov has %v", f.Name(), file.Name, got, want)
			}
			if strings.HasPrefix(f.Name(), "rust-") { // where the signature of a function is a region of its own
				for _, l := range file.Lines {
					if !slices.ContainsFunc(file.Functions, func(fn *coverage.Function) bool { return fn.StartLine <= l.Number && l.Number <= fn.EndLine }) {
						t.Errorf("%s: %s:%d is in no function", f.Name(), file.Name, l.Number)
					}
				}
			}
		}
	}
	if n < 125 {
		t.Errorf("%d programs", n)
	}
}
