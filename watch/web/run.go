package web

import (
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"footfall/coverage"
	"footfall/demangle"
	"footfall/output"
	"footfall/report/html"
)

// A run is what ran in the programs while a command did.
type run struct {
	number int
	line   string
	begun  time.Time
	output capped

	// Once it has ended, under the server's mu.
	took    time.Duration // 0: it has not
	ended   string        // "exit status 0"
	err     error         // why there is nothing to show
	pages   *html.Pages   // nil: there is nothing to show
	summary string
	rows    template.HTML // of functions
}

// mostRuns is how many runs are kept: each has a set of its own.
const mostRuns = 5

// begin starts the command; there is one at a time. s.mu is held.
func (s *server) begin() (*run, error) {
	c := s.source.Command
	if c == nil {
		return nil, errors.New("there is no command to run: name one after --")
	}
	if s.running != nil {
		return s.running, nil
	}
	if s.failed != nil {
		return nil, s.failed
	}
	if err := c.Prepare(); err != nil {
		return nil, err
	}
	if err := s.zero(); err != nil {
		return nil, err
	}
	last := 0
	if n := len(s.runs); n > 0 {
		last = s.runs[n-1].number
	}
	r := &run{number: last + 1, line: c.Line, begun: time.Now()}
	s.runs = append(s.runs, r)
	s.runs = s.runs[max(0, len(s.runs)-mostRuns):]
	s.running = r
	s.wait.Go(func() { s.finish(r) })
	return r, nil
}

// finish runs the command and keeps what ran.
func (s *server) finish(r *run) {
	c := s.source.Command
	ended, err := c.Run(s.ctx, &r.output)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = nil
	r.took, r.ended, r.err = max(time.Since(r.begun), 1), ended, err
	defer s.announce()
	if err != nil || s.ctx.Err() != nil {
		return
	}
	contents, err := c.Settled()
	s.hear()
	if err != nil {
		r.err = err
		return
	}
	contents.Order = "ran"
	contents.Title = fmt.Sprintf("%s during %s", s.title, r.line)
	r.pages = new(html.Pages)
	r.pages.Update(contents)
	r.summary, r.rows = ranRows(contents.Set, contents.Shown, r.pages)
	s.say(fmt.Sprintf("%s: %s", r.line, ended))
}

// Of a run, for the frames of pages.

func (r *run) Line() string        { return r.line }
func (r *run) Begun() string       { return r.begun.Format(time.TimeOnly) }
func (r *run) Ended() string       { return r.ended }
func (r *run) Summary() string     { return r.summary }
func (r *run) Rows() template.HTML { return r.rows }
func (r *run) Address() string     { return fmt.Sprintf("run/%d/", r.number) }

func (r *run) Took() string {
	if r.took == 0 {
		return ""
	}
	return r.took.Round(time.Millisecond).String()
}

// mostRan is how many functions that ran are listed.
const mostRan = 300

// ranRows lists the functions with lines in a set of what ran, the most lines first.
func ranRows(set *coverage.Set, shown func(string) string, pages *html.Pages) (summary string, rows template.HTML) {
	type function struct {
		path, name string
		line       int32
		calls      int64
		lines      int
	}
	var list []function
	lines := 0
	for _, f := range set.All() {
		lines += len(f.Lines)
		for i, fn := range f.Functions {
			if n := len(f.LinesOf(i)); n > 0 {
				list = append(list, function{f.Name, demangle.Title(fn.Symbols()), fn.StartLine, fn.Count, n})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b function) int { return cmp.Compare(b.lines, a.lines) })
	summary = fmt.Sprintf("%s and %s ran", output.Plural(len(list), "function"), output.Plural(lines, "line"))
	var b strings.Builder
	for _, f := range list[:min(len(list), mostRan)] {
		fmt.Fprintf(&b, `<tr><td>%d<td>%d<td><a href="%s">%s</a><td>%s:%d`+"\n", f.lines, f.calls,
			pages.Link(f.path, f.line), template.HTMLEscapeString(output.Printable(f.name)), template.HTMLEscapeString(output.Printable(shown(f.path))), f.line)
	}
	if more := len(list) - mostRan; more > 0 {
		fmt.Fprintf(&b, "<tr><td colspan=4>and %d more, in the files below\n", more)
	}
	return summary, template.HTML(b.String())
}

// run is the run that a request is about, nil if there is none.
func (s *server) run(r *http.Request) *run {
	number, err := strconv.Atoi(r.PathValue("run"))
	if err != nil {
		return nil
	}
	for _, run := range s.runs {
		if run.number == number {
			return run
		}
	}
	return nil
}

// capped keeps the beginning of what is written to it.
type capped struct {
	mu   sync.Mutex
	text []byte
	more int
}

// mostOutput is how much of what a command writes is shown.
const mostOutput = 64 << 10

func (c *capped) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(p), mostOutput-len(c.text))
	c.text = append(c.text, p[:n]...)
	c.more += len(p) - n
	return len(p), nil
}

func (c *capped) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := strings.Split(string(c.text), "\n")
	for i, line := range lines {
		lines[i] = output.Printable(strings.ReplaceAll(line, "\t", "    "))
	}
	text := strings.Join(lines, "\n")
	if c.more > 0 {
		text += fmt.Sprintf("\n... and %s more", output.Plural(c.more, "byte"))
	}
	return text
}
