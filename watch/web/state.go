package web

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	"footfall/coverage"
	"footfall/demangle"
	"footfall/output"
	"footfall/report/html"
	"footfall/watch/growth"
)

// A state is what is known after a reading.
type state struct {
	version int
	closed  bool

	title    string
	growth   *growth.Comparer
	picture  *growth.Picture // nil: there was no reading
	failed   error           // of the last one; nil: it went well
	contents html.Contents   // of the picture, once refresh was called
	activity []float64       // line runs a second, of the last ticks
	recent   []recent        // newest first
	said     []string        // what people were told, newest last

	pages   html.Pages
	shown   *growth.Picture // what pages have
	entries map[string]*entry
	tree    int // version in which rows came or went
	worst   versioned
	missed  string // how many of the functions that miss lines were never called
	hot     []hotLine
	hotOf   *growth.Picture
	viewed  map[string]*viewed // pages of sources, by name
	texts   map[string][]string
}

// versioned is a piece of a page, and since which version it is as it is.
type versioned struct {
	html    string
	version int
}

func (v *versioned) set(html string, version int) {
	if v.html != html || v.version == 0 {
		*v = versioned{html, version}
	}
}

type entry struct {
	html.Entry
	version int
}

// recent is a function, or what of a file is in none, of which lines were covered for the first
// time at a tick.
type recent struct {
	at       time.Time
	lines    int
	path     string
	first    int32  // of the lines
	function string // "": none
}

// Limits of what is kept, and shown.
const (
	mostRecent  = 200
	recentFor   = time.Minute
	recentShown = 15
	mostSaid    = 4
	mostHot     = 15
	sparks      = 16
	mostTexts   = 32
	// viewedFor is how long the rows of a page are kept when nobody has it.
	viewedFor = time.Minute
)

func newState(shown func(string) string) state {
	return state{growth: growth.New(shown), entries: make(map[string]*entry), viewed: make(map[string]*viewed), texts: make(map[string][]string)}
}

// take takes a reading.
func (s *state) take(p *growth.Picture, at time.Time) {
	s.picture = p
	if p.Seconds > 0 {
		s.activity = append(s.activity, p.Rate(p.Runs))
		s.activity = s.activity[max(0, len(s.activity)-sparks):]
	}
	var fresh []recent
	for _, file := range p.Files {
		if file.NewTick > 0 {
			fresh = append(fresh, freshIn(p, file.Key.File, at)...)
		}
	}
	slices.SortStableFunc(fresh, func(a, b recent) int { return cmp.Compare(b.lines, a.lines) })
	s.recent = append(fresh, s.recent...)
	s.recent = s.recent[:min(len(s.recent), mostRecent)]
}

// restart forgets what was before counts start from zero.
func (s *state) restart() {
	s.growth.Restart()
	s.activity, s.recent = nil, nil
}

// say tells people something.
func (s *state) say(text string) {
	s.said = append(s.said, time.Now().Format(time.TimeOnly)+" "+output.Printable(text))
	s.said = s.said[max(0, len(s.said)-mostSaid):]
}

// freshIn finds what of a file was covered for the first time at a tick, by function.
func freshIn(p *growth.Picture, path string, at time.Time) []recent {
	file := p.Now.File(path)
	var list []recent
	where := make(map[string]int)
	for _, l := range p.Lines(path) {
		if !l.NewTick {
			continue
		}
		function := functionAt(file, l.Number)
		i, ok := where[function]
		if !ok {
			i = len(list)
			where[function] = i
			list = append(list, recent{at: at, path: path, first: l.Number, function: function})
		}
		list[i].lines++
	}
	return list
}

// functionAt returns the name of the function that a line is in, the innermost; "" for none.
func functionAt(f *coverage.File, line int32) string {
	for i := len(f.Functions) - 1; i >= 0; i-- {
		if fn := f.Functions[i]; fn.StartLine <= line && (fn.EndLine == 0 || line <= fn.EndLine) {
			return output.Printable(demangle.Title(fn.Symbols()))
		}
	}
	return ""
}

// A hotLine ran since the tick before.
type hotLine struct {
	path string
	growth.LineGrowth
	text string
}

