//go:build linux

package uprobe

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
)

// With Options.Children a process and what it makes by fork are recorded. The kernel can
// limit probes to one process, not to that and its children: so they are in all that run
// the file, and the programs look at a byte for each process. Programs at the kernel's
// own events of new tasks set it before a child runs, and clear it when a process becomes
// another program.

// maxProcesses is more than any process id (the kernel's PID_MAX_LIMIT); the bytes of so
// many are together in an element of the map.
const (
	maxProcesses   = 1 << 22
	processesShift = 6
)

// What is known of a process.
const (
	recorded    = 1 // its calls are
	hasRecorded = 2 // it has made one
)

// maxOwned is for how many threads of children it is known whose they are: of more the
// ones that were looked for last.
const maxOwned = 1 << 16

// cloneThread is CLONE_THREAD.
const cloneThread = 0x10000

// followChildren makes what is known of processes, and has it kept.
func (s *ProbeSet) followChildren() (err error) {
	if !countsAll() {
		return errors.New("footfall runs in a namespace of process ids")
	}
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return fmt.Errorf("the kernel does not describe itself (CONFIG_DEBUG_INFO_BTF): %w", err)
	}
	pid, err := offsetOf(spec, "task_struct", "pid")
	if err != nil {
		return err
	}
	s.processes, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 1 << processesShift, MaxEntries: maxProcesses >> processesShift})
	if err != nil {
		return err
	}
	if s.owners, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.LRUHash, KeySize: 4, ValueSize: 4, MaxEntries: maxOwned}); err != nil {
		return err
	}
	if s.called, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.LRUHash, KeySize: 4, ValueSize: 4, MaxEntries: maxOwned}); err != nil {
		return err
	}
	var first [1 << processesShift]byte
	first[s.options.PID%len(first)] = recorded | hasRecorded // it is no child
	if err := s.processes.Put(uint32(s.options.PID>>processesShift), first[:]); err != nil {
		return err
	}
	for _, event := range []struct {
		name string
		code asm.Instructions
	}{{"task_newtask", s.noteNew(pid)}, {"sched_process_exec", s.noteExec()}} {
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Name: "footfall", Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: event.name, License: readingLicense,
			Instructions: append(event.code, asm.Mov.Imm(asm.R0, 0).WithSymbol("end"), asm.Return()),
		})
		if err != nil {
			return err
		}
		l, err := link.AttachTracing(link.TracingOptions{Program: p})
		_ = p.Close() // the link has it
		if err != nil {
			return err
		}
		s.events = append(s.events, l)
	}
	return nil
}

// offsetOf returns where a structure of the kernel has a member.
func offsetOf(spec *btf.Spec, structure, member string) (int16, error) {
	var s *btf.Struct
	if err := spec.TypeByName(structure, &s); err != nil {
		return 0, err
	}
	offset, ok := memberOffset(s.Members, member)
	if !ok || offset%8 != 0 || offset/8 > 1<<15-1 {
		return 0, fmt.Errorf("the kernel's struct %s has no %s where it is expected", structure, member)
	}
	return int16(offset / 8), nil
}

// memberOffset returns it in bits; of structures without a name within, too.
func memberOffset(members []btf.Member, name string) (btf.Bits, bool) {
	for _, m := range members {
		if m.Name == name {
			return m.Offset, true
		}
		if m.Name != "" {
			continue
		}
		var inner []btf.Member
		switch t := btf.UnderlyingType(m.Type).(type) {
		case *btf.Struct:
			inner = t.Members
		case *btf.Union:
			inner = t.Members
		}
		if offset, ok := memberOffset(inner, name); ok {
			return m.Offset + offset, true
		}
	}
	return 0, false
}

// lookUpProcess sets R0 to the byte of the process whose id is in a register, or goes to
// a label. It uses R1 to R5, and the key.
func (s *ProbeSet) lookUpProcess(id asm.Register, missing string) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, id), asm.RSh.Imm(asm.R1, processesShift),
		asm.StoreMem(asm.RFP, keyAt, asm.R1, asm.Word),
		asm.LoadMapPtr(asm.R1, s.processes.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, keyAt),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, missing),
		asm.Mov.Reg(asm.R1, id), asm.And.Imm(asm.R1, 1<<processesShift-1),
		asm.Add.Reg(asm.R0, asm.R1),
	}
}

