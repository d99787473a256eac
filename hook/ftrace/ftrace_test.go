//go:build linux

package ftrace

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// page makes a page of words.
func page(time uint64, words ...uint32) []byte {
	b := binary.LittleEndian.AppendUint64(nil, time)
	b = binary.LittleEndian.AppendUint64(b, uint64(4*len(words))|1<<31) // events are missing
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return append(b, make([]byte, 100)...)
}

func TestReadPage(t *testing.T) {
	type event struct {
		Time uint64
		Data []uint32
	}
	for name, test := range map[string]struct {
		words []uint32
		want  []event
		fails string
	}{
		"events":       {[]uint32{2 | 5<<5, 11, 12, 1 | 7<<5, 13}, []event{{1005, []uint32{11, 12}}, {1012, []uint32{13}}}, ""},
		"long":         {[]uint32{0 | 3<<5, 12, 21, 22}, []event{{1003, []uint32{21, 22}}}, ""},
		"time extends": {[]uint32{30 | 1<<5, 2, 1 | 4<<5, 5}, []event{{1005 + 2<<27, []uint32{5}}}, ""},
		"time stamp":   {[]uint32{31 | 9<<5, 3, 1, 5}, []event{{9 + 3<<27, []uint32{5}}}, ""},
		"padding":      {[]uint32{29 | 4<<5, 8, 0, 1 | 2<<5, 5}, []event{{1002, []uint32{5}}}, ""},
		"end":          {[]uint32{1 | 2<<5, 5, 29, 77, 88}, []event{{1002, []uint32{5}}}, ""},
		"too long":     {[]uint32{9 | 2<<5, 5}, nil, "an event of 36 bytes, there are 4"},
		"cut":          {[]uint32{0}, nil, "an event is cut"},
		"no length":    {[]uint32{0, 0}, nil, "an event of 0 bytes"},
		"huge":         {[]uint32{0, 0xffffffff, 1}, nil, "an event of 4294967296 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []event
			err := readPage(page(1000, test.words...), func(time uint64, b []byte) {
				e := event{Time: time}
				for ; len(b) > 0; b = b[4:] {
					e.Data = append(e.Data, binary.LittleEndian.Uint32(b))
				}
				got = append(got, e)
			})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if (err != nil) != (test.fails != "") || err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Errorf("error %v, want %q", err, test.fails)
			}
		})
	}
}

const stackFormat = `name: kernel_stack
ID: 4
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:int size;	offset:8;	size:4;	signed:1;
	field:unsigned long caller[8];	offset:16;	size:64;	signed:0;

print fmt: "\t=> %ps\n", (void *)REC->caller[0]
`

