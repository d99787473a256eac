	.file	"leaf.c"
	.text
	.globl	f
	.type	f, @function
f:
.LVL0:
.LFB0:
	.file 1 "leaf.c"
	.loc 1 2 14 view -0
	.cfi_startproc
	.loc 1 2 16 view .LVU1
	endbr64
	# the loop begins where the function does
	.p2align 4
.L3:
	decl	%edi
	jne	.L3
	ret
	.cfi_endproc
.LFE0:
	.size	f, .-f
