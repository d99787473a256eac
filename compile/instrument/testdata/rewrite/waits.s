	.file	"waits.c"
	.text
	.p2align 4
	.type	keeps, @function
keeps:
#APP
# 3 "waits.c" 1
	movq %rdi, %r11
	movq %r11, %rax
# 0 "" 2
#NO_APP
	ret		# 18	[c=0 l=1]  simple_return_internal
	.size	keeps, .-keeps
	.p2align 4
	.globl	leaf
	.type	leaf, @function
leaf:
	leaq	1(%rdi,%rdi,2), %rax	# 9	[c=9 l=5]  *leadi
	ret		# 21	[c=0 l=1]  simple_return_internal
	.size	leaf, .-leaf
	.p2align 4
	.type	outer, @function
outer:
	pushq	%rbp	# 24	[c=4 l=1]  *pushdi2_rex64/0
	movq	%rdi, %rbp	# 2	[c=4 l=3]  *movdi_internal/3
	pushq	%rbx	# 25	[c=4 l=1]  *pushdi2_rex64/0
	subq	$8, %rsp	# 26	[c=4 l=4]  pro_epilogue_adjust_stack_add_di/0
	call	leaf	# 7	[c=10 l=5]  *call_value
	movq	%rbp, %rdi	# 9	[c=4 l=3]  *movdi_internal/3
	movq	%rax, %rbx	# 8	[c=4 l=3]  *movdi_internal/3
	call	far@PLT	# 10	[c=10 l=5]  *call_value
	addq	$8, %rsp	# 29	[c=4 l=4]  pro_epilogue_adjust_stack_add_di/0
	addq	%rbx, %rax	# 12	[c=4 l=3]  *adddi_1/0
	popq	%rbx	# 30	[c=9 l=1]  *popdi1
	popq	%rbp	# 31	[c=9 l=1]  *popdi1
	ret		# 32	[c=0 l=1]  simple_return_internal
	.size	outer, .-outer
	.p2align 4
	.globl	loops
	.type	loops, @function
loops:
	pushq	%r14	# 100	[c=4 l=2]  *pushdi2_rex64/0
	pushq	%r13	# 101	[c=4 l=2]  *pushdi2_rex64/0
	pushq	%r12	# 102	[c=4 l=2]  *pushdi2_rex64/0
	pushq	%rbp	# 103	[c=4 l=1]  *pushdi2_rex64/0
	pushq	%rbx	# 104	[c=4 l=1]  *pushdi2_rex64/0
	testq	%rdi, %rdi	# 15	[c=4 l=3]  *cmpdi_ccno_1/0
	jle	.L12	# 16	[c=13 l=6]  *jcc
	movq	%rdi, %r14	# 114	[c=4 l=3]  *movdi_internal/3
	movq	%rsi, %r13	# 113	[c=4 l=3]  *movdi_internal/3
	xorl	%r12d, %r12d	# 122	[c=4 l=3]  *movdi_xor
	xorl	%ebx, %ebx	# 123	[c=4 l=2]  *movdi_xor
	.p2align 4,,10
	.p2align 3
.L8:
	movq	%r12, %rdi	# 18	[c=4 l=3]  *movdi_internal/3
	movq	%r12, %rbp	# 22	[c=4 l=3]  *movdi_internal/3
	leaq	1(%r12), %r12	# 99	[c=4 l=5]  *leadi
	call	leaf	# 19	[c=10 l=5]  *call_value
	addq	%rax, %rbx	# 21	[c=4 l=3]  *adddi_1/0
	cmpq	%r12, %r14	# 25	[c=4 l=3]  *cmpdi_1/0
	jne	.L8	# 26	[c=13 l=2]  *jcc
	xorl	%r12d, %r12d	# 121	[c=4 l=3]  *movdi_xor
	.p2align 4,,10
	.p2align 3
.L9:
	movq	%r12, %rdi	# 28	[c=4 l=3]  *movdi_internal/3
	call	far@PLT	# 29	[c=10 l=5]  *call_value
	addq	%rax, %rbx	# 31	[c=4 l=3]  *adddi_1/0
	movq	%r12, %rax	# 32	[c=4 l=3]  *movdi_internal/3
	addq	$1, %r12	# 33	[c=4 l=4]  *adddi_1/0
	cmpq	%rax, %rbp	# 35	[c=4 l=3]  *cmpdi_1/0
	jne	.L9	# 36	[c=13 l=2]  *jcc
	xorl	%r12d, %r12d	# 120	[c=4 l=3]  *movdi_xor
	.p2align 4,,10
	.p2align 3
