package gcov

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// TestLegacyListings compares with what gcov of GCC 2.91 and 3.3 printed and
// wrote.
func TestLegacyListings(t *testing.T) {
	sets := 0
	for _, fx := range fixtures(t, "legacy") {
		for _, set := range fx.sets {
			t.Run(fx.compiler+"/"+fx.program+"/"+set.name, func(t *testing.T) {
				t.Chdir(copyOf(t, fx))
				var stdout, stderr bytes.Buffer
				args := set.cmd[1:]
				if !IsLegacy(args) {
					t.Error("not recognized as files of an old compiler")
				}
				rc := RunLegacy(&Invocation{Prog: "gcov", Args: args, Stdout: &stdout, Stderr: &stderr}, LegacyAny)
				if rc != set.rc {
					t.Errorf("status %d, want %d", rc, set.rc)
				}
				if d := firstDifference(stdout.String(), set.stdout); d != "" {
					t.Errorf("stdout: %s", d)
				}
				if d := firstDifference(stderr.String(), set.stderr); d != "" {
					t.Errorf("stderr: %s", d)
				}
				written, _ := filepath.Glob("*.gcov")
				for _, name := range written {
					b, err := os.ReadFile(name)
					if err != nil {
						t.Fatal(err)
					}
					if d := firstDifference(string(b), set.files[name]); d != "" {
						t.Errorf("%s: %s", name, d)
					}
				}
				if len(written) != len(set.files) {
					t.Errorf("wrote %q, want %d files", written, len(set.files))
				}
			})
			sets++
		}
	}
	if sets < 200 {
		t.Errorf("only %d sets", sets)
	}
}

