package binary

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// checkBlocks divides all functions of a stripped library, of which libc has much assembly: blocks do not overlap, of most there are windows,
// and nothing that objdump shows leads into one of these, nor into a block.
func checkBlocks(t *testing.T, name string, x *EntryFinder, led map[uint64]uint64) {
	all, windows, undivided := 0, 0, 0
	taken := newBits(x.code)
	for _, fn := range x.Divide() {
		if fn.Err != nil {
			if !errors.Is(fn.Err, errUncalled) {
				undivided++
			}
			continue
		}
		if fn.Blocks[0].Addr != fn.Function.Addr {
			t.Errorf("%s: %s at %#x: the first block is at %#x", name, fn.Function.Name, fn.Function.Addr, fn.Blocks[0].Addr)
		}
		for n, b := range fn.Blocks {
			if all++; b.Window != nil {
				windows++
			}
			for at := b.Addr + 1; at < b.End; at++ {
				if from, ok := led[at]; ok {
					t.Errorf("%s: within the block at %#x: %#x leads to %#x", name, b.Addr, from, at)
				}
			}
			for _, next := range b.Next {
				if next >= len(fn.Blocks) || next < 0 {
					t.Errorf("%s: behind block %d of %d at %#x follows %d", name, n, len(fn.Blocks), b.Addr, next)
				}
			}
			w := b.Window
			if w == nil {
				continue
			}
			if w.Addr < b.Addr || w.Addr >= b.End {
				t.Errorf("%s: the window at %#x is not in the block %#x-%#x", name, w.Addr, b.Addr, b.End)
			}
			for at := w.Addr; at < w.Addr+uint64(max(len(w.Code), windowRoom)); at++ {
				if taken.has(at) {
					t.Errorf("%s: %#x is in two windows", name, at)
				}
				taken.set(at)
			}
			for at := w.Addr + 1; at < w.Addr+windowRoom; at++ {
				if from, ok := led[at]; ok {
					t.Errorf("%s: into the window at %#x: %#x leads to %#x", name, w.Addr, from, at)
				}
			}
		}
	}
	if t.Logf("%s: %d of %d blocks have windows; %d functions are not divided", name, windows, all, undivided); all < 30000 || float64(windows) < 0.88*float64(all) {
		t.Errorf("%s: of %d blocks only %d have windows", name, all, windows)
	}
}

// undividedSource has functions of which it is not known where code leads, or what is data.
const undividedSource = `int main(void) { return 0; }
#define BEGIN(name) ".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n.cfi_startproc\n"
#define END(name) "\n.cfi_endproc\n.size " #name ",.-" #name "\n"
__asm__(BEGIN(computes) "lea base(%rip),%rax\nlea (%rax,%rdi,8),%rax\njmp *%rax\nbase: mov $1,%eax\nret\n.p2align 3\nmov $2,%eax\nret" END(computes)
	BEGIN(reads) "movss number(%rip),%xmm0\nret\nnumber: .long 0x90909090" END(reads)
	BEGIN(given) "lea inside(%rip),%rax\nret\ninside: mov $3,%eax\nret" END(given)
	BEGIN(prefixed) "test %edi,%edi\nje 1f+1\n1: lock incl (%rsi)\nret" END(prefixed)
	BEGIN(calls) "call 1f\n1: pop %rax\nret" END(calls)
	BEGIN(lends) "mov $5,%eax\n.Llent: add $7,%eax\nret" END(lends)
	BEGIN(borrows) "mov $6,%eax\njmp .Llent" END(borrows)
	BEGIN(thunk) "mov (%rdi),%rax\npush %rax\nret" END(thunk)
	BEGIN(divides) "test %edi,%edi\nje 1f\nmov $1,%eax\nret\n1: mov $2,%eax\nret" END(divides)
	BEGIN(shares) "test %edi,%edi\nje 1f\nlea 1(%rsi,%rsi,4),%eax\nadd $5,%eax\nimul $7,%eax,%eax\nret\n1: mov $2,%eax\nret" END(shares));
`

// TestUndivided leaves functions alone of which not all is known.
func TestUndivided(t *testing.T) {
	for _, flags := range []string{"-O2", "-O2 -no-pie -fno-pic"} {
		x, _ := exitFinderOf(t, undividedSource, strings.Fields(flags)...)
		divided := make(map[string]*DividedFunction)
		all := x.EntryFinder().Divide()
		for n := range all {
			divided[all[n].Function.Name] = &all[n]
		}
		for name, want := range map[string]error{"computes": errDispatch, "reads": errData, "given": errData, "prefixed": errMiddle, "borrows": nil, "divides": nil, "shares": nil} {
			switch d := divided[name]; {
			case name == "borrows":
				if d.Err == nil {
					t.Errorf("%s: %s jumps into another function, and is divided", flags, name)
				}
			case !errors.Is(d.Err, want):
				t.Errorf("%s: %s: %v, want %v", flags, name, d.Err, want)
			}
		}
		if d := divided["lends"]; !d.Led || d.Err == nil && (len(d.Blocks) != 2 || !d.Blocks[1].Entered || d.Blocks[0].Window == nil || d.Blocks[0].Window.Addr+windowRoom > d.Blocks[1].Addr) {
			t.Errorf("%s: %+v", flags, d)
		}
		// The first block has 4 bytes: its window goes on in the one behind, which has another one.
		if b := divided["shares"].Blocks; len(b) != 3 || b[0].Window == nil || len(b[0].Window.Code) < windowRoom || b[1].Window == nil || b[1].Window.Addr < b[0].Window.Addr+uint64(len(b[0].Window.Code)) {
			t.Errorf("%s: %+v", flags, b)
		}
	}
}

