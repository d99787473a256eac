package listing

import (
	"os"
	"slices"
	"testing"
)

func TestCanonicalName(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("dir/sub", 0o777); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, want string }{
		{"a.c", "a.c"},
		{"./a.c", "a.c"},
		{".//./a.c", "a.c"},
		{"/", ""},
		{"/usr//include/./x.h", "/usr/include/x.h"},
		{"dir/../a.c", "a.c"},
		{"dir/sub/../a.c", "dir/a.c"},
		{"dir/sub/../../a.c", "a.c"},
		{"nodir/../a.c", "nodir/../a.c"},
		{"../a.c", "../a.c"},
		{"../../dir/../a.c", "../../dir/../a.c"},
		{"dir/..", ""},
		{"a/", "a"},
		{"", ""},
	} {
		if got := canonicalName(test.name); got != test.want {
			t.Errorf("canonicalName(%q) = %q, want %q", test.name, got, test.want)
		}
	}
}

func TestNamesOfOutput(t *testing.T) {
	for _, test := range []struct {
		opt           options
		input, source string
		want          string
	}{
		{options{}, "dir/a.c", "/usr/x.h", "x.h.gcov"},
		{options{long: true}, "dir/a.c", "/usr/x.h", "a.c##x.h.gcov"},
		{options{long: true}, "dir/a.c", "dir/a.c", "a.c.gcov"},
		{options{preserve: true}, "dir/a.c", "/usr/../x.h", "#usr#^#x.h.gcov"},
		{options{long: true, preserve: true}, "dir/a.c", "../x.h", "dir#a.c##^#x.h.gcov"},
		{options{hash: true, long: true}, "dir/a.c", "a.c", "a.c##8eb7504957a50f21c60999d5f146e8e0.gcov"},
	} {
		if got := test.opt.listingName(test.input, test.source); got != test.want {
			t.Errorf("listing of %s for %s with %+v: %s, want %s", test.source, test.input, test.opt, got, test.want)
		}
	}
}

// TestIntrosort has the permutations that std::sort of GCC's C++ library makes
// of equal elements.
func TestIntrosort(t *testing.T) {
	count := func(n int) []int {
		s := make([]int, n)
		for i := range s {
			s[i] = i
		}
		return s
	}
	for _, want := range [][]int{
		count(0), count(1), count(16),
		{8, 16, 15, 14, 13, 12, 11, 10, 9, 0, 7, 6, 5, 4, 3, 2, 1},
		{30, 21, 22, 23, 24, 25, 26, 27, 28, 29, 20, 31, 32, 33, 34, 35, 36, 37, 38, 39, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 11, 12, 13, 14, 15, 16, 17, 18, 19},
	} {
		s := count(len(want))
		introsort(s, func(a, b int) bool { return false })
		if !slices.Equal(s, want) {
			t.Errorf("%d equal elements: %v, want %v", len(s), s, want)
		}
	}
	// A thousand elements with few keys; the order of all as one number.
	for keys, want := range map[int]uint32{3: 67731266, 7: 3597739804} {
		s := count(1000)
		introsort(s, func(a, b int) bool { return a*7919%keys < b*7919%keys })
		var got uint32
		for _, i := range s {
			got = got*31 + uint32(i)
		}
		if got != want {
			t.Errorf("1000 elements with %d keys: %d, want %d", keys, got, want)
		}
	}
	s := []int{5, 3, 9, 1, 9, 2, 8}
	heapsort(s, func(a, b int) bool { return a < b })
	if !slices.IsSorted(s) {
		t.Errorf("heapsort: %v", s)
	}
}
