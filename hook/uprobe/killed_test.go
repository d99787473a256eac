//go:build linux

package uprobe

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"footfall/process"
	"footfall/process/needs"
	"footfall/trace"
)

// TestKilled kills footfalls that watch a program. The kernel takes their breakpoints out of
// its code, and of that of its child, or keeps them; then Repair takes them out. The program is
// right all the while.
func TestKilled(t *testing.T) {
	if os.Getenv("UPROBE_KILLED") != "" {
		watched(t)
		return
	}
	p := start(t, build(t))
	before := p.code(t, p.cmd.Process.Pid)
	kept := 0
	for i := range 10 {
		stays := i%2 == 0 // its breakpoints do, until it is killed; else it sets and takes them all the while
		cmd := exec.Command(os.Args[0], "-test.run", "^TestKilled$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("UPROBE_KILLED=%d %s %t", p.cmd.Process.Pid, p.path, stays))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		word := make([]byte, 3)
		if _, err := io.ReadFull(out, word); err != nil || string(word) != "on\n" {
			rest, _ := io.ReadAll(out)
			_ = cmd.Wait()
			if strings.Contains(string(word)+string(rest), "PASS") { // it has skipped the test
				needs.Skip(t, needs.Uprobes, "the other process may set none")
			}
			t.Fatalf("it says %q, %v", string(word)+string(rest), err)
		}
		child := p.fork(t)
		time.Sleep(time.Duration(rand.IntN(20000)) * time.Microsecond)
		if stays && bytes.Equal(before, p.code(t, p.cmd.Process.Pid)) {
			t.Error("there is no breakpoint that could be left")
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		p.right(t)
		for _, pid := range []int{p.cmd.Process.Pid, child} {
			o, err := process.Open(pid)
			if err != nil {
				t.Fatal(err)
			}
			n, err := Repair(o)
			o.Close()
			if err != nil {
				t.Fatal(err)
			}
			kept += n
			if !bytes.Equal(before, p.code(t, pid)) {
				t.Fatalf("the code of process %d is not what it was; %d functions were restored", pid, n)
			}
		}
		p.right(t)
	}
	t.Logf("the kernel has kept %d breakpoints", kept)
}

// right has the program call its functions as often as it does.
func (p *program) right(t *testing.T) {
	t.Helper()
	if leafs, outers, tails := p.run(t); leafs != 6000 || outers != 2000 || tails != 2000 {
		t.Fatalf("%d leafs, %d outers, %d tails", leafs, outers, tails)
	}
}

// watched sets breakpoints, and takes and sets them again unless they are to stay, until it is killed.
func watched(t *testing.T) {
	p := &program{cmd: &exec.Cmd{Process: new(os.Process)}}
	var stays bool
	if _, err := fmt.Sscan(os.Getenv("UPROBE_KILLED"), &p.cmd.Process.Pid, &p.path, &stays); err != nil {
		t.Fatal(err)
	}
	for first := true; ; first = false {
		s := open(t, Options{PID: p.cmd.Process.Pid, Mode: trace.Exits, BufferSize: 1 << 20, Children: true})
		p.attach(t, s)
		if first {
			fmt.Println("on")
		}
		if stays {
			time.Sleep(time.Minute)
		}
		time.Sleep(time.Duration(rand.IntN(5000)) * time.Microsecond)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// fork has the program make a child that waits.
func (p *program) fork(t *testing.T) (child int) {
	t.Helper()
	fmt.Fprint(p.In, "f")
	if _, err := fmt.Sscan(p.Line(), &child); err != nil {
		t.Fatal(err)
	}
	return child
}

// code returns the first bytes of the functions of names in the memory of a process.
func (p *program) code(t *testing.T, pid int) (code []byte) {
	t.Helper()
	o, file, bias := image(t, pid)
	functions, err := file.Functions()
	if err != nil {
		t.Fatal(err)
	}
	for _, fn := range functions {
		b := make([]byte, 8)
		if _, err := o.ReadAt(b, int64(fn.Addr+bias)); err != nil {
			t.Fatal(err)
		}
		code = append(code, b...)
	}
	return code
}

// TestBreakpoints tells breakpoints from other changes of code.
func TestBreakpoints(t *testing.T) {
	for memory, want := range map[string]string{
		"abcdef": "[]", "\xccbcd\xccf": "[0 4]", "\xccbcdXf": "[]",
	} {
		if got := fmt.Sprint(breakpointsIn([]byte(memory), []byte("abcdef"))); got != want {
			t.Errorf("%q: %s, want %s", memory, got, want)
		}
	}
}
