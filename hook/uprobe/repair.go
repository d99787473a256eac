//go:build linux

package uprobe

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"footfall/process"
	"footfall/trace"
)

// breakpoint is the instruction that the kernel puts in place of a function's first byte.
const breakpoint = 0xcc

// Repair takes breakpoints out of the code of a process that the kernel has kept, and
// returns how many. It takes them out when a ProbeSet ends; if footfall is killed just while it
// does so, it gives up ("failed to unregister, leaking uprobe" in its log), and all calls of
// these functions are slower from then on. Once a probe is set there anew it goes
// together with that. Processes that a debugger traces have breakpoints of their own.
func Repair(p *process.Process) (n int, err error) {
	if runtime.GOARCH != "amd64" || p.Traced() {
		return 0, nil
	}
	maps, _, err := p.Maps()
	if err != nil {
		return 0, err
	}
	var probes []Probe
	for _, i := range p.Images(maps) {
		f, err := i.Open()
		if err != nil {
			continue // nobody could have set a probe
		}
		defer f.Close()
		for _, part := range i.Parts {
			if !part.Exec || !part.Read {
				continue
			}
			offsets, err := leftIn(p, part, f)
			if err != nil {
				return 0, err
			}
			for _, offset := range offsets {
				probes = append(probes, Probe{File: fmt.Sprintf("/proc/self/fd/%d", f.Fd()), Offset: offset, ID: uint32(len(probes)) % MaxID, OnlyProcess: true})
			}
		}
	}
	for from := 0; from < len(probes) && err == nil; from += MaxID {
		err = setAnew(p, probes[from:min(len(probes), from+MaxID)])
	}
	return len(probes), err
}

// setAnew sets probes and takes them out.
func setAnew(p *process.Process, probes []Probe) error {
	s, err := Open(Options{PID: p.PID, Thread: p.LivingThread, Mode: trace.Counts})
	if err != nil {
		return fmt.Errorf("process %d: take breakpoints out that the kernel has kept: %w", p.PID, err)
	}
	_, err = s.Attach(probes)
	return errors.Join(err, s.Close())
}

// leftIn returns where breakpoints are in a mapping, as offsets in its file. Pages that differ
// from the file by anything else somebody has changed who may have breakpoints, too.
func leftIn(p *process.Process, part process.Mapping, f *os.File) (offsets []uint64, err error) {
	const page = 4096
	memory, file := make([]byte, 1<<20), make([]byte, 1<<20)
	for at := part.Start; at < part.End; at += uint64(len(memory)) {
		n := min(uint64(len(memory)), part.End-at)
		if _, err := p.ReadAt(memory[:n], int64(at)); err != nil {
			return nil, err
		}
		got, err := f.ReadAt(file[:n], int64(part.Offset+at-part.Start))
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		for from := 0; from < got; from += page {
			to := min(from+page, got)
			for _, place := range breakpointsIn(memory[from:to], file[from:to]) {
				offsets = append(offsets, part.Offset+at-part.Start+uint64(from+place))
			}
		}
	}
	return offsets, nil
}

// breakpointsIn returns where there are some that the file has not; none if there are other
// differences.
func breakpointsIn(memory, file []byte) (places []int) {
	if string(memory) == string(file) {
		return nil
	}
	for i, b := range memory {
		switch {
		case b == file[i]:
		case b == breakpoint:
			places = append(places, i)
		default:
			return nil
		}
	}
	return places
}
