package tool

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"footfall/process/needs"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"footfall/formats/gcov"
	"footfall/formats/gcov/fixtures"
)

// confirmTool are command lines for gcov-tool, over directories of
// buildProfiles.
var confirmTool = []string{
	"merge a b", "merge b a", "merge -o out a b", "merge -v -o out a b", "merge -w 3,2 a b", "merge -w 0,0 a b", "merge -w 2 a b",
	"merge --weight=7,0 --output=out a b", "merge --w 1,5 a b", "merge -w -1,2 a b", "merge -w x a b", "merge a nothere", "merge nothere a",
	"merge a file", "merge -o file a b", "merge -o a a b", "merge a empty", "merge empty a", "merge a", "merge a b a", "merge -Z a b",
	"merge a other", "merge other a", "merge -o out a damaged", "merge mixed a", "merge pgo1 pgo2", "merge pgo2 pgo1", "merge -o no/such a b",
	"rewrite -n 1000 a", "rewrite -s 1/3 a", "rewrite -s 3/2 -o out a", "rewrite -s 2.7 a", "rewrite -s -1 a", "rewrite -s abc a", "rewrite -s 5/0 -n 3 a",
	"rewrite -n 3 -s 0.5 -v a", "rewrite --scale=0.1 a", "rewrite a b", "rewrite", "rewrite empty", "rewrite -s 1e-3 b",
	"overlap a b", "overlap -f -o a b", "overlap -F -f -o -h a b", "overlap -t 0.5 -o b a", "overlap -v a a", "overlap a nothere", "overlap a", "overlap a empty",
	"overlap -f -o a other", "overlap -o pgo1 pgo2", "", "frobnicate a", "--bogus", "merge --bogus a b",
}

// TestConfirmTool compares with the installed gcov-tool: what is printed, the
// status, and the files. Where that one gives up with an internal error, which
// it does for value profiles that it must scale, the test is only that footfall
// does not.
func TestConfirmTool(t *testing.T) {
	for _, version := range []int{11, 12} {
		prog := fmt.Sprint("gcov-tool-", version)
		if _, err := exec.LookPath(prog); err != nil {
			needs.Skip(t, needs.Tools, prog)
		}
		t.Run(prog, func(t *testing.T) {
			buildProfiles(t, version)
			for i, args := range append(confirmTool, "merge -w 2,3 pgo1 pgo2", "rewrite -s 2 pgo1", "merge pgo1 a") {
				if (testing.Short() || version == 11) && i%5 != 0 {
					continue
				}
				confirmToolRun(t, prog, version, args)
			}
		})
	}
}

// buildProfiles makes directories of data files: a and b of the same programs,
// with a file missing in each; pgo1 and pgo2 with value profiles; other of
// another build, mixed with files of another version, and damaged.
func buildProfiles(t *testing.T, version int) {
	t.Helper()
	fixtures.BuildPrograms(t, version)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	copyTo := func(from, to string) {
		t.Helper()
		b, err := os.ReadFile(from)
		must(err)
		must(os.MkdirAll(filepath.Dir(to), 0o777))
		must(os.WriteFile(to, b, 0o666))
	}
	copyTo("features.gcda", "a/features.gcda")
	copyTo("unit.gcda", "a/sub/deep/unit.gcda")
	fixtures.Command(t, "./p")
	copyTo("control.gcda", "a/control.gcda")
	copyTo("features.gcda", "b/features.gcda")
	copyTo("control.gcda", "b/control.gcda")
	copyTo("unit.gcda", "b/unit.gcda")
	must(os.Mkdir("empty", 0o777))
	must(os.WriteFile("file", nil, 0o666))
	copyTo("unit.gcda", "other/control.gcda") // so that the number of functions differs
	copyTo("control.gcda", "mixed/control.gcda")
	must(os.WriteFile("mixed/text.gcda", []byte("no data file"), 0o666))
	b, err := os.ReadFile("control.gcda")
	must(err)
	b = bytes.Clone(b)
	copy(b[4:], "*39A")
	must(os.WriteFile("mixed/old.gcda", b, 0o666))
	must(os.Mkdir("damaged", 0o777))
	must(os.WriteFile("damaged/control.gcda", []byte("adc"), 0o666))
	copyTo("features.gcda", "damaged/features.gcda")

	must(os.WriteFile("values.c", []byte(valuesProgram), 0o666))
	cc := fmt.Sprint("gcc-", version)
	fixtures.Command(t, cc, "-O2", "-fprofile-generate", "-fprofile-update=single", "-w", "-c", "values.c")
	fixtures.Command(t, cc, "-fprofile-generate", "-o", "values", "values.o")
	fixtures.Command(t, "./values", "2")
	copyTo("values.gcda", "pgo1/values.gcda")
	must(os.Remove("values.gcda"))
	fixtures.Command(t, "./values", "45")
	fixtures.Command(t, "./values", "7")
	copyTo("values.gcda", "pgo2/values.gcda")
}

