package llvm

import (
	"bytes"
	"strings"
	"testing"
)

// TestBranchesOfExpansions: a branch and one in a macro that begins at its place are in the order of their positions,
// which the two kinds count each by itself.
func TestBranchesOfExpansions(t *testing.T) {
	at := func(line, column uint32, count uint64) Region {
		return Region{Line: line, Column: column, EndLine: line, EndColumn: column + 5, Count: count}
	}
	branch := func(file int, line, column uint32, count uint64) Region {
		b := at(line, column, count)
		b.File, b.Kind, b.FalseCount = file, Branch, 7
		return b
	}
	whole, macro := Region{Line: 1, Column: 1, EndLine: 9, EndColumn: 2, Count: 1}, at(5, 10, 1)
	macro.Kind, macro.Expanded = Expansion, 1
	c := &Coverage{byFile: make(map[string][]*Function), rules: Rules{Version: 22}}
	f := &Function{Files: []string{"a.c", "m.h"}, Regions: []Region{whole, macro, {File: 1, Line: 1, Column: 1, EndLine: 1, EndColumn: 9, Count: 1}},
		Branches: []Region{branch(0, 2, 3, 1), branch(0, 5, 10, 2), branch(1, 1, 4, 3)}}
	f.Main = f.mainFile()
	c.add(f)
	for unify, want := range map[bool]string{
		false: "BRDA:2,0,0,1 BRDA:2,0,1,7 BRDA:5,0,0,3 BRDA:5,0,1,7 BRDA:5,1,2,2 BRDA:5,1,3,7",
		true:  "BRDA:2,0,0,1 BRDA:2,0,1,7 BRDA:5,0,0,5 BRDA:5,0,1,14",
	} {
		var b bytes.Buffer
		if err := c.WriteLcov(&b, LcovOptions{Files: []string{"a.c"}, UnifyInstances: unify}); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, line := range strings.Fields(b.String()) {
			if strings.HasPrefix(line, "BRDA:") {
				got = append(got, line)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("instances unified %v: %s, want %s", unify, got, want)
		}
	}
}
