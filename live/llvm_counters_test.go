//go:build linux

package live

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"footfall/formats/llvm"
	"footfall/process/needs"
)

// Each linked object writes a file of its own. The programs of all tests
// inherit it: tests that run at the same time have one environment.
func init() { os.Setenv("LLVM_PROFILE_FILE", "%m.profraw") }

const mapping = "-fprofile-instr-generate -fcoverage-mapping"

var profileVariants = []struct {
	variant
	counters string
	since    int // Clang
}{
	{variant: variant{name: "O0", sources: []string{"work.c"}}},
	{variant: variant{name: "O2", flags: "-O2", sources: []string{"work.c"}}},
	{variant: variant{name: "atomic", flags: "-O2", sources: []string{"work.c"}}, counters: mapping + " -fprofile-update=atomic", since: 12},
	{variant: variant{name: "LTO", flags: "-O2 -flto", sources: []string{"work.c"}}},
	{variant: variant{name: "static", flags: "-DSTATIC -static", sources: []string{"work.c"}}},
	{variant: variant{name: "static stripped", flags: "-DSTATIC -static", sources: []string{"work.c"}, strip: true}},
	{variant: variant{name: "no PIE", flags: "-no-pie -fno-pie", sources: []string{"work.c"}}},
	{variant: variant{name: "PIE stripped", flags: "-O2 -pie -fPIE", sources: []string{"work.c"}, strip: true}},
	{variant: variant{name: "no build ID", flags: "-Wl,--build-id=none", sources: []string{"work.c"}}},
	{variant: variant{name: "sanitized", flags: "-O1 -fsanitize=address,undefined", sources: []string{"work.c"}}},
	{variant: variant{name: "C++ comdat", sources: []string{"first.cc", "second.cc"}}},
	{variant: variant{name: "C++ comdat O2 stripped", flags: "-O2", sources: []string{"first.cc", "second.cc"}, strip: true}},
	{variant: variant{name: "dlopen", sources: []string{"work.c"}, library: true}},
	{variant: variant{name: "dlopen stripped", flags: "-O2", sources: []string{"work.c"}, library: true, strip: true}},
	{variant: variant{name: "conditions", sources: []string{"work.c"}}, counters: mapping + " -fcoverage-mcdc", since: 18},
	{variant: variant{name: "conditions stripped", sources: []string{"first.cc", "second.cc"}, strip: true}, counters: mapping + " -fcoverage-mcdc", since: 18},
	{variant: variant{name: "values", flags: "-O1", sources: []string{"work.c"}, library: true}, counters: "-fprofile-generate"},
	{variant: variant{name: "m32", flags: "-m32", sources: []string{"work.c"}}},
	{variant: variant{name: "m32 O2 stripped", flags: "-m32 -O2", sources: []string{"work.c"}, strip: true}},
	{variant: variant{name: "m32 values", flags: "-m32 -O1", sources: []string{"work.c"}}, counters: "-fprofile-generate"},
}

// TestProfilesExact reads the counters of running programs, lets the programs
// write them, and compares the bytes.
func TestProfilesExact(t *testing.T) {
	for _, compiler := range clangs(t) {
		for _, v := range profileVariants {
			t.Run(compiler+"/"+v.name, func(t *testing.T) {
				t.Parallel()
				if major, _ := strconv.Atoi(compiler[len("clang-"):]); major < v.since {
					t.Skipf("needs Clang %d", v.since)
				}
				if v.counters == "" {
					v.counters = mapping
				}
				exact(t, v.startClang(t, compiler, v.counters, "__llvm_profile_write_file"), strings.Replace(compiler, "clang", "llvm-profdata", 1))
			})
		}
	}
}

// TestContinuous reads the counters of a program that counts in its file.
func TestContinuous(t *testing.T) {
	for _, compiler := range clangs(t) {
		for _, strip := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/strip=%t", compiler, strip), func(t *testing.T) {
				if compiler == "clang-9" || compiler == "clang-11" {
					t.Skip("needs Clang 13")
				}
				v := variant{flags: "-O1", sources: []string{"work.c"}, strip: strip}
				t.Setenv("LLVM_PROFILE_FILE", "%c%m.profraw")
				exact(t, v.startClang(t, compiler, mapping+" -mllvm -runtime-counter-relocation=true", "__llvm_profile_write_file"), "")
			})
		}
	}
}

// TestRustExact does the same with a program of Rust.
func TestRustExact(t *testing.T) {
	if _, err := exec.LookPath("rustc"); err != nil {
		needs.Skip(t, needs.Rust, err)
	}
	for name, flags := range map[string][]string{
		"debug":             {"-C", "opt-level=0"},
		"release":           {"-C", "opt-level=3"},
		"release, stripped": {"-C", "opt-level=3", "-C", "strip=symbols"},
		"static":            {"-C", "target-feature=+crt-static"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			b, err := os.ReadFile("testdata/rust.rs")
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "rust.rs"), b)
			cmd := exec.Command("rustc", append(flags, "-C", "instrument-coverage", "-o", "prog", "rust.rs")...)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); bytes.Contains(out, []byte("profiler_builtins")) {
				t.Skipf("this Rust has no runtime for coverage: %s", out)
			} else if err != nil {
				t.Fatalf("rustc: %v\n%s", err, out)
			}
			exact(t, run(t, dir, "./prog"), "")
		})
	}
}

