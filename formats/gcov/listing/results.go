package listing

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime"

	"footfall/formats/gcov"
	"footfall/output"
)

// results are what comes out for a source, or for an operand as JSON.
type results struct {
	console // to be printed before the listing
	version gcov.Version
	sources []*listSource
	each    bool   // of one source, else of an operand
	name    string // of the file
	text    []byte // the listing, or what is left of it

	// A listing repeats a line for each function on it, and may be far larger than
	// the source: while one is made, what there is so far is written piece by
	// piece, of which each is received before more is made.
	pieces chan []byte
	late   []byte // messages since the first piece
}

// mostListed is how much of a listing is in memory.
const mostListed = 1 << 20

// stream hands on a listing in the making, if it has become large, and returns
// room for more of it. The first piece says that the console is as it will be.
func (r *results) stream(text []byte) []byte {
	if len(text) < mostListed {
		return text
	}
	r.pieces <- text
	return <-r.pieces // the same memory, written
}

// writeTo writes the listing, which begins with first. It takes all pieces, also
// where they cannot be written.
func (r *results) writeTo(w io.Writer, first []byte, done <-chan struct{}) (err error) {
	for piece := first; piece != nil; {
		if err == nil {
			_, err = w.Write(piece)
		}
		r.pieces <- piece[:0]
		select {
		case piece = <-r.pieces:
		case <-done:
			piece = nil
		}
	}
	if err == nil {
		_, err = w.Write(r.text)
	}
	return err
}

// An emitter writes results.
type emitter struct {
	*options
	stdout          *bufio.Writer
	stderr          io.Writer
	status          int
	lines, executed int // of all sources
}

func (e *emitter) write(c *console) {
	e.stderr.Write(c.stderr)
	e.stdout.Write(c.stdout)
	if c.status != 0 {
		e.status = c.status
	}
}

// emit writes results as soon as they are there, or begin to be; done tells that
// they are complete.
func (e *emitter) emit(r *results, done <-chan struct{}) {
	var first []byte
	select {
	case first = <-r.pieces:
	case <-done:
	}
	e.write(&r.console)
	lines := 0
	for _, src := range r.sources {
		lines += src.summary.lines
		e.executed += src.summary.executed
	}
	e.lines += lines
	switch {
	case !e.options.write:
		if r.each && separatesSummaries(r.version) {
			e.stdout.WriteByte('\n')
		}
	case e.toStdout:
		_ = r.writeTo(e.stdout, first, done) // a bufio.Writer keeps its error
	case !r.each:
		e.file(r, first, done, "Cannot open JSON output file %s\n", "Error writing JSON output file %s\n")
	case lines == 0:
		os.Remove(r.name)
		fmt.Fprintf(e.stdout, "Removing '%s'\n\n", r.name)
	default:
		e.file(r, first, done, "Could not open output file '%s'\n", "Error writing output file '%s'\n")
		e.stdout.WriteByte('\n')
	}
	e.stderr.Write(r.late)
	r.sources, r.text = nil, nil
}

// file writes the listing to its file.
func (e *emitter) file(r *results, first []byte, done <-chan struct{}, cannotOpen, cannotWrite string) {
	announce := announcesJSON(r.version) || r.each
	if announce && !r.each {
		fmt.Fprintf(e.stdout, "Creating '%s'\n", r.name)
	}
	f, err := output.Create(r.name)
	if err != nil {
		_ = r.writeTo(io.Discard, first, done)
		e.fail(r, cannotOpen)
		return
	}
	if announce && r.each {
		fmt.Fprintf(e.stdout, "Creating '%s'\n", r.name)
	}
	if first != nil {
		_ = f.Show() // an interrupt leaves something that has a name; Close tells what failed
	}
	_ = r.writeTo(f, first, done)
	if f.Close() != nil {
		e.fail(r, cannotWrite)
	}
}

func (e *emitter) fail(r *results, format string) {
	fmt.Fprintf(e.stderr, format, r.name)
	if hasStatus(r.version) {
		e.status = 6
	}
}

// A sequence carries out work several at a time and hands on what it is done for
// in order, with what tells that the work is done.
type sequence[T any] struct {
	hand    func(item T, done <-chan struct{})
	workers int
	pending []pendingWork[T]
}

type pendingWork[T any] struct {
	item T
	done chan struct{}
}

func newSequence[T any](hand func(T, <-chan struct{})) *sequence[T] {
	return &sequence[T]{hand: hand, workers: runtime.GOMAXPROCS(0)}
}

// add starts work for an item.
func (s *sequence[T]) add(item T, work func()) {
	if len(s.pending) >= 2*s.workers {
		s.next()
	}
	done := make(chan struct{})
	s.pending = append(s.pending, pendingWork[T]{item, done})
	go func() {
		work()
		close(done)
	}()
}

func (s *sequence[T]) next() {
	p := s.pending[0]
	s.pending = s.pending[1:]
	s.hand(p.item, p.done)
}

// drain waits for all work.
func (s *sequence[T]) drain() {
	for len(s.pending) > 0 {
		s.next()
	}
}
