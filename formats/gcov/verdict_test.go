package gcov

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// TestVerdict compares which lines ran by Collect and by the compiler's own gcov:
// of each unit alone, a line ran if it says so of any.
//
// With FOOTFALL_VERDICTS, the directory of a program that was built and run, it
// compares that program, by the gcov FOOTFALL_VERDICTS_GCOV (see scripts/compare-verdicts).
func TestVerdict(t *testing.T) {
	if dir := os.Getenv("FOOTFALL_VERDICTS"); dir != "" {
		compareVerdicts(t, dir, os.Getenv("FOOTFALL_VERDICTS_GCOV"))
		return
	}
	if testing.Short() {
		t.Skip("builds many programs")
	}
	gcc := []string{"gcc-11", "g++-11", "gcov-11"}
	clang := []string{"clang-19", "clang++-19", "llvm-cov-19"}
	for _, test := range []struct {
		tools []string
		flags string
	}{
		{gcc, ""}, {gcc, "-Og -g"}, {gcc, "-O1 -g"}, {gcc, "-O2 -g"}, {gcc, "-O2"},
		{[]string{"gcc-12", "g++-12", "gcov-12"}, "-O1 -g"}, {clang, ""}, {clang, "-O1 -g"}, {clang, "-Xclang -coverage-version=B11*"},
	} {
		t.Run(test.tools[0]+" "+test.flags, func(t *testing.T) {
			dir := t.TempDir()
			for _, from := range []string{"testdata/verdict", "../../testdata/counting/c", "../../testdata/counting/cc"} {
				to := filepath.Join(dir, filepath.Base(from))
				if err := os.CopyFS(to, os.DirFS(from)); err != nil {
					t.Fatal(err)
				}
				build(t, to, test.tools, strings.Fields(test.flags))
			}
			compareVerdicts(t, dir, test.tools[2])
		})
	}
}

// TestVerdictOfClangTorn compares lines of functions whose counters contradict each other,
// as those of Clang's programs do without threads, too: it cuts arcs in two to count them,
// and then may note and count neither part.
func TestVerdictOfClangTorn(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/verdict")); err != nil {
		t.Fatal(err)
	}
	build(t, dir, []string{"clang-19", "clang++-19"}, nil)
	data, err := filepath.Glob(filepath.Join(dir, "*.gcda"))
	if err != nil || len(data) == 0 {
		t.Fatalf("%v: no data", err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		for _, name := range data {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			c, err := ReadCounts(b)
			if err != nil {
				t.Fatal(err)
			}
			for i := range c.Functions {
				if arcs := c.Functions[i].Of(KindArcs); arcs != nil {
					values := make([]int64, arcs.Len())
					for k := range values {
						values[k] = int64(random.IntN(4) * random.IntN(9))
					}
					*arcs = Counters{Kind: KindArcs, Values: values}
				}
			}
			if err := os.WriteFile(name, c.Encode(), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		compareVerdicts(t, dir, "llvm-cov-19")
	}
}

// build builds a program of the C sources in dir, and one of those in C++, and runs
// them.
func build(t *testing.T, dir string, compilers, flags []string) {
	t.Helper()
	for i, pattern := range []string{"*.c", "*.cc"} {
		sources, _ := filepath.Glob(filepath.Join(dir, pattern))
		if len(sources) == 0 {
			continue
		}
		for k := range sources {
			sources[k] = filepath.Base(sources[k])
		}
		args := append(append([]string{"--coverage", "-w", "-o", "prog" + pattern[1:]}, flags...), sources...)
		for _, c := range [][]string{append([]string{compilers[i]}, args...), {"./prog" + pattern[1:], "one", "two"}} {
			cmd := exec.Command(c[0], c[1:]...)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", c, err, out)
			}
		}
	}
}

// TestInstanceLines compares the lines of instances of templates with those that gcov lists for
// each function of a group.
func TestInstanceLines(t *testing.T) {
	for _, flags := range []string{"", "-O1 -g"} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS("testdata/verdict")); err != nil {
			t.Fatal(err)
		}
		build(t, dir, []string{"gcc-12", "g++-12"}, strings.Fields(flags))
		o := Object{Notes: filepath.Join(dir, "prog.cc-templates.gcno"), Data: []string{filepath.Join(dir, "prog.cc-templates.gcda")}}
		set, _, _ := Collect([]Object{o}, CollectOptions{})
		doc, err := readJSON(o, "gcov-12")
		if err != nil {
			t.Fatal(err)
		}
		want := make(map[string]map[int]bool) // by function and line
		for _, f := range doc.Files {
			for _, l := range f.Lines {
				if want[l.Function] == nil {
					want[l.Function] = make(map[int]bool)
				}
				want[l.Function][l.Number] = l.Count > 0
			}
		}
		checked := 0
		for _, f := range set.All() {
			for _, fn := range f.Functions {
				for _, in := range fn.Instances {
					got := make(map[int]bool)
					for line, count := range in.Lines.All() {
						got[int(line)] = count > 0
						checked++
					}
					if len(fn.Instances) > 1 && !maps.Equal(got, want[in.Name]) || len(fn.Instances) == 1 && len(got) > 0 {
						t.Errorf("%s %s: lines %v, by gcov-12 %v", flags, in.Name, got, want[in.Name])
					}
				}
			}
		}
		if checked < 10 {
			t.Errorf("%s: only %d lines", flags, checked)
		}
	}
}

