package pages

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"slices"
	"sync"
	"time"

	"footfall/coverage"
	"footfall/fleet/ask"
	"footfall/report"
	"footfall/report/html"
)

// reports are the pages of coverage that were looked at last: to make those of one takes as long as its
// coverage is large, and a reader goes from page to page.
type reports struct {
	mu   sync.Mutex
	list []*shownReport // the newest first
}

// A shownReport is the pages of a selection.
type shownReport struct {
	selection string

	mu    sync.Mutex // held while a page is made
	made  time.Time  // zero: not yet
	set   *coverage.Set
	texts *ask.Texts
	pages html.Pages
}

// Of reports there are at most so many, and each is made again after some time.
const (
	mostReports = 4
	fresh       = time.Minute
)

func (rs *reports) of(selection string) *shownReport {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	i := slices.IndexFunc(rs.list, func(r *shownReport) bool { return r.selection == selection })
	r := &shownReport{selection: selection}
	if i >= 0 {
		r = rs.list[i]
		rs.list = slices.Delete(rs.list, i, i+1)
	}
	rs.list = slices.Insert(rs.list, 0, r)
	rs.list = rs.list[:min(len(rs.list), mostReports)]
	return r
}

// files is the directory of the pages of sources.
const files = "files"

// mount adds the pages of coverage, at /coverage/SELECTION/.
func (rs *reports) mount(mux *http.ServeMux, s *server) {
	const root = "GET /coverage/{selection}/"
	mux.HandleFunc(root+"{$}", func(w http.ResponseWriter, r *http.Request) { s.report(w, r, "index.html") })
	mux.HandleFunc(root+"{page}", func(w http.ResponseWriter, r *http.Request) { s.report(w, r, r.PathValue("page")) })
	mux.HandleFunc(root+files+"/{page}", func(w http.ResponseWriter, r *http.Request) { s.report(w, r, files+"/"+r.PathValue("page")) })
}

// report serves a page of the coverage of a selection, or what pages load.
func (s *server) report(w http.ResponseWriter, r *http.Request, page string) {
	of := s.reports.of(r.PathValue("selection"))
	of.mu.Lock()
	defer of.mu.Unlock()
	if err := of.make(s, r); err != nil {
		s.write(w, r, "Coverage", "wrong", "", nil, err)
		return
	}
	if ext := path.Ext(page); ext == ".css" || ext == ".js" {
		if data := of.pages.Asset(page); data != nil {
			asset(page, func() []byte { return data })(w, r)
			return
		}
	}
	body, err := of.page(s, page)
	switch {
	case err != nil:
		http.Error(w, "footfall: "+err.Error(), http.StatusInternalServerError)
	case body == nil:
		http.Error(w, "footfall: there is no such page", http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(body)
	}
}

// make makes the pages, unless they are new.
func (of *shownReport) make(s *server, r *http.Request) error {
	if !of.made.IsZero() && time.Since(of.made) < fresh {
		return nil
	}
	q, err := parseSelection(of.selection)
	if err != nil {
		return fmt.Errorf("%w: %q", ask.ErrWrong, of.selection)
	}
	if of.set, err = s.ask.Coverage(r.Context(), q); err != nil {
		return err
	}
	if of.texts, err = s.ask.Texts(r.Context(), q); err != nil {
		return err
	}
	shown := report.Report{Set: of.set, Shown: func(path string) string { return path }, Time: time.Now(), ReadSource: of.texts.Read}
	of.pages = html.Pages{}
	contents := shown.Contents()
	contents.Elsewhere, contents.Doubt = true, of.texts.Doubt
	of.pages.Update(contents)
	of.made = time.Now()
	return nil
}

// page returns a page, nil if there is none of that name.
func (of *shownReport) page(s *server, name string) ([]byte, error) {
	q, _ := parseSelection(of.selection)
	f := html.Frame{Policy: policy}
	for _, part := range []struct {
		name string
		to   *template.HTML
	}{{"report-head", &f.Head}, {"report-above", &f.Above}, {"report-front", &f.Front}} {
		var b bytes.Buffer
		if err := templates().ExecuteTemplate(&b, part.name, frame{Title: s.options.Title, Page: titleOf(q), Query: q, Data: of.texts}); err != nil {
			return nil, err
		}
		*part.to = template.HTML(b.String())
	}
	switch name {
	case "index.html":
		return of.pages.Index(f)
	case "functions.html":
		return of.pages.Functions(f)
	}
	dir, base := path.Split(name)
	if dir != files+"/" {
		return nil, nil
	}
	body, ok, err := of.pages.Source(base, f)
	if !ok {
		return nil, err
	}
	return body, err
}
