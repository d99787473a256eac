package tool

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"footfall/process/needs"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"footfall/formats/gcov"
	"footfall/formats/gcov/fixtures"
)

// TestDump compares with what gcov-dump of each compiler printed.
func TestDump(t *testing.T) {
	dirs := make(map[string]string)
	for _, fx := range fixtures.All(t, "gcc") {
		dirs[fx.Compiler+"/"+fx.Program] = fx.Dir
	}
	files := 0
	for _, fx := range fixtures.All(t, "legacy") {
		for name, want := range fx.Inputs {
			file, ok := strings.CutPrefix(strings.TrimSuffix(name, ".txt"), "dump.")
			if !ok {
				continue
			}
			path := filepath.Join(dirs[strings.TrimPrefix(fx.Compiler, "dump-")+"/"+fx.Program], file)
			var out bytes.Buffer
			RunDump(&DumpInvocation{Prog: "dump", Args: []string{"-l", path}, Stdout: &out, Stderr: &out})
			got := strings.ReplaceAll(out.String(), path+":", file+":")
			if d := fixtures.Difference(got, string(want)); d != "" {
				t.Errorf("%s/%s/%s: %s", fx.Compiler, fx.Program, file, d)
			}
			files++
		}
	}
	if files < 400 {
		t.Errorf("only %d files", files)
	}
}

// TestConfirmDump compares with the installed gcov-dump, on whole files and on
// files that are cut.
func TestConfirmDump(t *testing.T) {
	for _, version := range []int{11, 12} {
		prog := fmt.Sprint("gcov-dump-", version)
		if _, err := exec.LookPath(prog); err != nil {
			needs.Skip(t, needs.Tools, prog)
		}
		t.Run(prog, func(t *testing.T) {
			t.Chdir(t.TempDir())
			var names []string
			add := func(name string, b []byte) {
				if err := os.WriteFile(name, b, 0o666); err != nil {
					t.Fatal(err)
				}
				names = append(names, name)
			}
			for _, fx := range fixtures.All(t, "gcc") {
				if fx.Compiler != fmt.Sprint("gcc-", version) {
					continue
				}
				for name, b := range fx.Inputs {
					if ext := filepath.Ext(name); ext != ".gcno" && ext != ".gcda" {
						continue
					}
					// The version of the installed one, so that it does not warn.
					b = bytes.Clone(b)
					copy(b[4:], installedVersion(t, prog, b))
					add(fx.Program+"-"+name, b)
					if fx.Program == "loops-pgo" {
						for n := 8; n < len(b); n += 59 {
							add(fmt.Sprint(n, name), b[:n])
						}
					}
				}
			}
			for _, options := range []string{"", "-l", "-l -p", "-lr", "-p", "--lon", "-o", "-Z", "--raw", "--positions"} {
				confirmDump(t, prog, version, append(strings.Fields(options), names...))
			}
			confirmDump(t, prog, version, []string{"nothere", "."})
		})
	}
}

// installedVersion is the version word of the installed program, as it stands
// in a file.
func installedVersion(t *testing.T, prog string, b []byte) []byte {
	t.Helper()
	b = bytes.Clone(b)
	copy(b[4:], "\x00\x00\x00\x00")
	name := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(name, b, 0o666); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(prog, name).Output()
	if err != nil {
		t.Fatal(err)
	}
	_, word, ok := strings.Cut(string(out), "current version is `")
	if !ok {
		t.Fatalf("%s does not tell its version: %s", prog, out)
	}
	return []byte{word[3], word[2], word[1], word[0]}
}

