package options

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"footfall/process/needs"
)

// TestFindOfAnotherUser looks for files that belong to another user, or lie in a
// directory of his, from there and from below.
func TestFindOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		needs.Skip(t, needs.Root, "to make files of another user")
	}
	const nobody, somebody = 65534, 12345
	t.Setenv("SUDO_UID", "12345")
	for _, c := range []struct {
		what      string
		dir, file int // owners
		link      bool
		refused   bool
	}{
		{what: "our own"},
		{what: "file of another user", file: nobody, refused: true},
		{what: "directory of another user", dir: nobody, refused: true},
		{what: "link of another user", file: nobody, link: true, refused: true},
		{what: "of who called sudo", dir: somebody, file: somebody},
	} {
		dir := t.TempDir()
		name := filepath.Join(dir, FileName)
		if err := os.WriteFile(filepath.Join(dir, "text"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		make := func() error { return os.Rename(filepath.Join(dir, "text"), name) }
		if c.link {
			make = func() error { return os.Symlink("text", name) }
		}
		below := filepath.Join(dir, "a/b")
		for _, err := range []error{make(), os.Lchown(name, c.file, -1), os.Chown(dir, c.dir, -1), os.MkdirAll(below, 0o755)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, from := range []string{dir, below} {
			found, err := Find(from)
			if found != name || (err != nil) != c.refused || c.refused && !strings.Contains(err.Error(), "belongs to user 65534") {
				t.Errorf("%s, from %s: %q, %v", c.what, from, found, err)
			}
		}
	}
}
