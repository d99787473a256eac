package instrument

import (
	"bytes"
	"fmt"
	"strconv"
)

var amd64 = &cpu{
	name:     "amd64",
	align:    4096,
	branches: "cjnbrlde",
	landing:  x86Landing,
	branch:   x86Branch,
	count:    amd64Count,
	indirect: amd64Indirect,
	skipCall: x86SkipCall,
	more:     true,
	threads:  true,
	split:    true,
	miss:     [3]string{Plain: amd64Miss("incq\t"), Atomic: amd64Miss("lock incq\t"), Thread: amd64Miss("incq\t%gs:")},
}

// amd64Count adds the base of gs to the counter's address for a thread's own
// copy. The base is 0 in a thread that has none. Targets of indirect calls are
// those of all threads.
//
// Split has the CPU find the last count by the address of its load, as it finds other
// values that are still on their way to memory. An instruction that both reads and writes
// waits until its last count is in the cache.
func amd64Count(b []byte, k int, u Update) []byte {
	switch u {
	case Split:
		return appendf(b, "\tmovq\t.Lfc+%d(%%rip), %%r11\n\tleaq\t1(%%r11), %%r11\n\tmovq\t%%r11, .Lfc+%d(%%rip)\n", 8*k, 8*k)
	case Atomic:
		b = append(b, "\tlock incq\t.Lfc+"...)
	case Thread:
		b = append(b, "\tincq\t%gs:.Lfc+"...)
	default:
		b = append(b, "\tincq\t.Lfc+"...)
	}
	b = strconv.AppendInt(b, int64(8*k), 10)
	return append(b, "(%rip)\n"...)
}

// amd64Indirect compares the target, in memory by way of r11, and calls it. Nothing is taken from
// the counts for that: they are a file's, and others may write there. A target that is in a register
// stays there, as GCC may keep something in r11 across a call by register of a function
// that it knows.
func amd64Indirect(b []byte, st statement, br branch, site int, l labels, u Update) (code, after []byte, ok bool) {
	target, called := string(br.target), string(br.target)
	save, restore := fmt.Sprintf("\tpushq\t%%r11\n\tmovq\t%s, %%r11\n", target), "\tpopq\t%r11\n"
	if !amd64Register(br.target) {
		b = appendf(b, "\tmovq\t%s, %%r11\n", target)
		target, save, restore = "%r11", "", ""
		if u != Split {
			called = target
		}
	}
	b = appendf(b, "\tcmpq\t.Lfc+%d(%%rip), %s\n\tjne\t.Lfm%d\n", 8*site, target, l.miss)
	b = amd64Count(b, site+1, u)
	b = appendf(b, ".Lfs%d:\n\t%s%s\t*%s\n", l.site, st.prefix, st.word, called)
	more := "leaq\t.Lfo(%rip), %rdx"
	if site > maxMoreSite {
		more = "xorl\t%edx, %edx"
	}
	// rax counts vector arguments, but nothing is below the stack pointer here.
	after = appendf(nil, ".Lfm%d:\n%s\tpushq\t%%rax\n\tpushq\t%%rdx\n\tleaq\t.Lfc+%d(%%rip), %%rax\n\t%s\n\tcall\t%s\n\tpopq\t%%rdx\n\tpopq\t%%rax\n%s\tjmp\t.Lfs%d\n",
		l.miss, save, 8*site, more, missName(u), restore, l.site)
	return b, after, true
}

// amd64Register tells whether an operand is a register.
func amd64Register(operand []byte) bool {
	if !bytes.HasPrefix(operand, []byte("%")) {
		return false
	}
	_, n := symbol(operand[1:])
	return 1+n == len(operand)
}

// missName is that of the function that indirect calls use: objects of several
// update modes may be linked.
func missName(u Update) string { return "__footfall_indirect_" + u.outOfLine().String() }

// amd64Miss is given rax, the site, rdx, the unit's table of further targets or
// 0, and r11, the target. It keeps all registers but rax and rdx. A target that is
// not there yet takes the first free pair of the site, else one of the table;
// taken pairs never change, so that threads need no lock.
func amd64Miss(inc string) string {
	return `	pushq	%rcx
	pushq	%rsi
	movq	%rax, %rsi
	movl	$4, %ecx
1:	movq	(%rsi), %rax
	cmpq	%r11, %rax
	je	3f
	testq	%rax, %rax
	jne	2f
	lock cmpxchgq	%r11, (%rsi)
	je	3f
	cmpq	%r11, %rax
	je	3f
2:	addq	$16, %rsi
	decl	%ecx
	jne	1b
	subq	$8, %rsi
	testq	%rdx, %rdx
	jne	4f
3:	` + inc + `8(%rsi)
	popq	%rsi
	popq	%rcx
	ret
4:	pushq	%rdi
	leaq	-56(%rsi), %rdi
	subq	%rdx, %rdi
	shlq	$45, %rdi
	orq	%r11, %rdi
	movabsq	$0x9e3779b97f4a7c15, %rax
	imulq	%rdi, %rax
	shrq	$56, %rax
	shlq	$4, %rax
	addq	%rax, %rdx
	movl	$16, %ecx
5:	movq	(%rdx), %rax
	cmpq	%rdi, %rax
	je	7f
	testq	%rax, %rax
	jne	6f
	lock cmpxchgq	%rdi, (%rdx)
	je	7f
	cmpq	%rdi, %rax
	je	7f
6:	addq	$16, %rdx
	decl	%ecx
	jne	5b
	popq	%rdi
	jmp	3b
7:	popq	%rdi
	` + inc + `8(%rdx)
	popq	%rsi
	popq	%rcx
	ret
`
}
