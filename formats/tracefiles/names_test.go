package tracefiles

import "testing"

func TestPlainName(t *testing.T) {
	for name, want := range map[string]string{
		"main":                            "main",
		"_ZL4kindi":                       "kind",
		"kind(int)":                       "kind",
		"void std::destroy_at<int>(int*)": "std::destroy_at<int>",
		"std::destroy_at<int>(int*)":      "std::destroy_at<int>",
		"_ZSt10destroy_atIiEvPT_":         "std::destroy_at<int>",
		"std::vector<int, std::allocator<int> >::size() const":            "std::vector<int, std::allocator<int> >::size",
		"std::vector<int, std::allocator<int> > make<long int>(long int)": "make<long int>",
		"A::operator bool() const":                                        "A::operator bool",
		"bool operator< <int>(A const&)":                                  "operator< <int>",
		"(anonymous namespace)::f(int)":                                   "(anonymous namespace)::f",
		"foo(I)V":                                                         "foo",
		"()":                                                              "()",
		"":                                                                "",
	} {
		if got := PlainName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
