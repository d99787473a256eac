package html

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"footfall/coverage"
)

// A Frame is what those who serve pages add to them.
type Frame struct {
	// Policy is the Content-Security-Policy of pages.
	Policy string
	// Head is more of the head of each page: scripts and styles.
	Head template.HTML
	// Above is in the header of each page.
	Above template.HTML
	// Front is in the index, before its numbers.
	Front template.HTML
}

// Pages are those of a report that are served, and not written: each is made when it is asked
// for. What they show may grow from one Update to the next, and then files that a set keeps of
// the one before (see [coverage.Set.Keeps]) are not looked at again. They are for one
// goroutine at a time.
type Pages struct {
	site    *site
	numbers map[string]int // of pages by their names
	writer  *pageWriter
	loaded  *page // which the writer has, nil for none
}

// Update has pages show other contents. They have no lines of patches.
func (p *Pages) Update(c Contents) {
	before := make(map[string]*page)
	if p.site != nil {
		for _, known := range p.site.pages {
			before[known.path] = known
		}
	}
	kept := func(i int) *page {
		if known := before[c.Set.Name(i)]; known != nil && c.Set.Keeps(p.site.Set, i) {
			return known
		}
		return nil
	}
	made := make([]*page, c.Set.Len())
	coverage.Parallel(len(made), func(i int) {
		if made[i] = kept(i); made[i] == nil {
			f := c.Set.At(i)
			made[i] = c.newPage(f)
			made[i].missed = missedOf(made[i], f)
		}
	})
	p.site = newSiteOf(c, func(i int) *page { return made[i] })
	p.numbers = make(map[string]int, len(made))
	for i, page := range p.site.pages {
		p.numbers[page.name] = i
	}
	p.unload()
}

// Asset returns the style or script that pages have, nil if the name is of none.
func (p *Pages) Asset(name string) []byte {
	switch {
	case name == styleFile || name == scriptFile:
		data, _ := assets.ReadFile(name)
		return data
	case name == treeFile && p.site.large():
		return append(p.site.appendTreeData([]byte(treeHead), p.site.tree(), "", ""), ";\n"...)
	}
	return nil
}

// Index is index.html.
func (p *Pages) Index(f Frame) ([]byte, error) {
	p.site.Frame = f
	return pageOf("index.html", p.site.indexData(p.site.tree()))
}

// Functions is functions.html.
func (p *Pages) Functions(f Frame) ([]byte, error) {
	p.site.Frame = f
	return pageOf("functions.html", p.site.functionsData())
}

// Path returns the path of the source that a page below files shows, "" if there is no such page.
func (p *Pages) Path(name string) string {
	if i, ok := p.numbers[pageOfPart(name)]; ok {
		return p.site.pages[i].path
	}
	return ""
}

// Link returns the address of a line, seen from index.html; that of the source if it is 0, ""
// if there is no such source.
func (p *Pages) Link(path string, line int32) string {
	i, ok := slices.BinarySearchFunc(p.site.pages, path, func(p *page, path string) int { return cmp.Compare(p.path, path) })
	if !ok {
		return ""
	}
	link := pagesDir + "/" + p.site.pages[i].partName(0)
	if line > 0 {
		link += fmt.Sprintf("#L%d", line)
	}
	return link
}

// pageOfPart is the name of a page of which a file is the first part or another.
func pageOfPart(file string) string {
	name, _ := strings.CutSuffix(file, ".html")
	if at := strings.LastIndex(name, "=part"); at >= 0 {
		name = name[:at]
	}
	return name
}

// load has the writer render the source of a page, and returns its numbers; ok is false if
// there is no such page.
func (p *Pages) load(name string) (i, part int, ok bool) {
	i, ok = p.numbers[pageOfPart(name)]
	if !ok {
		return 0, 0, false
	}
	if page := p.site.pages[i]; p.loaded != page {
		p.unload()
		p.writer = &pageWriter{site: p.site}
		p.writer.load(i)
		p.loaded = page
	}
	for part := range p.loaded.parts {
		if p.loaded.partName(part) == name {
			return i, part, true
		}
	}
	return 0, 0, false
}

