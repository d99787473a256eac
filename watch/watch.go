// Package watch shows coverage that grows in the terminal: which files and
// functions run, what of them was reached for the first time, and what is hot.
//
// [Run] asks a [Source] for the coverage again and again and draws it on the
// whole screen until the user quits. The package knows neither where the
// coverage comes from nor how it is written to files: it calls the functions
// of the Source for that.
//
// # Structure
//
// A sampler (sample.go) reads the coverage, a tick after another, in a goroutine of its own,
// and has package growth compare it with that of the tick before and of the start: heat and
// growth are its words. A picture does not change afterwards. The model (this
// file, keys.go) is what the user has done so far: two tables (table.go) and
// perhaps a source (listing.go). It draws no more rows than the screen has.
package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"

	"footfall/coverage"
	"footfall/input"
	"footfall/watch/growth"
)

// A Source is where coverage comes from. Its functions are called from another
// goroutine than Run's, but never two at the same time, and none after Run has
// returned.
type Source struct {
	// Title says what is watched: "redis-server (pid 4711)".
	Title string
	// TitleNow is what Title has become by the last call of Next; nil: it stays.
	TitleNow func() string
	// Next returns the coverage as it is now, in a Set that nobody changes
	// later. An error, such as that the process has ended, is shown beside the
	// last picture; Next is called again at the next tick.
	Next func() (*coverage.Set, error)
	// Reset makes counts start from zero at the next call of Next; nil: they
	// cannot.
	Reset func() error
	// Snapshot writes the coverage to files and returns where they are; nil:
	// there is no place for them.
	Snapshot func() (string, error)
	// Said returns what the user is to be told of the last calls of Next; nil:
	// nothing ever.
	Said func() []string
	// ReadFile returns the source of the name in the Set; nil is input.ReadSource.
	ReadFile func(name string) ([]byte, error)
}

// Options are how to show it.
type Options struct {
	// Interval is the time from tick to tick; 0 is a second.
	Interval time.Duration
	// Shown returns the name to show for a file; nil: the name as it is.
	Shown func(name string) string
	// Input and Output are a terminal; nil is that of the process.
	Input  io.Reader
	Output io.Writer
	// NoColor leaves out colours; bold and reverse text remain.
	NoColor bool
}

// Run shows the coverage of src until the user quits, ctx ends or the process
// gets a signal that ends programs, and then puts the terminal back as it was.
// That the first call of Next fails is an error, and nothing is shown.
func Run(ctx context.Context, src Source, o Options) error {
	// SIGINT and SIGTERM are bubbletea's.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGABRT)
	defer stop()
	return run(ctx, src, o)
}

func run(ctx context.Context, src Source, o Options, settings ...tea.ProgramOption) error {
	m := newModel(src, o)
	defer m.sampler.close()
	defer input.Hurry() // close waits for who is reading
	defer context.AfterFunc(ctx, input.Hurry)()
	first := m.sampler.sample()
	if first.err != nil {
		return first.err
	}
	m.Update(first)

	settings = append(settings, tea.WithContext(ctx))
	if o.Input != nil {
		settings = append(settings, tea.WithInput(o.Input))
	}
	if o.Output != nil {
		settings = append(settings, tea.WithOutput(o.Output))
	}
	_, err := tea.NewProgram(m, settings...).Run()
	if ctx.Err() != nil || errors.Is(err, tea.ErrInterrupted) {
		return nil
	}
	return err
}

// A model is what is shown, and what the user has done.
type model struct {
	title         string
	options       Options
	sampler       *sampler
	width, height int

	picture  *growth.Picture
	activity []float64 // line runs a second, of the last ticks
	err      error     // of the last tick
	message  string    // to be shown until the next key

	tables [2]*table // files, functions
	tab    int       // the one that is shown
	source *listing  // shown instead, if not nil

	mode   mode
	paused bool
	chain  int // number of the chain of ticks; those of older ones are void
}

// A mode says what keys mean.
type mode int

const (
	browsing mode = iota
	typing        // the filter, or what is searched for
	asking        // whether to reset
	helping
)

