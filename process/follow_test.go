//go:build linux

package process

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"footfall/process/needs"
	"footfall/process/processtest"
)

// The program starts itself with one letter less of its argument, in the way that
// the letter says, and adds 1 to what it ends with.
const startingProgram = `#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static char *next[4];
static sigset_t urgent;
static void *become(void *p) { execv(next[0], next); return p; }
static int wait_for(pid_t pid)
{
	int status;
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return 100;
	return WEXITSTATUS(status);
}
int main(int argc, char **argv)
{
	sigset_t blocked;
	sigprocmask(SIG_BLOCK, 0, &blocked);
	int sum = 1;
	if (argc > 2 && !sigismember(&blocked, SIGURG))
		return 101;
	alarm(600);
	if (!*argv[1])
		return sum;
	next[0] = argv[0];
	next[1] = argv[1] + 1;
	pid_t pid;
	pthread_t t;
	switch (*argv[1]) {
	case 'f': /* which keeps what signals are blocked */
		if (!(pid = fork())) {
			sigaddset(&urgent, SIGURG);
			sigprocmask(SIG_BLOCK, &urgent, 0);
			next[2] = "blocked";
			become(0);
		}
		break;
	case 'v':
		if (!(pid = vfork())) {
			execv(next[0], next);
			_exit(102);
		}
		break;
	case 's':
		if (posix_spawn(&pid, next[0], 0, 0, next, environ))
			return 103;
		break;
	case 't':
		pthread_create(&t, 0, become, 0);
		pthread_join(t, 0);
		return 104;
	case 'w': /* a child that starts another, which outlives it */
		if (!(pid = fork())) {
			if (!(pid = fork()))
				become(0);
			_exit(wait_for(pid));
		}
		break;
	default:
		return 105;
	}
	return sum + wait_for(pid);
}
`

func buildStarting(t *testing.T, flags ...string) string {
	t.Helper()
	if !CanStop {
		t.Skip("registers of other processes: only on x86-64 and arm64")
	}
	return processtest.Compile(t, startingProgram, append(flags, "-O1", "-pthread")...)
}

// followed runs until the process ends and returns the events, those that tell of
// beginnings by a letter.
func follow(t *testing.T, f *Follower, began func(*Process)) string {
	t.Helper()
	var seen strings.Builder
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Microsecond) {
		for _, e := range f.Events() {
			switch e.Kind {
			case Began:
				if e.Err != nil {
					seen.WriteString("!")
					t.Log(e.Err)
					continue
				}
				seen.WriteString("B")
				began(e.Process)
				f.Release(e.Process)
				e.Process.Close()
			case Forked:
				seen.WriteString("F")
			case Replaced:
				seen.WriteString("R")
			case Ended:
				seen.WriteString("E")
				if e.PID == f.Main() {
					f.Close()
					return seen.String()
				}
			}
		}
	}
	t.Fatalf("seen only %s", &seen)
	return ""
}

// TestFollow follows programs that start each other in all ways there are. Each
// makes a system call for us before its own code.
func TestFollow(t *testing.T) {
	builds := [][]string{nil, {"-static"}, {"-static-pie"}, {"-static", "-fcf-protection"}, {"-no-pie"}}
	if runtime.GOARCH == "arm64" {
		builds = [][]string{nil, {"-mbranch-protection=standard"}, {"-no-pie"}, {"-static"}, {"-static-pie"}, {"-static", "-mbranch-protection=standard"}}
	}
	for _, flags := range builds {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			program := buildStarting(t, flags...)
			for ways, want := range map[string]int{"": 1, "f": 2, "v": 2, "s": 2, "t": 1, "w": 2, "fvstwt": 5, "ttvvss": 5} {
				cmd := exec.Command(program, ways)
				f, err := FollowCommand(cmd)
				if err != nil {
					needs.Skip(t, needs.Ptrace, err)
				}
				began := 0
				seen := follow(t, f, func(p *Process) {
					began++
					maps, _, err := p.Maps()
					if err != nil {
						t.Fatal(err)
					}
					libc := false
					for _, m := range maps {
						libc = libc || strings.Contains(m.Path, "libc.so")
					}
					if libc != (len(flags) == 0 || !strings.HasPrefix(flags[0], "-static")) {
						t.Errorf("%q: the libraries are not there", ways)
					}
					err = p.WhileHeld(func(h *Held) error {
						pid, err := h.SystemCall(unix.SYS_GETPID)
						if err == nil && int(pid) != p.PID {
							err = fmt.Errorf("its id is %d", pid)
						}
						return err
					})
					if err != nil {
						t.Errorf("%q: %v", ways, err)
					}
				})
				_ = cmd.Wait()
				if got := cmd.ProcessState.ExitCode(); got != want {
					t.Errorf("%v %q ends with %d, not %d (%s)", flags, ways, got, want, seen)
				}
				if began != len(ways)+1 {
					t.Errorf("%v %q: %d programs have begun: %s", flags, ways, began, seen)
				}
			}
		})
	}
}

