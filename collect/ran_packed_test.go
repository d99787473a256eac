//go:build linux

package collect

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"footfall/binary"
	"footfall/hook/patch"
	"footfall/process/target"
)

// manyFunctionsProgram is a program with n functions, whose names are as those of C++.
func manyFunctionsProgram(n int) (p *RanProgram, names []string) {
	p = &RanProgram{Path: "/usr/bin/many"}
	code := []byte{0x55, 0x48, 0x89, 0xe5, 0x53} // push %rbp; mov %rsp,%rbp; push %rbx
	for i := range n {
		name := fmt.Sprintf("_ZN4llvm%d%sPass%dEPNS_8FunctionERNS_15AnalysisManagerIS1_JEEE", 10+i%7, strings.Repeat("Scalar", i%3), i)
		if i%5 == 4 {
			name = ""
		}
		names = append(names, name)
		fn := binary.FunctionSymbol{Name: name, Addr: uint64(0x1000 + 64*i), Size: 60}
		s := patch.MovedSite(new(target.Image), fn, &binary.EntryWindow{Addr: fn.Addr + uint64(i%2*4), Code: code})
		p.noteFunction(p.function(s, 0, newRanSources(p, false)), s.Window())
	}
	p.noteBlocks()
	p.names.done()
	return p, names
}

// TestRanSmall has a function that is watched take little memory, whatever was needed to find it.
func TestRanSmall(t *testing.T) {
	const n = 50_000
	inUse := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := inUse()
	p, _ := manyFunctionsProgram(n)
	if each := (inUse() - before) / n; each > 130 {
		t.Errorf("a function takes %d bytes", each)
	}
	runtime.KeepAlive(p)
}

// TestRanPacked finds all again that was packed.
func TestRanPacked(t *testing.T) {
	p, names := manyFunctionsProgram(5000)
	i := new(target.Image)
	for n, fn := range p.Functions {
		s := p.site(i, n)
		w := s.Window()
		if s.Function.Addr != fn.Addr || w.Addr != fn.Addr+uint64(n%2*4) || len(w.Instructions) != 3 || p.placeOf(n).fn != fn {
			t.Fatalf("site %d: %+v, %+v", n, s, w)
		}
	}
	check := func(how string) {
		for _, n := range rand.Perm(len(names)) {
			fn := p.Functions[n]
			want := names[n]
			if want == "" {
				want = fmt.Sprintf("many+%#x", fn.Addr+uint64(n%2*4))
			}
			if is := fn.InstanceName(); is != want {
				t.Fatalf("%s: function %d is called %q, want %q", how, n, is, want)
			}
		}
	}
	check("closed")
	done := p.names.open()
	check("open")
	done()
	check("closed again")
}

// TestNameTable has long names, too.
func TestNameTable(t *testing.T) {
	var table nameTable
	var names []string
	var numbers []nameNumber
	for i := range 300 {
		name := strings.Repeat(fmt.Sprintf("name%d", i), 1+i*i%977*(i%11)*4)
		names, numbers = append(names, name), append(numbers, table.add(name))
	}
	table.done()
	if len(table.chunks) < 3 {
		t.Errorf("%d chunks", len(table.chunks))
	}
	for _, i := range rand.Perm(len(names)) {
		if is := table.at(numbers[i]); is != names[i] {
			t.Fatalf("name %d: %d bytes, want %d", i, len(is), len(names[i]))
		}
	}
	if slices.Contains(numbers, 0) || table.at(0) != "" || table.at(noNames-1) != "" {
		t.Error("what has no name has one")
	}
}

// TestReasons keeps texts apart, and does with too many.
func TestReasons(t *testing.T) {
	for _, text := range []string{"", "it is busy", "it is short"} {
		if is := reasonOf(text).String(); is != text {
			t.Errorf("%q is %q", text, is)
		}
	}
	if reasonOf("it is busy") == reasonOf("it is short") || reasonOf("") != 0 {
		t.Error("reasons are mixed up")
	}
}
