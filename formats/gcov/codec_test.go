package gcov

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestNotesRoundTrip(t *testing.T) {
	files, functions := 0, 0
	eachInput(t, ".gcno", func(name string, b []byte) {
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
	eachInput(t, ".gcda", func(name string, b []byte) {
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
	for _, fx := range fixtures(t, "gcc") {
		if fx.program != "branches" {
			continue
		}
		notes, data := fx.inputs["branches.gcno"], fx.inputs["branches.gcda"]
		for n := range len(notes) {
			got, err := ReadNotes(notes[:n])
			checkCut(t, fx.compiler+" notes", n, err)
			if err == nil && len(got.Functions) == 0 && n > 200 {
				t.Errorf("%s: notes cut to %d bytes lost all functions", fx.compiler, n)
			}
		}
		for n := range len(data) {
			_, err := ReadCounts(data[:n])
			checkCut(t, fx.compiler+" data", n, err)
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
		if v.String() != c.word || v.Major() != c.major || v.Known() != c.known || v.byteLengths() != c.bytes {
			t.Errorf("%s: %q, major %d, known %v, byte lengths %v", c.word, v, v.Major(), v.Known(), v.byteLengths())
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
	eachInput(f, ".gcno", func(name string, b []byte) {
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
		var g flow
		for _, fn := range n.Functions {
			g.build(fn, n.Version)
			g.solve(make([]int64, fn.counters()))
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
	eachInput(f, ".gcda", func(name string, b []byte) {
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
