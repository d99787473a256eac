//go:build linux

package uprobe

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"footfall/trace"
)

// TestFirstThreadEnded counts calls of a process whose main has ended by pthread_exit, also
// after the thread has that the kernel was told instead.
func TestFirstThreadEnded(t *testing.T) {
	path := build(t)
	for name, single := range map[string]bool{"many at once": false, "each by itself": true} {
		t.Run(name, func(t *testing.T) {
			p, other := start(t, path, "main ends"), start(t, path)
			p.awaitEndOfMain(t)
			of, _, _ := image(t, p.cmd.Process.Pid)
			s := open(t, Options{PID: of.PID, Thread: of.LivingThread, Mode: trace.Counts, single: single})
			p.attach(t, s)
			runs := uint64(1)
			other.run(t)
			leafs, outers, tails := p.run(t)
			if s.multi && knowsGroups() { // else the probes end with the thread
				p.handOver(t)
				p.run(t)
				runs++
			}
			if err := s.Detach(); err != nil {
				t.Fatal(err)
			}
			counts, err := s.Counts()
			if err != nil {
				t.Fatal(err)
			}
			for id, want := range []uint64{leafs, outers, tails} {
				if want == 0 || counts[uint32(id)] != runs*want {
					t.Errorf("%s: counted %d, want %d times %d", names[id], counts[uint32(id)], runs, want)
				}
			}
		})
	}
}

// awaitEndOfMain waits until the first thread has ended.
func (p *program) awaitEndOfMain(t *testing.T) {
	t.Helper()
	for range 5000 {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), ") Z ") {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("the first thread does not end")
}

// handOver has another thread serve, and waits until there is no more than that.
func (p *program) handOver(t *testing.T) {
	t.Helper()
	fmt.Fprint(p.In, "h")
	p.Line()
	for range 5000 {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		if len(tasks) == 2 { // the first one is still listed
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("the thread does not end")
}
