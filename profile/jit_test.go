//go:build linux

package profile

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"footfall/formats/perfdata"
	"footfall/input"
)

// TestGenerated names code that was made at run time.
func TestGenerated(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the code is for x86-64")
	}
	needSampling(t)
	program := build(t, "gcc-12", "-O2", "testdata/generated.c")
	p, out := record(t, RecordOptions{Frequency: 999}, program)
	defer os.Remove(strings.TrimSpace(out))
	graph := NewGraph(p)
	for _, n := range graph.Nodes {
		if n.Func.Name == "hot loop of query 7" {
			if n.Total < graph.Total/2 {
				t.Errorf("it has %d of %d ns", n.Total, graph.Total)
			}
			return
		}
	}
	t.Errorf("it is not there")
}

func TestGeneratedFunctions(t *testing.T) {
	functions := generatedFunctions([]byte("2000 10 b\n1000 20 a\nrubbish\n3000 0 empty\nxyz 1 c\n0x2000 0x8 later one\n4000 zz d\n5000\n"))
	got := ""
	for _, f := range functions {
		got += f.Name + ","
	}
	if want := "a,later one,"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if f := functions.At(0x2008); f != nil {
		t.Errorf("%s goes on behind its end", f.Name)
	}
}

func FuzzGeneratedFunctions(f *testing.F) {
	f.Add([]byte("7f00 40 hot loop of query 7\n7f00 0x20 later\n"), uint64(0x7f10))
	f.Fuzz(func(t *testing.T, b []byte, addr uint64) {
		generatedFunctions(b).At(addr)
	})
}

// TestStubsHaveAName has code of ours in a perf.data file.
func TestStubsHaveAName(t *testing.T) {
	h := newHistory([]perfdata.SidebandEvent{{Kind: perfdata.Mapped, PID: 1, Addr: 0x7000, Len: 0x1000, Path: "/memfd:footfall-code (deleted)"}}, nil, input.Open)
	p := &perfImages{history: h}
	defer p.close()
	i, at := p.find(h.space(1, 0).code, 0x7010)
	if got := i.frames(at)[0].name; got != "[footfall stubs]" {
		t.Errorf("%s", got)
	}
	if notes := p.notes(); len(notes) > 0 {
		t.Errorf("%q", notes)
	}
}
