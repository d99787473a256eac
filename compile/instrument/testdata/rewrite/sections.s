	.file	"sections.c"
	.text
	.type	f, @function
f:
	pushq	%rbx
	.section	.rodata
.L4:	.long	.L3-.L4
	.text
	call	a
	.pushsection	.data
	.long	1
	.popsection
	call	b
	call	d
	.size	f, .-f
	.section	.text.g,"ax",@progbits
	.type	g, @function
g:	ret
	.size	g, .-g
	.data
	.type	h, @function
h:	.quad	0