func confirmDump(t *testing.T, prog string, version int, args []string) {
	t.Helper()
	var want, wantErr, got, gotErr bytes.Buffer
	cmd := exec.Command(prog, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdout, cmd.Stderr = &want, &wantErr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	RunDump(&DumpInvocation{Prog: prog, Args: args, Version: gcov.MakeVersion(version, 0), Stdout: &got, Stderr: &gotErr})
	if d := fixtures.Difference(got.String(), want.String()); d != "" {
		t.Errorf("%s %.5s: %s", prog, args, d)
	}
	if d := fixtures.Difference(gotErr.String(), wantErr.String()); d != "" {
		t.Errorf("%s %.5s: stderr %s", prog, args, d)
	}
}

func FuzzDump(f *testing.F) {
	for _, fx := range fixtures.All(f, "gcc") {
		if fx.Program == "branches" {
			f.Add(fx.Inputs["branches.gcno"])
			f.Add(fx.Inputs["branches.gcda"])
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d := &dumper{inv: &DumpInvocation{}, out: bufio.NewWriter(io.Discard), most: 1000, contents: true, positions: true, stable: true}
		d.file("x", b)
	})
}

// TestDumpUnstored prints a file whose lengths promise more than it has. Each file
// has its own limit, and is named where it is over it.
func TestDumpUnstored(t *testing.T) {
	word := binary.LittleEndian.AppendUint32
	file := func(version string, tag uint32, length int32) []byte {
		b := word(nil, gcov.DataMagic)
		b = word(word(b, binary.BigEndian.Uint32([]byte(version))), 1)
		if version[0] == 'B' && version[1] >= '2' {
			b = word(b, 2) // the checksum
		}
		return word(word(b, tag), uint32(length))
	}
	t.Chdir(t.TempDir())
	for _, test := range []struct {
		what string
		b    []byte
		over bool
	}{
		{"zeros", file("B22*", gcov.TagCounters, -16*(1<<20)), false},
		{"zeros", file("B22*", gcov.TagCounters, -16*(1<<28)/4), true},
		{"zeros of GCC 13", file("B32*", gcov.TagCounters, -16*(1<<28)/4), true},
		{"zeros of GCC 13", file("B32*", gcov.TagCounters, math.MinInt32), true},
		{"counters of a file that is cut", file("A93*", gcov.TagCounters, 1<<24), true},
		{"arcs", file("A93*", gcov.TagArcs, 1<<30), true},
	} {
		if err := os.WriteFile("a.gcda", test.b, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("b.gcda", file("B22*", gcov.TagCounters, -16*1000), 0o666); err != nil {
			t.Fatal(err)
		}
		var out, said bytes.Buffer
		RunDump(&DumpInvocation{Args: []string{"-l", "-p", "a.gcda", "b.gcda"}, Stdout: &out, Stderr: &said})
		if over := strings.HasPrefix(said.String(), "a.gcda: has more than 4194304 values that take no room"); over != test.over || strings.Contains(said.String(), "b.gcda") {
			t.Errorf("%s: said %q", test.what, said.String())
		}
		_, second, _ := strings.Cut(out.String(), "b.gcda:data")
		if n := strings.Count(second, ": 0 0 0 0 0 0 0 0 "); n != 250 || out.Len() > 500<<20 {
			t.Errorf("%s: %d lines of zeros of the second file, %d bytes", test.what, n, out.Len())
		}
	}
}

// TestDumpCut looks at where gcov-dump says that a file is cut: since GCC 13, behind the
// record that is not all there.
func TestDumpCut(t *testing.T) {
	// Head, summary from 16, function from 32, its counters from 52.
	ends := map[int]int{20: 20, 23: 23, 24: 32, 31: 32, 36: 36, 40: 52, 51: 52, 56: 56, 58: 58}
	seen := 0
	for _, fx := range fixtures.All(t, "gcc") {
		b := fx.Inputs["branches.gcda"]
		if fx.Program != "branches" || strings.Contains(fx.Compiler, "-12-") {
			continue
		}
		seen++
		for cut := 16; cut < 60; cut++ {
			name := filepath.Join(t.TempDir(), "cut.gcda")
			if err := os.WriteFile(name, b[:cut], 0o666); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			RunDump(&DumpInvocation{Prog: "dump", Args: []string{name}, Stdout: &out, Stderr: &out})
			_, got, said := strings.Cut(out.String(), "read error at ")
			end, told := ends[cut]
			if fx.Compiler < "gcc-13" || fx.Compiler == "gcc-9" {
				told = false
			} else if _, listed := ends[cut]; !listed {
				continue
			}
			if said != told || told && got != fmt.Sprintln(end) {
				t.Errorf("%s, cut at %d: %s", fx.Compiler, cut, out.String())
			}
		}
	}
	if seen < 8 {
		t.Errorf("only %d compilers", seen)
	}
}

// TestDumpEndlessLists: lists of lines that go on over all others are not printed again and
// again, and that they are left out is said.
func TestDumpEndlessLists(t *testing.T) {
	b := []byte("oncg*21B\x00\x00\x00\x00\x01\x00\x00\x00a\x00\x00\x00\x00\x00\x00\x00")
	for range 20000 {
		b = append(b, "\x00\x00\x45\x01\x03\x00\x00\x00\x02\x00\x00\x00\x07\x00\x00\x00\x07\x00\x00\x00"...)
	}
	name := filepath.Join(t.TempDir(), "endless.gcno")
	if err := os.WriteFile(name, b, 0o666); err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	RunDump(&DumpInvocation{Prog: "dump", Args: []string{"-l", name}, Stdout: &out, Stderr: &said})
	if out.Len() > 16<<20 || !strings.Contains(out.String(), "block 2:7, 7, ") || said.Len() == 0 {
		t.Errorf("%d bytes, %s", out.Len(), said.String())
	}
}
