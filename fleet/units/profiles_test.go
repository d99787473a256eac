package units

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"footfall/coverage"
	"footfall/fleet/store"
	"footfall/formats/gocover"
	gofixtures "footfall/formats/gocover/fixtures"
	"footfall/formats/llvm"
	llvmfixtures "footfall/formats/llvm/fixtures"
)

// shownAt is what a source is called, and whether it counts.
func shownAt(dir, name string) (string, bool) {
	if !strings.HasPrefix(name, "/") {
		name = dir + "/" + name
	}
	return name, !strings.HasPrefix(name, "/usr/") && !strings.HasPrefix(name, "/rustc/")
}

// windows is the sum of windows into which counters were cut, which are what they were.
func windows(r *rand.Rand, u store.Unit, hits []uint64) store.Total {
	total := store.Total{Unit: u, Hits: make([]uint64, len(hits))}
	for range 2 {
		part := make([]uint64, len(hits))
		for i, h := range hits {
			if part[i] = h; h > 0 && h < 1<<62 {
				part[i] = r.Uint64N(h + 1)
			}
			hits[i] -= part[i]
		}
		store.Add(total.Hits, part)
	}
	store.Add(total.Hits, hits)
	return total
}

// TestMappingsAreExact holds what comes of the counters of binaries that were cut into windows against what llvm.Collect makes of the
// profile, for the programs of all compilers.
func TestMappingsAreExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	ran, functions := 0, 0
	for n, fx := range llvmfixtures.All(t) {
		if n%3 != 0 {
			continue // they take long
		}
		var binaries []*llvm.Binary
		for _, name := range slices.Sorted(func(yield func(string) bool) {
			for name := range fx.Files {
				if !yield(name) {
					return
				}
			}
		}) {
			if list, err := llvm.ReadBinaries(name, bytes.NewReader(fx.Files[name]), int64(len(fx.Files[name])), ""); err == nil {
				binaries = append(binaries, list...)
			}
		}
		for name, b := range fx.Files {
			list, err := llvm.Read(b)
			if err != nil || len(list) != 1 || list[0].Format != llvm.Raw {
				continue
			}
			i, how := llvm.Pair(list[0], binaries)
			if how == llvm.Unpaired {
				continue
			}
			title := fx.Name() + "/" + name
			units, layout, err := OfBinary("prog", binaries[i], list[0], "/src", shownAt)
			if err != nil {
				t.Fatalf("%s: %v", title, err)
			}
			vectors, err := layout.Vectors(list[0], nil)
			if err != nil {
				t.Fatalf("%s: %v", title, err)
			}
			var sum Sum
			for k := range units {
				if err := Check(&units[k]); err != nil {
					t.Fatalf("%s: %v", title, err)
				}
				if err := Sources(&units[k], func(name string) {
					if name != "" && path.Ext(name) == "" {
						t.Errorf("%s: the source %q is a directory", title, name)
					}
				}); err != nil {
					t.Fatalf("%s: %v", title, err)
				}
				total := windows(r, units[k], vectors[k])
				if err := sum.Add(total); err != nil {
					t.Fatalf("%s: %v", title, err)
				}
				functions += functionsRan(t, title, total)
			}
			counts := llvm.NewSum()
			if _, err := counts.Add(list[0]); err != nil {
				t.Fatal(err)
			}
			want, _ := llvm.Collect([]llvm.Image{{Binary: binaries[i], Dir: "/src", Counts: counts}}, llvm.CollectOptions{Source: shownAt})
			same(t, title, want, sum.Take())
			ran++
		}
	}
	if ran < 20 || functions < 100 {
		t.Errorf("%d profiles and %d functions were compared", ran, functions)
	}
}

// functionsRan holds what is said of functions one by one against what the whole unit has.
func functionsRan(t *testing.T, title string, total store.Total) int {
	t.Helper()
	list, err := Functions(&total.Unit)
	if err != nil {
		t.Fatal(err)
	}
	checkNamed(t, title, &total.Unit, list)
	files, err := Files(&total.Unit, total.Hits)
	if err != nil {
		t.Fatal(err)
	}
	return compareFunctions(t, title, list, files, total.Hits)
}

