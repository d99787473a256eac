package instrument

import "bytes"

var i386 = &cpu{
	name:      "386",
	pointer:   "4",
	frame:     4,
	pushes:    true,
	none:      "R_386_NONE",
	align:     4096,
	branches:  &x86Branches,
	shortJump: 0xeb,
	landing:   x86Landing,
	branch:    x86Branch,
	count:     i386Count,
	indirect:  i386Indirect,
	skipCall:  x86SkipCall,
	alone:     true,
	miss:      [5]string{Plain: i386Miss(""), Atomic: i386Miss("lock "), Locked: i386Miss("lock ")},
}

// i386Count finds its own address, since the code may be position-independent
// and no register is free: functions of a file pass each other arguments in eax,
// edx and ecx. The call of the next instruction is what processors know from
// position-independent code, and do not predict wrongly.
func i386Count(b []byte, k int, u ProfileUpdate, _ bool) []byte {
	lock := ""
	if u == Atomic || u == Locked {
		lock = "lock "
	}
	return appendf(b, `	pushl	%%eax
	call	7711f
7711:	popl	%%eax
	%saddl	$1, .Lfc+%d-7711b(%%eax)
	%sadcl	$0, .Lfc+%d-7711b(%%eax)
	popl	%%eax
`, lock, 8*k, lock, 8*k+4)
}

// i386Indirect has all counting done by the function, for want of a register.
// The call itself stays as it was.
func i386Indirect(b []byte, st statement, br branch, site int, l labels, u ProfileUpdate, _ bool) (code, after []byte, ok bool) {
	if bytes.Contains(br.target, []byte("%esp")) {
		return b, nil, false // we have pushed
	}
	b = appendf(b, `	pushl	%%eax
	pushl	%%edx
	movl	%s, %%eax
	call	7711f
7711:	popl	%%edx
	leal	.Lfc+%d-7711b(%%edx), %%edx
	call	%s
	popl	%%edx
	popl	%%eax
.Lfs%d:
	%s%s	*%s
`, br.target, 8*site, missName(u), l.site, st.prefix, st.word, br.target)
	return b, nil, true
}

// i386Miss is given edx, the site, and eax, the target; it may change both.
// See amd64Miss.
func i386Miss(lock string) string {
	return `	pushl	%ecx
	pushl	%ebx
	movl	%eax, %ecx
	leal	64(%edx), %ebx
1:	movl	(%edx), %eax
	cmpl	%ecx, %eax
	je	3f
	testl	%eax, %eax
	jne	2f
	lock cmpxchgl	%ecx, (%edx)
	je	3f
	cmpl	%ecx, %eax
	je	3f
2:	addl	$16, %edx
	cmpl	%ebx, %edx
	jne	1b
	subl	$8, %edx
3:
.Lfu1:	` + lock + `addl	$1, 8(%edx)
.Lfu2:	` + lock + `adcl	$0, 12(%edx)
	popl	%ebx
	popl	%ecx
	ret
`
}
