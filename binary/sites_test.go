package binary

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const siteProgram = `
int __attribute__((noinline)) leaf(int x) { return x * 3 + 1; }
int __attribute__((noinline)) inner(int n) { return n < 2 ? n : inner(n - 1) + inner(n - 2); }
int main(int argc, char **argv) { (void)argv; return leaf(argc) + inner(argc) == 7; }
`

// TestSites compares the sites of small programs, by what several compilers
// leave for several options.
func TestSites(t *testing.T) {
	source := filepath.Join(t.TempDir(), "a.c")
	if err := os.WriteFile(source, []byte(siteProgram), 0o666); err != nil {
		t.Fatal(err)
	}
	type room struct{ Before, Size, After int } // After: bytes from the function's beginning on
	for _, test := range []struct {
		compiler string
		flags    []string
		want     room
	}{
		{"gcc-12", []string{"-fpatchable-function-entry=5"}, room{0, 5, 0}},
		{"gcc-12", []string{"-fpatchable-function-entry=5", "-fno-pie", "-no-pie"}, room{0, 5, 0}},
		{"gcc-12", []string{"-fpatchable-function-entry=16,11"}, room{11, 5, 0}},
		{"gcc-12", []string{"-fpatchable-function-entry=16,11", "-fcf-protection"}, room{11, 5, 4}},
		{"gcc-12", []string{"-fpatchable-function-entry=2"}, room{0, 2, 0}},
		{"gcc-12", []string{"-fpatchable-function-entry=5", "-fcf-protection"}, room{0, 5, 4}},
		{"gcc-12", []string{"-fpatchable-function-entry=5", "-ffunction-sections", "-Wl,--gc-sections"}, room{0, 5, 0}},
		{"gcc-12", []string{"-pg", "-mfentry", "-mnop-mcount", "-mrecord-mcount", "-fno-pie", "-no-pie"}, room{0, 5, 0}},
		{"clang-16", []string{"-fpatchable-function-entry=5"}, room{0, 5, 0}},
		{"clang-16", []string{"-fpatchable-function-entry=7,5"}, room{5, 2, 0}},
		{"clang-19", []string{"-fpatchable-function-entry=16"}, room{0, 16, 0}},
		{"aarch64-linux-gnu-gcc", []string{"-fpatchable-function-entry=2"}, room{0, 8, 0}},
		{"aarch64-linux-gnu-gcc", []string{"-fpatchable-function-entry=2", "-fno-pie", "-no-pie"}, room{0, 8, 0}},
		{"aarch64-linux-gnu-gcc", []string{"-fpatchable-function-entry=2", "-static"}, room{0, 8, 0}},
		{"aarch64-linux-gnu-gcc", []string{"-fpatchable-function-entry=1", "-mbranch-protection=standard"}, room{0, 4, 4}},
		{"aarch64-linux-gnu-gcc", []string{"-fpatchable-function-entry=2", "-mbranch-protection=standard"}, room{0, 8, 4}},
		{"aarch64-linux-gnu-gcc", []string{"-fpatchable-function-entry=4,2", "-mbranch-protection=standard"}, room{8, 8, 4}},
		{"clang-16", []string{"--target=aarch64-linux-gnu", "-fpatchable-function-entry=2"}, room{0, 8, 0}},
		{"clang-16", []string{"--target=aarch64-linux-gnu", "-fpatchable-function-entry=4,2", "-mbranch-protection=standard"}, room{8, 8, 4}},
	} {
		t.Run(filepath.Join(append([]string{test.compiler}, test.flags...)...), func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "a")
			out, err := exec.Command(test.compiler, append(test.flags, "-O2", "-o", program, source)...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			file, err := os.Open(program)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			f, err := Open(file)
			if err != nil {
				t.Fatal(err)
			}
			names, err := f.Functions()
			if err != nil {
				t.Fatal(err)
			}
			sites, unusable, err := f.Sites(names)
			if err != nil || unusable != 0 {
				t.Fatalf("%d unusable, error %v", unusable, err)
			}
			got := make(map[string]room)
			for _, s := range sites {
				got[s.Function.Name] = room{s.Before, s.Size, int(s.Addr - s.Function.Addr)}
			}
			want := map[string]room{"leaf": test.want, "inner": test.want, "main": test.want}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestNops(t *testing.T) {
	for code, want := range map[string]int{
		"\x90\x90\x90\x90\x90\xc3":                     5,
		"\x0f\x1f\x44\x00\x08\xc3":                     5,
		"\x66\x90\xc3":                                 2,
		"\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00\x90": 11,
		"\xc3\x90":             0,
		"\xf3\x90":             0, // pause
		"\x0f\x1f\x44":         0, // cut off
		"\x41\x90":             0, // xchg %r8,%rax
		"":                     0,
		"\xf3\x0f\x1e\xfa\x90": 0,
	} {
		if got := nopsAMD64([]byte(code), maxRoom); got != want {
			t.Errorf("nopsAMD64(% x) = %d, want %d", code, got, want)
		}
	}
	for code, want := range map[string]int{
		"\x1f\x20\x03\xd5\x1f\x20\x03\xd5\xc0\x03\x5f\xd6": 8,
		"\x1f\x20\x03\xd5\x1f\x20\x03":                     4, // cut off
		"\x5f\x24\x03\xd5\x1f\x20\x03\xd5":                 0, // bti c
		"\x3f\x23\x03\xd5":                                 0, // paciasp
		"":                                                 0,
	} {
		if got := nopsARM64([]byte(code), maxRoom); got != want {
			t.Errorf("nopsARM64(% x) = %d, want %d", code, got, want)
		}
	}
}

func FuzzNops(f *testing.F) {
	f.Add([]byte("\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00\x90"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for machine, cpu := range siteCPUs {
			if n := cpu.nops(b, maxRoom); n < 0 || n > len(b) {
				t.Fatalf("%v: %d of %d bytes", machine, n, len(b))
			}
		}
	})
}
