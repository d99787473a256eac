//go:build linux

package compile

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// TestRegular: what can be read only once is not read here, and nobody waits for it.
func TestRegular(t *testing.T) {
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o666), os.WriteFile(file, []byte("-O2 'a b'"), 0o666)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{pipe, "/dev/zero", dir} {
		if b, err := readRegular(name); !errors.Is(err, errNotRegular) {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
	if got, want := expandResponseFiles([]string{"@" + pipe, "@" + file}, 0), []string{"@" + pipe, "-O2", "a b"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
