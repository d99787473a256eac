package watch

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
)

// A binding is a key, or several that do the same, and what they do. The help
// and the row of keys come from the same table.
type binding struct {
	keys  string // as they are called by the terminal, separated by spaces
	shown string // in the help
	help  string
	hint  string // for the row of keys; "": not there
	do    func(m *model) tea.Cmd
}

// Keys of everything, of tables and of sources.
var (
	firstKeys = []binding{
		{"?", "?", "this help", "? help", func(m *model) tea.Cmd { m.mode = helping; return nil }},
		{"q", "q", "quit", "q quit", func(*model) tea.Cmd { return tea.Quit }},
	}
	commonKeys = []binding{
		{"up k", "up k", "up", "", func(m *model) tea.Cmd { return m.move(-1) }},
		{"down j", "down j", "down", "", func(m *model) tea.Cmd { return m.move(1) }},
		{"pgup ctrl+b ctrl+u b", "PgUp b", "a page up", "", func(m *model) tea.Cmd { return m.move(-m.bodyHeight()) }},
		{"pgdown ctrl+f ctrl+d space", "PgDn space", "a page down", "", func(m *model) tea.Cmd { return m.move(m.bodyHeight()) }},
		{"home g", "Home g", "the first", "", func(m *model) tea.Cmd { return m.move(-1 << 31) }},
		{"end G", "End G", "the last", "", func(m *model) tea.Cmd { return m.move(1 << 31) }},
		{"r", "r", "start all counts from zero", "r reset", (*model).askReset},
		{"w", "w", "write the coverage to files", "w write", (*model).snapshot},
		{"p", "p", "pause and go on", "p pause", (*model).pause},
		{"ctrl+z", "", "", "", func(*model) tea.Cmd { return tea.Suspend }},
	}
	tableKeys = []binding{
		{"enter right l", "Enter", "show the source", "enter open", (*model).open},
		{"tab shift+tab", "Tab", "files or functions", "tab switch", func(m *model) tea.Cmd { m.tab = 1 - m.tab; return nil }},
		{"s", "s S", "sort in the next way, or the one before", "s<>R sort", func(m *model) tea.Cmd { m.table().nextSort(1); return nil }},
		{"S", "", "", "", func(m *model) tea.Cmd { m.table().nextSort(-1); return nil }},
		{"<", "< >", "sort by the column to the left, or to the right", "", func(m *model) tea.Cmd { m.table().nextColumn(-1); return nil }},
		{">", "", "", "", func(m *model) tea.Cmd { m.table().nextColumn(1); return nil }},
		{"R", "R", "sort backwards", "", func(m *model) tea.Cmd { t := m.table(); t.sortBy(t.sort, !t.back); return nil }},
		{"/", "/", "show what contains a text", "/ filter", func(m *model) tea.Cmd { m.mode = typing; return nil }},
		{"esc", "Esc", "show everything again", "", func(m *model) tea.Cmd { m.table().setFilter(""); return nil }},
	}
	sourceKeys = []binding{
		{"esc backspace", "Esc", "back to the table", "esc back", func(m *model) tea.Cmd { m.source = nil; return nil }},
		{"n", "n", "next lines that never ran", "n/N uncovered", func(m *model) tea.Cmd { return m.uncovered(true) }},
		{"N", "N", "lines before that never ran", "", func(m *model) tea.Cmd { return m.uncovered(false) }},
		{"/", "/", "search for a text", "/ search", func(m *model) tea.Cmd { m.mode = typing; m.source.beginSearch(); return nil }},
		{"m", "m M", "the next line with the text, or the one before", "", func(m *model) tea.Cmd { return m.match(true) }},
		{"M", "", "", "", func(m *model) tea.Cmd { return m.match(false) }},
		{"h", "h", "the hottest line", "h hottest", func(m *model) tea.Cmd { m.source.toHottest(); return nil }},
		{"left", "left", "to the left", "", func(m *model) tea.Cmd { m.source.left = max(0, m.source.left-tabWidth); return nil }},
		{"right", "right", "to the right", "", func(m *model) tea.Cmd { m.source.left += tabWidth; return nil }},
	}
)

