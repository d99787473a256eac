package instrument

import "bytes"

var amd64 = &cpu{
	name:      "amd64",
	pointer:   "7",
	frame:     8,
	none:      "R_X86_64_NONE",
	align:     4096,
	branches:  &x86Branches,
	shortJump: 0xeb,
	landing:   x86Landing,
	branch:    x86Branch,
	count:     amd64Count,
	indirect:  amd64Indirect,
	skipCall:  x86SkipCall,
	more:      true,
	threads:   true,
	scratch:   true,
	miss: [5]string{Plain: amd64Miss("incq\t"), Atomic: amd64Miss("lock incq\t"), Thread: amd64Miss("incq\t%gs:"),
		Locked: amd64Miss("lock incq\t")},
}

// amd64Count adds the base of gs to the counter's address for a thread's own
// copy. The base is 0 in a thread that has none. Targets of indirect calls are
// those of all threads.
//
// With scratch the counter's address is taken into r11 first (waits.go).
//
// Split has the CPU find the last count by the address of its load, as it finds other
// values that are still on their way to memory. An instruction that both reads and writes
// waits until its last count is in the cache.
func amd64Count(b []byte, k int, u ProfileUpdate, scratch bool) []byte {
	if u == Split && scratch {
		return appendf(b, "\tmovq\t.Lfc+%d(%%rip), %%r11\n\tleaq\t1(%%r11), %%r11\n\tmovq\t%%r11, .Lfc+%d(%%rip)\n", 8*k, 8*k)
	}
	if scratch {
		b = append(appendNumber(b, "\tleaq\t.Lfc+", 8*k), "(%rip), %r11\n"...)
	}
	switch u {
	case Atomic, Locked:
		b = append(b, "\tlock incq\t"...)
	case Thread:
		b = append(b, "\tincq\t%gs:"...)
	default:
		b = append(b, "\tincq\t"...)
	}
	if scratch {
		return append(b, "(%r11)\n"...)
	}
	return append(appendNumber(b, ".Lfc+", 8*k), "(%rip)\n"...)
}

// amd64Indirect compares the target, in memory by way of r11, and calls it. Nothing is taken from
// the counts for that: they are a file's, and others may write there. A target that is in a register
// stays there, as GCC may keep something in r11 across a call by register of a function
// that it knows. (The address of such a one is never in memory: GCC makes it anew.)
func amd64Indirect(b []byte, st statement, br branch, site int, l labels, u ProfileUpdate, scratch bool) (code, after []byte, ok bool) {
	target, called := br.target, br.target
	register := amd64Register(target)
	if !register {
		b = append(append(append(b, "\tmovq\t"...), target...), ", %r11\n"...)
		target = []byte("%r11")
		if u != Split {
			called = target
		}
	}
	b = append(appendNumber(b, "\tcmpq\t.Lfc+", 8*site), "(%rip), "...)
	b = append(appendNumber(append(b, target...), "\n\tjne\t.Lfm", l.miss), '\n')
	b = amd64Count(b, site+1, u, scratch && (register || u == Split))
	b = append(appendNumber(b, ".Lfs", l.site), ":\n\t"...)
	b = append(append(append(b, st.prefix...), st.word...), "\t*"...)
	b = append(append(b, called...), '\n')

	after = append(appendNumber(after, ".Lfm", l.miss), ":\n"...)
	// Clang finds what a function has saved, and has popped before a jump, still below the
	// stack pointer: that stays as it is.
	jumps := bytes.HasPrefix(st.word, []byte("jmp"))
	if jumps {
		after = append(after, "\tleaq\t-128(%rsp), %rsp\n"...)
	}
	if register {
		after = append(append(append(after, "\tpushq\t%r11\n\tmovq\t"...), target...), ", %r11\n"...)
	}
	// rax counts vector arguments.
	after = append(appendNumber(append(after, "\tpushq\t%rax\n\tpushq\t%rdx\n"...), "\tleaq\t.Lfc+", 8*site), "(%rip), %rax\n"...)
	if site > maxMoreSite {
		after = append(after, "\txorl\t%edx, %edx\n"...)
	} else {
		after = append(after, "\tleaq\t.Lfo(%rip), %rdx\n"...)
	}
	after = append(append(append(after, "\tcall\t"...), missName(u)...), "\n\tpopq\t%rdx\n\tpopq\t%rax\n"...)
	if register {
		after = append(after, "\tpopq\t%r11\n"...)
	}
	if jumps {
		after = append(after, "\tleaq\t128(%rsp), %rsp\n"...)
	}
	after = append(appendNumber(after, "\tjmp\t.Lfs", l.site), '\n')
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
func missName(u ProfileUpdate) string { return "__footfall_indirect_" + u.outOfLine().String() }

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
	.cfi_remember_state
3:
.Lfu1:	` + inc + `8(%rsi)
	popq	%rsi
	popq	%rcx
	ret
	.cfi_restore_state
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
	.cfi_remember_state
	popq	%rdi
	jmp	3b
	.cfi_restore_state
7:	popq	%rdi
.Lfu2:	` + inc + `8(%rdx)
	popq	%rsi
	popq	%rcx
	ret
`
}
