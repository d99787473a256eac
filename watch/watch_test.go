package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"

	"footfall/coverage"
	"footfall/watch/growth"
)

// counts of the lines of server.c and idle.c, tick by tick.
type counted struct{ server, idle []int64 }

func (c counted) set() *coverage.Set {
	file := func(name, function string, counts []int64) *coverage.File {
		f := &coverage.File{Name: name}
		f.Functions = []*coverage.Function{{StartLine: 2, EndLine: int32(len(counts) + 1), Name: function, Count: counts[0]}}
		for i, n := range counts {
			f.Lines = append(f.Lines, coverage.Line{Number: int32(i + 2), Count: n})
		}
		f.Lines[0].Branches = []coverage.Branch{{Count: counts[0], Evaluated: counts[0] > 0}, {Evaluated: counts[0] > 0}}
		return f
	}
	return coverage.NewSet(file("/src/idle.c", "idle", c.idle), file("/src/server.c", "_Z5servev", c.server))
}

// A script is a program that is watched: what it has counted at each tick.
type script struct {
	ticks  []counted
	clock  time.Time
	resets int
}

// watched returns a model of the script after its first tick.
func (s *script) watched(t *testing.T) *model {
	t.Helper()
	s.clock = time.Unix(0, 0)
	m := newModel(Source{
		Title: "server (pid 1)",
		Next: func() (*coverage.Set, error) {
			if len(s.ticks) == 0 {
				return nil, errors.New("the process has ended")
			}
			now := s.ticks[0]
			s.ticks = s.ticks[1:]
			return now.set(), nil
		},
		Reset:    func() error { s.resets++; return nil },
		Snapshot: func() (string, error) { return "/tmp/snapshot", nil },
		ReadFile: func(string) ([]byte, error) {
			return []byte("// comment\nint serve(void)\n{\n\twork();\n}\n"), nil
		},
	}, Options{NoColor: true, Shown: func(name string) string { return strings.TrimPrefix(name, "/src/") }})
	m.sampler.now = func() time.Time { return s.clock }
	m.width, m.height = 100, 12
	m.Update(m.sampler.sample())
	return m
}

// tick lets two seconds go by.
func (s *script) tick(m *model) {
	s.clock = s.clock.Add(2 * time.Second)
	m.Update(m.sampler.sample())
}

// press presses keys, and carries out what they begin.
func press(m *model, keys ...string) {
	for _, k := range keys {
		msg := tea.KeyPressMsg{Text: k}
		switch r := []rune(k); {
		case k == "enter":
			msg = tea.KeyPressMsg{Code: tea.KeyEnter}
		case k == "esc":
			msg = tea.KeyPressMsg{Code: tea.KeyEscape}
		case k == "tab":
			msg = tea.KeyPressMsg{Code: tea.KeyTab}
		case k == "down":
			msg = tea.KeyPressMsg{Code: tea.KeyDown}
		default:
			msg.Code = r[0]
		}
		if _, cmd := m.Update(msg); cmd != nil {
			m.Update(cmd())
		}
	}
}

// expect compares the screen with a text, each row of which
// begins with "|" and has no spaces at its end.
func expect(t *testing.T, m *model, want string) {
	t.Helper()
	var got strings.Builder
	for row := range strings.Lines(m.screen()) {
		row = strings.NewReplacer("\x1b[m", "", "\x1b[1m", "", "\x1b[7m", "").Replace(row)
		got.WriteString("|" + strings.TrimRight(row, " \n") + "\n")
	}
	if got.String() != want[1:] {
		t.Errorf("screen is\n%s\nwant%s", got.String(), want)
	}
}

func firstTicks() *script {
	return &script{ticks: []counted{
		{server: []int64{10, 10, 0}, idle: []int64{0, 0}},
		{server: []int64{30, 30, 4}, idle: []int64{0, 0}},
		{server: []int64{30, 30, 4}, idle: []int64{1, 1}},
	}}
}

func TestScreens(t *testing.T) {
	s := firstTicks()
	m := s.watched(t)
	s.tick(m)
	expect(t, m, screenFiles)
	press(m, "tab")
	expect(t, m, screenFunctions)
	press(m, "enter")
	expect(t, m, screenSource)
}

