package trace

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"footfall/output"
	"io"
	"math"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	pprof "github.com/google/pprof/profile"
)

var header = Header{PID: 7, Program: "prog", Exits: true, Functions: []Function{
	{Name: "main", Image: "prog", File: "a.c", Line: 1}, {Name: "work", Image: "prog", File: "a.c", Line: 9}, {Name: `op;"<"`, Image: "lib.so"},
}}

// script makes events of text: "0@100 +5" enters function 0 with stack 100 five
// nanoseconds later, "/0@100" leaves it. The exit of "0@100?" may not be seen; ">" and "<"
// are around dropped events; "/0@100>" leaves it by a jump.
func script(text string) []Event {
	var events []Event
	time := uint64(1000)
	for word := range strings.FieldsSeq(text) {
		var e Event
		if rest, ok := strings.CutPrefix(word, "/"); ok {
			e.Exit, word = true, rest
		}
		if word == ">" || word == "<" {
			events = append(events, Event{Gap: true, Exit: word == "<"})
			continue
		}
		word, e.NoExit = strings.CutSuffix(word, "?")
		word, e.Jump = strings.CutSuffix(word, ">")
		time += 10
		e.Time, e.Function = time, uint32(word[0]-'0')
		for _, digit := range word[2:] {
			e.Stack = e.Stack*10 + uint32(digit-'0')
		}
		events = append(events, e)
	}
	return events
}

func write(t *testing.T, format string, h *Header, events ...[]Event) (string, CallSummary) {
	t.Helper()
	var b bytes.Buffer
	out := NewOutput(format, &b, h)
	builder := NewBuilder(h, out)
	for i, e := range events {
		builder.Add(Thread{ID: i + 1, Name: "thread"}, e)
	}
	s, err := builder.Close(0)
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), s
}

