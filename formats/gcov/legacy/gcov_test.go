package legacy

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"footfall/formats/gcov"
	"footfall/formats/gcov/fixtures"
)

// TestLegacyListings compares with what gcov of GCC 2.91 and 3.3 printed and
// wrote.
func TestLegacyListings(t *testing.T) {
	sets := 0
	for _, fx := range fixtures.All(t, "legacy") {
		for _, set := range fx.Sets {
			t.Run(fx.Compiler+"/"+fx.Program+"/"+set.Name, func(t *testing.T) {
				t.Chdir(fixtures.Copy(t, fx))
				var stdout, stderr bytes.Buffer
				args := set.Cmd[1:]
				if !Claims(args) {
					t.Error("not recognized as files of an old compiler")
				}
				rc := Run(&Invocation{Prog: "gcov", Args: args, Stdout: &stdout, Stderr: &stderr}, Any)
				if rc != set.Rc {
					t.Errorf("status %d, want %d", rc, set.Rc)
				}
				if d := fixtures.Difference(stdout.String(), set.Stdout); d != "" {
					t.Errorf("stdout: %s", d)
				}
				if d := fixtures.Difference(stderr.String(), set.Stderr); d != "" {
					t.Errorf("stderr: %s", d)
				}
				written, _ := filepath.Glob("*.gcov")
				for _, name := range written {
					b, err := os.ReadFile(name)
					if err != nil {
						t.Fatal(err)
					}
					if d := fixtures.Difference(string(b), set.Files[name]); d != "" {
						t.Errorf("%s: %s", name, d)
					}
				}
				if len(written) != len(set.Files) {
					t.Errorf("wrote %q, want %d files", written, len(set.Files))
				}
			})
			sets++
		}
	}
	if sets < 200 {
		t.Errorf("only %d sets", sets)
	}
}

// TestLegacyBadFiles runs gcov on what is missing, damaged or foreign.
func TestLegacyBadFiles(t *testing.T) {
	var fx *fixtures.Fixture
	for _, f := range fixtures.All(t, "legacy") {
		if f.Compiler == "gcc-3.3-apple1823" && f.Program == "branches" {
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
			t.Chdir(fixtures.Copy(t, fx))
			if c.change == nil {
				os.Remove(c.file)
			} else if err := os.WriteFile(c.file, c.change(fx.Inputs[c.file]), 0o666); err != nil {
				t.Fatal(err)
			}
			var stdout, stderr bytes.Buffer
			rc := Run(&Invocation{Prog: "gcov", Args: []string{"-b", "branches.c"}, Stdout: &stdout, Stderr: &stderr}, Any)
			if rc != c.rc || !strings.Contains(stderr.String(), c.stderr) {
				t.Errorf("status %d, want %d; stderr %q, want %q", rc, c.rc, stderr.String(), c.stderr)
			}
			if c.rc == 0 && !strings.Contains(stdout.String(), "lines executed in file branches.c") {
				t.Errorf("the rest is not listed: %q", stdout.String())
			}
		})
	}
}

// TestLegacySolve solves the graphs of all functions.
func TestLegacySolve(t *testing.T) {
	fixtures.EachLegacy(t, func(name string, bb, bbg, da []byte) {
		if da == nil {
			return
		}
		n, err := gcov.ReadLegacyNotes(bb, bbg)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c, err := gcov.ReadLegacyCounts(da)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i, g := range n.Graphs {
			values, ok := c.Of(n, i)
			if f := solveGraph(g, values); !ok || !f.solved {
				t.Errorf("%s: function %d has no counts or cannot be solved", name, i)
			}
		}
	})
}

func FuzzLegacyListing(f *testing.F) {
	fixtures.EachLegacy(f, func(name string, bb, bbg, da []byte) {
		f.Add(bb, bbg, da)
	})
	f.Fuzz(func(t *testing.T, bb, bbg, da []byte) {
		n, _ := gcov.ReadLegacyNotes(bb, bbg)
		l := &legacyListing{inv: &Invocation{Stdout: io.Discard, Stderr: io.Discard}, style: GCC2, notes: n, branches: true, functions: true}
		if n.Named {
			l.style = GCC3
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
