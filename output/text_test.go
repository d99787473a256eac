package output

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

var hostile = map[string]string{
	"plain name":         "plain name",
	"größe_日本":           "größe_日本",
	"a\x1b]0;pwn\x07b":   `a\x1b]0;pwn\x07b`,
	"a\u009b31mb":        `a\xc2\x9b31mb`,
	"a\x9b31mb":          `a\x9b31mb`,
	"evil\u202egnp.c":    `evil\xe2\x80\xaegnp.c`,
	"two\nlines\r":       `two\x0alines\x0d`,
	"del\x7f":            `del\x7f`,
	"\ufffd is one":      "\ufffd is one",
	"zero\u200bwidth":    `zero\xe2\x80\x8bwidth`,
	"cut \xe6\x97":       `cut \xe6\x97`,
	"colour \x1b[31m":    `colour \x1b[31m`,
	"hidden \x1b[8mtext": `hidden \x1b[8mtext`,
}

func TestPrintable(t *testing.T) {
	for name, want := range hostile {
		if got := Printable(name); got != want {
			t.Errorf("Printable(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestTextIsTheSameInAnyPieces(t *testing.T) {
	in := "ends\r\n\ttab \x1b[31mred\x1b[m \x1b[41;37mgcov\x1b[K 日本 \r \x1b[2J \x1b[8mhidden \x1b]0;x\x07 \u202e \x9b \xe6\x97x \x1b[31;31;31m \x1bm \x1b\x1b[1mbold\n"
	want := "ends\r\n\ttab \x1b[31mred\x1b[m \x1b[41;37mgcov\x1b[K 日本 " + `\x0d \x1b[2J \x1b[8mhidden \x1b]0;x\x07 \xe2\x80\xae \x9b \xe6\x97x \x1b[31;31;31m \x1bm \x1b` + "\x1b[1mbold\n"
	for size := 1; size <= len(in); size++ {
		var b bytes.Buffer
		w := NewText(&b)
		for rest := in; len(rest) > 0; {
			n := min(size, len(rest))
			if written, err := w.Write([]byte(rest[:n])); written != n || err != nil {
				t.Fatal(written, err)
			}
			rest = rest[n:]
		}
		if got := b.String(); got != want {
			t.Fatalf("in pieces of %d bytes:\n%q, want\n%q", size, got, want)
		}
	}
}

// FuzzText sees to it that nothing but text and colours leaves a Text.
func FuzzText(f *testing.F) {
	for name := range hostile {
		f.Add(name, 3)
	}
	f.Fuzz(func(t *testing.T, in string, cut int) {
		var b bytes.Buffer
		w := NewText(&b)
		at := min(max(cut, 0), len(in))
		w.Write([]byte(in[:at]))
		w.Write([]byte(in[at:] + "\n"))
		got := b.String()
		for _, colour := range []string{"", "1", "2", "7", "31", "32", "33", "35", "36", "41", "42", "43", "45", "46", "41;37", "45;37", "46;37"} {
			got = strings.NewReplacer("\x1b["+colour+"m", "", "\x1b["+colour+"K", "").Replace(got)
		}
		got = strings.NewReplacer("\r\n", "", "\n", "", "\t", "").Replace(got)
		if Printable(got) != got || !utf8.ValidString(got) {
			t.Errorf("%q leaves %q", in, got)
		}
	})
}

func TestEscapedNamesStayTwo(t *testing.T) {
	ascii := func(c rune, size int) bool { return c >= ' ' && c < 0x7f }
	for name, want := range map[string]string{
		"":                   "",
		"plain.c":            "plain.c",
		`C:\dir\xerces.c`:    `C:\dir\xerces.c`,
		"new\nline":          `new\x0aline`,
		`new\x0aline`:        `new\x5cx0aline`,
		`new\x5cx0aline`:     `new\x5cx5cx0aline`,
		"\\\n":               `\\x0a`,
		"\\x0\n":             `\x0\x0a`,
		`\x0A \x41 \x0`:      `\x0A \x41 \x0`,
		"\xe4 \u00e4 \ufffd": `\xe4 \xc3\xa4 \xef\xbf\xbd`,
	} {
		got := Escape(name, ascii)
		if got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
		if back := Unescape(got); back != name {
			t.Errorf("%q came back as %q", name, back)
		}
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("\\x\x5c\\x5c\xff")
	f.Fuzz(func(t *testing.T, name string) {
		for _, carries := range []func(rune, int) bool{
			func(c rune, size int) bool { return true },
			func(c rune, size int) bool { return c != utf8.RuneError || size > 1 },
			func(c rune, size int) bool { return c != '\n' },
		} {
			if back := Unescape(Escape(name, carries)); back != name {
				t.Errorf("%q came back as %q", name, back)
			}
		}
	})
}
