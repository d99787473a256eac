package report

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"footfall/coverage"
	"footfall/input"
	"footfall/output"
)

// Pages are HTML for browsers, without a network, from a directory or from one
// file; all there is to read can be read without JavaScript. The frames of
// pages are the templates in html/, filled here; lines and tables, which are
// most of the bytes, are appended by html_source.go and html_tables.go.

//go:embed html/*.html html/footfall.css html/footfall.js
var htmlFiles embed.FS

var htmlTemplates = sync.OnceValue(func() *template.Template {
	return template.Must(template.ParseFS(htmlFiles, "html/*.html"))
})

// ours is what every page begins with: a report replaces and removes only
// what does.
const ours = "<!doctype html>\n<!-- footfall report -->\n"

const (
	styleFile  = "footfall.css"
	scriptFile = "footfall.js"
	pagesDir   = "files"
)

// writeHTML writes a directory of pages, or one page if the target's name is
// that of one.
func (r *Report) writeHTML(target string) ([]Problem, error) {
	if suffix := filepath.Ext(target); suffix == ".html" || suffix == ".htm" {
		return r.writeSinglePage(target)
	}
	return r.writePages(target)
}

// A site is the pages of a report.
type site struct {
	report *Report
	title  string
	pages  []*page // in the order of files
	sum
	metrics []pageMetric
	single  bool // all is in one page
	newer   map[*page]bool
}

