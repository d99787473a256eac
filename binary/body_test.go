package binary

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/arch/x86/x86asm"
)

// tablesSource has functions with jump tables, behind which there are other words.
const tablesSource = `int main(void) { return 0; }
#define BEGIN(name) ".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n.cfi_startproc\n"
#define END(name) "\n.cfi_endproc\n.size " #name ",.-" #name "\n"
#define SWITCH(table) "cmp $2,%edi\nja 9f\nlea " #table "(%rip),%rdx\nmovslq (%rdx,%rdi,4),%rax\nadd %rdx,%rax\njmp *%rax\n"
#define CASES(name) #name "1: mov $1,%eax\nret\n" #name "2: mov $2,%eax\nret\n9:\n" #name "3: mov $3,%eax\n" #name "4: ret"
__asm__(BEGIN(ends) SWITCH(table) CASES(ends) END(ends)
	".section .rodata\n.p2align 2\ntable: .long ends1-table, ends2-table, ends3-table, ends2+1-table, ends4-table\n"
	BEGIN(leaves) SWITCH(other) CASES(leaves) END(leaves)
	".section .rodata\nother: .long leaves1-other, leaves2-other, leaves3-other, 0, leaves4-other\n"
	BEGIN(ragged) "test %edi,%edi\nje 1f+1\n1: lock incl (%rsi)\n" SWITCH(third) CASES(ragged) END(ragged)
	".section .rodata\nthird: .long ragged1-third, ragged2-third, ragged3-third, ragged2+1-third, ragged4-third\n"
	BEGIN(parted) SWITCH(fourth) CASES(.Lparted) "\n8: test %esi,%esi\njs .Lpart\njmp 8b" END(parted)
	".section .rodata\nfourth: .long .Lparted1-fourth, .Lpart-fourth, .Lparted3-fourth, .Lpart2-fourth\n"
	".text\n.cfi_startproc\n.Lpart: mov $7,%eax\n.Lpart2: ret\n.cfi_endproc\n");
`

// TestTableEnds reads jump tables up to what cannot be an entry, but on where it is not known what can.
func TestTableEnds(t *testing.T) {
	x, _ := exitFinderOf(t, tablesSource, "-O2")
	at := func(name string) uint64 { return addressOf(t, x.f, name) }
	for name, further := range map[string]bool{"ends": false, "leaves": false, "ragged": true} {
		b := &body{x: x, targets: make(map[uint64]bool), indirect: make(map[uint64]bool)}
		x.buffer = nil
		if err := b.read(*x.names.At(at(name))); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, n := range []string{"1", "2", "3"} {
			if !b.indirect[at(name+n)] {
				t.Errorf("%s: nothing leads to %s: %v", name, n, b.indirect)
			}
		}
		if b.indirect[at(name+"4")] != further || b.indirect[at(name+"2")+1] != further {
			t.Errorf("%s: read on behind the end: %v, want %v", name, b.indirect, further)
		}
	}
	b := &body{x: x, targets: make(map[uint64]bool)}
	x.buffer = nil
	if err := b.read(*x.names.At(at("parted"))); err != nil {
		t.Fatal(err)
	}
	part := b.parts[0][1]
	if len(b.parts) != 2 || b.parts[1][0] != part || !b.targets[part] || !b.targets[part+5] {
		t.Errorf("the part at %#x, which has no name: %v, %v", part, b.parts, b.targets)
	}
}

// TestTablesWhole finds all entries of the jump tables of libraries, or of the files in $TABLES_OF: as many as the code
// allows that looks into them. Some are in assembly, some lead to code without a name.
func TestTablesWhole(t *testing.T) {
	files := strings.Fields(os.Getenv("TABLES_OF"))
	if files == nil {
		files = libraries(t)
	}
	for _, name := range files {
		f := openFile(t, name)
		names, err := f.Functions()
		if err != nil {
			t.Logf("%s: %v", name, err)
			continue
		}
		x, err := f.ExitFinder(names, nil)
		if err != nil {
			t.Fatal(err)
		}
		tables, entries := 0, 0
		for _, fn := range x.EntryFinder().Functions() {
			b := &body{x: x, tolerant: true, targets: make(map[uint64]bool), strays: make(map[uint64]bool)}
			x.buffer = x.all[:0]
			if b.read(fn) == nil {
				n, m := checkEntries(t, f, b)
				tables, entries = tables+n, entries+m
			}
		}
		if t.Logf("%s: %d tables with %d entries", name, tables, entries); tables < 10 && os.Getenv("TABLES_OF") == "" {
			t.Errorf("%s: %d tables were compared", name, tables)
		}
	}
}

