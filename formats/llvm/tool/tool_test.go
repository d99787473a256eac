package tool

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"footfall/formats/llvm/fixtures"
)

// others are runs of which footfall does something else.
var others = map[string]string{
	"clang-11/macros-archive export-lcov": "llvm-cov 11 calls the archive malformed",
	"s390x-14/runs pd-merge":              swapped,
	"s390x-14/runs pd-merge-again":        swapped,
	"s390x-14/runs pd-merge-binary-text":  swapped,
	"s390x-14/runs pd-merge-sparse":       swapped,
}

const swapped = "LLVM 14 swaps bytes of values of big-endian programs"

// TestRuns gives merge and export what the real tools were given, and compares standard output, the file that is
// written, and whether it failed.
func TestRuns(t *testing.T) {
	n := 0
	for _, f := range fixtures.All(t) {
		dir := t.TempDir()
		t.Chdir(dir)
		for name, b := range f.Files {
			if err := os.WriteFile(name, b, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		for _, run := range f.Runs {
			want, merges := run.Out["out/m.profdata"]
			if !merges && !strings.HasPrefix(run.Name, "export-lcov") {
				continue
			}
			n++
			if err := os.MkdirAll("out", 0o777); err != nil {
				t.Fatal(err)
			}
			var args []string
			for _, arg := range run.Cmd[1:] {
				if found, _ := filepath.Glob(arg); len(found) > 0 && strings.ContainsAny(arg, "*?") {
					args = append(args, found...)
				} else {
					args = append(args, arg)
				}
			}
			var stdout, stderr bytes.Buffer
			v := &Invocation{Args: args, Version: f.Version, Stdout: &stdout, Stderr: &stderr}
			rc := 0
			if merges {
				rc = Profdata(v)
			} else {
				rc = Cov(v)
			}
			got, _ := os.ReadFile("out/m.profdata")
			same := rc == run.Rc && stdout.String() == run.Stdout && stderr.String() == run.Stderr && (!merges || string(got) == want)
			if key := f.Name() + " " + run.Name; same != (others[key] == "") {
				t.Errorf("%s: %v: status %d, want %d; %s; known: %q", key, args, rc, run.Rc, stderr.String(), others[key])
			}
			os.RemoveAll("out")
		}
	}
	if n < 500 {
		t.Errorf("%d runs", n)
	}
}
