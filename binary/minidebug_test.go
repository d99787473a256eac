package binary

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"footfall/process/needs"
)

// TestMiniDebug makes .gnu_debugdata as distributions do: the functions have their names and sizes.
func TestMiniDebug(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	source := "static __attribute__((noinline)) int hidden(int a) { return a * 3; }\nint main(int n, char **v) { return hidden(n); }\n"
	if err := os.WriteFile(in("p.c"), []byte(source), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"gcc-12", "-O1", "-o", in("p"), in("p.c")},
		{"objcopy", "-S", "--keep-symbol=hidden", in("p"), in("mini")},
		{"xz", "-k", in("mini")},
		{"objcopy", "-S", "--add-section=.gnu_debugdata=" + in("mini.xz"), in("p"), in("stripped")},
	} {
		if _, err := exec.LookPath(args[0]); err != nil {
			needs.Skip(t, needs.Tools, err)
		}
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	open := func(name string) *File {
		f, err := os.Open(in(name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		file, err := Open(f)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	want, err := open("p").Symbols("hidden")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open("p").MiniDebug(); err == nil {
		t.Error("a file without .gnu_debugdata has one")
	}
	mini, err := open("stripped").MiniDebug()
	if err != nil {
		t.Fatal(err)
	}
	is, err := mini.Symbols("hidden")
	if err != nil || len(is) != 1 || len(want) != 1 || is[0] != want[0] {
		t.Errorf("hidden is at %#x, %v, want %#x", is, err, want)
	}
	functions, err := open("stripped").FunctionsWith(mini)
	if fn := functions.At(want[0]); err != nil || fn == nil || fn.Name != "hidden" {
		t.Errorf("the function is %v, %v", fn, err)
	}
}

// FuzzUnpackXZ unpacks anything.
func FuzzUnpackXZ(f *testing.F) {
	f.Add([]byte("\xfd7zXZ\x00\x00\x04\xe6\xd6\xb4\x46\x02\x00\x21\x01\x16\x00\x00\x00\x74\x2f\xe5\xa3\x01\x00\x01hi\x00"))
	f.Add(bytes.Repeat([]byte{0xff}, 64))
	f.Fuzz(func(t *testing.T, b []byte) { _, _ = unpackXZ(b) })
}
