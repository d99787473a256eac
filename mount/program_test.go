package mount

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A program is one of testdata that was built and started by a test; it ends
// with it.
type program struct {
	t    *testing.T
	dir  string // of sources and objects
	cmd  *exec.Cmd
	in   io.Writer
	said *bufio.Reader
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
		tool(t, dir, "gcc-12", strings.Fields(args)...)
	}
	return dir
}

// tool runs a program and returns what it says on standard output.
func tool(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, stderr.String())
	}
	return string(out)
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
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	p.in, p.said = in, bufio.NewReader(out)
	p.line("ready")
	return p
}

// kill ends the program without letting it write its counters.
func (p *program) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (p *program) pid() int { return p.cmd.Process.Pid }

// directory is the program's in a tree.
func (p *program) directory(tree string) string {
	return filepath.Join(tree, strconv.Itoa(p.pid())+"-"+filepath.Base(p.cmd.Path))
}

// tell writes a line to the program and waits until it is done.
func (p *program) tell(what, answer string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, what+"\n"); err != nil {
		p.t.Fatal(err)
	}
	p.line(answer)
}

func (p *program) line(want string) {
	p.t.Helper()
	timer := time.AfterFunc(30*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	if line, err := p.said.ReadString('\n'); err != nil || line != want+"\n" {
		p.t.Fatalf("the program says %q, %v; expected %q", line, err, want)
	}
}
