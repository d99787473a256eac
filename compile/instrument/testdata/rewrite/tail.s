	.text
	.file	"tail.c"
	.type	f,@function
f:                                      # @f
# %bb.0:
	testl	%edi, %edi
	jge	bmain@PLT                       # TAILCALL
	jne	.LBB0_1
	jmpq	*%rax
.LBB0_1:
	jmpq	*%rcx                           # TAILCALL
.Lfunc_end0:
	.size	f, .Lfunc_end0-f
	.type	"g h",@function
"g h":
	jmp	f                               # TAILCALL
.Lfunc_end1:
	.size	"g h", .Lfunc_end1-"g h"
