//go:build linux

package uprobe

import (
	"fmt"

	"github.com/cilium/ebpf/asm"

	"footfall/trace"
)

// The filter, as programs read it.
const (
	depthSetting   = 0
	minTimeSetting = 8
	periodSetting  = 16
	rootsSetting   = 24
	settingsSize   = 32
)

// SetFilter changes the filter of mode Filtered. It means what that of package patch means,
// which code in the program carries out.
func (s *ProbeSet) SetFilter(f trace.Filter) error {
	settings := [settingsSize / 8]uint64{maxFrames, f.MinTime, f.Period, 0}
	if f.Depth > 0 {
		settings[depthSetting/8] = uint64(min(f.Depth, maxFrames))
	}
	if f.Roots {
		settings[rootsSetting/8] = 1
	}
	return s.settings.Put(uint32(0), settings)
}

// A thread's state has its open calls, the outermost first, as events of their entries.
// The stack grows down: what is open at or below the place of a new call has been left,
// by longjmp for instance, but for the caller at the same place of a tail call. The kernel
// tells the exits of both, that of the inner one first.
//
// The kernel sees the exits of 64 calls within each other; others are open until one at
// or above their place begins or ends. Calls whose exits decide have the first frames,
// which may keep their arguments until then:
//
//	record of the event and its arguments [664], its size u32, u32
const (
	maxFrames  = 1000
	keptFrames = 64
	keptAt     = framesAt + maxFrames*eventSize
	keptSize   = maxRecord + 8
	sizeAt     = maxRecord

	frameTime  = framesAt
	frameID    = framesAt + 12
	frameStack = framesAt + 16
)

// frame sets a register to the state and how far in it frame R9 is, less framesAt.
func frame(to asm.Register) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(to, asm.R9), asm.Mul.Imm(to, eventSize), asm.Add.Reg(to, asm.R7),
	}
}

// setting reads one of the filter to R1.
func (s *ProbeSet) setting(at uint32) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapValue(asm.R1, s.settings.FD(), at),
		asm.LoadMem(asm.R1, asm.R1, 0, asm.DWord),
	}
}

// leave sets the number of open calls to R9, which is not more than it was.
func leave(label string) asm.Instructions {
	return asm.Instructions{
		asm.StoreMem(asm.R7, openAt, asm.R9, asm.Word),
		asm.LoadMem(asm.R1, asm.R7, writtenAt, asm.Word),
		asm.JLE.Reg(asm.R1, asm.R9, label),
		asm.StoreMem(asm.R7, writtenAt, asm.R9, asm.Word),
	}
}

// search sets R9, the number of frames, to that of frames above the place R8. What is
// found is kept in memory, that the verifier does not follow each way on its own.
func search() asm.Instructions {
	code := asm.Instructions{asm.StoreImm(asm.R7, searchAt, 0, asm.Word)}
	for step := int32(512); step > 0; step /= 2 {
		next := fmt.Sprintf("search%d", step)
		code = append(code,
			asm.LoadMem(asm.R1, asm.R7, searchAt, asm.Word), asm.Add.Imm(asm.R1, step),
			asm.JGT.Reg(asm.R1, asm.R9, next),
			asm.JGT.Imm(asm.R1, maxFrames, next),
			asm.Mov.Reg(asm.R2, asm.R1), asm.Mul.Imm(asm.R2, eventSize), asm.Add.Reg(asm.R2, asm.R7),
			asm.LoadMem(asm.R2, asm.R2, frameStack-eventSize, asm.DWord),
			asm.JLE.Reg(asm.R2, asm.R8, next),
			asm.StoreMem(asm.R7, searchAt, asm.R1, asm.Word),
			asm.Mov.Imm(asm.R1, 0).WithSymbol(next))
	}
	return append(code,
		asm.LoadMem(asm.R9, asm.R7, searchAt, asm.Word),
		asm.JGE.Imm(asm.R9, maxFrames, "end"))
}

// enterFiltered is what happens at an entry.
//
//	R6 registers of the thread     R7 its state
//	R8 place of the call           R9 open calls
func (s *ProbeSet) enterFiltered(arguments []trace.Capture) asm.Instructions {
	code := append(s.begin(false), s.ofThread()...)
	if !s.options.Newest { // else it has it
		code = append(code, s.state(true)...)
	}
	code = append(code, findCaller()...)
	code = append(code, s.pass()...)
	code = append(code, s.push()...)
	if s.options.Arguments {
		code = append(code, keep(arguments)...)
	}
	code = append(code, asm.Ja.Label("end"))
	return append(code, labelled("write", s.write("entry", arguments))...)
}

