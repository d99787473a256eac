package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"footfall/coverage"
)

func TestSignatures(t *testing.T) {
	var functions []*coverage.Function
	for i, name := range []string{"main", "main", "main", "_Z3maxIiET_S0_S0_", "_ZNK5Shape4areaEd", "_ZN5ShapeD2Ev", "_Z"} {
		functions = append(functions, &coverage.Function{Name: name, StartLine: int32(min(i, 1))})
	}
	want := []signature{
		{"main", ""}, {"main", " line 1"}, {"main", " line 1 2"},
		{"max<int>", "(int, int)"}, {"Shape::area", "(double) const"}, {"Shape::~Shape", "()"}, {"_Z", ""},
	}
	if diff := cmp.Diff(want, signatures(functions), cmp.AllowUnexported(signature{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
