package binary

import (
	"bytes"
	"debug/elf"
	encoding "encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/arch/x86/x86asm"
)

const exitsSource = `int printf(const char *, ...);
extern int other(int);
__attribute__((noinline)) int plain(int x) { return x * 3 + 1; }
__attribute__((noinline)) int early(int x) { if (x > 100) return x; return printf("%d\n", x) + plain(x); }
__attribute__((noinline)) int jumps(int x) { return plain(x + 1); }
__attribute__((noinline)) int choose(int x) {
	switch (x) { case 0: return plain(7); case 1: return early(9) + 1; case 2: return jumps(3) * 5; case 3: printf("three"); return 1;
	case 4: return plain(printf("four")); case 5: return early(2) - 3; case 6: return 66; default: return x; }
}
__attribute__((noinline)) int saves(int a, int b) { int s = 0; for (int i = 0; i < a; i++) s += choose(i) * b + plain(s); return s; }
int main(int argc, char **argv) { return saves(argc, 3) == 5; }
`

// exitFinder returns that of a program by gcc, with its functions.
func exitFinder(t testing.TB, flags ...string) (*ExitFinder, string) {
	t.Helper()
	return exitFinderOf(t, exitsSource, flags...)
}

// libraries are the files of large libraries, stripped, with code of all kinds.
func libraries(t testing.TB) []string {
	t.Helper()
	var files []string
	for _, name := range []string{"libc.so.6", "libstdc++.so.6"} {
		out, err := exec.Command("g++-12", "-print-file-name="+name).Output()
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, strings.TrimSpace(string(out)))
	}
	return files
}

// openFile opens a file until the end of the test or benchmark.
func openFile(t testing.TB, name string) *File {
	t.Helper()
	r, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	f, err := Open(r)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// addressOf is where the one symbol of a name is.
func addressOf(t testing.TB, f *File, name string) uint64 {
	t.Helper()
	found, err := f.Symbols(name)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %x, %v", name, found, err)
	}
	return found[0]
}