func newModel(src Source, o Options) *model {
	if o.Interval <= 0 {
		o.Interval = time.Second
	}
	if o.Shown == nil {
		o.Shown = func(name string) string { return name }
	}
	return &model{
		title:   clean(src.Title),
		options: o,
		sampler: newSampler(src, o.Shown),
		width:   80,
		height:  24,
		tables:  [2]*table{newFileTable(), newFunctionTable()},
	}
}

// Messages that end what was begun in another goroutine.
type (
	tick   struct{ chain int }
	opened struct {
		source *listing
		line   int32 // to begin with; 0: the hottest
	}
	saved struct {
		where string
		err   error
	}
)

// Init starts the chain of ticks; the first picture is there already.
func (m *model) Init() tea.Cmd { return m.nextTick(m.options.Interval) }

func (m *model) nextTick(after time.Duration) tea.Cmd {
	chain := m.chain
	return tea.Tick(after, func(time.Time) tea.Msg { return tick{chain} })
}

// Update takes a message, and returns what is to be done because of it.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		if msg.Width > 0 && msg.Height > 0 {
			m.width, m.height = msg.Width, msg.Height
		}
	case tea.KeyPressMsg:
		return m, m.key(msg)
	case tea.PasteMsg:
		if m.mode == typing {
			m.setTyped(m.typedText() + clean(msg.Content))
		}
	case tick:
		if msg.chain == m.chain && !m.paused {
			return m, func() tea.Msg { return m.sampler.sample() }
		}
	case sampled:
		return m, m.take(msg)
	case opened:
		m.source = msg.source
		m.source.update(m.picture)
		m.source.begin(msg.line, m.bodyHeight())
	case saved:
		if m.message = "written to " + clean(msg.where); msg.err != nil {
			m.message = "not written: " + clean(msg.err.Error())
		}
	}
	return m, nil
}

// take shows a new picture. Reading should cost the machine less than half of
// its time, so the next tick is at least as far away as reading took.
func (m *model) take(s sampled) tea.Cmd {
	if s.resetErr != nil {
		m.message = "not reset: " + clean(s.resetErr.Error())
		return nil
	}
	if s.title != "" {
		m.title = clean(s.title)
	}
	if len(s.said) > 0 {
		m.message = clean(strings.Join(s.said, "; "))
	}
	if s.err != nil {
		m.err = s.err
	} else if m.picture == nil || s.picture.Number > m.picture.Number {
		m.err = nil
		m.picture = s.picture
		m.tables[0].update(m.picture.Files)
		m.tables[1].update(m.picture.Functions)
		if m.source != nil {
			m.source.update(m.picture)
		}
		if s.picture.Seconds > 0 {
			m.activity = append(m.activity, m.picture.Rate(m.picture.Runs))
			m.activity = m.activity[max(0, len(m.activity)-sparks):]
		}
	}
	if s.reset {
		m.message = "counts start from zero"
		return nil // the chain of ticks goes on by itself
	}
	return m.nextTick(max(m.options.Interval-s.took, s.took))
}

// table returns the table that is shown, or was before the source.
func (m *model) table() *table { return m.tables[m.tab] }

// View draws the screen.
func (m *model) View() tea.View {
	v := tea.NewView(m.screen())
	v.AltScreen = true
	v.WindowTitle = "footfall: " + m.title
	if m.mode == typing {
		v.Cursor = tea.NewCursor(min(m.width-1, textWidth(m.prompt()+m.typedText())), m.height-1)
	}
	return v
}

// Rows of the screen around the body: title, totals, tabs, titles of the
// columns; details and keys.
const (
	headRows = 4
	footRows = 2
)

// bodyHeight is the number of rows of the table or the source.
func (m *model) bodyHeight() int { return max(1, m.height-headRows-footRows) }

