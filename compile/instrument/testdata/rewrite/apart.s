# What is tiny begins at a multiple of 32, and a small function that calls itself at one of 64.
	.file	"apart.c"
	.text
	.p2align 4
	.type	tiny, @function
tiny:
.LFB_tiny:
	.cfi_startproc
	leal	1(%rdi), %eax
	ret
	.cfi_endproc
.LFE_tiny:
	.size	tiny, .-tiny
	.p2align 4
	.type	itself, @function
itself:
.LFB_itself:
	.cfi_startproc
	pushq	%rbx
	call	itself
	popq	%rbx
	ret
	.cfi_endproc
.LFE_itself:
	.size	itself, .-itself
	.p2align 4
	.type	calls, @function
calls:
.LFB_calls:
	.cfi_startproc
	pushq	%rbx
	call	tiny
	popq	%rbx
	ret
	.cfi_endproc
.LFE_calls:
	.size	calls, .-calls
	.p2align 4
	.type	long_itself, @function
long_itself:
.LFB_long_itself:
	.cfi_startproc
	pushq	%rbx
	call	long_itself
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	addq	%rax, %rbx
	popq	%rbx
	ret
	.cfi_endproc
.LFE_long_itself:
	.size	long_itself, .-long_itself
	.ident	"GCC: (Debian 12.2.0-14+deb12u1) 12.2.0"
	.section	.note.GNU-stack,"",@progbits
