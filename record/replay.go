//go:build linux

package record

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"footfall/input"
	"footfall/output"
	"footfall/process/target"
	"footfall/trace"
)

// replay is --read.
func (o *Options) replay() error {
	f, err := input.OpenGiven(o.Read)
	if err != nil {
		return err
	}
	defer f.Close()
	in, err := trace.NewRawReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", o.Read, err)
	}
	shown, err := o.choose(&in.Header)
	if err != nil {
		return output.UsageError(err)
	}
	out, err := openOutputs(context.Background(), o, &in.Header, shown.of)
	if err != nil {
		return err
	}
	defer out.discard()
	passes := newPasses(out, o.Threads)
	lost, err := in.Read(func(t trace.Thread, events []trace.Event) {
		if len(events) == 0 {
			passes.end()
			return
		}
		passes.add(t, shown.events(events))
	})
	passes.order.end()
	if err != nil {
		err = fmt.Errorf("%s: %w", o.Read, err)
	}
	return errors.Join(err, out.close(lost, shown.whyNone, false))
}

// A recording was made in passes over all threads, each of which took what a
// thread had written so far. What is earlier than the last event of a pass is all
// there after the next one.
type passes struct {
	outputs      *outputs
	order        order
	threads      threadPatterns
	seen         map[int]bool // threads, in this pass
	thread       int
	before, last uint64 // the latest event up to the pass before, and up to now
}

func newPasses(out *outputs, threads threadPatterns) *passes {
	p := &passes{outputs: out, threads: threads, seen: make(map[int]bool)}
	p.order = order{give: p.give, endPass: out.endPass}
	return p
}

func (p *passes) give(t trace.Thread, events []trace.Event) {
	if p.threads.take(t.ID, t.Name) {
		p.outputs.add(t, events)
	}
}

// end ends a pass.
func (p *passes) end() {
	if p.outputs.ordered {
		p.order.until(p.before)
	}
	p.before = p.last
	clear(p.seen)
}

// add gives events to the outputs, by time if they want that.
func (p *passes) add(t trace.Thread, events []trace.Event) {
	if t.ID != p.thread && p.seen[t.ID] { // older recordings do not say it
		p.end()
	}
	p.thread = t.ID
	p.seen[t.ID] = true
	for i := range events {
		if !events[i].Word && !events[i].Gap {
			p.last = max(p.last, events[i].Time)
		}
	}
	if p.outputs.ordered {
		p.order.add(t, Sites, events)
	} else {
		p.give(t, events)
	}
}

// An excerpt is what --read shows of a recording.
type excerpt struct {
	selection
	header *trace.Header
	takes  []bool // of the functions that are known so far
	filter trace.Filter
}

// choose makes an excerpt by options that choose while recording, too.
func (o *Options) choose(h *trace.Header) (*excerpt, error) {
	s, err := newSelection(o.Functions, o.Notrace, o.GraphFrom, nil)
	if err != nil {
		return nil, err
	}
	switch {
	case o.Depth < 0 || o.MinDuration < 0:
		return nil, errors.New("--depth and --min-duration must not be negative")
	case o.MinDuration > 0 && !h.Exits:
		return nil, fmt.Errorf("--min-duration: %s has no durations: record with --exits", o.Read)
	}
	return &excerpt{selection: s, header: h, filter: trace.Filter{Roots: len(s.roots) > 0, Depth: o.Depth, MinTime: uint64(o.MinDuration)}}, nil
}

// of gives an output only the calls that are chosen.
func (c *excerpt) of(out trace.CallWriter) trace.CallWriter {
	return trace.WithFilter(out, &c.filter, c.root)
}

// whyNone says that no function of the recording was chosen, if that is so.
func (c *excerpt) whyNone() string {
	if len(c.take)+len(c.leave) == 0 {
		return ""
	}
	c.events(nil) // decides of all functions
	if slices.Contains(c.takes, true) {
		return ""
	}
	return fmt.Sprintf(": none of its %s fits", output.Count(len(c.header.Functions), "function", "functions"))
}

// root tells whether the function of a call is one of --graph-from.
func (c *excerpt) root(call *trace.FunctionCall) bool { return c.fits(c.roots, call.Function) }

func (c *excerpt) fits(patterns []target.Pattern, function uint32) bool {
	f := &c.header.Functions[function]
	return slices.ContainsFunc(patterns, func(p target.Pattern) bool {
		return p.Fits(f.Name, f.Image, f.File) || p.Fits(trace.ShortName(f.Name), f.Image, f.File)
	})
}

// events returns those of functions that are chosen, with their words.
func (c *excerpt) events(events []trace.Event) []trace.Event {
	if len(c.take)+len(c.leave) == 0 {
		return events
	}
	for i := len(c.takes); i < len(c.header.Functions); i++ {
		n := uint32(i)
		c.takes = append(c.takes, !c.fits(c.leave, n) && (len(c.take) == 0 || c.fits(c.take, n) || c.fits(c.roots, n)))
	}
	taken, jump := false, -1 // jump: where an exit by a jump is, if the event before was one
	kept := events[:0]
	for _, e := range events {
		if !e.Word && !e.Gap {
			taken = int(e.Function) < len(c.takes) && c.takes[e.Function]
			if !taken && jump >= 0 {
				kept[jump].Jump = false // to a function that was not chosen, as if it had not been traced
			}
			if jump = -1; taken && e.Jump {
				jump = len(kept)
			}
		}
		if taken || e.Gap {
			kept = append(kept, e)
		}
	}
	return kept
}
