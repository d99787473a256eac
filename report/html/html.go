// Package html writes a report for browsers: an index, a page for each source with its
// counts, and the functions that never ran.
//
// Pages need no network and are read from a directory, or from one file; all there is to
// read can be read without JavaScript. [Write] is all there is to call. html.go has the
// pages of a site, lines.go what is in that of a source, tables.go and index.go the tables,
// syntax.go the colours. The frames of pages are the templates beside these files; lines
// and tables, which are most of the bytes, are appended without one.
package html

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"footfall/coverage"
	"footfall/output"
	"footfall/report/change"
	"footfall/report/exclude"
	"footfall/report/source"
)

//go:embed *.html footfall.css footfall.js
var assets embed.FS

var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.ParseFS(assets, "*.html"))
})

// Metas has the template "metas", with which all pages begin behind their doctype, those of other packages too: it
// asks for the Policy of the page.
func Metas() *template.Template { return template.Must(template.ParseFS(assets, "metas.html")) }

// ours is what every page begins with: a report replaces and removes only
// what does.
const ours = "<!doctype html>\n<!-- footfall report -->\n"

const (
	styleFile  = "footfall.css"
	scriptFile = "footfall.js"
	pagesDir   = "files"
)

// Contents is what pages show.
type Contents struct {
	Set   *coverage.Set
	Shown func(path string) string // the name to show for a source
	// Excluded is what was taken out of the Set; its lines are marked.
	Excluded exclude.Excluded
	// Root is the absolute path of the directory from which names are shown: the title.
	Root string
	// Title is that of all pages; "" is the name of Root.
	Title string
	// Time is when the data were made, zero if that is not known.
	Time time.Time
	// ExceptionBranches shows branches that only an exception decides as others.
	ExceptionBranches bool
	// Patch tells which lines were changed; nil: that is not asked.
	Patch *change.Patch
	// Stale are the names of sources that have changed since they were compiled, ascending.
	Stale []string
	// Notice is said on the index; "" for nothing.
	Notice string
	// Totals are those of files of which the Set has a part, by name; nil: it has all.
	Totals map[string]coverage.Totals
	// Level tells how good a ratio of a metric is for a source or, with a slash at the end,
	// a directory, by the name in the Set and as shown; "" is the whole.
	Level func(metric, name, shown string, of coverage.Ratio) coverage.Level
	// Required is what must be covered.
	Required []Requirement
	// Past are reports from before and this one, oldest first.
	Past []Past
	// Order is that of files in the index at first: "missed", "ran", "lines" (the most
	// first), else by name.
	Order string
	// ReadSource reads a source by its name in the Set.
	ReadSource func(name string) ([]byte, error)
	// Elsewhere tells that sources are no files here, of which somebody could say where they have moved.
	Elsewhere bool
	// Doubt says what is doubtful about the text of a source, "" for nothing; nil: nothing is.
	Doubt func(name string) string
}

// A Requirement is that of something a part must be covered.
type Requirement struct {
	What, Percent string // "lines of src/net", "90"
	Got           coverage.Ratio
	Reached       bool
}

func (c *Contents) totalsOf(f *coverage.File) coverage.Totals {
	if t, part := c.Totals[f.Name]; part {
		return t
	}
	return f.Totals()
}

// Write writes a directory of pages, or one page that has everything if the target's name
// ends in .html or .htm. It replaces and removes only pages of reports. The problems are
// those of sources that could not be shown.
func Write(c Contents, target string) ([]source.Problem, error) {
	if suffix := filepath.Ext(target); suffix == ".html" || suffix == ".htm" {
		return writeSinglePage(c, target)
	}
	return writePages(c, target)
}

// A site is the pages of a report.
type site struct {
	Contents
	Frame
	title string
	pages []*page // in the order of files
	sum
	metrics []pageMetric
	single  bool // all is in one page
}

