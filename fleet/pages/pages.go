// Package pages shows the answers of package ask to browsers: a page for each question, the pages of a report for
// coverage, and what other programs read by their addresses: the API, badges, totals for Prometheus.
//
// Pages are made when they are asked for, and have no scripts but those of a report's pages. A server mounts them
// and says who may look.
package pages

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"footfall/coverage"
	"footfall/fleet/ask"
	"footfall/report/html"
)

//go:embed pages.html pages.css
var assets embed.FS

// policy is the Content-Security-Policy within pages.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'"

// Options are what pages say beside answers.
type Options struct {
	// Title is that of all pages, such as the name of a project.
	Title string
	// KeepWindows and KeepDays are how long what was counted is kept, as windows and as days; 0: for ever.
	KeepWindows, KeepDays time.Duration
	// MostTexts is how many bytes of texts of sources are taken.
	MostTexts int64
}

// A server makes pages.
type server struct {
	ask     *ask.Ask
	options Options
	reports reports
	totals  totals
}

var templates = sync.OnceValue(func() *template.Template {
	return template.Must(html.Metas().Funcs(template.FuncMap{
		"number": grouped, "day": day, "size": size, "percent": percent, "query": query, "selection": selection, "evidence": evidenceOf,
	}).ParseFS(assets, "pages.html"))
})

// Handler serves what there is to know of a fleet, below "/".
func Handler(a *ask.Ask, o Options) http.Handler {
	s := &server{ask: a, options: o}
	mux := http.NewServeMux()
	mux.Handle("GET "+ask.PathAPI, a.API())
	mux.HandleFunc("GET /badge.svg", s.badge)
	mux.HandleFunc("GET /metrics", s.metrics)
	for _, p := range []struct {
		path, title, template, question string
		data                            func(*http.Request, url.Values) (any, error)
	}{
		{"/{$}", "Releases", "releases", "releases", s.releases},
		{"/never-ran", "Never ran", "never", "never-ran", s.neverRan},
		{"/changed", "What changed", "changed", "changed", s.changed},
		{"/who", "Who runs it", "who", "who", s.who},
		{"/by", "Coverage by directory and owner", "by", "coverage", s.coverageBy},
		{"/trend", "Trend", "trend", "trend", s.trend},
		{"/store", "Store", "store", "sizes", s.store},
	} {
		mux.HandleFunc("GET "+p.path, func(w http.ResponseWriter, r *http.Request) {
			values := r.URL.Query()
			data, err := p.data(r, values)
			s.write(w, r, p.title, p.template, jsonOf(p.question, values), data, err)
		})
	}
	mux.HandleFunc("GET /pages.css", asset("pages.css", func() []byte { b, _ := assets.ReadFile("pages.css"); return b }))
	mux.HandleFunc("GET /footfall.css", asset("footfall.css", func() []byte { return new(html.Pages).Asset("footfall.css") }))
	s.reports.mount(mux, s)
	return mux
}

func asset(name string, data func() []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		kind := "text/css; charset=utf-8"
		if path.Ext(name) == ".js" {
			kind = "text/javascript; charset=utf-8"
		}
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(data())
	}
}

// A frame is what all pages have.
type frame struct {
	Policy, Title, Page, Name string
	Nav                       []link
	Query                     url.Values
	Data                      any
	Error                     string
	JSON                      template.URL // where the answer is for programs, "" for nowhere
}

// A link is one of the pages.
type link struct{ Path, Name string }

var nav = []link{{"/", "releases"}, {"/never-ran", "never ran"}, {"/changed", "what changed"}, {"/who", "who runs it"}, {"/by", "by owner"}, {"/trend", "trend"}, {"/store", "store"}}

