	.file	"comments.c"
	.text
	.type	f, @function
f:
.LFB0:
	pushq	%rbx	# 20	[c=4 l=1]  *pushdi2_rex64/0
	movq	"a#b"(%rip), %rax	# a
	movq	"a;b"(%rip), %rax# a; b
	cmpl	$35, %edi	# 7	[c=4 l=3]  *cmpsi_1/0
.L3:	# a loop
	je	.L2	# 8	[c=13 l=2]  *jcc
	call	g	# 10	[c=4 l=5]  *call_value
	nop; movb	$';', %al	# two
	jmp	.L3	# 12	[c=12 l=2]  jump
.L2:
	popq	%rbx	# 22
	jmp	*%rax	# 23	[c=4 l=2]  *sibcall_value
.LFE0:
	.size	f, .-f
	.section	.rodata
	.string	"# no comment; a string"	# but this is one
	movl	%eax, %eax	# nobody runs this
	.data
"a#b":	.quad	0
"a;b":	.quad	0
	.ident	"GCC: (GNU) 12.2.0"
