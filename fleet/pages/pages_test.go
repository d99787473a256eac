package pages

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"footfall/coverage"
	"footfall/fleet/ask"
	"footfall/fleet/store"
	"footfall/fleet/store/sqlite"
	"footfall/fleet/units"
)

// newServer serves a fleet of a host, with names that pages must not take for their own text.
func newServer(t *testing.T) *httptest.Server {
	t.Helper()
	s, err := sqlite.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	f := &coverage.File{Name: "/etc/passwd", Lines: []coverage.Line{{Number: 1, Count: 3}, {Number: 2}}}
	for i, name := range []string{"<script>alert(1)</script>", "ran"} {
		f.Functions = append(f.Functions, &coverage.Function{StartLine: int32(2 - i), EndLine: int32(2 - i), Name: name, Count: int64(3 * i), Instances: []coverage.Instance{{Name: name, Count: int64(3 * i)}}})
	}
	f.Normalize()
	c := units.Of(f)
	if err := s.PutBuild(t.Context(), &store.Build{ID: "b&1", Release: `1"0 <b>`, Units: []store.Unit{c.Unit}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Push(t.Context(), &store.Batch{Build: "b&1", Window: time.Now(), Instance: store.Instance{Host: "<i>h</i>"}, Usage: []store.Usage{{Unit: c.Unit.Hash(), Hits: c.Hits}}}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(Handler(&ask.Ask{Store: s}, Options{Title: "a <fleet>", KeepWindows: 30 * 24 * time.Hour, MostTexts: 2e6}))
	t.Cleanup(server.Close)
	return server
}

// TestPages asks for each page: names from outside are text, and no source is read here, whatever it is called.
func TestPages(t *testing.T) {
	server := newServer(t)
	release := "release=1%220%20%3Cb%3E"
	for _, c := range []struct {
		path   string
		status int
		kind   string
		want   []string
	}{
		{"/", 200, "text/html", []string{"1&#34;0 &lt;b&gt;", "/coverage/release="}},
		{"/never-ran", 200, "text/html", []string{"<b>1</b> of 2 functions never ran", "&lt;script&gt;alert(1)&lt;/script&gt;", "/etc/passwd:2", "b&amp;1"}},
		{"/never-ran?days=0", 400, "text/html", []string{"days: "}},
		{"/changed", 200, "text/html", []string{"<select name=since"}},
		{"/changed?since=9", 404, "text/html", []string{"nobody has reported of that"}},
		{"/who?of=ran", 200, "text/html", []string{"&lt;i&gt;h&lt;/i&gt;", "<b>1</b> of 1 host"}},
		{"/who?of=%3Cb%3E", 404, "text/html", []string{"&lt;b&gt;"}},
		{"/by", 200, "text/html", []string{"/etc", ">1/2<", "--codeowners FILE"}},
		{"/by?by=owner", 400, "text/html", []string{"owners are not known here"}},
		{"/api/v1/coverage?by=directory", 200, "application/json", []string{`"name":"/etc","files":1,"lines":{"covered":1,"total":2}`}},
		{"/trend", 200, "text/html", []string{"50.0%"}},
		{"/store", 200, "text/html", []string{"for 30 days", "; more than 2.0 MB are not taken.", "for ever"}},
		{"/coverage/all/", 200, "text/html", []string{"50.0%", "/api/v1/coverage?output=lcov", "passwd"}},
		{"/coverage/" + strings.ReplaceAll(release, "%", "%25") + "/index.html", 200, "text/html", []string{"release 1&#34;0 &lt;b&gt;", "output=lcov&amp;release=1%220&#43;%3Cb%3E"}},
		{"/coverage/all/functions.html", 200, "text/html", nil},
		{"/coverage/all/footfall.js", 200, "text/javascript", nil},
		{"/coverage/nosuch=1/", 400, "text/html", []string{"nosuch"}},
		{"/nothing", 404, "text/plain", nil},
		{"/badge.svg?" + release, 200, "image/svg+xml", []string{"50.0%"}},
		{"/metrics", 200, "text/plain", []string{"footfall_fleet_lines_covered{release=\"1\\\"0 <b>\"} 1\n", "footfall_fleet_hosts{release=\"1\\\"0 <b>\"} 1\n", "\nfootfall_store_bytes "}},
		{"/api/v1/coverage?output=lcov&" + release, 200, "text/plain", []string{"SF:/etc/passwd\n", "DA:1,3\nDA:2,0\n"}},
		{"/api/v1/coverage?output=cobertura", 200, "application/xml", []string{"<coverage"}},
		{"/api/v1/coverage?output=html", 400, "text/plain", []string{"none of text"}},
		{"/api/v1/releases", 200, "application/json", []string{`"hosts":1`}},
		{"/api/v1/nothing", 404, "text/plain", []string{"there is no such question"}},
	} {
		r, err := http.Get(server.URL + c.path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if body := string(b); r.StatusCode != c.status || !strings.HasPrefix(r.Header.Get("Content-Type"), c.kind) {
			t.Errorf("%s: %s, %s\n%s", c.path, r.Status, r.Header.Get("Content-Type"), body)
		} else {
			for _, want := range c.want {
				if !strings.Contains(body, want) {
					t.Errorf("%s: there is no %q in\n%s", c.path, want, body)
				}
			}
			if c.kind == "text/html" && (strings.Contains(body, "<script>alert") || strings.Contains(body, "root:")) {
				t.Errorf("%s: script or source in\n%s", c.path, body)
			}
		}
	}
	index, err := http.Get(server.URL + "/coverage/all/")
	if err != nil {
		t.Fatal(err)
	}
	defer index.Body.Close()
	b, _ := io.ReadAll(index.Body)
	_, link, found := strings.Cut(string(b), `href="files/`)
	if link, _, _ = strings.Cut(link, `"`); !found {
		t.Fatalf("no page of a source in\n%s", b)
	}
	if page := body(t, server.URL+"/coverage/all/files/"+link); !strings.Contains(page, "Here are counts only: sources are not on this server.") || strings.Contains(page, "root:") {
		t.Errorf("%s: %s", link, page)
	}
}

func body(t *testing.T, address string) string {
	t.Helper()
	r, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestTexts has pages show the text that was sent of the sources of their selection, of several the newest, as text.
func TestTexts(t *testing.T) {
	s, err := sqlite.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	now := time.Now()
	for i, text := range []string{"old one\nold two\n", "<script>alert(1)</script>\nnew two\n"} {
		f := &coverage.File{Name: "../../etc/passwd", Lines: []coverage.Line{{Number: 1, Count: 3}, {Number: 2}}}
		other := &coverage.File{Name: "b.c", Lines: []coverage.Line{{Number: 1, Count: 3}}}
		c, d := units.Of(f), units.Of(other)
		u, err := units.OfText(f.Name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		build := &store.Build{ID: string(rune('a' + i)), Release: string(rune('1' + i)), Units: []store.Unit{c.Unit, d.Unit, u}}
		batch := &store.Batch{Build: build.ID, Window: now.Add(time.Duration(i-9) * time.Hour), Instance: store.Instance{Host: "h", PID: i}, Usage: []store.Usage{{Unit: c.Unit.Hash(), Hits: c.Hits}}}
		if err := errors.Join(s.PutBuild(t.Context(), build), s.Push(t.Context(), batch)); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(Handler(&ask.Ask{Store: s}, Options{}))
	t.Cleanup(server.Close)
	const newest, several = "&lt;script>alert(1)&lt;/script>", "Several versions of the source were sent"
	for _, c := range []struct {
		selection     string
		holds, misses []string
	}{
		{"all", []string{newest, several}, []string{"old two"}},
		{"release=2", []string{newest}, []string{"old two", several}},
		{"release=1", []string{"old two"}, []string{newest, several}},
	} {
		index := body(t, server.URL+"/coverage/"+c.selection+"/")
		_, link, found := strings.Cut(index, `href="files/`)
		if !found || strings.Contains(index, "not on the server") {
			t.Fatalf("no page of a source in\n%s", index)
		}
		for found {
			var page string
			if link, index, _ = strings.Cut(link, `"`); strings.Contains(link, "passwd") {
				page = body(t, server.URL+"/coverage/"+c.selection+"/files/"+link)
				for _, want := range c.holds {
					if !strings.Contains(page, want) {
						t.Errorf("%s: there is no %q in\n%s", c.selection, want, page)
					}
				}
				for _, not := range append(c.misses, "<script>alert", "root:") {
					if strings.Contains(page, not) {
						t.Errorf("%s: there is %q in\n%s", c.selection, not, page)
					}
				}
			} else if page = body(t, server.URL+"/coverage/"+c.selection+"/files/"+link); strings.HasPrefix(link, "b.c") && !strings.Contains(page, "its text is not on this server") {
				t.Errorf("%s: %s", link, page)
			}
			_, link, found = strings.Cut(index, `href="files/`)
		}
	}
}
