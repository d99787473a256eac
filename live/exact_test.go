//go:build linux

package live

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"footfall/process/processtest"
)

// A variant is a way to build a program.
type variant struct {
	name    string
	flags   string // for compiler and linker
	sources []string
	library bool // open one by dlopen
	strip   bool
}

var c, cc = []string{"main.c", "work.c"}, []string{"main.c", "first.cc", "second.cc"}

var variants = []variant{
	{name: "O0", sources: c},
	{name: "O2", flags: "-O2", sources: c},
	{name: "values", flags: "-O2 -fprofile-generate", sources: c},
	{name: "atomic", flags: "-O2 -fprofile-update=atomic", sources: c},
	{name: "LTO", flags: "-O2 -flto", sources: c},
	{name: "static", flags: "-DSTATIC -static", sources: c},
	{name: "static stripped", flags: "-DSTATIC -static", sources: c, strip: true},
	{name: "no PIE", flags: "-no-pie -fno-pie", sources: c},
	{name: "stripped", sources: c, strip: true},
	{name: "stripped no PIE values", flags: "-no-pie -fno-pie -O2 -fprofile-generate", sources: c, strip: true},
	{name: "C++ comdat", sources: cc},
	{name: "C++ comdat O2 stripped", flags: "-O2", sources: cc, strip: true},
	{name: "dlopen", sources: c, library: true},
	{name: "dlopen stripped", sources: c, library: true, strip: true},
	{name: "m32", flags: "-m32", sources: c},
	{name: "m32 values", flags: "-m32 -O2 -fprofile-generate", sources: c},
	{name: "m32 stripped", flags: "-m32", sources: c, strip: true},
	{name: "m32 dlopen", flags: "-m32", sources: c, library: true},
	{name: "conditions", flags: "-fcondition-coverage", sources: c},
	{name: "paths", flags: "-fpath-coverage", sources: c},
}

// TestExact reads the counters of running programs, lets the programs write
// them, and compares the bytes.
func TestExact(t *testing.T) {
	for _, compiler := range compilers(t) {
		for _, v := range variants {
			t.Run(compiler+"/"+v.name, func(t *testing.T) {
				t.Parallel()
				p := v.start(t, compiler)
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

// compare compares units with the files that the program wrote.
func compare(t *testing.T, dir string, units []Unit) {
	t.Helper()
	var got []string
	for _, u := range units {
		got = append(got, u.Name)
		want, err := os.ReadFile(u.Name)
		if err != nil {
			t.Error(err)
		} else if b := u.Counts.Encode(); !bytes.Equal(b, want) {
			t.Errorf("%s: bytes differ\nprogram  %x\nfootfall %x", filepath.Base(u.Name), want, b)
		}
	}
	want, err := filepath.Glob(filepath.Join(dir, "*.gcda"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) || len(got) == 0 {
		t.Errorf("units %q, files %q", got, want)
	}
}

// compilers are those of GCC that are installed. At least 11 and 12 must be.
func compilers(t *testing.T) []string {
	var found []string
	for major := 9; major <= 16; major++ {
		name := fmt.Sprintf("gcc-%d", major)
		if _, err := exec.LookPath(name); err == nil {
			found = append(found, name)
		} else if major == 11 || major == 12 {
			t.Errorf("%v: scripts/test installs it", err)
		}
	}
	return found
}

// A program is one that was started by a test, and is ended with it.
type program struct {
	*processtest.Program
	dir string
	cmd *exec.Cmd
}

// start builds the variant and starts it. It returns when the program waits.
func (v *variant) start(t *testing.T, compiler string) *program {
	t.Helper()
	dir := t.TempDir()
	flags := append([]string{"--coverage"}, strings.Fields(v.flags)...)
	var objects []string
	linker := compiler
	for _, s := range append(v.sources, "library.c") {
		if s == "library.c" && !v.library {
			continue
		}
		b, err := os.ReadFile(filepath.Join("testdata", s))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, s), b)
		driver := compiler
		if strings.HasSuffix(s, ".cc") {
			driver = strings.Replace(compiler, "gcc", "g++", 1)
			linker = driver
			h, err := os.ReadFile(filepath.Join("testdata", "stack.h"))
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "stack.h"), h)
		}
		object := s + ".o"
		compile := append(slices.Clone(flags), "-c", "-o", object, s)
		if s == "library.c" {
			compile = append(compile, "-fPIC")
		} else {
			objects = append(objects, object)
		}
		build(t, dir, driver, compile...)
	}
	build(t, dir, linker, slices.Concat(flags, []string{"-o", "prog"}, objects, []string{"-ldl"})...)
	args := []string{}
	if v.library {
		build(t, dir, compiler, slices.Concat(flags, []string{"-shared", "-o", "library.so", "library.c.o"})...)
		args = append(args, filepath.Join(dir, "library.so"))
	}
	if v.strip {
		build(t, dir, "strip", "prog")
		if v.library {
			build(t, dir, "strip", "library.so")
		}
	}
	return run(t, dir, "./prog", args...)
}

func write(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(name, b, 0o666); err != nil {
		t.Fatal(err)
	}
}

// build runs a compiler. The test is skipped where it has no such option.
func build(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); bytes.Contains(out, []byte("unrecognized command-line option")) {
		t.Skipf("%s has no such option: %s", name, out)
	} else if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

// run starts a program of dir, which is ready when it says so.
func run(t *testing.T, dir, name string, args ...string) *program {
	t.Helper()
	p := &program{dir: dir, cmd: exec.Command(name, args...)}
	p.begin(t)
	return p
}

// begin starts the program and waits for its first word.
func (p *program) begin(t *testing.T) {
	t.Helper()
	p.cmd.Dir = p.dir
	p.Program = processtest.Start(t, p.cmd)
	p.Expect("ready")
}

// tell writes a line to the program and waits until it is done.
func (p *program) tell(what string) {
	fmt.Fprintln(p.In, what)
	p.Expect("done")
}
