//go:build linux

package command

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"footfall/hook/uprobe"
	"footfall/process"
	"footfall/process/needs"
	"footfall/trace"
)

var update = flag.Bool("update", false, "rewrite expected output in testdata/script and the pages in docs/commands")

func asFootfall() { os.Exit(Main(os.Args)) }

// TestMain puts footfall into the PATH of scripts, by its own name and by
// names that make it the gcov of a compiler (the real ones stay reachable).
func TestMain(m *testing.M) {
	if name := filepath.Base(os.Args[0]); name == "as" || name == "ld" || strings.HasPrefix(name, "ld.") {
		asFootfall() // called by a compiler that footfall cc runs; no script may find it
	}
	testscript.Main(m, map[string]func(){
		"footfall":             asFootfall,
		"footfall-gcov":        asFootfall,
		"footfall-gcov-11":     asFootfall,
		"footfall-gcov-12":     asFootfall,
		"footfall-llvm-cov-19": asFootfall,
		"footfall-gcc-12":      asFootfall,
		"browse":               browse,
		"stored":               stored,
		"served":               served,
	})
}

// TestScript runs testdata/script/*.txtar, each in an empty directory of its
// own, as a user would in a shell. "status N COMMAND" expects exit status N.
func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:           filepath.Join("..", "testdata", "script"),
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("LC_ALL", "C")
			env.Setenv("HOME", filepath.Join(env.WorkDir, ".home")) // for what is kept of compilers
			if cache, err := os.UserCacheDir(); err == nil && os.Getenv("GOCACHE") == "" {
				env.Setenv("GOCACHE", filepath.Join(cache, "go-build")) // of programs in Go
			} else {
				env.Setenv("GOCACHE", os.Getenv("GOCACHE"))
			}
			testdata, err := filepath.Abs("../testdata")
			env.Setenv("TESTDATA", testdata)
			endStuck(env)
			return err
		},
		Cmds:      map[string]func(*testscript.TestScript, bool, []string){"status": scriptStatus},
		Condition: requiredCondition,
	})
}

// features are the conditions of scripts that FOOTFALL_REQUIRE can name.
var features = map[string]string{"fuse": needs.FUSE, "ptrace": needs.Ptrace, "uprobes": needs.Uprobes, "sampling": needs.Perf, "root": needs.Root}

// requiredCondition is scriptCondition, and fails where a feature is missing that is
// required.
func requiredCondition(name string) (bool, error) {
	ok, err := scriptCondition(name)
	if feature := features[name]; err == nil && !ok && feature != "" {
		if needs.Required(feature) {
			return false, fmt.Errorf("FOOTFALL_REQUIRE has %s, and it is not there", feature)
		}
		needs.Note("a script", feature, "it is left out")
	}
	return ok, err
}

// scriptCondition knows "fuse": this system lets us mount, "sampling": it lets
// us sample programs, "ptrace": stop them, and "uprobes": use the kernel's.
func scriptCondition(name string) (bool, error) {
	switch name {
	case "fuse":
		f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
		if err != nil {
			return false, nil
		}
		_, err = exec.LookPath("fusermount3")
		return err == nil, f.Close()
	case "sampling":
		s, err := process.NewSampler(os.Getpid(), process.SampleOptions{Frequency: 99})
		if err != nil {
			return false, nil
		}
		s.Close()
		return true, nil
	case "root":
		return os.Geteuid() == 0, nil
	case "uprobes":
		s, err := uprobe.Open(uprobe.Options{Mode: trace.Counts})
		if refused := (*uprobe.PermissionError)(nil); errors.As(err, &refused) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		return true, s.Close()
	case "ptrace":
		return mayTrace(), nil
	}
	return false, fmt.Errorf("unknown condition %q", name)
}

// mayTrace tells whether the system lets us stop another process: containers
// may not.
var mayTrace = sync.OnceValue(func() bool {
	cmd := exec.Command("sleep", "60")
	if cmd.Start() != nil {
		return false
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	p, err := process.Open(cmd.Process.Pid)
	if err != nil {
		return false
	}
	defer p.Close()
	return p.WhileStopped(func() error { return nil }) == nil
})

func scriptStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N COMMAND [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// TestCommandsDocumented fails where docs/commands is not what the commands
// say of themselves.
func TestCommandsDocumented(t *testing.T) {
	const dir = "../docs/commands"
	fresh := t.TempDir()
	root, _ := newRootCommand(commands())
	for _, cmd := range append(root.Commands(), root) {
		for line := range strings.Lines(cmd.Long) {
			if utf8.RuneCountInString(line) > 93 {
				t.Errorf("%s: the help has a line that is too long: %s", cmd.CommandPath(), line)
			}
		}
	}
	if err := writePages(root, fresh, "_", ".md", markdownPage); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(dir, os.DirFS(fresh)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(readDir(t, dir), readDir(t, fresh)); diff != "" {
		t.Errorf("%s is out of date (-committed +generated); run: go test ./command -update\n%s", dir, diff)
	}
}

func readDir(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(data)
	}
	return files
}

func TestEveryCommandHasHelpWithExamples(t *testing.T) {
	root, _ := newRootCommand(commands())
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		if cmd.Short == "" || cmd.Long == "" || cmd.Example == "" {
			t.Errorf("%q: short text, long text and examples must all be there", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(root)
}

func TestCommandsHaveTheirNames(t *testing.T) {
	root, _ := newRootCommand(called([]string{"footfall", "trace"}))
	if list := root.Commands(); len(list) != 1 || list[0].Name() != "trace" {
		t.Fatalf("%d commands are made for one", len(list))
	}
	root.InitDefaultHelpCmd()
	addOthers(root)
	for i, e := range commands() {
		if list := root.Commands(); i >= len(list) || list[i].Name() != e.name || list[i].Parent() != root {
			t.Errorf("command %d is not %s", i, e.name)
		}
	}
}