// A page is what a site has of a source.
type page struct {
	path  string         // of the source
	file  *coverage.File // while it is written, and if all are in one page
	shown string         // the name of the source, for people
	name  string         // of the page, different for each source
	sum
	notice  string // what is wrong with the source, "" if nothing
	problem error  // the same for standard error
	parts   []part
	missed  []missedFunction
}

// A part is a page's lines, or some of them where all would be too much for a
// page.
type part struct {
	from, to int32 // numbers of lines
	gaps     int   // places where lines that never ran begin
	rows     []byte
}

// A sum is what a page, a directory or all has.
type sum struct {
	totals  coverage.Totals
	changed coverage.Ratio // lines of the patch of the report
}

func (s *sum) add(o sum) {
	s.totals.Add(o.totals)
	s.changed = s.changed.Plus(o.changed)
}

type pageMetric struct {
	name  string
	total func(sum) coverage.Ratio
}

func newSite(c Contents) *site {
	return newSiteOf(c, func(i int) *page { return c.newPage(c.Set.At(i)) })
}

func (c *Contents) newPage(f *coverage.File) *page {
	return &page{path: f.Name, sum: sum{c.totalsOf(f), c.Patch.FileTotals(f).Lines}}
}

// newSiteOf is newSite of pages that made makes, but for their names.
func newSiteOf(c Contents, made func(i int) *page) *site {
	s := &site{Contents: c, Frame: Frame{Policy: filesPolicy}, title: "coverage"}
	if base := filepath.Base(c.Root); c.Title != "" {
		s.title = output.Printable(c.Title)
	} else if c.Root != "" && base != "/" {
		s.title = output.Printable(base)
	}
	names := newPageNames()
	for i := range c.Set.Len() {
		p := made(i)
		shown := c.Shown(p.path)
		p.shown, p.name = output.Printable(shown), names.name(shown)
		s.pages = append(s.pages, p)
		s.sum.add(p.sum)
	}
	for _, m := range coverage.ColumnsOf(s.totals, c.ExceptionBranches) {
		s.metrics = append(s.metrics, pageMetric{m.Name, func(t sum) coverage.Ratio { return m.Of(t.totals, c.ExceptionBranches) }})
	}
	if c.Patch != nil {
		s.metrics = append(s.metrics, pageMetric{changedLines, func(t sum) coverage.Ratio { return t.changed }})
	}
	return s
}

// each calls do for every page, for several at once. A worker hands the same
// pageWriter to all of its calls.
func (s *site) each(do func(w *pageWriter, i int) error) error {
	var wait sync.WaitGroup
	var next atomic.Int64
	failed := make([]error, min(runtime.GOMAXPROCS(0), len(s.pages)))
	for worker := range failed {
		wait.Go(func() {
			w := &pageWriter{site: s}
			for failed[worker] == nil {
				i := int(next.Add(1)) - 1
				if i >= len(s.pages) {
					return
				}
				failed[worker] = do(w, i)
			}
		})
	}
	wait.Wait()
	return errors.Join(failed...)
}

func (s *site) problems() []source.Problem {
	var problems []source.Problem
	for _, p := range s.pages {
		if p.problem != nil {
			problems = append(problems, source.NewProblem(source.NoSource, p.path, p.problem))
		}
	}
	return problems
}

func writePages(c Contents, dir string) ([]source.Problem, error) {
	s := newSite(c)
	top, pages, err := prepare(dir)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	defer pages.Close()
	for _, name := range []string{styleFile, scriptFile} {
		data, err := assets.ReadFile(name)
		if err == nil {
			err = top.WriteBytes(name, data)
		}
		if err != nil {
			return nil, err
		}
	}
	err = s.each(func(w *pageWriter, i int) error { return w.writeFiles(pages, i) })
	if err == nil {
		err = s.writePage(top, "functions.html", "functions.html", s.functionsData())
	}
	root := s.tree()
	if err == nil {
		err = s.writeTree(top, root)
	}
	if err == nil {
		err = s.writePage(top, "index.html", "index.html", s.indexData(root))
	}
	if err == nil {
		err = s.removeStale(pages)
	}
	return s.problems(), err
}