// screen returns the rows of the screen; of a very low one only the body.
func (m *model) screen() string {
	c := &canvas{width: m.width, color: !m.options.NoColor}
	if m.mode == helping {
		m.drawHelp(c)
		return c.String()
	}
	head, foot := m.height >= headRows+3, m.height > footRows
	if head {
		m.drawTitle(c)
		m.drawTotals(c)
	}
	if m.source != nil {
		m.source.draw(c, m.bodyHeight(), head)
	} else {
		m.drawTabs(c, head)
		m.table().draw(c, m.picture, m.bodyHeight(), head)
	}
	if foot {
		c.style(dim, m.details())
		c.endRow()
		m.drawFooter(c)
	}
	return c.String()
}

// sparks is the number of ticks in the picture of recent activity.
const sparks = 16

func (m *model) drawTitle(c *canvas) {
	state, style := "every "+m.options.Interval.String(), plain
	switch {
	case m.err != nil:
		state, style = "no more data", bad
	case m.paused:
		state, style = "paused", fair
	}
	state = fmt.Sprintf("%s  %s ", growth.Clock(m.picture.Since), state)
	activity := ""
	if m.picture.Seconds > 0 {
		activity = fmt.Sprintf("%s %s runs/s", growth.Sparkline(m.activity), growth.Human(m.picture.Rate(m.picture.Runs)))
	}
	c.style(bold, " "+fitEnd(m.title, max(8, c.width-textWidth(activity)-textWidth(state)-5)))
	if rest := c.width - c.column - textWidth(state); rest > textWidth(activity)+2 {
		c.text("  ")
		c.style(hot, activity)
	}
	c.pad(c.width - textWidth(state))
	c.style(style, state)
	c.endRow()
}

// drawTotals shows the totals of all files, as many as fit.
func (m *model) drawTotals(c *canvas) {
	p := m.picture
	c.text(" lines ")
	c.bar(p.Totals.Lines, 10)
	c.style(level(p.Totals.Lines), " "+p.Totals.Lines.Rounded())
	c.text(" " + p.Totals.Lines.Counts())
	if p.NewStart > 0 {
		c.style(good, fmt.Sprintf(" +%d", p.NewStart))
	}
	for _, m := range []struct {
		name string
		coverage.Ratio
	}{{"functions", p.Totals.Functions}, {"branches", p.Totals.Branches}, {"conditions", p.Totals.Conditions}} {
		name, share := "   "+m.name+" ", m.Ratio.Rounded()
		if m.Total == 0 || c.column+len(name)+len(share) > c.width {
			continue
		}
		c.text(name)
		c.style(level(m.Ratio), share)
		if n := " " + m.Ratio.Counts(); c.column+len(n) <= c.width-len("   branches 00.0%") || m.name != "functions" && c.column+len(n) <= c.width {
			c.text(n)
		}
	}
	c.endRow()
}

func (m *model) drawTabs(c *canvas, shown bool) {
	if !shown {
		return
	}
	for i, t := range m.tables {
		style, label := plain, fmt.Sprintf(" %s %d ", t.name, len(t.rows))
		if i == m.tab {
			style, label = reverse, fmt.Sprintf("[%s %d]", t.name, len(t.rows))
		}
		c.text(" ")
		c.style(style, label)
	}
	t := m.table()
	c.text("  " + t.sorted())
	if t.filter != "" {
		c.style(fair, fmt.Sprintf("  %d with %q", len(t.shown), t.filter))
	}
	c.endRow()
}

// details returns exact numbers of what the cursor is on.
func (m *model) details() string {
	if m.source != nil {
		return " " + m.source.details()
	}
	return " " + m.table().details()
}

// prompt asks for the text that is being typed.
func (m *model) prompt() string {
	if m.source != nil {
		return " search for: "
	}
	return " show names with: "
}

func (m *model) drawFooter(c *canvas) {
	switch {
	case m.mode == typing:
		c.text(m.prompt() + m.typedText())
	case m.mode == asking:
		c.style(bold, " start all counts from zero?  y yes  n no")
	case m.message != "":
		c.style(bold, " "+fitEnd(m.message, c.width-2))
	case m.err != nil:
		c.style(bad, " "+fitEnd(clean(m.err.Error()), c.width-2))
	default:
		m.drawKeys(c)
	}
	c.endLast()
}
