//go:build linux

package instrument

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"footfall/demangle"
)

// A build is a compiler with flags.
type build struct {
	compiler string // of C; that of C++ follows from it
	flags    string
	cpu      string
	update   ProfileUpdate
	run      []string // what runs the program, if it cannot run by itself
}

func (b build) String() string {
	return strings.Join([]string{b.compiler, b.flags, b.update.String()}, " ")
}

func (b build) command(source string) string {
	if filepath.Ext(source) == ".c" {
		return b.compiler
	}
	return strings.NewReplacer("gcc", "g++", "clang", "clang++").Replace(b.compiler)
}

func (b build) words() []string {
	words := strings.Fields(b.flags)
	switch {
	case b.cpu == "386":
		// Where gcc-12-multilib is alone, the kernel's headers are not found.
		words = append(words, "-idirafter", "/usr/include/x86_64-linux-gnu")
	case strings.HasPrefix(b.compiler, "aarch64"):
		words = append(words, "-fno-ipa-ra")
	}
	if strings.Contains(b.compiler, "gcc") && b.cpu != "arm64" {
		words = append(words, "-dp")
	}
	if b.threads() == 2 {
		words = append(words, "-Wl,--wrap=pthread_create,--wrap=thrd_create,--wrap=clone")
	}
	return words
}

// threads is the runtime's FOOTFALL_THREADS.
func (b build) threads() int {
	switch {
	case b.update != Thread && b.update != Locked || b.cpu != "amd64":
		return 0
	case strings.Contains(b.flags, "-static"):
		return 2
	}
	return 1
}

// builds are the ways in which the programs of testdata are compiled.
func builds() []build {
	var list []build
	add := func(compiler, cpu string, flags ...string) {
		for i, f := range flags {
			list = append(list, build{compiler: compiler, flags: f, cpu: cpu, update: ProfileUpdate(i % int(Split))})
		}
	}
	gcc := []string{"-O0", "-O0 -g", "-O1", "-O2 -g", "-O2 -fno-plt -fPIC", "-O3 -fcf-protection", "-Os -ffunction-sections -Wl,--gc-sections",
		"-O2 -static", "-O2 -mindirect-branch=thunk", "-O2 -fPIC -mtls-dialect=gnu2", "-O2 -fno-asynchronous-unwind-tables -fno-exceptions -fpatchable-function-entry=5,2"}
	clang := []string{"-O0", "-O1", "-O2 -g", "-O2 -fPIC -fno-plt", "-O3 -fcf-protection", "-Os -ffunction-sections -Wl,--gc-sections", "-O2 -static"}
	add("gcc-11", "amd64", gcc[:4]...)
	add("gcc-11", "386", "-m32 -O2")
	add("gcc-12", "amd64", gcc...)
	add("gcc-12", "386", "-m32 -O0", "-m32 -O2", "-m32 -O2 -fno-pie -no-pie", "-m32 -O3 -fPIC")
	for _, c := range []string{"clang-14", "clang-16", "clang-19"} {
		add(c, "amd64", clang...)
	}
	add("clang-16", "386", "-m32 -O0", "-m32 -O2")
	add("aarch64-linux-gnu-gcc", "arm64", "-static -O0", "-static -O1", "-static -O2", "-static -O2 -mbranch-protection=standard -mno-outline-atomics")
	for _, f := range gcc {
		list = append(list, build{compiler: "gcc-12", flags: f, cpu: "amd64", update: Split})
	}
	for _, f := range clang {
		list = append(list, build{compiler: "clang-16", flags: f, cpu: "amd64", update: Split})
	}
	for i := range list {
		if list[i].cpu == "arm64" {
			list[i].run = []string{"qemu-aarch64"}
		}
	}
	return list
}

func command(t *testing.T, dir string, words ...string) []byte {
	t.Helper()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, stderr.Bytes())
	}
	return out
}

