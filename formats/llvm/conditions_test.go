package llvm

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"footfall/coverage"
	"footfall/formats/llvm/fixtures"
)

// constant are decisions one condition of which is constant: llvm-cov lists it, and does not count it.
var constant = regexp.MustCompile(`/mcdc(-singlebyte)?/main\.c:1[79]:7$`)

// TestConditions compares the conditions of a Set, decision by decision, with those that llvm-cov exports as JSON. Of
// decisions within macros only the conditions are compared: a Set has them where the macro is used.
func TestConditions(t *testing.T) {
	versions, decisions := make(map[int]int), 0
	for _, f := range fixtures.All(t) {
		run := f.Run("export")
		if run == nil || f.Version < 18 {
			continue
		}
		want := exportedConditions(t, f, run.Stdout)
		if len(want) == 0 {
			continue
		}
		set, _ := collected(t, f, parseLcovRun(run.Cmd, f.Version))
		got := conditionsOf(set)
		var restWant, restGot []string
		for at, c := range want {
			if got[at] == nil {
				restWant = append(restWant, c...)
				delete(want, at)
			}
		}
		for at, c := range got {
			if want[at] == nil {
				restGot = append(restGot, c...)
				delete(got, at)
			}
		}
		slices.Sort(restWant)
		slices.Sort(restGot)
		if diff := cmp.Diff(want, got) + cmp.Diff(restWant, restGot); diff != "" {
			t.Errorf("%s (-llvm-cov +Set)\n%s", f.Name(), diff)
		}
		versions[f.Version] += len(want)
		decisions += len(want)
	}
	if decisions < 40 || len(versions) < 3 {
		t.Errorf("%d decisions, by version: %v", decisions, versions)
	}
}

// exportedConditions are the decisions of an export by file and place, each as the numbers of its conditions and of
// those covered. Instances of a function count together.
func exportedConditions(t *testing.T, f *fixtures.Fixture, text string) map[string][]string {
	var export struct {
		Data []struct {
			Functions []struct {
				Filenames []string
				Records   [][]json.RawMessage `json:"mcdc_records"`
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &export); err != nil {
		t.Fatalf("%s: %v", f.Name(), err)
	}
	covered := make(map[string][]bool) // by the whole range
	for _, fn := range export.Data[0].Functions {
		for _, record := range fn.Records {
			at := fmt.Sprintf("%s:%s:%s %s:%s", fn.Filenames[0], record[0], record[1], record[2], record[3])
			var conditions []bool
			for _, field := range record {
				if strings.HasPrefix(string(field), "[") && json.Unmarshal(field, &conditions) == nil {
					break
				}
			}
			if len(covered[at]) < len(conditions) {
				covered[at] = append(covered[at], make([]bool, len(conditions)-len(covered[at]))...)
			}
			for i, c := range conditions {
				covered[at][i] = covered[at][i] || c
			}
		}
	}
	found := make(map[string][]string)
	for at, conditions := range covered {
		n := 0
		for _, c := range conditions {
			if c {
				n++
			}
		}
		place, _, _ := strings.Cut(at, " ")
		of := len(conditions)
		if constant.MatchString(place) {
			of--
		}
		found[place] = append(found[place], fmt.Sprintf("%d of %d", n, of))
	}
	return sorted(found)
}

func sorted(found map[string][]string) map[string][]string {
	for place := range maps.Keys(found) {
		slices.Sort(found[place])
	}
	return found
}

func conditionsOf(set *coverage.Set) map[string][]string {
	found := make(map[string][]string)
	for _, file := range set.All() {
		for _, line := range file.Lines {
			for _, c := range line.Conditions {
				n := 0
				for _, term := range c.Terms {
					if term.True && term.False {
						n++
					}
				}
				place := fmt.Sprintf("%s:%d:%d", file.Name, line.Number, c.Column)
				found[place] = append(found[place], fmt.Sprintf("%d of %d", n, len(c.Terms)))
			}
		}
	}
	return sorted(found)
}
