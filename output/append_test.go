//go:build unix

package output

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAppend(t *testing.T) {
	dir := t.TempDir()
	name, link := filepath.Join(dir, "log"), filepath.Join(dir, "link")
	for _, line := range []string{"one\n", "two\n"} {
		if err := Append(name, []byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(name, link); err != nil {
		t.Skip(err)
	}
	if err := Append(link, []byte("three\n")); err != nil {
		t.Fatal(err)
	}
	if got := content(t, name); got != "one\ntwo\nthree\n" {
		t.Errorf("%q", got)
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Chown(name, 65534, 65534); err != nil {
		t.Skip(err)
	}
	if err := Append(link, []byte("four\n")); err == nil || content(t, name) != "one\ntwo\nthree\n" {
		t.Errorf("added to a file of another user: %v", err)
	}
}
