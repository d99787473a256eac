package trace

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// jsonOutput is JSON that docs/tracing.md describes: the header, the calls in
// the order in which they ended, a line each, functions that were added since the
// first, the threads and the summary.
type jsonOutput struct {
	w       *bufio.Writer
	h       *Header
	calls   uint64
	begun   int // functions of the header that are written
	threads []Thread
	known   map[[3]int]bool
}

func newJSON(w io.Writer, h *Header) Output {
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

func (j *jsonOutput) Enter(t *Thread, c *Call) {
	if id := [3]int{t.ID, t.Process, t.Exec}; !j.known[id] {
		j.known[id] = true
		j.threads = append(j.threads, *t)
	}
	if !j.h.Exits {
		j.call(t, c)
		fmt.Fprint(j.w, "}")
	}
}

func (j *jsonOutput) call(t *Thread, c *Call) {
	separator := ",\n"
	if j.calls == 0 {
		j.begin()
		separator = "\n"
	}
	j.calls++
	fmt.Fprintf(j.w, `%s{"thread":%d,"function":%d,"depth":%d,"start":%d`, separator, t.ID, c.Function, c.Depth, c.Start)
	if t.Exec > 0 {
		fmt.Fprintf(j.w, `,"exec":%d`, t.Exec)
	}
	if t.Stack > 0 {
		fmt.Fprintf(j.w, `,"stack":%d`, t.Stack)
	}
	if len(c.Words) > 0 {
		fmt.Fprintf(j.w, `,"arguments":%s`, j.h.object(c))
	}
}

func (j *jsonOutput) Leave(t *Thread, c *Call) {
	if !j.h.Exits {
		return
	}
	j.call(t, c)
	if c.Cut {
		fmt.Fprint(j.w, `,"cut":true}`)
	} else {
		fmt.Fprintf(j.w, `,"duration":%d}`, c.End-c.Start)
	}
}

func (j *jsonOutput) Flush() error { return nil }

func (j *jsonOutput) Close(s Summary) error {
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
