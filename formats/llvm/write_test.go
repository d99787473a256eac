package llvm

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"footfall/formats/llvm/fixtures"
)

// mergeDiffers are runs whose result is not that of the real tool, to the byte.
var mergeDiffers = map[string]string{
	"s390x-14/runs pd-merge":             swapped,
	"s390x-14/runs pd-merge-again":       swapped,
	"s390x-14/runs pd-merge-binary-text": swapped,
	"s390x-14/runs pd-merge-sparse":      swapped,
}

const swapped = "LLVM 14 reads the hashes of functions that calls called (values) of a big-endian program with their bytes in the wrong order"

// TestIndex compares with the files that llvm-profdata merge wrote, to the byte.
func TestIndex(t *testing.T) {
	n, differ := 0, 0
	for _, f := range fixtures.All(t) {
		for _, run := range f.Runs {
			want, ok := run.Files["out/m.profdata"]
			if !ok || run.Rc != 0 || slices.ContainsFunc(run.Cmd, func(arg string) bool { return strings.Contains(arg, "weighted") }) {
				continue
			}
			n++
			x := new(Indexer)
			sparse := false
			for i := 2; i < len(run.Cmd); i++ {
				arg := run.Cmd[i]
				switch {
				case arg == "-sparse":
					sparse = true
				case arg == "-o":
					i++
				case !strings.HasPrefix(arg, "-"):
					for _, name := range slices.Sorted(maps.Keys(f.Files)) {
						if ok, _ := path.Match(arg, name); !ok {
							continue
						}
						list, err := Read(f.Files[name])
						if err != nil {
							t.Fatal(f.Name(), name, err)
						}
						for _, p := range list {
							if _, err := x.Add(p.Clone()); err != nil {
								t.Error(f.Name(), name, err)
							}
						}
					}
				}
			}
			key := f.Name() + " " + run.Name
			if got := string(x.Index(f.Version, sparse)); (got == want) != (mergeDiffers[key] == "") {
				differ++
				t.Errorf("%s: %s: %d bytes, want %d; known: %q", f.Name(), strings.Join(run.Cmd, " "), len(got), len(want), mergeDiffers[key])
			}
		}
	}
	if n < 340 || differ > 0 {
		t.Errorf("%d runs, %d differ", n, differ)
	}
}
