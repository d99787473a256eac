//go:build linux

package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	pprof "github.com/google/pprof/profile"
	"golang.org/x/sys/unix"

	"footfall/output"
	"footfall/profile"
	"footfall/trace"
)

// outputs are what --output asks for.
type outputs struct {
	header  *trace.Header
	builder *trace.Builder
	raw     *trace.RawWriter // nil: none
	files   []*output.PendingFile
	screen  *screen // nil: the graph is not shown on a terminal
	stderr  io.Writer
	replay  bool // of a recording that is complete
	told    int  // functions that are in the raw file

	ordered  bool   // some want events by time, over all threads
	onlyRaw  bool   // calls are not made of events: --read does that, too
	recorded bool   // there are events in the raw file
	limit    uint64 // --events; 0: none
	given    uint64 // of these
}

// openOutputs opens outputs; through gives each, unless it is nil, only what of a recording is
// to be seen. Once ctx has ended a terminal shows no more.
func openOutputs(ctx context.Context, o *Options, h *trace.Header, through func(trace.CallWriter) trace.CallWriter) (_ *outputs, err error) {
	all := &outputs{header: h, stderr: o.Stderr, replay: o.Read != "", limit: o.Events, told: len(h.Functions)}
	defer func() {
		if err != nil {
			all.discard()
		}
	}()
	var made []trace.CallWriter
	requests, err := o.requests()
	if err != nil {
		return nil, err
	}
	for _, r := range requests {
		out, err := all.open(ctx, r, o.Stdout)
		if err != nil {
			return nil, err
		}
		if out != nil && through != nil {
			out = through(out)
		}
		if out != nil {
			made = append(made, out)
		}
	}
	all.builder = trace.NewBuilder(h, made...)
	all.onlyRaw = len(made) == 0
	return all, nil
}

// Formats are those of a trace.
func Formats() []output.Format {
	return append(trace.Formats(), output.Format{Name: "html", Kind: output.Bytes}, output.Format{Name: "raw", Kind: output.Bytes})
}

// requests are what --output asks for. A program that was started for the trace has our
// standard output as its own.
func (o *Options) requests() ([]output.Request, error) {
	if o.Count {
		return o.countRequests()
	}
	for _, value := range o.Outputs {
		if output.Check(value, CountFormats()) == nil && output.Check(value, Formats()) != nil {
			return nil, output.UsageError(fmt.Errorf("output %q is for --count", value))
		}
	}
	return output.Parse(o.Outputs, Formats(), output.Stdout{W: o.Stdout, Program: o.launches()})
}

// countRequests are those of --count.
func (o *Options) countRequests() ([]output.Request, error) {
	values := o.Outputs
	if !o.Given("output") {
		values = []string{"counts"}
	}
	requests, err := output.Parse(values, CountFormats(), output.Stdout{W: o.Stdout})
	if err != nil {
		return nil, fmt.Errorf("--count: %w", err)
	}
	for _, r := range requests {
		if r.Named && r.OnStdout() && o.launches() {
			return nil, r.Refuse(output.Programs)
		}
	}
	return requests, nil
}

// open opens an output. It returns nil for raw, which gets events.
func (o *outputs) open(ctx context.Context, r output.Request, stdout io.Writer) (_ trace.CallWriter, err error) {
	w := stdout
	if r.File != "-" {
		if w, err = o.create(r.Format, r.File); err != nil {
			return nil, err
		}
	} else if output.Width(stdout) > 0 && r.Format == "graph" {
		o.screen = &screen{w: stdout, ctx: ctx}
		w = o.screen
	}
	o.ordered = o.ordered || r.Format == "graph" || r.Format == "json"
	switch r.Format {
	case "raw":
		o.raw = trace.NewRawWriter(w, o.header)
		return nil, nil
	case "html":
		page := &htmlPage{w: w, program: o.header.Program}
		page.CallWriter = trace.NewOutput("pprof", &page.profile, o.header)
		return page, nil
	}
	return trace.NewOutput(r.Format, w, o.header), nil
}

// create begins a file. It appears when it is complete, but of formats that
// can be read while they grow.
func (o *outputs) create(format, name string) (io.Writer, error) {
	f, err := output.Create(name)
	if err != nil {
		return nil, err
	}
	o.files = append(o.files, f)
	if !o.replay && slices.Contains([]string{"raw", "graph", "json"}, format) {
		err = f.Show()
	}
	return f, err
}

