//go:build linux

package live

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"footfall/formats/gocover"
	"footfall/formats/gocover/fixtures"
	"footfall/process"
)

// A shop is the program of fixtures, running.
type shop struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	dir string // of GOCOVERDIR
}

func startShop(t *testing.T, program string) *shop {
	t.Helper()
	s := &shop{t: t, cmd: exec.Command(program, "an argument", ""), dir: t.TempDir()}
	s.cmd.Env = append(os.Environ(), "GOCOVERDIR="+s.dir)
	s.in, _ = s.cmd.StdinPipe()
	out, _ := s.cmd.StdoutPipe()
	s.out = bufio.NewScanner(out)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.in.Close()
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	})
	return s
}

// do has the program do something, and waits until it has.
func (s *shop) do(lines ...string) {
	s.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(s.in, line+"\n"); err != nil {
			s.t.Fatal(err)
		}
		if !s.out.Scan() {
			s.t.Fatalf("%s: no answer", line)
		}
	}
}

// end has the program end, and returns what it has written.
func (s *shop) end() (meta []byte, counters *gocover.Counters) {
	s.t.Helper()
	s.in.Close()
	if err := s.cmd.Wait(); err != nil {
		s.t.Fatal(err)
	}
	for _, name := range []string{"covmeta.*", "covcounters.*"} {
		found, _ := filepath.Glob(filepath.Join(s.dir, name))
		if len(found) != 1 {
			s.t.Fatalf("%s: %v", name, found)
		}
		b, err := os.ReadFile(found[0])
		if err != nil {
			s.t.Fatal(err)
		}
		if gocover.IsMeta(b) {
			meta = b
		} else if counters, err = gocover.ReadCounters(b); err != nil {
			s.t.Fatal(err)
		}
	}
	return meta, counters
}