type lineOf struct {
	file string
	line int
}

// compareVerdicts compares all units below dir. Where threads tore the counters of a
// function that GCC compiled, its lines are told, and nothing more.
func compareVerdicts(t *testing.T, dir, tool string) {
	t.Helper()
	var objs []Object
	filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".gcno") {
			o := Object{Notes: path, Dir: filepath.Dir(path)}
			if data := strings.TrimSuffix(path, "no") + "da"; fileExists(data) {
				o.Data = []string{data}
			}
			objs = append(objs, o)
		}
		return nil
	})
	if len(objs) == 0 {
		t.Fatalf("%s has no notes", dir)
	}
	set, problems, _ := Collect(objs, CollectOptions{})
	for _, p := range problems {
		t.Log(p)
	}
	ours := make(map[lineOf]bool)
	for _, f := range set.All() {
		for i := range f.Lines {
			ours[lineOf{f.Name, int(f.Lines[i].Number)}] = f.Lines[i].Count > 0
		}
	}
	theirs, torn := askGcov(t, objs, tool)
	differ := 0
	for _, at := range slices.SortedFunc(maps.Keys(theirs), func(a, b lineOf) int {
		return cmpLines(a, b)
	}) {
		ran, ok := ours[at]
		switch {
		case torn[at] && ran != theirs[at] && !strings.HasPrefix(tool, "llvm-cov"):
			t.Logf("%s:%d: torn counters, ran: %v here, %v by %s", at.file, at.line, ran, theirs[at], tool)
		case !ok:
			differ++
			t.Errorf("%s:%d: no line here, one by %s", at.file, at.line, tool)
		case ran != theirs[at]:
			differ++
			t.Errorf("%s:%d: ran: %v here, %v by %s", at.file, at.line, ran, theirs[at], tool)
		}
	}
	for at := range ours {
		if _, ok := theirs[at]; !ok {
			differ++
			t.Errorf("%s:%d: a line here, none by %s", at.file, at.line, tool)
		}
	}
	ran := 0
	for _, r := range ours {
		if r {
			ran++
		}
	}
	t.Logf("%s: %d units, %d lines, %d ran, %d differ, of %d in functions with torn counters", dir, len(objs), len(theirs), ran, differ, len(torn))
}

func cmpLines(a, b lineOf) int {
	if c := strings.Compare(a.file, b.file); c != 0 {
		return c
	}
	return a.line - b.line
}

