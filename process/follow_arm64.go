//go:build linux

package process

import "encoding/binary"

// entryCode is what a program that is followed runs before its own code: a SIGURG to
// itself, which stops it for its tracer. Without one the signal does nothing. All is
// as before afterwards but x16, which is nobody's there; it goes on at next.
func entryCode(displaced []byte, next uint64) []byte {
	var code []byte
	for _, i := range []uint32{
		0xa9bb07e0, // stp x0, x1, [sp, #-80]!
		0xa9010fe2, // stp x2, x3, [sp, #16]
		0xa90227e8, // stp x8, x9, [sp, #32]
		0xd2a00809, // mov x9, #1<<22             SIGURG
		0xf90023e9, // str x9, [sp, #64]
		0xd28010e8, // mov x8, #135               rt_sigprocmask
		0xd2800020, // mov x0, #1                 SIG_UNBLOCK
		0x910103e1, // add x1, sp, #64
		0x910123e2, // add x2, sp, #72
		0xd2800103, // mov x3, #8
		0xd4000001, // svc #0
		0xd2801588, // mov x8, #172               getpid
		0xd4000001, // svc #0
		0xaa0003e9, // mov x9, x0
		0xd2801648, // mov x8, #178               gettid
		0xd4000001, // svc #0
		0xaa0003e1, // mov x1, x0
		0xaa0903e0, // mov x0, x9
		0xd28002e2, // mov x2, #23
		0xd2801068, // mov x8, #131               tgkill
		0xd4000001, // svc #0
		0xd28010e8, // mov x8, #135               rt_sigprocmask
		0xd2800040, // mov x0, #2                 SIG_SETMASK
		0x910123e1, // add x1, sp, #72
		0xd2800002, // mov x2, #0
		0xd2800103, // mov x3, #8
		0xd4000001, // svc #0
		0xa94227e8, // ldp x8, x9, [sp, #32]
		0xa9410fe2, // ldp x2, x3, [sp, #16]
		0xa8c507e0, // ldp x0, x1, [sp], #80
	} {
		code = binary.LittleEndian.AppendUint32(code, i)
	}
	code = append(code, displaced...)
	code = binary.LittleEndian.AppendUint32(code, 0x58000050) // ldr x16, .+8
	if displaced == nil {
		code = binary.LittleEndian.AppendUint32(code, 0xd61f0200) // br x16
	} else {
		// The middle of a function is not where branches may lead (bti).
		code = binary.LittleEndian.AppendUint32(code, 0xd65f0200) // ret x16
	}
	return binary.LittleEndian.AppendUint64(code, next)
}

// nearEntry returns where entryCode is to be of a program that lies from begin on: it is
// reached from there, and the heap is on the other side.
func nearEntry(begin, _ uint64) uint64 {
	const below = 1 << 16
	return max(begin&^0xfff, 2*below) - below
}

// entryJump is a branch to entryCode that takes the place of the first instruction of
// libc's function _init, which lies at that address. That is returned. jump is nil if it
// is none that is known, or code is too far.
func entryJump(init []byte, at, code uint64) (jump, displaced []byte) {
	if len(init) < 4 {
		return nil, nil
	}
	switch binary.LittleEndian.Uint32(init) {
	case 0xd503201f: // nop
	case 0xd503245f: // bti c
	case 0xd503233f: // paciasp
	case 0xa9bf7bfd: // stp x29, x30, [sp, #-16]!
	default:
		return nil, nil
	}
	distance := int64(code - at)
	if distance%4 != 0 || distance < -1<<27 || distance >= 1<<27 {
		return nil, nil
	}
	jump = binary.LittleEndian.AppendUint32(nil, 0x14000000|uint32(distance/4)&(1<<26-1)) // b
	return jump, init[:4:4]
}
