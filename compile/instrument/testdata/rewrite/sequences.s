	.file	"sequences.c"
	.text
	.type	f, @function
f:
	data16	leaq	x@tlsgd(%rip), %rdi
	.value	0x6666
	rex64
	call	__tls_get_addr@PLT
	leaq	y@TLSDESC(%rip), %rax
	call	*y@TLSCALL(%rax)
	leaq	z@tlsld(%rip), %rdi
	movabsq	$__tls_get_addr@PLTOFF, %rax
	addq	%rbx, %rax
	call	*%rax
	call	*%rax
	call	*g@GOTPCREL(%rip)
	jmp	*g@GOTPCREL(%rip)
	call	__x86.get_pc_thunk.bx
	call	.L5
	notrack jmp	*%rax
	jmp	f.cold
	bnd call	g
	.size	f, .-f