// runGo runs the program of the fixtures, and returns what it wrote.
func runGo(t *testing.T, module, mode, input string) (*gocover.Meta, *gocover.Counters) {
	t.Helper()
	program, dir := gofixtures.Build(t, module, mode), t.TempDir()
	cmd := exec.Command(program)
	cmd.Stdin, cmd.Env = strings.NewReader(input), append(os.Environ(), "GOCOVERDIR="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var meta *gocover.Meta
	var counters *gocover.Counters
	names, _ := filepath.Glob(filepath.Join(dir, "cov*"))
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if gocover.IsMeta(b) {
			meta, err = gocover.ReadMeta(b)
		} else {
			counters, err = gocover.ReadCounters(b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return meta, counters
}

// TestPackagesAreExact is TestMappingsAreExact for a program of Go, with its sources and without.
func TestPackagesAreExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	module := gofixtures.Module(t)
	for _, mode := range []string{"set", "atomic"} {
		meta, counters := runGo(t, module, mode, "push a\npush b\npop\nmax\n")
		for _, there := range []bool{true, false} {
			read := func(path string) *gocover.Source {
				text, err := os.ReadFile(filepath.Join(module, path))
				if err != nil {
					t.Fatal(err)
				}
				if !there {
					return nil
				}
				return gocover.NewSource(text)
			}
			shown := func(name string) (string, bool) {
				return strings.TrimPrefix(name, "example.com/shop/"), strings.HasSuffix(name, ".go")
			}
			vectors, err := OfPackages(meta, counters)
			if err != nil {
				t.Fatal(err)
			}
			var sum Sum
			functions := 0
			for i := range meta.Packages {
				pkg := &meta.Packages[i]
				u, err := OfPackage(pkg, meta.Mode, meta.Granularity, func(name string) GoSource {
					path, _ := shown(name)
					return GoSource{path, read(path)}
				})
				if err == nil {
					err = Check(&u)
				}
				if err != nil {
					t.Fatal(err)
				}
				total := windows(r, u, slices.Clone(vectors[pkg.Path]))
				if err := sum.Add(total); err != nil {
					t.Fatal(err)
				}
				functions += functionsRan(t, mode, total)
			}
			pod := gocover.NewPod(meta)
			if err := pod.Add(counters); err != nil {
				t.Fatal(err)
			}
			want, _ := gocover.Collect([]*gocover.Pod{pod}, gocover.CollectOptions{
				Source: func(_ *gocover.Pod, name string) (string, bool) { return shown(name) }, Read: read,
			})
			same(t, mode, want, sum.Take())
			if functions < 8 {
				t.Errorf("%d functions were compared", functions)
			}
		}
	}
}

// TestUnknown: functions of which it is not known whether they ran are left out of what did and did not.
func TestUnknown(t *testing.T) {
	module := gofixtures.Module(t)
	meta, _ := runGo(t, module, "set", "push a\n")
	pkg := &meta.Packages[0]
	u, err := OfPackage(pkg, meta.Mode, meta.Granularity, func(name string) GoSource { return GoSource{Shown: name} })
	if err != nil {
		t.Fatal(err)
	}
	list, err := Functions(&u)
	if err != nil {
		t.Fatal(err)
	}
	hits := make([]uint64, u.Counters)
	hits[list[0].Unknown] = 1
	has := func() bool {
		files, err := Files(&u, hits)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(files, func(f *coverage.File) bool {
			return slices.ContainsFunc(f.Functions, func(fn *coverage.Function) bool { return fn.Name == list[0].Name })
		})
	}
	if has() {
		t.Errorf("%s is there, and it is not known whether it ran", list[0].Name)
	}
	if hits[list[0].Counters[0]] = 1; !has() {
		t.Errorf("%s ran, and is not there", list[0].Name)
	}
}

// FuzzProfiles decodes units of anybody: what can be checked can be read.
func FuzzProfiles(f *testing.F) {
	for n, fx := range llvmfixtures.All(f) {
		if n%40 != 0 {
			continue
		}
		for name, b := range fx.Files {
			list, err := llvm.ReadBinaries(name, bytes.NewReader(b), int64(len(b)), "")
			if err != nil || len(list) != 1 {
				continue
			}
			if units, _, err := OfBinary("prog", list[0], &llvm.Profile{}, "/src", shownAt); err == nil && len(units) > 0 {
				f.Add(true, units[0].Program, units[0].Counters)
			}
		}
	}
	pkg := &gocover.Package{Path: "example.com/a", Name: "a", Functions: []gocover.FuncDesc{{Name: "f", File: "a.go", Units: []gocover.CoverableUnit{{Line: 1, Column: 1, EndLine: 3, EndColumn: 2, Statements: 1}}}}}
	pkg.Bytes = pkg.Encode()
	u, err := OfPackage(pkg, gocover.Set, gocover.PerBlock, func(name string) GoSource {
		return GoSource{name, gocover.NewSource([]byte("package a\nfunc f() {\n}\n"))}
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(false, u.Program, u.Counters)
	f.Fuzz(func(t *testing.T, mapping bool, program []byte, counters int) {
		if counters < 0 || counters > 1<<16 {
			return
		}
		u := store.Unit{Kind: GoPackage, Name: "a", Counters: counters, Program: program}
		if mapping {
			u.Kind = Mapping
		}
		checkAgrees(t, &u)
	})
}