func TestGrowth(t *testing.T) {
	s := firstTicks()
	m := s.watched(t)
	s.tick(m)
	s.tick(m)
	p := m.picture
	if p.NewTick != 2 || p.NewStart != 3 || p.Runs != 2 || p.Rate(p.Runs) != 1 {
		t.Errorf("new since the tick %d, since the start %d, runs %v, want 2, 3, 2", p.NewTick, p.NewStart, p.Runs)
	}
	if hottest := m.table().shown[0].Name; hottest != "idle.c" {
		t.Errorf("hottest is %s, want idle.c", hottest)
	}
	s.tick(m) // the script is at its end
	if m.picture != p || !strings.Contains(m.screen(), "the process has ended") {
		t.Errorf("after the end:\n%s", m.screen())
	}
}

func TestReset(t *testing.T) {
	s := firstTicks()
	m := s.watched(t)
	s.tick(m)
	press(m, "r", "n")
	if s.resets != 0 {
		t.Fatal("reset without a yes")
	}
	press(m, "r", "y")
	if s.resets != 1 || m.picture.NewStart != 0 || m.picture.Seconds != 0 {
		t.Errorf("%d resets; %d lines since the start", s.resets, m.picture.NewStart)
	}
}

func TestFilterSortAndMove(t *testing.T) {
	s := firstTicks()
	m := s.watched(t)
	press(m, "/", "i", "D", "l", "enter")
	if n := len(m.table().shown); n != 1 || m.table().shown[0].Name != "idle.c" {
		t.Errorf("%d rows with %q", n, m.table().filter)
	}
	press(m, "esc", "down")
	at := m.table().selected().Name
	s.tick(m)
	if got := m.table().selected().Name; got != at {
		t.Errorf("the cursor went from %s to %s", at, got)
	}
	press(m, "s", "s", "s", "s")
	if got := m.table().sorts[m.table().sort].name; got != "by name" || m.table().shown[0].Name != "idle.c" {
		t.Errorf("sorted %q", got)
	}
	press(m, "w")
	if m.message != "written to /tmp/snapshot" {
		t.Errorf("message %q", m.message)
	}
	press(m, "?")
	if !strings.Contains(m.screen(), "start all counts from zero") {
		t.Errorf("help:\n%s", m.screen())
	}
}

// TestColumns sorts by each column, and backwards.
func TestColumns(t *testing.T) {
	s := firstTicks()
	m := s.watched(t)
	s.tick(m)
	heading := func() string { return strings.TrimRight(strings.Split(m.screen(), "\n")[3], " ") }
	m.width = 120
	var seen []string
	for range 8 { // file, lines, counts, +tick, +start, funcs, branch, runs/s
		press(m, ">")
		_, rest, arrow := strings.Cut(heading(), "▲")
		if _, down, is := strings.Cut(heading(), "▼"); is {
			rest, arrow = down, !arrow
		}
		if !arrow || strings.ContainsAny(rest, "▲▼") {
			t.Fatalf("not one arrow: %s", heading())
		}
		seen = append(seen, m.table().sorted())
	}
	want := []string{"by name", "worst covered first", "most missed lines first", "most new lines first", "most new lines since the start first",
		"fewest functions called first", "fewest branches taken first", "hot first"}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(heading(), "▼runs/s") || m.table().shown[0].Name != "server.c" {
		t.Errorf("hot first: %s, %s", heading(), m.table().shown[0].Name)
	}
	press(m, "R")
	if !strings.Contains(heading(), "▲runs/s") || m.table().shown[0].Name != "idle.c" || !strings.Contains(m.screen(), "hot first, backwards") {
		t.Errorf("backwards: %s, %s", heading(), m.table().shown[0].Name)
	}
	s.tick(m)
	if m.table().shown[0].Name != "server.c" { // idle.c runs now
		t.Errorf("backwards at the next tick: %s", m.table().shown[0].Name)
	}
	press(m, "<")
	if got := m.table().sorted(); got != "fewest branches taken first" {
		t.Errorf("to the left: %s", got)
	}
	press(m, "tab", "<", "<")
	if got := m.table().sorted(); got != "most calls first" {
		t.Errorf("of functions: %s", got)
	}
}

