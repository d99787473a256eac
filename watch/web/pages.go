package web

import (
	"bytes"
	"html/template"
	"net/http"
	"path"
	"strings"
	"sync"

	"footfall/report/html"
)

var templates = sync.OnceValue(func() *template.Template {
	return template.Must(html.Metas().ParseFS(assets, "live.html"))
})

// handler is what the server answers.
func (s *server) handler() http.Handler {
	m := http.NewServeMux()
	live := func(w http.ResponseWriter, r *http.Request) { s.livePage(w, path.Base(r.URL.Path)) }
	m.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { s.livePage(w, indexPage) })
	m.HandleFunc("GET /index.html", live)
	m.HandleFunc("GET /functions.html", live)
	m.HandleFunc("GET /files/{name}", func(w http.ResponseWriter, r *http.Request) { s.livePage(w, filesDir+r.PathValue("name")) })
	m.HandleFunc("GET /{asset}", s.asset)
	m.HandleFunc("GET /events", s.events)
	m.HandleFunc("POST /zero", s.askedForZero)
	m.HandleFunc("POST /run", s.askedForRun)
	ran := func(w http.ResponseWriter, r *http.Request) { s.runPage(w, r, path.Base(r.URL.Path)) }
	m.HandleFunc("GET /run/{run}/{$}", func(w http.ResponseWriter, r *http.Request) { s.runPage(w, r, indexPage) })
	m.HandleFunc("GET /run/{run}/index.html", ran)
	m.HandleFunc("GET /run/{run}/functions.html", ran)
	m.HandleFunc("GET /run/{run}/files/{name}", func(w http.ResponseWriter, r *http.Request) { s.runPage(w, r, filesDir+r.PathValue("name")) })
	m.HandleFunc("GET /run/{run}/{asset}", s.asset)
	return s.guarded(m)
}

// frameData is what live.html shows.
type frameData struct {
	*event
	Page    string
	Token   string
	Command string // "": none
	Resets  bool
	Running *run
	Runs    []*run
	Recent  template.HTML
	Hot     template.HTML
	Ran     *run // of the pages of a run
	RanText string
}

func (s *server) frameData(page string) frameData {
	d := frameData{event: s.head(), Page: page, Token: s.token, Resets: s.source.Reset != nil, Running: s.running, Runs: s.runs}
	if s.source.Command != nil {
		d.Command = s.source.Command.Line
	}
	return d
}

// frame makes what our pages have more than those of a report.
func frame(d frameData, front string) (html.Frame, error) {
	f := html.Frame{Policy: pagePolicy}
	for _, part := range []struct {
		name string
		to   *template.HTML
	}{{"head", &f.Head}, {"above", &f.Above}, {front, &f.Front}} {
		if part.name == "" {
			continue
		}
		var b bytes.Buffer
		if err := templates().ExecuteTemplate(&b, part.name, d); err != nil {
			return f, err
		}
		*part.to = template.HTML(b.String())
	}
	return f, nil
}

// livePage serves a page that is alive.
func (s *server) livePage(w http.ResponseWriter, page string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	d, front := s.frameData(page), ""
	switch {
	case page == indexPage:
		front = "now"
		d.Recent, d.Hot = template.HTML(s.recentRows("")), template.HTML(s.hotRows(""))
	case strings.HasPrefix(page, filesDir):
		s.view(strings.TrimPrefix(page, filesDir)) // so that it is known what is new from here on
	}
	f, err := frame(d, front)
	if err == nil {
		err = serve(w, &s.pages, page, f)
	}
	if err != nil {
		http.Error(w, "footfall: "+err.Error(), http.StatusInternalServerError)
	}
}

// serve serves a page of pages.
func serve(w http.ResponseWriter, pages *html.Pages, page string, f html.Frame) error {
	var body []byte
	var err error
	found := true
	name, source := strings.CutPrefix(page, filesDir)
	switch {
	case source:
		body, found, err = pages.Source(name, f)
	case page == indexPage:
		body, err = pages.Index(f)
	default:
		body, err = pages.Functions(f)
	}
	if err != nil {
		return err
	}
	if !found {
		http.Error(w, "footfall: there is no such page", http.StatusNotFound)
		return nil
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(body) // a browser that has gone needs nothing
	return nil
}

// runPage serves a page of what ran during a command, or that it still runs.
func (s *server) runPage(w http.ResponseWriter, r *http.Request, page string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	run := s.run(r)
	if run == nil {
		http.Error(w, "footfall: what ran then is not kept any more", http.StatusNotFound)
		return
	}
	s.refresh()
	d := s.frameData("")
	d.Ran, d.RanText = run, run.output.String()
	if run.pages == nil {
		var b bytes.Buffer
		if err := templates().ExecuteTemplate(&b, "running", struct {
			frameData
			Policy string
			Error  error
		}{d, pagePolicy, run.err}); err != nil {
			http.Error(w, "footfall: "+err.Error(), http.StatusInternalServerError)
			return
		}
		if run.took == 0 {
			w.Header().Set("Refresh", "1") // without JavaScript, too
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(b.Bytes())
		return
	}
	front := ""
	if page == indexPage {
		front = "ran"
	}
	f, err := frame(d, front)
	if err == nil {
		err = serve(w, run.pages, page, f)
	}
	if err != nil {
		http.Error(w, "footfall: "+err.Error(), http.StatusInternalServerError)
	}
}

// asset serves a script or style.
func (s *server) asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("asset")
	data, err := []byte(nil), error(nil)
	if name == "live.js" || name == "live.css" {
		data, err = assets.ReadFile(name)
	} else {
		s.mu.Lock()
		s.refresh()
		if run := s.run(r); run != nil && run.pages != nil {
			data = run.pages.Asset(name)
		} else {
			data = s.pages.Asset(name)
		}
		s.mu.Unlock()
	}
	if data == nil || err != nil {
		http.Error(w, "footfall: there is no such page", http.StatusNotFound)
		return
	}
	kind := "text/css; charset=utf-8"
	if path.Ext(name) == ".js" {
		kind = "text/javascript; charset=utf-8"
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(data)
}

// askedForZero starts counts from zero.
func (s *server) askedForZero(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	err := s.zero()
	s.mu.Unlock()
	if err != nil {
		http.Error(w, "footfall: "+err.Error(), http.StatusConflict)
		return
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// askedForRun runs the command.
func (s *server) askedForRun(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	run, err := s.begin()
	s.mu.Unlock()
	if err != nil {
		http.Error(w, "footfall: "+err.Error(), http.StatusConflict)
		return
	}
	http.Redirect(w, r, "/"+run.Address(), http.StatusSeeOther)
}