// write writes a page, or what was wrong with the question on it.
func (s *server) write(w http.ResponseWriter, r *http.Request, title, name string, js template.URL, data any, err error) {
	f := frame{Policy: policy, Title: cmp.Or(s.options.Title, "Fleet"), Page: title, Name: name, Nav: nav, Query: r.URL.Query(), Data: data, JSON: js}
	status := http.StatusOK
	if err != nil {
		f.Error, f.Name, status = err.Error(), "wrong", ask.Status(err)
	}
	var b bytes.Buffer
	if err := templates().ExecuteTemplate(&b, f.Name, f); err != nil {
		http.Error(w, "footfall: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// asked are the parameters without those that are of the page only, and without empty ones, which forms send.
func asked(question string, values url.Values) url.Values {
	own := []string{"in-group", "all"}
	if question == "never-ran" {
		own = append(own, "by")
	}
	of := url.Values{}
	for name, all := range values {
		all = slices.DeleteFunc(slices.Clone(all), func(v string) bool { return v == "" })
		if len(all) > 0 && !slices.Contains(own, name) {
			of[name] = all
		}
	}
	return of
}

func (s *server) answer(r *http.Request, question string, values url.Values) (ask.Answer, error) {
	return s.ask.Answer(r.Context(), question, asked(question, values))
}

// jsonOf is the address of an answer as JSON.
func jsonOf(question string, values url.Values) template.URL {
	return template.URL(ask.PathAPI+question) + query(asked(question, values))
}

func (s *server) releases(r *http.Request, values url.Values) (any, error) {
	return s.answer(r, "releases", values)
}

func (s *server) trend(r *http.Request, values url.Values) (any, error) {
	return s.answer(r, "trend", values)
}

// mostRows is how many rows of a long list a page has, unless all are asked for.
const mostRows = 100

// A neverPage is what never ran, by directories or owners, or the functions of one of these.
type neverPage struct {
	*ask.NeverRan
	By     string
	Owned  bool
	Groups []ask.Group
	Most   int // lines of a group
	Chosen string
	List   []ask.FunctionUse
	More   int
	All    bool
}

// Shown are the groups that are shown, and MoreGroups how many are not.
func (p *neverPage) Shown() []ask.Group {
	if p.All {
		return p.Groups
	}
	return p.Groups[:min(len(p.Groups), mostRows)]
}

func (p *neverPage) MoreGroups() int { return len(p.Groups) - len(p.Shown()) }

func (s *server) neverRan(r *http.Request, values url.Values) (any, error) {
	answer, err := s.answer(r, "never-ran", values)
	if err != nil {
		return nil, err
	}
	n := answer.(*ask.NeverRan)
	p := &neverPage{NeverRan: n, By: cmp.Or(values.Get("by"), "directory"), Owned: s.ask.Owners != nil, Chosen: values.Get("in-group"), All: values.Has("all")}
	style := ask.Style{By: p.By, Owners: s.ask.Owners}
	p.Groups = slices.DeleteFunc(n.Groups(style), func(g ask.Group) bool { return g.Never == 0 })
	for _, g := range p.Groups {
		p.Most = max(p.Most, g.NeverLines)
	}
	p.List = n.Never
	if p.Chosen != "" {
		p.List = slices.DeleteFunc(slices.Clone(n.Never), func(f ask.FunctionUse) bool { return !slices.Contains(ask.GroupsOf(style, f.File), p.Chosen) })
	}
	if !p.All && len(p.List) > mostRows {
		p.More = len(p.List) - mostRows
		p.List = p.List[:mostRows]
	}
	return p, nil
}

// A byPage is coverage by directory or owner.
type byPage struct {
	*ask.CoverageBy
	Owned bool
	All   bool
}

// Shown are the groups that are shown, and More how many are not.
func (p *byPage) Shown() []ask.CoverageGroup {
	if p.All {
		return p.Groups
	}
	return p.Groups[:min(len(p.Groups), mostRows)]
}

func (p *byPage) More() int { return len(p.Groups) - len(p.Shown()) }

func (s *server) coverageBy(r *http.Request, values url.Values) (any, error) {
	p := &byPage{Owned: s.ask.Owners != nil, All: values.Has("all")}
	if values.Get("by") == "" {
		values.Set("by", "directory")
		if p.Owned {
			values.Set("by", "owner")
		}
	}
	var err error
	p.CoverageBy, err = s.ask.CoverageBy(r.Context(), asked("coverage", values))
	return p, err
}

// A changedPage is what changed, or, before a release is chosen, which there are.
type changedPage struct {
	*ask.Changed
	Releases []ask.Release
	All      bool
}

// Short are the functions of a list that are shown.
func (p *changedPage) Short(list []ask.FunctionUse) []ask.FunctionUse {
	if p.All {
		return list
	}
	return list[:min(len(list), mostRows)]
}

// Longer is how many are not.
func (p *changedPage) Longer(list []ask.FunctionUse) int { return len(list) - len(p.Short(list)) }

func (s *server) changed(r *http.Request, values url.Values) (any, error) {
	releases, err := s.answer(r, "releases", url.Values{})
	if err != nil {
		return nil, err
	}
	p := &changedPage{Releases: slices.DeleteFunc(releases.(*ask.Releases).Releases, func(r ask.Release) bool { return r.Release == "" || r.First.IsZero() }), All: values.Has("all")}
	if values.Get("since") == "" {
		return p, nil
	}
	answer, err := s.answer(r, "changed", values)
	if err != nil {
		return nil, err
	}
	p.Changed = answer.(*ask.Changed)
	return p, nil
}

// A whoPage is who runs something, nil before that is asked.
type whoPage struct{ *ask.Who }

func (s *server) who(r *http.Request, values url.Values) (any, error) {
	if values.Get("of") == "" {
		return &whoPage{}, nil
	}
	answer, err := s.answer(r, "who", values)
	if err != nil {
		return nil, err
	}
	return &whoPage{answer.(*ask.Who)}, nil
}

// A storePage is what the store has, and what it keeps.
type storePage struct {
	*ask.Sizes
	Windows, Days string
	Most          int64 // bytes of texts
}

func (s *server) store(r *http.Request, values url.Values) (any, error) {
	answer, err := s.answer(r, "sizes", values)
	if err != nil {
		return nil, err
	}
	return &storePage{answer.(*ask.Sizes), kept(s.options.KeepWindows), kept(s.options.KeepDays), s.options.MostTexts}, nil
}

// An evidenceTable is builds under a title.
type evidenceTable struct {
	Title  string
	Builds []ask.BuildEvidence
}

func evidenceOf(title string, builds []ask.BuildEvidence) evidenceTable {
	return evidenceTable{title, builds}
}

func kept(d time.Duration) string {
	if d == 0 {
		return "for ever"
	}
	if days := int(d / (24 * time.Hour)); days != 1 {
		return fmt.Sprintf("for %d days", days)
	}
	return "for 1 day"
}

// grouped writes a number with thin spaces at each thousand, as a report's pages do.
func grouped(n any) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

func day(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format(time.DateOnly)
}

func size(n int64) string {
	units := []string{"bytes", "kB", "MB", "GB", "TB"}
	x, i := float64(n), 0
	for ; x >= 1000 && i < len(units)-1; i++ {
		x /= 1000
	}
	if i == 0 {
		return strconv.FormatInt(n, 10) + " bytes"
	}
	return strconv.FormatFloat(x, 'f', 1, 64) + " " + units[i]
}

func percent(r coverage.Ratio) string { return r.Rounded() }

// query is a query with a parameter set to another value, or without it if that is empty.
func query(values url.Values, set ...string) template.URL {
	q := url.Values{}
	for name, all := range values {
		q[name] = all
	}
	for i := 0; i+1 < len(set); i += 2 {
		if q.Del(set[i]); set[i+1] != "" {
			q.Set(set[i], set[i+1])
		}
	}
	return template.URL("?" + q.Encode())
}

// selection is the part of the address of a report that says what it is about.
func selection(set ...string) template.URL {
	q := url.Values{}
	for i := 0; i+1 < len(set); i += 2 {
		q.Add(set[i], set[i+1])
	}
	return template.URL(url.PathEscape(selectionOf(q)))
}

// everything is the selection of all.
const everything = "all"

func selectionOf(q url.Values) string {
	if len(q) == 0 {
		return everything
	}
	return q.Encode()
}

func parseSelection(text string) (url.Values, error) {
	if text == everything {
		return url.Values{}, nil
	}
	return url.ParseQuery(text)
}

// title says what a selection is.
func titleOf(q url.Values) string {
	var parts []string
	for _, name := range []string{"release", "build", "host", "label", "in", "from", "to"} {
		for _, value := range q[name] {
			parts = append(parts, name+" "+value)
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "everything")
}