// findCaller sets R9 to the number of calls that are open when that at R8 begins. Those that
// came there by tail calls are, too: they have the same place.
func findCaller() asm.Instructions {
	code := asm.Instructions{
		asm.LoadMem(asm.R8, asm.RFP, stackAt, asm.DWord),
		asm.LoadMem(asm.R9, asm.R7, openAt, asm.Word),
		asm.JGT.Imm(asm.R9, maxFrames, "end"),
		asm.JEq.Imm(asm.R9, 0, "found"),
	}
	code = append(append(code, frame(asm.R1)...),
		asm.LoadMem(asm.R2, asm.R1, frameStack-eventSize, asm.DWord),
		asm.JGT.Reg(asm.R2, asm.R8, "found"),
		// After a jump its return address is the kernel's, at the beginning of a page; it is
		// no more there when a function there has been left.
		asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, wordAt),
		asm.Mov.Imm(asm.R2, 8),
		asm.Mov.Reg(asm.R3, asm.R8),
		asm.FnProbeReadUser.Call(),
		asm.JNE.Imm(asm.R0, 0, "search"),
		asm.LoadMem(asm.R1, asm.RFP, wordAt, asm.DWord), asm.And.Imm(asm.R1, pageSize-1),
		asm.JNE.Imm(asm.R1, 0, "search"),
		asm.Sub.Imm(asm.R8, 1), // with those at this place
		asm.Mov.Imm(asm.R1, 0).WithSymbol("search"))
	code = append(append(code, search()...), leaveRound()...)
	return append(append(code, labelled("found", leave("left"))...),
		asm.Mov.Imm(asm.R1, 0).WithSymbol("left"))
}

// longestRound is how many functions may jump to one another in a round.
const longestRound = 32

// leaveRound has a function that comes back to itself by tail calls, maybe through others,
// begin anew: what was before has ended. R9, also as search has kept it, is the number of
// calls at R8+1 and above it, if that is the place, or else goes to "found".
func leaveRound() asm.Instructions {
	code := asm.Instructions{
		asm.LoadMem(asm.R4, asm.RFP, stackAt, asm.DWord),
		asm.JEq.Reg(asm.R4, asm.R8, "found"), // it is no tail call
		asm.LoadMem(asm.R5, asm.RFP, idAt, asm.Word), asm.And.Imm(asm.R5, MaxID-1),
	}
	for back := int32(1); back <= longestRound; back++ {
		next := fmt.Sprintf("round%d", back)
		code = append(code,
			asm.LoadMem(asm.R1, asm.R7, searchAt, asm.Word), asm.Sub.Imm(asm.R1, back),
			asm.JGE.Imm(asm.R1, maxFrames, "found"), // less than 0
			asm.Mov.Reg(asm.R2, asm.R1), asm.Mul.Imm(asm.R2, eventSize), asm.Add.Reg(asm.R2, asm.R7),
			asm.LoadMem(asm.R3, asm.R2, frameStack, asm.DWord),
			asm.JNE.Reg(asm.R3, asm.R4, "found"),
			asm.LoadMem(asm.R3, asm.R2, frameID, asm.Word), asm.And.Imm(asm.R3, MaxID-1),
			asm.JNE.Reg(asm.R3, asm.R5, next),
			asm.Mov.Reg(asm.R9, asm.R1),
			asm.Ja.Label("found"),
			asm.Mov.Imm(asm.R1, 0).WithSymbol(next))
	}
	return code
}

const pageSize = 4096

// pass goes to "end" if the filter does not let the call pass.
func (s *ProbeSet) pass() asm.Instructions {
	code := asm.Instructions{
		asm.JEq.Imm(asm.R9, 0, "outermost"),
		asm.LoadMem(asm.R1, asm.R7, leftOutAt, asm.Word),
		asm.JNE.Imm(asm.R1, 0, "end"),
		asm.Ja.Label("inner"),
		asm.StoreImm(asm.R7, leftOutAt, 0, asm.Word).WithSymbol("outermost"),
	}
	code = append(append(code, s.setting(rootsSetting)...),
		asm.JEq.Imm(asm.R1, 0, "inner"),
		asm.LoadMem(asm.R1, asm.RFP, flagsAt, asm.Word), asm.And.Imm(asm.R1, flagRoot),
		asm.JEq.Imm(asm.R1, 0, "end"))
	code = append(append(code, labelled("inner", s.setting(depthSetting))...),
		asm.JGE.Reg(asm.R9, asm.R1, "end"),
		asm.JGE.Imm(asm.R9, maxFrames, "end"),
		asm.JNE.Imm(asm.R9, 0, "passes"))
	code = append(append(code, s.setting(periodSetting)...),
		asm.JLE.Imm(asm.R1, 1, "passes"),
		asm.FnGetPrandomU32.Call())
	code = append(append(code, s.setting(periodSetting)...),
		asm.Mul.Reg(asm.R0, asm.R1), asm.RSh.Imm(asm.R0, 32), // 0 for one of so many
		asm.JEq.Imm(asm.R0, 0, "passes"),
		asm.StoreImm(asm.R7, leftOutAt, 1, asm.Word))
	return append(code, asm.Mov.Imm(asm.R1, 0).WithSymbol("passes"))
}

