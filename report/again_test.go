package report

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"footfall/coverage"
	"footfall/output"
)

// TestPrintedAgain prints sets that keep files of the one before, with and without what was
// printed then.
func TestPrintedAgain(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 8))
	set, again := new(coverage.Set), map[string]*Again{"lcov": {}, "lcov1": {}, "lcov2": {}}
	for step := range 50 {
		var files []*coverage.File
		gone := make(map[string]bool)
		for range rng.IntN(4) {
			n := rng.IntN(9)
			name := fmt.Sprintf("/src/%d\x01.c", n)
			if rng.IntN(5) == 0 {
				gone[name] = true
				continue
			}
			function := fmt.Sprintf("f\x02%d", rng.IntN(3))
			files = append(files, &coverage.File{
				Name:      name,
				Functions: []*coverage.Function{{StartLine: 1, Name: function, Count: int64(step), Instances: []coverage.Instance{{Name: function, Count: int64(step)}}}},
				Lines:     []coverage.Line{{Number: 1, Count: int64(step), Branches: []coverage.Branch{{Count: int64(rng.IntN(3))}, {}}}},
			})
			delete(gone, name)
			set = set.With(map[string]bool{name: true})
			set = set.With(gone, files[len(files)-1])
		}
		set = set.With(gone)
		for _, format := range []string{"lcov", "lcov1", "lcov2"} {
			request := output.Request{Format: format, File: "-"}
			print := func(a *Again) (string, []string) {
				r := &Report{Set: set, Shown: func(name string) string { return name }, Again: a}
				var b bytes.Buffer
				var told []string
				for _, p := range r.escapedNames([]output.Request{request}) {
					told = append(told, fmt.Sprint(p))
				}
				if _, err := r.Write(request, &b); err != nil {
					t.Fatal(err)
				}
				return b.String(), told
			}
			wantText, wantTold := print(nil)
			text, told := print(again[format])
			if diff := cmp.Diff(wantText, text); diff != "" {
				t.Fatalf("step %d: %s (-anew +again)\n%s", step, format, diff)
			}
			if diff := cmp.Diff(wantTold, told); diff != "" {
				t.Fatalf("step %d: %s (-anew +again)\n%s", step, format, diff)
			}
		}
	}
}