// object compiles a source, with counting or without.
func (b build) object(t *testing.T, dir, source string, counted bool) string {
	t.Helper()
	base := filepath.Join(dir, filepath.Base(source))
	assembly, object := base+".s", base+".o"
	compile := append([]string{b.command(source)}, b.words()...)
	command(t, dir, append(compile, "-S", source, "-o", assembly)...)
	if counted {
		src, err := os.ReadFile(assembly)
		if err != nil {
			t.Fatal(err)
		}
		out, r, err := Rewrite(src, Options{CPU: b.cpu, Update: b.update})
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		for _, p := range r.Problems {
			if b.cpu != "386" { // has no register for all
				t.Errorf("%s: %v", source, p)
			}
		}
		if err := os.WriteFile(assembly, out, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	assemble := append(compile, "-c", assembly, "-o", object)
	if strings.Contains(b.compiler, "clang") {
		assemble = append(assemble, "-w", "-Wno-unused-command-line-argument")
	}
	command(t, dir, assemble...)
	return object
}

// runtimeObject compiles the runtime.
func (b build) runtimeObject(t *testing.T, dir string) string {
	t.Helper()
	source, object := filepath.Join(dir, "footfall.c"), filepath.Join(dir, "footfall.o")
	if err := os.WriteFile(source, Runtime(), 0o666); err != nil {
		t.Fatal(err)
	}
	words := append([]string{b.compiler}, b.words()...)
	if strings.Contains(b.compiler, "clang") {
		words = append(words, "-Qunused-arguments")
	}
	words = append(words, fmt.Sprintf("-DFOOTFALL_THREADS=%d", b.threads()))
	command(t, dir, append(words, "-O2", "-fPIC", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-c", source, "-o", object)...)
	return object
}

// program builds and runs sources, plain and counted, and returns what was
// printed, which is the same, and the counts.
func (b build) program(t *testing.T, sources ...string) (string, *CountsFile) {
	t.Helper()
	dir := t.TempDir()
	link := func(name string, counted bool) string {
		words := []string{b.command(sources[0])}
		words = append(words, b.words()...)
		for _, s := range sources {
			abs, err := filepath.Abs(s)
			if err != nil {
				t.Fatal(err)
			}
			words = append(words, b.object(t, dir, abs, counted))
		}
		if counted {
			words = append(words, b.runtimeObject(t, dir))
		}
		if strings.Contains(b.compiler, "clang") {
			words = append(words, "-Qunused-arguments")
		}
		program := filepath.Join(dir, name)
		command(t, dir, append(words, "-o", program)...)
		return program
	}
	plain := run(t, dir, nil, append(b.run, link("plain", false))...)
	counted := link("counted", true)
	file := filepath.Join(dir, "out.counts")
	got := run(t, dir, []string{"FOOTFALL_OUT=" + file}, append(b.run, counted)...)
	if got != plain {
		t.Errorf("the counted program printed\n%s\nthe plain one\n%s", got, plain)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ReadCounts(data)
	if err != nil {
		t.Fatal(err)
	}
	return got, c
}

// TestPrograms compiles programs in many ways. Each must do what it does
// uncounted, count what its functions count themselves, and have as many calls
// of a function as entries.
func TestPrograms(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("needs compilers for amd64")
	}
	for i, b := range builds() {
		if testing.Short() && i%5 != 0 {
			continue
		}
		t.Run(b.String(), func(t *testing.T) {
			t.Parallel()
			out, c := b.program(t, "testdata/calls.c", "testdata/other.c")
			checkOwn(t, out, c, strings.Contains(b.flags, "-O0"))
			if !strings.Contains(b.flags, "=thunk") { // which hides indirect calls
				checkArcs(t, c, b.cpu == "arm64")
			}
		})
		if !strings.Contains(b.flags, "-fno-exceptions") && b.cpu != "arm64" && (i%3 == 0 || strings.Contains(b.flags, "-fPIC")) {
			t.Run(b.String()+" C++", func(t *testing.T) {
				t.Parallel()
				out, c := b.program(t, "testdata/objects.cc", "testdata/other.c")
				checkOwn(t, out, c, strings.Contains(b.flags, "-O0"))
				checkArcs(t, c, b.cpu == "arm64")
			})
		}
	}
}

// ownName is the name by which functions of the programs count themselves.
func ownName(f *CountedFunction) string {
	name := demangle.Bare(f.Name)
	if i := strings.LastIndex(name, "::"); i >= 0 {
		name = name[i+2:]
	}
	name, _, _ = strings.Cut(name, ".")
	if i := strings.LastIndex(name, " "); i >= 0 {
		name = name[i+1:]
	}
	if f.Local && name == "helper" {
		name += "@" + filepath.Base(f.Unit)
	}
	return name
}

// recursive functions may become loops, which have fewer entries.
var recursive = map[string]bool{"fib": true, "even": true, "odd": true, "other": true, "jumps": true}

func checkOwn(t *testing.T, out string, c *CountsFile, exact bool) {
	t.Helper()
	got := make(map[string]uint64)
	for _, im := range c.Images {
		for _, f := range im.Functions {
			got[ownName(f)] += f.Calls
		}
	}
	checked := 0
	for line := range strings.Lines(out) {
		var name string
		var n uint64
		if _, err := fmt.Sscanf(line, "count %s %d", &name, &n); err != nil {
			continue
		}
		switch name {
		case "made", "gone", "lambda", "thunk": // whose symbols have other names
			continue
		}
		checked++
		if got[name] != n && (exact || !recursive[name] || got[name] > n) {
			t.Errorf("%s: %d calls, it counted %d itself", name, got[name], n)
		}
	}
	if checked < 6 {
		t.Errorf("only %d functions checked", checked)
	}
}

// checkArcs checks that the calls of each function add up to its entries. Not
// known are calls by uncounted functions, and further targets of a site.
func checkArcs(t *testing.T, c *CountsFile, noIndirectTails bool) {
	t.Helper()
	calls := make(map[*CountedFunction]uint64)
	var further uint64
	for _, a := range c.Arcs() {
		switch {
		case a.Callee != nil:
			calls[a.Callee] += a.Count
		case a.Name == "" && a.Address == 0:
			further += a.Count
		}
	}
	for _, im := range c.Images {
		for _, f := range im.Functions {
			switch ownName(f) {
			case "main", "compare", "_sub_I_main":
				continue
			}
			if strings.HasPrefix(f.Name, "_GLOBAL__") || noIndirectTails && f.Local {
				continue
			}
			if in := calls[f]; in > f.Calls || in+further < f.Calls || im.WordSize == 8 && in < f.Calls && !noIndirectTails {
				t.Errorf("%s: %d entries, but %d calls (and %d of unknown functions)", f.Name, f.Calls, in, further)
			}
		}
	}
}

// TestFrames has signals interrupt counting everywhere: unwinders find the callers
// then, too.
func TestFrames(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("needs compilers for amd64")
	}
	for _, b := range []build{
		{compiler: "gcc-12", flags: "-O2", cpu: "amd64"},
		{compiler: "gcc-12", flags: "-O0", cpu: "amd64", update: Atomic},
		{compiler: "gcc-12", flags: "-O2 -fcf-protection -mforce-indirect-call", cpu: "amd64", update: Split},
		{compiler: "clang-16", flags: "-O2", cpu: "amd64", update: Split},
		{compiler: "clang-19", flags: "-O1 -fno-omit-frame-pointer", cpu: "amd64"},
		{compiler: "gcc-12", flags: "-m32 -O2", cpu: "386"},
		{compiler: "clang-16", flags: "-m32 -O1 -fno-omit-frame-pointer", cpu: "386", update: Atomic},
	} {
		t.Run(b.String(), func(t *testing.T) {
			t.Parallel()
			out, _ := b.program(t, "testdata/frames.cc")
			if want := "main missed 0 times"; !strings.Contains(out, want) {
				t.Errorf("%q, want %s", out, want)
			}
		})
	}
}