// askGcov returns what the tool says of each unit, and the lines of functions with torn
// counters.
func askGcov(t *testing.T, objs []Object, tool string) (ran, torn map[lineOf]bool) {
	t.Helper()
	ran, torn = make(map[lineOf]bool), make(map[lineOf]bool)
	var mu sync.Mutex
	todo := make(chan Object)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for o := range todo {
				lines, err := jsonLines(o, tool)
				if strings.HasPrefix(tool, "llvm-cov") {
					lines, err = textLines(t, o, tool)
				}
				if err != nil {
					t.Errorf("%s: %v", o.Notes, err)
				}
				unit := tornLines(t, o)
				mu.Lock()
				for at, r := range lines {
					ran[at] = ran[at] || r
				}
				for at := range unit {
					torn[at] = true
				}
				mu.Unlock()
			}
		})
	}
	for _, o := range objs {
		todo <- o
	}
	close(todo)
	wg.Wait()
	return ran, torn
}

// A gcovDocument is gcov's JSON.
type gcovDocument struct {
	Cwd   string `json:"current_working_directory"`
	Files []struct {
		File  string
		Lines []struct {
			Number   int    `json:"line_number"`
			Function string `json:"function_name"`
			Count    int64
		}
	}
}

func readJSON(o Object, tool string) (*gcovDocument, error) {
	cmd := exec.Command(tool, "-i", "-t", o.Notes)
	cmd.Dir = filepath.Dir(o.Notes)
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	doc := new(gcovDocument)
	return doc, json.Unmarshal(out, doc)
}

func jsonLines(o Object, tool string) (map[lineOf]bool, error) {
	doc, err := readJSON(o, tool)
	if err != nil {
		return nil, err
	}
	lines := make(map[lineOf]bool)
	for _, f := range doc.Files {
		name := f.File
		if !filepath.IsAbs(name) {
			name = filepath.Join(doc.Cwd, name)
		}
		for _, l := range f.Lines {
			at := lineOf{filepath.Clean(name), l.Number}
			lines[at] = lines[at] || l.Count > 0
		}
	}
	return lines, nil
}

// textLines reads the intermediate text of llvm-cov.
func textLines(t *testing.T, o Object, tool string) (map[lineOf]bool, error) {
	work := t.TempDir()
	cmd := exec.Command(tool, "gcov", "-i", o.Notes)
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%v: %s", err, out)
	}
	lines := make(map[lineOf]bool)
	files, _ := filepath.Glob(filepath.Join(work, "*.gcov"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		source := ""
		for row := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(strings.TrimSpace(row), ":")
			switch key {
			case "file":
				source = filepath.Join(o.Dir, value)
				if filepath.IsAbs(value) {
					source = filepath.Clean(value)
				}
			case "lcount":
				part := strings.Split(value, ",")
				n, err := strconv.Atoi(part[0])
				if err != nil {
					return nil, err
				}
				at := lineOf{source, n}
				lines[at] = lines[at] || part[1] != "0"
			}
		}
	}
	return lines, nil
}

// tornLines are the lines of functions of which the counters contradict each other.
func tornLines(t *testing.T, o Object) map[lineOf]bool {
	if len(o.Data) == 0 {
		return nil
	}
	b, err := os.ReadFile(o.Notes)
	if err != nil {
		t.Error(err)
		return nil
	}
	notes, err := ReadNotes(b)
	if err != nil {
		t.Error(err)
		return nil
	}
	if b, err = os.ReadFile(o.Data[0]); err != nil {
		t.Error(err)
		return nil
	}
	counts, err := ReadCounts(b)
	if err != nil {
		t.Error(err)
		return nil
	}
	byIdent := make(map[uint32]*FunctionGraph)
	for _, fn := range notes.Functions {
		byIdent[fn.Ident] = fn
	}
	lines := make(map[lineOf]bool)
	for i := range counts.Functions {
		fn, c := byIdent[counts.Functions[i].Ident], counts.Functions[i].Of(KindArcs)
		if fn == nil || c == nil {
			continue
		}
		var values []int64
		for k := range c.Len() {
			values = append(values, c.At(k))
		}
		var g Flow
		g.Build(fn, notes.Version)
		if g.Solve(values) {
			continue
		}
		for _, l := range fn.Locations {
			name := l.Source
			if name == "" {
				name = fn.Source
			}
			if !filepath.IsAbs(name) {
				name = filepath.Join(notes.Cwd, name)
			}
			for _, n := range l.Lines {
				lines[lineOf{filepath.Clean(name), int(n)}] = true
			}
		}
	}
	return lines
}

func fileExists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