// discard forgets outputs that have not been closed.
func (o *outputs) discard() {
	for _, f := range o.files {
		f.Discard()
	}
}

// tell makes functions known that were added to the header.
func (o *outputs) tell() {
	if more := o.header.Functions[o.told:]; len(more) > 0 && o.raw != nil {
		o.raw.AddFunctions(more)
	}
	o.told = len(o.header.Functions)
}

// setFilter notes that the recording has another filter from here on.
func (o *outputs) setFilter(f trace.Filter) {
	if o.raw != nil {
		o.raw.SetFilter(f)
	}
}

// endPass notes that the events of all threads up to now have been added.
func (o *outputs) endPass() {
	if o.raw != nil {
		o.raw.EndPass()
	}
}

// add gives events of a thread to all.
func (o *outputs) add(t trace.Thread, events []trace.Event) {
	if o.limit > 0 {
		if events = o.upTo(events); len(events) == 0 {
			return
		}
	}
	if o.raw != nil {
		o.tell()
		o.raw.Add(t, events)
		o.recorded = o.recorded || len(events) > 0
	}
	if !o.onlyRaw {
		o.builder.Add(t, events)
	}
}

// upTo returns as many of the events as --events wants; words are not counted.
func (o *outputs) upTo(events []trace.Event) []trace.Event {
	for i, e := range events {
		if e.Word || e.Gap {
			continue
		}
		if o.given == o.limit {
			return events[:i]
		}
		o.given++
	}
	return events
}

// full tells whether there are as many events as were wanted.
func (o *outputs) full() bool { return o.limit > 0 && o.given >= o.limit }

// An htmlPage makes a page of what pprof gets.
type htmlPage struct {
	trace.CallWriter
	w       io.Writer
	program string
	profile bytes.Buffer
}

func (h *htmlPage) Close(s trace.CallSummary) error {
	if err := h.CallWriter.Close(s); err != nil {
		return err
	}
	p, err := pprof.ParseData(h.profile.Bytes())
	if err != nil {
		return err
	}
	return profile.PrintChains(h.w, h.program, false, p)
}

// close closes the outputs and says what is missing, where lost events were dropped; why says
// why there may be no calls, newest that exits without entries are no wonder.
func (o *outputs) close(lost uint64, why func() string, newest bool) error {
	var rawErr error
	if o.raw != nil {
		rawErr = o.raw.Close(lost)
	}
	s, err := o.builder.Close(lost)
	o.screen.sayUnseen(o.stderr)
	if s.Calls == 0 && !o.recorded {
		fmt.Fprintf(o.stderr, "footfall: no calls%s\n", why())
	}
	if newest {
		s.Unmatched = 0
	}
	o.sayMissing(&s)
	err = errors.Join(rawErr, err)
	for _, f := range o.files {
		if err != nil {
			f.Discard()
		}
		err = errors.Join(err, f.Close())
	}
	if errors.Is(err, unix.EPIPE) {
		return nil // who read has seen enough
	}
	return err
}

// sayMissing says what is not known of calls.
func (o *outputs) sayMissing(s *trace.CallSummary) {
	if s.Lost > 0 {
		fmt.Fprintf(o.stderr, "footfall: %d events were dropped: they came faster than they could be read; select fewer functions, use --sample, or a larger --buffer\n", s.Lost)
	}
	if s.Unmatched > 0 {
		fmt.Fprintf(o.stderr, "footfall: %d exits had no entry: of calls that were dropped, or on other stacks\n", s.Unmatched)
	}
	if s.Cut > 0 {
		where := "or on a stack from malloc"
		if o.header.Probes && !o.replay {
			where = "or deeper than 64 within each other"
		}
		fmt.Fprintf(o.stderr, "footfall: of %s the exit was not seen: still running, dropped, %s; no time is counted\n", output.Count(int(s.Cut), "call", "calls"), where)
	}
	if s.Left > 0 {
		fmt.Fprintf(o.stderr, "footfall: %s left by longjmp or an exception: the time is that until the next event of the thread\n", output.Count(int(s.Left), "call was", "calls were"))
	}
}
