package html

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"footfall/coverage"
	"footfall/demangle"
)

// A missedFunction has lines that never ran.
type missedFunction struct {
	page  *page
	name  string // for people
	line  int32
	calls int64
	lines coverage.Ratio
}

// missedIn returns the functions of a page with lines that never ran.
func (s *site) missedIn(p *page) []missedFunction { return missedOf(p, p.file) }

func missedOf(p *page, file *coverage.File) []missedFunction {
	var missed []missedFunction
	for i, f := range file.Functions {
		if lines := functionLines(file, i); lines.Missed() > 0 {
			missed = append(missed, missedFunction{p, demangle.Title(f.Symbols()), f.StartLine, f.Count, lines})
		}
	}
	return missed
}

// functionLines counts the lines of the i-th function of f.
func functionLines(f *coverage.File, i int) (r coverage.Ratio) {
	for _, l := range f.LinesOf(i) {
		r.Total++
		if l.Count > 0 {
			r.Covered++
		}
	}
	return r
}

// functions returns the table of the functions that begin in a part of the
// page, the most missed lines first, and a line about it.
func (w *pageWriter) functions(p part) (summary string, rows template.HTML) {
	type row struct {
		*coverage.Function
		lines coverage.Ratio
	}
	var list []row
	never := 0
	for i, f := range w.file.Functions {
		if len(w.parts) > 1 && (f.StartLine < p.from || f.StartLine > p.to) {
			continue
		}
		list = append(list, row{f, functionLines(w.file, i)})
		if f.Count <= 0 {
			never++
		}
	}
	slices.SortStableFunc(list, func(a, b row) int { return cmp.Compare(b.lines.Missed(), a.lines.Missed()) })
	summary = counted(len(list), "function", "functions")
	if never > 0 {
		summary += ", " + string(appendGrouped(nil, int64(never))) + " never called"
	}
	var buf []byte
	for i, f := range list {
		if len(buf) > mostFunctions {
			buf = fmt.Appendf(buf, "<tr><td colspan=4>and %d more", len(list)-i)
			break
		}
		buf = append(buf, `<tr><td><a href="#`...)
		buf = append(buf, w.prefix...)
		buf = append(buf, 'L')
		buf = strconv.AppendInt(buf, int64(f.StartLine), 10)
		buf = append(buf, `">`...)
		buf = appendName(buf, demangle.Title(f.Symbols()))
		buf = append(buf, "</a><td>"...)
		if f.Unused {
			buf = append(buf, "<u>unused</u>"...)
		} else {
			buf = appendCalls(buf, f.Count)
		}
		buf = append(buf, "<td>"...)
		buf = strconv.AppendInt(buf, int64(f.lines.Missed()), 10)
		buf = append(buf, "<td>"...)
		buf = append(buf, f.lines.Counts()...)
	}
	return summary, template.HTML(buf)
}

func appendCalls(buf []byte, n int64) []byte {
	if n <= 0 {
		return append(buf, "<u>never</u>"...)
	}
	return appendGrouped(buf, n)
}

func counted(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return string(appendGrouped(nil, int64(n))) + " " + several
}

// appendMissed appends rows of functions, seen from the directory of the index.
func (s *site) appendMissed(buf []byte, list []missedFunction) []byte {
	for _, f := range list {
		buf = append(buf, "<tr><td>"...)
		buf = strconv.AppendInt(buf, int64(f.lines.Missed()), 10)
		buf = append(buf, "<td>"...)
		buf = append(buf, f.lines.Counts()...)
		buf = append(buf, "<td>"...)
		buf = appendCalls(buf, f.calls)
		buf = append(buf, `<td><a href="`...)
		buf = append(buf, s.target(f.page, f.line)...)
		buf = append(buf, `">`...)
		buf = appendName(buf, f.name)
		buf = append(buf, "</a><td>"...)
		buf = append(buf, template.HTMLEscapeString(f.page.shown)...)
		buf = append(buf, ':')
		buf = strconv.AppendInt(buf, int64(f.line), 10)
		buf = append(buf, '\n')
	}
	return buf
}

