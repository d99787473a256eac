package binary

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestStubsConfirm compares the names of the entries by which libraries are called with
// those that objdump makes.
func TestStubsConfirm(t *testing.T) {
	const source = `
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static int twice(int x) { return 2 * x; }
static void *choose(void) { return twice; }
int chosen(int) __attribute__((ifunc("choose")));
int (*volatile pointer)(int);
unsigned long (*volatile length)(const char *) = strlen;
int main(int argc, char **argv)
{
	pointer = chosen;
	printf("%d %d %zu\n", pointer(argc), chosen(3), strlen(argv[0]) + length(argv[0]));
	return getppid() < 0;
}`
	dir := t.TempDir()
	name := filepath.Join(dir, "a.c")
	if err := os.WriteFile(name, []byte(source), 0o666); err != nil {
		t.Fatal(err)
	}
	built := func(flags string) *File {
		program := filepath.Join(dir, "a")
		if out, err := exec.Command("gcc-12", append(strings.Fields(flags), "-O1", "-fno-builtin", "-o", program, name)...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", flags, err, out)
		}
		b, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Open(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, flags := range []string{"-no-pie -fno-pie", "-pie", "-pie -Wl,-z,now", "-no-pie -fno-pie -fcf-protection -Wl,-z,ibtplt", "-fcf-protection", "-fuse-ld=lld -no-pie -fno-pie", "-fuse-ld=gold -no-pie -fno-pie"} {
		f := built(flags)
		own, err := f.functions(elf.SHT_SYMTAB)
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[uint64]string)
		for _, s := range f.stubs(own) {
			got[s.Addr] = s.Name
		}
		out, err := exec.Command("objdump", "-d", "-j.plt", "-j.plt.sec", "-j.plt.got", "-j.iplt", filepath.Join(dir, "a")).Output()
		if err != nil && len(out) == 0 {
			t.Fatal(err)
		}
		entries := 0
		for _, m := range regexp.MustCompile(`(?m)^([0-9a-f]{16}) <(?:\*ABS\*\+0x([0-9a-f]+)|(\w+))@plt>:$`).FindAllStringSubmatch(string(out), -1) {
			entries++
			addr, _ := strconv.ParseUint(m[1], 16, 64)
			want := m[3] + "@plt"
			if m[2] != "" { // of a chosen function: objdump has the address of what chooses
				addend, _ := strconv.ParseUint(m[2], 16, 64)
				want = own.chosenBy(addend)
			}
			if got[addr] != want || want == "" {
				t.Errorf("%s: %q at %#x, objdump says %s", flags, got[addr], addr, m[0])
			}
			delete(got, addr)
		}
		if len(got) > 0 {
			t.Errorf("%s: objdump does not name %v", flags, got)
		}
		if entries < 2 {
			t.Errorf("%s: objdump names %d entries:\n%s", flags, entries, out)
		}
	}

	// objdump has no names for what is linked statically. There all entries are of functions
	// that are chosen, and of 8 bytes.
	f := built("-no-pie -static")
	own, err := f.functions(elf.SHT_SYMTAB)
	if err != nil {
		t.Fatal(err)
	}
	stubs := f.stubs(own)
	_, size, _ := f.Section(".plt")
	if len(stubs) < 2 || uint64(len(stubs)) != size/8 || stubs[0].Size != 8 {
		t.Errorf("-static: %d names of %d entries: %v", len(stubs), size/8, stubs)
	}
}