// TestNesting checks which calls are within which.
func TestNesting(t *testing.T) {
	for name, test := range map[string]struct {
		events  string
		want    string // collapsed
		summary CallSummary
	}{
		"calls":                  {"0@90 1@50 /1@50 1@50 2@40 /2@40 /1@50 /0@90", "main 30\nmain;work 30\nmain;work;op:\"<\" 10\n", CallSummary{Calls: 4}},
		"recursion":              {"0@90 0@50 0@40 /0@40 /0@50 /0@90", "main 20\nmain;main 20\nmain;main;main 10\n", CallSummary{Calls: 3}},
		"tail calls in a circle": {"0@90 1@50 2@50? 1@50? /1@50 /0@90", "main 20\nmain;work 20\nmain;work;op:\"<\" 10\n", CallSummary{Calls: 4}},
		"tail call":              {"0@90 1@50 2@50? /1@50 /0@90", "main 20\nmain;work 10\nmain;work;op:\"<\" 10\n", CallSummary{Calls: 3}},
		"longjmp":                {"0@90 1@50 2@40 1@60 /1@60 /0@90", "main 20\nmain;work 20\nmain;work;op:\"<\" 10\n", CallSummary{Calls: 4, Left: 2}},
		"exception":              {"0@90 1@50 2@40 /0@90", "main 10\nmain;work 10\nmain;work;op:\"<\" 10\n", CallSummary{Calls: 3, Left: 2}},
		"longjmp to its caller":  {"0@90 1@50 1@50 /0@90", "main 10\nmain;work 20\n", CallSummary{Calls: 3, Left: 2}},
		"longjmp, other call":    {"0@90 1@50 2@50 /2@50 /0@90", "main 20\nmain;work 10\nmain;op:\"<\" 10\n", CallSummary{Calls: 3, Left: 1}},
		"tail call left":         {"0@90 1@50 2@50? 1@60 /1@60 /0@90", "main 20\nmain;work 20\nmain;work;op:\"<\" 10\n", CallSummary{Calls: 4, Left: 2}},
		"no exits at all":        {"0@90? 1@50? 2@50? 1@50? 2@50? 0@90?", "", CallSummary{Calls: 6, Cut: 6}},
		"jump":                   {"0@90 1@50 /1@50> 2@50 /2@50 /0@90", "main 20\nmain;work 20\nmain;work;op:\"<\" 10\n", CallSummary{Calls: 3}},
		"jumps":                  {"0@90 1@50 /1@50> 2@50 1@30 /1@30 /2@50> 0@50 /0@50 /0@90", "main 20\nmain;work 20\nmain;work;op:\"<\" 30\nmain;work;op:\"<\";main 10\nmain;work;op:\"<\";work 10\n", CallSummary{Calls: 5}},
		"jump elsewhere":         {"0@90 1@50 /1@50> 2@40 /2@40 1@50 /1@50> /0@90", "main 40\nmain;work 20\nmain;op:\"<\" 10\n", CallSummary{Calls: 4}},
		"jump at the end":        {"1@50 /1@50>", "work 10\n", CallSummary{Calls: 1}},
		"no exits there":         {"0@90 1@50? 2@40 /2@40 1@50? /0@90", "main 40\nmain;work;op:\"<\" 10\n", CallSummary{Calls: 4, Cut: 2}},
		"dropped exit":           {"0@90 1@50 > 2@40 < 1@60 2@40 /0@90", "main 30\nmain;work 10\nmain;work;op:\"<\" 10\n", CallSummary{Calls: 5, Cut: 2, Left: 2}},
		"no entry":               {"/1@50 0@90 /1@80 /0@90 /2@20", "main 20\n", CallSummary{Calls: 1, Unmatched: 1}},
		"running":                {"0@90 1@50", "", CallSummary{Calls: 2, Cut: 2}},
		"coroutine": {"0@1000000 1@5000000 2@4999900 0@999900 /0@999900 /2@4999900 /1@5000000 /0@1000000",
			"main 30\nmain;main 10\nwork 20\nwork;op:\"<\" 10\n", CallSummary{Calls: 4}},
		"neighbours": {"0@9000000 1@5000000 1@5065536 2@4999900 2@5065500 /2@4999900 /2@5065500 /1@5065536 /1@5000000 /0@9000000",
			"main 20\nwork 50\nwork;op:\"<\" 20\n", CallSummary{Calls: 5}},
		"large frame": {"0@1000000 1@900000 2@880000 /2@880000 /1@900000 /0@1000000", "main 20\nmain;work 20\nmain;work;op:\"<\" 10\n", CallSummary{Calls: 3}},
		"handler":     {"0@1000000 1@900000 2@8000000 /2@8000000 /1@900000 /0@1000000", "main 20\nmain;work 20\nop:\"<\" 10\n", CallSummary{Calls: 3}},
		"unknown":     {"9@90 /9@90", "", CallSummary{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, s := write(t, "collapsed", &header, script(test.events))
			if got != test.want || s != test.summary {
				t.Errorf("got\n%swant\n%sgot %+v, want %+v", got, test.want, s, test.summary)
			}
		})
	}
}

func TestEntriesOnly(t *testing.T) {
	h := header
	h.Exits = false
	got, s := write(t, "collapsed", &h, script("0@90 1@50 2@40 2@40 1@50 0@95"))
	want := "main 2\nmain;work 2\nmain;work;op:\"<\" 2\n"
	if got != want || s != (CallSummary{Calls: 6}) {
		t.Errorf("got\n%swant\n%s%+v", got, want, s)
	}
}

