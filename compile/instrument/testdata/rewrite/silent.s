	.text
	.file	"silent.c"

	.type	byhand,@function
byhand:
	sete	%al
	call	f
	retq
.Ltmp0:
	.size	byhand, .Ltmp0-byhand

	.globl	f
	.type	f,@function
f:
	.cfi_startproc
	callq	byhand
	popq	%rcx
	jmpq	*%rax
.Lfunc_end0:
	.size	f, .Lfunc_end0-f
	.cfi_endproc
	.type	cases,@function
cases:
	jmpq	*.LJTI1_0(,%rax,8)
.LBB1_1:
	jmpq	*%rax
.Lfunc_end1:
	.size	cases, .Lfunc_end1-cases
	.type	labels,@function
labels:
	jmpq	*%rax
.Ltmp1:
	retq
.Lfunc_end2:
	.size	labels, .Lfunc_end2-labels
	.type	far,@function
far:
	movq	16(%rdi), %rsp
	jmpq	*%rax
.Lfunc_end3:
	.size	far, .Lfunc_end3-far
	.type	lands,@function
lands:
.Ltmp2:
	callq	g
.Ltmp3:
	jmpq	*%rax
.Lfunc_end4:
	.size	lands, .Lfunc_end4-lands
	.section	.data.rel.ro,"aw",@progbits
	.quad	.Ltmp1
	.section	.gcc_except_table,"a",@progbits
	.uleb128 .Ltmp2-lands
	.section	.debug_info,"",@progbits
	.quad	.Ltmp3
