	.file	"i386.c"
	.text
	.type	f, @function
f:
	pushl	%ebx
	call	g@PLT
	call	*g@GOT(%ebx)
	call	*%esi
	call	*8(%esp)
	ret
	.size	f, .-f
