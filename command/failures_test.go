package command

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFailures has scripts/failures tell what failed in what go test prints.
func TestFailures(t *testing.T) {
	lines := func(from, to string) string {
		return "        " + strings.ReplaceAll(from+to, " ", "\n        ") + "\n"
	}
	for _, test := range []struct{ output, want string }{
		{"ok  \tfootfall/a\t0.1s\n?   \tfootfall/b\t[no test files]\n", ""},
		{"what a program says\n--- FAIL: TestA (0.10s)\n    --- FAIL: TestA/sub (0.00s)\n" + lines("1 2 3 4 5 6 ", "7 8 9 10 11 12 13 14 15 16 17 18 19") + "FAIL\nFAIL\tfootfall/a\t0.1s\nok  \tfootfall/b\t0.1s\nFAIL\n",
			"--- FAIL: TestA (0.10s)\n    --- FAIL: TestA/sub (0.00s)\n" + lines("1 2 3 4 5 6", "") + "    ...\n" + lines("8 9 10 11 12 13 14 ", "15 16 17 18 19") + "FAIL\tfootfall/a\t0.1s\n"},
		{"panic: test timed out after 1h0m0s\n\trunning tests:\n\t\tTestB (1h0m0s)\nFAIL\tfootfall/b\t3600s\n",
			"panic: test timed out after 1h0m0s\n\trunning tests:\n\t\tTestB (1h0m0s)\nFAIL\tfootfall/b\t3600s\n"},
		{"# footfall/c\nc/c.go:1:2: undefined: x\nFAIL\tfootfall/c [build failed]\n", "# footfall/c\nc/c.go:1:2: undefined: x\nFAIL\tfootfall/c [build failed]\n"},
	} {
		cmd := exec.Command("awk", "-f", "../scripts/failures")
		cmd.Stdin = strings.NewReader(test.output)
		got, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, got)
		}
		if diff := cmp.Diff(test.want, string(got)); diff != "" {
			t.Error(diff)
		}
	}
}