// A directory of the index, with what is in it by name.
type directory struct {
	name string // with a slash at the end; several where each has but the next in it
	sum
	dirs  []*directory
	pages []*page
}

// tree puts the pages, which are in the order of their paths, into directories.
func (s *site) tree() *directory {
	root := &directory{}
	for _, p := range s.pages {
		dir := root
		dir.sum.add(p.sum)
		list, _ := crumbs(p.shown)
		for _, c := range list {
			i := slices.IndexFunc(dir.dirs, func(d *directory) bool { return d.name == c.Name })
			if i < 0 {
				i = len(dir.dirs)
				dir.dirs = append(dir.dirs, &directory{name: c.Name})
			}
			dir = dir.dirs[i]
			dir.sum.add(p.sum)
		}
		dir.pages = append(dir.pages, p)
	}
	root.join()
	return root
}

// join makes one of directories with nothing but another one in them.
func (d *directory) join() {
	for i, sub := range d.dirs {
		for len(sub.dirs) == 1 && len(sub.pages) == 0 {
			sub = &directory{sub.name + sub.dirs[0].name, sub.sum, sub.dirs[0].dirs, sub.dirs[0].pages}
		}
		d.dirs[i] = sub
		sub.join()
	}
}

// deepest is the last step of indentation.
const deepest = 9

// appendDirectory appends a row for each directory and each file in d, in the
// order of the tree; class dN is a directory N deep, fN a file.
func (s *site) appendDirectory(buf []byte, d *directory, path string, depth int) []byte {
	class := strconv.Itoa(min(depth, deepest))
	for _, sub := range d.dirs {
		buf = append(buf, "<tr class=d"...)
		buf = append(buf, class...)
		buf = append(buf, "><th scope=row>"...)
		buf = append(buf, template.HTMLEscapeString(sub.name)...)
		buf = s.appendMetrics(buf, sub.sum, s.pathOf(path+sub.name), path+sub.name)
		buf = s.appendDirectory(buf, sub, path+sub.name, depth+1)
	}
	for _, p := range d.pages {
		buf = append(buf, "<tr class=f"...)
		buf = append(buf, class...)
		buf = append(buf, "><th scope=row><a "...)
		if s.stale(p.path) {
			buf = append(buf, "class=stale "...)
		}
		buf = append(buf, `href="`...)
		switch {
		case s.single:
			buf = append(append(buf, '#'), p.name...)
		default:
			buf = append(append(buf, pagesDir+"/"...), p.partName(0)...)
		}
		buf = append(buf, `">`...)
		buf = append(buf, template.HTMLEscapeString(p.shown[strings.LastIndexByte(p.shown, '/')+1:])...)
		buf = append(buf, "</a>"...)
		buf = s.appendMetrics(buf, p.sum, p.path, p.shown)
	}
	return buf
}

// pathOf is the name of a directory that is shown by another, as the Set would have it.
func (s *site) pathOf(shown string) string {
	if strings.HasPrefix(shown, "/") || s.Root == "" {
		return shown
	}
	return strings.TrimSuffix(s.Root, "/") + "/" + shown
}

// appendMetrics appends the cells of a row: for each metric the part and the
// counts, and before that for lines a bar and what was missed.
func (s *site) appendMetrics(buf []byte, t sum, path, shown string) []byte {
	for i, m := range s.metrics {
		r := m.total(t)
		if i == 0 {
			buf = append(buf, "<td>"...)
			if r.Total > 0 {
				buf = fmt.Appendf(buf, "<progress value=%d max=%d aria-hidden=true></progress>", r.Covered, r.Total)
			}
			buf = append(buf, "<td>"...)
			buf = strconv.AppendInt(buf, int64(r.Missed()), 10)
		}
		if level := s.level(i, path, shown, r); level > coverage.Good {
			buf = append(buf, "<td class="...)
			buf = append(buf, levelClasses[level]...)
			buf = append(buf, '>')
		} else {
			buf = append(buf, "<td>"...)
		}
		buf = append(buf, r.Rounded()...)
		buf = append(buf, "<td>"...)
		buf = append(buf, r.Counts()...)
	}
	return append(buf, '\n')
}
