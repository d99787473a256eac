package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestNearest(t *testing.T) {
	names := []string{"report", "live", "exclude", "exclude-lines", "output", "list"}
	for word, want := range map[string]string{
		"reprot": "report", "exclud": "exclude", "outptu": "output", "exclude-line": "exclude-lines", "lsit": "list", "x": "", "": "", "something": "",
	} {
		if got := nearest(word, names); got != want {
			t.Errorf("nearest to %q: %q, want %q", word, got, want)
		}
	}
}

func TestFindConfig(t *testing.T) {
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
		if got, err := findConfig(from); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", what, got, err, want)
		}
	}
	outer := filepath.Join(dir, configName)
	write(outer)
	expect("in a directory above", deep, outer)
	write(filepath.Join(repository, ".git")) // that of a worktree is a file
	expect("above the repository", deep, "")
	inner := filepath.Join(repository, configName)
	write(inner)
	expect("at the root of the repository", deep, inner)
	write(filepath.Join(deep, configName))
	expect("nearer", deep, filepath.Join(deep, configName))

	for _, open := range []string{deep, filepath.Join(repository, "a")} {
		if err := os.Chmod(open, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := findConfig(deep); err == nil {
		t.Errorf("in a directory that everybody may write to: %q", got)
	}
	if err := os.Remove(filepath.Join(deep, configName)); err != nil {
		t.Fatal(err)
	}
	expect("above a directory that everybody may write to", deep, "")
}

// FuzzConfig checks that no file makes the reader of configurations fail in
// another way than by an error, and that each setting has its line.
func FuzzConfig(f *testing.F) {
	f.Add("root = \".\"\n[report]\noutput = [\n\t\"text\", # one\n]\nfail-under = {lines = 80}\nfail-under.branches = 1.5\n")
	f.Add("report.verbose = true\n[report.fail-under]\nlines = 1\n[[live]]\nx = '''\n[a]'''")
	root, _ := newRootCommand(commands)
	f.Fuzz(func(t *testing.T, text string) {
		c := &config{name: configName, dir: "/", root: root}
		if c.parse(text) != nil {
			return
		}
		_ = c.check()
		lines := 1
		for _, b := range []byte(text) {
			if b == '\n' {
				lines++
			}
		}
		for _, s := range c.settings {
			if s.line < 1 || s.line > lines {
				t.Errorf("%q is said to be in line %d of %d", s.key, s.line, lines)
			}
			_, _ = textsOf(s.value)
		}
	})
}