// exact compares profiles of the program with those that it writes into its
// directory, and lets llvm-profdata read them if there is that one.
func exact(t *testing.T, p *program, profdata string) {
	t.Helper()
	process, err := Open(p.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer process.Close()
	p.tell("work")
	profiles, err := process.Profiles()
	if err != nil {
		t.Fatal(err)
	}
	p.tell("dump")
	files, err := filepath.Glob(filepath.Join(p.dir, "*.profraw"))
	if err != nil {
		t.Fatal(err)
	}
	written := make(map[string]string) // files by their bytes
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		written[string(b)] = name
	}
	if len(profiles) != len(files) || len(files) == 0 {
		t.Errorf("%d profiles, the program wrote %q", len(profiles), files)
	}
	for _, profile := range profiles {
		if _, err := exec.LookPath(profdata); err == nil {
			write(t, filepath.Join(p.dir, profile.Name+".copy"), profile.Bytes)
			build(t, p.dir, profdata, "merge", "-o", profile.Name+".profdata", profile.Name+".copy")
		}
		if written[string(profile.Bytes)] != "" {
			continue
		}
		for b, name := range written {
			if bytes.Equal([]byte(b[:min(len(b), 16)]), profile.Bytes[:16]) {
				t.Errorf("%s: bytes differ from %s\nprogram  %x\nfootfall %x", profile.Name, filepath.Base(name), b, profile.Bytes)
			}
		}
	}
}

// TestProfilesHardReset sets counters, bitmaps and the counts of values to zero. What the program writes afterwards is
// what is read.
func TestProfilesHardReset(t *testing.T) {
	for _, compiler := range clangs(t) {
		for _, kind := range []struct {
			name, counters, pattern string
			since                   int
		}{
			{"counters", mapping, "%m.profraw", 0},
			{"conditions", mapping + " -fcoverage-mcdc", "%m.profraw", 18},
			{"values", "-fprofile-generate", "%m.profraw", 0},
			{"continuous", mapping + " -mllvm -runtime-counter-relocation=true", "%c%m.profraw", 13},
		} {
			t.Run(compiler+"/"+kind.name, func(t *testing.T) {
				if major, _ := strconv.Atoi(compiler[len("clang-"):]); major < kind.since {
					t.Skipf("needs Clang %d", kind.since)
				}
				t.Setenv("LLVM_PROFILE_FILE", kind.pattern)
				v := variant{flags: "-O1", sources: []string{"work.c"}}
				p := v.startClang(t, compiler, kind.counters, "__llvm_profile_write_file")
				process := opened(t, p)
				p.tell("work") // now it waits where nothing is counted
				r, err := process.HardReset(nil)
				if skipForbidden(t, err); err != nil || r.Units != 1 || r.Counters == 0 || len(r.Undone) > 0 {
					t.Fatalf("%+v, %v", r, err)
				}
				profiles, err := process.Profiles()
				if err != nil || len(profiles) != 1 {
					t.Fatal(profiles, err)
				}
				list, err := llvm.Read(profiles[0].Bytes)
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range list[0].Counted {
					left := slices.ContainsFunc(c.Counts, func(n uint64) bool { return n != 0 }) || len(bytes.Trim(c.Bitmap, "\x00")) > 0
					for _, sites := range c.Values {
						for _, s := range sites {
							left = left || slices.ContainsFunc(s, func(v llvm.ValueCount) bool { return v.Count != 0 })
						}
					}
					if left {
						t.Errorf("%s: %v %v %v", c.Name, c.Counts, c.Bitmap, c.Values)
					}
				}
				exact(t, p, "")
			})
		}
	}
}

// TestProfilesInPlace adds the counters of programs to the files that they write afterwards: the names are the same, and
// the file has twice what the program has counted.
func TestProfilesInPlace(t *testing.T) {
	for _, compiler := range clangs(t) {
		for _, pattern := range []string{"own-%p-%h.profraw", "%m.profraw", "sub/%2m-%p.profraw", ""} {
			t.Run(fmt.Sprintf("%s/%s", compiler, pattern), func(t *testing.T) {
				t.Setenv("LLVM_PROFILE_FILE", pattern)
				flags := mapping
				if pattern == "" {
					flags = strings.Replace(mapping, "generate", "generate=told-%p.profraw", 1)
				}
				v := variant{sources: []string{"work.c"}}
				p := v.startClang(t, compiler, flags, "__llvm_profile_write_file")
				process := opened(t, p)
				p.tell("work")
				profiles, err := process.Profiles()
				if err != nil || len(profiles) != 1 {
					t.Fatal(profiles, err)
				}
				if n, err := process.WriteProfilesInPlace(profiles); n != 1 || err != nil {
					t.Fatal(n, err)
				}
				p.tell("dump")
				var files []string
				for _, dir := range []string{".", "sub"} {
					found, _ := filepath.Glob(filepath.Join(p.dir, dir, "*.profraw"))
					files = append(files, found...)
				}
				if len(files) != 1 {
					t.Fatalf("%q", files)
				}
				b, err := os.ReadFile(files[0])
				if err != nil {
					t.Fatal(err)
				}
				var got, want llvm.Indexer
				for _, one := range mustRead(t, b) {
					if _, err := got.AddWeighted(one, 1); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := want.AddWeighted(mustRead(t, profiles[0].Bytes)[0], 2); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got.Text(19, true), want.Text(19, true)) {
					t.Errorf("%s: %s\nwant twice %s", files[0], got.Text(19, true), want.Text(19, true))
				}
			})
		}
	}
}

func mustRead(t *testing.T, b []byte) []*llvm.Profile {
	t.Helper()
	list, err := llvm.Read(b)
	if err != nil || len(list) == 0 {
		t.Fatal(len(list), err)
	}
	return list
}