// prepare opens the directories, unless that would put pages among files of
// something else.
func prepare(dir string) (top, pages *output.Dir, err error) {
	if top, err = output.OpenDir(dir); err != nil {
		return nil, nil, err
	}
	if index := "index.html"; top.Has(index) && !isOurs(top, index) {
		err = fmt.Errorf("%s is not a page of a report and would be replaced: name another directory, or remove it", filepath.Join(dir, index))
	} else {
		pages, err = top.Sub(pagesDir)
	}
	if err != nil {
		top.Close()
		return nil, nil, err
	}
	return top, pages, nil
}

// isOurs tells whether a file is a page of a report.
func isOurs(dir *output.Dir, name string) bool {
	f, err := dir.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	start := make([]byte, len(ours))
	_, err = io.ReadFull(f, start)
	return err == nil && string(start) == ours
}

// removeStale removes pages of sources that are in the report no more.
func (s *site) removeStale(dir *output.Dir) error {
	current := make(map[string]bool)
	for _, p := range s.pages {
		for i := range p.parts {
			current[p.partName(i)] = true
		}
	}
	entries, err := dir.Entries()
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if e.Type().IsRegular() && !current[name] && strings.HasSuffix(name, ".html") && isOurs(dir, name) {
			if err := dir.Remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// partName is the name of the file of a part.
func (p *page) partName(i int) string {
	if i == 0 {
		return p.name + ".html"
	}
	return fmt.Sprintf("%s=part%d.html", p.name, i+1) // no escape of a name is like that
}

func (s *site) writePage(dir *output.Dir, name, template string, data any) error {
	b, err := pageOf(template, data)
	if err != nil {
		return err
	}
	return dir.WriteBytes(name, b)
}

// pageOf executes a template.
func pageOf(template string, data any) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(ours)
	err := templates().ExecuteTemplate(&b, template, data)
	return b.Bytes(), err
}

// pageData is what the frame of every page shows.
type pageData struct {
	Title  string // of the report
	Date   string // of the data
	Root   string // leads to the directory of index.html
	Totals []totalData
	Single bool
	Files  int
	Tree   bool // the files of the index are data beside the page
	Frame
}

// filesPolicy lets a page have its script and style, and fetch nothing else,
// whatever a name or a source might bring into it. Not all browsers count a file
// beside a page that is a file as its own.
const filesPolicy = "default-src 'none'; script-src 'self' file:; style-src 'self' file:; base-uri 'none'; form-action 'none'"

type totalData struct {
	Name, Percent, Counts string
	Covered, Total        int
	Level                 string // a class of the style
	First                 bool
}

// Missed is how many were not covered.
func (t totalData) Missed() int { return t.Total - t.Covered }

// Grouped is a number with its thousands apart.
func (t totalData) Grouped(n int) string { return string(appendGrouped(nil, int64(n))) }

// levelClasses are the classes of cells with a percentage.
var levelClasses = [...]string{coverage.NoLevel: "", coverage.Good: "good", coverage.Fair: "fair", coverage.Poor: "poor"}

// level tells how good a metric of a source or directory is. Changed lines have no level of
// their own.
func (s *site) level(i int, name, shown string, of coverage.Ratio) coverage.Level {
	if s.Level == nil || s.metrics[i].name == changedLines {
		return coverage.NoLevel
	}
	return s.Level(s.metrics[i].name, name, shown, of)
}

const changedLines = "changed lines"

// pageData is that of a page about a source, or about all with no names.
func (s *site) pageData(root, name, shown string, t sum) pageData {
	d := pageData{Title: s.title, Root: root, Single: s.single, Files: len(s.pages), Frame: s.Frame}
	if !s.Time.IsZero() {
		d.Date = s.Time.UTC().Format("2006-01-02 15:04 UTC")
	}
	for i, m := range s.metrics {
		total := m.total(t)
		d.Totals = append(d.Totals, totalData{m.name, total.Rounded(), grouped(total), total.Covered, total.Total, levelClasses[s.level(i, name, shown, total)], i == 0})
	}
	return d
}

// grouped prints a ratio with its thousands apart.
func grouped(r coverage.Ratio) string {
	if r.Total == 0 {
		return "none"
	}
	buf := appendGrouped(nil, int64(r.Covered))
	buf = append(buf, " of "...)
	return string(appendGrouped(buf, int64(r.Total)))
}

// indexData is an index.
type indexData struct {
	pageData
	Rows        template.HTML // of directories and files
	Worst       template.HTML // functions with the most lines that never ran
	AllMissed   int           // how many there are
	NeverCalled int
	Many        bool // files: they come after the functions that miss most, and folded
	Notice      string
	Order       string
	Stale       []string // names that are shown of sources that have changed, the first ones
	StaleAll    int
	Required    []Requirement
	Good, Fair  string // what the colours of percentages say
	Excluded    string
	Rules       []ruleData
	Trend       *trendData
}

// manyFiles is how many the index shows before what misses most.
const manyFiles = 200

func (s *site) indexData(root *directory) indexData {
	missed := s.missedFunctions()
	d := indexData{pageData: s.pageData("", "", "", s.sum), AllMissed: len(missed), Many: len(s.pages) > manyFiles, Notice: s.Notice, Order: s.Order, Required: s.Required, Rules: rulesOf(&s.Excluded), Trend: s.trend()}
	if len(d.Rules) > 0 {
		d.Excluded = s.Excluded.String()
	}
	const mostStale = 10
	d.StaleAll = len(s.Contents.Stale)
	for _, name := range s.Contents.Stale[:min(d.StaleAll, mostStale)] {
		d.Stale = append(d.Stale, output.Printable(s.Shown(name)))
	}
	d.Good, d.Fair = "90% or more", "75% or more"
	if len(s.Required) > 0 {
		d.Good, d.Fair = "as required, or 90%", "up to 10 points below, or 75%"
	}
	d.NeverCalled = neverCalled(missed)
	worst := worstInIndex
	switch {
	case d.Many:
		worst = worstOfMany
	case s.single:
		worst = worstInSingle
	}
	if d.Tree = s.large(); d.Tree {
		d.Rows = s.directoryRows(root)
	} else {
		d.Rows = template.HTML(s.appendDirectory(nil, root, "", 0))
	}
	d.Worst = template.HTML(s.appendMissed(nil, missed[:min(len(missed), worst)]))
	return d
}

func neverCalled(list []missedFunction) (n int) {
	for _, f := range list {
		if f.calls <= 0 {
			n++
		}
	}
	return n
}

const (
	worstInIndex  = 25
	worstOfMany   = 10 // which stand before the files
	worstInSingle = 1000
	// mostFunctionRows keeps the list of functions below the size of a page; what is
	// left out are the smallest.
	mostFunctionRows = 12000
)

// missedFunctions are those with lines that never ran, the most lines first.
func (s *site) missedFunctions() []missedFunction {
	var all []missedFunction
	for _, p := range s.pages {
		all = append(all, p.missed...)
	}
	slices.SortStableFunc(all, func(a, b missedFunction) int { return cmp.Compare(b.lines.Missed(), a.lines.Missed()) })
	return all
}

type functionsData struct {
	pageData
	Rows template.HTML
	All  string
	More int
}

func (s *site) functionsData() functionsData {
	missed := s.missedFunctions()
	shown := missed[:min(len(missed), mostFunctionRows)]
	return functionsData{s.pageData("", "", "", s.sum), template.HTML(s.appendMissed(nil, shown)), counted(len(missed), "function", "functions"), len(missed) - len(shown)}
}
