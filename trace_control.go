package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"footfall/patch"
	"footfall/trace"
)

// A running trace is changed by footfall trace --set, through a socket whose name,
// in the kernel's abstract namespace, has the id of the traced process: nothing is
// left behind, and a name that is there is that of a trace which runs.

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

// A request is a change that waits for an answer.
type request struct {
	traceChange
	answer chan changeAnswer
}

func controlName(pid int) string { return fmt.Sprintf("@footfall/trace/%d", pid) }

// serveControl lets others change the trace of a process: those of the same user,
// and root.
func serveControl(pid int) (requests chan request, closer io.Closer, err error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: controlName(pid), Net: "unix"})
	if err != nil {
		return nil, nil, fmt.Errorf("--set will not work: %w", err)
	}
	requests = make(chan request)
	go func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return // closed
			}
			go answerControl(c, requests)
		}
	}()
	return requests, l, nil
}

const (
	controlSize     = 1 << 20
	controlPatience = 10 * time.Second
)

func answerControl(c *net.UnixConn, requests chan<- request) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(controlPatience))
	answer := changeAnswer{Error: "the trace has ended"}
	r := request{answer: make(chan changeAnswer, 1)}
	if err := permitted(c); err != nil {
		answer.Error = err.Error()
	} else if err := json.NewDecoder(io.LimitReader(c, controlSize)).Decode(&r.traceChange); err != nil {
		answer.Error = "request: " + err.Error()
	} else {
		select {
		case requests <- r:
			answer = <-r.answer
		case <-time.After(controlPatience / 2):
		}
	}
	_ = json.NewEncoder(c).Encode(answer)
}

// permitted tells whether the other side may change the trace.
func permitted(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) { peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	if peer.Uid != 0 && int(peer.Uid) != os.Geteuid() {
		return errors.New("only the user who traces may change it")
	}
	return nil
}

// set is --set.
func (o *traceOptions) set(cmd *cobra.Command, target string) error {
	change := traceChange{Off: o.off, On: o.on}
	for name, give := range map[string]func(){
		"function": func() { change.Functions = &o.functions }, "notrace": func() { change.Notrace = &o.notrace },
		"graph-from": func() { change.GraphFrom = &o.graphFrom }, "args": func() { change.Args = &o.args }, "depth": func() { change.Depth = &o.depth },
		"min-duration": func() { change.MinDuration = &o.minDuration }, "sample": func() { change.Sample = &o.sample },
	} {
		if cmd.Flags().Changed(name) {
			give()
		}
	}
	if change == (traceChange{}) {
		return usageError(errors.New("--set: say what to change: --function, --notrace, --graph-from, --args, --depth, --min-duration, --sample, --off or --on"))
	}
	p, err := openTarget(target)
	if err != nil {
		return err
	}
	defer p.Close()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: controlName(p.PID), Net: "unix"})
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
		return fmt.Errorf("process %d: %s", p.PID, answer.Error)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "footfall: process %d: %s\n", p.PID, answer.Text)
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
func (o traceOptions) changed(c *traceChange, arguments bool) (changed traceOptions, given bool, err error) {
	if c.Args != nil && !arguments {
		return o, false, errors.New("arguments can be changed where the trace was started with --args")
	}
	for _, list := range []struct {
		to   *[]string
		from *[]string
	}{{&o.functions, c.Functions}, {&o.notrace, c.Notrace}, {&o.graphFrom, c.GraphFrom}, {&o.args, c.Args}} {
		if list.from != nil {
			*list.to = withoutEmpty(*list.from)
			given = true
		}
	}
	if c.Depth != nil {
		o.depth = *c.Depth
	}
	if c.MinDuration != nil {
		o.minDuration = *c.MinDuration
	}
	if c.Sample != nil {
		o.sample = *c.Sample
	}
	return o, given, nil
}

func (r *recorder) tryChange(c *traceChange) (string, error) {
	o, given, err := r.o.changed(c, r.options.Arguments)
	if err != nil {
		return "", err
	}
	options, err := o.options()
	if err != nil {
		return "", err
	}
	options.Filter.MinTime = r.clock.Ticks(o.minDuration)
	if c.filters() {
		if r.options.Mode != patch.Filtered {
			return "", errNoFilter
		}
		for _, t := range r.programs {
			if err := t.session.SetFilter(options.Filter); err != nil {
				return "", err
			}
		}
		r.options.Filter = options.Filter
	}
	var on, off int
	if given || c.On || c.Off {
		if on, off, err = r.reselect(&o, c.Off || r.paused && !c.On); err != nil {
			return "", err
		}
	}
	o.exits = r.o.exits
	*r.o = o
	total := 0
	for _, t := range r.programs {
		total += t.session.On()
	}
	return changeText(total, on, off), nil
}

// changeText says what a change has come to.
func changeText(total, on, off int) string {
	text := fmt.Sprintf("tracing %s", counted(total, "function", "functions"))
	if on+off > 0 {
		text += fmt.Sprintf("; %d switched on, %d off", on, off)
	}
	return text
}

// reselect selects functions anew, or none, in all programs.
func (r *recorder) reselect(o *traceOptions, paused bool) (on, off int, err error) {
	chosen, err := newSelection(o.functions, o.notrace, o.graphFrom, o.args)
	if err != nil {
		return 0, 0, err
	}
	before := make(map[*traced]libraries)
	sites := make(map[*traced][]*patch.Site)
	found := 0
	for _, t := range r.programs {
		l := t.libraries
		before[t] = *l
		l.selection, l.described, l.paused = chosen, make(map[*patch.Site][]trace.Argument), paused
		if !paused && err == nil {
			sites[t], _, _, err = l.sites(l.Present())
			found += len(sites[t])
		}
	}
	if err == nil && found == 0 && !paused && len(r.programs) > 0 {
		err = errors.New("no function fits")
	}
	for _, t := range r.programs {
		if err != nil {
			*t.libraries = before[t]
			continue
		}
		if r.follows != nil && t.p.Check() != nil {
			continue // children that it has made stay as they are
		}
		var more, fewer int
		if more, fewer, err = t.session.Switch(sites[t]); err != nil {
			*t.libraries = before[t]
			continue
		}
		on, off = on+more, off+fewer
		r.addFunctions(t)
	}
	if err != nil {
		return 0, 0, err
	}
	r.paused = paused
	return on, off, nil
}

func withoutEmpty(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == "" })
}
