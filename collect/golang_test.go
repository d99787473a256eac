package collect

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"footfall/formats/gocover/fixtures"
	covdata "footfall/formats/gocover/tool"
	"footfall/report/source"
)

// runShop runs the program of fixtures, which writes its data into a directory.
func runShop(t *testing.T, program, dir, input string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Stdin, cmd.Env = strings.NewReader(input), append(os.Environ(), "GOCOVERDIR="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// collectGo collects paths, seen from a root.
func collectGo(t *testing.T, o source.Options, paths ...string) *Result {
	t.Helper()
	sources, err := source.NewSources(o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Files(paths, Options{Sources: sources})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestGoConfirm compares what is made of data with what is made of the text profile of the same data: both readers have
// only in common how blocks become lines.
func TestGoConfirm(t *testing.T) {
	module := fixtures.Module(t)
	for _, mode := range []string{"set", "count", "atomic"} {
		dir := filepath.Join(module, mode)
		program := fixtures.Build(t, module, mode)
		runShop(t, program, dir, "push a\npop\nmax\n")
		runShop(t, program, dir, "pop\n")
		text := filepath.Join(module, mode+".out")
		if status := covdata.Run(&covdata.Invocation{Args: []string{"textfmt", "-i=" + dir, "-o=" + text}, Stdout: io.Discard, Stderr: os.Stderr}); status != 0 {
			t.Fatalf("textfmt: status %d", status)
		}
		ours, profile := collectGo(t, source.Options{Root: module}, dir), collectGo(t, source.Options{Root: module}, text)
		if ours.Set.Len() != 2 || ours.Go.Runs != 2 || len(ours.Problems) > 0 {
			t.Errorf("%s: %d sources, %d runs, %v", mode, ours.Set.Len(), ours.Go.Runs, ours.Problems)
		}
		if diff := cmp.Diff(profile.Set.Files(), ours.Set.Files()); diff != "" {
			t.Errorf("%s (-text profile +data)\n%s", mode, diff)
		}
	}
}

// TestGoFiles reads files by their names, of several programs, copied away from their module, damaged.
func TestGoFiles(t *testing.T) {
	module, away := fixtures.Module(t), t.TempDir()
	runShop(t, fixtures.Build(t, module, "count"), filepath.Join(away, "one"), "push a\n")
	runShop(t, fixtures.Build(t, module, "set", "-ldflags=-s -w"), filepath.Join(away, "two"), "pop\n")
	main := filepath.Join(module, "cmd/app/main.go")
	covered := func(r *Result) int { return r.Set.File(main).Totals().Lines.Covered }

	one := collectGo(t, source.Options{PathMaps: []string{"example.com/shop=" + module}}, filepath.Join(away, "one"))
	both := collectGo(t, source.Options{PathMaps: []string{"example.com/shop=" + module}}, away)
	if one.Go.Programs != 1 || both.Go.Programs != 2 || covered(both) <= covered(one) {
		t.Errorf("%d and %d programs, %d and %d lines", one.Go.Programs, both.Go.Programs, covered(one), covered(both))
	}
	counters, _ := filepath.Glob(filepath.Join(away, "one", "covcounters.*"))
	named := collectGo(t, source.Options{PathMaps: []string{"example.com/shop=" + module}}, counters[0])
	if diff := cmp.Diff(one.Set.Files(), named.Set.Files()); diff != "" {
		t.Errorf("counters that are named find the meta-data beside them (-directory +file)\n%s", diff)
	}

	lost := collectGo(t, source.Options{Root: away}, filepath.Join(away, "one"))
	if len(lost.Problems) != 2 || lost.Problems[0].Kind != source.NoSource || !lost.Set.Has(filepath.Join(away, "example.com/shop/calc/calc.go")) {
		t.Errorf("without sources: %v", lost.Problems)
	}
	f := lost.Set.File(filepath.Join(away, "example.com/shop/cmd/app/main.go"))
	var names []string
	for _, fn := range f.Functions {
		names = append(names, fn.Name)
	}
	if diff := cmp.Diff([]string{"main.(*server).handle", "main.main"}, names); diff != "" {
		t.Errorf("functions without sources (-want +got)\n%s", diff)
	}

	b, err := os.ReadFile(counters[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"covcounters.0.1.2": b[:len(b)-20], "covmeta.0": []byte("\x00cvm\x09\x00\x00\x00")} {
		if err := os.WriteFile(filepath.Join(away, "one", name), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	damaged := collectGo(t, source.Options{PathMaps: []string{"example.com/shop=" + module}}, filepath.Join(away, "one"))
	if diff := cmp.Diff(one.Set.Files(), damaged.Set.Files()); diff != "" || len(damaged.Problems) != 2 {
		t.Errorf("beside damaged files: %v\n%s", damaged.Problems, diff)
	}
	if err := os.Remove(filepath.Join(away, "two", "covmeta."+both.Objects.Go[len(both.Objects.Go)-1].Name[len(filepath.Join(away, "two", "covmeta.")):])); err != nil {
		t.Fatal(err)
	}
	alone := collectGo(t, source.Options{}, filepath.Join(away, "two"))
	if err := alone.Nothing([]string{"two"}); err == nil || len(alone.Problems) != 1 || alone.Problems[0].Kind != source.NoNotes {
		t.Errorf("counters without meta-data: %v, %v", err, alone.Problems)
	}
}