// ofProcess goes to "end" unless the calls of the process are recorded, and counts it if
// this is the first one of a child. R1 is as before; R6 and R7 are changed.
func (s *ProbeSet) ofProcess() asm.Instructions {
	if s.processes == nil {
		return nil
	}
	code := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.FnGetCurrentPidTgid.Call(),
		asm.Mov.Reg(asm.R7, asm.R0), asm.RSh.Imm(asm.R7, 32),
	}
	code = append(code, s.lookUpProcess(asm.R7, "end")...)
	code = append(code,
		asm.LoadMem(asm.R1, asm.R0, 0, asm.Byte),
		asm.JEq.Imm(asm.R1, 0, "end"),
		asm.JNE.Imm(asm.R1, recorded, "recorded"),
		asm.StoreImm(asm.R0, 0, recorded|hasRecorded, asm.Byte),
		asm.StoreMem(asm.RFP, keyAt, asm.R7, asm.Word),
		asm.LoadMapPtr(asm.R1, s.called.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, keyAt),
		asm.Mov.Reg(asm.R3, asm.R2),
		asm.Mov.Imm(asm.R4, int32(ebpf.UpdateNoExist)),
		asm.FnMapUpdateElem.Call(),
		asm.JNE.Imm(asm.R0, 0, "recorded")) // another thread was faster
	return append(append(code, s.countLost(childrenCount)...), asm.Mov.Reg(asm.R1, asm.R6).WithSymbol("recorded"))
}

// noteNew is what happens when a task begins, before it runs.
//
//	R6 whether its parent is recorded     R7 the task, then its id
//	R8 flags of clone                     R9 the parent's process
func (s *ProbeSet) noteNew(pid int16) asm.Instructions {
	code := asm.Instructions{
		asm.LoadMem(asm.R7, asm.R1, 0, asm.DWord),
		asm.LoadMem(asm.R8, asm.R1, 8, asm.DWord),
		asm.LoadMem(asm.R7, asm.R7, pid, asm.Word),
		asm.FnGetCurrentPidTgid.Call(),
		asm.Mov.Reg(asm.R9, asm.R0), asm.RSh.Imm(asm.R9, 32),
	}
	code = append(code, s.lookUpProcess(asm.R9, "end")...)
	code = append(code,
		asm.LoadMem(asm.R6, asm.R0, 0, asm.Byte), asm.And.Imm(asm.R6, recorded),
		asm.And.Imm(asm.R8, cloneThread),
		asm.JNE.Imm(asm.R8, 0, "thread"),
		asm.Mov.Reg(asm.R9, asm.R7))
	code = append(code, s.lookUpProcess(asm.R7, "end")...)
	code = append(code,
		asm.StoreMem(asm.R0, 0, asm.R6, asm.Byte), // the id may have been another's before
		asm.JEq.Imm(asm.R6, 0, "end"))
	code = append(code, s.countLost(forkedCount)...)
	return append(code,
		asm.Mov.Imm(asm.R1, 0).WithSymbol("thread"),
		asm.JEq.Imm(asm.R6, 0, "end"),
		asm.StoreMem(asm.RFP, keyAt, asm.R7, asm.Word),
		asm.StoreMem(asm.RFP, wordAt, asm.R9, asm.DWord),
		asm.LoadMapPtr(asm.R1, s.owners.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, keyAt),
		asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, wordAt),
		asm.Mov.Imm(asm.R4, int32(ebpf.UpdateAny)),
		asm.FnMapUpdateElem.Call(),
		asm.JNE.Imm(asm.R8, 0, "end"),
		asm.LoadMapPtr(asm.R1, s.called.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, keyAt),
		asm.FnMapDeleteElem.Call())
}

// noteExec is what happens when a process has become another program.
func (s *ProbeSet) noteExec() asm.Instructions {
	code := asm.Instructions{
		asm.FnGetCurrentPidTgid.Call(),
		asm.Mov.Reg(asm.R7, asm.R0), asm.RSh.Imm(asm.R7, 32),
	}
	code = append(code, s.lookUpProcess(asm.R7, "end")...)
	return append(code,
		asm.LoadMem(asm.R1, asm.R0, 0, asm.Byte),
		asm.JEq.Imm(asm.R1, 0, "end"),
		asm.StoreImm(asm.R0, 0, 0, asm.Byte),
		asm.LoadMapValue(asm.R1, s.lost.FD(), forkedCount),
		asm.Mov.Imm(asm.R2, -1),
		asm.StoreXAdd(asm.R1, asm.R2, asm.DWord))
}

// ProcessOf returns the process of a thread that has been recorded.
func (s *ProbeSet) ProcessOf(tid int) int {
	var owner uint32
	if s.owners == nil || s.owners.Lookup(uint32(tid), &owner) != nil {
		return s.options.PID
	}
	return int(owner)
}

// Followed returns the number of children made by fork that have been recorded.
func (s *ProbeSet) Followed() int {
	missing, _ := s.missing()
	return int(missing[childrenCount/8])
}

// Forked returns the number of children made by fork that have not become other programs.
func (s *ProbeSet) Forked() int {
	missing, _ := s.missing()
	return max(int(missing[forkedCount/8]), 0)
}

// everywhere tells whether a probe is in all processes that run its file.
func (s *ProbeSet) everywhere(p Probe) bool { return s.processes != nil && !p.OnlyProcess }
