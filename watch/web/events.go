package web

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"footfall/output"
	pages "footfall/report/html"
	"footfall/watch/growth"
)

// An event is what became other than a page has it.
type event struct {
	Version int    `json:"version"`
	Title   string `json:"title"`
	State   string `json:"state"`           // what is shown beside the title
	Ended   string `json:"ended,omitempty"` // why there is no new reading
	Reload  bool   `json:"reload,omitempty"`
	// Since is the time since the start, in seconds; Growth the lines that were covered for
	// the first time in it; Rate the runs of lines a second.
	Since    int      `json:"since"`
	Growth   int      `json:"growth"`
	Rate     string   `json:"rate,omitempty"`
	Activity string   `json:"activity,omitempty"` // the rate of the last ticks, drawn
	Said     []string `json:"said,omitempty"`

	Totals []pages.Total `json:"totals"` // of the page's source, or of all

	// Of the index.
	Files  [][]any `json:"files,omitempty"` // path, levels, covered and total of each metric
	Recent *string `json:"recent,omitempty"`
	Hot    *string `json:"hot,omitempty"`
	Worst  *string `json:"worst,omitempty"`
	Missed string  `json:"missed,omitempty"`

	// Of a source.
	Lines     [][2]any `json:"lines,omitempty"` // number, what is in the item of the list
	Heat      [][2]any `json:"heat,omitempty"`  // number, runs a second, of all that run
	Functions *string  `json:"functions,omitempty"`
}

// The pages that events are about: the index, a source below files, or another, with the head only.
const (
	indexPage = "index.html"
	filesDir  = "files/"
)

// event returns what became of a page since a version. s.mu is held.
func (s *server) event(page string, since int) *event {
	s.refresh()
	e := s.head()
	name, source := strings.CutPrefix(page, filesDir)
	if !source {
		name = ""
	}
	e.Totals = s.pages.Totals(name)
	switch {
	case page == indexPage:
		s.indexEvent(e, since)
	case source:
		s.sourceEvent(e, name, since)
	}
	return e
}

// head is what is on every page.
func (s *server) head() *event {
	p := s.picture
	e := &event{Version: s.version, Title: s.title, Since: int(p.Since.Seconds()), Growth: p.NewStart, Said: s.said}
	e.State = growth.Clock(p.Since)
	if p.Seconds > 0 {
		e.Rate, e.Activity = rate(p.Rate(p.Runs)), growth.Sparkline(s.activity)
	}
	if s.failed != nil {
		e.Ended = output.Printable(s.failed.Error())
	}
	return e
}

func (s *server) indexEvent(e *event, since int) {
	if since < s.tree {
		e.Reload = since > 0
	}
	var changed []*entry
	for _, known := range s.entries {
		if known.version > since {
			changed = append(changed, known)
		}
	}
	slices.SortFunc(changed, func(a, b *entry) int { return cmp.Compare(a.Path, b.Path) })
	for _, known := range changed {
		row := []any{known.Path, known.Levels}
		for _, n := range known.Ratios {
			row = append(row, n)
		}
		e.Files = append(e.Files, row)
	}
	recent, hot := s.recentRows(""), s.hotRows("")
	e.Recent, e.Hot = &recent, &hot
	if s.worst.version > since {
		e.Worst, e.Missed = &s.worst.html, s.missed
	}
}

func (s *server) sourceEvent(e *event, name string, since int) {
	v := s.view(name)
	if v == nil {
		e.Reload = true
		return
	}
	for number, row := range v.rows {
		if row.version > since {
			e.Lines = append(e.Lines, [2]any{number, row.html})
		}
	}
	slices.SortFunc(e.Lines, func(a, b [2]any) int { return cmp.Compare(a[0].(int32), b[0].(int32)) })
	e.Heat = v.heat
	if v.functions.version > since {
		e.Functions = &v.functions.html
	}
}

