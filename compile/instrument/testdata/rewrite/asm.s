	.file	"asm.c"
	.text
#APP
	.type	byhand, @function
byhand:	call	f
#NO_APP
	.type	naked, @function
naked:
	.cfi_startproc
#APP
# 1 "asm.c" 1
	call	f
# 0 "" 2
#NO_APP
	nop
	ud2
	.cfi_endproc
	.size	naked, .-naked
	.type	f, @function
f:
#APP
	call	g
#NO_APP
	call	g; call	h
	ret
	.size	f, .-f
