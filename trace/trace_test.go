package trace

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	pprof "github.com/google/pprof/profile"
)

var header = Header{PID: 7, Program: "prog", Exits: true, Functions: []Function{
	{Name: "main", Image: "prog", File: "a.c", Line: 1}, {Name: "work", Image: "prog", File: "a.c", Line: 9}, {Name: `op;"<"`, Image: "lib.so"},
}}

// script makes events of text: "0@100 +5" enters function 0 with stack 100 five
// nanoseconds later, "/0@100" leaves it.
func script(text string) []Event {
	var events []Event
	time := uint64(1000)
	for word := range strings.FieldsSeq(text) {
		var e Event
		if rest, ok := strings.CutPrefix(word, "/"); ok {
			e.Exit, word = true, rest
		}
		time += 10
		e.Time, e.Function = time, uint32(word[0]-'0')
		for _, digit := range word[2:] {
			e.Stack = e.Stack*10 + uint32(digit-'0')
		}
		events = append(events, e)
	}
	return events
}

func write(t *testing.T, format string, h *Header, events ...[]Event) (string, Summary) {
	t.Helper()
	var b bytes.Buffer
	out, err := NewOutput(format, &b, h)
	if err != nil {
		t.Fatal(err)
	}
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
		summary Summary
	}{
		"calls":     {"0@90 1@50 /1@50 1@50 2@40 /2@40 /1@50 /0@90", "main 30\nmain;work 30\nmain;work;op:\"<\" 10\n", Summary{Calls: 4}},
		"recursion": {"0@90 0@50 0@40 /0@40 /0@50 /0@90", "main 20\nmain;main 20\nmain;main;main 10\n", Summary{Calls: 3}},
		"tail call": {"0@90 1@50 2@50 /1@50 /0@90", "main 20\nmain;work 10\nmain;work;op:\"<\" 10\n", Summary{Calls: 3}},
		"longjmp":   {"0@90 1@50 2@40 1@60 /1@60 /0@90", "main 20\nmain;work 10\n", Summary{Calls: 4, Cut: 2}},
		"lost exit": {"0@90 1@50 2@40 /0@90", "main 10\n", Summary{Calls: 3, Cut: 2}},
		"no entry":  {"/1@50 0@90 /0@90 /2@20", "main 10\n", Summary{Calls: 1, Unmatched: 2}},
		"running":   {"0@90 1@50", "", Summary{Calls: 2, Cut: 2}},
		"unknown":   {"9@90 /9@90", "", Summary{}},
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
	if got != want || s != (Summary{Calls: 6}) {
		t.Errorf("got\n%swant\n%s%+v", got, want, s)
	}
}

func TestGraph(t *testing.T) {
	got, _ := write(t, "graph", &header, script("0@90 1@50 /1@50 1@50 2@40 /1@50 /0@90"), script("1@10"))
	want := `# thread                         time       duration   calls
      1 thread               0.000001                | main() {
      1 thread               0.000001       0.010 us |   work();
      1 thread               0.000001                |   work() {
      1 thread               0.000001              ? |     op;"<"();
      1 thread               0.000001       0.020 us |   } /* work */
      1 thread               0.000001       0.060 us | } /* main */
------------------------
      2 thread               0.000001              ? | work();
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestStats(t *testing.T) {
	got, _ := write(t, "stats", &header, script("0@90 1@50 1@40 /1@40 /1@50 /0@90"))
	want := `       calls        total         self      average      longest  function
           1        50 ns        20 ns        50 ns        50 ns  main
           2        30 ns        30 ns        15 ns        30 ns  work
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
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

func FuzzRaw(f *testing.F) {
	var b bytes.Buffer
	w := NewRawWriter(&b, &header)
	w.Add(Thread{ID: 1, Name: "one"}, script("0@90 1@50 /1@50 /0@90"))
	if err := w.Close(0); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(b.Bytes()[:b.Len()-9])
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := NewRawReader(bytes.NewReader(data))
		if err != nil {
			return
		}
		var outputs []Output
		for _, format := range Formats() {
			out, err := NewOutput(format, new(bytes.Buffer), &r.Header)
			if err != nil {
				t.Fatal(err)
			}
			outputs = append(outputs, out)
		}
		builder := NewBuilder(&r.Header, outputs...)
		lost, _ := r.Read(builder.Add)
		if _, err := builder.Close(lost); err != nil {
			t.Error(err)
		}
	})
}