// recentRows are the rows of what became covered in the last minute. root leads to the index.
func (s *server) recentRows(root string) string {
	var b strings.Builder
	shown := 0
	for _, r := range s.recent {
		age := time.Since(r.at)
		if age > recentFor || shown == recentShown {
			break
		}
		shown++
		name := s.growth.FileName(r.path)
		function := r.function
		if function == "" {
			function = name
		}
		fmt.Fprintf(&b, `<tr><td>%d s<td>+%d<td><a href="%s">%s</a><td>%s:%d`+"\n",
			int(age.Seconds()), r.lines, root+s.pages.Link(r.path, r.first), html.EscapeString(function), html.EscapeString(name), r.first)
	}
	if shown == 0 {
		return "<tr><td colspan=4>nothing that had not run before\n"
	}
	return b.String()
}

// hotRows are those of the lines that run most.
func (s *server) hotRows(root string) string {
	var b strings.Builder
	for _, l := range s.hottest() {
		name := s.growth.FileName(l.path)
		fmt.Fprintf(&b, `<tr><td>%s<td><a href="%s">%s:%d</a><td><code>%s</code>`+"\n",
			rate(s.picture.Rate(l.Runs)), root+s.pages.Link(l.path, l.Number), html.EscapeString(name), l.Number, html.EscapeString(l.text))
	}
	if b.Len() == 0 {
		return "<tr><td colspan=3>nothing runs\n"
	}
	return b.String()
}

// keepAlive is how often something is sent if there is nothing new, so that those between us
// and the browser do not think that we are gone.
const keepAlive = 15 * time.Second

// events streams what becomes other than a page has it: ?page=files/main.c.html&since=VERSION.
func (s *server) events(w http.ResponseWriter, r *http.Request) {
	ctx, leave, err := s.listeners.enter(r.Context(), s.browser(r))
	if err != nil {
		http.Error(w, "footfall: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer leave()
	page := r.FormValue("page")
	since, _ := strconv.Atoi(r.FormValue("since"))
	if last, err := strconv.Atoi(r.Header.Get("Last-Event-ID")); err == nil {
		since = last // the browser comes back to a stream that was cut
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprintf(w, "retry: %d\n\n", comeBack.Milliseconds())
	stream := http.NewResponseController(w)
	for {
		s.mu.Lock()
		changed := s.changed
		var message []byte
		if s.version != since {
			e := s.event(page, since)
			body, err := json.Marshal(e)
			if err == nil {
				message = fmt.Appendf(nil, "id: %d\ndata: %s\n\n", e.Version, body)
			}
			since = e.Version
		}
		s.mu.Unlock()
		if message == nil {
			message = []byte(":\n\n")
		}
		_ = stream.SetWriteDeadline(time.Now().Add(keepAlive))
		if _, err := w.Write(message); err != nil || stream.Flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-time.After(keepAlive):
		case <-ctx.Done():
			return
		}
	}
}

// Limits of streams of events.
const (
	mostListeners = 64
	// mostOfBrowser is how many one browser has: it opens six connections to a server, and needs
	// some to load pages.
	mostOfBrowser = 4
	// comeBack is after how long browsers open a stream again that has ended.
	comeBack = time.Second
)

// listeners are the streams that are open, the oldest first.
type listeners struct {
	mu   sync.Mutex
	open []listener
	next int
}

type listener struct {
	number  int
	browser string
	end     context.CancelFunc
}

// enter takes a place for a stream of a browser, which lasts until ctx ends and is given back by
// leave. If the browser has too many the oldest one ends; its page comes back, and so all of
// them get something in turn.
func (l *listeners) enter(r context.Context, browser string) (ctx context.Context, leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= mostListeners {
		return nil, nil, fmt.Errorf("%d pages are being kept alive, which is the most; this one shows how it was when it was loaded", mostListeners)
	}
	own, oldest := 0, -1
	for i, other := range l.open {
		if browser != "" && other.browser == browser {
			if own++; oldest < 0 {
				oldest = i
			}
		}
	}
	if own >= mostOfBrowser {
		l.open[oldest].end()
		l.open = slices.Delete(l.open, oldest, oldest+1)
	}
	ctx, end := context.WithCancel(r)
	l.next++
	number := l.next
	l.open = append(l.open, listener{number, browser, end})
	return ctx, func() {
		end()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open = slices.DeleteFunc(l.open, func(o listener) bool { return o.number == number })
	}, nil
}
