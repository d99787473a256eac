//go:build linux

package compile

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestRun(t *testing.T) {
	large := bytes.Repeat([]byte("some line of text\n"), 200000) // more than pipes hold
	for _, test := range []struct {
		name, script string
		input        []byte
		catch        []int
		status       int
		want         string
	}{
		{"both ways", "cat", large, []int{1}, 0, string(large)},
		{"input that nobody reads", "exit 3", large, []int{1}, 3, ""},
		{"input read in part", "head -c 4; exec <&-; echo done", large, []int{1}, 0, "somedone\n"},
		{"no input", "cat", []byte{}, []int{1}, 0, ""},
		{"errors only", "echo seen >&2", nil, []int{2}, 0, "seen\n"},
		{"both outputs", "echo one; echo two >&2", nil, []int{1, 2}, 0, "one\ntwo\n"},
		{"a signal", "kill -9 $$", nil, []int{1}, 1, ""},
	} {
		p := program{path: "/bin/sh", args: []string{"sh", "-c", test.script}, env: os.Environ(), input: test.input, catch: test.catch}
		status, caught, err := p.run()
		if err != nil || status != test.status || string(caught) != test.want {
			t.Errorf("%s: status %d, %d bytes, %v; want %d, %d bytes", test.name, status, len(caught), err, test.status, len(test.want))
		}
	}
	if _, _, err := (program{path: "/nowhere/sh", args: []string{"sh"}}).run(); err == nil {
		t.Error("a program that does not exist ran")
	}
}

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	for _, d := range []string{filepath.Join(first, "tool"), second} { // a directory is no program
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	tool := filepath.Join(second, "tool")
	if err := os.WriteFile(tool, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", first+"::.:"+second)
	t.Chdir(second)
	if err := os.WriteFile("here", nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"tool": tool, "./here": "./here", tool: tool} {
		if got, err := lookPath(name); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	if err := os.Remove(filepath.Join(second, "here")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"other", "./here", first} {
		if got, err := lookPath(name); err == nil {
			t.Errorf("%s: %q, want an error", name, got)
		}
	}
}
