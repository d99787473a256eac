package demangle

import (
	"slices"
	"strings"
	"testing"
)

func TestShown(t *testing.T) {
	const symbol = "_ZNK1AIiE1fIcEEvT_.part.0"
	long := "_ZN1AIN" + strings.Repeat("20abcdefghijklmnopqrst", 4) + "EE1fEi"
	for _, c := range [][2]string{
		{Full(symbol), "void A<int>::f<char>(char) const [clone .part.0]"},
		{Short(symbol), "A<int>::f<char>"},
		{Bare(symbol), "A::f"},
		{InColumn(symbol, Short(symbol), false), "A<int>::f<char>"},
		{InColumn(symbol, Short(symbol), true), "void A<int>::f<char>(char) const [clone .part.0]"},
		{InColumn(long, Short(long), false), "A::f"},
		{InColumn(long, Short(long), true), "A::f(int)"},
		{InColumn(long, "known", false), "known"},
	} {
		if c[0] != c[1] {
			t.Errorf("%q, want %q", c[0], c[1])
		}
	}
	if got, want := Spellings(symbol), []string{symbol, "void A<int>::f<char>(char) const", "A<int>::f<char>", "A::f"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	const pushed = "_ZN5StackINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEE4pushES5_"
	if got, want := Title([]string{pushed}), "Stack<std::string>::push"; got != want || !slices.Contains(Spellings(pushed), got) || Short(pushed) == got {
		t.Errorf("%q of %q, want %q", got, Spellings(pushed), want)
	}
	if got, want := Spellings("sort.part.0"), []string{"sort.part.0", "sort"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
