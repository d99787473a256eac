package coverage

import "testing"

func TestScopeNames(t *testing.T) {
	for _, test := range []struct{ mangled, want string }{
		{"_Z7get_onei", "get_one"},
		{"_ZN5CacheIiE3getEv", "Cache.get"},
		{"_ZN5CacheIA5_cE3getEv", "Cache.get"},
		{"_ZNK5CacheIiLi25ELPv0EE3getEv", "Cache.get"},
		{"_ZN5CacheIN1a5ColorELS1_2EEC2Ei", "Cache.C"},
		{"_ZN5CacheIN1a5ColorELS1_2EED0Ev", "Cache.D"},
		{"_ZN5CacheIXadL_Z3runvEEE3getEv", "Cache.get"}, // of clang
		{"_ZSt4swapIiEvRT_S1_", "St.swap"},
		{"_ZNSt6vectorIjSaIjEE12_M_check_lenEmPKc", "St.vector._M_check_len"},
		{"_ZN3fmt2v96detail11is_zero_intclIfLi0EEEbT_", "fmt.v9.detail.is_zero_int.cl"},
		{"_ZZ4mainENKUlvE0_clEv", "main.0_.cl"},
		{"_ZZN5CacheIiE3getEvENKUlT_E_clIiEEDaS1_", "Cache.get._.cl"},
		{"_ZNK1ScvT_IiEEv", "S.cv"},
		{"_ZN7testing6ActionIFmmEE4InitIZN11mock_bufferIcEC4EPcmEUlmE_EEvOT_", "testing.Action.Init"},
		{"_ZN1S6formatB5cxx11Eb", "S.format"},
		{"_ZTv0_n24_N1S3runEv", ""},
		{"_Z", ""},
		{"_ZN", ""},
		{"_ZN9", ""},
		{"_Z99999999999999999999x", ""},
		{"_ZN1SIDp", ""},
	} {
		if got := scopeNames(test.mangled); got != test.want {
			t.Errorf("%s: %q, want %q", test.mangled, got, test.want)
		}
	}
}

func FuzzScopeNames(f *testing.F) {
	f.Add("_ZZN5CacheIN1a5ColorELS1_2EE3getIXadL_Z3runvEEEvvENKUlT_E_clIiEEDaS1_")
	f.Fuzz(func(t *testing.T, name string) { scopeNames(name) })
}

// TestMacroFunctions merges functions that one macro makes at one place: those of other names
// are others, instances of a template are not.
func TestMacroFunctions(t *testing.T) {
	at := func(column int32, name string, count int64) *Function {
		return &Function{
			StartLine: 3, StartColumn: column, EndLine: 3, EndColumn: 1, Name: name, Count: count,
			Instances: []Instance{{Name: name, Count: count}},
		}
	}
	set := func(functions ...*Function) *Set {
		var s Sum
		for _, f := range functions {
			s.Add(&File{Name: "m.cc", Functions: []*Function{f}})
		}
		return s.Set()
	}
	for _, test := range []struct {
		column int32
		names  [3]string
		want   int
	}{
		{1, [3]string{"_Z7get_onei", "_Z7set_onei", "_Z7get_onei"}, 2},
		{1, [3]string{"_Z3getIiEvT_", "_Z3setIiEvT_", "_Z3getIlEvT_"}, 2},
		{5, [3]string{"_Z3getIiEvT_", "_Z3getIcEvT_", "_Z3getIlEvT_"}, 1},
	} {
		merged := set(at(test.column, test.names[0], 1), at(test.column, test.names[1], 0), at(test.column, test.names[2], 1))
		got := merged.At(0).Functions
		if len(got) != test.want || got[0].Count != 2 {
			t.Errorf("%q at column %d: %d functions, want %d", test.names, test.column, len(got), test.want)
		}
	}
}

// TestRustInstances merges instances of a generic function of Rust, each as another program has it, whose names of Rust's
// own scheme (v0) have nothing in common that could be cut off.
func TestRustInstances(t *testing.T) {
	var sum Sum
	for _, name := range []string{"_RINvCs1_4main3maxlEB2_", "_RINvCs1_4main3maxjEB2_"} {
		sum.Add(&File{Name: "main.rs", Functions: []*Function{{
			Name: name, StartLine: 3, StartColumn: 1, EndLine: 5, EndColumn: 2, Count: 2, Instances: []Instance{{Name: name, Count: 2}},
		}}})
	}
	if f := sum.Set().At(0).Functions; len(f) != 1 || f[0].Count != 4 || len(f[0].Instances) != 2 {
		t.Errorf("%d functions, expected one with two instances", len(f))
	}
}