// TestDividedSwitches divides what compilers make of switches, computed gotos, loops and exceptions.
func TestDividedSwitches(t *testing.T) {
	const text = `
#include <stdio.h>
#include <stdexcept>
__attribute__((noinline)) int choose(int n, int m) {
	switch (n) {
	case 0: puts("0"); break;
	case 1: puts("1"); m++;
	case 2: puts("2"); m *= 3; break;
	case 3: puts("3"); return m;
	case 4: puts("4"); m -= 3; break;
	case 5: throw std::runtime_error("5");
	}
	switch (m) {
	case 10: return puts("10");
	case 11: return puts("eleven");
	case 12: puts("12"); return 5;
	case 13: puts("13"); return 7;
	case 14: puts("14"); return 11;
	}
	return m;
}
__attribute__((noinline)) int threaded(const char *p) {
	static void *labels[] = { &&add, &&sub, &&out };
	int sum = 0;
	goto *labels[*p++ & 3];
add:
	sum += *p; puts("add");
	goto *labels[*p++ & 3];
sub:
	sum -= *p; puts("sub");
	goto *labels[*p++ & 3];
out:
	return sum;
}
__attribute__((noinline)) int catches(int n) {
	try { return choose(n, n + 10); }
	catch (std::exception &e) { puts(e.what()); return -1; }
}
int main(int n, char **v) { return catches(n) + threaded(v[0]); }
`
	for _, flags := range []string{"-O1", "-O2 -no-pie", "-O3 -fcf-protection=full"} {
		x, _ := exitFinderOf(t, text, append([]string{"-x", "c++", "-Wl,--no-as-needed", "-lstdc++"}, strings.Fields(flags)...)...)
		divided := 0
		for _, d := range x.EntryFinder().Divide() {
			if n := d.Function.Name; strings.Contains(n, "choose") || strings.Contains(n, "threaded") || strings.Contains(n, "catches") {
				if divided++; d.Err != nil {
					t.Errorf("%s: %s: %v", flags, n, d.Err)
				}
				if len(d.Blocks) < 4 {
					t.Errorf("%s: %s: %d blocks", flags, n, len(d.Blocks))
				}
			}
		}
		if divided != 3 {
			t.Errorf("%s: %d functions", flags, divided)
		}
	}
}

// FuzzDivide divides functions of which some bytes are others: what a jump leads to that is
// found by decoding one instruction after another is never in the middle of a window, and windows have their code.
func FuzzDivide(f *testing.F) {
	_, name := exitFinderOf(f, undividedSource, "-O2")
	whole, err := os.ReadFile(name)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint16(0), []byte{0xc3})
	f.Add(uint16(0x40), []byte{0xff, 0x24, 0xc5, 0, 0, 0, 0})
	f.Add(uint16(0x95), []byte{0x74, 3, 0x90, 0xeb, 0xfe})
	f.Add(uint16(0xa0), []byte{0xe8, 2, 0, 0, 0, 0x0f, 0x84, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, at uint16, b []byte) {
		changed := slices.Clone(whole)
		file, err := Open(bytes.NewReader(changed))
		if err != nil {
			t.Fatal(err)
		}
		text, size, _ := file.Section(".text")
		offset := file.FileOffset(text)
		copy(changed[offset : offset+size][uint64(at)%size:], b)
		names, err := file.Functions()
		if err != nil {
			t.Fatal(err)
		}
		x, err := file.ExitFinder(names, nil)
		if err != nil {
			t.Fatal(err)
		}
		all := x.EntryFinder().Divide()
		targets := make(map[uint64]uint64) // of jumps and calls, and from where
		for n := range all {
			fn := &all[n].Function
			for at := fn.Addr; at < fn.Addr+fn.Size; {
				from := at - text + offset
				i, err := DecodeAMD64(changed[from : offset+size])
				if err != nil {
					break
				}
				in := newInstruction(&i, at)
				if to, ok := in.target(); ok {
					targets[to] = at
				}
				at = in.end()
			}
		}
		checkWindows(t, all, targets, func(addr uint64, size int) []byte { return changed[addr-text+offset:][:size] })
	})
}

func checkWindows(t *testing.T, all []DividedFunction, targets map[uint64]uint64, code func(addr uint64, size int) []byte) {
	taken := make(map[uint64]bool)
	for _, fn := range all {
		if fn.Err != nil && fn.Blocks != nil {
			t.Errorf("%s: it has blocks, and %v", fn.Function.Name, fn.Err)
		}
		for n, b := range fn.Blocks {
			if b.End <= b.Addr || n > 0 && fn.Blocks[n-1].Addr == b.Addr {
				t.Errorf("%s: block %d is from %#x to %#x", fn.Function.Name, n, b.Addr, b.End)
			}
			w := b.Window
			if w == nil {
				continue
			}
			if !bytes.Equal(code(w.Addr, len(w.Code)), w.Code) {
				t.Errorf("%s: the window at %#x has % x", fn.Function.Name, w.Addr, w.Code)
			}
			for at := w.Addr; at < w.Addr+uint64(max(len(w.Code), windowRoom)); at++ {
				if taken[at] {
					t.Errorf("%s: %#x is in two windows", fn.Function.Name, at)
				}
				if taken[at] = true; at == w.Addr || at >= w.Addr+windowRoom {
					continue
				}
				if from, ok := targets[at]; ok {
					t.Errorf("%s: into the window at %#x: %#x leads to %#x", fn.Function.Name, w.Addr, from, at)
				}
			}
		}
	}
}