// TestFollowRunUntil has programs run up to a system call: what they start then is
// seen all the same.
func TestFollowRunUntil(t *testing.T) {
	const ways = "fvs"
	cmd := exec.Command(buildStarting(t), ways)
	f, err := FollowCommand(cmd)
	if err != nil {
		needs.Skip(t, needs.Ptrace, err)
	}
	began := 0
	seen := follow(t, f, func(p *Process) {
		began++
		if err := p.WhileHeld(func(h *Held) error { return h.RunUntil(p.PID, time.Minute, func() bool { return true }) }); err != nil {
			t.Error(err)
		}
	})
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); began != len(ways)+1 || got != len(ways)+1 {
		t.Errorf("%d programs have begun: %s; it ends with %d", began, seen, got)
	}
}

// TestFollowRunning follows a process that runs already, and lets it go again.
func TestFollowRunning(t *testing.T) {
	program := buildStarting(t)
	cmd := exec.Command("sh", "-c", `echo begun; read line; "$0" fv; exec "$0" s`, program)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	p, err := Open(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for range 5 {
		f, err := Follow(p)
		if err != nil {
			needs.Skip(t, needs.Ptrace, err)
		}
		if err := p.WhileStopped(func() error { return p.Check() }); err != nil {
			t.Error(err)
		}
		f.Close()
		if err := p.WhileStopped(func() error { return p.Check() }); err != nil {
			t.Error(err)
		}
	}
	f, err := Follow(p)
	if err != nil {
		t.Fatal(err)
	}
	in.Close()
	if seen := follow(t, f, func(*Process) {}); strings.Count(seen, "B") != 5 {
		t.Errorf("seen %s", seen)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("it ends with %v", err)
	}
}

// TestFollowerKilled kills footfalls while programs begin: they go on.
func TestFollowerKilled(t *testing.T) {
	if program := os.Getenv("PROC_FOLLOWED"); program != "" {
		cmd := exec.Command("sh", "-c", `echo begun; "$0" "$1"; echo end: $?`, program, strings.Repeat("fvstw", 20))
		cmd.Stdout = os.Stdout
		f, err := FollowCommand(cmd)
		if err != nil {
			t.Fatal(err)
		}
		follow(t, f, func(*Process) {})
		return
	}
	if testing.Short() {
		t.Skip("takes seconds")
	}
	program := buildStarting(t)
	for range 10 {
		if end := killed(t, "PROC_FOLLOWED="+program, 50*time.Millisecond); end != "end: 81\n" {
			t.Fatalf("after a kill the program says %q", end)
		}
	}
}

func FuzzEntryJump(f *testing.F) {
	for _, init := range []string{
		"\x48\x83\xec\x08\x48\xc7\xc0\x00\x00\x00\x00\x48\x85\xc0\x74",
		"\x48\x83\xec\x08\x48\x8b\x05\xc5\x2f\x00\x00\x48\x85\xc0\x74",
		"\xf3\x0f\x1e\xfa\x48\x83\xec\x08\x48\xc7\xc0\x00\x00\x00\x00",
		"\x1f\x20\x03\xd5\xfd\x7b\xbf\xa9\xfd\x03\x00\x91\x00\x00\x00",
		"\x50\x58\xc3\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90",
	} {
		f.Add([]byte(init), uint64(0x401000), uint64(0x40401000))
	}
	f.Fuzz(func(t *testing.T, init []byte, at, code uint64) {
		if jump, displaced := entryJump(init, at, code); jump != nil && (len(jump) > len(init) || len(displaced) < 4) {
			t.Errorf("%x, %x", jump, displaced)
		}
	})
}

func FuzzFindEntry(f *testing.F) {
	var b []byte
	for _, v := range []uint64{1, 0x7000, 0, 0x7100, 0, 3, 0x40, atEntry, 0x1234, 0, 0} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	if at := findEntry(b, 0x1234); at != 64 {
		f.Fatalf("found at %d", at)
	}
	f.Add(b, uint64(0x1234))
	f.Add(bytes.Repeat([]byte{0xff}, 64), uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, entry uint64) {
		if at := findEntry(b, entry); at >= 0 && binary.LittleEndian.Uint64(b[at:]) != entry {
			t.Errorf("found at %d", at)
		}
	})
}