// push makes a frame, and goes to "write" if the call is to be written at once.
func (s *ProbeSet) push() asm.Instructions {
	code := append(append(s.now(), frame(asm.R8)...),
		asm.LoadMem(asm.R1, asm.RFP, timeAt, asm.DWord),
		asm.StoreMem(asm.R8, frameTime, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.RFP, threadAt, asm.DWord), // and the id
		asm.StoreMem(asm.R8, frameTime+8, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.RFP, stackAt, asm.DWord),
		asm.StoreMem(asm.R8, frameStack, asm.R1, asm.DWord),
		asm.Mov.Reg(asm.R2, asm.R9), asm.Add.Imm(asm.R2, 1),
		asm.StoreMem(asm.R7, openAt, asm.R2, asm.Word),
		asm.LoadMem(asm.R1, asm.R7, leftOutAt, asm.Word),
		asm.JNE.Imm(asm.R1, 0, "end"))
	return append(append(code, s.setting(minTimeSetting)...),
		asm.JNE.Imm(asm.R1, 0, "keep"),
		asm.LoadMem(asm.R1, asm.R7, writtenAt, asm.Word),
		asm.JNE.Reg(asm.R1, asm.R9, "keep"), // those around it come first
		asm.StoreMem(asm.R7, writtenAt, asm.R2, asm.Word),
		asm.Ja.Label("write"),
		asm.Mov.Imm(asm.R1, 0).WithSymbol("keep"))
}

// keep keeps the record of the call, until it is known whether it is written.
func keep(arguments []trace.Capture) asm.Instructions {
	code := asm.Instructions{
		asm.JGE.Imm(asm.R9, keptFrames, "end"),
		asm.Mov.Reg(asm.R1, asm.R9), asm.Mul.Imm(asm.R1, keptSize),
		asm.Add.Reg(asm.R7, asm.R1), asm.Add.Imm(asm.R7, keptAt),
		asm.StoreImm(asm.R7, sizeAt, int64(recordSize(arguments)), asm.Word),
	}
	return append(append(code, copyEvent(asm.RFP, eventAt)...), readArguments(arguments)...)
}

