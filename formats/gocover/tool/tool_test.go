package tool

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"footfall/formats/gocover"
	"footfall/formats/gocover/fixtures"
)

// TestCovdataExact gives go tool covdata and us the same data and arguments, and compares all that both write. Of two
// programs, the second of which is in the first directory, Go's panics at subtract and intersect.
func TestCovdataExact(t *testing.T) {
	module := fixtures.Module(t)
	work := t.TempDir()
	for dir, runs := range map[string][]string{
		"count": {"push a\npop\n", "double\nmax\nmax\n", "fail\n"}, "count2": {"push a\nhook\n"}, "set": {"pop\n", "max\n"}, "atomic": {"double\n"}, "none": nil,
	} {
		dir = filepath.Join(work, dir)
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		mode := strings.TrimSuffix(filepath.Base(dir), "2")
		if runs == nil {
			continue
		}
		program := filepath.Join(work, "app-"+mode)
		if _, err := os.Stat(program); err != nil {
			if err := os.Rename(fixtures.Build(t, module, mode), program); err != nil {
				t.Fatal(err)
			}
		}
		for _, input := range runs {
			cmd := exec.Command(program, "an argument")
			cmd.Stdin, cmd.Env = strings.NewReader(input), append(os.Environ(), "GOCOVERDIR="+dir)
			if err := cmd.Run(); err != nil && !strings.HasPrefix(input, "fail") {
				t.Fatal(err)
			}
		}
	}
	real := covdata(t, module)
	for _, args := range [][]string{
		{"percent", "-i=count"}, {"percent", "-i=count,set,atomic"}, {"percent", "-i=count", "-o=OUT"}, {"percent", "-i=none"}, {"percent", "-i=gone"}, {"percent"},
		{"func", "-i=count"}, {"func", "-i=set,count2,count"}, {"func", "-i=count", "-pkg=example.com/shop/calc"}, {"func", "-i=count", "-pkg=example.com/shop/..."},
		{"pkglist", "-i", "count,set"}, {"pkglist", "-i=count", "-pkg=,none"},
		{"textfmt", "-i=count", "-o=OUT"}, {"textfmt", "-i=set", "-o=OUT"}, {"textfmt", "-i=count,count2", "-o=OUT"}, {"textfmt", "-i=count,set", "-o=OUT"}, {"textfmt", "-i=set"},
		{"merge", "-i=count,count2", "-o=OUT/"}, {"merge", "-i=count,set,atomic", "-o=OUT/"}, {"merge", "-i=count,set,atomic", "-o=OUT/", "-pcombine"},
		{"merge", "-i=count2,count", "-o=OUT/", "-pkg=example.com/shop/calc"}, {"merge", "-i=count"}, {"merge", "-i=count", "-o=gone/gone"},
		{"subtract", "-i=count,count2", "-o=OUT/"}, {"subtract", "-i=count,set", "-o=OUT/"}, {"subtract", "-i=count", "-o=OUT/"},
		{"intersect", "-i=count,count2", "-o=OUT/"}, {"intersect", "-i=count,count2,count", "-o=OUT/"}, {"intersect", "-i=count,set", "-o=OUT/"},
		{"debugdump", "-i=count"}, {"debugdump", "-i=set,count2,count", "-live"}, {"debugdump", "-i=count,set", "-pkg=example.com/shop/calc"},
		{"debugdump", "-i=none"}, {"debugdump"}, {"debugdump", "-help"},
		{"nonsense"}, {}, {"merge", "-help"}, {"textfmt", "-help"}, {"percent", "-nonsense"}, {"pkglist", "-help"}, {"func", "-help"}, {"subtract", "-help"}, {"intersect", "-help"},
		{"percent", "-i=count", "more"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			var ran [2]string
			for i := range ran {
				ran[i] = runIn(t, work, args, i, real)
			}
			if diff := cmp.Diff(ran[0], ran[1]); diff != "" {
				t.Errorf("(-go tool covdata +footfall)\n%s", diff)
			}
		})
	}
}

// covdata builds the program itself, since go tool adds to what it says.
func covdata(t *testing.T, module string) string {
	return strings.TrimSpace(fixtures.Go(t, module, "tool", "-n", "covdata"))
}

// runIn runs one of the two, and returns all that it wrote, of data what it means.
func runIn(t *testing.T, work string, args []string, which int, real string) string {
	out := filepath.Join(t.TempDir(), "out")
	var own []string
	for _, a := range args {
		if strings.HasSuffix(a, "OUT/") {
			if err := os.Mkdir(out, 0o777); err != nil {
				t.Fatal(err)
			}
		}
		own = append(own, strings.Replace(a, "OUT", out, 1))
	}
	t.Chdir(work)
	var stdout, stderr bytes.Buffer
	status := 0
	if which == 0 {
		cmd := exec.Command(real, own...)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		_ = cmd.Run()
		status = cmd.ProcessState.ExitCode()
	} else {
		status = Run(&Invocation{Args: own, Stdout: &stdout, Stderr: &stderr})
	}
	all := fmt.Sprintf("status %d\n%s%s", status, &stdout, &stderr)
	_ = filepath.WalkDir(out, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case gocover.IsCounters(b):
			c, err := gocover.ReadCounters(b)
			if err != nil {
				t.Fatal(err)
			}
			hash, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(name), "covcounters."), ".")
			all += fmt.Sprintf("counters of %s, %v:\n%+v\n", hash, c.Hash, c.Segments)
		case gocover.IsMeta(b):
			all += fmt.Sprintf("%s: %x\n", filepath.Base(name), b)
		default:
			all += string(b)
		}
		return nil
	})
	all = strings.ReplaceAll(all, " *\t"+real+" debugdump", " *\tcovdata debugdump")
	return strings.ReplaceAll(all, out, "OUT")
}
