//go:build linux

package profile

import (
	"bytes"
	"flag"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	pprof "github.com/google/pprof/profile"

	"footfall/binary"
)

var update = flag.Bool("update", false, "rewrite the expected outputs in testdata")

// sampledProfile is one of a program with two threads, recursion, an inlined
// function, a function of a library without names, and a name to be escaped.
func sampledProfile(t *testing.T) *Profile {
	t.Helper()
	return exampleProfile(t, func(b *builder, program, library *image) {
		chain := func(thread string, n int64, addrs ...uint64) {
			var places []codeAt
			for _, a := range addrs {
				if a >= 0x9000 {
					places = append(places, codeAt{library, a})
				} else {
					places = append(places, codeAt{program, a})
				}
			}
			add(b, places, thread, n)
		}
		chain("main 1", 600, 0x1310, 0x1210, 0x1110)
		chain("main 1", 100, 0x1310, 0x1310, 0x1210, 0x1110)
		chain("main 1", 1, 0x1410, 0x1110)
		chain("worker 2", 250, 0x9010, 0x1210)
		chain("worker 2", 49, 0x1210)
		b.p.Period = 1e6
	}, []string{"worker: 1 of 1001 samples was lost"})
}

func add(b *builder, places []codeAt, thread string, n int64) {
	for _, p := range places[:1] {
		chain := b.at(p.image, p.addr)
		all := append(b.p.Location[:0:0], chain)
		for _, q := range places[1:] {
			all = append(all, b.at(q.image, q.addr))
		}
		b.add(all, thread, 0, n*1e6)
	}
}

// countedProfile has counts of calls and, apart from them, times.
func countedProfile(t *testing.T, factor int64) *Profile {
	t.Helper()
	return exampleProfile(t, func(b *builder, program, library *image) {
		call := func(n int64, callee, caller uint64) {
			b.add(append(b.p.Location[:0:0], b.outer(program, callee), b.outer(program, caller)), "", n, 0)
		}
		b.add(append(b.p.Location[:0:0], b.outer(program, 0x1100)), "", 1, 0)
		call(20*factor, 0x1200, 0x1110)
		call(300, 0x1300, 0x1210)
		call(200, 0x1300, 0x1310)
		call(5, 0x1400, 0x1110)
		b.add(append(b.p.Location[:0:0], b.outer(program, 0x1210)), "", 0, 30*factor*1e7)
		b.add(append(b.p.Location[:0:0], b.outer(program, 0x1310)), "", 0, 60*1e7)
		b.p.Period = 1e7
	}, nil)
}

func exampleProfile(t *testing.T, fill func(b *builder, program, library *image), notes []string) *Profile {
	t.Helper()
	program := &image{key: "prog", path: "/usr/bin/prog", low: 0x1000, high: 0x2000, buildID: "aa"}
	for i, name := range []string{"main", "work", "_ZN3box6helperIiEEvT_", "operator<"} {
		program.functions = append(program.functions, binary.FunctionSymbol{Name: name, Addr: uint64(0x1100 + i*0x100), Size: 0x100, Unit: "prog.cc"})
	}
	library := &image{key: "lib", path: "/usr/lib/libx.so.1", low: 0x9000, high: 0xa000}
	b := newBuilder()
	fill(b, program, library)
	for _, f := range b.p.Function {
		if f.Filename != "" {
			f.Filename, f.StartLine = "/src/prog.cc", int64(len(f.Name))
		}
	}
	for _, l := range b.p.Location {
		for i := range l.Line {
			if f := l.Line[i].Function; f.StartLine > 0 {
				l.Line[i].Line = f.StartLine + 2
			}
		}
	}
	p, err := b.finish(notes)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func exampleReport(p *Profile) *View {
	return &View{Profile: p, Graph: NewGraph(p), Title: "prog <1>",
		Shown: func(name string) string { return strings.TrimPrefix(name, "/src/") },
		Open: func(name string) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(strings.Repeat("a line of "+filepath.Base(name)+"\n", 12))), nil
		}}
}

func printed(t *testing.T, r *View, format string) string {
	t.Helper()
	var w bytes.Buffer
	for _, o := range Outputs {
		if o.Name != format {
			continue
		}
		if err := r.Print(&w, o); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		return w.String()
	}
	t.Fatalf("no output %s", format)
	return ""
}

