	.file	"parts.c"
	.section	.text.unlikely,"ax",@progbits
.LCOLDB0:
	.text
.LHOTB0:
	.globl	f
	.type	f, @function
f:
.LFB0:
	.cfi_startproc
	jne	.L2
	call	*8(%rdi)
	ret
	.cfi_endproc
	.section	.text.unlikely
	.cfi_startproc
	.type	f.cold, @function
f.cold:
.LFSB0:
.L2:
	call	abort
	.cfi_endproc
.LFE0:
	.text
	.size	f, .-f
	.section	.text.unlikely
	.size	f.cold, .-f.cold
	.globl	alias
	.set	alias,f
	.set	.LTHUNK0,f
	.section	.text._Z1gv,"axG",@progbits,_Z1gv,comdat
	.weak	_Z1gv
	.type	_Z1gv, @function
	.type	_Z1hv, @function
_Z1gv:
_Z1hv:
	jmp	.LTHUNK0
	.size	_Z1gv, .-_Z1gv
	.type	chosen, @gnu_indirect_function
	.set	chosen,f
	.text
	.type	g, @function
g:
	call	chosen
	call	alias
	.size	g, .-g
