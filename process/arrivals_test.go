//go:build linux

package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"footfall/process/needs"
	"footfall/process/processtest"
)

// TestArrivals: a process is found that is made, and one that becomes the selected program later, whether the kernel tells of them
// or is asked.
func TestArrivals(t *testing.T) {
	program := filepath.Join(t.TempDir(), "arrives")
	if err := os.Rename(processtest.Compile(t, `
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	printf("ready\n"), fflush(stdout);
	getchar();
	if (argc > 1)
		execl(argv[1], argv[1], (char *)0);
}`), program); err != nil {
		t.Fatal(err)
	}
	becomes := filepath.Join(t.TempDir(), "becomes")
	if err := os.Link(program, becomes); err != nil {
		t.Fatal(err)
	}
	selector, err := ParseSelector(program)
	if err != nil {
		t.Fatal(err)
	}
	for _, told := range []bool{true, false} {
		found := make(chan int, 1000)
		a := &Arrivals{selector: selector, found: func(pid int) { found <- pid }, stop: make(chan struct{})}
		if told {
			if a.events, err = listenToProcesses(nil); err != nil {
				if os.Geteuid() != 0 {
					needs.Skip(t, needs.Root, err)
				}
				t.Logf("the kernel does not tell: %v", err)
				continue
			}
		}
		a.stopped.Add(1)
		go a.watch()
		await := func(pid int) {
			t.Helper()
			for end := time.After(time.Minute); ; {
				select {
				case got := <-found:
					if got == pid {
						return
					}
				case <-end:
					t.Fatalf("told %v: process %d is not found", told, pid)
				}
			}
		}
		p := processtest.Start(t, exec.Command(program))
		p.Expect("ready")
		await(p.Pid())
		p = processtest.Start(t, exec.Command(becomes, program))
		p.Expect("ready")
		p.Say("")
		await(p.Pid())
		a.Close()
	}
}

// TestProcEvents: what the kernel says of a process that is made, becomes another program and gets another name is that it may be
// another one now; bytes that are no such message say nothing.
func TestProcEvents(t *testing.T) {
	for n := range 80 {
		if got, _ := cameIn(make([]byte, n)); got != 0 {
			t.Errorf("%d bytes: %d", n, got)
		}
	}
	e, err := listenToProcesses(nil)
	if err != nil {
		if os.Geteuid() != 0 {
			needs.Skip(t, needs.Root, err)
		}
		t.Skipf("the kernel does not tell: %v", err)
	}
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	for end := time.After(time.Minute); ; {
		select {
		case <-e.came:
		case <-end:
			t.Fatal("nothing is told")
		}
		pids, lost := e.take()
		if lost {
			return
		}
		if pids[cmd.ProcessState.Pid()] {
			e.close()
			for range e.came {
			}
			return
		}
	}
}

// TestIgnoredChildren: the kernel does not tell any more of the children of one that has made many and of which others tell, as long
// as they do; of the children of all others it tells.
func TestIgnoredChildren(t *testing.T) {
	program := processtest.Compile(t, `
#include <stdio.h>
#include <unistd.h>
#include <sys/wait.h>
int main(void)
{
	for (puts("ready"), fflush(stdout); getchar() != EOF; fflush(stdout)) {
		int pid = fork();
		if (!pid)
			_exit(0);
		waitpid(pid, 0, 0);
		printf("%d\n", pid);
	}
}`)
	start := func() *processtest.Program {
		p := processtest.Start(t, exec.Command(program))
		p.Expect("ready")
		return p
	}
	makes := func(p *processtest.Program) int {
		pid, err := strconv.Atoi(p.Say(""))
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
	for range 20 {
		if ignoresChildren(t, start, makes) {
			return
		}
	}
	t.Skip("more happens than is kept, again and again")
}

// ignoresChildren is a try of TestIgnoredChildren; false: the kernel did not tell of all that happened.
func ignoresChildren(t *testing.T, start func() *processtest.Program, makes func(*processtest.Program) int) bool {
	t.Helper()
	many, other := start(), start()
	var told atomic.Bool
	e, err := listenToProcesses(func(pid int) bool { return told.Load() && pid == many.Pid() })
	if err != nil {
		if os.Geteuid() != 0 {
			needs.Skip(t, needs.Root, err)
		}
		t.Skipf("the kernel does not tell: %v", err)
	}
	defer e.close()
	var seen map[int]bool
	await := func(pid int) (is bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !seen[pid]; time.Sleep(time.Millisecond) {
			pids, lost := e.take()
			if lost {
				return false
			}
			for pid := range pids {
				seen[pid] = true
			}
			if time.Now().After(end) {
				t.Fatalf("process %d is not told", pid)
			}
		}
		return true
	}
	for _, now := range []bool{true, false} { // told of by others
		told.Store(now)
		seen = make(map[int]bool)
		for range manyMade {
			makes(many)
		}
		if !await(makes(other)) {
			return false
		}
		e.ignore()
		if ignored := slices.Contains(e.ignored, many.Pid()); ignored != now {
			t.Fatalf("%v: ignored %v", now, e.ignored)
		}
		told.Store(false) // else what the kernel tells is not noted
		child := makes(many)
		if !await(makes(other)) {
			return false
		}
		if seen[child] == now {
			t.Errorf("ignored %v: a child of it is told: %v", now, !now)
		}
	}
	return true
}
