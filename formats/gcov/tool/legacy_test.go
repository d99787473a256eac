package tool

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"footfall/formats/gcov"
	"footfall/formats/gcov/fixtures"
)

// TestLegacyDirectories merges .da files of directories.
func TestLegacyDirectories(t *testing.T) {
	type object struct{ name, da string }
	var objects []object
	fixtures.EachLegacy(t, func(name string, bb, bbg, da []byte) {
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
	if rc := Run(&Invocation{Prog: "footfall", Args: []string{"merge", "-o", "all", "a", "b", "c"}, Stdout: &out, Stderr: &out}); rc != 0 {
		t.Errorf("status %d", rc)
	}
	if want := "./danish.da: at offset 0x0: "; !strings.HasPrefix(out.String(), want) || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("said %q, want %q", out.String(), want)
	}
	for _, o := range objects {
		once, _ := gcov.ReadLegacyCounts([]byte(o.da))
		b, err := os.ReadFile(filepath.Join("all", o.name))
		if err != nil {
			t.Fatal(err)
		}
		sum, err := gcov.ReadLegacyCounts(b)
		if err != nil {
			t.Fatalf("%s: %v", o.name, err)
		}
		for i, values := range once.All() {
			for k, x := range values {
				if got := sum.All()[i][k]; got != 3*x {
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
		b = append(b, (&gcov.LegacyCounts{Values: []int64{1, 2, int64(len(path))}}).Encode()...)
	}
	list, err := gcov.ReadLegacyDump(b)
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

func FuzzLegacyDump(f *testing.F) {
	fixtures.EachLegacy(f, func(name string, bb, bbg, da []byte) {
		f.Add(bb, bbg, da)
	})
	f.Fuzz(func(t *testing.T, bb, bbg, da []byte) {
		d := &dumper{inv: &DumpInvocation{}, out: bufio.NewWriter(io.Discard), contents: true}
		d.legacy("x.bb", bb)
		d.legacy("x.bbg", bbg)
		d.legacy("x.da", da)
		d.legacy("vmlinux", da)
	})
}
