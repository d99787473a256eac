//go:build linux

package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"footfall/process/needs"
	"footfall/process/processtest"
)

// sleeping starts a process that only waits.
func sleeping(t *testing.T) (*exec.Cmd, *Process) {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	cmd.Env = []string{"FIRST=1", "SECOND=a=b", "FIRST=2", "nothing"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	// The kernel is still replacing the program, or the dynamic linker at work.
	stat := fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if b, err := os.ReadFile(stat); err != nil || bytes.Contains(b, []byte("(sleep) S ")) {
			break
		}
	}
	p, err := Open(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return cmd, p
}

// needStopping skips where the system does not let us stop the process.
func needStopping(t *testing.T, p *Process) {
	t.Helper()
	var access *AccessError
	if err := p.WhileStopped(func() error { return nil }); errors.As(err, &access) {
		needs.Skip(t, needs.Ptrace, err)
	}
}

func TestParseMaps(t *testing.T) {
	maps, err := parseMaps([]byte(`5600-5700 r-xp 00001000 fd:01 12   /bin/a b (deleted)
7000-8000 rw-p 00000000 00:00 0
8000-9000 r--s 00000000 00:05 9    /dev/shm/x\012y
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
`))
	if err != nil || len(maps) != 4 {
		t.Fatal(maps, err)
	}
	want := Mapping{Start: 0x5600, End: 0x5700, Read: true, Exec: true, Offset: 0x1000, Device: "fd:01", Inode: 12, Path: "/bin/a b", Deleted: true}
	if maps[0] != want || maps[1].Path != "" || !maps[1].Write || maps[2].Path != "/dev/shm/x\ny" || maps[3].Path != "[vsyscall]" {
		t.Errorf("%+v", maps)
	}
	for addr, want := range map[uint64]uint64{0x55ff: 0, 0x5600: 0x5600, 0x56ff: 0x5600, 0x5700: 0, 0x8000: 0x8000} {
		var start uint64
		if m := maps.At(addr); m != nil {
			start = m.Start
		}
		if start != want {
			t.Errorf("%#x is in the mapping at %#x", addr, start)
		}
	}
	for _, bad := range []string{"x\n", "1-2 r-xp z 00:00 0\n", "1-2 r 0 00:00 0\n", "1 r-xp 0 00:00 0\n"} {
		if _, err := parseMaps([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestMemory(t *testing.T) {
	_, p := sleeping(t)
	maps, _, err := p.Maps()
	if err != nil {
		t.Fatal(err)
	}
	images := p.Images(maps)
	if len(images) < 2 { // sleep and its libraries
		t.Fatalf("%d images", len(images))
	}
	for _, fallback := range []bool{false, true} {
		p.noVM.Store(fallback)
		ranges := make([]MemoryRange, 1200) // more than one system call takes
		for i := range ranges {
			ranges[i] = MemoryRange{images[0].Start + uint64(i%3), make([]byte, 4)}
		}
		if err := p.ReadRanges(ranges); err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{"\x7fELF", "ELF\x02", "LF\x02\x01"} {
			if got := string(ranges[1197+i].Bytes); got != want {
				t.Errorf("fallback %v: %q at %d", fallback, got, i)
			}
		}
		ranges[700].Addr = 1
		if err := p.ReadRanges(ranges); err == nil {
			t.Errorf("fallback %v: address 1 can be read", fallback)
		}
		stack := maps.At(p.Start.Stack)
		if stack == nil {
			t.Fatalf("no stack at %#x", p.Start.Stack)
		}
		b := []byte("written")
		if err := p.WriteRanges([]MemoryRange{{stack.Start, b}}); err != nil {
			t.Fatal(err)
		}
		back := make([]byte, len(b))
		if _, err := p.ReadAt(back, int64(stack.Start)); err != nil || !bytes.Equal(b, back) {
			t.Errorf("fallback %v: %q, %v", fallback, back, err)
		}
	}
	if f, err := images[0].Open(); err != nil {
		t.Error(err)
	} else {
		f.Close()
	}
}

func TestEnvironment(t *testing.T) {
	_, p := sleeping(t)
	env, err := p.Environment()
	if err != nil || len(env) != 2 || env["SECOND"] != "a=b" {
		t.Errorf("%v, %v", env, err)
	}
	if p.Root() != "" {
		t.Errorf("root %q", p.Root())
	}
}

func TestFind(t *testing.T) {
	cmd, _ := sleeping(t)
	selector, err := ParseSelector("sleep")
	if err != nil {
		t.Fatal(err)
	}
	found, err := selector.Find()
	if err != nil || !slices.Contains(found, cmd.Process.Pid) {
		t.Errorf("%v, %v", found, err)
	}
	if all, err := List(); err != nil || slices.Contains(all, os.Getpid()) || !slices.Contains(all, cmd.Process.Pid) {
		t.Errorf("%v, %v", all, err)
	}
}

func TestWhileStopped(t *testing.T) {
	cmd, p := sleeping(t)
	needStopping(t, p)
	state := func() byte {
		st, err := p.stat()
		if err != nil {
			t.Fatal(err)
		}
		return st.state
	}
	wanted := errors.New("what do returns")
	err := p.WhileStopped(func() error {
		if s := state(); s != 't' {
			t.Errorf("state %c", s)
		}
		if err := p.WhileStopped(func() error { return nil }); err == nil || !strings.Contains(err.Error(), "holds its threads already") {
			t.Errorf("stopped twice: %v", err)
		}
		return wanted
	})
	if !errors.Is(err, wanted) {
		t.Errorf("%v", err)
	}
	if s := state(); s == 't' || s == 'T' {
		t.Errorf("state %c afterwards", s)
	}
	// A signal that comes meanwhile is not lost.
	if err := p.WhileStopped(func() error { return cmd.Process.Signal(syscall.SIGTERM) }); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err == nil || err.Error() != "signal: terminated" {
			t.Errorf("%v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the signal was lost")
	}
	if err := p.Check(); !errors.Is(err, ErrExited) {
		t.Errorf("%v", err)
	}
	if err := p.WhileStopped(func() error { return nil }); !errors.Is(err, ErrExited) {
		t.Errorf("%v", err)
	}
}

const churnProgram = `
#include <pthread.h>
#include <unistd.h>
static void *brief(void *p) { return p; }
static void *churn(void *p)
{
	for (;;) {
		pthread_t t;
		if (pthread_create(&t, 0, brief, 0) == 0)
			pthread_join(t, 0);
	}
	return p;
}
int main(void)
{
	pthread_t t;
	for (int i = 0; i < 4; i++)
		pthread_create(&t, 0, churn, 0);
	for (;;)
		pause();
}
`

// TestWhileStoppedChurn stops a process whose threads end all the time.
func TestWhileStoppedChurn(t *testing.T) {
	program := processtest.Start(t, exec.Command(processtest.Compile(t, churnProgram, "-O1", "-pthread")))
	p, err := Open(program.Pid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	needStopping(t, p)
	for i := range 300 {
		if err := p.WhileStopped(func() error { return nil }); err != nil {
			t.Fatalf("after %d times: %v", i, err)
		}
	}
}

// TestStopped stops a process that is stopped already: it stays so.
func TestStopped(t *testing.T) {
	cmd, p := sleeping(t)
	needStopping(t, p)
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	waitFor := func(want byte) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			st, err := p.stat()
			if err != nil {
				t.Fatal(err)
			}
			if st.state == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("state %c, want %c", st.state, want)
			}
		}
	}
	waitFor('T')
	if !p.Suspended() {
		t.Error("it does not seem to be stopped")
	}
	if err := p.WhileStopped(func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	waitFor('T')
}

func TestStatusField(t *testing.T) {
	status := []byte("Name:\tx\nUid:\t1\t2\t3\t4\nGroups:\t\nTracerPid:\t77\n")
	for name, want := range map[string]int{"Uid": 4, "TracerPid": 77, "Groups": 0, "Gid": 0} {
		if got := statusField(status, name); got != want {
			t.Errorf("%s: %d", name, got)
		}
	}
}

// TestTicks checks that the clock of events goes on.
func TestTicks(t *testing.T) {
	first := Ticks()
	for deadline := time.Now().Add(time.Minute); Ticks() <= first; {
		if time.Now().After(deadline) {
			t.Fatalf("it stays at %d", first)
		}
	}
}

// TestOpenThread opens a process by the id of one of its threads.
func TestOpenThread(t *testing.T) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		id, _ := strconv.Atoi(thread.Name())
		p, err := Open(id)
		if _, ended := os.Stat("/proc/self/task/" + thread.Name()); ended != nil {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		p.Close()
		if p.PID != os.Getpid() {
			t.Errorf("thread %d: process %d, want %d", id, p.PID, os.Getpid())
		}
	}
}
