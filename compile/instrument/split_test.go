package instrument

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSplit has programs whose functions need all registers count by Split: they
// do what they do uncounted, and count what Plain does.
func TestSplit(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("needs compilers for amd64")
	}
	for _, c := range []struct {
		compiler string
		flags    []string
	}{
		{"gcc-12", []string{"-O0", "-O1", "-O2", "-O3 -fcf-protection", "-O2 -fno-ipa-ra", "-O2 -mforce-indirect-call", "-O2 -mcmodel=large -fno-pie -no-pie",
			"-O2 -mindirect-branch=thunk", "-Os -fno-plt -fPIC", "-O2 -fpatchable-function-entry=5,2"}},
		{"clang-16", []string{"-O0", "-O1", "-O2 -fno-plt -fPIC", "-O3 -fcf-protection"}},
	} {
		for _, flags := range c.flags {
			t.Run(c.compiler+" "+flags, func(t *testing.T) {
				t.Parallel()
				calls := func(u Update) map[string][]uint64 {
					out, c := build{compiler: c.compiler, flags: flags, cpu: "amd64", update: u}.program(t, "testdata/registers.c")
					checkOwn(t, out, c, true)
					m := make(map[string][]uint64)
					for _, f := range c.Images[0].Functions {
						m[f.Name] = append(m[f.Name], f.Calls)
						for _, s := range f.Sites {
							m[f.Name] = append(m[f.Name], s.Count, s.Further)
							for _, target := range s.Targets {
								m[f.Name] = append(m[f.Name], target.Count)
							}
						}
					}
					return m
				}
				if diff := cmp.Diff(calls(Plain), calls(Split)); diff != "" {
					t.Errorf("split counts (-plain +split):\n%s", diff)
				}
			})
		}
	}
}

// TestSplitEverywhere shows what Split must not do: GCC does keep a value in r11
// across calls in this program, and increments by r11 of all functions change
// what it prints.
func TestSplitEverywhere(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("needs compilers for amd64")
	}
	dir := t.TempDir()
	text := command(t, dir, "gcc-12", "-O2", "-S", absolute(t, "testdata/registers.c"), "-o", "-")
	run := func(name string, text []byte) string {
		source := filepath.Join(dir, name+".s")
		if err := os.WriteFile(source, text, 0o666); err != nil {
			t.Fatal(err)
		}
		command(t, dir, "gcc-12", source, "-o", name)
		return string(command(t, dir, "./"+name))
	}
	plain, _, err := Rewrite(text, Options{Update: Plain})
	if err != nil {
		t.Fatal(err)
	}
	split, _, err := Rewrite(text, Options{Update: Split})
	if err != nil {
		t.Fatal(err)
	}
	everywhere := regexp.MustCompile(`\tincq\t(\.Lfc\+\d+\(%rip\))`).ReplaceAll(plain, []byte("\tmovq\t$1, %r11\n\tleaq\t1(%r11), %r11\n\tmovq\t%r11, $1"))
	want := run("uncounted", text)
	if got := run("split", split); got != want {
		t.Errorf("split:\n%s\nwant\n%s", got, want)
	}
	if run("everywhere", everywhere) == want {
		t.Error("nothing is in r11 across a call: the program does not test split increments")
	}
	if n := strings.Count(string(split), "1(%r11)"); n == 0 || n >= strings.Count(string(everywhere), "1(%r11)") {
		t.Errorf("%d split increments; want some, but not everywhere", n)
	}
}

func absolute(t *testing.T, name string) string {
	abs, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}
