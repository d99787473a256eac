package gocover

import (
	"bytes"
	"crypto/md5"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"footfall/formats/gocover/fixtures"
)

// runProgram builds the program in a mode, runs it, and returns what it wrote.
func runProgram(tb testing.TB, mode, input string) (meta, counters []byte) {
	tb.Helper()
	program := fixtures.Build(tb, fixtures.Module(tb), mode)
	dir := tb.TempDir()
	cmd := exec.Command(program)
	cmd.Stdin, cmd.Env = strings.NewReader(input), append(os.Environ(), "GOCOVERDIR="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("%v\n%s", err, out)
	}
	for pattern, to := range map[string]*[]byte{"covmeta.*": &meta, "covcounters.*": &counters} {
		names, _ := filepath.Glob(filepath.Join(dir, pattern))
		if len(names) != 1 {
			tb.Fatalf("%s: %v", pattern, names)
		}
		b, err := os.ReadFile(names[0])
		if err != nil {
			tb.Fatal(err)
		}
		*to = b
	}
	return meta, counters
}

// TestReadWrite reads what a program wrote, and writes the same.
func TestReadWrite(t *testing.T) {
	for _, mode := range []string{"set", "count", "atomic"} {
		metaBytes, counterBytes := runProgram(t, mode, "push a\npush b\npop\n")
		m, err := ReadMeta(metaBytes)
		if err != nil {
			t.Fatal(err)
		}
		if m.Mode.String() != mode || m.Granularity != PerBlock || len(m.Packages) != 2 || m.Packages[0].Path != "example.com/shop/calc" || m.Packages[1].Name != "main" {
			t.Errorf("%s: %v %v %d packages", mode, m.Mode, m.Granularity, len(m.Packages))
		}
		if got := NewMeta(m.Mode, m.Granularity, m.Packages).Encode(); !bytes.Equal(got, metaBytes) {
			t.Errorf("%s: the meta-data that are written are not those that were read", mode)
		}
		for _, p := range m.Packages {
			again, err := ReadPackage(p.Encode())
			if err != nil {
				t.Fatal(err)
			}
			p.Bytes, again.Bytes = nil, nil
			if diff := cmp.Diff(p, *again); diff != "" {
				t.Errorf("(-read +written and read)\n%s", diff)
			}
		}
		first := m.Packages[0]
		sum := md5.New()
		first.hash(sum)
		first.Bytes = slices.Clone(first.Bytes)
		sum.Sum(first.Bytes[:offsetHash])
		if m.Packages[0].isOlder() || !first.isOlder() {
			t.Errorf("%s: what Go up to 1.23 has compiled is not told from what later ones have", mode)
		}
		c, err := ReadCounters(counterBytes)
		if err != nil {
			t.Fatal(err)
		}
		if c.Hash != m.Hash || len(c.Segments) != 1 || c.Segments[0].Arguments["argc"] != "1" {
			t.Errorf("%s: %+v", mode, c)
		}
		again, err := ReadCounters(c.Segments[0].Encode(c.Hash))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, again); diff != "" {
			t.Errorf("%s: counters (-read +written and read)\n%s", mode, diff)
		}
		p := NewPod(m)
		for range 2 {
			if err := p.Add(c); err != nil {
				t.Fatal(err)
			}
		}
		want := map[string]uint32{"set": 1, "count": 4, "atomic": 4}[mode]
		if got := p.Counts[0][0]; len(got) != 1 || got[0] != uint64(want) {
			t.Errorf("%s: Push, twice in each of two runs: %v, want %d", mode, got, want)
		}
	}
}

// TestFlavors reads counters as the other flavors have them, several runs in one file.
func TestFlavors(t *testing.T) {
	functions := []FunctionCounters{{0, 0, []uint32{1, 300}}, {1, 7, []uint32{1 << 31}}}
	want := &Counters{Hash: Hash{1, 2, 3}, Segments: []CounterSegment{{map[string]string{"GOOS": "plan9"}, functions}, {map[string]string{"GOOS": "plan9"}, functions}}}
	for _, big := range []bool{false, true} {
		order, flag := binary.AppendByteOrder(binary.LittleEndian), byte(0)
		if big {
			order, flag = binary.BigEndian, 1
		}
		le := binary.LittleEndian
		b := le.AppendUint32([]byte("\x00cwm"), 1)
		b = append(append(b, want.Hash[:]...), 1, flag, 0, 0, 0, 0, 0, 0)
		for n := range uint32(2) {
			b = le.AppendUint64(b, uint64(len(functions)))
			texts, arguments := appendTexts(nil, []string{"", "GOOS", "plan9"}), []byte{1, 1, 2}
			b = le.AppendUint32(le.AppendUint32(b, uint32(len(texts))), uint32(len(arguments)))
			b = append(append(b, texts...), arguments...)
			for (len(texts)+len(arguments))%4 != 0 {
				texts, b = append(texts, 0), append(b, 0)
			}
			for _, f := range functions {
				for _, x := range append([]uint32{uint32(len(f.Counts)), f.Package, f.Function}, f.Counts...) {
					b = order.AppendUint32(b, x)
				}
			}
			b = append(le.AppendUint32(append(b, "\x00cwm\x00\x00\x00\x00"...), n+1), 0, 0, 0, 0)
		}
		got, err := ReadCounters(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("big-endian %v (-want +got)\n%s", big, diff)
		}
	}
}