.L10:
	movq	%r12, %rdi	# 38	[c=4 l=3]  *movdi_internal/3
	call	*%r13	# 39	[c=9 l=3]  *call_value
	addq	%rax, %rbx	# 41	[c=4 l=3]  *adddi_1/0
	movq	%r12, %rax	# 42	[c=4 l=3]  *movdi_internal/3
	addq	$1, %r12	# 43	[c=4 l=4]  *adddi_1/0
	cmpq	%rax, %rbp	# 45	[c=4 l=3]  *cmpdi_1/0
	jne	.L10	# 46	[c=13 l=2]  *jcc
	xorl	%r12d, %r12d	# 119	[c=4 l=3]  *movdi_xor
	.p2align 4,,10
	.p2align 3
.L11:
	movq	%r12, %rdi	# 48	[c=4 l=3]  *movdi_internal/3
	call	outer	# 49	[c=10 l=5]  *call_value
	addq	%rax, %rbx	# 51	[c=4 l=3]  *adddi_1/0
	movq	%r12, %rax	# 52	[c=4 l=3]  *movdi_internal/3
	addq	$1, %r12	# 53	[c=4 l=4]  *adddi_1/0
	cmpq	%rax, %rbp	# 55	[c=4 l=3]  *cmpdi_1/0
	jne	.L11	# 56	[c=13 l=2]  *jcc
.L7:
	movq	%rbx, %rdi	# 59	[c=4 l=3]  *movdi_internal/3
	call	leaf	# 60	[c=10 l=5]  *call_value
	addq	%rbx, %rax	# 62	[c=4 l=3]  *adddi_1/0
	popq	%rbx	# 107	[c=9 l=1]  *popdi1
	popq	%rbp	# 108	[c=9 l=1]  *popdi1
	popq	%r12	# 109	[c=9 l=2]  *popdi1
	popq	%r13	# 110	[c=9 l=2]  *popdi1
	popq	%r14	# 111	[c=9 l=2]  *popdi1
	ret		# 112	[c=0 l=1]  simple_return_internal
	.p2align 4,,10
	.p2align 3
.L12:
	xorl	%ebx, %ebx	# 118	[c=4 l=2]  *movdi_xor
	jmp	.L7	# 124	[c=1 l=2]  jump
	.size	loops, .-loops
	.p2align 4
	.globl	registers
	.type	registers, @function
registers:
	pushq	%r12	# 44	[c=4 l=2]  *pushdi2_rex64/0
	pushq	%rbp	# 45	[c=4 l=1]  *pushdi2_rex64/0
	pushq	%rbx	# 46	[c=4 l=1]  *pushdi2_rex64/0
	testq	%rdi, %rdi	# 11	[c=4 l=3]  *cmpdi_ccno_1/0
	jle	.L21	# 12	[c=13 l=2]  *jcc
	movq	%rdi, %r12	# 53	[c=4 l=3]  *movdi_internal/3
	xorl	%ebx, %ebx	# 58	[c=4 l=2]  *movdi_xor
	xorl	%ebp, %ebp	# 59	[c=4 l=2]  *movdi_xor
	.p2align 4,,10
	.p2align 3
.L20:
	movq	%rbx, %rdi	# 14	[c=4 l=3]  *movdi_internal/3
	addq	$1, %rbx	# 18	[c=4 l=4]  *adddi_1/0
	call	keeps	# 15	[c=10 l=5]  *call_value
	addq	%rax, %rbp	# 17	[c=4 l=3]  *adddi_1/0
	cmpq	%rbx, %r12	# 20	[c=4 l=3]  *cmpdi_1/0
	jne	.L20	# 21	[c=13 l=2]  *jcc
	movq	%rbp, %rax	# 27	[c=4 l=3]  *movdi_internal/3
	popq	%rbx	# 49	[c=9 l=1]  *popdi1
	popq	%rbp	# 50	[c=9 l=1]  *popdi1
	popq	%r12	# 51	[c=9 l=2]  *popdi1
	ret		# 52	[c=0 l=1]  simple_return_internal
	.p2align 4,,10
	.p2align 3
.L21:
	xorl	%ebp, %ebp	# 57	[c=4 l=2]  *movdi_xor
	popq	%rbx	# 64	[c=9 l=1]  *popdi1
	movq	%rbp, %rax	# 61	[c=4 l=3]  *movdi_internal/3
	popq	%rbp	# 65	[c=9 l=1]  *popdi1
	popq	%r12	# 66	[c=9 l=2]  *popdi1
	ret		# 67	[c=0 l=1]  simple_return_internal
	.size	registers, .-registers
	.ident	"GCC: (Debian 12.2.0-14+deb12u1) 12.2.0"
	.section	.note.GNU-stack,"",@progbits
