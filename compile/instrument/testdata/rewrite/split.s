	.file	"split.c"
	.text
	.globl	free
	.type	free, @function
free:
	.cfi_startproc
	endbr64
	nop
	movl	%edi, %eax
	call	puts@PLT
	call	*%rax
	call	*8(%rbx)
	cmpl	$3, %edi
	jne	later
	jmp	puts@PLT
	.cfi_endproc
	.size	free, .-free
	.type	later, @function
later:
	jmp	*%rcx # TAILCALL
	.size	later, .-later
	# keeps a value across calls of what it knows
	.type	keeps, @function
keeps:
	movl	%edi, %r11d
	call	called
	call	*known@GOTPCREL(%rip)
	leaq	in_register(%rip), %rax
	call	*%rax
	movabsq	$in_large, %rdx
	call	*%rdx
	call	weakly
	jmp	keeps.cold
	.size	keeps, .-keeps
	.section	.text.unlikely,"ax",@progbits
	.type	keeps.cold, @function
keeps.cold:
	call	by_cold
	jmp	puts
	.size	keeps.cold, .-keeps.cold
	.text
	.type	called, @function
called:
	testl	%eax, %eax
	je	by_tail
	ret
	.size	called, .-called
	.type	by_tail, @function
by_tail:
	ret
	.size	by_tail, .-by_tail
	.set	known.other, known
	.type	known, @function
	.type	.Lknown$local, @function
known:
.Lknown$local:
	ret
	.size	known, .-known
	.type	in_register, @function
in_register:
	jmp	.Lknown_too$local
	.size	in_register, .-in_register
	.type	known_too, @function
	.type	.Lknown_too$local, @function
known_too:
.Lknown_too$local:
	ret
	.size	known_too, .-known_too
	.type	in_large, @function
in_large:
	jmp	aliased
	.size	in_large, .-in_large
	.set	aliased, by_alias
	.type	by_alias, @function
by_alias:
	ret
	.size	by_alias, .-by_alias
	.weakref	weakly,by_weakref
	.type	by_weakref, @function
by_weakref:
	ret
	.size	by_weakref, .-by_weakref
	.type	by_cold, @function
by_cold:
	ret
	.size	by_cold, .-by_cold
	.type	parted, @function
parted:
	call	puts
	ret
	.size	parted, .-parted
	.section	.text.unlikely
	.type	parted.cold, @function
parted.cold:
	addq	%r11, %rax
	.size	parted.cold, .-parted.cold
	.text
	.type	thunk, @function
thunk:
	call	__x86_indirect_thunk_r11
	ret
	.size	thunk, .-thunk
	.type	handler, @function
handler:
	call	handled
	iretq
	.size	handler, .-handler
	.type	handled, @function
handled:
	ret
	.size	handled, .-handled
	.type	assembly, @function
assembly:
	call	puts
#APP
	call	by_assembly
#NO_APP
	ret
	.size	assembly, .-assembly
	.type	by_assembly, @function
by_assembly:
	ret
	.size	by_assembly, .-by_assembly
	.type	harmless, @function
harmless:
#APP
	rdtsc
#NO_APP
	call	free
	ret
	.size	harmless, .-harmless
	.ident	"GCC: (Debian 12.2.0-14) 12.2.0"
