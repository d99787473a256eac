package record

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	pprof "github.com/google/pprof/profile"
	"golang.org/x/sys/unix"

	"footfall/hook/patch"
	"footfall/input"
	"footfall/output"
	"footfall/proc"
	"footfall/profile"
	"footfall/trace"
)

// openOutputs opens what --output asks for.
func (r *recorder) openOutputs(ctx context.Context, stdout io.Writer) (err error) {
	defer func() {
		if err != nil {
			r.discard()
		}
	}()
	var outputs []trace.Output
	width, _ := output.Style(stdout)
	for _, text := range r.o.Outputs {
		format, file, _ := strings.Cut(text, "=")
		w := stdout
		if file != "" && file != "-" {
			if w, err = r.createOutput(format, file); err != nil {
				return err
			}
		} else if width > 0 && slices.Contains([]string{"html", "perfetto", "pprof"}, format) {
			return output.UsageError(fmt.Errorf("--output %s is not for terminals: %s=FILE", format, format))
		} else if width > 0 && format == "graph" {
			r.screen = &screen{w: stdout, ctx: ctx}
			w = r.screen
		}
		r.ordered = r.ordered || format == "graph" || format == "json"
		if format == "raw" {
			if w == stdout && file != "-" {
				return output.UsageError(errors.New("--output raw needs a file: raw=FILE"))
			}
			r.raw = trace.NewRawWriter(w, r.header)
			continue
		}
		if format == "html" {
			page := &htmlPage{w: w, program: r.header.Program}
			page.Output, _ = trace.NewOutput("pprof", &page.profile, r.header)
			outputs = append(outputs, page)
			continue
		}
		out, err := trace.NewOutput(format, w, r.header)
		if err != nil {
			return output.UsageError(err)
		}
		outputs = append(outputs, out)
	}
	if r.excerpt != nil {
		for i, out := range outputs {
			outputs[i] = trace.Filtered(out, &r.excerpt.filter, r.excerpt.root)
		}
	}
	r.builder = trace.NewBuilder(r.header, outputs...)
	r.onlyRaw = len(outputs) == 0
	return nil
}

// createOutput begins a file. It appears when it is complete, but of formats that
// can be read while they grow.
func (r *recorder) createOutput(format, name string) (io.Writer, error) {
	f, err := output.Create(name)
	if err != nil {
		return nil, err
	}
	r.files = append(r.files, f)
	if r.o.Read == "" && slices.Contains([]string{"raw", "graph", "json"}, format) {
		err = f.Show()
	}
	return f, err
}

// discard forgets outputs that have not been closed.
func (r *recorder) discard() {
	for _, f := range r.files {
		f.Discard()
	}
}

// An htmlPage makes a page of what pprof gets.
type htmlPage struct {
	trace.Output
	w       io.Writer
	program string
	profile bytes.Buffer
}

func (h *htmlPage) Close(s trace.Summary) error {
	if err := h.Output.Close(s); err != nil {
		return err
	}
	p, err := pprof.ParseData(h.profile.Bytes())
	if err != nil {
		return err
	}
	return profile.PrintChains(h.w, h.program, false, p)
}

