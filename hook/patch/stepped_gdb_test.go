//go:build linux

package patch

import (
	"bufio"
	"bytes"
	"debug/elf"
	encoding "encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"footfall/process/needs"
	"footfall/trace"
)

// TestSteppedByGDB has gdb step through stubs, trampoline and return stubs, and unwind at each
// instruction. It reads the tables of files only: so it gets ours in one.
func TestSteppedByGDB(t *testing.T) {
	if native != amd64 {
		t.Skip("x86-64 only")
	}
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if _, err := exec.LookPath("gdb"); err != nil {
		needs.Skip(t, needs.Tools, err)
	}
	unwindsAlways = true // so that the tables are written
	defer func() { unwindsAlways = false }()
	program := build(t, "gcc-12", "stepped.c", "-shared-libgcc", "-fpatchable-function-entry=5")
	for name, o := range map[string]Options{
		"exits":            {Mode: trace.Exits},
		"returns replaced": {Mode: trace.Exits, returns: true},
		"with filters":     {Mode: trace.Filtered, Filter: trace.Filter{Depth: 100}},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, program)
			s := g.open(g.sites("outer", "many", "pushes", "framed", "leaf", "jumps", "jumped"), o)
			defer s.Close()
			stepInGDB(t, g, s)
		})
	}
}

func stepInGDB(t *testing.T, g *testProgram, s *Session) {
	g.say("plain") // return stubs are there from the first call on
	dir := t.TempDir()
	var ranges []string
	args := []string{"-batch", "-nx", "-p", fmt.Sprint(g.p.PID)}
	add := func(code, size uint64, rules []byte) {
		name := filepath.Join(dir, fmt.Sprintf("%x", code))
		if err := os.WriteFile(name, tableFile(code, size, rules), 0o666); err != nil {
			t.Fatal(err)
		}
		ranges = append(ranges, fmt.Sprintf("%x-%x", code, code+size))
		args = append(args, "-ex", "add-symbol-file "+name)
	}
	for _, b := range s.islands {
		add(b.addr+codeAt, stubsAt-codeAt+uint64(b.room)*stubSize, frameRules(b.addr))
	}
	for _, r := range s.returns {
		add(r.addr, r.size, r.rules(false))
	}
	args = append(args, "-ex", fmt.Sprintf("set $ranges = %q", strings.Join(ranges, ",")), "-x", "testdata/stepped.py")
	gdb := exec.Command("gdb", args...)
	gdb.Env = append(os.Environ(), "DEBUGINFOD_URLS=", "LC_ALL=C.UTF-8")
	var said bytes.Buffer
	gdb.Stderr = &said
	out, err := gdb.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := gdb.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = gdb.Process.Kill(); _ = gdb.Wait() }()
	var steps, within, wrong int
	last := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		last = lines.Text()
		if last == "ready" {
			fmt.Fprintln(g.In, "plain")
		}
	}
	if _, err := fmt.Sscanf(last, "%d steps %d within %d wrong", &steps, &within, &wrong); err != nil {
		t.Fatalf("gdb says: %s", said.String())
	}
	if t.Logf("%d steps, %d within", steps, within); within < 100 || wrong > 0 {
		t.Errorf("%d of %d steps within were wrong: %s", wrong, within, said.String())
	}
	g.Line() // it goes on
}

// tableFile is an ELF file that has the rules of code at an address as .debug_frame, and a
// symbol: gdb takes two frames for one if both the CFA and the function are the same.
func tableFile(code, size uint64, rules []byte) []byte {
	const first = 64 // behind the header
	names := "\x00.text\x00.debug_frame\x00.symtab\x00.strtab\x00ours\x00"
	index := func(name string) uint32 { return uint32(strings.Index(names, name)) }
	frame, entry := debugFrame(rules, size)
	encoding.LittleEndian.PutUint64(frame[entry+8:], code) // behind its length and its CIE
	symbols := []elf.Sym64{{}, {Name: index("ours"), Info: elf.ST_INFO(elf.STB_GLOBAL, elf.STT_FUNC), Shndx: 1, Value: code, Size: size}}
	symbolsAt := uint64(first + len(frame))
	namesAt := symbolsAt + uint64(len(symbols)*elf.Sym64Size)
	sections := []elf.Section64{
		{},
		{Name: index(".text"), Type: uint32(elf.SHT_NOBITS), Flags: uint64(elf.SHF_ALLOC | elf.SHF_EXECINSTR), Addr: code, Off: first, Size: size, Addralign: 1},
		{Name: index(".debug_frame"), Type: uint32(elf.SHT_PROGBITS), Off: first, Size: uint64(len(frame)), Addralign: 1},
		{Name: index(".symtab"), Type: uint32(elf.SHT_SYMTAB), Off: symbolsAt, Size: namesAt - symbolsAt, Link: 4, Info: 1, Addralign: 1, Entsize: elf.Sym64Size},
		{Name: index(".strtab"), Type: uint32(elf.SHT_STRTAB), Off: namesAt, Size: uint64(len(names)), Addralign: 1},
	}
	header := elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
		Shoff: namesAt + uint64(len(names)), Ehsize: first, Shentsize: 64, Shnum: uint16(len(sections)), Shstrndx: uint16(len(sections) - 1),
	}
	var b bytes.Buffer
	for _, part := range []any{header, frame, symbols, []byte(names), sections} {
		_ = encoding.Write(&b, encoding.LittleEndian, part) // a buffer takes all
	}
	return b.Bytes()
}
