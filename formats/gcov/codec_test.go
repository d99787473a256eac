package gcov

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"footfall/formats/gcov/fixtures"
)

func TestNotesRoundTrip(t *testing.T) {
	files, functions := 0, 0
	fixtures.EachInput(t, ".gcno", func(name string, b []byte) {
		n, err := ReadNotes(b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if !bytes.Equal(n.Encode(), b) {
			t.Errorf("%s: encoded bytes differ", name)
		}
		if clang := name[:5] == "clang"; n.Clang() != clang {
			t.Errorf("%s: Clang() is %v", name, n.Clang())
		}
		files++
		functions += len(n.Functions)
	})
	if files < 300 || functions < 1000 {
		t.Errorf("only %d files with %d functions", files, functions)
	}
}

func TestCountsRoundTrip(t *testing.T) {
	files := 0
	fixtures.EachInput(t, ".gcda", func(name string, b []byte) {
		c, err := ReadCounts(b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if !bytes.Equal(c.Encode(), b) {
			t.Errorf("%s: encoded bytes differ", name)
		}
		if runs, _ := c.Runs(); runs < 1 && !strings.HasPrefix(name, "clang-9/") { // which says nothing where GCC 4.2 does
			t.Errorf("%s: %d runs", name, runs)
		}
		files++
	})
	if files < 290 {
		t.Errorf("only %d files", files)
	}
}

// Every way to cut off a file must give an error with an offset in it, or be a
// cut between records.
func TestTruncated(t *testing.T) {
	for _, fx := range fixtures.All(t, "gcc") {
		if fx.Program != "branches" {
			continue
		}
		notes, data := fx.Inputs["branches.gcno"], fx.Inputs["branches.gcda"]
		for n := range len(notes) {
			got, err := ReadNotes(notes[:n])
			checkCut(t, fx.Compiler+" notes", n, err)
			if err == nil && len(got.Functions) == 0 && n > 200 {
				t.Errorf("%s: notes cut to %d bytes lost all functions", fx.Compiler, n)
			}
		}
		for n := range len(data) {
			_, err := ReadCounts(data[:n])
			checkCut(t, fx.Compiler+" data", n, err)
		}
	}
}

func checkCut(t *testing.T, what string, n int, err error) {
	var format *FormatError
	if err == nil {
		return
	}
	if !errors.As(err, &format) {
		t.Errorf("%s cut to %d bytes: %v is no FormatError", what, n, err)
	} else if format.Offset < 0 || format.Offset > int64(n) {
		t.Errorf("%s cut to %d bytes: offset %d", what, n, format.Offset)
	}
}

func TestVersion(t *testing.T) {
	for _, c := range []struct {
		word         string
		major        int
		known, bytes bool
	}{
		{"304*", 3, true, false}, {"402*", 4, true, false}, {"409*", 4, true, false}, {"603*", 6, true, false},
		{"A74*", 7, true, false}, {"A93*", 9, true, false}, {"B15*", 11, true, false}, {"B22*", 12, true, true},
		{"B62*", 16, true, true}, {"B70e", 17, false, true}, {"303*", 3, false, false}, {"????", 0, false, false},
	} {
		v := Version(uint32(c.word[0])<<24 | uint32(c.word[1])<<16 | uint32(c.word[2])<<8 | uint32(c.word[3]))
		if v.String() != c.word || v.Major() != c.major || v.Known() != c.known || v.ByteLengths() != c.bytes {
			t.Errorf("%s: %q, major %d, known %v, byte lengths %v", c.word, v, v.Major(), v.Known(), v.ByteLengths())
		}
	}
	if v := MakeVersion(14, 2).String(); v != "B42*" {
		t.Errorf("MakeVersion(14, 2) is %s", v)
	}
	if v := MakeVersion(4, 8).String(); v != "408*" {
		t.Errorf("MakeVersion(4, 8) is %s", v)
	}
}

func FuzzNotes(f *testing.F) {
	n := 0
	fixtures.EachInput(f, ".gcno", func(name string, b []byte) {
		if n++; n%7 == 0 && len(b) < 4000 {
			f.Add(b)
		}
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := ReadNotes(b)
		if n == nil {
			if err == nil {
				t.Fatal("neither notes nor an error")
			}
			return
		}
		var g Flow
		for _, fn := range n.Functions {
			g.Build(fn, n.Version)
			g.Solve(make([]int64, fn.Counters()))
		}
		if err != nil {
			return
		}
		again, err := ReadNotes(n.Encode())
		if err != nil {
			t.Fatalf("encoded notes are bad: %v", err)
		}
		if !bytes.Equal(again.Encode(), n.Encode()) {
			t.Error("notes change when read and written again")
		}
	})
}

func FuzzCounts(f *testing.F) {
	n := 0
	fixtures.EachInput(f, ".gcda", func(name string, b []byte) {
		if n++; n%7 == 0 && len(b) < 4000 {
			f.Add(b)
		}
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ReadCounts(b)
		if c == nil {
			if err == nil {
				t.Fatal("neither counts nor an error")
			}
			return
		}
		c.Runs()
		if err != nil {
			return
		}
		again, err := ReadCounts(c.Encode())
		if err != nil {
			t.Fatalf("encoded counts are bad: %v", err)
		}
		if !bytes.Equal(again.Encode(), c.Encode()) {
			t.Error("counts change when read and written again")
		}
	})
}

// What is read and written again must be read again: records that are written
// shorter than they stood, as of strings with spare room, are no reason to
// refuse the number of blocks that was accepted before.
func TestBlocksOfRecordsThatShrink(t *testing.T) {
	for _, c := range []struct {
		pad, blocks int
		ok          bool
	}{{0, 10, true}, {0, 11, false}, {16, 10, true}, {16, 11, false}, {0, 1 << 30, false}, {16, 1 << 30, false}} {
		w := &writer{}
		w.word(NotesMagic)
		w.word(uint32(MakeVersion(8, 3)))
		w.word(1)
		w.flag(false)
		mark := w.open(TagFunction)
		w.word(1)
		w.word(2)
		w.word(3)
		w.word(uint32(1 + c.pad)) // the words of a name, more of them than it takes
		w.b = append(append(w.b, "f\x00\x00\x00"...), make([]byte, 4*c.pad)...)
		w.flag(false)
		w.text("a.c")
		w.word(1)
		w.word(1)
		w.word(1)
		w.close(mark)
		mark = w.open(TagBlocks)
		w.word(uint32(c.blocks))
		w.close(mark)

		n, err := ReadNotes(w.b)
		if (err == nil) != c.ok {
			t.Errorf("%d words of padding, %d blocks: %v", c.pad, c.blocks, err)
			continue
		}
		if err != nil {
			var g Flow
			for _, fn := range n.Functions {
				g.Build(fn, n.Version) // no tables for blocks that are not described
			}
			continue
		}
		if _, err := ReadNotes(n.Encode()); err != nil {
			t.Errorf("%d words of padding, %d blocks: what was read and written again: %v", c.pad, c.blocks, err)
		}
	}
}