// A page is what a site has of a source.
type page struct {
	file  *coverage.File
	shown string // the name of the source, for people
	name  string // of the page, different for each source
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

func newSite(r *Report) *site {
	s := &site{report: r, title: "coverage"}
	if base := filepath.Base(r.Root); r.Root != "" && base != "/" {
		s.title = output.Printable(base)
	}
	names := newPageNames()
	for _, f := range r.Set.Files {
		shown := r.Shown(f.Name)
		p := &page{file: f, shown: output.Printable(shown), name: names.name(shown), sum: sum{f.Totals(), r.Patch.FileTotals(f).Lines}}
		s.pages = append(s.pages, p)
		s.sum.add(p.sum)
	}
	for _, m := range metrics {
		total := func(t sum) coverage.Ratio { return m.total(r, t.totals) }
		if m.name == "calls" || total(s.sum).Total == 0 && m.name != "lines" {
			continue // calls follow lines closely
		}
		s.metrics = append(s.metrics, pageMetric{m.name, total})
	}
	s.findNewer()
	if r.Patch != nil {
		s.metrics = append(s.metrics, pageMetric{"changed lines", func(t sum) coverage.Ratio { return t.changed }})
	}
	return s
}

// findNewer finds sources that are newer than all objects, and so have perhaps
// changed since the build. Where most are, they are not the files that were
// compiled but a copy or a fresh checkout, and their times say nothing.
func (s *site) findNewer() {
	if s.report.Built.IsZero() {
		return
	}
	newer := make(map[*page]bool)
	for _, p := range s.pages {
		if info, err := input.Stat(p.file.Name); err == nil && info.ModTime().After(s.report.Built) {
			newer[p] = true
		}
	}
	if 2*len(newer) <= len(s.pages) {
		s.newer = newer
	}
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

func (s *site) problems() []Problem {
	var problems []Problem
	for _, p := range s.pages {
		if p.problem != nil {
			problems = append(problems, newProblem(noSource, p.file.Name, p.problem))
		}
	}
	return problems
}

func (r *Report) writePages(dir string) ([]Problem, error) {
	s := newSite(r)
	if err := prepare(dir); err != nil {
		return nil, err
	}
	for _, name := range []string{styleFile, scriptFile} {
		data, err := htmlFiles.ReadFile("html/" + name)
		if err == nil {
			err = output.WriteBytes(filepath.Join(dir, name), data)
		}
		if err != nil {
			return nil, err
		}
	}
	err := s.each(func(w *pageWriter, i int) error { return w.writeFiles(dir, i) })
	if err == nil {
		err = s.writePage(filepath.Join(dir, "functions.html"), "functions.html", s.functionsData())
	}
	root := s.tree()
	if err == nil {
		err = s.writeTree(dir, root)
	}
	if err == nil {
		err = s.writePage(filepath.Join(dir, "index.html"), "index.html", s.indexData(root))
	}
	if err == nil {
		err = s.removeStale(filepath.Join(dir, pagesDir))
	}
	return s.problems(), err
}

// prepare makes the directories, unless that would put pages among files of
// something else.
func prepare(dir string) error {
	index := filepath.Join(dir, "index.html")
	if _, err := os.Lstat(index); err == nil && !isOurs(index) {
		return fmt.Errorf("%s is not a page of a report and would be replaced: name another directory, or remove it", index)
	}
	if err := output.Directory(dir); err != nil {
		return err
	}
	return output.Directory(filepath.Join(dir, pagesDir))
}

// isOurs tells whether a file is a page of a report.
func isOurs(name string) bool {
	if info, err := os.Lstat(name); err != nil || !info.Mode().IsRegular() { // nor a pipe, which would wait
		return false
	}
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	start := make([]byte, len(ours))
	_, err = io.ReadFull(f, start)
	return err == nil && string(start) == ours
}

// removeStale removes pages of sources that are in the report no more.
func (s *site) removeStale(dir string) error {
	current := make(map[string]bool)
	for _, p := range s.pages {
		for i := range p.parts {
			current[p.partName(i)] = true
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if e.Type().IsRegular() && !current[e.Name()] && strings.HasSuffix(name, ".html") && isOurs(name) {
			if err := os.Remove(name); err != nil {
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

func (s *site) writePage(path, template string, data any) error {
	var b bytes.Buffer
	b.WriteString(ours)
	if err := htmlTemplates().ExecuteTemplate(&b, template, data); err != nil {
		return err
	}
	return output.WriteBytes(path, b.Bytes())
}

// pageData is what the frame of every page shows.
type pageData struct {
	Title  string // of the report
	Date   string // of the data
	Root   string // leads to the directory of index.html
	Totals []totalData
	Single bool
	Files  int
	Tree   bool   // the files of the index are data beside the page
	Policy string // of security
}

// filesPolicy lets a page have its script and style, and fetch nothing else,
// whatever a name or a source might bring into it. Not all browsers count a file
// beside a page that is a file as its own.
const filesPolicy = "default-src 'none'; script-src 'self' file:; style-src 'self' file:; base-uri 'none'; form-action 'none'"

type totalData struct {
	Name, Percent, Counts string
	Covered, Total        int
}

func (s *site) pageData(root string, t sum) pageData {
	d := pageData{Title: s.title, Root: root, Single: s.single, Files: len(s.pages), Policy: filesPolicy}
	if !s.report.Time.IsZero() {
		d.Date = s.report.Time.UTC().Format("2006-01-02 15:04 UTC")
	}
	for _, m := range s.metrics {
		total := m.total(t)
		d.Totals = append(d.Totals, totalData{m.name, percent(total), grouped(total), total.Covered, total.Total})
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
}

func (s *site) indexData(root *directory) indexData {
	missed := s.missedFunctions()
	d := indexData{pageData: s.pageData("", s.sum), AllMissed: len(missed)}
	for _, f := range missed {
		if f.calls <= 0 {
			d.NeverCalled++
		}
	}
	worst := worstInIndex
	if s.single {
		worst = worstInSingle
	}
	if d.Tree = s.large(); d.Tree {
		d.Rows = s.directoryRows(root)
	} else {
		d.Rows = template.HTML(s.appendDirectory(nil, root, 0))
	}
	d.Worst = template.HTML(s.appendMissed(nil, missed[:min(len(missed), worst)]))
	return d
}

const (
	worstInIndex  = 25
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
	return functionsData{s.pageData("", s.sum), template.HTML(s.appendMissed(nil, shown)), counted(len(missed), "function", "functions"), len(missed) - len(shown)}
}
