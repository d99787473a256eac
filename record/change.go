//go:build linux

package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"footfall/output"
	"footfall/trace"
)

// A traceChange is what --set asks for; what is nil stays as it is.
type traceChange struct {
	Functions, Notrace, GraphFrom, Args *[]string
	Depth                               *int
	MinDuration                         *time.Duration
	Sample                              *string
	Off, On                             bool
}

// A changeAnswer is what the trace says.
type changeAnswer struct{ Text, Error string }

// set is --set.
func (o *Options) set(target string) error {
	change := traceChange{Off: o.Off, On: o.On}
	for name, give := range map[string]func(){
		"function": func() { change.Functions = &o.Functions }, "notrace": func() { change.Notrace = &o.Notrace },
		"graph-from": func() { change.GraphFrom = &o.GraphFrom }, "args": func() { change.Args = &o.Args }, "depth": func() { change.Depth = &o.Depth },
		"min-duration": func() { change.MinDuration = &o.MinDuration }, "sample": func() { change.Sample = &o.Sample },
	} {
		if o.Given(name) {
			give()
		}
	}
	if change == (traceChange{}) {
		return output.UsageError(errors.New("--set: say what to change: --function, --notrace, --graph-from, --args, --depth, --min-duration, --sample, --off or --on"))
	}
	p, err := openTarget(target)
	if err != nil {
		return err
	}
	defer p.Close()
	c, err := dialControl(p)
	if err != nil {
		if errors.Is(err, unix.ECONNREFUSED) {
			return fmt.Errorf("process %d: no footfall traces it here", p.PID)
		}
		return fmt.Errorf("process %d: ask the footfall that traces it: %w", p.PID, err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(controlPatience))
	var answer changeAnswer
	if err := json.NewEncoder(c).Encode(change); err != nil {
		return err
	}
	if err := json.NewDecoder(io.LimitReader(c, controlSize)).Decode(&answer); err != nil {
		return fmt.Errorf("process %d: the trace gives no answer: %w", p.PID, err)
	}
	if answer.Error != "" {
		return fmt.Errorf("process %d: %s", p.PID, output.Printable(answer.Error))
	}
	fmt.Fprintf(o.Stderr, "footfall: process %d: %s\n", p.PID, output.Printable(answer.Text))
	return nil
}

// change makes a change, between two reads.
func (r *recorder) change(c *traceChange) changeAnswer {
	text, err := r.try(c)
	if err != nil {
		return changeAnswer{Error: err.Error()}
	}
	fmt.Fprintf(r.stderr, "footfall: changed by --set: %s\n", text)
	return changeAnswer{Text: text}
}

// filters tells whether filters are to be changed.
func (c *traceChange) filters() bool {
	return c.Depth != nil || c.MinDuration != nil || c.Sample != nil || c.GraphFrom != nil
}

// errNoFilter is why filters cannot be changed.
var errNoFilter = errors.New("filters can be changed where the trace was started with one: --graph-from, --depth, --min-duration or --sample")

// changed returns the options after a change, and whether functions are to be selected anew.
// arguments tells whether the trace was started with some.
func (o Options) changed(c *traceChange, arguments bool) (changed Options, given bool, err error) {
	if c.Args != nil && !arguments {
		return o, false, errors.New("arguments can be changed where the trace was started with --args")
	}
	for _, list := range []struct {
		to   *[]string
		from *[]string
	}{{&o.Functions, c.Functions}, {&o.Notrace, c.Notrace}, {&o.GraphFrom, c.GraphFrom}, {&o.Args, c.Args}} {
		if list.from != nil {
			*list.to = withoutEmpty(*list.from)
			given = true
		}
	}
	if c.Depth != nil {
		o.Depth = *c.Depth
	}
	if c.MinDuration != nil {
		o.MinDuration = *c.MinDuration
	}
	if c.Sample != nil {
		o.Sample = *c.Sample
	}
	return o, given, nil
}

// try makes a change, and says what it has come to.
func (r *recorder) try(c *traceChange) (string, error) {
	o, given, err := r.o.changed(c, r.settings.arguments)
	if err != nil {
		return "", err
	}
	if c.filters() {
		if err := r.changeFilter(&o); err != nil {
			return "", err
		}
	}
	var on, off int
	if given || c.On || c.Off {
		if on, off, err = r.reselect(&o, c.Off || r.paused && !c.On); err != nil {
			return "", err
		}
	}
	o.Exits = r.o.Exits
	*r.o = o
	total := 0
	for _, t := range r.programs {
		total += t.recorded()
	}
	text := fmt.Sprintf("tracing %s", output.Count(total, "function", "functions"))
	if on+off > 0 {
		text += fmt.Sprintf("; %d switched on, %d off", on, off)
	}
	return text, nil
}

// changeFilter sets the filter of changed options.
func (r *recorder) changeFilter(o *Options) error {
	set, err := o.settings()
	if err != nil {
		return err
	}
	mixed := func(t *program) bool { return t.sites != nil && t.probes != nil }
	switch {
	case r.settings.mode != trace.Filtered:
		return errNoFilter
	case set.filters() && slices.ContainsFunc(r.programs, mixed):
		return fmt.Errorf("of some functions: %w", errFilters)
	}
	for _, t := range r.programs {
		for _, b := range t.backends() {
			if err := b.SetFilter(set.filter); err != nil {
				return err
			}
		}
	}
	r.settings.filter = set.filter
	r.header.Filter = set.filter
	if r.outputs != nil {
		r.outputs.setFilter(set.filter)
	}
	return nil
}

// reselect selects functions anew, or none, in all programs.
func (r *recorder) reselect(o *Options, paused bool) (on, off int, err error) {
	s, err := o.selection()
	if err != nil {
		return 0, 0, err
	}
	before := make(map[*program]selected)
	choices := make(map[*program]choice)
	found := 0
	for _, t := range r.programs {
		before[t] = t.selected
		t.aim(s)
		if !paused && err == nil {
			c := choice{}
			c, err = t.choose(t.images.Present())
			choices[t] = c
			found += c.size()
		}
	}
	if err == nil && found == 0 && !paused && len(r.programs) > 0 {
		err = errors.New("no function fits")
	}
	for _, t := range r.programs {
		if err != nil {
			t.selected = before[t]
			continue
		}
		if t.paused = paused; r.follows != nil && t.p.Check() != nil {
			continue // children that it has made stay as they are
		}
		var more, fewer int
		if more, fewer, err = t.switchTo(choices[t]); err != nil {
			t.selected, t.paused = before[t], r.paused
			continue
		}
		on, off = on+more, off+fewer
	}
	r.setOrder()
	if err != nil {
		return 0, 0, err
	}
	r.paused = paused
	return on, off, nil
}

func withoutEmpty(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == "" })
}