// copyOf copies a fixture's files to a new directory, the sources older than
// the notes.
func copyOf(t *testing.T, fx *fixture) string {
	t.Helper()
	dir := t.TempDir()
	for _, sources := range []bool{true, false} {
		for name, b := range fx.inputs {
			ext := path.Ext(name)
			if (ext == ".bb" || ext == ".bbg" || ext == ".da") == sources {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// eachLegacy calls f with the files of each object, da nil for none.
func eachLegacy(tb testing.TB, f func(name string, bb, bbg, da []byte)) {
	n := 0
	for _, fx := range fixtures(tb, "legacy") {
		for name, bb := range fx.inputs {
			stem, ok := strings.CutSuffix(name, ".bb")
			if !ok {
				continue
			}
			f(fx.compiler+"/"+fx.program+"/"+stem, bb, fx.inputs[stem+".bbg"], fx.inputs[stem+".da"])
			n++
		}
	}
	if n < 20 {
		tb.Errorf("only %d objects", n)
	}
}

func TestLegacyRoundTrip(t *testing.T) {
	eachLegacy(t, func(name string, bb, bbg, da []byte) {
		n, err := ReadLegacyNotes(bb, bbg)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if b, g := n.Encode(); !bytes.Equal(b, bb) || !bytes.Equal(g, bbg) {
			t.Errorf("%s: encoded notes differ", name)
		}
		if da == nil {
			return
		}
		c, err := ReadLegacyCounts(da)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !bytes.Equal(c.Encode(), da) {
			t.Errorf("%s: encoded counts differ", name)
		}
		if err := c.Fits(n); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for i, g := range n.Graphs {
			values, ok := c.Of(n, i)
			if f := g.solve(values); !ok || !f.solved {
				t.Errorf("%s: function %d has no counts or cannot be solved", name, i)
			}
		}
	})
}

// TestLegacyMerge adds counts to themselves: all double, and so do those that
// stand in two blocks.
func TestLegacyMerge(t *testing.T) {
	eachLegacy(t, func(name string, bb, bbg, da []byte) {
		if da == nil {
			return
		}
		n, err := ReadLegacyNotes(bb, bbg)
		if err != nil {
			t.Fatal(err)
		}
		once, _ := ReadLegacyCounts(da)
		twice, _ := ReadLegacyCounts(da)
		if err := twice.Merge(once); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(twice.Encode()) != len(da) {
			t.Errorf("%s: merged counts have %d bytes, want %d", name, len(twice.Encode()), len(da))
		}
		compare := func(c *LegacyCounts) {
			t.Helper()
			for i := range n.Graphs {
				a, _ := once.Of(n, i)
				b, _ := c.Of(n, i)
				for k := range a {
					if b[k] != 2*a[k] {
						t.Fatalf("%s: function %d counter %d is %d, want %d", name, i, k, b[k], 2*a[k])
					}
				}
			}
		}
		compare(twice)
		if once.Named {
			appended, err := ReadLegacyCounts(append(bytes.Clone(da), da...))
			if err != nil {
				t.Fatal(err)
			}
			compare(appended)
		}
	})
}

// Every way to cut off a file gives an error with an offset, or leaves whole
// functions.
func TestLegacyDamage(t *testing.T) {
	eachLegacy(t, func(name string, bb, bbg, da []byte) {
		if !strings.Contains(name, "branches/") {
			return
		}
		for n := range da {
			if n == 0 {
				continue
			}
			_, err := ReadLegacyCounts(da[:n])
			var format *FormatError
			if !errors.As(err, &format) {
				t.Fatalf("%s: %d of %d bytes of .da: %v", name, n, len(da), err)
			}
		}
		for n := 1; n < len(bbg); n++ {
			if _, err := ReadLegacyNotes(bb, bbg[:n]); err == nil {
				t.Fatalf("%s: %d bytes of .bbg are taken for all", name, n)
			}
		}
	})
}

// TestLegacyBadFiles runs gcov on what is missing, damaged or foreign.
func TestLegacyBadFiles(t *testing.T) {
	var fx *fixture
	for _, f := range fixtures(t, "legacy") {
		if f.compiler == "gcc-3.3-apple1823" && f.program == "branches" {
			fx = f
		}
	}
	for _, c := range []struct {
		name, file string
		change     func(b []byte) []byte // nil: remove
		stderr     string
		rc         int
	}{
		{"no bbg", "branches.bbg", nil, "Could not open program flow graph file branches.bbg.\n", 1},
		{"no bb", "branches.bb", nil, "Could not open basic block file branches.bb.\n", 1},
		{"no data", "branches.da", nil, "Assuming that all execution counts are zero.\n", 0},
		{"cut data", "branches.da", func(b []byte) []byte { return b[:len(b)-20] }, ".da file corrupted!\nbranches.da: at offset ", 0},
		{"foreign data", "branches.da", func(b []byte) []byte {
			return []byte("\x01\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00")
		}, "written by GCC 2.91 to 3.2", 0},
		{"cut graph", "branches.bbg", func(b []byte) []byte { return b[:len(b)-20] }, "branches: .bbg: at offset ", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(copyOf(t, fx))
			if c.change == nil {
				os.Remove(c.file)
			} else if err := os.WriteFile(c.file, c.change(fx.inputs[c.file]), 0o666); err != nil {
				t.Fatal(err)
			}
			var stdout, stderr bytes.Buffer
			rc := RunLegacy(&Invocation{Prog: "gcov", Args: []string{"-b", "branches.c"}, Stdout: &stdout, Stderr: &stderr}, LegacyAny)
			if rc != c.rc || !strings.Contains(stderr.String(), c.stderr) {
				t.Errorf("status %d, want %d; stderr %q, want %q", rc, c.rc, stderr.String(), c.stderr)
			}
			if c.rc == 0 && !strings.Contains(stdout.String(), "lines executed in file branches.c") {
				t.Errorf("the rest is not listed: %q", stdout.String())
			}
		})
	}
}

// TestLegacyDirectories merges .da files of directories.
func TestLegacyDirectories(t *testing.T) {
	type object struct{ name, da string }
	var objects []object
	eachLegacy(t, func(name string, bb, bbg, da []byte) {
		if da != nil {
			objects = append(objects, object{strings.ReplaceAll(name, "/", "_") + ".da", string(da)})
		}
	})
	t.Chdir(t.TempDir())
	for _, dir := range []string{"a", "b", "c"} {
		os.Mkdir(dir, 0o777)
		for _, o := range objects {
			os.WriteFile(filepath.Join(dir, o.name), []byte(o.da), 0o666)
		}
	}
	os.WriteFile("c/alone.da", []byte(objects[0].da), 0o666)
	os.WriteFile("c/danish.da", []byte("ikke data"), 0o666)
	var out bytes.Buffer
	if rc := RunTool(&ToolInvocation{Prog: "footfall", Args: []string{"merge", "-o", "all", "a", "b", "c"}, Stdout: &out, Stderr: &out}); rc != 0 {
		t.Errorf("status %d", rc)
	}
	if want := "./danish.da: at offset 0x0: "; !strings.HasPrefix(out.String(), want) || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("said %q, want %q", out.String(), want)
	}
	for _, o := range objects {
		once, _ := ReadLegacyCounts([]byte(o.da))
		b, err := os.ReadFile(filepath.Join("all", o.name))
		if err != nil {
			t.Fatal(err)
		}
		sum, err := ReadLegacyCounts(b)
		if err != nil {
			t.Fatalf("%s: %v", o.name, err)
		}
		for i, values := range once.all() {
			for k, x := range values {
				if got := sum.all()[i][k]; got != 3*x {
					t.Fatalf("%s: counter %d is %d, want %d", o.name, k, got, 3*x)
				}
			}
		}
	}
	if b, _ := os.ReadFile("all/alone.da"); string(b) != objects[0].da {
		t.Error("a file of one directory is not as it was")
	}
}

// TestLegacyDump prints the dump of all objects that a kernel shows.
func TestLegacyDump(t *testing.T) {
	var b []byte
	for _, path := range []string{"/usr/src/linux/kernel/fork.da", "/x.da"} {
		b = binary.LittleEndian.AppendUint64(b, uint64(len(path)))
		b = append(append(b, path...), make([]byte, 8-len(path)%8)...)
		b = append(b, (&LegacyCounts{Values: []int64{1, 2, int64(len(path))}}).Encode()...)
	}
	list, err := ReadLegacyDump(b)
	if err != nil || len(list) != 2 || list[0].Path != "/usr/src/linux/kernel/fork.da" || list[1].Counts.Values[2] != 5 {
		t.Errorf("read %+v, %v", list, err)
	}
	name := filepath.Join(t.TempDir(), "vmlinux")
	if err := os.WriteFile(name, b[:len(b)-4], 0o666); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	RunDump(&DumpInvocation{Prog: "dump", Args: []string{"-l", name}, Stdout: &out, Stderr: &out})
	for _, want := range []string{"counts here are not in their places", "OBJECT /usr/src/linux/kernel/fork.da", "at offset "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("printed %q, want %q", out.String(), want)
		}
	}
}

func FuzzLegacy(f *testing.F) {
	eachLegacy(f, func(name string, bb, bbg, da []byte) {
		f.Add(bb, bbg, da)
	})
	f.Fuzz(func(t *testing.T, bb, bbg, da []byte) {
		n, err := ReadLegacyNotes(bb, bbg)
		c, errCounts := ReadLegacyCounts(da)
		if err == nil {
			n.Encode()
		}
		if errCounts == nil {
			if again, err := ReadLegacyCounts(c.Encode()); err != nil || !bytes.Equal(again.Encode(), c.Encode()) {
				t.Errorf("encoded counts read differently: %v", err)
			}
		}
		d := &dumper{inv: &DumpInvocation{}, out: bufio.NewWriter(io.Discard), contents: true}
		d.legacy("x.bb", bb)
		d.legacy("x.bbg", bbg)
		d.legacy("x.da", da)
		d.legacy("vmlinux", da)
		if m, err := ReadNotes(n.modern().Encode()); err != nil && len(m.Functions) > 0 {
			t.Errorf("notes in the newer form cannot be read: %v", err)
		}
		c.modern(n).Encode()
		l := &legacyListing{inv: &Invocation{Stdout: io.Discard, Stderr: io.Discard}, style: Legacy2, notes: n, branches: true, functions: true}
		if n.Named {
			l.style = Legacy3
		}
		l.solve("x.da", da, true)
		l.findSources()
		for _, s := range l.sources {
			if s.last < 1<<12 && l.scan(s) {
				l.listOld(io.Discard, s, "x.c", bb)
				l.listNew(io.Discard, s, bb, true)
			}
		}
	})
}
