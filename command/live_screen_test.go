//go:build linux

package command

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"footfall/process/needs"
	"footfall/process/processtest"
)

// foldedServer has two workers, then five that end at once, then none.
const foldedServer = `
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <unistd.h>

static void worker(int stays)
{
	if (fork())
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (stays)
		pause();
	_exit(0);
}

int main(void)
{
	worker(1), worker(1);
	close(creat("up", 0666));
	while (access("go", F_OK))
		usleep(5000);
	for (int i = 0; i < 5; i++)
		worker(0), wait(0);
	for (;;)
		pause();
}
`

// TestFoldedTitle: the screen of a family tells how many processes there are and how many have ended, in place of
// their pids.
func TestFoldedTitle(t *testing.T) {
	if !mayTrace() {
		needs.Skip(t, needs.Ptrace, "who follows processes")
	}
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	if err := os.WriteFile(filepath.Join(dir, "server.c"), []byte(foldedServer), 0o666); err != nil {
		t.Fatal(err)
	}
	start := func(cmd *exec.Cmd) {
		cmd.Dir = dir
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	compiler := exec.Command("gcc-12", "--coverage", "-w", "-o", "livefolded", "server.c")
	compiler.Dir = dir
	if out, err := compiler.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	start(exec.Command(filepath.Join(dir, "livefolded")))
	until(t, "the server is there", func() bool { _, err := os.Stat(filepath.Join(dir, "up")); return err == nil })

	ours, theirs := processtest.Terminal(t)
	footfall := exec.Command(os.Args[0])
	footfall.Args = []string{"footfall", "live", "livefolded", "--watch=50ms"}
	footfall.Env = append(os.Environ(), "TERM=xterm")
	footfall.Stdin, footfall.Stdout, footfall.Stderr = theirs, theirs, theirs
	footfall.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	start(footfall)
	screen := &written{}
	go screen.read(ours)
	shows := func(title string) {
		width := uint16(80)
		until(t, title, func() bool {
			if screen.has(title) {
				return true
			}
			// Only what has changed is written, but for another size.
			width ^= 32
			_ = unix.IoctlSetWinsize(int(ours.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: width})
			time.Sleep(200 * time.Millisecond)
			return false
		})
	}
	shows("livefolded, 3 processes")
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	shows("livefolded, 3 processes, 5 ended")
}

// written is what a program has written to its terminal.
type written struct {
	mu  sync.Mutex
	all []byte
}

func (w *written) read(terminal *os.File) {
	b := make([]byte, 4096)
	for {
		n, err := terminal.Read(b)
		if err != nil {
			return
		}
		w.mu.Lock()
		w.all = append(w.all, b[:n]...)
		w.mu.Unlock()
	}
}

func (w *written) has(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Contains(w.all, []byte(text))
}

// until waits for what comes sooner or later.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
	}
}
