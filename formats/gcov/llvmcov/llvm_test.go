package llvmcov

import (
	"bufio"
	"bytes"
	"fmt"
	"footfall/process/needs"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"footfall/formats/gcov/fixtures"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// llvmRunResult is all that a run leaves.
type llvmRunResult struct {
	Status         int
	Stdout, Stderr string
	Files          map[string]string // written below the directory
}

// runLLVMIn runs our llvm-cov in a directory that has these inputs, and
// removes what it wrote.
func runLLVMIn(t *testing.T, dir string, inputs map[string][]byte, version int, args []string) llvmRunResult {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status := Run(&Invocation{
		Prog: fmt.Sprintf("llvm-cov-%d gcov", version), Version: version, Args: args,
		Stdout: &stdout, Stderr: &stderr, Dir: dir,
	})
	return llvmRunResult{status, stdout.String(), stderr.String(), llvmWritten(t, dir, inputs)}
}

// llvmWritten returns and removes the files that are no inputs.
func llvmWritten(t *testing.T, dir string, inputs map[string][]byte) map[string]string {
	t.Helper()
	files := make(map[string]string)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, ok := inputs[e.Name()]; ok {
			continue
		}
		name := filepath.Join(dir, e.Name())
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(b)
		os.Remove(name)
	}
	return files
}

func llvmWriteInputs(tb testing.TB, dir string, inputs map[string][]byte) {
	tb.Helper()
	for name, b := range inputs {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			tb.Fatal(err)
		}
	}
}

func TestLLVMFixtures(t *testing.T) {
	for _, fx := range fixtures.All(t, "clang") {
		t.Run(fx.Compiler+"/"+fx.Program, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			llvmWriteInputs(t, dir, fx.Inputs)
			for _, set := range fx.Sets {
				version, err := strconv.Atoi(set.Cmd[0][strings.LastIndexByte(set.Cmd[0], '-')+1:])
				if err != nil {
					t.Fatal(err)
				}
				got := runLLVMIn(t, dir, fx.Inputs, version, set.Cmd[2:])
				want := llvmRunResult{set.Rc, set.Stdout, set.Stderr, set.Files}
				if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s: %v: (-llvm-cov +ours)\n%s", set.Name, set.Cmd, diff)
				}
			}
		})
	}
}

// llvmInstalled returns the versions of LLVM whose clang and llvm-cov are here.
func llvmInstalled(t *testing.T) []int {
	t.Helper()
	var versions []int
	for _, v := range []int{14, 16, 19} {
		found := true
		for _, tool := range []string{"clang", "clang++", "llvm-cov"} {
			if _, err := exec.LookPath(fmt.Sprintf("%s-%d", tool, v)); err != nil {
				t.Log(err)
				found = false
			}
		}
		if found {
			versions = append(versions, v)
		}
	}
	if len(versions) == 0 {
		needs.Skip(t, needs.Tools, "clang and llvm-cov, of LLVM 14, 16 or 19")
	}
	return versions
}

