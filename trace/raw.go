package trace

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A raw file is what a recording is made from:
//
//	"footfall trace 1\n"
//	blocks: kind u8, length u32, contents
//
//	kind 1   Header as JSON; first
//	kind 2   Thread as JSON; the events after it are its
//	kind 3   events: time u64, function u32 (bit 31: exit), stack u32; where bit
//	         30 of function is set, time is a word of the arguments of the event
//	         before; bit 29: an entry whose exit may not be seen, or an exit
//	         without return; bit 28: no event, events were dropped from here on,
//	         with bit 31 up to here; bit 27: of a root; bit 26: the filter has yet to
//	         be applied, of an exit: by a jump; a block without events ends a pass over all threads
//	kind 4   lost events u64; last
//	kind 5   more functions, as in the header: of libraries loaded meanwhile
//	kind 6   Filter as JSON, in place of the one before
//
// Numbers are little endian.
const rawMagic = "footfall trace 1\n"

const (
	rawHeader = iota + 1
	rawThread
	rawEvents
	rawEnd
	rawFunctions
	rawFilter

	rawEventSize = 16
	rawExit      = 1 << 31
	rawWord      = 1 << 30
	rawNoExit    = 1 << 29
	rawGap       = 1 << 28
	rawRoot      = 1 << 27
	rawWhole     = 1 << 26
	rawFlags     = rawExit | rawWord | rawNoExit | rawGap | rawRoot | rawWhole
	rawMaxBlock  = 1 << 28
)

// A RawWriter writes a raw file.
type RawWriter struct {
	w      *bufio.Writer
	thread Thread
	err    error
	buffer []byte
}

// NewRawWriter begins a file.
func NewRawWriter(w io.Writer, h *Header) *RawWriter {
	r := &RawWriter{w: bufio.NewWriterSize(w, 1<<20), thread: Thread{ID: -1}}
	r.w.WriteString(rawMagic)
	r.json(rawHeader, h)
	return r
}

func (r *RawWriter) json(kind byte, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		r.err = errors.Join(r.err, err)
		return
	}
	r.begin(kind, len(b))
	r.w.Write(b)
}

func (r *RawWriter) begin(kind byte, size int) {
	r.w.WriteByte(kind)
	r.w.Write(binary.LittleEndian.AppendUint32(nil, uint32(size)))
}

// Add writes events.
func (r *RawWriter) Add(t Thread, events []Event) {
	if !r.thread.same(&t) {
		r.thread = t
		r.json(rawThread, t)
	}
	r.begin(rawEvents, len(events)*rawEventSize)
	b := r.buffer[:0]
	for i := range events {
		b = rawEvent(b, &events[i])
	}
	r.w.Write(b)
	r.buffer = b
}

// EndPass notes that the events of all threads up to now have been added.
func (r *RawWriter) EndPass() { r.begin(rawEvents, 0) }

// rawEvent appends an event.
func rawEvent(b []byte, e *Event) []byte {
	function := e.Function
	if e.Exit {
		function |= rawExit
	}
	if e.Word {
		function |= rawWord
	}
	if e.NoExit {
		function |= rawNoExit
	}
	if e.Gap {
		function |= rawGap
	}
	if e.Root {
		function |= rawRoot
	}
	if e.Whole || e.Jump {
		function |= rawWhole
	}
	b = binary.LittleEndian.AppendUint64(b, e.Time)
	b = binary.LittleEndian.AppendUint32(b, function)
	return binary.LittleEndian.AppendUint32(b, e.Stack)
}

// AddFunctions writes functions that follow those so far.
func (r *RawWriter) AddFunctions(functions []Function) {
	r.json(rawFunctions, functions)
}

// SetFilter notes that the recording has another filter from here on.
func (r *RawWriter) SetFilter(f Filter) { r.json(rawFilter, f) }

// Close writes the end.
func (r *RawWriter) Close(lost uint64) error {
	r.begin(rawEnd, 8)
	r.w.Write(binary.LittleEndian.AppendUint64(nil, lost))
	return errors.Join(r.err, r.w.Flush())
}

