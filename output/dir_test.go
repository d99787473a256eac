package output

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestDir puts a link in the place of a directory while files are written to it.
func TestDir(t *testing.T) {
	base := t.TempDir()
	in := func(names ...string) string { return filepath.Join(append([]string{base}, names...)...) }
	if err := os.Mkdir(in("elsewhere"), 0o777); err != nil {
		t.Fatal(err)
	}
	top, err := OpenDir(in("a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	sub, err := top.Sub("files")
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	if err := sub.WriteBytes("1", []byte("old")); err != nil {
		t.Fatal(err)
	}
	for _, move := range [][2]string{{in("a", "b"), in("a", "c")}, {in("a", "c", "files"), in("a", "c", "moved")}} {
		if err := os.Rename(move[0], move[1]); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(in("elsewhere"), move[0]); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []*Dir{top, sub} {
		// A link in the directory is replaced, not followed.
		if err := os.Symlink(in("elsewhere", "2"), in("a", "c", "2")); err != nil && d == top {
			t.Fatal(err)
		}
		for _, name := range []string{"1", "2"} {
			if err := d.WriteBytes(name, []byte("new")); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{in("a", "c", "1"), in("a", "c", "2"), in("a", "c", "moved", "1"), in("a", "c", "moved", "2")} {
		if info, err := os.Lstat(name); err != nil || info.Mode().Type() != 0 || info.Size() != 3 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if entries, err := os.ReadDir(in("elsewhere")); err != nil || len(entries) > 0 {
		t.Errorf("elsewhere: %v, %v", entries, err)
	}
	if entries, err := sub.Entries(); err != nil || len(entries) != 2 {
		t.Errorf("entries: %v, %v", entries, err)
	}
	if err := sub.Remove("1"); err != nil || sub.Has("1") || !sub.Has("2") {
		t.Errorf("removing: %v", err)
	}
	if _, err := top.Open("files"); err == nil {
		t.Error("a link was opened")
	}
}

// TestDirReplaced finds another directory than was looked at.
func TestDirReplaced(t *testing.T) {
	base := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(base, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(filepath.Join(base, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := checked(root, "a", func() (fs.FileInfo, error) { return os.Lstat(filepath.Join(base, "b")) }); err == nil {
		t.Error("no error")
	}
}