func TestOutputs(t *testing.T) {
	for name, p := range map[string]*Profile{"sampled": sampledProfile(t), "counted": countedProfile(t, 1)} {
		for _, format := range []string{"text", "callers", "source", "gprof", "json", "callgrind", "collapsed", "speedscope"} {
			if name == "counted" && (format == "collapsed" || format == "speedscope") {
				continue
			}
			golden(t, name+"-"+format+".golden", printed(t, exampleReport(p), format))
		}
	}
	diff, err := NewDiff(countedProfile(t, 1), countedProfile(t, 2))
	if err != nil {
		t.Fatal(err)
	}
	diff.Shown = exampleReport(diff.Profile).Shown
	golden(t, "diff-text.golden", printed(t, diff, "text"))
	if err := diff.Print(io.Discard, Outputs[1]); err == nil || !strings.Contains(err.Error(), "difference") {
		t.Errorf("callers of a difference: %v", err)
	}
	colored := exampleReport(sampledProfile(t))
	colored.Color, colored.Top = true, 2
	golden(t, "color-text.golden", printed(t, colored, "text"))
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestCountsAreNoStacks(t *testing.T) {
	r := exampleReport(countedProfile(t, 1))
	for _, o := range Outputs {
		if o.Name != "collapsed" && o.Name != "speedscope" {
			continue
		}
		if err := r.Print(io.Discard, o); err == nil || !strings.Contains(err.Error(), "no sampled stacks") {
			t.Errorf("%s: %v", o.Name, err)
		}
	}
}

// TestPage checks that the page is whole and that no name can end its data.
func TestPage(t *testing.T) {
	html := printed(t, exampleReport(sampledProfile(t)), "html")
	for _, want := range []string{"<title>prog &lt;1&gt;", `"name":"operator\u003c"`, `"sources":{"prog.cc":{"`, `"a line of prog.cc"`, `"lines":[{"line":6,"self":49000000,`, "function drawGraph", ".frame {", "</html>"} {
		if !strings.Contains(html, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, bad := range []string{"{{", "/*{{", "http://", "https://", "operator<"} {
		if strings.Contains(html, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
}

// TestOutputsConfirm gives what is written to the programs that it is for.
func TestOutputsConfirm(t *testing.T) {
	for _, test := range []struct {
		p       *Profile
		format  string
		command []string
		want    []string
	}{
		{sampledProfile(t), "callgrind", []string{"callgrind_annotate", "--threshold=100"}, []string{"1,000,000,000 (100.0%)", "700,000,000 (70.00%)", "work"}},
		{countedProfile(t, 1), "callgrind", []string{"callgrind_annotate", "--tree=both", "--threshold=100"}, []string{"900,000,000 (100.0%) 526 (100.0%)", "500 (95.06%)"}},
		{sampledProfile(t), "pprof", []string{"go", "tool", "pprof", "-top", "-sample_index=cpu"}, []string{"700ms 70.00% 70.00%", "[libx.so.1]"}},
		{countedProfile(t, 1), "pprof", []string{"go", "tool", "pprof", "-top", "-sample_index=calls"}, []string{"500 95.06% 95.06%        500 95.06%  box::helper", "20  3.80%"}},
	} {
		file := filepath.Join(t.TempDir(), "out")
		if err := os.WriteFile(file, []byte(printed(t, exampleReport(test.p), test.format)), 0o666); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(test.command[0], append(test.command[1:], file)...)
		cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", test.command, err, out)
		}
		if strings.Contains(string(out), "WARNING") {
			t.Errorf("%v: %s", test.command, out)
		}
		for _, want := range test.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("%v: no %q in\n%s", test.command, want, out)
			}
		}
	}
}

func TestPprofRoundTrip(t *testing.T) {
	for _, p := range []*Profile{sampledProfile(t), countedProfile(t, 1)} {
		again, err := FromPprof([]byte(printed(t, exampleReport(p), "pprof")))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(printed(t, exampleReport(p), "callers"), printed(t, exampleReport(again), "callers")); diff != "" {
			t.Errorf("-before +after:\n%s", diff)
		}
	}
	if _, err := FromPprof([]byte("no profile")); err == nil {
		t.Error("text was taken for a profile")
	}
}

// TestPprofOfOthers shows a profile with addresses alone, in milliseconds.
func TestPprofOfOthers(t *testing.T) {
	m := &pprof.Mapping{ID: 1, File: "/lib/libz.so", Start: 0x1000, Limit: 0x2000}
	a, b := &pprof.Location{ID: 1, Mapping: m, Address: 0x1001}, &pprof.Location{ID: 2, Address: 0x5000}
	p := &pprof.Profile{
		SampleType: []*pprof.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "milliseconds"}},
		Sample:     []*pprof.Sample{{Location: []*pprof.Location{a, b}, Value: []int64{1, 250}}},
		Mapping:    []*pprof.Mapping{m}, Location: []*pprof.Location{a, b},
	}
	var w bytes.Buffer
	if err := p.Write(&w); err != nil {
		t.Fatal(err)
	}
	got, err := FromPprof(w.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if text := printed(t, exampleReport(got), "collapsed"); text != "[unknown];[libz.so] 250000\n" {
		t.Error(text)
	}
	p.SampleType[1].Unit = "bytes"
	w.Reset()
	_ = p.Write(&w)
	if _, err := FromPprof(w.Bytes()); err == nil || !strings.Contains(err.Error(), "only profiles of calls or of time") {
		t.Errorf("a profile of memory: %v", err)
	}
}

func FuzzFromPprof(f *testing.F) {
	var w bytes.Buffer
	p := &pprof.Profile{
		SampleType: []*pprof.ValueType{{Type: "cpu", Unit: "nanoseconds"}},
		Function:   []*pprof.Function{{ID: 1, Name: "f"}},
	}
	p.Location = []*pprof.Location{{ID: 1, Line: []pprof.Line{{Function: p.Function[0], Line: 1}}}}
	p.Sample = []*pprof.Sample{{Location: p.Location, Value: []int64{1}}}
	if err := p.WriteUncompressed(&w); err != nil {
		f.Fatal(err)
	}
	f.Add(w.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := FromPprof(b)
		if err != nil {
			return
		}
		r := exampleReport(p)
		for _, o := range Outputs {
			if err := r.Print(io.Discard, o); err != nil {
				continue // such as one without stacks
			}
		}
	})
}