func exitFinderOf(t testing.TB, exitsSource string, flags ...string) (*ExitFinder, string) {
	t.Helper()
	dir := t.TempDir()
	source, name := filepath.Join(dir, "a.c"), filepath.Join(dir, "a")
	if err := os.WriteFile(source, []byte(exitsSource), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc-12", append(flags, "-o", name, source)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	names, err := f.Functions()
	if err != nil {
		t.Fatal(err)
	}
	x, err := f.ExitFinder(names, nil)
	if err != nil {
		t.Fatal(err)
	}
	return x, name
}

const vectorSource = `#include <immintrin.h>
#include <stdint.h>
float f[64], g[64]; double d[64]; int32_t n[64];
__attribute__((noinline)) __m128 constant(void) { return (__m128){1, 2, 3, 4}; }
__attribute__((noinline)) __m256d wide(void) { return (__m256d){1, 2, 3, 4}; }
__attribute__((noinline)) double mixed(double x, int i) { return x * 2.5 + d[i] - (double)n[i] / 3; }
__attribute__((noinline)) void loops(float *p, int c) {
	for (int i = 0; i < c; i++) { p[i] = f[i] * g[i] + 1.5f; d[i] = n[i] > 3 ? p[i] : 0.25; n[i] ^= (i << 3) + 0x12345678; }
}
__attribute__((noinline)) __m128i blend(__m128i a) { return _mm_blendv_epi8(a, _mm_set1_epi8(3), _mm_set_epi32(1, 2, 3, 4)); }
__attribute__((noinline)) __m128i extract(__m256i a) { return _mm256_extractf128_si256(_mm256_permute2f128_si256(a, _mm256_set1_epi32(n[0]), 0x21), 1); }
void other(void);
__attribute__((noinline)) int clears(int i) { n[i] = i; _mm256_zeroupper(); other(); return i + n[i]; }
__attribute__((noinline)) void other(void) { __asm__ volatile(""); }
int main(int argc, char **argv) { loops(f, argc); return clears(1) + mixed(1, 2) == wide()[1] + constant()[0]; }
`

// TestVectorInstructions compares where instructions with a VEX or EVEX prefix begin, and what
// they refer to relative to their end, with what objdump shows.
func TestVectorInstructions(t *testing.T) {
	for _, flags := range []string{"-O1 -mavx", "-O3 -mavx2 -mfma", "-O3 -mavx512f -mavx512vl -mavx512bw -mavx512dq -mprefer-vector-width=512"} {
		x, name := exitFinderOf(t, vectorSource, strings.Fields(flags)...)
		out, err := exec.Command("objdump", "-dw", "--no-show-raw-insn", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		relative := 0
		for _, function := range []string{"constant", "wide", "mixed", "loops", "blend", "extract", "clears"} {
			f := x.names[slices.IndexFunc(x.names, func(f FunctionSymbol) bool { return f.Name == function })]
			code, err := x.decode([2]uint64{f.Addr, f.Addr + f.Size})
			if err != nil {
				t.Errorf("%s: %s: %v", flags, function, err) // its exits are not sites then
				continue
			}
			_, listing, _ := strings.Cut(string(out), "<"+function+">:\n")
			listing, _, _ = strings.Cut(listing, "\n\n")
			padding := strings.Count(listing, "nop") + strings.Count(listing, "xchg   %ax,%ax")
			working := len(slices.DeleteFunc(slices.Clone(code), func(i instruction) bool { return i.Op == x86asm.NOP }))
			if shown := strings.Count(listing, ":\t") - padding; shown != working {
				t.Errorf("%s: %s: %d instructions, not %d", flags, function, working, shown)
			}
			for _, i := range code {
				_, line, ok := strings.Cut(string(out), fmt.Sprintf(" %x:\t", i.addr))
				line, _, _ = strings.Cut(line, "\n")
				if !ok {
					t.Fatalf("%s: %s: no instruction begins at %#x", flags, function, i.addr)
				}
				_, shown, refers := strings.Cut(line, "(%rip)")
				if refers != (i.PCRel != 0 && !strings.HasPrefix(line, "j") && !strings.HasPrefix(line, "call")) {
					t.Errorf("%s: %s: %#x: %s: %d relative bytes", flags, function, i.addr, line, i.PCRel)
				}
				if !refers || i.PCRel != 4 {
					continue
				}
				relative++
				d := int32(encoding.LittleEndian.Uint32(x.code.at(i.addr, i.Len)[i.PCRelOff:]))
				if to := fmt.Sprintf("%x", i.end()+uint64(int64(d))); !strings.Contains(shown, "# "+to+" ") {
					t.Errorf("%s: %s: %#x: %s: refers to %s", flags, function, i.addr, line, to)
				}
			}
		}
		if relative < 5 {
			t.Errorf("%s: %d relative addresses", flags, relative)
		}
	}
}

// checkExits tells what cannot be of the exits of a function.
func checkExits(exits []Exit) string {
	exits = slices.Clone(exits)
	slices.SortFunc(exits, func(a, b Exit) int { return int(int64(a.Addr - b.Addr)) })
	for i, e := range exits {
		room := max(len(e.Code), exitRoom)
		switch {
		case i > 0 && exits[i-1].Addr+uint64(max(len(exits[i-1].Code), exitRoom)) > e.Addr:
			return "two have the same room"
		case !e.Conditional && (len(e.Starts) == 0 || e.Starts[0] != 0 || !slices.IsSorted(e.Starts) || e.Starts[len(e.Starts)-1] >= len(e.Code)):
			return "instructions begin nowhere"
		}
		for _, r := range e.Relative {
			if r.At < 0 || r.At+4 > r.End || r.End > room {
				return "relative addresses are outside"
			}
		}
	}
	return ""
}

// TestExits compares with each ret that objdump shows.
func TestExits(t *testing.T) {
	for _, flags := range []string{"-O0", "-O1", "-O2", "-O2 -fcf-protection=full", "-Os", "-O2 -no-pie -fno-pic", "-O3 -fomit-frame-pointer"} {
		x, name := exitFinder(t, strings.Fields(flags)...)
		out, err := exec.Command("objdump", "-d", "--no-show-raw-insn", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		rets := make(map[string][]uint64) // by function
		function := ""
		for line := range strings.Lines(string(out)) {
			if _, rest, ok := strings.Cut(line, " <"); ok && strings.HasSuffix(line, ">:\n") {
				function = strings.TrimSuffix(rest, ">:\n")
			}
			at, code, ok := strings.Cut(strings.TrimSpace(line), ":\t")
			if addr, err := strconv.ParseUint(at, 16, 64); ok && err == nil && strings.HasPrefix(code, "ret") {
				rets[function] = append(rets[function], addr)
			}
		}
		known := 0
		for _, name := range []string{"plain", "early", "jumps", "choose", "saves"} {
			i := slices.IndexFunc(x.names, func(f FunctionSymbol) bool { return f.Name == name })
			exits, err := x.Exits(x.names[i], [2]uint64{}, false)
			if errors.Is(err, ErrExits) {
				continue
			}
			if why := checkExits(exits); err != nil || why != "" {
				t.Errorf("%s: %s: %v %s", flags, name, err, why)
				continue
			}
			known++
			for _, ret := range rets[name] {
				if !slices.ContainsFunc(exits, func(e Exit) bool { return e.Addr <= ret && ret < e.Addr+uint64(len(e.Code)) && e.Target == 0 }) {
					t.Errorf("%s: %s: the ret at %#x is no exit", flags, name, ret)
				}
			}
		}
		if known < 2 { // elsewhere there is no room
			t.Errorf("%s: exits of %d functions", flags, known)
		}
	}
}

// FuzzExits finds exits in code of which some bytes are others.
func FuzzExits(f *testing.F) {
	x, _ := exitFinder(f, "-O2")
	n, _, _ := x.code.find(x.names[len(x.names)/2].Addr)
	text := &x.code.sections[n]
	whole := bytes.Clone(x.code.at(text.addr, int(text.size)))
	f.Add(uint16(0), []byte{0xc3})
	f.Add(uint16(0x40), []byte{0xff, 0x24, 0xc5, 0, 0, 0, 0})
	f.Add(uint16(0x80), []byte{0xc2, 8, 0})
	f.Fuzz(func(t *testing.T, at uint16, b []byte) {
		changed := slices.Clone(whole)
		copy(changed[int(at)%len(changed):], b)
		text.from = bytes.NewReader(changed)
		x.code = x.code.another()
		for _, fn := range x.names {
			exits, err := x.Exits(fn, [2]uint64{fn.Addr, fn.Addr + exitRoom}, at%2 == 0)
			if err == nil {
				if why := checkExits(exits); why != "" {
					t.Errorf("%s: %s", fn.Name, why)
				}
			}
		}
	})
}

const ledSource = `int main(void) { return 0; }
#define BEGIN(name) ".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n.cfi_startproc\n"
#define END(name) "\n.cfi_endproc\n.size " #name ",.-" #name "\n"
__asm__(BEGIN(goes) "lea table(%rip),%rdx\nlea base(%rip),%rax\nmovslq (%rdx,%rdi,4),%rcx\nadd %rcx,%rax\njmp *%rax\n"
	"base: mov $1,%eax\nret\nfirst: mov $2,%eax\nret\nsecond: mov $3,%eax\nret" END(goes)
	".section .rodata\n.p2align 2\ntable: .long base-base, first-base, second-base\n"
	BEGIN(pushes) "push $behind\nret\nbehind: mov $4,%eax\nret" END(pushes)
	BEGIN(adds) "lea numbers(%rip),%rdx\nmovslq (%rdx,%rdi,4),%rax\nadd $zero,%rax\njmp *%rax\nzero: mov $5,%eax\nret\none: mov $6,%eax\nret" END(adds)
	".section .rodata\n.p2align 2\nnumbers: .long zero-zero, one-zero\n"
	BEGIN(entered) "push %rbx\n.cfi_adjust_cfa_offset 8\nmov %edi,%ebx\nmov %ebx,%eax\npop %rbx\n.cfi_adjust_cfa_offset -8\n.Linto: and $-1,%eax\nret" END(entered)
	BEGIN(enters) "mov %edi,%eax\njmp .Linto" END(enters)
	BEGIN(straight) "lea 1(%rdi),%eax\nret" END(straight)
	BEGIN(jumps) "mov %edi,%eax\nadd %edi,%edi\njmp straight" END(jumps)
	BEGIN(branches) "test %edi,%edi\njs 1f\nret\n1: ret" END(branches)
	BEGIN(last) "mov %edi,%eax\nret" END(last));
`

// TestLed finds where code leads that computes it, and gives up exits into which another
// function leads.
func TestLed(t *testing.T) {
	x, _ := exitFinderOf(t, ledSource, "-O2", "-no-pie", "-fno-pic")
	address := func(name string) uint64 { return addressOf(t, x.f, name) }
	function := func(name string) FunctionSymbol {
		return *x.names.At(address(name))
	}
	for name, labels := range map[string][]string{"goes": {"base", "first", "second"}, "pushes": {"behind"}, "adds": {"zero", "one"}} {
		b := &body{x: x, targets: make(map[uint64]bool)}
		x.buffer = nil
		if err := b.read(function(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, label := range labels {
			if !b.targets[address(label)] {
				t.Errorf("%s: nothing leads to %s: %v", name, label, b.targets)
			}
		}
	}
	if _, err := x.Exits(function("entered"), [2]uint64{}, false); err != nil {
		t.Errorf("before all functions were looked at: %v", err)
	}
	x.EntryFinder()
	if exits, err := x.Exits(function("entered"), [2]uint64{}, false); !errors.Is(err, ErrExits) {
		t.Errorf("exits into which another function leads: %+v, %v", exits, err)
	}
}

const restartedSource = `int main(void) { return 0; }
__asm__(".pushsection __rseq_cs,\"aw\"\n.balign 32\n.long 0, 0\n.quad .Lbegins, .Lends - .Lbegins, .Laborts\n.popsection\n"
	".text\n.p2align 4\n.globl restarted\n.type restarted,@function\nrestarted:\n.cfi_startproc\nlea number(%rip),%rdx\n"
	".Lbegins: mov (%rdx),%eax\ninc %eax\nmov %eax,(%rdx)\n.Lends: ret\n.Laborts: jmp restarted\n.cfi_endproc\n.size restarted,.-restarted\n.local number\n.comm number,4,4\n");
`

// TestRestarted leaves alone what the kernel must find in its place.
func TestRestarted(t *testing.T) {
	for _, flags := range [][]string{{"-O2"}, {"-O2", "-no-pie"}, {"-O2", "-static-pie"}} {
		x, _ := exitFinderOf(t, restartedSource, flags...)
		fn := x.names[slices.IndexFunc(x.names, func(f FunctionSymbol) bool { return f.Name == "restarted" })]
		if want := [][2]uint64{{fn.Addr + 7, fn.Addr + 13}}; !slices.Equal(x.sequences, want) {
			t.Errorf("%s: sequences are %x, want %x", flags, x.sequences, want)
		}
		if exits, err := x.Exits(fn, [2]uint64{}, false); err == nil || !strings.Contains(err.Error(), "restartable") {
			t.Errorf("%s: %+v, %v", flags, exits, err)
		}
		e := x.EntryFinder()
		if w, err := e.Window(fn); err == nil || !errors.Is(err, ErrLoops) {
			t.Errorf("%s: %+v, %v", flags, w, err)
		}
	}
}

// TestExitsWithin finds exits without room that follow straight from the entry.
func TestExitsWithin(t *testing.T) {
	x, _ := exitFinderOf(t, ledSource, "-O2", "-no-pie", "-fno-pic")
	x.EntryFinder()
	for name, within := range map[string]bool{"straight": true, "jumps": true, "last": true, "branches": false} {
		fn := x.names[slices.IndexFunc(x.names, func(f FunctionSymbol) bool { return f.Name == name })]
		entry := [2]uint64{fn.Addr, fn.Addr + exitRoom}
		if exits, err := x.Exits(fn, entry, false); !errors.Is(err, ErrExits) {
			t.Errorf("%s: there is no room, but: %+v, %v", name, exits, err)
		}
		exits, err := x.Exits(fn, entry, true)
		switch {
		case !within && !errors.Is(err, ErrExits):
			t.Errorf("%s: %+v, %v", name, exits, err)
		case within && (err != nil || len(exits) != 1 || !exits[0].Within || exits[0].Addr != fn.Addr || uint64(len(exits[0].Code)) != fn.Size):
			t.Errorf("%s: %+v, %v", name, exits, err)
		}
	}
}

// TestEntryWindows finds, of nearly all functions of stripped libraries, the first instructions.
func TestEntryWindows(t *testing.T) {
	for _, name := range libraries(t) {
		f := openFile(t, name)
		if f.Machine != elf.EM_X86_64 {
			t.Skip("x86-64 only")
		}
		names, err := f.Functions()
		if err != nil {
			t.Fatal(err)
		}
		exits, err := f.ExitFinder(names, nil)
		if err != nil {
			t.Fatal(err)
		}
		x := exits.EntryFinder()
		led := branchTargets(t, name)
		all, found := 0, 0
		for _, fn := range x.Functions() {
			w, err := x.Window(fn)
			if errors.Is(err, ErrPart) {
				continue
			}
			all++
			if err != nil {
				t.Logf("%s: %s at %#x: %v", name, fn.Name, fn.Addr, err)
				continue
			}
			found++
			for at := w.Addr + 1; at < w.Addr+windowRoom; at++ {
				if from, ok := led[at]; ok {
					t.Errorf("%s: at %#x: %#x leads to %#x", name, w.Addr, from, at)
				}
			}
			if last := w.Instructions[len(w.Instructions)-1]; last.End != len(w.Code) || len(w.Code) < windowRoom && w.GoesOn() || !bytes.Equal(x.code.at(w.Addr, len(w.Code)), w.Code) {
				t.Errorf("%s: at %#x: % x", name, w.Addr, w.Code)
			}
		}
		checkBlocks(t, name, x, led)
		if t.Logf("%s: %d of %d", name, found, all); all < 3000 || float64(found) < 0.993*float64(all) {
			t.Errorf("%s: of %d functions only %d", name, all, found)
		}
	}
}

// branchTargets returns where the direct branches of a file lead, as objdump tells, and from where.
func branchTargets(t *testing.T, name string) map[uint64]uint64 {
	t.Helper()
	out, err := exec.Command("objdump", "-d", "--no-show-raw-insn", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	targets := make(map[uint64]uint64)
	for line := range strings.Lines(string(out)) {
		at, code, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		code, _, ok := strings.Cut(code, " <")
		if !ok {
			continue
		}
		from, err := strconv.ParseUint(at, 16, 64)
		to, toErr := strconv.ParseUint(code[strings.LastIndexByte(code, ' ')+1:], 16, 64)
		if err == nil && toErr == nil {
			targets[to] = from
		}
	}
	if len(targets) < 10000 {
		t.Fatalf("objdump shows %d targets in %s", len(targets), name)
	}
	return targets
}

// TestIsPadding knows what does nothing.
func TestIsPadding(t *testing.T) {
	x, _ := exitFinderOf(t, `int main(void) { return 0; }
__asm__(".text\n.p2align 6\n.globl padded\n.type padded,@function\npadded: ret\n.p2align 5\n.globl end\nend: ret\nint3\n.size padded,.-padded\n");
`, "-O2")
	begin, end := addressOf(t, x.f, "padded"), addressOf(t, x.f, "end")
	for _, c := range []struct {
		from, to uint64
		want     bool
	}{{begin + 1, end, true}, {begin, end, false}, {begin + 1, end + 1, false}, {end + 1, end + 2, true}, {end, end, false}, {end, begin, false}, {0, 1 << 40, false}} {
		if got := x.IsPadding(c.from, c.to); got != c.want {
			t.Errorf("from %#x to %#x, padded is at %#x: %v", c.from, c.to, begin, got)
		}
	}
}