// llvmPrograms are built and run for TestLLVMConfirm.
var llvmPrograms = map[string]map[string]string{
	"c": {
		"shape.h": `
#define TWICE(x) do { x; x; } while (0)
static inline int clamp(int v, int lo, int hi) { return v < lo ? lo : v > hi ? hi : v; }
int area(int kind, int a, int b);
`,
		"area.c": `
#include "shape.h"
int area(int kind, int a, int b) {
  switch (kind) {
  case 0: return a * b;
  case 1: return a * a;
  case 2:
  case 3: if (a > b) return a; else return b;
  default: return -1;
  }
}
int unused(int n) { while (n) n--; return n; }
`,
		"main.c": `
#include "shape.h"
#include <setjmp.h>
#include <stdlib.h>
static jmp_buf env;
static int sum, steps;
static void leave(int n) { if (n > 7) longjmp(env, 1); steps++; }
static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
int main(int argc, char **argv) {
  for (int i = 0; i < 10; i++) for (int j = 0; j < i; j++) if (i % 3 && j % 2 || i == j + 1) sum += clamp(i * j, 3, 40); else sum--;
  TWICE(sum += area(sum % 5, sum, 2));
  int n = 12;
again:
  if (n-- > 0) { if (n == 5) goto again; sum += fib(n % 6); goto again; }
  do { n++; if (n == 3) continue; if (n > 5) break; } while (n < 100);
  if (setjmp(env) == 0) for (n = 0;; n++) leave(n);
  static void *where[] = { &&one, &&two };
  goto *where[sum & 1];
one: sum++;
two: sum += 2;
#line 100 "other.y"
  sum += argc;
#line 41 "main.c"
  exit(sum < 0);
}
`,
	},
	"cpp": {
		"stack.h": `
#include <stdexcept>
template <class T, int N> class Stack {
  T items[N]; int used = 0;
public:
  void push(T v) { if (used == N) throw std::length_error("full"); items[used++] = v; }
  T pop() { if (!used) throw std::out_of_range("empty"); return items[--used]; }
  bool empty() const { return !used; }
};
template <class T> T largest(T a, T b) { return a < b ? b : a; }
template <int N> int power(int x) { return x * power<N - 1>(x); }
template <> inline int power<0>(int) { return 1; }
`,
		"main.cc": `
#include "stack.h"
struct Base { virtual ~Base() {} virtual int f(int x) { return x; } };
struct Derived : Base { int k; Derived(int k) : k(k) {} ~Derived() override { k = 0; } int f(int x) override { return x * k; } };
namespace { struct Guard { int &n; ~Guard() { n++; } }; }
static int cleaned;
static int risky(int n) {
  Guard g{cleaned};
  if (n % 3 == 0) throw n;
  return n;
}
int main() {
  Stack<int, 4> s; Stack<double, 2> d;
  int total = 0;
  for (int i = 0; i < 6; i++) try { s.push(i); d.push(i / 2.0); } catch (std::length_error &) { total++; }
  try { while (true) total += s.pop(); } catch (std::exception &) { total += 10; }
  for (int i = 0; i < 7; i++) try { total += risky(i); } catch (int n) { if (n > 3) total -= n; }
  Base *b = new Derived(largest(power<3>(2), power<2>(1)));
  auto twice = [&](double v) { return v + v; };
  total += b->f(2) + (int)twice(1) + (int)twice(2.5) + largest(1, 2) + (int)largest(1.5, 0.5);
  delete b;
  return !(total > 0 && cleaned == 7 && !d.empty());
}
`,
	},
}

// buildLLVM returns sources, notes and data of a program.
func buildLLVM(t *testing.T, version int, sources map[string]string, opt string) (dir string, inputs map[string][]byte, operands []string) {
	t.Helper()
	dir = t.TempDir()
	var objects []string
	for name, text := range sources {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
	}
	compiler := fmt.Sprintf("clang++-%d", version)
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		stem, ext, _ := strings.Cut(name, ".")
		switch ext {
		case "c":
			compiler = fmt.Sprintf("clang-%d", version)
			run(compiler, "-w", opt, "--coverage", "-c", name, "-o", stem+".o")
		case "cc":
			run(compiler, "-w", "-std=c++17", opt, "--coverage", "-c", name, "-o", stem+".o")
		default:
			continue
		}
		objects = append(objects, stem+".o")
		operands = append(operands, name)
	}
	run(compiler, append(objects, "--coverage", "-o", "prog")...)
	run("./prog")
	os.Remove(filepath.Join(dir, "prog"))
	inputs = make(map[string][]byte)
	for name, text := range llvmWritten(t, dir, nil) {
		if filepath.Ext(name) != ".o" {
			inputs[name] = []byte(text)
		}
	}
	return dir, inputs, operands
}

// confirmLLVM compares our run with that of the real program.
func confirmLLVM(t *testing.T, version int, dir string, inputs map[string][]byte, args ...string) {
	t.Helper()
	name, err := exec.LookPath(fmt.Sprintf("llvm-cov-%d", version))
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	cmd := &exec.Cmd{
		Path: name, Args: append([]string{fmt.Sprintf("llvm-cov-%d", version), "gcov"}, args...),
		Dir: dir, Stdout: &stdout, Stderr: &stderr,
	}
	if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() < 0 {
		t.Errorf("llvm-cov-%d gcov %q: %v", version, args, err)
		return
	}
	want := llvmRunResult{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String(), llvmWritten(t, dir, inputs)}
	got := runLLVMIn(t, dir, inputs, version, args)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("llvm-cov-%d gcov %q: (-llvm-cov +ours)\n%s", version, args, diff)
	}
}

func TestLLVMConfirm(t *testing.T) {
	sets := [][]string{
		{}, {"-a", "-b", "-u"}, {"-bcf"}, {"-t", "-abc"}, {"-i", "-b"}, {"-x", "-l", "-p"}, {"-f", "-m", "-b"}, {"-r", "-s", "/usr", "-n"}, {"--dump", "-n"},
	}
	for _, version := range llvmInstalled(t) {
		for program, sources := range llvmPrograms {
			for _, opt := range []string{"-O0", "-O2", "-Os"} {
				t.Run(fmt.Sprintf("clang-%d/%s%s", version, program, opt), func(t *testing.T) {
					t.Parallel()
					dir, inputs, operands := buildLLVM(t, version, sources, opt)
					llvmWriteInputs(t, dir, inputs)
					for _, set := range sets {
						confirmLLVM(t, version, dir, inputs, append(slices.Clone(set), operands...)...)
					}
				})
			}
		}
	}
}

