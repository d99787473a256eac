package collect

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"footfall/collect/find"
	"footfall/formats/gcov"
	"footfall/process/needs"
	"footfall/report/source"
)

func TestSay(t *testing.T) {
	sources, err := source.NewSources(source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	r := Result{
		Objects: &find.Objects{Units: make([]gcov.Object, 3), Data: 2, Outside: []string{"/build/a.gcno"}},
		Stats:   gcov.Stats{Objects: 3, NeverRun: 1, Inconsistent: 4},
		options: Options{Sources: sources},
	}
	r.Say(&b, true)
	want := `footfall: 1 of 3 units never ran; it counts as not covered
footfall: impossible counts in 4 functions: of threads (-fprofile-update=atomic makes them exact), or of ways out that compilers do not count, as by longjmp: their counts are estimates
footfall: the notes of 1 of 3 units were found elsewhere, as /build/a.gcno; units there that never ran are counted with --object-directory
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestTestOfLargeSet names what a test ran, of data of so many lines that the set is packed.
func TestTestOfLargeSet(t *testing.T) {
	if _, err := exec.LookPath("gcc-12"); err != nil {
		needs.Skip(t, needs.Tools, err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"big.c":   "volatile int x;\nvoid big(void)\n{\n" + strings.Repeat("x = 1;\n", 140_000) + "}\n",
		"small.c": "void big(void);\nint main(void) { big(); return 0; }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"gcc-12", "--coverage", "-o", "p", "big.c", "small.c"}, {"./p"}} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	sources, err := source.NewSources(source.Options{Root: dir})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Files([]string{dir}, Options{Sources: sources, Test: "nightly"})
	if err != nil {
		t.Fatal(err)
	}
	if n := r.Set.Totals().Lines.Total; r.Set.Len() != 2 || n < 140_000 {
		t.Fatalf("%d files, %d lines", r.Set.Len(), n)
	}
	for _, f := range r.Set.All() {
		if len(f.Tests) != 1 || f.Tests[0].Name != "nightly" {
			t.Errorf("%s: %d tests", f.Name, len(f.Tests))
		}
	}
}