// close closes the outputs and says what is missing; lost events were dropped.
func (r *recorder) close(lost uint64) error {
	var rawErr error
	if r.raw != nil {
		rawErr = r.raw.Close(lost)
	}
	err := errors.Join(rawErr, r.closeBuilder(lost))
	for _, f := range r.files {
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

// whySilent says why a process calls nothing, if that is known.
func whySilent(p *proc.Process) string {
	if p == nil || !p.Suspended() {
		return ""
	}
	return fmt.Sprintf(": process %d is stopped by a signal; kill -CONT %d lets it run", p.PID, p.PID)
}

// closeBuilder ends the outputs and says what is missing.
func (r *recorder) closeBuilder(lost uint64) error {
	s, err := r.builder.Close(lost)
	r.screen.sayUnseen(r.stderr)
	if s.Calls == 0 && !r.recorded {
		fmt.Fprintf(r.stderr, "footfall: no calls%s\n", cmp.Or(r.excerpt.whyNone(), whySilent(r.p)))
	}
	if s.Lost > 0 {
		fmt.Fprintf(r.stderr, "footfall: %d events were dropped: they came faster than they could be read; select fewer functions, use --sample, or a larger --buffer\n", s.Lost)
	}
	if s.Unmatched > 0 && !r.o.Newest {
		fmt.Fprintf(r.stderr, "footfall: %d exits had no entry: of calls that were dropped, or on other stacks\n", s.Unmatched)
	}
	if s.Cut > 0 {
		where := "or on a stack from malloc"
		if r.uprobes {
			where = "or deeper than 64 within each other"
		}
		fmt.Fprintf(r.stderr, "footfall: of %s the exit was not seen: still running, dropped, %s; no time is counted\n", output.Count(int(s.Cut), "call", "calls"), where)
	}
	if s.Left > 0 {
		fmt.Fprintf(r.stderr, "footfall: %s left by longjmp or an exception: the time is that until the next event of the thread\n", output.Count(int(s.Left), "call was", "calls were"))
	}
	return err
}

// printCounts is what --count shows; counts are by the numbers of functions.
func (r *recorder) printCounts(w io.Writer, counts []uint64) error {
	functions := r.header.Functions
	total := uint64(0)
	var called []int
	for i, n := range counts {
		total += n
		if n > 0 {
			called = append(called, i)
		}
	}
	slices.SortFunc(called, func(a, b int) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(functions[a].Name, functions[b].Name))
	})
	names := r.header.Names()
	fmt.Fprintf(w, "%15s  %s\n", "calls", "function")
	for _, i := range called {
		fmt.Fprintf(w, "%15d  %s\n", counts[i], names[i])
	}
	_, err := fmt.Fprintf(w, "%15d  %s\n", total, "total")
	return err
}

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
	r := &recorder{o: o, header: &in.Header, stderr: o.Stderr}
	if r.excerpt, err = o.choose(&in.Header); err != nil {
		return output.UsageError(err)
	}
	if err := r.openOutputs(context.Background(), o.Stdout); err != nil {
		return err
	}
	defer r.discard()
	passes := &passes{r: r, seen: make(map[int]bool)}
	lost, err := in.Read(func(t trace.Thread, events []trace.Event) {
		if len(events) == 0 {
			passes.end()
			return
		}
		passes.add(t, r.excerpt.events(events))
	})
	r.order(0, true)
	if err != nil {
		err = fmt.Errorf("%s: %w", o.Read, err)
	}
	return errors.Join(err, r.close(lost))
}

// A recording was made in passes over all threads, each of which took what a
// thread had written so far. What is earlier than the last event of a pass is all
// there after the next one.
type passes struct {
	r            *recorder
	seen         map[int]bool // threads, in this pass
	thread       int
	before, last uint64 // the latest event up to the pass before, and up to now
}

// end ends a pass.
func (p *passes) end() {
	if p.r.ordered {
		p.r.order(p.before, false)
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
	p.r.take(t, events)
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

// whyNone says that no function of the recording was chosen, if that is so.
func (c *excerpt) whyNone() string {
	if c == nil || len(c.take)+len(c.leave) == 0 {
		return ""
	}
	c.events(nil) // decides of all functions
	if slices.Contains(c.takes, true) {
		return ""
	}
	return fmt.Sprintf(": none of its %s fits", output.Count(len(c.header.Functions), "function", "functions"))
}

// root tells whether the function of a call is one of --graph-from.
func (c *excerpt) root(call *trace.Call) bool { return c.fits(c.roots, call.Function) }

func (c *excerpt) fits(patterns []patch.Pattern, function uint32) bool {
	f := &c.header.Functions[function]
	return slices.ContainsFunc(patterns, func(p patch.Pattern) bool {
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
	taken := false
	return slices.DeleteFunc(events, func(e trace.Event) bool {
		if e.Gap {
			return false
		}
		if !e.Word {
			taken = int(e.Function) < len(c.takes) && c.takes[e.Function]
		}
		return !taken
	})
}
