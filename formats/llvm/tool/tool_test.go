package tool

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"footfall/formats/llvm/fixtures"
)

// TestRuns gives the tools what the real ones were given, and compares standard output, standard error, files that are
// written, and the exit status.
func TestRuns(t *testing.T) {
	time.Local = time.UTC // dates in index files
	n, differ := 0, 0
	for _, f := range fixtures.All(t) {
		unpack(t, f)
		for _, run := range f.Runs {
			if strings.HasPrefix(run.Name, "pd-overlap") || run.Name == "show-html" {
				continue
			}
			if strings.HasPrefix(run.Name, "show-demangled") && !hasDemangler(run.Cmd) {
				continue
			}
			n++
			key := f.Name() + " " + run.Name
			what := differences(t, f, run)
			if what == "" && others[key] == "" {
				continue
			}
			if differ++; what == "" || others[key] == "" {
				t.Errorf("%s: %s: differs in %q; known: %q", key, strings.Join(run.Cmd, " "), what, others[key])
			}
		}
	}
	if n < 2900 || differ*100 > n {
		t.Errorf("%d runs, of which %d differ", n, differ)
	}
}

func unpack(t *testing.T, f *fixtures.Fixture) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, b := range f.Files {
		err := os.MkdirAll(filepath.Dir(name), 0o777)
		if err == nil {
			err = os.WriteFile(name, b, 0o666)
		}
		if err == nil {
			err = os.Chtimes(name, f.Modified[name], f.Modified[name])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// differences runs one, and names what is not as it should be.
func differences(t *testing.T, f *fixtures.Fixture, run *fixtures.Run) string {
	t.Helper()
	if err := os.MkdirAll("out", 0o777); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll("out")
	var stdout, stderr bytes.Buffer
	v := &Invocation{
		Name: run.Cmd[0], Args: arguments(run.Cmd[1:]), Version: f.Version, Stdout: &stdout, Stderr: &stderr, Dir: f.Dir(),
		Source: func(name string) ([]byte, error) {
			return os.ReadFile(strings.TrimPrefix(name, f.Dir()+"/"))
		},
	}
	do := Cov
	if run.Cmd[0] == "llvm-profdata" {
		do = Profdata
	}
	rc := do(v)
	var what []string
	note := func(name string, same bool, got, want string) {
		if !same {
			what = append(what, name)
			if dir := os.Getenv("FOOTFALL_DIFFERENCES"); dir != "" {
				base := filepath.Join(dir, strings.ReplaceAll(f.Name()+"_"+run.Name+"_"+name, "/", "_"))
				_ = os.WriteFile(base+".got", []byte(got), 0o666)
				_ = os.WriteFile(base+".want", []byte(want), 0o666)
			}
		}
	}
	note("status", rc == run.Rc, "", "")
	known := regexp.MustCompile("Created: 2026-11-22 [0-9:]{5}") // the archive has other times
	for name, text := range run.Files {
		run.Files[name] = known.ReplaceAllString(text, "Created: 2026-11-22 00:00")
	}
	note("stdout", stdout.String() == run.Stdout, stdout.String(), run.Stdout)
	note("stderr", stderr.String() == run.Stderr, stderr.String(), run.Stderr)
	written := 0
	_ = filepath.WalkDir("out", func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			written++
			b, _ := os.ReadFile(name)
			note(name, string(b) == run.Files[name], string(b), run.Files[name])
		}
		return nil
	})
	note("number of files", written == len(run.Files), "", "")
	return strings.Join(what, ", ")
}

// hasDemangler tells whether the program that -Xdemangler names is there.
func hasDemangler(cmd []string) bool {
	for _, arg := range cmd {
		if name, ok := strings.CutPrefix(arg, "-Xdemangler="); ok && !strings.HasPrefix(name, "-") {
			_, err := exec.LookPath(name)
			return err == nil
		}
	}
	return true
}

// arguments are those that a shell makes of the words of a command: without quotes, names in place of patterns.
func arguments(words []string) []string {
	var args []string
	for _, arg := range words {
		plain := strings.ReplaceAll(arg, "'", "")
		if found, _ := filepath.Glob(arg); plain == arg && len(found) > 0 && strings.ContainsAny(arg, "*?") {
			args = append(args, found...)
		} else {
			args = append(args, plain)
		}
	}
	return args
}

// others are runs of which footfall does something else.
var others = map[string]string{
	"clang-11/macros-archive export":           refused,
	"clang-11/macros-archive export-lcov":      refused,
	"clang-11/macros-archive export-summary":   refused,
	"clang-11/macros-archive report":           refused,
	"clang-11/macros-archive report-functions": refused,
	"clang-11/macros-archive show":             refused,
	"s390x-14/runs pd-merge":                   swapped,
	"s390x-14/runs pd-merge-again":             swapped,
	"s390x-14/runs pd-merge-binary-text":       swapped,
	"s390x-14/runs pd-merge-text":              swapped,
	"s390x-14/runs pd-merge-weighted":          swapped,
	"s390x-14/runs pd-merge-sparse":            swapped,
}

const refused = "LLVM 11 calls the archive malformed"

const swapped = "LLVM 14 swaps bytes of values of big-endian programs"