func TestGraph(t *testing.T) {
	got, _ := write(t, "graph", &header, script("0@90 1@50 /1@50 1@50 2@40 /1@50 /0@90"), script("1@10"))
	want := `# thread                         time       duration   calls
      1 thread               0.000001                | main() {
      1 thread               0.000001       0.010 us |   work();
      1 thread               0.000001                |   work() {
      1 thread               0.000001       0.010 us |     op;"<"();
      1 thread               0.000001       0.020 us |   } /* work */
      1 thread               0.000001       0.060 us | } /* main */
------------------------
      2 thread               0.000001              ? | work();
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestGraphOfStacks checks that the lines of a thread with several stacks are in
// order.
func TestGraphOfStacks(t *testing.T) {
	got, _ := write(t, "graph", &header, script("0@1000000 1@5000000 2@4999900 0@999900 /0@999900 /2@4999900 /1@5000000 /0@1000000"))
	got = regexp.MustCompile(`(?m)^( +1 \S+) .*\|`).ReplaceAllString(got, "$1 |")
	want := `      1 thread | main() {
------------------------
      1 thread/1 | work() {
      1 thread/1 |   op;"<"() {
------------------------
      1 thread |   main();
------------------------
      1 thread/1 |   } /* op;"<" */
      1 thread/1 | } /* work */
------------------------
      1 thread | } /* main */
`
	if _, lines, _ := strings.Cut(got, "\n"); lines != want {
		t.Errorf("got\n%swant\n%s", lines, want)
	}
}

// TestForPeople checks names in text.
func TestForPeople(t *testing.T) {
	h := header
	h.Functions = []Function{{Name: "get(std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > const&)"}}
	for format, want := range map[string]string{"graph": "| get(std::string const&);\n", "stats": " get(std::string const&)\n"} {
		if got, _ := write(t, format, &h, script("0@90 /0@90")); !strings.HasSuffix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestFilter checks which calls pass.
func TestFilter(t *testing.T) {
	const events = "0@90 1@80 2@70 /2@70 1@60 2@50 /2@50 /1@60 /1@80 2@40 /2@40 /0@90"
	work := func(c *FunctionCall) bool { return c.Function == 1 }
	for name, test := range map[string]struct {
		f    Filter
		want string
	}{
		"all":   {Filter{}, "main 30\nmain;work 30\nmain;work;work 20\nmain;work;work;op:\"<\" 10\nmain;work;op:\"<\" 10\nmain;op:\"<\" 10\n"},
		"depth": {Filter{Depth: 2}, "main 30\nmain;work 70\nmain;op:\"<\" 10\n"},
		"root":  {Filter{Roots: true, Depth: 1}, "work 70\n"},
		"time":  {Filter{MinTime: 30}, "main 40\nmain;work 40\nmain;work;work 30\n"},
	} {
		var b bytes.Buffer
		out := NewOutput("collapsed", &b, &header)
		text := new(bytes.Buffer)
		asJSON := NewOutput("json", text, &header)
		builder := NewBuilder(&header, WithFilter(out, &test.f, work), WithFilter(asJSON, &test.f, work))
		builder.Add(Thread{ID: 1}, script(events))
		if _, err := builder.Close(0); err != nil || b.String() != test.want {
			t.Errorf("%s: %v, got\n%swant\n%s", name, err, b.String(), test.want)
		}
		var v struct {
			Calls   []any
			Summary CallSummary
		}
		if err := json.Unmarshal(text.Bytes(), &v); err != nil || v.Summary.Calls != uint64(len(v.Calls)) {
			t.Errorf("%s: json has %d calls, its summary %d; %v", name, len(v.Calls), v.Summary.Calls, err)
		}
	}
}

func TestStats(t *testing.T) {
	for name, test := range map[string]struct{ events, want string }{
		"recursion": {"0@90 1@50 1@40 /1@40 /1@50 /0@90", `
           1        50 ns        20 ns        50 ns        50 ns  main
           2        30 ns        30 ns        15 ns        30 ns  work
`},
		// Of calls that have not ended, or whose end was not seen, those within count.
		"open recursion": {"0@90 0@80 /0@80 0@80 1@70? 1@60? 1@50 1@40 /1@40 /1@50 1@50 /1@50 /0@80", `
           3       100 ns        60 ns        50 ns        90 ns  main
           5        40 ns        40 ns        13 ns        30 ns  work
`},
	} {
		got, _ := write(t, "stats", &header, script(test.events))
		want := "       calls        total         self      average      longest  function" + test.want
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

// TestSums checks that calls which longjmp or an exception has ended have the same time in
// all outputs, and that it is missing from that of their callers.
func TestSums(t *testing.T) {
	const events = "0@90 1@50 2@40 1@60 2@50 /0@90"
	for format, want := range map[string]string{
		"collapsed": "main 10\nmain;work 20\nmain;work;op:\"<\" 20\n",
		"stats": `       calls        total         self      average      longest  function
           1        50 ns        10 ns        50 ns        50 ns  main
           2        40 ns        20 ns        20 ns        20 ns  work
           2        20 ns        20 ns        10 ns        10 ns  op;"<"
`,
	} {
		if got, _ := write(t, format, &header, script(events)); got != want {
			t.Errorf("%s: got\n%swant\n%s", format, got, want)
		}
	}
	text, _ := write(t, "json", &header, script(events))
	var v struct {
		Calls []struct {
			Duration, Depth uint64
			Cut, Left       bool
		}
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	var within [3]uint64
	for _, c := range v.Calls {
		within[c.Depth] += c.Duration
		if c.Cut || c.Left != (c.Depth > 0) {
			t.Errorf("%+v", c)
		}
	}
	if within != [3]uint64{50, 40, 20} {
		t.Errorf("durations by depth: %d", within)
	}
}

// TestJSON checks that names do no harm, and that the formats are what their
// readers expect.
func TestJSON(t *testing.T) {
	events := script("0@90 2@50 /2@50 /0@90")
	for _, format := range []string{"json", "chrome"} {
		for name, e := range map[string][]Event{"calls": events, "none": nil} {
			text, _ := write(t, format, &header, e)
			var v any
			if err := json.Unmarshal([]byte(text), &v); err != nil {
				t.Errorf("%s, %s: %v\n%s", format, name, err, text)
			}
		}
	}
}

func TestPprof(t *testing.T) {
	text, _ := write(t, "pprof", &header, script("0@90 1@50 /1@50 /0@90"))
	p, err := pprof.ParseData([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.CheckValid(); err != nil {
		t.Fatal(err)
	}
	got := make(map[string][]int64)
	for _, s := range p.Sample {
		var names []string
		for _, l := range s.Location {
			names = append(names, l.Line[0].Function.Name)
		}
		got[strings.Join(names, " ")] = s.Value
	}
	want := map[string][]int64{"main": {1, 20}, "work main": {1, 10}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestPerfetto decodes the packets.
func TestPerfetto(t *testing.T) {
	text, _ := write(t, "perfetto", &header, script("0@90 1@50 /1@50 /0@90"))
	kinds := ""
	for _, packet := range fields(t, []byte(text)) {
		if packet.number != 1 {
			t.Fatalf("field %d at the top", packet.number)
		}
		for _, f := range fields(t, packet.bytes) {
			switch f.number {
			case 60:
				kinds += "t"
			case 11:
				for _, e := range fields(t, f.bytes) {
					if e.number == 9 {
						kinds += string(rune('0' + e.value))
					}
				}
			}
		}
	}
	// The tracks of process and thread; begin is 1, end 2.
	if kinds != "tt1122" {
		t.Errorf("packets are %q", kinds)
	}
}

// TestPerfettoSchema lets protoc decode the packets by Perfetto's schema.
func TestPerfettoSchema(t *testing.T) {
	h := withArguments()
	text, _ := write(t, "perfetto", &h, called(), script("0@90 2@50 /2@50 /0@90"))
	cmd := exec.Command("protoc", "--decode=perfetto.protos.Trace", "--proto_path=testdata", "testdata/perfetto.proto")
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if unknown := regexp.MustCompile(`(?m)^ *\d+(:| \{).*`).Find(out); unknown != nil {
		t.Errorf("the schema does not have %s", unknown)
	}
	for _, want := range []string{`name: "op;\"<\""`, `string_value: "h\303\244\""`, `string_value: "NONE"`, `thread_name: "thread"`, `process_name: "prog"`, "TYPE_SLICE_END"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%s is missing in\n%s", want, out)
		}
	}
}

type field struct {
	number int
	value  uint64
	bytes  []byte
}

func fields(t *testing.T, b []byte) []field {
	t.Helper()
	var all []field
	varint := func() (v uint64) {
		for shift := 0; ; shift += 7 {
			if len(b) == 0 {
				t.Fatal("cut off")
			}
			c := b[0]
			b = b[1:]
			v |= uint64(c&0x7f) << shift
			if c < 0x80 {
				return v
			}
		}
	}
	for len(b) > 0 {
		key := varint()
		f := field{number: int(key >> 3), value: varint()}
		if key&7 == 2 {
			f.bytes, b = b[:f.value], b[f.value:]
		}
		all = append(all, f)
	}
	return all
}

// TestRaw reads what it has written.
func TestRaw(t *testing.T) {
	events := script("0@90 1@50 /1@50 /0@90")
	var b bytes.Buffer
	w := NewRawWriter(&b, &header)
	w.Add(Thread{ID: 1, Name: "one"}, events[:2])
	w.Add(Thread{ID: 2, Name: "two"}, events)
	w.Add(Thread{ID: 1, Name: "one"}, events[2:])
	if err := w.Close(5); err != nil {
		t.Fatal(err)
	}
	r, err := NewRawReader(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[Thread][]Event)
	lost, err := r.Read(func(t Thread, e []Event) { got[t] = append(got[t], e...) })
	if err != nil || lost != 5 {
		t.Fatalf("lost %d, %v", lost, err)
	}
	if diff := cmp.Diff(map[Thread][]Event{{ID: 1, Name: "one"}: events, {ID: 2, Name: "two"}: events}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(header, r.Header); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// withArguments is a header whose functions have arguments of all formats.
func withArguments() Header {
	h := header
	h.Functions = slices.Clone(h.Functions)
	h.Functions[1].Arguments = []Argument{
		{Name: "d", Format: "d32"}, {Name: "u", Format: "u8"}, {Name: "x", Format: "x"}, {Name: "c", Format: "c"}, {Name: "p", Format: "p"}, {Name: "s", Format: "s"},
		{Name: "b", Format: "b"}, {Name: "e", Format: "e32", Values: map[int64]string{-1: "NONE"}}, {Name: "g", Format: "f32"}, {Name: "f", Format: "f64"},
	}
	return h
}

// called are calls of function 1 with arguments.
func called() []Event {
	word := func(w uint64) Event { return Event{Time: w, Word: true} }
	var text [8]byte
	copy(text[:], "h\xc3\xa4\"\xc3")
	s := binary.LittleEndian.Uint64(text[:])
	low := uint64(math.Float32bits(1.5))
	return []Event{
		{Time: 1000, Function: 1, Stack: 50},
		word(0xdeadbeef_fffffffe), word(0x1ff), word(0xff), word('"'), word(0), word(64), word(4), word(s), word(0x100), word(0xffffffff), word(low), word(math.Float64bits(-0.5)),
		{Time: 1010, Function: 1, Stack: 50, Exit: true},
		{Time: 1020, Function: 1, Stack: 50},
		word(1), word(2), word(3), word(0xe4), word(64), word(64), word(5 | stringCut), word(s), word(1), word(7), word(0), word(math.Float64bits(math.Inf(1))),
		{Time: 1030, Function: 1, Stack: 50, Exit: true},
		{Time: 1040, Function: 1, Stack: 50},
		word(1), word(2), word(3), word(4), word(5), word(16), word(stringBad), word(1),
		{Time: 1050, Function: 1, Stack: 50, Exit: true},
	}
}

// TestArguments checks how arguments are written.
func TestArguments(t *testing.T) {
	h := withArguments()
	got, _ := write(t, "graph", &h, called())
	for _, want := range []string{
		`work(d=-2, u=255, x=0xff, c='\"', p=NULL, s="hä\"", b=false, e=NONE, g=1.5, f=-0.5);`,
		`work(d=1, u=2, x=0x3, c='\xe4', p=0x40, s="hä\""..., b=true, e=7, g=0, f=+Inf);`,
		`s=0x10 (unreadable), b=true);`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	text, _ := write(t, "json", &h, called())
	var v struct {
		Calls []struct{ Arguments map[string]any }
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"d": -2.0, "u": 255.0, "x": "0xff", "c": `"`, "p": "NULL", "s": `hä"`, "b": false, "e": "NONE", "g": 1.5, "f": -0.5}
	if diff := cmp.Diff(want, v.Calls[0].Arguments); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := v.Calls[2].Arguments["s"]; got != nil {
		t.Errorf("a string that cannot be read is %v", got)
	}
}

// FuzzRaw reads files whose frames are whole, so that what is within them gets
// far, and cut ones.
func FuzzRaw(f *testing.F) {
	h := withArguments()
	meta, err := json.Marshal(h)
	if err != nil {
		f.Fatal(err)
	}
	var events []byte
	for _, e := range append(script("0@90 1@50 /1@50 2@40 /0@90"), called()...) {
		events = rawEvent(events, &e)
	}
	f.Add(meta, []byte(`{"id":1,"name":"one","process":2}`), events, []byte(`[{"name":"more","arguments":[{"name":"a","format":"s"}]}]`), events[16:], uint16(0))
	var stacks []byte
	for _, e := range script("0@1000000 1@5000000 2@4999900 0@999900 1@9000000 /0@999900 /2@4999900 1@5000000 /1@9000000 /0@1000000") {
		stacks = rawEvent(stacks, &e)
	}
	f.Add(meta, []byte(`{"id":1}`), stacks, []byte("[]"), stacks[48:], uint16(0))
	f.Add(meta, []byte(`{"id":1}`), events[:40], []byte("[]"), []byte{}, uint16(9))
	f.Fuzz(func(t *testing.T, header, thread, first, more, second []byte, cut uint16) {
		b := []byte(rawMagic)
		block := func(kind byte, contents []byte) {
			b = append(b, kind)
			b = binary.LittleEndian.AppendUint32(b, uint32(len(contents)))
			b = append(b, contents...)
		}
		block(rawHeader, header)
		block(rawThread, thread)
		block(rawEvents, first)
		block(rawFunctions, more)
		block(rawEvents, second)
		block(rawEnd, make([]byte, 8))
		r, err := NewRawReader(bytes.NewReader(b[:max(0, len(b)-int(cut))]))
		if err != nil {
			return
		}
		var outputs []CallWriter
		texts := make(map[string]*bytes.Buffer)
		for _, format := range output.FormatNames(Formats()) {
			texts[format] = new(bytes.Buffer)
			out := NewOutput(format, texts[format], &r.Header)
			outputs = append(outputs, out)
			filtered := NewOutput(format, io.Discard, &r.Header)
			outputs = append(outputs, WithFilter(filtered, &Filter{Roots: true, Depth: 2, MinTime: 15}, func(c *FunctionCall) bool { return c.Function == 1 }))
		}
		builder := NewBuilder(&r.Header, outputs...)
		lost, _ := r.Read(builder.Add)
		s, err := builder.Close(lost)
		if err != nil {
			t.Error(err)
		}
		var v struct{ Calls []any }
		if err := json.Unmarshal(texts["json"].Bytes(), &v); err != nil || uint64(len(v.Calls)) != s.Calls {
			t.Errorf("json has %d of %d calls, %v", len(v.Calls), s.Calls, err)
		}
		if !json.Valid(texts["chrome"].Bytes()) {
			t.Errorf("chrome: %q", texts["chrome"])
		}
		if _, err := pprof.ParseData(texts["pprof"].Bytes()); err != nil && s.Calls > 0 {
			t.Errorf("pprof: %v", err)
		}
	})
}

// TestParametersAt finds parameters in names as demangling writes them.
func TestParametersAt(t *testing.T) {
	for name, want := range map[string]string{
		"main": "main", "f(int)": "f", "a::f(void (*)(int), int) const": "a::f", "a::operator()(int)": "a::operator()", "(anonymous namespace)::f(int)": "(anonymous namespace)::f",
		"(anonymous namespace)::f": "(anonymous namespace)::f", "f(int) [clone .part.0]": "f", "<a::B as c>::d": "<a::B as c>::d", ")": ")",
	} {
		if got := ShortName(name); got != want {
			t.Errorf("ShortName(%q) = %q", name, got)
		}
	}
}

func TestFraction(t *testing.T) {
	for n, want := range map[uint64]string{0: "7.000", 9: "7.009", 10: "7.010", 99: "7.099", 100: "7.100", 999: "7.999"} {
		if got := string(fraction([]byte("7"), n, 1000)); got != want {
			t.Errorf("fraction(%d) = %s", n, got)
		}
	}
}
