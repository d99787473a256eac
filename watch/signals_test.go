//go:build linux

package watch

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"footfall/coverage"
	"footfall/process/processtest"
)

// inWatch is set where the test runs as the program that a signal ends.
const inWatch = "FOOTFALL_TEST_WATCH"

// A signal that ends the watch leaves the terminal as it was.
func TestTerminalIsGivenBack(t *testing.T) {
	if os.Getenv(inWatch) != "" {
		next := func() (*coverage.Set, error) { return counted{[]int64{1}, []int64{0}}.set(), nil }
		if err := Run(context.Background(), Source{Title: "server", Next: next}, Options{}); err != nil {
			t.Fatal(err)
		}
		os.Exit(0) // -race finds that the library closes its input while it may still be asked for its number
	}
	for _, signal := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGTERM} {
		t.Run(unix.SignalName(signal), func(t *testing.T) {
			ours, theirs := processtest.Terminal(t)
			before, err := unix.IoctlGetTermios(int(theirs.Fd()), unix.TCGETS)
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(os.Args[0], "-test.run=^TestTerminalIsGivenBack$")
			cmd.Env = append(os.Environ(), inWatch+"=1", "TERM=xterm", "GORACE=exitcode=0")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			timer := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
			defer timer.Stop()
			seen := newScreen(ours)
			seen.wait(t, "\x1b[?1049h") // the other screen
			seen.wait(t, "server")
			if now, err := unix.IoctlGetTermios(int(theirs.Fd()), unix.TCGETS); err != nil || *now == *before {
				t.Errorf("the watch has not changed the terminal: %v", err)
			}
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("ended with %v", err)
			}
			seen.wait(t, "\x1b[?1049l")
			seen.wait(t, "\x1b[?25h") // the cursor
			if now, err := unix.IoctlGetTermios(int(theirs.Fd()), unix.TCGETS); err != nil || *now != *before {
				t.Errorf("the terminal was %+v, is %+v, %v", before, now, err)
			}
		})
	}
}

// A shownScreen is what a program has written to its terminal.
type shownScreen struct {
	pieces chan []byte
	all    []byte
}

func newScreen(terminal *os.File) *shownScreen {
	s := &shownScreen{pieces: make(chan []byte, 1000)}
	go func() {
		for {
			b := make([]byte, 4096)
			n, err := terminal.Read(b)
			if err != nil {
				return
			}
			s.pieces <- b[:n]
		}
	}()
	return s
}

// wait waits until a text has been written.
func (s *shownScreen) wait(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(time.Minute)
	for !bytes.Contains(s.all, []byte(text)) {
		select {
		case b := <-s.pieces:
			s.all = append(s.all, b...)
		case <-deadline:
			t.Fatalf("no %q in %q", text, s.all)
		}
	}
}