// TestSearch searches in a source.
func TestSearch(t *testing.T) {
	s := firstTicks()
	m := s.watched(t)
	s.tick(m)
	press(m, "enter", "g", "/", "O")
	at := func(line int, what string) {
		t.Helper()
		if m.source.cursor != line-1 {
			t.Errorf("%s: line %d, want %d", what, m.source.cursor+1, line)
		}
	}
	at(1, "the comment has an o")
	press(m, "R", "k")
	at(4, "work")
	if !strings.Contains(m.screen(), " search for: ORk") {
		t.Errorf("the prompt:\n%s", m.screen())
	}
	press(m, "esc")
	at(1, "back")
	press(m, "/", "e", "enter")
	if want := `2 lines with "e": m goes to the next one, M to the one before`; m.message != want {
		t.Errorf("message %q", m.message)
	}
	press(m, "m")
	at(2, "the next one")
	press(m, "m")
	at(1, "round the end")
	press(m, "M")
	at(2, "round the beginning")
	press(m, "/", "z", "enter")
	at(2, "nothing")
	if m.message != `no line with "z"` {
		t.Errorf("message %q", m.message)
	}
	press(m, "g")
	if m.source == nil {
		t.Error("left the source")
	}
	press(m, "esc")
	if m.source != nil {
		t.Error("not back at the table")
	}
}

// TestSizes draws every view in every size, with cursors everywhere.
func TestSizes(t *testing.T) {
	s := firstTicks()
	m := s.watched(t)
	s.tick(m)
	for _, keys := range [][]string{{}, {"tab"}, {"enter"}, {"n", "G"}, {"/", "e"}, {"enter"}, {"?"}} {
		press(m, keys...)
		for width := 1; width < 130; width += 3 {
			for height := 1; height < 30; height++ {
				m.Update(tea.WindowSizeMsg{Width: width, Height: height})
				if rows := strings.Count(strings.TrimSuffix(m.screen(), "\n"), "\n") + 1; rows > height && m.mode != helping {
					t.Fatalf("%d rows on a screen of %d x %d", rows, width, height)
				}
			}
		}
	}
}

// TestHostileNames draws names that would take over the terminal.
func TestHostileNames(t *testing.T) {
	for _, name := range []string{"\x1b]0;title\x07", "a\x9b31mb", "\u202ereversed", "\xff\xfe", "wide 漢字\tx"} {
		m := newModel(Source{
			Title: name,
			Next: func() (*coverage.Set, error) {
				set := counted{[]int64{1, 1, 1}, []int64{0, 0}}.set()
				set.At(0).Name, set.At(0).Functions[0].Name = name, name
				return set, nil
			},
			ReadFile: func(string) ([]byte, error) { return []byte(name), nil },
		}, Options{NoColor: true})
		m.Update(m.sampler.sample())
		for _, key := range []string{"tab", "enter"} {
			press(m, key)
			text := strings.NewReplacer("\x1b[m", "", "\x1b[1m", "", "\x1b[7m", "").Replace(m.screen())
			if strings.ContainsAny(text, "\x1b\x07\u202e\u009b") || strings.ContainsRune(text, '\xff') {
				t.Errorf("%q is drawn as it is", name)
			}
		}
	}
}