// TestNames compares the names of functions with those of the linker.
func TestNames(t *testing.T) {
	module := fixtures.Module(t)
	program := fixtures.Build(t, module, "set", "-gcflags=all=-l")
	symbols := fixtures.Go(t, module, "tool", "nm", program)
	for name, pkg := range map[string]string{"calc/calc.go": "example.com/shop/", "cmd/app/main.go": ""} {
		s := NewSource([]byte(fixtures.Sources[name]))
		if len(s.bodies) == 0 {
			t.Fatal("no functions")
		}
		for _, b := range s.bodies {
			name := strings.NewReplacer("(*Stack)", "(*Stack[go.shape.string])", "calc.Max", "calc.Max[go.shape.int]").Replace(b.name)
			if strings.Contains(name, ".func.L") || strings.HasSuffix(name, "Never") {
				continue // the linker has none of these
			}
			if !strings.Contains(symbols, " "+pkg+name+"\n") {
				t.Errorf("%s is no symbol", pkg+name)
			}
		}
	}
}

// TestDamaged cuts files, and says that they hold more than they do.
func TestDamaged(t *testing.T) {
	meta, counters := runProgram(t, "count", "pop\n")
	for i := range meta {
		if _, err := ReadMeta(meta[:i]); err == nil {
			t.Fatalf("meta-data of %d bytes, cut to %d, are not damaged", len(meta), i)
		}
	}
	for i := range counters {
		if c, err := ReadCounters(counters[:i]); err == nil || c != nil && len(c.Segments) > 0 {
			t.Fatalf("counters of %d bytes, cut to %d, are not damaged", len(counters), i)
		}
	}
	le := binary.LittleEndian
	for _, at := range []int{16, 24, 40} { // packages; texts
		b := bytes.Clone(meta)
		le.PutUint64(b[at:], 1<<61)
		if _, err := ReadMeta(b); at == 16 && err == nil {
			t.Error("2^61 packages are read")
		}
	}
	m, err := ReadMeta(meta)
	if err != nil {
		t.Fatal(err)
	}
	p := NewPod(m)
	err = p.Add(&Counters{Hash: m.Hash, Segments: []CounterSegment{{Functions: []FunctionCounters{{9, 0, nil}, {0, 0, []uint32{1, 2}}, {0, 0, []uint32{7}}}}}})
	if err == nil || p.Counts[0][0][0] != 7 {
		t.Errorf("counters of functions that are not there: %v, the others %v", err, p.Counts[0][0])
	}
}

func FuzzMeta(f *testing.F) {
	meta, counters := runProgram(f, "set", "push a\nmax\n")
	f.Add(meta, counters)
	f.Fuzz(func(t *testing.T, meta, counters []byte) {
		c, _ := ReadCounters(counters)
		m, err := ReadMeta(meta)
		if err != nil {
			return
		}
		p := NewPod(m)
		if c != nil {
			c.Hash = m.Hash
			_ = p.Add(c)
		}
		source := NewSource([]byte(fixtures.Sources["calc/calc.go"]))
		for _, source := range []*Source{nil, source} {
			set, _ := Collect([]*Pod{p}, CollectOptions{
				Source: func(_ *Pod, name string) (string, bool) { return name, true }, Read: func(string) *Source { return source },
			})
			if set.Len() > len(meta) {
				t.Errorf("%d sources of %d bytes", set.Len(), len(meta))
			}
		}
	})
}

func FuzzCounters(f *testing.F) {
	_, counters := runProgram(f, "count", "push a\nmax\n")
	f.Add(counters)
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ReadCounters(b)
		if err != nil {
			return
		}
		for i := range c.Segments {
			again, err := ReadCounters(c.Segments[i].Encode(c.Hash))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.Segments[i].Functions, again.Segments[0].Functions); diff != "" {
				t.Errorf("(-read +written and read)\n%s", diff)
			}
		}
	})
}

func FuzzSource(f *testing.F) {
	f.Add([]byte(fixtures.Sources["calc/calc.go"]), int32(10), int32(30))
	f.Fuzz(func(t *testing.T, text []byte, line, column int32) {
		if line < 1 || line > 1<<24 {
			return
		}
		s := NewSource(text)
		blocks := []Block{{Position{line, column}, Position{line + 2, 1}, 3}, {Position{line + 1, column}, Position{line + 1, column}, 0}}
		var l Liner
		l.Lines(blocks, s, 0)
		s.Functions(blocks)
		s.Has(Position{line, column})
	})
}

// TestSourceIsKept has a source come back as it was.
func TestSourceIsKept(t *testing.T) {
	for name, text := range fixtures.Sources {
		want := NewSource([]byte(text))
		got, err := DecodeSource(want.Encode())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(Source{}, body{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func FuzzDecodeSource(f *testing.F) {
	for _, text := range fixtures.Sources {
		f.Add(NewSource([]byte(text)).Encode())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := DecodeSource(b)
		if err != nil {
			return
		}
		blocks := []Block{{Position{1, 1}, Position{3, 2}, 1}}
		new(Liner).Lines(blocks, s, int64(len(b)))
		s.Functions(blocks)
		if again, err := DecodeSource(s.Encode()); err != nil || len(again.bodies) != len(s.bodies) {
			t.Fatalf("%v", err)
		}
	})
}
