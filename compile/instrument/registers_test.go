//go:build linux

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

// TestRegisters has programs whose functions need all registers count in the ways that take
// r11: they do what they do uncounted, and count what Atomic does, which takes none.
func TestRegisters(t *testing.T) {
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
				calls := func(u ProfileUpdate) map[string][]uint64 {
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
				want := calls(Atomic)
				for _, u := range []ProfileUpdate{Plain, Thread, Split} {
					if diff := cmp.Diff(want, calls(u)); diff != "" {
						t.Errorf("%v counts (-atomic +%v):\n%s", u, u, diff)
					}
				}
			})
		}
	}
}

// TestRegistersEverywhere shows what must not be done: GCC does keep a value in r11
// across calls in this program, and increments by r11 of all functions change
// what it prints.
func TestRegistersEverywhere(t *testing.T) {
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
	none, _, err := Rewrite(text, Options{Update: Plain, KeepR11: true})
	if err != nil {
		t.Fatal(err)
	}
	plain, _, err := Rewrite(text, Options{Update: Plain})
	if err != nil {
		t.Fatal(err)
	}
	split, _, err := Rewrite(text, Options{Update: Split})
	if err != nil {
		t.Fatal(err)
	}
	increment := regexp.MustCompile(`\tincq\t(\.Lfc\+\d+\(%rip\))`)
	everywhere := increment.ReplaceAll(none, []byte("\tmovq\t$1, %r11\n\tleaq\t1(%r11), %r11\n\tmovq\t%r11, $1"))
	everyAddress := increment.ReplaceAll(none, []byte("\tleaq\t$1, %r11\n\tincq\t(%r11)"))
	want := run("uncounted", text)
	if got := run("split", split); got != want {
		t.Errorf("split:\n%s\nwant\n%s", got, want)
	}
	if got := run("plain", plain); got != want {
		t.Errorf("plain:\n%s\nwant\n%s", got, want)
	}
	if run("everywhere", everywhere) == want || run("everyAddress", everyAddress) == want {
		t.Error("nothing is in r11 across a call: the program does not test increments that take it")
	}
	if n := strings.Count(string(plain), "\tincq\t(%r11)"); n == 0 || n >= strings.Count(string(everyAddress), "\tincq\t(%r11)") {
		t.Errorf("%d increments by r11; want some, but not everywhere", n)
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