// valuesProgram has divisors, callees and sizes that vary.
const valuesProgram = `
#include <stdlib.h>
#include <string.h>
static int a(int x) { return x + 1; }
static int b(int x) { return x * 2; }
static int c(int x) { return x - 3; }
int (*table[])(int) = {a, b, c};
int main(int argc, char **argv) {
	unsigned s = 0;
	int m = atoi(argv[1]);
	char buf[100], text[100];
	memset(text, 'x', sizeof text);
	for (int i = 0; i < 500 * m; i++) {
		s += table[(i * 7 + m) % 3](i);
		s += i / (1 + i % (m + 40)) + s % (m * 3);
		memcpy(buf, text, i % m);
	}
	return s == 1;
}
`

func confirmToolRun(t *testing.T, prog string, version int, args string) {
	t.Helper()
	before := tree(t)
	var want, wantErr, got, gotErr bytes.Buffer
	cmd := exec.Command(prog, strings.Fields(args)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdout, cmd.Stderr = &want, &wantErr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	wantFiles := restore(t, before)
	rc := Run(&Invocation{Prog: prog, Args: strings.Fields(args), Version: gcov.MakeVersion(version, 0), Stdout: &got, Stderr: &gotErr})
	gotFiles := restore(t, before)
	if !cmd.ProcessState.Exited() || strings.Contains(wantErr.String(), "internal compiler error") {
		if rc != 0 || len(gotFiles) == len(before) {
			t.Errorf("%s: status %d, %d files, stderr %s", args, rc, len(gotFiles)-len(before), gotErr.String())
		}
		return
	}
	if status := cmd.ProcessState.ExitCode(); rc != status {
		t.Errorf("%s: status %d, want %d", args, rc, status)
	}
	if d := fixtures.Difference(got.String(), want.String()); d != "" && !strings.Contains(want.String(), "Usage:") {
		t.Errorf("%s: stdout %s", args, d)
	}
	g, w := withoutUsage(gotErr.String()), withoutUsage(wantErr.String())
	if strings.Contains(args, "mixed") {
		// The number of the version that it wants is that of the release.
		g, w = strings.SplitN(g, " vs ", 2)[0], strings.SplitN(w, " vs ", 2)[0]
	}
	if d := fixtures.Difference(g, w); d != "" {
		t.Errorf("%s: stderr %s", args, d)
	}
	for name, b := range wantFiles {
		if !bytes.Equal(b, gotFiles[name]) {
			t.Errorf("%s: %s differs", args, name)
		}
	}
	if len(gotFiles) != len(wantFiles) {
		t.Errorf("%s: %d files, want %d", args, len(gotFiles), len(wantFiles))
	}
}

// withoutUsage cuts the help text, which is our own.
func withoutUsage(s string) string {
	for _, mark := range []string{"Usage: ", " usage:"} {
		if i := strings.Index(s, mark); i >= 0 {
			s = s[:i]
		}
	}
	return s
}

// tree reads what gcov-tool may write to: its directories for output, a and file.
func tree(t *testing.T) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	for _, place := range []string{"out", "merged_profile", "rewrite_profile", "no", "a", "file"} {
		err := filepath.WalkDir(place, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return nil
			}
			files[path], err = os.ReadFile(path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// restore puts the working directory back and returns what it held.
func restore(t *testing.T, before map[string][]byte) map[string][]byte {
	t.Helper()
	after := tree(t)
	for name, b := range after {
		if !bytes.Equal(before[name], b) {
			os.Remove(name)
		}
	}
	for name, b := range before {
		if !bytes.Equal(after[name], b) {
			os.MkdirAll(filepath.Dir(name), 0o777)
			if err := os.WriteFile(name, b, 0o777); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, dir := range []string{"out", "merged_profile", "rewrite_profile", "no"} {
		os.RemoveAll(dir)
	}
	return after
}

// TestMergeFold compares merging many directories with merging two at a time,
// and the way without decoding with the one that decodes.
func TestMergeFold(t *testing.T) {
	all := fixtures.All(t, "gcc")
	t.Chdir(t.TempDir())
	var dirs []string
	for _, fx := range all {
		if strings.HasPrefix(fx.Compiler, "gcc-1") && !strings.Contains(fx.Compiler, "-12-") && fx.Program != "branches-pgo" {
			for i := range 3 {
				dir := fmt.Sprintf("%s-%s-%d", fx.Compiler, fx.Program, i)
				os.Mkdir(dir, 0o777)
				for name, b := range fx.Inputs {
					if filepath.Ext(name) == ".gcda" {
						os.WriteFile(filepath.Join(dir, fx.Compiler+fx.Program+name), b, 0o666)
					}
				}
				dirs = append(dirs, dir)
			}
		}
	}
	run := func(args ...string) {
		t.Helper()
		var out bytes.Buffer
		if rc := Run(&Invocation{Prog: "footfall", Args: args, Stdout: &out, Stderr: &out}); rc != 0 {
			t.Fatalf("%.60s: status %d: %s", args, rc, out.String())
		}
	}
	run(append([]string{"merge", "-o", "at-once"}, dirs...)...)
	run("merge", "-o", "fold", dirs[0], dirs[1])
	for _, d := range dirs[2:] {
		run("merge", "-o", "next", "fold", d)
		if err := os.RemoveAll("fold"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename("next", "fold"); err != nil {
			t.Fatal(err)
		}
	}
	run(append([]string{"merge", "-v", "-o", "decoded"}, dirs...)...)
	n := 0
	names, err := filepath.Glob("at-once/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		n++
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range []string{"fold/", "decoded/"} {
			o, err := os.ReadFile(other + filepath.Base(name))
			if err != nil || !bytes.Equal(o, b) {
				t.Errorf("%s%s differs: %v", other, filepath.Base(name), err)
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d files", n)
	}
}

// TestToolExact does what gcov-tool's manual says where gcov-tool does not.
func TestToolExact(t *testing.T) {
	all := fixtures.All(t, "gcc")
	t.Chdir(t.TempDir())
	var data []byte
	for _, fx := range all {
		if fx.Compiler == "gcc-12" && fx.Program == "loops" {
			data = fx.Inputs["loops.gcda"]
		}
	}
	for _, dir := range []string{"a", "b"} {
		os.Mkdir(dir, 0o777)
		os.WriteFile(dir+"/both.gcda", data, 0o666)
	}
	os.WriteFile("b/alone.gcda", data, 0o666)
	var out bytes.Buffer
	run := func(args ...string) {
		t.Helper()
		out.Reset()
		if rc := Run(&Invocation{Prog: "footfall", Args: args, Stdout: &out, Stderr: &out}); rc != 0 {
			t.Fatalf("%s: status %d: %s", args, rc, out.String())
		}
	}
	read := func(name string) *gcov.Counts {
		t.Helper()
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		c, err := gcov.ReadCounts(b)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	run("merge", "--exact", "a", "b")
	if runs, _ := read("merged_profile/alone.gcda").Runs(); runs != 1 {
		t.Errorf("%d runs of a file that is in one directory, want 1", runs)
	}
	run("rewrite", "--exact", "-n", "1000000", "a")
	if n := read("rewrite_profile/both.gcda").Largest(); n < 999_000 || n > 1_000_000 {
		t.Errorf("largest count %d, want 1000000", n)
	}
	run("overlap", "--exact", "a", "a")
	if !strings.Contains(out.String(), "Program level overlap result is 100.00%") {
		t.Errorf("overlap with itself: %s", out.String())
	}
	if rc := Run(&Invocation{Prog: "footfall", Args: []string{"merge", "a", "."}, Stdout: &out, Stderr: &out}); rc != 0 {
		t.Errorf("status %d", rc)
	}
}

// TestMergeStream reads streams with names and without.
func TestMergeStream(t *testing.T) {
	all := fixtures.All(t, "gcc")
	t.Chdir(t.TempDir())
	var notes, data []byte
	for _, fx := range all {
		if fx.Compiler == "gcc-13" && fx.Program == "loops" {
			notes, data = fx.Inputs["loops.gcno"], fx.Inputs["loops.gcda"]
		}
	}
	c, err := gcov.ReadCounts(data)
	if err != nil {
		t.Fatal(err)
	}
	c.Summaries = nil
	part := c.Encode()
	name := func(s string) []byte {
		b := binary.LittleEndian.AppendUint32([]byte("nfcg"), uint32(c.Version))
		return append(append(binary.LittleEndian.AppendUint32(b, uint32(len(s)+1)), s...), 0)
	}
	run := func(in []byte, want int, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		rc := Run(&Invocation{Prog: "footfall", Args: append([]string{"merge-stream"}, args...), Stdin: bytes.NewReader(in), Stdout: &out, Stderr: &out})
		if rc != want {
			t.Errorf("status %d, want %d: %s", rc, want, out.String())
		}
		return out.String()
	}
	count := func(file string) int64 {
		t.Helper()
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := gcov.ReadCounts(b)
		if err != nil {
			t.Fatal(err)
		}
		return got.Functions[0].Of(gcov.KindArcs).At(0)
	}
	one := c.Functions[0].Of(gcov.KindArcs).At(0)

	run(append(append(name("new/dir/x.gcda"), part...), append(name("y.gcda"), part...)...), 0)
	run(append(name("y.gcda"), part...), 0)
	if x, y := count("new/dir/x.gcda"), count("y.gcda"); x != one || y != 2*one {
		t.Errorf("counts %d and %d, want %d and %d", x, y, one, 2*one)
	}

	// What is there and is no data stays.
	os.WriteFile("text", []byte("a text"), 0o666)
	run(append(name("text"), part...), 1)
	if b, _ := os.ReadFile("text"); string(b) != "a text" {
		t.Errorf("a text was replaced by %d bytes", len(b))
	}
	if os.Geteuid() == 0 { // what another user's stream says is done with that user's rights
		const nobody = 65534
		os.WriteFile("stream", append(name("z.gcda"), part...), 0o666)
		os.Chown("stream", nobody, nobody)
		run(nil, 1, "stream")
		if _, err := os.Stat("z.gcda"); err == nil {
			t.Error("a file was written where the stream's owner may not")
		}
		os.Chown("stream", 0, 0)
		run(nil, 0, "stream")
		count("z.gcda")
	}

	os.MkdirAll("obj/sub", 0o777)
	os.WriteFile("obj/sub/loops.gcno", notes, 0o666)
	run(append(bytes.Clone(part), part...), 0, "-o", "obj")
	if n := count("obj/sub/loops.gcda"); n != 2*one {
		t.Errorf("count %d, want %d", n, 2*one)
	}
	for _, c := range []struct{ in, want string }{
		{"", "no data that can be used"},
		{"garbage, of course", "not a gcfn stream"},
		{string(part), "no notes below"},
		{string(name("x.gcda")) + string(part[:40]), "is left out"},
		{string(name("")), "no filename"},
	} {
		os.RemoveAll("obj")
		if out := run([]byte(c.in), 1); !strings.Contains(out, c.want) {
			t.Errorf("%.20q: %q, want %q", c.in, out, c.want)
		}
	}
}

func FuzzStream(f *testing.F) {
	for _, fx := range fixtures.All(f, "gcc") {
		if fx.Program == "branches" {
			f.Add(append([]byte("nfcg\x2a23B\x02\x00\x00\x00x\x00"), fx.Inputs["branches.gcda"]...), fx.Inputs["branches.gcda"])
		}
	}
	f.Fuzz(func(t *testing.T, stream, file []byte) {
		var out bytes.Buffer
		tl := &tool{Invocation: &Invocation{Stdout: &out, Stderr: &out}, prog: "fuzz", verbose: true}
		var all *gcov.Counts
		for _, p := range tl.splitStream("stream", stream, "testdata/programs") {
			j := &mergeJob{tool: tl, name: p.name}
			j.add(p.counts, &mergeFile{dir: 1}, 2)
			all = p.counts
		}
		c := tl.decode("file", file, all, new(said))
		if c == nil {
			return
		}
		if again := tl.decode("file", file, all, new(said)); again != nil {
			j := &mergeJob{tool: tl, name: "file", counts: again}
			if !again.AddBytes(file, 3) {
				j.add(c, &mergeFile{dir: 1}, 3)
			}
			tl.complete(j.counts, 1)
			if _, err := gcov.ReadCounts(j.counts.Encode()); err != nil {
				t.Errorf("merged counts cannot be read: %v", err)
			}
		}
	})
}

// TestConfirmToolCut compares with the installed gcov-tool what becomes of a file that is
// cut, wherever that may be, where gcov-tool itself does not give up with an internal error.
func TestConfirmToolCut(t *testing.T) {
	for _, version := range []int{11, 12} {
		prog := fmt.Sprint("gcov-tool-", version)
		if _, err := exec.LookPath(prog); err != nil {
			t.Fatal(err) // scripts/test installs it
		}
		t.Run(prog, func(t *testing.T) {
			t.Chdir(t.TempDir())
			source := "int f(int a) { while (a--) if (a == 3) return 1; return 0; }\nint g(int a) { return a ? 1 : 2; }\nint main(void) { return f(2) + g(1) - 1; }\n"
			if err := os.WriteFile("t.c", []byte(source), 0o666); err != nil {
				t.Fatal(err)
			}
			fixtures.Command(t, fmt.Sprint("gcc-", version), "--coverage", "-c", "t.c")
			fixtures.Command(t, fmt.Sprint("gcc-", version), "--coverage", "-o", "t", "t.o")
			fixtures.Command(t, "./t")
			whole, err := os.ReadFile("t.gcda")
			if err != nil {
				t.Fatal(err)
			}
			for _, dir := range []string{"cut", "whole"} {
				os.Mkdir(dir, 0o777)
			}
			if err := os.WriteFile("whole/t.gcda", whole, 0o666); err != nil {
				t.Fatal(err)
			}
			compared := 0
			for n := 8; n < len(whole); n += 3 {
				if err := os.WriteFile("cut/t.gcda", whole[:n], 0o666); err != nil {
					t.Fatal(err)
				}
				for _, args := range []string{"merge -o out cut whole", "merge -o out whole cut", "rewrite -s 2 -o out cut", "overlap cut whole"} {
					out, _ := exec.Command(prog, strings.Fields(args)...).CombinedOutput()
					os.RemoveAll("out")
					if !bytes.Contains(out, []byte("internal compiler error")) {
						compared++
						confirmToolRun(t, prog, version, args)
					}
				}
			}
			if compared < 100 {
				t.Errorf("only %d runs compared", compared)
			}
		})
	}
}

func FuzzToolSalvage(f *testing.F) {
	for _, fx := range fixtures.All(f, "gcc") {
		if b := fx.Inputs["branches.gcda"]; fx.Program == "branches" && b != nil {
			f.Add(b[:60])
			f.Add(b[:len(b)-7])
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if !gcov.IsMagic(b, gcov.DataMagic) {
			return
		}
		head, _ := gcov.CountsHead(b)
		tool := &tool{Invocation: &Invocation{Version: head.Version}}
		if c := tool.salvage("x", b, new(said)); c != nil {
			tool.complete(c, c.Largest())
			c.Encode()
		}
	})
}
