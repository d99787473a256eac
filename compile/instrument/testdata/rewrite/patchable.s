	.file	"patchable.c"
	.text
	.globl	f
	.section	__patchable_function_entries,"awo",@progbits,f
	.align 8
	.quad	.LPFE1
	.text
.LPFE1:
	nop
	nop
	.type	f, @function
f:
	nop
	nop
	ret
	.size	f, .-f
	.type	g, @function
g:
	.section	__patchable_function_entries,"awo",@progbits,g
	.quad	.LPFE2
	.text
.LPFE2:
	nop
1:	call	*__fentry__@GOTPCREL(%rip)
	ret
	.size	g, .-g
	.type	data, @function
data:
	.long	7
	ret
	.size	data, .-data
	.type	checked, @function
checked:
	.long	846595819
	.long	.Lproxy-checked
	nop
	ret
	.size	checked, .-checked
	.section	.rodata
.Lproxy:
	.quad	0