// A FormatError tells where a file is not as it should be.
type FormatError struct {
	Offset int64
	Text   string
}

func (e *FormatError) Error() string { return fmt.Sprintf("at %#x: %s", e.Offset, e.Text) }

// A RawReader reads a raw file.
type RawReader struct {
	Header Header // functions are added to it, and the filter changed, as Read comes to them
	r      *bufio.Reader
	at     int64
}

// NewRawReader reads the header.
func NewRawReader(r io.Reader) (*RawReader, error) {
	f := &RawReader{r: bufio.NewReaderSize(r, 1<<20)}
	magic := make([]byte, len(rawMagic))
	if _, err := io.ReadFull(f.r, magic); err != nil || string(magic) != rawMagic {
		return nil, &FormatError{0, "no trace of footfall (--output raw=FILE)"}
	}
	f.at = int64(len(magic))
	kind, b, err := f.block()
	if err != nil {
		return nil, err
	}
	if kind != rawHeader {
		return nil, &FormatError{f.at, "no header"}
	}
	if err := json.Unmarshal(b, &f.Header); err != nil {
		return nil, &FormatError{f.at, "header: " + err.Error()}
	}
	return f, nil
}

// block reads one. It grows as the file does, whatever its length says.
func (f *RawReader) block() (kind byte, b []byte, err error) {
	var head [5]byte
	n, err := io.ReadFull(f.r, head[:])
	if err != nil {
		return 0, nil, &FormatError{f.at, fmt.Sprintf("cut off after %d bytes of a block", n)}
	}
	size := binary.LittleEndian.Uint32(head[1:])
	if size > rawMaxBlock {
		return 0, nil, &FormatError{f.at, fmt.Sprintf("a block of %d bytes", size)}
	}
	b, err = io.ReadAll(io.LimitReader(f.r, int64(size)))
	if err != nil || len(b) < int(size) {
		return 0, nil, &FormatError{f.at, fmt.Sprintf("cut off: a block has %d of %d bytes", len(b), size)}
	}
	f.at += int64(len(head)) + int64(size)
	return head[0], b, nil
}

// Read gives all events to do, none at the end of a pass over all threads, and returns how many were lost. If the file
// ends early the events up to there have been given.
func (f *RawReader) Read(do func(Thread, []Event)) (lost uint64, err error) {
	var t Thread
	for {
		kind, b, err := f.block()
		if err != nil {
			return 0, err
		}
		switch kind {
		case rawThread:
			t = Thread{}
			if err := json.Unmarshal(b, &t); err != nil {
				return 0, &FormatError{f.at, "thread: " + err.Error()}
			}
		case rawEvents:
			events := make([]Event, 0, len(b)/rawEventSize)
			for ; len(b) >= rawEventSize; b = b[rawEventSize:] {
				function := binary.LittleEndian.Uint32(b[8:])
				events = append(events, Event{
					Time: binary.LittleEndian.Uint64(b), Function: function &^ rawFlags, Exit: function&rawExit != 0, Word: function&rawWord != 0,
					NoExit: function&rawNoExit != 0, Gap: function&rawGap != 0, Root: function&rawRoot != 0, Whole: function&(rawWhole|rawExit) == rawWhole, Jump: function&(rawWhole|rawExit) == rawWhole|rawExit,
					Stack: binary.LittleEndian.Uint32(b[12:]),
				})
			}
			do(t, events)
		case rawFunctions:
			var more []Function
			if err := json.Unmarshal(b, &more); err != nil {
				return 0, &FormatError{f.at, "functions: " + err.Error()}
			}
			f.Header.Functions = append(f.Header.Functions, more...)
		case rawFilter:
			var filter Filter
			if err := json.Unmarshal(b, &filter); err != nil {
				return 0, &FormatError{f.at, "filter: " + err.Error()}
			}
			f.Header.Filter = filter
		case rawEnd:
			if len(b) != 8 {
				return 0, &FormatError{f.at, "the end has an unknown form"}
			}
			return binary.LittleEndian.Uint64(b), nil
		default:
			return 0, &FormatError{f.at, fmt.Sprintf("unknown kind %d of block", kind)}
		}
	}
}