// keys returns the bindings of what is shown.
func (m *model) keys() []binding {
	if m.source != nil {
		return slices.Concat(firstKeys, sourceKeys, commonKeys)
	}
	return slices.Concat(firstKeys, tableKeys, commonKeys)
}

// key does what a key is for.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	m.message = ""
	name := k.String()
	if name == "ctrl+c" {
		return tea.Quit
	}
	switch m.mode {
	case typing:
		m.typed(k)
		return nil
	case asking:
		m.mode = browsing
		if name == "y" || name == "Y" {
			return func() tea.Msg { return m.sampler.reset() }
		}
		return nil
	case helping:
		m.mode = browsing
		return nil
	}
	for _, b := range m.keys() {
		for key := range strings.FieldsSeq(b.keys) {
			if key == name {
				return b.do(m)
			}
		}
	}
	return nil
}

// typed takes a key of the text that a table is filtered by, or that is searched for in a source.
func (m *model) typed(k tea.KeyPressMsg) {
	text := m.typedText()
	switch k.String() {
	case "enter", "tab", "up", "down":
		m.mode = browsing
		if m.source != nil && text != "" {
			m.message = m.source.found()
		}
	case "esc":
		m.mode = browsing
		m.setTyped("")
	case "backspace", "ctrl+h":
		if r := []rune(text); len(r) > 0 {
			m.setTyped(string(r[:len(r)-1]))
		}
	case "ctrl+u", "ctrl+w":
		m.setTyped("")
	default:
		if k.Text != "" {
			m.setTyped(text + clean(k.Text))
		}
	}
}

func (m *model) typedText() string {
	if m.source != nil {
		return m.source.wanted
	}
	return m.table().filter
}

func (m *model) setTyped(text string) {
	if m.source != nil {
		m.source.search(text)
	} else {
		m.table().setFilter(text)
	}
}

// match goes to the next line with the text that is searched for, or to the one before.
func (m *model) match(forward bool) tea.Cmd {
	switch {
	case m.source.wanted == "":
		m.message = "nothing is searched for: / begins"
	case !m.source.toMatch(forward):
		m.message = m.source.found()
	}
	return nil
}

func (m *model) move(by int) tea.Cmd {
	if m.source != nil {
		m.source.move(by)
	} else {
		m.table().move(by)
	}
	return nil
}

func (m *model) pause() tea.Cmd {
	if m.paused = !m.paused; m.paused {
		return nil
	}
	m.chain++ // a tick of before the pause may still come
	chain := m.chain
	return func() tea.Msg { return tick{chain} }
}

func (m *model) askReset() tea.Cmd {
	if m.sampler.source.Reset == nil {
		m.message = "these counts cannot be reset"
		return nil
	}
	m.mode = asking
	return nil
}

func (m *model) snapshot() tea.Cmd {
	if m.sampler.source.Snapshot == nil {
		m.message = "there is no place to write files to"
		return nil
	}
	m.message = "writing..."
	return func() tea.Msg { return m.sampler.snapshot() }
}

// open shows the source of the row of the cursor.
func (m *model) open() tea.Cmd {
	r := m.table().selected()
	if r == nil {
		return nil
	}
	k := r.Key
	return func() tea.Msg { return opened{m.sampler.open(k.File), k.Line} }
}

func (m *model) uncovered(forward bool) tea.Cmd {
	if !m.source.toUncovered(forward) {
		m.message = "no line that never ran from here on"
		if !forward {
			m.message = "no line that never ran before this one"
		}
	}
	return nil
}

// drawKeys draws the keys that are used most, as many as fit.
func (m *model) drawKeys(c *canvas) {
	c.text(" ")
	for _, b := range m.keys() {
		if key, what, ok := strings.Cut(b.hint, " "); ok && c.column+len(b.hint) < c.width {
			c.style(bold, key)
			c.text(" " + what + "  ")
		}
	}
}

// drawHelp draws all keys, and what the columns mean, on the whole screen.
func (m *model) drawHelp(c *canvas) {
	c.style(bold, " keys")
	c.endRow()
	for _, b := range m.keys() {
		if b.shown == "" {
			continue
		}
		c.text("   ")
		c.style(bold, b.shown)
		c.pad(14)
		c.text(b.help)
		c.endRow()
	}
}
