//go:build linux

package live

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"footfall/binary"
	"footfall/formats/gcov"
	"footfall/process"
)

var clangVariants = []variant{
	{name: "O0", sources: []string{"work.c"}},
	{name: "O1", flags: "-O1", sources: []string{"work.c"}},
	{name: "O2", flags: "-O2", sources: []string{"work.c"}},
	{name: "Os", flags: "-Os", sources: []string{"work.c"}},
	{name: "atomic", flags: "-O2 -fprofile-update=atomic", sources: []string{"work.c"}},
	{name: "LTO", flags: "-O2 -flto", sources: []string{"work.c"}},
	{name: "static", flags: "-DSTATIC -static", sources: []string{"work.c"}},
	{name: "static stripped", flags: "-DSTATIC -static", sources: []string{"work.c"}, strip: true},
	{name: "no PIE", flags: "-no-pie -fno-pie", sources: []string{"work.c"}},
	{name: "PIE O0", flags: "-pie -fPIE", sources: []string{"work.c"}},
	{name: "stripped", sources: []string{"work.c"}, strip: true},
	{name: "stripped O2", flags: "-O2", sources: []string{"work.c"}, strip: true},
	{name: "protected", flags: "-fstack-protector-all -fcf-protection=full", sources: []string{"work.c"}},
	{name: "sanitized", flags: "-O1 -fsanitize=address,undefined", sources: []string{"work.c"}},
	{name: "C++ comdat", sources: []string{"first.cc", "second.cc"}},
	{name: "C++ comdat O2 stripped", flags: "-O2", sources: []string{"first.cc", "second.cc"}, strip: true},
	{name: "dlopen", sources: []string{"work.c"}, library: true},
	{name: "dlopen stripped O2", flags: "-O2", sources: []string{"work.c"}, library: true, strip: true},
	{name: "m32", flags: "-m32", sources: []string{"work.c"}},
	{name: "m32 PIE O2 stripped", flags: "-m32 -O2 -pie -fPIE", sources: []string{"work.c"}, strip: true},
}

// clangs are the compilers that are installed. At least 14, 16 and 19 must be.
func clangs(t *testing.T) []string {
	var found []string
	for major := 9; major <= 25; major++ {
		name := fmt.Sprintf("clang-%d", major)
		if _, err := exec.LookPath(name); err == nil {
			found = append(found, name)
		} else if major == 14 || major == 16 || major == 19 {
			t.Errorf("%v: scripts/test installs it", err)
		}
	}
	return found
}

func TestClangExact(t *testing.T) {
	for _, compiler := range clangs(t) {
		for _, v := range clangVariants {
			t.Run(compiler+"/"+v.name, func(t *testing.T) {
				t.Parallel()
				p := v.startClang(t, compiler, "--coverage", clangDump(compiler))
				process, err := Open(p.cmd.Process.Pid)
				if err != nil {
					t.Fatal(err)
				}
				defer process.Close()
				p.tell("work")
				units, err := process.Snapshot()
				if err != nil {
					t.Fatal(err)
				}
				p.tell("dump")
				compare(t, p.dir, units)
			})
		}
	}
}