// exitFiltered is what happens at an exit: calls that have begun are recorded to their end.
//
//	R6 frames that were written    R7 state of the thread
//	R8 place of the call, record   R9 open calls, then those around this one
func (s *ProbeSet) exitFiltered() asm.Instructions {
	code := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.FnGetAttachCookie.Call(),
		asm.StoreMem(asm.RFP, idAt, asm.R0, asm.Word),
		asm.FnGetCurrentPidTgid.Call(),
		asm.StoreMem(asm.RFP, threadAt, asm.R0, asm.Word),
		asm.LoadMem(asm.R8, asm.R6, regsRSP, asm.DWord), asm.Sub.Imm(asm.R8, 8),
		asm.StoreMem(asm.RFP, stackAt, asm.R8, asm.DWord),
	}
	code = append(append(code, s.state(false)...),
		asm.LoadMem(asm.R9, asm.R7, openAt, asm.Word),
		asm.JEq.Imm(asm.R9, 0, "end"),
		asm.JGT.Imm(asm.R9, maxFrames, "end"))
	code = append(append(code, frame(asm.R1)...),
		asm.LoadMem(asm.R2, asm.R1, frameStack-eventSize, asm.DWord),
		asm.JGT.Reg(asm.R2, asm.R8, "end"),
		asm.JEq.Reg(asm.R2, asm.R8, "last"),
		asm.Sub.Imm(asm.R8, 1)) // with those at this place
	code = append(append(code, search()...),
		asm.JEq.Imm(asm.R9, 0, "pop"),
		asm.Sub.Imm(asm.R9, 1).WithSymbol("last"),
		asm.JGE.Imm(asm.R9, maxFrames, "end")) // older verifiers take it for less than 0
	code = append(code, frame(asm.R8)...)
	code = append(code,
		asm.LoadMem(asm.R1, asm.R8, frameStack, asm.DWord),
		asm.LoadMem(asm.R2, asm.RFP, stackAt, asm.DWord),
		asm.JNE.Reg(asm.R1, asm.R2, "callee"), // of a call that is not recorded
		asm.LoadMem(asm.R1, asm.R8, frameID, asm.Word),
		asm.LoadMem(asm.R2, asm.RFP, idAt, asm.Word),
		asm.Mov.Reg(asm.R3, asm.R1), asm.And.Imm(asm.R3, MaxID-1),
		asm.JNE.Reg(asm.R3, asm.R2, "callee"), // which is called by a tail call of this one
		asm.LoadImm(asm.R3, exitFlag, asm.DWord),
		asm.Or.Reg(asm.R1, asm.R3), // with the number of the name
		asm.StoreMem(asm.RFP, idAt, asm.R1, asm.Word))
	code = append(append(code, s.now()...),
		asm.LoadMem(asm.R1, asm.R7, leftOutAt, asm.Word),
		asm.JNE.Imm(asm.R1, 0, "pop"),
		asm.LoadMem(asm.R1, asm.R7, writtenAt, asm.Word),
		asm.JGT.Reg(asm.R1, asm.R9, "write"),
		asm.LoadMem(asm.R2, asm.R8, frameTime, asm.DWord),
		asm.LoadMem(asm.R6, asm.RFP, timeAt, asm.DWord), asm.Sub.Reg(asm.R6, asm.R2))
	code = append(append(code, s.setting(minTimeSetting)...),
		asm.JLT.Reg(asm.R6, asm.R1, "pop"))
	code = append(append(code, s.writeKept()...), labelled("write", leave("left"))...)
	code = append(code, labelled("left", s.write("exit", nil))...)
	code = append(append(code, asm.Ja.Label("end")), labelled("pop", leave("end"))...)
	return append(code,
		asm.Ja.Label("end"),
		asm.Add.Imm(asm.R9, 1).WithSymbol("callee"),
		asm.Ja.Label("pop"))
}

// writeKept writes the calls around this one that have not been written, and this one.
func (s *ProbeSet) writeKept() asm.Instructions {
	size, at := int32(eventSize), int32(framesAt)
	if s.options.Arguments {
		size, at = keptSize, keptAt
	}
	code := asm.Instructions{
		asm.Mov.Imm(asm.R6, 0),
		asm.LoadMem(asm.R8, asm.R7, writtenAt, asm.Word).WithSymbol("more"),
		asm.JGT.Reg(asm.R8, asm.R9, "write"),
		asm.JGE.Imm(asm.R8, keptFrames, "write"),
		asm.Mov.Reg(asm.R1, asm.R8), asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R7, writtenAt, asm.R1, asm.Word),
		asm.Mul.Imm(asm.R8, size), asm.Add.Reg(asm.R8, asm.R7), asm.Add.Imm(asm.R8, at),
	}
	code = append(code, s.writeRecord()...)
	return append(code,
		asm.Add.Imm(asm.R6, 1).WithSymbol("wrote"),
		asm.JLT.Imm(asm.R6, keptFrames, "more"))
}

// writeRecord writes the record R8, and goes on at "wrote".
func (s *ProbeSet) writeRecord() asm.Instructions {
	if s.options.Newest {
		code := append(s.nextSlot("record"),
			asm.Mov.Reg(asm.R1, asm.R0),
			asm.Mov.Imm(asm.R2, int32(s.recordSpace())),
			asm.Mov.Reg(asm.R3, asm.R8))
		return append(code, asm.FnProbeReadKernel.Call())
	}
	code := asm.Instructions{asm.Mov.Imm(asm.R3, eventSize)}
	if s.options.Arguments {
		code = asm.Instructions{
			asm.LoadMem(asm.R3, asm.R8, sizeAt, asm.Word),
			asm.JGT.Imm(asm.R3, maxRecord, "wrote"),
		}
	}
	code = append(code,
		asm.LoadMapPtr(asm.R1, s.results.FD()),
		asm.Mov.Reg(asm.R2, asm.R8),
		asm.Mov.Imm(asm.R4, ringNoWakeup),
		asm.FnRingbufOutput.Call(),
		asm.JEq.Imm(asm.R0, 0, "wrote"))
	return append(code, s.countLost(lostEvents)...)
}
