package trace

import (
	"bufio"
	"fmt"
	"io"
)

// chrome is the JSON of chrome://tracing, which Perfetto and speedscope read
// too: calls with begin and duration in microseconds.
type chrome struct {
	w       *bufio.Writer
	h       *Header
	names   []string // quoted
	begun   bool
	threads map[*Thread]bool
	known   processNames
}

func newChrome(w io.Writer, h *Header) Output {
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
	separator := ",\n"
	if !c.begun {
		c.begun = true
		separator = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
	}
	c.w.WriteString(separator)
	fmt.Fprintf(c.w, format, args...)
}

func (c *chrome) name(t *Thread) {
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

// arguments are those of a call as a field.
func (c *chrome) arguments(call *Call) string {
	if len(call.Words) == 0 {
		return ""
	}
	return `,"args":` + c.h.object(call)
}

func (c *chrome) Enter(t *Thread, call *Call) {
	if !c.h.Exits {
		c.name(t)
		c.event(`{"ph":"i","s":"t","pid":%d,"tid":%d,"ts":%d.%03d,"name":%s%s}`, c.h.process(t), t.track(), call.Start/1e3, call.Start%1e3, c.nameOf(call.Function), c.arguments(call))
	}
}

func (c *chrome) Leave(t *Thread, call *Call) {
	if !c.h.Exits {
		return
	}
	c.name(t)
	duration := call.End - call.Start
	c.event(`{"ph":"X","pid":%d,"tid":%d,"ts":%d.%03d,"dur":%d.%03d,"name":%s%s}`, c.h.process(t), t.track(), call.Start/1e3, call.Start%1e3, duration/1e3, duration%1e3, c.nameOf(call.Function), c.arguments(call))
}

func (c *chrome) Flush() error { return nil }

func (c *chrome) Close(s Summary) error {
	if !c.begun {
		c.event(`{"ph":"M","pid":%d,"name":"process_labels","args":{"labels":"no calls"}}`, c.h.PID)
	}
	fmt.Fprintf(c.w, "\n],\"otherData\":{\"lost\":\"%d\",\"cut\":\"%d\"}}\n", s.Lost, s.Cut)
	return c.w.Flush()
}
