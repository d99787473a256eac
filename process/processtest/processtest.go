// Package processtest is for tests: it compiles programs, starts them, has them do one
// thing after another, and ends them with the test. Nothing else imports it.
package processtest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Run runs a program in a directory, "" for that of the test, and returns what it says on
// standard output. The test ends if it fails.
func Run(tb testing.TB, dir, name string, args ...string) string {
	tb.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("%s %q: %v\n%s%s", name, args, err, out, stderr.String())
	}
	return string(out)
}

// Compile compiles the text of a C program with gcc-12, the compiler of Debian 12, and
// returns the name of the program. Flags come after the source, as libraries must.
func Compile(tb testing.TB, text string, flags ...string) string {
	tb.Helper()
	source := filepath.Join(tb.TempDir(), "program.c")
	if err := os.WriteFile(source, []byte(text), 0o666); err != nil {
		tb.Fatal(err)
	}
	program := strings.TrimSuffix(source, ".c")
	Run(tb, "", "gcc-12", append([]string{"-w", "-o", program, source}, flags...)...)
	return program
}

// A Program runs until it ends, or the test does. It reads commands and answers in lines.
type Program struct {
	tb  testing.TB
	cmd *exec.Cmd
	In  io.WriteCloser // its standard input
	out *bufio.Reader
}

// Start starts a program. It may still be what it was before exec until it has written a line.
func Start(tb testing.TB, cmd *exec.Cmd) *Program {
	tb.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	p := &Program{tb, cmd, in, bufio.NewReader(out)}
	tb.Cleanup(p.Kill)
	return p
}

// Pid is the number of its process.
func (p *Program) Pid() int { return p.cmd.Process.Pid }

// Kill ends the program, which gets no time to do anything else.
func (p *Program) Kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// Say writes a line to the program, and returns the line that it answers.
func (p *Program) Say(format string, args ...any) string {
	p.tb.Helper()
	if _, err := fmt.Fprintf(p.In, format+"\n", args...); err != nil {
		p.tb.Fatal(err)
	}
	return p.Line()
}

// patience is how long a program may take for an answer: one that hangs must not keep the
// test until all of them are killed.
const patience = 5 * time.Minute

// Line returns the next line of the program without what ends it. The test ends if there
// is none.
func (p *Program) Line() string {
	p.tb.Helper()
	timer := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	line, err := p.out.ReadString('\n')
	if err != nil {
		_ = p.cmd.Wait()
		p.tb.Fatalf("the program has ended, its last word %q: %v, %v", line, err, p.cmd.ProcessState)
	}
	return strings.TrimSuffix(line, "\n")
}

// Expect fails unless the next line begins like that.
func (p *Program) Expect(want string) {
	p.tb.Helper()
	if line := p.Line(); !strings.HasPrefix(line, want) {
		p.tb.Fatalf("the program says %q, expected %q", line, want)
	}
}
