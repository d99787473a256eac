//go:build linux

package live

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"footfall/binary"
)

// TestSeparateByLink asks for a symbol of a stripped program whose debug file lies beside it,
// by the name that the program gives, and then for one of another build.
func TestSeparateByLink(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "prog.c"), []byte("#include <unistd.h>\nint main(void) { write(1, \"ready\\n\", 6); pause(); return 0; }\n"))
	build(t, dir, "gcc-12", strings.Fields("--coverage -Wl,--build-id -o prog prog.c")...)
	build(t, dir, "objcopy", strings.Fields("--only-keep-debug prog prog.debug")...)
	build(t, dir, "objcopy", strings.Fields("--strip-all --add-gnu-debuglink=prog.debug prog")...)
	p := opened(t, run(t, dir, "./prog"))
	path := filepath.Join(dir, "prog")
	r, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f, err := binary.Open(r)
	if err != nil {
		t.Fatal(err)
	}
	if values, err := p.separate(f, path, "__gcov_root"); err != nil || len(values) != 1 {
		t.Errorf("__gcov_root: %x, %v", values, err)
	}
	build(t, dir, "gcc-12", strings.Fields("--coverage -Wl,--build-id=0x1234 -o prog.debug prog.c")...)
	if values, err := p.separate(f, path, "__gcov_root"); err == nil {
		t.Errorf("taken from another build: %x", values)
	}
}
