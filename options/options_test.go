package options

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFind(t *testing.T) {
	dir := t.TempDir()
	repository := filepath.Join(dir, "repository")
	deep := filepath.Join(repository, "a", "b")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what, from, want string) {
		t.Helper()
		if got, err := Find(from); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", what, got, err, want)
		}
	}
	outer := filepath.Join(dir, FileName)
	write(outer)
	expect("in a directory above", deep, outer)
	write(filepath.Join(repository, ".git")) // that of a worktree is a file
	expect("above the repository", deep, "")
	inner := filepath.Join(repository, FileName)
	write(inner)
	expect("at the root of the repository", deep, inner)
	write(filepath.Join(deep, FileName))
	expect("nearer", deep, filepath.Join(deep, FileName))

	for _, open := range []string{deep, filepath.Join(repository, "a")} {
		if err := os.Chmod(open, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := Find(deep); err == nil {
		t.Errorf("in a directory that everybody may write to: %q", got)
	}
	if err := os.Remove(filepath.Join(deep, FileName)); err != nil {
		t.Fatal(err)
	}
	expect("above a directory that everybody may write to", deep, "")
}
