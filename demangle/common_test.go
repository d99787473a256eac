package demangle

import "testing"

func TestTitle(t *testing.T) {
	for _, c := range []struct {
		want    string
		symbols []string
	}{
		{"main", []string{"main"}},
		{"Ring<4>::put", []string{"_ZN4RingILi4EE3putEi"}},
		{"Ring<...>::put (2 instances)", []string{"_ZN4RingILi4EE3putEi", "_ZN4RingILi8EE3putEi"}},
		{"twice<...> (2 instances)", []string{"_Z5twiceIdET_S0_", "_Z5twiceIiET_S0_"}},
		{"Base::~Base", []string{"_ZN4BaseD0Ev", "_ZN4BaseD2Ev"}},
		{"A<int>::f<...> (2 instances)", []string{"_ZN1AIiE1fIcEEvv", "_ZN1AIiE1fIiEEvv"}},
		{"operator<< <...> (2 instances)", []string{"_ZlsIiEvT_", "_ZlsIcEvT_"}},
		{"f<...> (2 instances)", []string{"_Z1fILb1EEvv", "_Z1fILin1EEvv"}},
		{"f<...> (3 instances)", []string{"_Z1fI1AIiEEvv", "_Z1fI1AIcEEvv", "_Z1fIPFviEEvv"}},
	} {
		if got := Title(c.symbols); got != c.want {
			t.Errorf("%v: %q, want %q", c.symbols, got, c.want)
		}
	}
	if got, want := shared([]string{"_Z5twiceIdET_S0_", "_Z5twiceIiET_S0_"}, whole), "double twice<double>(double)"; got != want {
		t.Errorf("%q, want %q: more than arguments differs", got, want)
	}
}