// TestTimeAlone adds up samples that no caller is known of: a function's total is
// then its own time.
func TestTimeAlone(t *testing.T) {
	b := newBuilder()
	for i := range 3 {
		b.add(append(b.p.Location[:0:0], b.named("generated", "")), "", 0, int64(i+1))
	}
	p, err := b.finish(nil)
	if err != nil {
		t.Fatal(err)
	}
	if g := NewGraph(p); len(g.Nodes) != 1 || g.Nodes[0].Self != 6 || g.Nodes[0].Total != 6 || g.Total != 6 {
		t.Errorf("%+v of %d ns, want 6 of 6", g.Nodes[0], g.Total)
	}
}

// TestCycles numbers cycles in the order of their code, not of what took time.
func TestCycles(t *testing.T) {
	p := exampleProfile(t, func(b *builder, program, library *image) {
		b.add(append(b.p.Location[:0:0], b.outer(program, 0x1410)), "", 0, 1e7)
		for _, call := range [][2]uint64{{0x1300, 0x1410}, {0x1400, 0x1310}, {0x1100, 0x1210}, {0x1200, 0x1110}} {
			b.add(append(b.p.Location[:0:0], b.outer(program, call[0]), b.outer(program, call[1])), "", 1, 0)
		}
	}, nil)
	for _, n := range NewGraph(p).Nodes {
		want := 1
		if n.addr >= 0x1300 {
			want = 2
		}
		if n.est.cycle.number != want {
			t.Errorf("%s at %#x is in cycle %d, want %d", n.Func.Name, n.addr, n.est.cycle.number, want)
		}
	}
}

// TestOverloads tells functions of one name apart by their arguments, and only those.
func TestOverloads(t *testing.T) {
	b := newBuilder()
	for i, symbol := range []string{"_ZN3box3putEi", "_ZN3box3putEPKc", "_ZN3box3getEi", "puts"} {
		b.add(append(b.p.Location[:0:0], b.named(symbol, "")), "", int64(i+1), 0)
	}
	p, err := b.finish(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &View{Profile: p, Graph: NewGraph(p)}
	want := "10 calls\n\ncalls  function\n    4  puts\n    3  box::get\n    2  box::put(char const*)\n    1  box::put(int)\n"
	if diff := cmp.Diff(want, printed(t, r, "text")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, want := range []string{" box::put(int)\n", " box::put(char const*)\n", " box::get\n"} {
		if got := printed(t, r, "callgrind"); !strings.Contains(got, want) {
			t.Errorf("callgrind has no %q:\n%s", want, got)
		}
	}
}

// TestCallgrindObjects reads which function is in which program or library, as readers
// do: as its first mention says, in which a callee is in the object of its caller unless
// there is another one for it.
func TestCallgrindObjects(t *testing.T) {
	want := map[string]string{"main": "prog", "qsort": "libx.so", "order": "prog", "fault": "kernel", "clock": "???", "last": "libx.so"}
	b := newBuilder()
	chain := func(names ...string) {
		var all []*pprof.Location
		for _, n := range names {
			path := want[n]
			if path == "???" {
				path = ""
			}
			all = append(all, b.named(n, path))
		}
		b.add(all, "", 0, 1e6)
	}
	chain("clock", "main")
	chain("fault", "order", "qsort", "main")
	chain("last")
	p, err := b.finish(nil)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	object, callee := "", ""
	for line := range strings.Lines(printed(t, &View{Profile: p, Graph: NewGraph(p)}, "callgrind")) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		_, name, first := strings.Cut(value, ") ")
		switch {
		case key == "ob":
			object = value
		case key == "cob":
			callee = value
		case key == "fn" && first:
			got[name] = object
		case key == "cfn":
			if callee == "" {
				callee = object
			}
			if first {
				got[name] = callee
			}
			callee = ""
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
