// Package web shows coverage that grows to browsers: the pages of a report (report/html),
// alive.
//
// [Serve] asks a [Source] for the coverage again and again, as the screen of package watch does,
// and compares one reading with the next by the same package, growth. All browsers look at that
// one reading. A page is made when it is asked for, so all there is to read can be read without
// JavaScript; with it, the page hears by server-sent events what has become other than it was.
//
// # Structure
//
// web.go has the loop that reads, state.go what is known after a reading, and when each row of a
// page became what it is; events.go tells browsers what is newer than what they have, pages.go
// serves pages, run.go what ran during a command, and guard.go who may ask. The frames are
// live.html, what browsers run is live.js.
//
// # Versions
//
// Each reading, and whatever else changes what pages show, is a version. A page says of which
// version it is; the events that it asks for are what became other since. So no browser misses
// anything, however slow it is, and whether its stream was cut or not.
package web

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"footfall/coverage"
	"footfall/output"
	"footfall/report/html"
	"footfall/watch/growth"
)

//go:embed live.html live.js live.css
var assets embed.FS

// A Source is where coverage comes from. No two of its functions are called at the same time
// but Command.Run, and none after Serve has returned.
type Source struct {
	// Title says what is watched now: "redis-server (pid 4711)".
	Title func() string
	// Next returns the coverage as it is now, in a Set that nobody changes later. An error,
	// such as that the process has ended, is shown beside what was read last; Next is called
	// again at the next tick.
	Next func() (*coverage.Set, error)
	// Contents returns what pages show of the last set that Next returned.
	Contents func() html.Contents
	// Reset makes counts start from zero at the next call of Next; nil: they cannot.
	Reset func() error
	// Said returns what people are to be told of the last calls of Next.
	Said func() []string
	// Command is what browsers may have run; nil: nothing.
	Command *Command
}

// A Command is a program that browsers may have run, to see what runs meanwhile.
type Command struct {
	// Line is the command as people read it.
	Line string
	// Prepare is called before Source.Reset and Run.
	Prepare func() error
	// Run runs it, writes what it writes to out and returns how it ended, "exit status 0",
	// or why it could not be started. It ends the program when ctx ends.
	Run func(ctx context.Context, out io.Writer) (ended string, err error)
	// Settled returns what pages show of what ran, once all of it is counted.
	Settled func() (html.Contents, error)
}

// Options are how to show it.
type Options struct {
	// Interval is the time from tick to tick; 0 is a second.
	Interval time.Duration
	// Shown returns the name to show for a source; nil: the name as it is.
	Shown func(name string) string
	// Names are those by which browsers may call this server, beside those that need no
	// name server: addresses and localhost.
	Names []string
	// Begun is called with the address to open, with its key, once there is something to see.
	Begun func(url string)
}

// A server is what browsers talk to.
type server struct {
	source  Source
	options Options
	key     string // who has it may look
	token   string // of forms

	mu sync.Mutex // held while a function of the source runs, and while a page is made
	state
	runs    []*run
	running *run
	wait    sync.WaitGroup // for the loop and commands

	ctx       context.Context // ends with the server
	changed   chan struct{}   // closed and replaced at each version; under mu
	listeners listeners
}

// Serve shows the coverage of src to who connects to l until ctx ends, and closes l. That the
// first call of Next fails is an error, and nothing is served.
func Serve(ctx context.Context, l net.Listener, src Source, o Options) error {
	defer l.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s := newServer(ctx, src, o)
	defer func() { // no function of the source runs from here on
		stop()
		s.wait.Wait()
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
	}()
	if s.tick(); s.picture == nil {
		return s.failed
	}
	served := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    1 << 16,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          nil,
	}
	done := make(chan error, 1)
	go func() { done <- served.Serve(l) }()
	if o.Begun != nil {
		o.Begun("http://" + hostOf(l.Addr()) + "/?key=" + s.key)
	}
	s.wait.Go(s.loop)
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if served.Shutdown(patience) != nil {
		_ = served.Close()
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// hostOf is what browsers call an address. One that stands for all has the name of the machine.
func hostOf(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	name, err := os.Hostname()
	if !ok || !tcp.IP.IsUnspecified() || err != nil {
		return a.String()
	}
	return net.JoinHostPort(name, strconv.Itoa(tcp.Port))
}

func newServer(ctx context.Context, src Source, o Options) *server {
	if o.Interval <= 0 {
		o.Interval = time.Second
	}
	if o.Shown == nil {
		o.Shown = func(name string) string { return name }
	}
	if name, err := os.Hostname(); err == nil {
		o.Names = append(o.Names, name)
	}
	s := &server{source: src, options: o, key: rand.Text(), token: rand.Text(), ctx: ctx, changed: make(chan struct{})}
	s.state = newState(func(name string) string { return output.Printable(o.Shown(name)) })
	return s
}

// loop reads at each tick. Reading should cost the machine less than half of its time, so the
// next tick is at least as far away as reading took.
func (s *server) loop() {
	for {
		begin := time.Now()
		interval := s.tick()
		took := time.Since(begin)
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(max(interval-took, took)):
		}
	}
}

// between is how often programs are looked at while a command runs, so that what is counted in
// libraries that are closed is not lost.
const between = 100 * time.Millisecond

// tick reads the coverage, and returns how long after that to read again.
func (s *server) tick() (interval time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if interval = s.options.Interval; s.running != nil {
		interval = min(interval, between)
	}
	if s.closed || s.ctx.Err() != nil {
		return interval
	}
	at := time.Now() // counts are read first, then solved: this is closer than the end
	set, err := s.source.Next()
	s.hear()
	if s.failed = err; err == nil {
		s.take(s.growth.Take(set, at), at)
	}
	s.announce()
	return interval
}

// hear takes what people are to be told.
func (s *server) hear() {
	s.title = s.source.Title()
	if s.source.Said == nil {
		return
	}
	for _, text := range s.source.Said() {
		s.say(text)
	}
}

// announce makes a version of what has changed. s.mu is held.
func (s *server) announce() {
	s.version++
	close(s.changed)
	s.changed = make(chan struct{})
}

// zero has counts start from zero, and reads. s.mu is held.
func (s *server) zero() error {
	if s.source.Reset == nil {
		return errors.New("these counts cannot start from zero")
	}
	if err := s.source.Reset(); err != nil {
		return fmt.Errorf("counts do not start from zero: %w", err)
	}
	s.restart()
	at := time.Now()
	set, err := s.source.Next()
	s.hear()
	if s.failed = err; err == nil {
		s.take(s.growth.Take(set, at), at)
	}
	s.say("counts start from zero")
	s.announce()
	return nil
}

// rate writes how many runs there are in a second.
func rate(n float64) string { return growth.Human(n) }