// unload forgets what the writer has rendered.
func (p *Pages) unload() {
	if p.loaded != nil {
		p.loaded.parts, p.loaded.file, p.loaded.notice = nil, nil, ""
	}
	p.loaded, p.writer = nil, nil
}

// Source is a page below files; ok is false if there is no such page.
func (p *Pages) Source(name string, f Frame) (page []byte, ok bool, err error) {
	p.site.Frame = f
	i, part, ok := p.load(name)
	if !ok {
		return nil, false, nil
	}
	d, err := p.writer.sourceData(i, part)
	if err != nil {
		return nil, true, err
	}
	page, err = pageOf("file.html", &d)
	return page, true, err
}

// A Row is a line of the page of a source: what is in the item of the list.
type Row struct {
	Number int32
	HTML   []byte // not to be changed, nor kept
}

// Rows returns the lines with code of a page below files, nil if there is no such page, and
// the rows of its table of functions.
func (p *Pages) Rows(name string) (rows []Row, functions template.HTML) {
	i, part, ok := p.load(name)
	if !ok {
		return nil, ""
	}
	shown := p.site.pages[i].parts[part]
	for _, m := range p.writer.marks {
		if m.number >= shown.from && m.number <= shown.to {
			rows = append(rows, Row{m.number, p.writer.buf[m.from:m.to]})
		}
	}
	_, functions = p.writer.functions(shown)
	return rows, functions
}

// A Total is a number at the head of a page.
type Total struct {
	Name, Percent, Counts string
	Covered, Total        int
	Level                 string // "good", "fair", "poor", or "" for none
}

// Totals returns those of the page of a source below files; of all for "".
func (p *Pages) Totals(name string) []Total {
	of, path, shown := p.site.sum, "", ""
	if i, ok := p.numbers[pageOfPart(name)]; ok && name != "" {
		page := p.site.pages[i]
		of, path, shown = page.sum, page.path, page.shown
	}
	var totals []Total
	for _, t := range p.site.pageData("", path, shown, of).Totals {
		totals = append(totals, Total{t.Name, t.Percent, t.Counts, t.Covered, t.Total, t.Level})
	}
	return totals
}

// An Entry is a row of the table of files.
type Entry struct {
	Path   string // as shown, of a directory with a slash at the end
	Ratios []int  // covered and total of each metric
	Levels int64  // how good each is, see [coverage.Level], in base 4, the first one last
}

// Entries returns all, directories before what is in them.
func (p *Pages) Entries() []Entry {
	s := p.site
	ratios := make([]int, 0, 2*len(s.metrics)*(len(s.pages)+1))
	var list []Entry
	add := func(t sum, path, shown string) {
		from, levels := len(ratios), int64(0)
		for i, m := range s.metrics {
			r := m.total(t)
			ratios = append(ratios, r.Covered, r.Total)
			levels |= int64(s.level(i, path, shown, r)) << (2 * i)
		}
		list = append(list, Entry{shown, ratios[from:len(ratios):len(ratios)], levels})
	}
	var walk func(d *directory, path string)
	walk = func(d *directory, path string) {
		for _, sub := range d.dirs {
			add(sub.sum, s.pathOf(path+sub.name), path+sub.name)
			walk(sub, path+sub.name)
		}
		for _, p := range d.pages {
			add(p.sum, p.path, p.shown)
		}
	}
	walk(s.tree(), "")
	return list
}

// Worst returns the rows of functions that miss most, which are in the index, and how many of
// how many were never called: "3 of 4".
func (p *Pages) Worst() (rows template.HTML, never string) {
	missed := p.site.missedFunctions()
	most := worstInIndex
	if len(p.site.pages) > manyFiles {
		most = worstOfMany
	}
	rows = template.HTML(p.site.appendMissed(nil, missed[:min(len(missed), most)]))
	return rows, fmt.Sprintf("%d of %d", neverCalled(missed), len(missed))
}
