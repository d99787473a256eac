package tool

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"footfall/process/needs"
)

// covdata is what go tool covdata prints.
func covdata(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"tool", "covdata"}, args...)...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil && !strings.Contains(out.String(), "error: ") {
		t.Fatal(out.String())
	}
	return out.String()
}

// build runs the test module, built in three ways, each with two processes, and returns the directory.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, flags := range map[string][]string{
		"set":   {"-covermode=set", "-coverpkg=./..."},
		"count": {"-covermode=count", "-coverpkg=./..."},
		"part":  {"-covermode=count", "-coverpkg=./shapes"},
	} {
		program, data := filepath.Join(dir, "prog-"+name), filepath.Join(dir, name)
		cmd := exec.Command("go", append(append([]string{"build", "-cover", "-o", program}, flags...), ".")...)
		cmd.Dir = "../testdata/module"
		if out, err := cmd.CombinedOutput(); err != nil {
			needs.Skip(t, needs.Tools, string(out))
		}
		if err := os.Mkdir(data, 0o777); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{nil, {"a", "b", "c"}} {
			cmd := exec.Command(program, args...)
			cmd.Env = append(os.Environ(), "GOCOVERDIR="+data)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatal(err, string(out))
			}
		}
	}
	return dir
}

func run(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	Run(&Invocation{Args: args, Stdout: &out, Stderr: &out})
	return out.String()
}

// TestCovdata compares with go tool covdata.
func TestCovdata(t *testing.T) {
	dir := build(t)
	t.Chdir(dir)
	t.Run("Print", func(t *testing.T) { comparePrinted(t, dir) })
	t.Run("Merge", func(t *testing.T) { compareMerged(t, dir) })
}

func comparePrinted(t *testing.T, dir string) {
	for _, args := range []string{
		"percent -i=set,count", "func -i=set", "func -i=count,set,part", "pkglist -i=count", "percent -i=count -pkg=.../shapes/shapes",
		"func -i=count -pkg=example.org/...", "textfmt -i=set,count -o=x", "percent -i=none", "textfmt -i=count", "percent",
	} {
		got, want := run(t, strings.Fields(args)...), covdata(t, dir, strings.Fields(args)...)
		if strings.Contains(want, "usage: ") {
			want, _, _ = strings.Cut(want, "usage: ") // and the options
		}
		if got != want {
			t.Errorf("%s:\n%s\nwant\n%s", args, got, want)
		}
	}
	for _, args := range []string{"-i=count", "-i=part,set,part", "-i=count,count", "-i=count -pkg=.../shapes/shapes"} {
		run(t, append(strings.Fields("textfmt -o=got"), strings.Fields(args)...)...)
		covdata(t, dir, append(strings.Fields("textfmt -o=want"), strings.Fields(args)...)...)
		if got, want := read(t, "got"), read(t, "want"); got != want || len(got) < 100 {
			t.Errorf("textfmt %s:\n%s\nwant\n%s", args, got, want)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// compareMerged has go tool covdata dump what merge writes, and what its own merge writes.
func compareMerged(t *testing.T, dir string) {
	for _, args := range []string{"-i=count,count,set", "-i=count -pkg=.../shapes/shapes", "-i=part,count -pcombine"} {
		var dumps, metas [2]string
		for i, merge := range []func(*testing.T, ...string) string{run, func(t *testing.T, args ...string) string { return covdata(t, dir, args...) }} {
			out := []string{"ours", "theirs"}[i]
			if err := os.Mkdir(out, 0o777); err != nil {
				t.Fatal(err)
			}
			if said := merge(t, append([]string{"merge", "-o=" + out}, strings.Fields(args)...)...); said != "" {
				t.Error(said)
			}
			dump := covdata(t, dir, "debugdump", "-i="+out)
			for line := range strings.Lines(dump) {
				if !strings.HasPrefix(line, " *") && !strings.HasPrefix(line, "data file") {
					dumps[i] += line
				} else if _, program, ok := strings.Cut(line, " GOOS"); ok {
					dumps[i] += program
				}
			}
			found, _ := filepath.Glob(out + "/covmeta.*")
			for _, name := range found {
				metas[i] += filepath.Base(name) + read(t, name)
			}
			os.RemoveAll(out)
		}
		if dumps[0] != dumps[1] || len(dumps[0]) < 100 {
			t.Errorf("merge %s:\n%s\nwant\n%s", args, dumps[0], dumps[1])
		}
		if metas[0] != metas[1] {
			t.Errorf("merge %s: covmeta\n%q\nwant\n%q", args, metas[0], metas[1])
		}
	}
}
