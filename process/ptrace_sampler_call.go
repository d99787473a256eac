//go:build linux && (amd64 || arm64)

package process

// systemCall has a stopped thread make a system call, as [Held.SystemCall] does.
func (t *tracee) systemCall(memory []byte, number uintptr, args func(at uint64) []uint64) (uint64, error) {
	p := t.process.open
	held := &Held{p: p, s: &stopper{p: p, threads: map[int]*stopped{t.tid: {stopped: true}}, options: traceOptions}}
	return held.systemCallWith(memory, number, args)
}
