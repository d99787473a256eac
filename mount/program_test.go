//go:build linux

package mount

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"footfall/process/processtest"
)

// A program is one of testdata that was built and started by a test; it ends
// with it.
type program struct {
	*processtest.Program
	t   *testing.T
	dir string // of sources and objects
	cmd *exec.Cmd
}

// build builds mounttest, a name that no other test uses, the same without
// counters as mounthost, and library.so in an empty directory, with the compiler
// of Debian 12.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"driver.c", "work.c", "library.c"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range []string{
		"-c driver.c",
		"--coverage -c work.c",
		"--coverage -Wl,-u,__gcov_dump,-u,__gcov_reset -o mounttest driver.o work.o -ldl",
		"-o mounthost driver.o -x c work.c -ldl",
		"--coverage -fPIC -c library.c",
		"--coverage -shared -o library.so library.o",
	} {
		processtest.Run(t, dir, "gcc-12", strings.Fields(args)...)
	}
	return dir
}

// start starts mounttest of a directory, by a name of its own.
func start(t *testing.T, dir, name string) *program {
	t.Helper()
	if name != "mounttest" && name != "mounthost" {
		if err := os.Link(filepath.Join(dir, "mounttest"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	p := &program{t: t, dir: dir, cmd: exec.Command("./" + name)}
	p.cmd.Dir = dir
	p.Program = processtest.Start(t, p.cmd)
	p.Expect("ready")
	return p
}

func (p *program) pid() int { return p.cmd.Process.Pid }

// directory is the program's in a tree.
func (p *program) directory(tree string) string {
	return filepath.Join(tree, strconv.Itoa(p.pid())+"-"+filepath.Base(p.cmd.Path))
}

// tell writes a line to the program and waits until it is done.
func (p *program) tell(what, answer string) {
	p.t.Helper()
	if got := p.Say("%s", what); got != answer {
		p.t.Fatalf("the program says %q, expected %q", got, answer)
	}
}
