package profile

import (
	"testing"

	"footfall/compile/instrument"
)

// TestNamesInSeveralImages has a function of one name in a program and in its
// library, as inline functions of C++ are: calls are of the one that they entered.
func TestNamesInSeveralImages(t *testing.T) {
	type counts struct{ library, program uint64 }
	for _, test := range []struct {
		name    string
		entries counts // of the function
		calls   counts // of it, by the library and by the program
	}{
		{"the program's", counts{0, 7}, counts{5, 2}},
		{"the library's", counts{7, 0}, counts{5, 2}},
		{"each its own", counts{5, 2}, counts{5, 2}},
	} {
		image := func(path string, bias, entries, calls uint64) *instrument.CountedImage {
			im := &instrument.CountedImage{Path: path, PID: 1, Bias: bias}
			callee := &instrument.CountedFunction{Image: im, Name: "_ZN1n4bothEv", Unit: "both.h", Code: []instrument.CodeRange{{Start: bias + 0x10, End: bias + 0x20}}, Calls: entries}
			caller := &instrument.CountedFunction{Image: im, Name: "caller", Unit: path + ".cc", Code: []instrument.CodeRange{{Start: bias + 0x20, End: bias + 0x40}}, Calls: 1,
				Sites: []instrument.CallSite{{Address: bias + 0x30, Callee: callee.Name, Count: calls}}}
			im.Functions = []*instrument.CountedFunction{callee, caller}
			return im
		}
		// Libraries begin to count before their program does.
		p, err := FromCounts(&instrument.CountsFile{Images: []*instrument.CountedImage{
			image("/nosuch/lib", 0x9000, test.entries.library, test.calls.library), image("/nosuch/prog", 0x1000, test.entries.program, test.calls.program)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, note := range p.Notes {
			t.Logf("%s: note: %s", test.name, note)
		}
		if got := p.Mapping[0].File; got != "/nosuch/prog" {
			t.Errorf("the first mapping is %s, not the program", got)
		}
		got := map[string]int64{}
		for _, n := range NewGraph(p).Nodes {
			if n.Func.Name == "n::both" {
				got[n.Image] += n.Calls
			}
		}
		if want := test.entries; got["lib"] != int64(want.library) || got["prog"] != int64(want.program) {
			t.Errorf("%s: calls of the function in each image are %v, expected %+v", test.name, got, want)
		}
	}
}
