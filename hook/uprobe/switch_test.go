//go:build linux

package uprobe

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"footfall/process/processtest"
	"footfall/trace"
)

// round calls its functions in turn, again and again: at no moment do their calls differ by
// more than one.
const round = `
#include <stdio.h>
volatile long rounds;
#define F(n) __attribute__((noinline)) void n(void) { rounds++; }
F(f0) F(f1) F(f2) F(f3) F(f4) F(f5) F(f6) F(f7)
int main(void)
{
	puts("ready");
	fflush(stdout);
	for (;;) {
		f0(); f1(); f2(); f3(); f4(); f5(); f6(); f7();
	}
}
`

// TestSwitchAtOneMoment counts functions that are called in turn, while they are attached one
// after the other, switched on and off, and detached: at each of these moments one of them may
// be a call ahead of another, no more.
func TestSwitchAtOneMoment(t *testing.T) {
	path := processtest.Compile(t, round, "-O1")
	for _, single := range []bool{false, true} {
		t.Run(fmt.Sprintf("single=%v", single), func(t *testing.T) {
			cmd := exec.Command(path)
			p := &program{processtest.Start(t, cmd), cmd, path}
			p.Line()
			var functions []string
			for i := range 8 {
				functions = append(functions, fmt.Sprintf("f%d", i))
			}
			probes := p.probesOf(t, functions)
			s := open(t, Options{PID: cmd.Process.Pid, Mode: trace.Counts, single: single})
			if _, err := s.Attach(probes); err != nil {
				t.Fatal(err)
			}
			moments := uint64(0)
			change := func(f func() error) {
				if err := f(); err != nil {
					t.Fatal(err)
				}
				moments++
				time.Sleep(20 * time.Millisecond)
			}
			for range 3 {
				change(func() error { return s.Switch(probes) })
				change(func() error { return s.Switch(nil) })
			}
			change(func() error { return s.Switch(probes) })
			change(s.Detach)
			counts, err := s.Counts()
			if err != nil {
				t.Fatal(err)
			}
			low, high := counts[0], counts[0]
			for _, p := range probes {
				low, high = min(low, counts[p.ID]), max(high, counts[p.ID])
			}
			if low == 0 || high-low > moments {
				t.Errorf("%d to %d calls of functions that are called in turn, switched %d times: %v", low, high, moments, counts)
			}
		})
	}
}
