//go:build linux

package patch

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"footfall/process"
	"footfall/trace"

	"golang.org/x/sys/unix"
)

// calls records what happens during a command, as text: calls with their words.
// Strings become text.
func (g *testProgram) calls(s *Session, command string) []string {
	g.t.Helper()
	answer := make(chan string)
	go func() { answer <- g.say("%s", command) }()
	var all []string
	read := func() {
		s.Read(func(th process.ThreadStatus, events []SiteEvent) {
			for i := 0; i < len(events); i++ {
				e := events[i]
				var words []uint64
				for ; i+1 < len(events) && events[i+1].ID == WordFlag; i++ {
					words = append(words, events[i+1].Time)
				}
				if e.ID&ExitFlag != 0 {
					continue
				}
				site := s.Site(e.ID)
				if th.Process != g.p.PID {
					all = append(all, fmt.Sprintf("%d ", th.Process)+called(site, words))
				} else {
					all = append(all, called(site, words))
				}
			}
		})
	}
	for {
		select {
		case got := <-answer:
			if !strings.HasPrefix(got, "ok") {
				g.t.Fatalf("%s: the program says %q", command, got)
			}
			if s.options.Newest {
				if err := s.SwitchOff(); err != nil {
					g.t.Fatal(err)
				}
			}
			read()
			return all
		default:
			if !s.options.Newest {
				read()
			}
			time.Sleep(100 * time.Microsecond)
		}
	}
}

func called(site *EntrySite, words []uint64) string {
	var values []string
	for _, a := range site.Arguments {
		switch {
		case len(words) == 0:
			values = append(values, "missing")
			continue
		case a.Kind == trace.CaptureFloat:
			values = append(values, fmt.Sprintf("%x", words[0]))
		case a.Kind == trace.CaptureWord:
			values = append(values, fmt.Sprint(int64(words[0])))
		default:
			status := words[1]
			n := int(uint32(status))
			var b []byte
			for _, w := range words[2 : 2+(n+7)/8] {
				b = binary.LittleEndian.AppendUint64(b, w)
			}
			text := fmt.Sprintf("%q", b[:n])
			if status>>32&1 != 0 {
				text += "..."
			}
			if status>>33&1 != 0 {
				text += "!"
			}
			values = append(values, text)
			words = words[1+(n+7)/8:]
		}
		words = words[1:]
	}
	if len(words) > 0 {
		values = append(values, fmt.Sprintf("%d more", len(words)))
	}
	return site.Function.Name + "(" + strings.Join(values, ", ") + ")"
}

// describe gives the sites arguments.
func describe(sites []*EntrySite) {
	for _, s := range sites {
		switch s.Function.Name {
		case "six":
			s.Arguments = []trace.Capture{{Kind: trace.CaptureWord, Index: 0}, {Kind: trace.CaptureWord, Index: 1}, {Kind: trace.CaptureWord, Index: 2}, {Kind: trace.CaptureWord, Index: 3}, {Kind: trace.CaptureString, Index: 5}}
		case "many":
			s.Arguments = []trace.Capture{{Kind: trace.CaptureWord, Index: 0}, {Kind: trace.CaptureWord, Index: 6}, {Kind: trace.CaptureString, Index: 7}, {Kind: trace.CaptureWord, Index: 5}, {Kind: trace.CaptureWord, Index: 8}, {Kind: trace.CaptureString, Index: 9}}
		case "mixed":
			s.Arguments = []trace.Capture{{Kind: trace.CaptureFloat, Index: 0}, {Kind: trace.CaptureWord, Index: 0}, {Kind: trace.CaptureFloat, Index: 1}, {Kind: trace.CaptureString, Index: 1}}
		case "text":
			s.Arguments = []trace.Capture{{Kind: trace.CaptureString, Index: 0}}
		}
	}
}

