//go:build linux

package process

import (
	"bytes"
	"encoding/binary"
	"math"
)

// entryCode is what a program that is followed runs before its own code: a SIGURG to
// itself, which stops it for its tracer. Without one the signal does nothing. All is
// as before afterwards, and what the jump to it has displaced is done; it goes on at
// next.
func entryCode(displaced []byte, next uint64) []byte {
	code := []byte("" +
		"\x50\x51\x52\x56\x57\x41\x52\x41\x53" + // push %rax, %rcx, %rdx, %rsi, %rdi, %r10, %r11
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
		"\x41\x5b\x41\x5a\x5f\x5e\x5a\x59\x58") // pop %r11, %r10, %rdi, %rsi, %rdx, %rcx, %rax
	code = append(code, displaced...)
	code = append(code, "\xff\x25\x00\x00\x00\x00"...) // jmp *0(%rip)
	return binary.LittleEndian.AppendUint64(code, next)
}

// nearEntry returns where entryCode is to be: within reach of the entry, and far from the
// heap.
func nearEntry(_, entry uint64) uint64 { return entry&^0xfff + 1<<30 }

// entryJump is a jump to entryCode that takes the place of the first instructions of
// libc's function _init, which lies at that address. Those are returned as they work
// elsewhere. jump is nil if they are none that are known, or code is too far.
//
//	[endbr64]                   f3 0f 1e fa
//	sub $8,%rsp                 48 83 ec 08
//	mov $0,%rax                 48 c7 c0 00 00 00 00    if there is no endbr64; or
//	mov OFFSET(%rip),%rax       48 8b 05 OFFSET
func entryJump(init []byte, at, code uint64) (jump, displaced []byte) {
	const (
		landing = "\xf3\x0f\x1e\xfa"
		sub     = "\x48\x83\xec\x08"
		load    = "\x48\x8b\x05"
		move    = "\x48\xc7\xc0"
	)
	rest, landed := bytes.CutPrefix(init, []byte(landing))
	rest, ok := bytes.CutPrefix(rest, []byte(sub))
	if !ok || len(rest) < 7 {
		return nil, nil
	}
	n := len(init) - len(rest)
	displaced = []byte(sub)
	switch {
	case landed:
	case bytes.HasPrefix(rest, []byte(move)):
		displaced = append(displaced, rest[:7]...)
		n += 7
	case bytes.HasPrefix(rest, []byte(load)):
		n += 7
		from := at + uint64(n) + uint64(int64(int32(binary.LittleEndian.Uint32(rest[3:]))))
		displaced = append(displaced, "\x48\xa1"...) // movabs from,%rax
		displaced = binary.LittleEndian.AppendUint64(displaced, from)
	default:
		return nil, nil
	}
	distance := int64(code - (at + 5))
	if distance < math.MinInt32 || distance > math.MaxInt32 {
		return nil, nil
	}
	jump = binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(int32(distance)))
	return append(jump, init[len(jump):n]...), displaced
}
