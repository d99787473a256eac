package web

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"footfall/coverage"
	"footfall/report/html"
)

// A program is what is watched: a set that changes.
type program struct {
	set   *coverage.Set
	err   error
	zeros int
	rng   *rand.Rand
}

// newProgram has as many files, of functions of two lines each.
func newProgram(files int) *program {
	p := &program{set: new(coverage.Set), rng: rand.New(rand.NewPCG(7, 7))}
	for i := range files {
		p.add(fmt.Sprintf("/src/d%d/f%d.c", i%3, i), 0)
	}
	return p
}

func (p *program) add(name string, count int64) {
	f := &coverage.File{Name: name}
	for i := range int32(5) {
		f.Functions = append(f.Functions, &coverage.Function{StartLine: 2*i + 1, EndLine: 2*i + 2, Name: fmt.Sprintf("f%d", i), Count: count})
		f.Lines = append(f.Lines, coverage.Line{Number: 2*i + 1, Count: count, Branches: []coverage.Branch{{Count: count}, {}}}, coverage.Line{Number: 2*i + 2, Count: count})
	}
	p.set = p.set.With(nil, f)
}

// run runs some lines of some files.
func (p *program) run() {
	for range p.rng.IntN(4) {
		f := p.set.At(p.rng.IntN(p.set.Len())).Clone()
		i := p.rng.IntN(len(f.Functions))
		f.Functions[i].Count++
		f.Lines[2*i].Count++
		f.Lines[2*i+1].Count += int64(p.rng.IntN(2))
		p.set = p.set.With(nil, f)
	}
}

func (p *program) source() Source {
	return Source{
		Title: func() string { return "server <pid 1>" },
		Next:  func() (*coverage.Set, error) { return p.set, p.err },
		Contents: func() html.Contents {
			return html.Contents{Set: p.set, Shown: shown, Root: "/src", ReadSource: func(string) ([]byte, error) {
				return []byte(strings.Repeat("a < b;\n", 10)), nil
			}}
		},
		Reset: func() error {
			p.zeros++
			for _, f := range p.set.Files() {
				p.add(f.Name, 0)
			}
			return nil
		},
	}
}

func shown(name string) string { return strings.TrimPrefix(name, "/src/") }

// serving returns a server, after its first tick, and where it is. It reads when it is told to.
func serving(t *testing.T, src Source) (*server, string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	s := newServer(ctx, src, Options{Shown: shown, Names: []string{"known.example"}})
	s.tick()
	h := httptest.NewUnstartedServer(s.handler())
	h.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	h.Start()
	t.Cleanup(func() {
		stop()
		s.wait.Wait()
		h.Close()
	})
	return s, h.URL
}

// get returns a page as a browser with the key gets it.
func (s *server) get(t *testing.T, address string) string {
	t.Helper()
	r, err := http.Get(address + "?key=" + s.key)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v\n%s", address, r.Status, err, body)
	}
	return string(body)
}