// TestLLVMConfirmErrors compares what is said of damaged files, of files that
// do not belong together, and of wrong options.
func TestLLVMConfirmErrors(t *testing.T) {
	for _, version := range llvmInstalled(t) {
		t.Run(fmt.Sprintf("llvm-%d", version), func(t *testing.T) {
			t.Parallel()
			dir, inputs, _ := buildLLVM(t, version, llvmPrograms["c"], "-O1")
			notes, data := inputs["main.gcno"], inputs["main.gcda"]
			inputs["nodata.gcno"] = notes
			inputs["orphan.gcda"] = data
			inputs["swapped.gcno"], inputs["swapped.gcda"] = notes, inputs["area.gcda"]
			inputs["text.gcno"], inputs["text.gcda"] = notes, []byte("no data\n")
			inputs["words.gcno"] = []byte("no notes\n")
			inputs["old.gcno"] = []byte("oncg*102\x00\x00\x00\x00")
			inputs["none.gcno"], inputs["none.gcda"] = []byte{}, []byte{}
			inputs["empty.gcno"], inputs["empty.gcda"] = notes, []byte{}
			inputs["response"] = []byte("-b 'main.c' area\\.c\n")
			for i := 0; i < len(notes); i += len(notes)/23 | 1 {
				name := fmt.Sprintf("cut%d", i)
				inputs[name+".gcno"], inputs[name+".gcda"] = notes[:i], data
			}
			for i := 0; i < len(data); i += len(data)/11 | 1 {
				name := fmt.Sprintf("short%d", i)
				inputs[name+".gcno"], inputs[name+".gcda"] = notes, data[:i]
			}
			llvmWriteInputs(t, dir, inputs)
			for name := range inputs {
				if stem, ok := strings.CutSuffix(name, ".gcno"); ok {
					confirmLLVM(t, version, dir, inputs, "-b", "-a", "-f", stem)
				}
			}
			for _, args := range []string{
				"", "orphan", "nowhere.c main.c", "-n orphan main", "-ab=0 main.c", "-bc main.gcda -n", "--branch-probabilities=no main.c", "-a -a main.c",
				"-o . main.c", "-o=main.o x.c", "-nao", "-no . main.c", "-oab main.c", "-d main.c", "-n -k -e main.c", "-ns", "--source-prefix", "-version=3",
				"--gcno=area.gcno --gcda=main.gcda main.c", "--gcno=main.gcno x", "@response", "@nowhere", "-- -a", "main.c -- -n area.c", "-t -i main.c", "/",
				"./main.c -l -p", "../main.c", ".//./main.c -p -x", "-s main main.c", "-s main.c -r main.c", "-s=other.y main.c", "-bb main.c", "-c=1 -b -u main.c",
			} {
				confirmLLVM(t, version, dir, inputs, strings.Fields(args)...)
			}
		})
	}
}

// FuzzLLVM lists whatever the bytes say.
func FuzzLLVM(f *testing.F) {
	sources := f.TempDir()
	for _, fx := range fixtures.All(f, "clang") {
		for name, notes := range fx.Inputs {
			if stem, ok := strings.CutSuffix(name, ".gcno"); ok {
				version := byte(len(notes))
				f.Add(notes, fx.Inputs[stem+".gcda"], version, uint16(len(name)*977))
				continue
			}
			if filepath.Ext(name) != ".gcda" {
				llvmWriteInputs(f, sources, map[string][]byte{name: fx.Inputs[name]})
			}
		}
	}
	f.Fuzz(func(t *testing.T, notes, data []byte, version byte, options uint16) {
		run := &llvmRun{
			inv:     &Invocation{Stderr: io.Discard, Dir: sources},
			version: 9 + llvmVersion(version)%(llvmNewest-8),
			stdout:  bufio.NewWriter(io.Discard),
			opts: llvmOptions{
				blocks: options&1 != 0, branches: options&2 != 0, counts: options&4 != 0, unconditional: options&8 != 0,
				functions: options&16 != 0, stdout: options&32 != 0, demangle: options&64 != 0, noOutput: options&32 == 0,
			},
		}
		file := &llvmFile{version: run.version, stderr: io.Discard}
		if !file.readNotes(notes) {
			return
		}
		file.readData(data)
		file.dump(run.stdout)
		l := &llvmListing{run: run, file: file, main: "x.c"}
		if run.version.solvesTree() {
			l.print()
			for i := range l.sources {
				l.printIntermediate(run.stdout, &l.sources[i])
			}
		} else {
			l.printOld()
		}
	})
}
