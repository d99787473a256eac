package html

import (
	"html"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// highlighted renders lines of a source of which the name is given.
func highlighted(name string, lines ...string) string {
	h := highlighter{language: languageOf(name, false)}
	var buf []byte
	for _, l := range lines {
		buf = append(h.line(buf, []byte(l)), '\n')
	}
	return string(buf)
}

func TestHighlight(t *testing.T) {
	for _, c := range []struct{ name, lines, want string }{
		{"a.c", `if (a<b && c) return 0x1F;`, `<a>if</a> (a&lt;b && c) <a>return</a> <q>0x1F</q>;`},
		{"a.c", `class = a&b&amp;`, `class = a&amp;b&amp;amp;`},
		{"a.c", "static const int x\nint  long int", "<a>static const int</a> x\n<a>int</a>  <a>long int</a>"},
		{"a.c", "#if int", "<a>#if int</a>"},
		{"a.cc", `class X {`, `<a>class</a> X {`},
		{"a.c", `x = 1; // one`, `x = <q>1</q>; <i>// one</i>`},
		{"a.c", "a /* b\nc */ int d", "a <i>/* b</i>\n<i>c */</i> <a>int</a> d"},
		{"a.c", `"a\"b" 'c' '\''`, `<q>"a\"b"</q> <q>'c'</q> <q>'\''</q>`},
		{"a.c", "\"a\\\nint\" int", "<q>\"a\\</q>\n<q>int\"</q> <a>int</a>"},
		{"a.c", "\"open\nint", "<q>\"open</q>\n<a>int</a>"},
		{"a.c", `#include <stdio.h> // x`, `<a>#include</a> <q>&lt;stdio.h></q> <i>// x</i>`},
		{"a.c", `  # define A 1`, `<a>  # define</a> A <q>1</q>`},
		{"a.cc", "R\"x(a\n\")\" )x\" int", "<q>R\"x(a</q>\n<q>\")\" )x\"</q> <a>int</a>"},
		{"a.cc", `1'000'000 1e-5f u8"x"`, `<q>1'000'000</q> <q>1e-5f</q> <q>u8"x"</q>`},
		{"a.rs", `fn f<'a>(x: &'a str) { 'b' } /* /* */ x */ fn`, `<a>fn</a> f&lt;<q>'</q>a>(x: &<q>'</q>a <a>str</a>) { <q>'b'</q> } <i>/* /* */ x */</i> <a>fn</a>`},
		{"a.go", "a := `x\ny` + 1", "a := <q>`x</q>\n<q>y`</q> + <q>1</q>"},
		{"a.py", "'''a\nb''' # c", "<q>'''a</q>\n<q>b'''</q> <i># c</i>"},
		{"a.f90", `if (x) ! c`, `<a>if</a> (x) <i>! c</i>`},
		{"a.f", "C comment\n      call x", "<i>C comment</i>\n      <a>call</a> x"},
		{"a.adb", `begin -- x`, `<a>begin</a> <i>-- x</i>`},
		{"a.txt", `if "x" <b>`, `if "x" &lt;b>`},
		{"a.c", "caf\xe9 \u00e9\tx\x00\x1b\x7f\r", "café é\tx␀␛␡␍"},
		{"a.c", "a\u202eb\u2066", "a[U+202E]b[U+2066]"},
	} {
		if got := strings.TrimSuffix(highlighted(c.name, strings.Split(c.lines, "\n")...), "\n"); got != c.want {
			t.Errorf("%s %q:\n%s\nwant\n%s", c.name, c.lines, got, c.want)
		}
	}
}

func TestLongLine(t *testing.T) {
	got := highlighted("a.c", strings.Repeat("x", 1e6))
	if len(got) > longestLine+100 || !strings.Contains(got, "983,616 more bytes") {
		t.Errorf("%d bytes, the end is %q", len(got), got[len(got)-60:])
	}
}

var tag = regexp.MustCompile(`</?[aqi]>`)

// FuzzHighlight has text come out as it went in, and elements in order.
func FuzzHighlight(f *testing.F) {
	f.Add("c", "int x; /* a\nb */ \"s\\\n\" '\\'' #include <x>\n")
	f.Add("cc", "R\"(\n)\" u8'x' 1'0")
	f.Add("rs", "/* /* \n */ 'a '\n")
	f.Add("py", "'''\n\\'''\"")
	f.Add("go", "`\n`")
	f.Add("sh", "d&#33")
	f.Fuzz(func(t *testing.T, suffix, text string) {
		lines := strings.Split(text, "\n")
		if slices.ContainsFunc(lines, func(l string) bool { return len(l) > longestLine }) {
			return
		}
		got := highlighted("x."+suffix, lines...)
		for i, l := range strings.Split(strings.TrimSuffix(got, "\n"), "\n") {
			depth := 0
			for _, m := range tag.FindAllString(l, -1) {
				if strings.HasPrefix(m, "</") {
					depth--
				} else {
					depth++
				}
				if depth < 0 || depth > 1 {
					t.Fatalf("line %d: elements overlap: %s", i+1, l)
				}
			}
			plain := ""
			for _, text := range tag.Split(l, -1) { // an escape does not reach over a tag
				if strings.Contains(text, "<") {
					t.Fatalf("line %d: %s", i+1, l)
				}
				plain += html.UnescapeString(text)
			}
			want := html.UnescapeString(string(appendSource(nil, []byte(lines[i]))))
			if depth != 0 || plain != want {
				t.Fatalf("line %d: %q, want %q", i+1, plain, want)
			}
		}
	})
}
