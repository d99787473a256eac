//go:build linux

package uprobe

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// TestForbidsExits looks at the symbols of a program that this Go has made.
func TestForbidsExits(t *testing.T) {
	dir := t.TempDir()
	source, program := filepath.Join(dir, "a.go"), filepath.Join(dir, "a")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return ForbidsExits(s.Name) != "" }) {
		t.Error("a program of Go is not known as one")
	}
	for name, forbids := range map[string]bool{"__cxa_throw": true, "runtime.morestack": true, "main": false} {
		if (ForbidsExits(name) != "") != forbids {
			t.Errorf("%s: %q", name, ForbidsExits(name))
		}
	}
}
