package proc

// systemCall has a stopped thread make a system call, as [Held.SystemCall] does.
func (t *tracee) systemCall(memory []byte, number uintptr, args func(at uint64) []uint64) (uint64, error) {
	p := t.process.open
	held := &Held{p, &stopper{p: p, threads: map[int]*stopped{t.tid: {stopped: true}}, options: traceOptions}}
	return held.systemCall(t.tid, memory, number, args)
}
