//go:build linux

package process

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"footfall/process/processtest"
)

// born notes who is told of as forked.
type born struct{ pids, parents []int }

func (b *born) Forked(pid, parent int, _ Fork, goOn func(watch bool)) {
	b.pids, b.parents = append(b.pids, pid), append(b.parents, parent)
	goOn(false)
}
func (*born) Execs(pid int, goOn func())                        { goOn() }
func (*born) Replaced(pid int, told bool, goOn func(keep bool)) { goOn(true) }
func (*born) Ending(pid int, goOn func())                       { goOn() }
func (*born) Vanished(int)                                      {}

// TestAdopt: a process that stands at its beginning is waited for as long as its maker may tell of it: where that lives and is
// attended, longer than where it is gone.
func TestAdopt(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	child := processtest.Start(t, exec.Command("cat")).Pid()
	for _, c := range []struct {
		name     string
		waited   time.Duration
		attended bool // its maker, which is the test
		adopted  bool
	}{
		{"its maker has not got a processor", time.Second, true, false},
		{"its maker does not tell", 2 * slowMaker, true, true},
		{"its maker is gone", time.Second, false, true},
		{"it has just begun", -time.Hour, false, false}, // however slow this test is
	} {
		events := new(born)
		a := &Attendant{
			events: events, threads: make(map[int]*attendedProcess), processes: make(map[int]*attendedProcess),
			newborn: map[int]newborn{child: {time.Now().Add(-c.waited), unix.SIGTRAP}}, made: make(map[int]birth), early: make(map[int]bool), tid: unix.Gettid(),
		}
		if c.attended {
			a.processes[os.Getpid()] = &attendedProcess{pid: os.Getpid(), threads: 1, children: true}
		}
		a.adopt()
		if _, waits := a.newborn[child]; waits == c.adopted || len(events.pids) > 0 != c.adopted {
			t.Errorf("%s: waits %v, told of %v", c.name, waits, events.pids)
		}
		if c.adopted {
			continue
		}
		// Then its maker tells.
		maker := &attendedProcess{pid: os.Getpid(), threads: 1, children: true}
		a.makes(maker, child, unix.PTRACE_EVENT_FORK, birth{parent: maker, by: Fork{ByLibrary: true}})
		if len(events.pids) != 1 || events.parents[0] != os.Getpid() || len(a.newborn) > 0 {
			t.Errorf("%s: told of %v, of %v", c.name, events.pids, events.parents)
		}
	}
}
