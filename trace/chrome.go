package trace

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
)

// chrome is the JSON of chrome://tracing, which Perfetto and speedscope read
// too: calls with begin and duration in microseconds.
type chrome struct {
	w       *bufio.Writer
	h       *Header
	names   []string // quoted
	begun   bool
	threads map[*Thread]bool
	last    *Thread // that events were of
	track   []byte  // its fields
	known   processNames
	buffer  []byte
}

func newChrome(w io.Writer, h *Header) CallWriter {
	return &chrome{w: bufio.NewWriterSize(w, 1<<16), h: h, threads: make(map[*Thread]bool), known: make(processNames)}
}

// nameOf returns a function's name, quoted.
func (c *chrome) nameOf(function uint32) string {
	for i := len(c.names); i < len(c.h.Functions); i++ {
		c.names = append(c.names, quote(c.h.Functions[i].Name))
	}
	return c.names[function]
}

func (c *chrome) event(format string, args ...any) {
	c.separate()
	fmt.Fprintf(c.w, format, args...)
}

// separate writes what is before an event.
func (c *chrome) separate() {
	separator := ",\n"
	if !c.begun {
		c.begun = true
		separator = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
	}
	c.w.WriteString(separator)
}

// name tells what a thread is called, once.
func (c *chrome) name(t *Thread) {
	if c.last == t {
		return
	}
	c.last = t
	c.track = fmt.Appendf(c.track[:0], `"pid":%d,"tid":%d,"ts":`, c.h.process(t), t.track())
	if !c.threads[t] {
		c.threads[t] = true
		if name, changed := c.known.add(c.h, t); changed {
			c.event(`{"ph":"M","pid":%d,"name":"process_name","args":{"name":%s}}`, c.h.process(t), quote(name))
		}
		c.event(`{"ph":"M","pid":%d,"tid":%d,"name":"thread_name","args":{"name":%s}}`, c.h.process(t), t.track(), quote(t.title()))
	}
}

// track is a number for the calls of a stack: the thread's or, since calls of
// different stacks are not within each other, one that no thread has.
func (t *Thread) track() int {
	if t.Stack == 0 {
		return t.ID
	}
	return 1<<32 + t.ID<<10 + t.Stack
}

// title is the thread's name, with the number of the stack.
func (t *Thread) title() string {
	if t.Stack == 0 {
		return t.Name
	}
	return fmt.Sprintf("%s, stack %d", t.Name, t.Stack)
}

func (c *chrome) Enter(t *Thread, call *FunctionCall) {
	if c.h.Exits {
		return
	}
	c.name(t)
	c.call(append(c.buffer[:0], `{"ph":"i","s":"t",`...), call)
}

func (c *chrome) Leave(t *Thread, call *FunctionCall) {
	if !c.h.Exits {
		return
	}
	c.name(t)
	c.call(append(c.buffer[:0], `{"ph":"X",`...), call)
}

// call writes the event of a call, of which b is the beginning.
func (c *chrome) call(b []byte, call *FunctionCall) {
	b = micros(append(b, c.track...), call.Start)
	if c.h.Exits {
		b = micros(append(b, `,"dur":`...), call.End-call.Start)
	}
	b = append(append(b, `,"name":`...), c.nameOf(call.Function)...)
	if len(call.Words) > 0 {
		b = append(append(b, `,"args":`...), c.h.object(call)...)
	}
	c.buffer = append(b, '}')
	c.separate()
	c.w.Write(c.buffer)
}

// micros appends a time in microseconds.
func micros(b []byte, ns uint64) []byte {
	return fraction(strconv.AppendUint(b, ns/1e3, 10), ns%1e3, 1e3)
}

func (c *chrome) Flush() error { return nil }

func (c *chrome) Close(s CallSummary) error {
	if !c.begun {
		c.event(`{"ph":"M","pid":%d,"name":"process_labels","args":{"labels":"no calls"}}`, c.h.PID)
	}
	fmt.Fprintf(c.w, "\n],\"otherData\":{\"lost\":\"%d\",\"cut\":\"%d\"}}\n", s.Lost, s.Cut)
	return c.w.Flush()
}