// TestGoExact reads counters, and compares them with what the program writes at its end.
func TestGoExact(t *testing.T) {
	module := fixtures.Module(t)
	for mode, flags := range map[string][]string{
		"set": {"-ldflags=-s -w"}, "count": nil, "atomic": {"-buildmode=pie", "-ldflags=-s -w"},
	} {
		t.Run(mode, func(t *testing.T) {
			if testing.Short() && len(flags) > 1 {
				t.Skip("the whole library is compiled for this")
			}
			s := startShop(t, fixtures.Build(t, module, mode, flags...))
			s.do("push a", "pop", "double")
			p, err := Open(s.cmd.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			first, err := p.Profiles()
			if err != nil || len(first) != 1 {
				t.Fatalf("%d profiles, %v", len(first), err)
			}
			if _, err := p.Snapshot(); !errors.Is(err, ErrOnlyProfiles) {
				t.Errorf("other counters: %v", err)
			}
			s.do("max", "max", "hook")
			last, err := p.Profiles()
			if err != nil || len(last) != 1 {
				t.Fatalf("%d profiles, %v", len(last), err)
			}
			live, err := gocover.ReadCounters(last[0].Bytes)
			if err != nil {
				t.Fatal(err)
			}
			meta, written := s.end()
			if !bytes.Equal(last[0].Meta, meta) {
				t.Errorf("meta-data of %d bytes are not those written, %d", len(last[0].Meta), len(meta))
			}
			if diff := cmp.Diff(written, live); diff != "" {
				t.Errorf("(-written +live)\n%s", diff)
			}
			if err := last[0].Subtract(first[0].Bytes); err != nil {
				t.Fatal(err)
			}
			since, err := gocover.ReadCounters(last[0].Bytes)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range since.Segments[0].Functions {
				m, err := gocover.ReadMeta(meta)
				if err != nil {
					t.Fatal(err)
				}
				want := map[string]uint32{"Push": 0, "Num.Double": 0, "Max": 2}
				if mode == "set" {
					want["Max"] = 1
				}
				pkg := &m.Packages[f.Package]
				if n, known := want[pkg.Functions[f.Function].Name]; known && pkg.Name == "calc" && f.Counts[0] != n {
					t.Errorf("%s since the first look: %v, want %d", pkg.Functions[f.Function].Name, f.Counts, n)
				}
			}
		})
	}
}

// TestGoRuntime has counters of a package of the runtime, which has a number of its own.
func TestGoRuntime(t *testing.T) {
	g := &golang{hard: map[int32]uint32{-3: 7}}
	minus3 := ^uint32(2)
	got, err := g.functions([]uint32{0, 2, minus3, 5, 0, 8, 0, 1, 1, 0, 0, 1, 0, 4, 6, 1, 12, 3, 9})
	if err != nil {
		t.Fatal(err)
	}
	want := []gocover.FunctionCounters{{Package: 7, Function: 5, Counts: []uint32{0, 8}}, {Package: 11, Function: 3, Counts: []uint32{9}}}
	if diff := cmp.Diff(want, got.Functions); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if _, err := g.functions([]uint32{5, 1, 1}); err == nil {
		t.Error("counters go on behind their end")
	}
}

// TestGoWithoutSection finds what it looks for where neither symbols nor the section of Go 1.26 tell.
func TestGoWithoutSection(t *testing.T) {
	s := startShop(t, fixtures.Build(t, fixtures.Module(t), "count"))
	s.do("push a")
	p, err := Open(s.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	all, _, err := p.proc.Maps()
	if err != nil {
		t.Fatal(err)
	}
	for _, im := range p.images {
		if im.golang == nil {
			continue
		}
		known := *im.golang
		blind := &golang{order: known.order, pointer: known.pointer, table: known.table}
		if !blind.prepare(p.proc, all, known.parts) || blind.module != known.module || blind.counters != known.counters {
			t.Errorf("moduledata at %#x with %v, found at %#x with %v", known.module, known.counters, blind.module, blind.counters)
		}
		if blind.searchList(p.proc, all); blind.list != known.list {
			t.Errorf("the list of packages is at %#x, found at %#x", known.list, blind.list)
		}
		return
	}
	t.Error("no counters")
}

// TestGoHasNone opens a program of Go that was not built for coverage.
func TestGoHasNone(t *testing.T) {
	module := fixtures.Module(t)
	program := filepath.Join(t.TempDir(), "plain")
	fixtures.Go(t, module, "build", "-buildvcs=false", "-o", program, "./cmd/app")
	s := startShop(t, program)
	s.do("pop")
	if _, err := Open(s.cmd.Process.Pid); !errors.Is(err, ErrNoCounters) || errors.Is(err, ErrOnlyProfiles) {
		t.Errorf("%v", err)
	}
}

// goMemory is memory of a process, at one address.
type goMemory struct {
	at uint64
	b  []byte
}

func (m *goMemory) ReadAt(b []byte, at int64) (int, error) {
	if uint64(at) < m.at || uint64(at)-m.at > uint64(len(m.b)) {
		return 0, io.ErrUnexpectedEOF
	}
	n := copy(b, m.b[uint64(at)-m.at:])
	if n < len(b) {
		return n, io.ErrUnexpectedEOF
	}
	return n, nil
}

func (m *goMemory) ReadRanges(ranges []process.MemoryRange) error {
	for _, r := range ranges {
		if _, err := m.ReadAt(r.Bytes, int64(r.Addr)); err != nil {
			return err
		}
	}
	return nil
}

// FuzzGoMemory looks for counters in memory with anything in it.
func FuzzGoMemory(f *testing.F) {
	const at = 0x400000
	le := binary.LittleEndian
	p := gocover.Package{Path: "p", Name: "p", Functions: []gocover.FuncDesc{{Name: "f", File: "p/f.go", Units: []gocover.CoverableUnit{{Line: 1, Column: 2, EndLine: 3, EndColumn: 4, Statements: 5}}}}}
	text := p.Encode()
	b := make([]byte, 1024)
	copy(b[512:], text)
	le.PutUint64(b, at)                          // moduledata
	le.PutUint64(b[256:], at+900)                // counters
	le.PutUint64(b[264:], at+900+16)             //
	for i, n := range []uint64{at + 400, 1, 1} { // the list
		le.PutUint64(b[300+4+8*i:], n)
	}
	le.PutUint64(b[400:], at+512)
	le.PutUint32(b[408:], uint32(len(text)))
	copy(b[412:], text[16:32])
	le.PutUint64(b[448:], ^uint64(0))
	b[456], b[457] = 2, 1
	for i, n := range []uint32{1, 1, 0, 7} {
		le.PutUint32(b[900+4*i:], n)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		mem := &goMemory{at, b}
		all := process.Maps{{Start: at, End: at + uint64(len(b)), Read: true, Write: true}}
		g := &golang{order: le, pointer: 8, table: at}
		if !g.prepare(mem, all, all) {
			return
		}
		if s, err := g.read(mem, mem.ReadRanges, all); err == nil && s != nil {
			_, _ = gocover.ReadCounters(s.Encode(g.meta.Hash))
		}
	})
}