func TestWhoMayAsk(t *testing.T) {
	s, address := serving(t, newProgram(1).source())
	here := strings.TrimPrefix(address, "http://")
	_, port, _ := net.SplitHostPort(here)
	form := func(token string) string { return "token=" + token }
	for _, c := range []struct {
		what, method, path, host, body string
		header                         http.Header
		status                         int
	}{
		{"no key", "GET", "/", here, "", nil, 401},
		{"no key, of an event", "GET", "/events?page=index.html", here, "", nil, 401},
		{"no key, of a script", "GET", "/live.js", here, "", nil, 401},
		{"another key", "GET", "/?key=" + s.token, here, "", nil, 401},
		{"another cookie", "GET", "/index.html", here, "", http.Header{"Cookie": {"footfall-" + port + "=" + s.token + ".x"}}, 401},
		{"an empty cookie", "GET", "/index.html", here, "", http.Header{"Cookie": {"footfall-" + port + "="}}, 401},
		{"the key", "GET", "/?key=" + s.key, here, "", nil, 303},
		{"the cookie", "GET", "/", here, "", http.Header{"Cookie": {"footfall-" + port + "=" + s.key + ".x"}}, 200},
		{"localhost", "GET", "/index.html?key=" + s.key, "localhost:1", "", nil, 200},
		{"an address", "GET", "/index.html?key=" + s.key, "[::1]:1", "", nil, 200},
		{"a known name", "GET", "/index.html?key=" + s.key, "KNOWN.example", "", nil, 200},
		{"a rebound name", "GET", "/index.html?key=" + s.key, "evil.example:" + port, "", nil, 421},
		{"a name like an address", "GET", "/index.html?key=" + s.key, "127.0.0.1.evil.example", "", nil, 421},
		{"nothing there", "GET", "/nothing?key=" + s.key, here, "", nil, 404},
		{"no such source", "GET", "/files/x.html?key=" + s.key, here, "", nil, 404},
		{"a way out", "GET", "/files/..%2f..%2fetc%2fpasswd?key=" + s.key, here, "", nil, 404},
		{"no such run", "GET", "/run/1/?key=" + s.key, here, "", nil, 404},
		{"to do by GET", "GET", "/zero?key=" + s.key + "&token=" + s.token, here, "", nil, 404},
		{"no token", "POST", "/zero?key=" + s.key, here, "", nil, 403},
		{"the token in the address", "POST", "/zero?key=" + s.key + "&token=" + s.token, here, "", nil, 403},
		{"another token", "POST", "/zero?key=" + s.key, here, form(s.key), nil, 403},
		{"no key, but the token", "POST", "/zero", here, form(s.token), nil, 401},
		{"from another site", "POST", "/zero?key=" + s.key, here, form(s.token), http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		{"from another port", "POST", "/zero?key=" + s.key, here, form(s.token), http.Header{"Origin": {"http://127.0.0.1:1"}}, 403},
		{"from nowhere", "POST", "/zero?key=" + s.key, here, form(s.token), http.Header{"Origin": {"null"}}, 403},
		{"too large", "POST", "/zero?key=" + s.key, here, "a=" + strings.Repeat("a", mostForm) + "&" + form(s.token), nil, 403},
		{"from our page", "POST", "/zero?key=" + s.key, here, form(s.token), http.Header{"Origin": {address}, "Sec-Fetch-Site": {"same-origin"}}, 303},
		{"no command", "POST", "/run?key=" + s.key, here, form(s.token), nil, 409},
	} {
		r, err := http.NewRequest(c.method, address+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.header != nil {
			r.Header = c.header
		}
		r.Host = c.host
		if c.method == "POST" {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		response, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != c.status {
			t.Errorf("%s: %s, want %d\n%s", c.what, response.Status, c.status, body)
		}
		for _, name := range []string{"Content-Security-Policy", "X-Content-Type-Options", "Cache-Control"} {
			if response.Header.Get(name) == "" {
				t.Errorf("%s: no %s", c.what, name)
			}
		}
		if strings.Contains(string(body), s.key) {
			t.Errorf("%s: the answer has the key", c.what)
		}
	}
}

// A reader has a page and hears what became other.
type reader struct {
	page    string
	version int
	files   map[string]string // of the index
	lines   map[int32]string  // of a source
}

var versionOf = regexp.MustCompile(`data-version=(\d+)`)

// load is how a browser begins: with the page, and the version that it says.
func (r *reader) load(t *testing.T, s *server, address string) {
	t.Helper()
	found := versionOf.FindStringSubmatch(s.get(t, address+"/"+r.page))
	if found == nil {
		t.Fatalf("%s does not say of which version it is", r.page)
	}
	fmt.Sscan(found[1], &r.version)
	s.mu.Lock()
	defer s.mu.Unlock()
	r.files, r.lines = truth(s, r.page)
}

// truth is what a page that is made anew shows.
func truth(s *server, page string) (files map[string]string, lines map[int32]string) {
	var fresh html.Pages
	fresh.Update(s.source.Contents())
	files, lines = make(map[string]string), make(map[int32]string)
	if name, source := strings.CutPrefix(page, filesDir); source {
		rows, _ := fresh.Rows(name)
		for _, row := range rows {
			lines[row.Number] = string(row.HTML)
		}
		return files, lines
	}
	for _, e := range fresh.Entries() {
		files[e.Path] = fmt.Sprint(e.Levels, e.Ratios)
	}
	return files, lines
}

// hear takes what is new.
func (r *reader) hear(t *testing.T, s *server, address string) {
	t.Helper()
	s.mu.Lock()
	body, err := json.Marshal(s.event(r.page, r.version))
	s.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	var e struct {
		Version int
		Reload  bool
		Files   [][]any
		Lines   [][2]any
	}
	if err := json.Unmarshal(body, &e); err != nil {
		t.Fatal(err)
	}
	if r.version = e.Version; e.Reload {
		r.load(t, s, address)
		return
	}
	for _, f := range e.Files {
		r.files[f[0].(string)] = fmt.Sprint(f[1], f[2:])
	}
	for _, l := range e.Lines {
		r.lines[int32(l[0].(float64))] = l[1].(string)
	}
}

// TestNothingIsMissed has pages hear at any time, of versions that they have skipped, over resets
// and files that come and go, and compares what they show with pages that are loaded anew.
func TestNothingIsMissed(t *testing.T) {
	p := newProgram(12)
	s, address := serving(t, p.source())
	readers := []*reader{{page: indexPage}, {page: indexPage}, {page: "files/d0~f0.c.html"}, {page: "files/d1~f1.c.html"}, {page: "files/d0~f0.c.html"}}
	for _, r := range readers {
		r.load(t, s, address)
	}
	for step := range 300 {
		switch p.run(); {
		case step%50 == 20:
			s.mu.Lock()
			if err := s.zero(); err != nil {
				t.Fatal(err)
			}
			s.mu.Unlock()
		case step%60 == 30:
			p.add(fmt.Sprintf("/src/late/%d.c", step), 1)
		case step%60 == 45:
			p.set = p.set.With(map[string]bool{p.set.Name(p.set.Len() - 1): true})
		case step%70 == 60:
			s.viewed = make(map[string]*viewed) // nobody looked for long
		}
		s.tick()
		for i, r := range readers {
			if p.rng.IntN(i+2) > 0 {
				continue
			}
			r.hear(t, s, address)
			files, lines := truth(s, r.page)
			if got, want := fmt.Sprint(r.files), fmt.Sprint(files); got != want {
				t.Fatalf("step %d: a page has\n%s\nin place of\n%s", step, got, want)
			}
			if got, want := fmt.Sprint(r.lines), fmt.Sprint(lines); got != want {
				t.Fatalf("step %d: the page of a source has\n%s\nin place of\n%s", step, got, want)
			}
		}
	}
	if p.zeros == 0 {
		t.Error("counts never began from zero")
	}
}

// TestStreams reads events as browsers do, several at once.
func TestStreams(t *testing.T) {
	p := newProgram(2)
	s, address := serving(t, p.source())
	var streams []*bufio.Scanner
	for range 3 {
		r, err := http.Get(address + "/events?page=index.html&since=0&key=" + s.key)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		stream := bufio.NewScanner(r.Body)
		stream.Buffer(nil, 1<<20)
		streams = append(streams, stream)
	}
	next := func(stream *bufio.Scanner) (e event) {
		for stream.Scan() {
			if data, ok := strings.CutPrefix(stream.Text(), "data: "); ok {
				if err := json.Unmarshal([]byte(data), &e); err != nil {
					t.Fatal(err)
				}
				return e
			}
		}
		t.Fatalf("the stream ended: %v", stream.Err())
		return e
	}
	for _, stream := range streams {
		if e := next(stream); e.Title != "server <pid 1>" || len(e.Files) == 0 || e.Growth != 0 {
			t.Errorf("the first event: %+v", e)
		}
	}
	p.add("/src/d0/f0.c", 7)
	s.tick()
	for _, stream := range streams {
		e := next(stream)
		if e.Growth != 10 || e.Rate == "" || !strings.Contains(*e.Hot, "a &lt; b;") || !strings.Contains(*e.Recent, "d0/f0.c:1") || e.Totals[0].Covered != 10 {
			t.Errorf("10 lines ran 7 times: %+v", e)
		}
	}
	p.err = errors.New("the process has ended")
	s.tick()
	for _, stream := range streams {
		if e := next(stream); e.Ended != "the process has ended" || e.Growth != 10 {
			t.Errorf("it ended: %+v", e)
		}
	}
	if page := s.get(t, address+"/index.html"); !strings.Contains(page, "the process has ended") || !strings.Contains(page, "d0/") {
		t.Error("what was read last does not stay")
	}
}

// TestTurns is about a browser with more pages than it has connections.
func TestTurns(t *testing.T) {
	var l listeners
	var first context.Context
	for i := range 2 * mostListeners {
		ctx, leave, err := l.enter(context.Background(), "b")
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
		if i == 0 {
			first = ctx
		}
		if ended := first.Err() != nil; ended != (i >= mostOfBrowser) {
			t.Errorf("after %d streams the first has ended: %t", i+1, ended)
		}
	}
	if len(l.open) != mostOfBrowser {
		t.Errorf("%d streams of a browser", len(l.open))
	}
	for i := range 2 * mostListeners {
		_, leave, err := l.enter(context.Background(), fmt.Sprint(i))
		if full := i >= mostListeners-mostOfBrowser; full != (err != nil) {
			t.Errorf("stream %d: %v", i, err)
		}
		if err == nil {
			defer leave()
		}
	}
}

// post presses a button.
func (s *server) post(t *testing.T, address string) string {
	t.Helper()
	r, err := http.NewRequest("POST", address+"?key="+s.key, strings.NewReader(url.Values{"token": {s.token}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusSeeOther {
		t.Fatalf("%s: %s\n%s", address, response.Status, body)
	}
	return response.Header.Get("Location")
}

func TestCommand(t *testing.T) {
	p := newProgram(3)
	src := p.source()
	goOn, ended := make(chan error), make(chan struct{})
	src.Command = &Command{
		Line:    "client <x>",
		Prepare: func() error { return nil },
		Run: func(ctx context.Context, out io.Writer) (string, error) {
			defer close(ended)
			fmt.Fprintf(out, "hello <&\n\x1b[31m%s", strings.Repeat("x", mostOutput))
			select {
			case err := <-goOn:
				return "exit status 7", err
			case <-ctx.Done():
				return "ended by a signal", nil
			}
		},
		Settled: func() (html.Contents, error) {
			c := p.source().Contents()
			p.add("/src/d0/f0.c", 1)
			c.Set = coverage.NewSet(p.set.File("/src/d0/f0.c").Clone())
			return c, nil
		},
	}
	s, address := serving(t, src)
	where := s.post(t, address+"/run")
	if again := s.post(t, address+"/run"); again != where || p.zeros != 1 {
		t.Errorf("two at a time: %s and %s, %d resets", where, again, p.zeros)
	}
	if page := s.get(t, address+where); !strings.Contains(page, "It runs") || !strings.Contains(page, "client &lt;x&gt;") {
		t.Errorf("while it runs:\n%s", page)
	}
	goOn <- nil
	<-ended
	s.wait.Wait()
	page := s.get(t, address+where)
	for _, want := range []string{"exit status 7", "hello &lt;&amp;\n", `\x1b[31m`, "and 14 bytes more", "5 functions and 10 lines ran", `href="files/d0~f0.c.html#L1"`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if page := s.get(t, address+where+"files/d0~f0.c.html"); !strings.Contains(page, "<b") || strings.Contains(page, "live.js") {
		t.Errorf("the page of a source:\n%s", page)
	}
	// Of many the last ones are kept.
	for range mostRuns {
		ended = make(chan struct{})
		where := s.post(t, address+"/run")
		goOn <- errors.New("cannot be started")
		<-ended
		s.wait.Wait()
		if page := s.get(t, address+where); !strings.Contains(page, "cannot be started") {
			t.Errorf("one that was not started:\n%s", page)
		}
	}
	if len(s.runs) != mostRuns {
		t.Errorf("%d runs are kept", len(s.runs))
	}
}

func TestServe(t *testing.T) {
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	p := newProgram(1)
	p.err = errors.New("no counters")
	if err := Serve(context.Background(), listen(), p.source(), Options{}); err != p.err {
		t.Errorf("the first reading fails: %v", err)
	}
	p.err = nil
	ctx, stop := context.WithCancel(context.Background())
	begun := make(chan string)
	done := make(chan error)
	l := listen()
	go func() {
		done <- Serve(ctx, l, p.source(), Options{Interval: time.Millisecond, Begun: func(url string) { begun <- url }})
	}()
	address := <-begun
	u, _ := url.Parse(address)
	stream, err := http.Get(u.Scheme + "://" + u.Host + "/events?page=index.html&" + u.RawQuery)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	_, _ = io.Copy(io.Discard, stream.Body) // it ends
	if _, err := net.Dial("tcp", u.Host); err == nil {
		t.Error("it still listens")
	}
}

// FuzzRequest asks for anything. Nothing panics, and nothing is our fault.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{"/", "/index.html", "/files/d0~f0.c.html", "/files/d0~f0.c=part2.html", "/files/=part.html", "/events?page=files/&since=-1", "/run/1/files/x", "/run/99999999999999999999/", "/%00", "/files/%FF.html", "/index.js"} {
		f.Add(seed)
	}
	ctx, stop := context.WithCancel(context.Background())
	f.Cleanup(stop)
	s := newServer(ctx, newProgram(2).source(), Options{Shown: shown})
	s.tick()
	handler := s.handler()
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || !strings.HasPrefix(target, "/") {
			return
		}
		ctx, leave := context.WithCancel(context.Background())
		leave() // a stream ends at once
		r := (&http.Request{Method: "GET", URL: u, Host: "127.0.0.1", Header: http.Header{"Cookie": {"footfall=" + s.key + ".x"}}}).WithContext(ctx)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	})
}
