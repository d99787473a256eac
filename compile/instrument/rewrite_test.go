//go:build linux

package instrument

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite expected output in testdata")

// TestRewrite has what is hard to treat in testdata/rewrite, one subject a file,
// with the expected output and the problems beside it.
func TestRewrite(t *testing.T) {
	inputs, err := filepath.Glob("testdata/rewrite/*.s")
	if err != nil || len(inputs) == 0 {
		t.Fatal(inputs, err)
	}
	for _, name := range inputs {
		golden := strings.TrimSuffix(name, ".s") + ".out"
		shown := Plain
		if filepath.Base(name) == "split.s" {
			shown = Split
		}
		for _, u := range []ProfileUpdate{Plain, Atomic, Thread, Split, Locked} {
			src, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			out, r, err := Rewrite(src, Options{Update: u})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if _, _, err := Rewrite(out, Options{}); !errors.Is(err, ErrInstrumented) {
				t.Errorf("%s: the second time: %v", name, err)
			}
			dir := t.TempDir() // its name is in debug information
			stripped, _, err := Rewrite(src, Options{Update: u, Strip: true})
			if err != nil || len(stripped) > len(out) || !bytes.Equal(assembled(t, dir, r.CPU, stripped), assembled(t, dir, r.CPU, out)) {
				t.Errorf("%s: without comments it is another program; %v", name, err)
			}
			if u != shown {
				continue
			}
			for _, p := range r.Problems {
				out = append(out, ("# " + p.String() + "\n")...)
			}
			if *update {
				if err := os.WriteFile(golden, out, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(out)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}

// assembled has the assembler look at the output, and returns what it makes of it.
func assembled(t *testing.T, dir, cpu string, src []byte) []byte {
	t.Helper()
	words := map[string][]string{"amd64": {"as", "--64"}, "386": {"as", "--32"}, "arm64": {"aarch64-linux-gnu-as"}}[cpu]
	file := filepath.Join(dir, "x.s")
	if err := os.WriteFile(file, src, 0o666); err != nil {
		t.Fatal(err)
	}
	command(t, dir, append(words, file, "-o", file+".o")...)
	object, err := os.ReadFile(file + ".o")
	if err != nil {
		t.Fatal(err)
	}
	return object
}

func TestRewriteRefuses(t *testing.T) {
	for src, want := range map[string]string{
		"# 1 \"x.S\"\n\t.text\n\t.type f, @function\nf:\tret\n": ErrForeign.Error(),
		"\t.type f, @function\nf:\tret\n":                       ErrForeign.Error(),
		"":                                                      ErrForeign.Error(),
		"\t.file\t\"x.c\"\n\t.intel_syntax noprefix\n":                                     "Intel",
		"\t.file\t\"x.c\"\n\t.section footfall_table,\"a\",@progbits\n":                    ErrInstrumented.Error(),
		"\x7fELF\x02\x01\x01\x00\x00\x00\n\x00\x00\x03\x00>\x00\x01\x00;\"\\;\"unbalanced": ErrForeign.Error(),
	} {
		out, _, err := Rewrite([]byte(src), Options{})
		if err == nil || !strings.Contains(err.Error(), want) || string(out) != src {
			t.Errorf("%q: error %v, want %q and the source as it was", src, err, want)
		}
	}
	if _, _, err := Rewrite(nil, Options{CPU: "mips"}); err == nil {
		t.Error("no error for a CPU that is not known")
	}
}

func TestSelect(t *testing.T) {
	src, err := os.ReadFile("testdata/rewrite/parts.s")
	if err != nil {
		t.Fatal(err)
	}
	out, r, err := Rewrite(src, Options{
		Unit:   func(name string) string { return "dir/" + name },
		Select: func(unit, name string) bool { return unit == "dir/parts.c" && name == "g" },
	})
	if err != nil || r.Functions != 1 || r.Calls != 2 || r.Indirect != 0 || !bytes.Contains(out, []byte("dir/parts.c")) {
		t.Errorf("%+v, %v; want one function with two calls", r, err)
	}
}

func FuzzRewrite(f *testing.F) {
	inputs, err := filepath.Glob("testdata/rewrite/*.s")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range inputs {
		src, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src, uint8(0))
		f.Add(src, uint8(1))
		f.Add(src, uint8(2))
		f.Add(src, uint8(3))
		f.Add(src, uint8(4))
	}
	f.Fuzz(func(t *testing.T, src []byte, u uint8) {
		out, r, err := Rewrite(src, Options{Update: ProfileUpdate(u % 4), Strip: u > 3})
		if err != nil && !bytes.Equal(out, src) {
			t.Errorf("error %v, but the source was changed", err)
		}
		if r.Functions == 0 && r.Calls+r.Indirect > 0 && err == nil && len(out) < len(src) {
			t.Errorf("%+v", r)
		}
	})
}

func FuzzReadCounts(f *testing.F) {
	dir := f.TempDir()
	data, err := os.ReadFile("testdata/prog.counts")
	if err != nil {
		f.Fatal(err, dir)
	}
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Add(withCopy(data))
	f.Add([]byte(partMagic))
	f.Fuzz(func(_ *testing.T, b []byte) {
		c, err := ReadCounts(b)
		if c == nil && err == nil {
			panic("neither counts nor an error")
		}
		if c != nil {
			c.Arcs()
		}
	})
}

// withCopy returns a counts file to which a copy is added that counts what the
// first part does.
func withCopy(b []byte) []byte {
	size, offset := binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[128:])
	b, copied := bytes.Clone(b), bytes.Clone(b[:size])
	copied[28] = partCopy
	clear(copied[72:80])
	clear(copied[96:104])
	clear(copied[136:144])
	clear(copied[partHead:offset])
	return append(b, copied...)
}

func TestCopiesAddUp(t *testing.T) {
	data, err := os.ReadFile("testdata/prog.counts")
	if err != nil {
		t.Fatal(err)
	}
	c, err := ReadCounts(withCopy(withCopy(data)))
	if err != nil || len(c.Images) != 1 || callsOf(c, "f") != 6 {
		t.Errorf("%d images, %d calls, %v; want 1 and three times 2", len(c.Images), callsOf(c, "f"), err)
	}
	alone := bytes.Clone(data)
	alone[28] = partCopy
	var format *FormatError
	if _, err := ReadCounts(alone); !errors.As(err, &format) {
		t.Errorf("a copy alone: %v", err)
	}
}

// TestReadCountsDamaged cuts and changes a real file: an error or counts, never
// a panic; and errors say where.
func TestReadCountsDamaged(t *testing.T) {
	data, err := os.ReadFile("testdata/prog.counts")
	if err != nil {
		t.Fatal(err)
	}
	if c, err := ReadCounts(data); err != nil || callsOf(c, "f") != 2 {
		t.Fatalf("%v, %v", c, err)
	}
	for n := 1; n < len(data); n += 7 {
		var format *FormatError
		if _, err := ReadCounts(data[:n]); !errors.As(err, &format) && !errors.Is(err, ErrNotCounts) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
	for at := 0; at < 2048; at += 4 {
		b := bytes.Clone(data)
		copy(b[at:], "\xff\xff\xff\x7f")
		_, _ = ReadCounts(b)
	}
	if _, err := ReadCounts(make([]byte, 5000)); err == nil {
		t.Error("no error for zeros")
	}
}
