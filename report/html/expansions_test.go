package html

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"footfall/coverage"
	"footfall/input"
)

// TestExpansions looks for macros on the page of the source that uses them, with their counts there.
func TestExpansions(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	source := write("a.c", "int f(int x) { return LARGEST(x); }\nint g(void) { return 1; }\n")
	macros := write("m.h", "#define LARGEST(a) \\\n\tMAX(a, \\\n\t9)\n#define MAX(a, b) a > b ? a : b\n")
	hits := func(of ...int32) (h coverage.Hits) {
		last := int32(0)
		for i := 0; i < len(of); i += 2 {
			h = h.Add(&last, of[i], int64(of[i+1]))
		}
		return h
	}
	f := &coverage.File{
		Name:  source,
		Lines: []coverage.Line{{Number: 1, Count: 2}, {Number: 2}},
		Functions: []*coverage.Function{
			{StartLine: 1, EndLine: 1, Name: "f", Count: 2, Instances: []coverage.Instance{{Name: "f", Count: 2}}},
			{StartLine: 2, EndLine: 2, Name: "g", Unused: true, Instances: []coverage.Instance{{Name: "g"}}},
		},
		Expansions: []coverage.Expansion{{Line: 1, Column: 23, File: macros, Lines: hits(2, 2, 3, 0), Within: []coverage.Expansion{
			{Line: 2, Column: 2, File: macros, Lines: hits(4, 7, 5, 1)}, // line 5 is behind the end
		}}},
	}
	pages, _ := pagesOf(t, Contents{Set: coverage.NewSet(f), Shown: filepath.Base, ReadSource: input.ReadSource})
	page := pages["files/a.c.html"]
	for _, want := range []string{
		`<details class="f v"><summary>LARGEST <u>1 never</u></summary><table><tr><th>ran<th>line<th>LARGEST <small>m.h</small><tr><td>2<td>2<td>	MAX(a, \` +
			`<details class="f v"><summary>MAX</summary><table><tr><th>ran<th>line<th>MAX <small>m.h</small><tr><td>7<td>4<td><a>#define</a> MAX(a, b) a > b ? a : b</table></details>` +
			`<tr><td><u>0</u><td>3<td>	<q>9</q>)</table></details>`,
		"<small>unused: the program has no code of it</small>",
		"<u>unused</u>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("not there: %s\n%s", want, page)
		}
	}
}
