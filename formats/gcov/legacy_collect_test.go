package gcov

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"footfall/coverage"
	"footfall/formats/gcov/fixtures"
)

// TestLegacyCollect compares which lines ran with the listings of the old gcov.
func TestLegacyCollect(t *testing.T) {
	lines := 0
	for _, fx := range fixtures.All(t, "legacy") {
		for name := range fx.Inputs {
			stem, ok := strings.CutSuffix(name, LegacySuffix)
			if !ok || len(fx.Inputs[name]) == 0 {
				continue
			}
			set, problems, _ := Collect([]Object{{
				Notes: filepath.Join(fx.Dir, name), Data: []string{filepath.Join(fx.Dir, stem+".da")}, Dir: "/d",
			}}, CollectOptions{})
			for _, p := range problems {
				t.Errorf("%s/%s: %v", fx.Compiler, fx.Program, p)
			}
			listings := listingsOf(fx, stem)
			for source, want := range listings {
				got := linesOf(set, "/d/"+source)
				for n, ran := range want {
					if g, ok := got[n]; !ok || g != ran {
						t.Errorf("%s/%s: %s:%d ran %v (known %v), want %v", fx.Compiler, fx.Program, source, n, g, ok, ran)
					}
					lines++
				}
				if len(got) != len(want) {
					t.Errorf("%s/%s: %s has %d lines, want %d", fx.Compiler, fx.Program, source, len(got), len(want))
				}
			}
		}
	}
	if lines < 300 {
		t.Errorf("only %d lines", lines)
	}
}

// listingsOf tells of each source which lines ran, as gcov without options
// listed it for an object.
func listingsOf(fx *fixtures.Fixture, stem string) map[string]map[int]bool {
	out := make(map[string]map[int]bool)
	for _, set := range fx.Sets {
		if len(set.Cmd) != 2 || strings.TrimSuffix(set.Cmd[1], ".c") != stem {
			continue
		}
		for file, text := range set.Files {
			lines := make(map[int]bool)
			for i, line := range strings.Split(text, "\n") {
				count, n := line[:min(16, len(line))], i+1
				if part := strings.SplitN(line, ":", 3); fx.Compiler != "gcc-2.91.66" && len(part) == 3 {
					count = part[0]
					n, _ = strconv.Atoi(strings.TrimSpace(part[1]))
				}
				switch count = strings.TrimSpace(count); {
				case n == 0:
				case strings.HasPrefix(line, "\t\t"), count == "-":
				case strings.HasPrefix(count, "#"):
					lines[n] = false
				default:
					if _, err := strconv.Atoi(count); err == nil {
						lines[n] = true
					}
				}
			}
			out[strings.TrimSuffix(file, ".gcov")] = lines
		}
	}
	return out
}

func linesOf(set *coverage.Set, path string) map[int]bool {
	lines := make(map[int]bool)
	for _, f := range set.All() {
		if f.Name != path {
			continue
		}
		for _, l := range f.Lines {
			lines[int(l.Number)] = l.Count > 0
		}
	}
	return lines
}
