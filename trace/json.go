package trace

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
)

// jsonOutput is JSON that footfall json describes: the header, the calls in
// the order in which they ended, a line each, functions that were added since the
// first, the threads and the summary.
type jsonOutput struct {
	w       *bufio.Writer
	h       *Header
	calls   uint64
	begun   int // functions of the header that are written
	threads []Thread
	known   map[[3]int]bool
	last    *Thread // of the last call
	buffer  []byte
}

func newJSON(w io.Writer, h *Header) CallWriter {
	return &jsonOutput{w: bufio.NewWriterSize(w, 1<<16), h: h, known: make(map[[3]int]bool)}
}

func (j *jsonOutput) begin() {
	j.begun = len(j.h.Functions)
	b, err := json.Marshal(j.h)
	if err != nil {
		return // strings and numbers only
	}
	fmt.Fprintf(j.w, "{\"format\":\"footfall trace 1\",\n\"recording\":%s,\n\"calls\":[", b)
}

func (j *jsonOutput) Enter(t *Thread, c *FunctionCall) {
	if j.last != t {
		j.last = t
		if id := [3]int{t.ID, t.Process, t.Exec}; !j.known[id] {
			j.known[id] = true
			j.threads = append(j.threads, *t)
		}
	}
	if !j.h.Exits {
		j.end(j.call(t, c))
	}
}

func (j *jsonOutput) Leave(t *Thread, c *FunctionCall) {
	if !j.h.Exits {
		return
	}
	b := j.call(t, c)
	if c.Cut {
		b = append(b, `,"cut":true`...)
	} else {
		b = strconv.AppendUint(append(b, `,"duration":`...), c.End-c.Start, 10)
	}
	if c.Left {
		b = append(b, `,"left":true`...)
	}
	j.end(b)
}

// call begins a call, which end writes.
func (j *jsonOutput) call(t *Thread, c *FunctionCall) []byte {
	if j.calls == 0 {
		j.begin()
	} else {
		j.w.WriteByte(',')
	}
	j.calls++
	b := strconv.AppendInt(append(j.buffer[:0], "\n{\"thread\":"...), int64(t.ID), 10)
	b = strconv.AppendUint(append(b, `,"function":`...), uint64(c.Function), 10)
	b = strconv.AppendInt(append(b, `,"depth":`...), int64(c.Depth), 10)
	b = strconv.AppendUint(append(b, `,"start":`...), c.Start, 10)
	if t.Exec > 0 {
		b = strconv.AppendInt(append(b, `,"exec":`...), int64(t.Exec), 10)
	}
	if t.Stack > 0 {
		b = strconv.AppendInt(append(b, `,"stack":`...), int64(t.Stack), 10)
	}
	if len(c.Words) > 0 {
		b = append(append(b, `,"arguments":`...), j.h.object(c)...)
	}
	return b
}

func (j *jsonOutput) end(call []byte) {
	j.buffer = append(call, '}')
	j.w.Write(j.buffer)
}

func (j *jsonOutput) Flush() error { return nil }

func (j *jsonOutput) Close(s CallSummary) error {
	if j.calls == 0 {
		j.begin()
	}
	threads, err := json.Marshal(append([]Thread{}, j.threads...))
	if err != nil {
		return err
	}
	summary, err := json.Marshal(s)
	if err != nil {
		return err
	}
	fmt.Fprint(j.w, "],\n")
	if later := j.h.Functions[j.begun:]; len(later) > 0 {
		b, err := json.Marshal(later)
		if err != nil {
			return err
		}
		fmt.Fprintf(j.w, "\"loaded\":%s,\n", b)
	}
	fmt.Fprintf(j.w, "\"threads\":%s,\n\"summary\":%s}\n", threads, summary)
	return j.w.Flush()
}