// TestArguments compares what is recorded with what the program passes.
func TestArguments(t *testing.T) {
	g := start(t, build(t, "gcc-12", "arguments.c", "-fpatchable-function-entry=5"))
	sites := g.sites("six", "many", "mixed", "text")
	describe(sites)
	for name, o := range map[string]Options{
		"entries":  {Mode: trace.Entries},
		"filtered": {Mode: trace.Filtered},
		"long":     {Mode: trace.Filtered, Filter: trace.Filter{MinTime: 1}},
		"newest":   {Mode: trace.Entries, Newest: true},
	} {
		t.Run(name, func(t *testing.T) {
			o.Arguments = true
			own := *g
			g := &own
			g.t = t
			s := g.open(sites, o)
			defer s.Close()
			got := g.calls(s, "run 1000")
			float := math.Float64bits(2.5)
			seven, short := int64(-7), int64(65535)
			if native == arm64 { // in a register, the rest of which may have anything
				seven, short = int64(uint32(seven)), math.MaxUint32
			}
			want := []string{
				fmt.Sprintf(`six(120, %d, 4294967291, 1099511627776, "hello")`, short),
				fmt.Sprintf(`many(1, %d, "on the stack", 6, 8, "further")`, seven),
				fmt.Sprintf(`mixed(%x, 4294967287, %x, "")`, float, math.Float32bits(-0.25)),
			}
			if len(got) != 3000 {
				t.Fatalf("%d calls", len(got))
			}
			for i := range got {
				if got[i] != want[i%3] {
					t.Fatalf("call %d: %s\nwant %s", i, got[i], want[i%3])
				}
			}
		})
	}
	s := g.open(sites, Options{Mode: trace.Entries, Arguments: true})
	defer s.Close()
	const digits = "0123456789012345678901234567890123456789012345678"
	want := []string{
		`text(""!)`, `text(""!)`, `text(""!)`, `text(""!)`, `text("end"!)`, `text("` + digits[:48] + `"...)`, `text("` + digits[:48] + `"...)`,
		`text("` + digits[:47] + `")`, `text("0123456")`, `text("a \"quote\", \n\x01 and ä")`,
	}
	if got := g.calls(s, "texts"); !slices.Equal(got, want) {
		t.Errorf("%s\nwant %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestArgumentsOverwritten checks that the newest calls have their arguments
// where the ring has been written over.
func TestArgumentsOverwritten(t *testing.T) {
	g := start(t, build(t, "gcc-12", "arguments.c", "-fpatchable-function-entry=5"))
	sites := g.sites("six", "many", "mixed")
	describe(sites)
	s := g.open(sites, Options{Mode: trace.Entries, Newest: true, Arguments: true, RingSize: minArgumentsRing})
	defer s.Close()
	got := g.calls(s, "run 9999")
	for i, call := range got {
		if strings.Contains(call, "missing") || strings.Contains(call, "more") {
			t.Errorf("call %d of %d: %s", i, len(got), call)
		}
	}
	if len(got) < 4096/10 {
		t.Errorf("%d calls", len(got))
	}
}

// lockNothing sees to it that the program could not lock what it has in any case, so that
// room for that is not kept (see MemoryRoom), and each child finds a ring.
func (g *testProgram) lockNothing() {
	g.t.Helper()
	limit := unix.Rlimit{Cur: 1 << 16, Max: 1 << 16}
	if err := unix.Prlimit(g.p.PID, unix.RLIMIT_MEMLOCK, &limit, nil); err != nil {
		g.t.Fatal(err)
	}
}

// TestFollow counts the calls of children, from their first one on.
func TestFollow(t *testing.T) {
	g := start(t, build(t, "gcc-12", "arguments.c", "-fpatchable-function-entry=5"))
	g.lockNothing()
	text := g.text()
	sites := g.sites("many", "text")
	describe(sites)
	for _, o := range []Options{
		{Mode: trace.Entries, Arguments: true, Follow: true}, {Mode: trace.Exits, Follow: true}, {Mode: trace.Filtered, Arguments: true, Follow: true}, {Mode: trace.Entries}, {Mode: trace.Counts, Follow: true}, {Mode: trace.Exits, Follow: true},
	} {
		o.RingSize = 1 << 20
		s := g.open(sites, o)
		children, parent := make(map[string]int), 0
		for _, call := range g.calls(s, "fork 50") {
			switch {
			case strings.HasPrefix(call, "text"):
				parent++
			case o.Arguments && !strings.Contains(call, `7, "child", 6, 8, "the same")`):
				t.Fatalf("%+v: %s", o, call)
			default:
				children[strings.Fields(call)[0]]++
			}
		}
		if o.Mode == trace.Counts {
			for id, n := range s.Counts() {
				if s.Site(id).Function.Name == "text" {
					parent += int(n)
				} else {
					children["all"] += int(n)
				}
			}
		}
		want := 50
		switch {
		case !o.Follow:
			want = 0
		case o.Mode == trace.Counts:
			want = 1
		}
		if parent != 50 || len(children) != want {
			t.Errorf("%+v: %d calls of the parent, %d children, want 50 and %d", o, parent, len(children), want)
		}
		for child, n := range children {
			if n != 1000*50/want {
				t.Errorf("%+v: child %s: %d calls", o, child, n)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if string(text) != string(g.text()) {
		t.Error("the code is not what it was")
	}
}

// TestFollowCrowded follows more children than there are rings for, where the program may lock
// little memory: of each child all calls are recorded, or counted as lost.
func TestFollowCrowded(t *testing.T) {
	g := start(t, build(t, "gcc-12", "arguments.c", "-fpatchable-function-entry=5"))
	limit := unix.Rlimit{Cur: 8 << 20, Max: 8 << 20}
	if err := unix.Prlimit(g.p.PID, unix.RLIMIT_MEMLOCK, &limit, nil); err != nil {
		t.Fatal(err)
	}
	s := g.open(g.sites("many"), Options{Mode: trace.Entries, Follow: true})
	defer s.Close()
	children := make(map[string]int)
	for _, call := range g.calls(s, "fork 50") {
		children[strings.Fields(call)[0]]++
	}
	recorded := 0
	for child, n := range children {
		if recorded += n; n != 1000 {
			t.Errorf("child %s: %d calls", child, n)
		}
	}
	late, many := s.Lost()
	if lost := int(late + many); recorded+lost != 50*1000 || len(children) == 0 {
		t.Errorf("%d calls of %d children recorded, %d lost, of 50000", recorded, len(children), lost)
	}
}