// hottest returns the lines that ran most since the tick before.
func (s *state) hottest() []hotLine {
	if s.hotOf == s.picture {
		return s.hot
	}
	p := s.picture
	files := slices.DeleteFunc(slices.Clone(p.Files), func(r growth.Row) bool { return r.Runs <= 0 })
	slices.SortFunc(files, func(a, b growth.Row) int { return cmp.Or(cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.Name, b.Name)) })
	compare := func(a, b hotLine) int {
		return cmp.Or(cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.path, b.path), cmp.Compare(a.Number, b.Number))
	}
	s.hot, s.hotOf = nil, p
	for _, file := range files {
		if len(s.hot) == mostHot && file.Runs < s.hot[mostHot-1].Runs {
			break // nor has a line of it, or of those that follow
		}
		for _, l := range p.Lines(file.Key.File) {
			if l.Runs <= 0 || len(s.hot) == mostHot && l.Runs < s.hot[mostHot-1].Runs {
				continue
			}
			hot := hotLine{path: file.Key.File, LineGrowth: l}
			at, _ := slices.BinarySearchFunc(s.hot, hot, compare)
			s.hot = slices.Insert(s.hot, at, hot)
			s.hot = s.hot[:min(len(s.hot), mostHot)]
		}
	}
	for i := range s.hot {
		s.hot[i].text = s.text(s.hot[i].path, s.hot[i].Number)
	}
	return s.hot
}

// text returns a line of a source, "" if it is not to be had.
func (s *state) text(path string, number int32) string {
	lines, known := s.texts[path]
	if !known {
		if text, err := s.contents.ReadSource(path); err == nil {
			lines = strings.Split(string(text), "\n")
		}
		if len(s.texts) >= mostTexts {
			clear(s.texts)
		}
		s.texts[path] = lines
	}
	if int(number) > len(lines) {
		return ""
	}
	const longest = 200
	line := []rune(output.Printable(strings.Join(strings.Fields(lines[number-1]), " ")))
	return string(line[:min(len(line), longest)])
}

// refresh has pages be those of the last reading, and finds out which rows of the index are new.
func (s *server) refresh() {
	if s.shown == s.picture {
		return
	}
	if s.shown != nil && sameSet(s.picture.Now, s.shown.Now) {
		s.shown = s.picture
		return
	}
	s.contents = s.source.Contents()
	s.contents.Title = s.title
	s.pages.Update(s.contents)
	s.shown = s.picture
	list := s.pages.Entries()
	came := len(list) != len(s.entries)
	for _, e := range list {
		known := s.entries[e.Path]
		if known == nil {
			came = true
			s.entries[e.Path] = &entry{e, s.version}
			continue
		}
		if known.Levels != e.Levels || !slices.Equal(known.Ratios, e.Ratios) {
			known.Entry, known.version = e, s.version
		}
	}
	if came {
		s.tree = s.version
		there := make(map[string]bool, len(list))
		for _, e := range list {
			there[e.Path] = true
		}
		for path := range s.entries {
			if !there[path] {
				delete(s.entries, path)
			}
		}
	}
	worst, missed := s.pages.Worst()
	s.worst.set(string(worst), s.version)
	s.missed = missed
}

// sameSet tells whether a set keeps all files of an earlier one, and has no others.
func sameSet(set, earlier *coverage.Set) bool {
	for i := range set.Len() {
		if !set.Keeps(earlier, i) {
			return false
		}
	}
	return set.Len() == earlier.Len()
}

// viewed are the rows of a page that somebody looks at.
type viewed struct {
	path      string
	picture   *growth.Picture // of which the rows are
	last      time.Time       // when it was looked at
	rows      map[int32]*versioned
	functions versioned
	heat      [][2]any // number of the line, runs a second, of all that ran since the tick before
}

// view brings the rows of a page below files up to date, nil if there is none. Those that nobody
// looks at any more are forgotten.
func (s *server) view(name string) *viewed {
	s.refresh()
	now := time.Now()
	for other, v := range s.viewed {
		if other != name && now.Sub(v.last) > viewedFor {
			delete(s.viewed, other)
		}
	}
	v := s.viewed[name]
	if v == nil {
		path := s.pages.Path(name)
		if path == "" {
			return nil
		}
		v = &viewed{path: path, rows: make(map[int32]*versioned)}
	}
	v.last = now
	if v.picture == s.picture {
		return v
	}
	if i, ok := s.picture.Now.Index(v.path); !ok || v.picture == nil || !s.picture.Now.Keeps(v.picture.Now, i) {
		rows, functions := s.pages.Rows(name)
		if rows == nil && s.pages.Path(name) == "" {
			return nil
		}
		for _, r := range rows {
			known := v.rows[r.Number]
			if known == nil {
				known = new(versioned)
				v.rows[r.Number] = known
			}
			if known.version == 0 || !bytes.Equal(r.HTML, []byte(known.html)) {
				*known = versioned{string(r.HTML), s.version}
			}
		}
		v.functions.set(string(functions), s.version)
	}
	v.heat = nil
	for _, l := range s.picture.Lines(v.path) {
		if l.Runs > 0 {
			v.heat = append(v.heat, [2]any{l.Number, rate(s.picture.Rate(l.Runs))})
		}
	}
	v.picture = s.picture
	s.viewed[name] = v
	return v
}
