package collect

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"footfall/formats/gcov"
	"footfall/report"
)

func TestSay(t *testing.T) {
	sources, err := report.NewSources(report.SourceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	r := Result{
		Objects: &report.Objects{Units: make([]gcov.Object, 3), Data: 2, Outside: []string{"/build/a.gcno"}},
		Stats:   gcov.Stats{Objects: 3, NeverRun: 1, Inconsistent: 4},
		options: Options{Sources: sources},
	}
	r.Say(&b)
	want := `footfall: 1 of 3 units never ran; it counts as not covered
footfall: impossible counts in 4 functions: of threads (-fprofile-update=atomic makes them exact), or of ways out that compilers do not count, as by longjmp: their counts are estimates
footfall: the notes of 1 of 3 units were found elsewhere, as /build/a.gcno; units there that never ran are counted with --object-directory
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
