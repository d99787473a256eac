package trace

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// perfetto is Perfetto's own format: protocol buffers, a TracePacket for each
// entry and exit. The numbers are those of its
// protos/perfetto/trace/trace_packet.proto and track_event/track_event.proto.
type perfetto struct {
	w       *bufio.Writer
	h       *Header
	begun   bool
	threads map[*Thread]uint64 // uuid
	tracks  map[int]uint64     // of processes
	known   processNames
	last    uint64  // uuid
	named   []bool  // of functions
	at      *Thread // that events were of
	on      uint64  // its track

	buffer, body, fields, head []byte
}

const (
	sequence   = 1
	sliceBegin = 1
	sliceEnd   = 2
	instant    = 3
)

func newPerfetto(w io.Writer, h *Header) CallWriter {
	return &perfetto{w: bufio.NewWriterSize(w, 1<<16), h: h, threads: make(map[*Thread]uint64), tracks: make(map[int]uint64), known: make(processNames)}
}

func number(b []byte, field int, v uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(field)<<3), v)
}

func chunk(b []byte, field int, v []byte) []byte {
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(field)<<3|2), uint64(len(v)))
	return append(b, v...)
}

// packet writes a TracePacket with fields after those that all have.
func (p *perfetto) packet(fields []byte) {
	flags := uint64(2) // SEQ_NEEDS_INCREMENTAL_STATE
	if !p.begun {
		p.begun = true
		flags = 1 // SEQ_INCREMENTAL_STATE_CLEARED
	}
	b := number(number(p.buffer[:0], 10, sequence), 13, flags)
	b = append(b, fields...)
	p.head = binary.AppendUvarint(append(p.head[:0], 1<<3|2), uint64(len(b)))
	p.w.Write(p.head)
	p.w.Write(b)
	p.buffer = b
}

// process returns the track of a thread's process.
func (p *perfetto) process(t *Thread) uint64 {
	pid := p.h.process(t)
	name, changed := p.known.add(p.h, t)
	if p.tracks[pid] == 0 {
		p.last++
		p.tracks[pid] = p.last
	}
	uuid := p.tracks[pid]
	if changed {
		process := chunk(number(nil, 1, uint64(pid)), 6, []byte(name))
		p.packet(chunk(nil, 60, chunk(number(nil, 1, uuid), 3, process)))
	}
	return uuid
}

// track returns the thread's, which it makes if it is new.
func (p *perfetto) track(t *Thread) uint64 {
	if p.at == t {
		return p.on
	}
	p.at, p.on = t, p.threads[t]
	if p.on == 0 {
		p.on = p.newTrack(t)
	}
	return p.on
}

func (p *perfetto) newTrack(t *Thread) uint64 {
	process := p.process(t)
	p.last++
	uuid := p.last
	p.threads[t] = uuid
	if t.Stack > 0 { // it lies below the process; the thread has its own
		name := []byte(fmt.Sprintf("%s %d, stack %d", t.Name, t.ID, t.Stack))
		p.packet(chunk(nil, 60, chunk(number(number(nil, 1, uuid), 5, process), 2, name)))
		return uuid
	}
	thread := number(number(nil, 1, uint64(p.h.process(t))), 2, uint64(t.ID))
	thread = chunk(thread, 5, []byte(t.Name))
	p.packet(chunk(nil, 60, chunk(number(number(nil, 1, uuid), 5, process), 4, thread)))
	return uuid
}

func (p *perfetto) event(t *Thread, kind, time uint64, c *FunctionCall) {
	event := number(number(p.body[:0], 9, kind), 11, p.track(t))
	fields := number(p.fields[:0], 8, time)
	if kind != sliceEnd {
		event = number(event, 10, uint64(c.Function)+1)
		for i := len(p.named); i <= int(c.Function); i++ {
			p.named = append(p.named, false)
		}
		if !p.named[c.Function] {
			p.named[c.Function] = true
			name := chunk(number(nil, 1, uint64(c.Function)+1), 2, []byte(p.h.Functions[c.Function].Name))
			fields = chunk(fields, 12, chunk(nil, 2, name))
		}
		if len(c.Words) > 0 {
			for _, v := range p.h.Functions[c.Function].values(c.Words) {
				// DebugAnnotation: name, string_value
				event = chunk(event, 4, chunk(chunk(nil, 10, []byte(v.name)), 6, []byte(v.plain())))
			}
		}
	}
	p.body, p.fields = event, chunk(fields, 11, event)
	p.packet(p.fields)
}

func (p *perfetto) Enter(t *Thread, c *FunctionCall) {
	if p.h.Exits {
		p.event(t, sliceBegin, c.Start, c)
	} else {
		p.event(t, instant, c.Start, c)
	}
}

func (p *perfetto) Leave(t *Thread, c *FunctionCall) {
	if p.h.Exits {
		p.event(t, sliceEnd, c.End, c)
	}
}

func (p *perfetto) Flush() error { return nil }

func (p *perfetto) Close(CallSummary) error { return p.w.Flush() }