func TestLayout(t *testing.T) {
	l, err := parseLayout(stackFormat)
	if err != nil {
		t.Fatal(err)
	}
	s := &Tracer{layouts: map[uint16]*layout{l.id: l}, kinds: map[uint16]KernelEventKind{l.id: Stack}}
	b := []byte{4, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 3, 0, 0, 0, 0, 0, 0, 0}
	for _, addr := range []uint64{0x10, 0x20, 0x30, 0x40} {
		b = binary.LittleEndian.AppendUint64(b, addr)
	}
	e, ok := s.event(b)
	if want := (KernelEvent{Kind: Stack, TID: -2, Stack: []uint64{0x10, 0x20, 0x30}}); !ok || !cmp.Equal(e, want) {
		t.Errorf("got %v, want %v", e, want)
	}
	if e, ok = s.event(b[:20]); !ok || len(e.Stack) != 0 {
		t.Errorf("cut: got %v", e)
	}
	if _, ok := s.event([]byte{5, 0}); ok {
		t.Error("an event of another kind")
	}
	for _, text := range []string{"", "ID: x\n", "name: a\n\tfield:int a;\toffset:0;\tsize:4;\n"} {
		if _, err := parseLayout(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func TestSymbols(t *testing.T) {
	s, err := parseSymbols(strings.NewReader("ffffffff81000200 T second\n0000000000000000 T hidden\nffffffff81000100 t first\n" +
		"ffffffff81000150 D data\nffffffffc0000000 t hit\t[hits]\nffffffff81000200 t alias\nshort\n"))
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[uint64]string{0xffffffff81000100: "first", 0xffffffff810001ff: "first", 0xffffffff81000204: "second", 0xffffffffc0000004: "hit hits"} {
		if got := s.At(addr); strings.TrimSpace(got.Name+" "+got.Module) != want {
			t.Errorf("%x: got %v, want %s", addr, got, want)
		}
	}
	if got := s.At(0x1000); got != nil {
		t.Errorf("below all: %v", got)
	}
}

func TestClean(t *testing.T) {
	for _, test := range [][3]string{
		{"trace_clock", "local [global] counter", "global"},
		{"buffer_size_kb", "7 (expanded: 1408)", "1408"},
		{"buffer_size_kb", "1408", "1408"},
		{"tracing_thresh", "0", "0"},
		{"set_ftrace_filter", "#### all functions enabled ####", ""},
		{"set_ftrace_filter", "vfs_read\nhit [hits]\nschedule:traceoff:unlimited\n", "vfs_read\nhit:mod:hits"},
		{"set_ftrace_notrace_pid", "no pid", ""},
		{"set_ftrace_notrace_pid", "12\n13", "12\n13"},
	} {
		if got := clean(test[0], test[1]); got != test[2] {
			t.Errorf("%s %q: got %q, want %q", test[0], test[1], got, test[2])
		}
	}
}

// fakeTree makes files like those of tracefs.
func fakeTree(t *testing.T, files map[string]string) *tree {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "instances"), 0o777); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return &tree{dir, -1}
}

// TestRepair changes settings and is killed; another one puts them back, but not
// as long as the first one lives.
func TestRepair(t *testing.T) {
	files := map[string]string{"current_tracer": "nop", "max_graph_depth": "0", "trace_clock": "[local] mono", "set_ftrace_filter": "vfs_read"}
	tr := fakeTree(t, files)
	state := filepath.Join(t.TempDir(), "state.json")
	s, err := newSettings(tr)
	if err != nil {
		t.Fatal(err)
	}
	s.path = state
	change := map[string]string{"max_graph_depth": "3", "trace_clock": "mono", "set_ftrace_filter": "a\nb", "current_tracer": "function_graph"}
	for _, name := range []string{"max_graph_depth", "trace_clock", "set_ftrace_filter", "current_tracer"} {
		if err := s.set(name, change[name]); err != nil {
			t.Fatal(err)
		}
		if err := s.set(name, change[name]); err != nil { // the first value counts
			t.Fatal(err)
		}
	}
	content := func(name string) string {
		text, err := tr.read(name)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if n, err := tr.repair(state); n != 0 || err != nil || content("max_graph_depth") != "3" {
		t.Errorf("repaired %d while its owner lives: %v", n, err)
	}
	other, err := newSettings(tr)
	if err != nil {
		t.Fatal(err)
	}
	other.path = state
	if err := other.set("max_graph_depth", "7"); err == nil || !strings.Contains(err.Error(), "traces it already") {
		t.Errorf("a second one changes settings: %v", err)
	}
	s.Owner = "1-18446744073709551615" // no process of that pid started then
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	if n, err := tr.repair(state); n != 4 || err != nil {
		t.Errorf("repaired %d: %v", n, err)
	}
	for name, want := range map[string]string{"current_tracer": "nop", "max_graph_depth": "0", "trace_clock": "local", "set_ftrace_filter": "vfs_read"} {
		if got := content(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if _, err := os.Stat(state); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
}

// TestOldState does not put back what an earlier boot left.
func TestOldState(t *testing.T) {
	tr := fakeTree(t, map[string]string{"max_graph_depth": "5"})
	state := filepath.Join(t.TempDir(), "state.json")
	for text, fails := range map[string]bool{
		`{"owner":"1-18446744073709551615","boot":"x","saved":[{"file":"max_graph_depth","value":"0"}]}`: false,
		`{"owner":"1-18446744073709551615","boot":"x","saved":[{"file":"../x","value":"0"}]}`:            true,
		`{`: true,
	} {
		if err := os.WriteFile(state, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if n, err := tr.repair(state); n != 0 || (err != nil) != fails {
			t.Errorf("%s: repaired %d: %v", text, n, err)
		}
	}
	if got, _ := tr.read("max_graph_depth"); got != "5" {
		t.Errorf("max_graph_depth is %s", got)
	}
}

func FuzzReadPage(f *testing.F) {
	f.Add(page(1000, 2|5<<5, 11, 12, 1|7<<5, 13))
	f.Add(page(0, 30|1<<5, 2, 31, 3, 0, 12, 1, 2, 29))
	f.Fuzz(func(t *testing.T, b []byte) {
		total := 0
		if err := readPage(b, func(_ uint64, event []byte) { total += len(event) }); err == nil && total > len(b) {
			t.Errorf("%d bytes of events in %d", total, len(b))
		}
	})
}

func FuzzEvent(f *testing.F) {
	f.Add(stackFormat, []byte("\x04\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00abcdefgh"))
	f.Fuzz(func(t *testing.T, format string, event []byte) {
		l, err := parseLayout(format)
		if err != nil {
			return
		}
		s := &Tracer{layouts: map[uint16]*layout{l.id: l}, kinds: map[uint16]KernelEventKind{l.id: Stack}}
		if e, _ := s.event(event); len(e.Stack)*8 > len(event) {
			t.Errorf("%d callers in %d bytes", len(e.Stack), len(event))
		}
	})
}

func FuzzSymbols(f *testing.F) {
	f.Add("ffffffff81000200 T second\nffffffffc0000000 t hit\t[hits]\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseSymbols(strings.NewReader(text))
		if err == nil && !slices.IsSortedFunc(s, func(a, b Symbol) int {
			if a.Addr < b.Addr {
				return -1
			} else if a.Addr > b.Addr {
				return 1
			}
			return 0
		}) {
			t.Error("not in order")
		}
	})
}