// checkEntries looks for entries of a function's tables that are not known to lead there, and counts both.
func checkEntries(t *testing.T, f *File, b *body) (tables, entries int) {
	for _, code := range b.code {
		for n := range code {
			table, size := b.boundedTable(code, n)
			words := bytesAt(t, f, table)
			if size == 0 || len(words) < 4*size {
				continue
			}
			tables, entries = tables+1, entries+size
			for ; size > 0; size, words = size-1, words[4:] {
				to := table + uint64(int64(int32(f.Order.Uint32(words))))
				if !b.targets[to] && (b.has(to) || b.x.names.At(to) == nil && b.x.code.has(to) && !b.strays[to]) {
					t.Errorf("the jump at %#x leads to %#x, too, by the table at %#x", code[n].addr, to, table)
				}
			}
		}
	}
	return tables, entries
}

// boundedTable returns the table by which a jump chooses, and its size if that is compared before:
//
//	cmp    $size-1,%eax     register and index may be of any size
//	ja     ...              and up to here there may be others between, to which nothing else leads
//	lea    table(%rip),%rdx
//	movslq (%rdx,%rax,4),%rax
//	add    %rdx,%rax
//	jmp    *%rax
func (b *body) boundedTable(code []instruction, n int) (table uint64, size int) {
	const far = 16 // instructions
	last := func(from int, is func(i *instruction) bool) int {
		for k := from; k >= 0 && k > n-far && !b.targets[code[k+1].addr]; k-- {
			if is(&code[k]) {
				return k
			}
		}
		return -1
	}
	if _, direct := code[n].target(); direct || code[n].Op != x86asm.JMP {
		return 0, 0
	}
	to := register(code[n].Args[0])
	load := last(n-1, func(i *instruction) bool { return i.Op != x86asm.ADD && register(i.Args[0]) == to })
	if load < 0 || code[load].Op != x86asm.MOVSXD {
		return 0, 0
	}
	m, ok := code[load].Args[1].(x86asm.Mem)
	if !ok || m.Scale != 4 || m.Base == 0 || m.Disp != 0 {
		return 0, 0
	}
	base, index := register(m.Base), register(m.Index)
	added := last(n-1, func(i *instruction) bool {
		return i.Op == x86asm.ADD && register(i.Args[0]) == to && register(i.Args[1]) == base
	})
	lea := last(load-1, func(i *instruction) bool { return i.Op != x86asm.CMP && register(i.Args[0]) == base })
	compared := last(load-1, func(i *instruction) bool {
		extends := (i.Op == x86asm.MOV || i.Op == x86asm.MOVZX) && register(i.Args[1]) == index
		return register(i.Args[0]) == index && !extends
	})
	if added < load || lea < 0 || code[lea].Op != x86asm.LEA || compared < 0 || code[compared].Op != x86asm.CMP || last(load-1, func(i *instruction) bool { return i.Op == x86asm.JA }) != compared+1 {
		return 0, 0
	}
	at, ok := code[lea].Args[1].(x86asm.Mem)
	most, constant := code[compared].Args[1].(x86asm.Imm)
	if !ok || at.Base != x86asm.RIP || !constant || most < 0 || most >= maxTable {
		return 0, 0
	}
	return code[lea].end() + uint64(at.Disp), int(most) + 1
}

// register returns the number of a register, whatever part of it is meant; what is none has numbers of their own.
func register(arg x86asm.Arg) int {
	r, ok := arg.(x86asm.Reg)
	switch {
	case !ok:
		return -1
	case r >= x86asm.RAX && r <= x86asm.R15:
		return int(r - x86asm.RAX)
	case r >= x86asm.EAX && r <= x86asm.R15L:
		return int(r - x86asm.EAX)
	case r >= x86asm.AX && r <= x86asm.R15W:
		return int(r - x86asm.AX)
	case r >= x86asm.AL && r <= x86asm.BL:
		return int(r - x86asm.AL)
	}
	return -2
}

// bytesAt returns what a file has from an address on.
func bytesAt(t *testing.T, f *File, addr uint64) []byte {
	t.Helper()
	for _, s := range f.elf.Sections {
		if s.Addr != 0 && s.Addr <= addr && addr-s.Addr < s.Size {
			b, err := data(s)
			if err != nil {
				t.Fatal(err)
			}
			return b[addr-s.Addr:]
		}
	}
	return nil
}