// TestRun runs the whole until "q" is typed, or the context ends, or there is
// nothing to show.
func TestRun(t *testing.T) {
	src := Source{Title: "x", Next: func() (*coverage.Set, error) { return counted{[]int64{1}, []int64{1}}.set(), nil }}
	t.Run("quit", func(t *testing.T) {
		in, keys := io.Pipe()
		defer keys.Close()
		var out bytes.Buffer
		go func() { _, _ = keys.Write([]byte("q")) }()
		if err := run(context.Background(), src, Options{Input: in, Output: &out}, tea.WithWindowSize(80, 24)); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("end", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		in, keys := io.Pipe()
		defer keys.Close()
		if err := run(ctx, src, Options{Input: in, Output: io.Discard}, tea.WithWindowSize(80, 24)); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("nothing", func(t *testing.T) {
		none := Source{Next: func() (*coverage.Set, error) { return nil, errors.New("nothing there") }}
		if err := Run(context.Background(), none, Options{}); err == nil || err.Error() != "nothing there" {
			t.Fatal(err)
		}
	})
}

const screenFiles = `
| server (pid 1)  █ 22 runs/s                                                         0:02  every 1s
| lines ██████░░░░ 60.0% 3/5 +1   functions 50.0% 1/2   branches 25.0% 1/4
| [files 2]  functions 2   hot first
| file                                      lines               +tick  +start   funcs  branch ▼runs/s
|>server.c                     ██████████  100.0%          3/3     +1      +1  100.0%   50.0%      22
| idle.c                       ░░░░░░░░░░    0.0%          0/2                   0.0%    0.0%
|
|
|
|
| 3 of 3 lines, 1 of 1 functions, 1 of 2 branches in server.c
| ? help  q quit  enter open  tab switch  s<>R sort  / filter  r reset  w write  p pause
`

const screenFunctions = `
| server (pid 1)  █ 22 runs/s                                                         0:02  every 1s
| lines ██████░░░░ 60.0% 3/5 +1   functions 50.0% 1/2   branches 25.0% 1/4
|  files 2  [functions 2]  hot first
| function                     at                       lines  +tick  +start   calls  calls/s ▼runs/s
|>serve                        server.c:2              100.0%     +1      +1      30       10      22
| idle                         idle.c:2                  0.0%                  never
|
|
|
|
| 30 calls, 3 of 3 lines: serve server.c:2
| ? help  q quit  enter open  tab switch  s<>R sort  / filter  r reset  w write  p pause
`

const screenSource = `
| server (pid 1)  █ 22 runs/s                                                         0:02  every 1s
| lines ██████░░░░ 60.0% 3/5 +1   functions 50.0% 1/2   branches 25.0% 1/4
| [server.c]  100.0% 3/3, 0 never ran
| line  count   taken runs/s
|    1                       │// comment
|>   2     30     1/2    10█ │int serve(void)
|    3     30            10█ │{
|    4      4 +           2▂ │        work();
|    5                       │}
|
| line 2: 30 runs, 10/s; branches taken: 30 0
| ? help  q quit  esc back  n/N uncovered  / search  h hottest  r reset  w write  p pause
`

// TestArrangedAgain compares the order of rows, most of which are as they were, with that of all of them sorted.
func TestArrangedAgain(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	comparer := growth.New(strings.ToUpper)
	now := new(coverage.Set)
	tables := []*table{newFileTable(), newFunctionTable()}
	for step := range 100 {
		for range rng.IntN(3) {
			f := &coverage.File{Name: fmt.Sprintf("/%d.c", rng.IntN(8))}
			for i := range int32(4) {
				f.Functions = append(f.Functions, &coverage.Function{StartLine: 2*i + 1, EndLine: 2*i + 2, Name: fmt.Sprint("f", i), Count: int64(rng.IntN(step + 1))})
				f.Lines = append(f.Lines, coverage.Line{Number: 2*i + 1, Count: int64(rng.IntN(step + 1))}, coverage.Line{Number: 2*i + 2, Count: int64(rng.IntN(2))})
			}
			now = now.With(nil, f)
		}
		picture := comparer.Take(now, time.Unix(int64(step), 0))
		for i, rows := range [][]growth.Row{picture.Files, picture.Functions} {
			if step%10 == 9 {
				tables[i].sort, tables[i].back = rng.IntN(len(tables[i].sorts)), rng.IntN(2) == 0
				tables[i].filter = []string{"", "2", "f1"}[rng.IntN(3)]
			}
			tables[i].update(rows)
			fresh := table{sorts: tables[i].sorts, sort: tables[i].sort, back: tables[i].back, filter: tables[i].filter}
			fresh.update(rows)
			if diff := cmp.Diff(fresh.order, tables[i].order); diff != "" {
				t.Fatalf("step %d: (-sorted +again)\n%s", step, diff)
			}
		}
	}
}