// TestClangMerge adds counts to a file of an earlier run, and lets the program
// do the same.
func TestClangMerge(t *testing.T) {
	for _, compiler := range clangs(t) {
		t.Run(compiler, func(t *testing.T) {
			t.Parallel()
			v := variant{flags: "-O1", sources: []string{"work.c"}}
			first := v.startClang(t, compiler, "--coverage", clangDump(compiler))
			first.tell("dump")
			second := run(t, first.dir, "./prog")
			second.tell("work")
			process, err := Open(second.cmd.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			defer process.Close()
			units, err := process.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(units[0].Name)
			if err != nil {
				t.Fatal(err)
			}
			earlier, err := gcov.ReadCounts(b)
			if err != nil {
				t.Fatal(err)
			}
			if err := units[0].Counts.Merge(earlier); err != nil {
				t.Fatal(err)
			}
			second.tell("dump")
			compare(t, first.dir, units)
		})
	}
}

// TestClangUnopened finds counters without the file: it may have been replaced,
// and what is mapped cannot be opened then without privileges.
func TestClangUnopened(t *testing.T) {
	for _, flags := range []string{"-O2", "-no-pie -fno-pie", "-m32 -O1"} {
		v := variant{flags: flags, sources: []string{"work.c"}, library: true, strip: true}
		p := v.startClang(t, "clang-14", "--coverage", "__gcov_dump")
		pr, err := process.Open(p.cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		defer pr.Close()
		maps, _, err := pr.Maps()
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, mapped := range pr.Images(maps) {
			im := &image{path: mapped.Path}
			if err := im.headOf(mapped, pr); !errors.Is(err, binary.ErrNoSymbols) {
				t.Fatal(err)
			}
			w := &walker{pages: newPages(pr), image: im, order: im.order, pointer: im.pointer, maps: maps, budget: newBudget()}
			units, err := w.clang(im.code, mapped.Parts)
			if err != nil {
				t.Error(err)
			}
			found += len(units)
		}
		if found != 2 {
			t.Errorf("%s: %d units, expected 2", flags, found)
		}
	}
}

func TestClangHardReset(t *testing.T) {
	v := variant{flags: "-O2 -fprofile-update=atomic", sources: []string{"work.c"}, library: true, strip: true}
	p := v.startClang(t, "clang-14", "--coverage", "__gcov_dump")
	process, err := Open(p.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer process.Close()
	r, err := process.HardReset(nil)
	if skipForbidden(t, err); err != nil || r.Units != 2 || r.UndoneCounters != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	units, err := process.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range units {
		if n := u.Counts.Largest(); n != 0 {
			t.Errorf("%s: %d after the reset", u.Name, n)
		}
	}
	p.tell("work")
	if units, err = process.Snapshot(); err != nil {
		t.Fatal(err)
	}
	p.tell("dump")
	compare(t, p.dir, units)
}

// TestClangNewVersion asks for a layout that Clang's runtime does not write.
func TestClangNewVersion(t *testing.T) {
	v := variant{sources: []string{"work.c"}}
	p := v.startClang(t, "clang-16", "--coverage -Xclang -coverage-version=B21*", "__gcov_dump")
	process, err := Open(p.cmd.Process.Pid)
	if err == nil {
		process.Close()
	}
	if err == nil || !strings.Contains(err.Error(), `version "B21*"`) {
		t.Errorf("error %v, expected one that names the version", err)
	}
}

// clangDump is what the runtime calls the function that writes.
func clangDump(compiler string) string {
	if compiler == "clang-9" || compiler == "clang-11" {
		return "__gcov_flush"
	}
	return "__gcov_dump"
}

// startClang builds the variant and starts it. It returns when the program
// waits. counters are the flags for all but driver.c and dump.c.
func (v *variant) startClang(t *testing.T, compiler, counters, dump string) *program {
	t.Helper()
	dir := t.TempDir()
	all, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		b, err := os.ReadFile(filepath.Join("testdata", s.Name()))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, s.Name()), b)
	}
	flags, counting := strings.Fields(v.flags), strings.Fields(counters)
	linker := compiler
	compile := func(source string, more ...string) string {
		driver := compiler
		if strings.HasSuffix(source, ".cc") {
			driver = strings.Replace(compiler, "clang", "clang++", 1)
			linker = driver
		}
		build(t, dir, driver, slices.Concat(flags, more, []string{"-c", "-o", source + ".o", source})...)
		return source + ".o"
	}
	objects := []string{compile("driver.c"), compile("dump.c", "-fPIC", "-DDUMP="+dump)}
	for _, s := range v.sources {
		objects = append(objects, compile(s, counting...))
	}
	build(t, dir, linker, slices.Concat(flags, counting, []string{"-o", "prog"}, objects, []string{"-ldl"})...)
	var args []string
	if v.library {
		shared := compile("shared.c", append(slices.Clone(counting), "-fPIC")...)
		build(t, dir, compiler, slices.Concat(flags, counting, []string{"-shared", "-o", "library.so", shared, "dump.c.o"})...)
		args = append(args, filepath.Join(dir, "library.so"))
	}
	if v.strip {
		build(t, dir, "strip", "prog")
		if v.library {
			build(t, dir, "strip", "library.so")
		}
	}
	// Where the kernel puts libraries anywhere (vm.mmap_rnd_bits above 28) sanitizers
	// before Clang 18 do not always find room for their shadow.
	if strings.Contains(v.flags, "-fsanitize") && exec.Command("setarch", "-R", "true").Run() == nil {
		return run(t, dir, "setarch", append([]string{"-R", "./prog"}, args...)...)
	}
	return run(t, dir, "./prog", args...)
}
