package demangle

import (
	"bufio"
	"os"
	"strings"
	"testing"
)

// TestStandard compares with what was written in the source, testdata/standard.cc, of which g++ 12 has made the symbols:
// g++ -c standard.cc; nm standard.o.
func TestStandard(t *testing.T) {
	f, err := os.Open("testdata/standard.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for lines := bufio.NewScanner(f); lines.Scan(); n++ {
		symbol, want, _ := strings.Cut(lines.Text(), "\t")
		if got := Standard(Full(symbol)); got != want {
			t.Errorf("%s: %s, want %s", symbol, got, want)
		}
	}
	if n < 30 {
		t.Errorf("%d names", n)
	}
	for name, want := range map[string]string{
		"std::vector<int, Mine<int> >::push_back":                      "std::vector<int, Mine<int>>::push_back",
		"std::map<...>::find":                                          "std::map<...>::find",
		"my::std::vector<int, std::allocator<int> >::at":               "my::std::vector<int, std::allocator<int>>::at",
		"std::operator<< <std::char_traits<char> >":                    "std::operator<< <std::char_traits<char>>",
		"std::vector<int, std::allocator<int> >::operator[]":           "std::vector<int>::operator[]",
		"A<std::vector<int, std::allocator<int> > >::operator-><char>": "A<std::vector<int>>::operator-><char>",
		"std::vector<int, std::allocator<int":                          "std::vector<int, std::allocator<int", // cut
		"a<(3>2), std::vector<int, std::allocator<int> > >":            "a<(3>2), std::vector<int>>",
		"core::str::pattern":                                           "core::str::pattern",
		"sort":                                                         "sort",
	} {
		if got := Standard(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// FuzzStandard: no name becomes longer.
func FuzzStandard(f *testing.F) {
	f.Add("std::map<std::string, int, std::less<std::string>, std::allocator<std::pair<std::string const, int> > >::operator[]")
	f.Add("std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::operator-><a(b<c>)>")
	f.Fuzz(func(t *testing.T, name string) {
		short := Standard(name)
		if len(short) > len(name)+2*strings.Count(name, ",") {
			t.Errorf("%q is longer than %q", short, name)
		}
	})
}
