//go:build linux

package ftrace

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// A page of the kernel's ring buffer, as trace_pipe_raw has it (see
// include/linux/ring_buffer.h and events/header_page of tracefs):
//
//	time u64, length and flags of a long's size, then events; if events before
//	the page are missing their number may follow the events
//
//	event: u32: bits 0 to 4 kind, 5 to 31 nanoseconds since the one before
//	  kind 0        length u32, of itself and the contents; contents
//	       1 to 28  contents of that many words of 4 bytes
//	       29       padding: nanoseconds 0: to the end; else length u32, padding
//	       30       upper bits of the nanoseconds u32
//	       31       upper bits of the time itself u32
//
// Numbers are little endian on all CPUs that we know.
const (
	pageHeader = 16
	lengthMask = 0x0fffffff

	kindPadding = 29
	kindExtend  = 30
	kindStamp   = 31
	deltaBits   = 27
)

// readPage gives the events of a page to do.
func readPage(page []byte, do func(time uint64, event []byte)) error {
	if len(page) < pageHeader {
		return fmt.Errorf("page of the trace: %d bytes, expected at least %d", len(page), pageHeader)
	}
	time := binary.LittleEndian.Uint64(page)
	length := binary.LittleEndian.Uint32(page[8:]) & lengthMask
	if uint64(length) > uint64(len(page)-pageHeader) {
		return fmt.Errorf("page of the trace: %d bytes of events, expected at most %d", length, len(page)-pageHeader)
	}
	b := page[pageHeader : pageHeader+length]
	for len(b) >= 4 {
		word := binary.LittleEndian.Uint32(b)
		kind, delta := word&(1<<(32-deltaBits)-1), uint64(word>>(32-deltaBits))
		b = b[4:]
		var next uint32 // the word that some have
		if kind == 0 || kind >= kindPadding {
			if kind == kindPadding && delta == 0 {
				return nil
			}
			if len(b) < 4 {
				return fmt.Errorf("page of the trace: an event is cut")
			}
			next = binary.LittleEndian.Uint32(b)
		}
		size, skip := uint64(kind)*4, uint64(0)
		switch kind {
		case kindExtend:
			time += delta | uint64(next)<<deltaBits
			b = b[4:]
			continue
		case kindStamp:
			const bits = deltaBits + 32
			time = time>>bits<<bits | delta | uint64(next)<<deltaBits
			b = b[4:]
			continue
		case 0, kindPadding:
			size, skip = (uint64(next)+3)&^3, 4
		}
		if size < skip || size > uint64(len(b)) {
			return fmt.Errorf("page of the trace: an event of %d bytes, there are %d", size, len(b))
		}
		if kind != kindPadding {
			time += delta
			do(time, b[skip:size])
		}
		b = b[size:]
	}
	return nil
}

// A layout says where the fields of a kind of events are.
type layout struct {
	id     uint16
	fields map[string]field
}

type field struct{ offset, size int }

// parseLayout reads a file "format" of an event:
//
//	name: function
//	ID: 1
//	format:
//		field:unsigned short common_type;	offset:0;	size:2;	signed:0;
func parseLayout(text string) (*layout, error) {
	l := &layout{fields: make(map[string]field)}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if id, ok := strings.CutPrefix(line, "ID:"); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(id), 10, 16)
			if err != nil {
				return nil, fmt.Errorf("format of an event: %w", err)
			}
			l.id = uint16(n)
		}
		rest, ok := strings.CutPrefix(line, "field:")
		if !ok {
			continue
		}
		parts := strings.Split(rest, ";")
		words := strings.Fields(parts[0])
		if len(words) == 0 {
			continue
		}
		name, _, _ := strings.Cut(words[len(words)-1], "[")
		f := field{offset: -1}
		for _, part := range parts[1:] {
			key, value, _ := strings.Cut(strings.TrimSpace(part), ":")
			n, err := strconv.ParseUint(value, 10, 12)
			if err != nil {
				continue
			}
			switch key {
			case "offset":
				f.offset = int(n)
			case "size":
				f.size = int(n)
			}
		}
		if f.offset >= 0 {
			l.fields[name] = f
		}
	}
	if l.id == 0 {
		return nil, fmt.Errorf("format of an event: it has no ID")
	}
	return l, nil
}

// number returns a field of an event, 0 if it has none.
func (l *layout) number(event []byte, name string) uint64 {
	f, ok := l.fields[name]
	if !ok || f.offset+f.size > len(event) {
		return 0
	}
	switch b := event[f.offset:]; f.size {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	case 8:
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// words returns the numbers of a list at the end of an event.
func (l *layout) words(event []byte, name, count string) []uint64 {
	f, ok := l.fields[name]
	if !ok || f.offset > len(event) {
		return nil
	}
	var all []uint64
	b := event[f.offset:]
	for n := l.number(event, count); n > 0 && len(b) >= 8; n-- {
		v := binary.LittleEndian.Uint64(b)
		if v == 0 || v == ^uint64(0) {
			break
		}
		all = append(all, v)
		b = b[8:]
	}
	return all
}
