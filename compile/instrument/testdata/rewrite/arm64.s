	.arch armv8-a
	.file	"arm64.c"
	.text
	.type	f, %function
f:
.LFB0:
	.cfi_startproc
	hint	25 // paciasp
	.cfi_negate_ra_state
	stp	x29, x30, [sp, -16]!
	bl	g
	blr	x1
	br	x2
	blr	x16
	b	g
	.cfi_endproc
	.size	f, .-f
