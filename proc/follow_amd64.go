package proc

import "encoding/binary"

// entryCode is what a program that is followed runs before its own code: a SIGURG to
// itself, which stops it for its tracer. Without one the signal does nothing. The
// stack and the mask of signals are as before afterwards, and so is %rdx, which
// the program may expect something in.
func entryCode(entry uint64) []byte {
	code := []byte("" +
		"\x52" + //                             push %rdx
		"\x48\x83\xec\x10" + //                 sub $16,%rsp
		"\x48\xc7\x04\x24\x00\x00\x40\x00" + // movq $1<<22,(%rsp)     SIGURG
		"\xb8\x0e\x00\x00\x00" + //             mov $14,%eax           rt_sigprocmask
		"\xbf\x01\x00\x00\x00" + //             mov $1,%edi            SIG_UNBLOCK
		"\x48\x89\xe6" + //                     mov %rsp,%rsi
		"\x48\x8d\x54\x24\x08" + //             lea 8(%rsp),%rdx
		"\x41\xba\x08\x00\x00\x00" + //         mov $8,%r10d
		"\x0f\x05" + //                         syscall
		"\xb8\x27\x00\x00\x00" + //             mov $39,%eax           getpid
		"\x0f\x05" + //                         syscall
		"\x89\xc7" + //                         mov %eax,%edi
		"\xb8\xba\x00\x00\x00" + //             mov $186,%eax          gettid
		"\x0f\x05" + //                         syscall
		"\x89\xc6" + //                         mov %eax,%esi
		"\xb8\xea\x00\x00\x00" + //             mov $234,%eax          tgkill
		"\xba\x17\x00\x00\x00" + //             mov $23,%edx
		"\x0f\x05" + //                         syscall
		"\xb8\x0e\x00\x00\x00" + //             mov $14,%eax           rt_sigprocmask
		"\xbf\x02\x00\x00\x00" + //             mov $2,%edi            SIG_SETMASK
		"\x48\x8d\x74\x24\x08" + //             lea 8(%rsp),%rsi
		"\x31\xd2" + //                         xor %edx,%edx
		"\x41\xba\x08\x00\x00\x00" + //         mov $8,%r10d
		"\x0f\x05" + //                         syscall
		"\x48\x83\xc4\x10" + //                 add $16,%rsp
		"\x5a" + //                             pop %rdx
		"\xff\x25\x00\x00\x00\x00") //          jmp *0(%rip)
	return binary.LittleEndian.AppendUint64(code, entry)
}
