//go:build linux && amd64

package proc

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// started compiles a program of C and starts it; it has written the first line then.
func started(t *testing.T, source string, flags ...string) (p *Process, line string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program.c")
	program := strings.TrimSuffix(file, ".c")
	if err := os.WriteFile(file, []byte(source), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc-12", append(flags, "-O1", "-w", "-o", program, file)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err = bufio.NewReader(pipe).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if p, err = Open(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	needStopping(t, p)
	return p, strings.TrimSpace(line)
}

// TestBorrowSequence borrows a thread in a restartable sequence, which is begun anew
// then. A thread that is only stopped stays where it is.
func TestBorrowSequence(t *testing.T) {
	p, line := started(t, `
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/rseq.h>
#include <unistd.h>
int main(void)
{
	struct rseq *r = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
	puts(__rseq_size ? "ready" : "no rseq here");
	fflush(stdout);
	alarm(600);
	__asm__ volatile(
		".pushsection __rseq_cs, \"aw\"\n.balign 32\n9: .long 0, 0\n.quad 2f, 3f - 2f, 4f\n.popsection\n"
		"1: lea 9b(%%rip), %%rax\nmov %%rax, 8(%0)\n"
		"2: xor %%ecx, %%ecx\n5: jmp 5b\n"
		"3: movq $0, 8(%0)\njmp 6f\n"
		".byte 0x0f, 0xb9, 0x3d\n.long 0x53053053\n4: mov $0x5eed, %%ecx\njmp 1b\n6:\n"
		:: "r"(r) : "rax", "rcx", "memory");
}
`)
	if line != "ready" {
		t.Skip("the system has no restartable sequences")
	}
	again := 0
	for end := time.Now().Add(10 * time.Second); again < 20 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		err := p.WhileHeld(func(h *Held) error {
			before, err := h.registers(p.PID)
			if err != nil {
				return err
			}
			var code [2]byte
			if _, err := p.ReadAt(code[:], int64(before.Rip)); err != nil || code != [2]byte{0xeb, 0xfe} {
				return err // it has not come to the loop
			}
			if _, err := h.SystemCall(unix.SYS_GETPID); err != nil {
				return err
			}
			after, err := h.registers(p.PID)
			if err != nil {
				return err
			}
			if _, err := p.ReadAt(code[:], int64(after.Rip)); err != nil {
				return err
			}
			if code[0] != 0xb9 { // mov $0x5eed, %ecx
				t.Errorf("it goes on at %#x, it was at %#x", after.Rip, before.Rip)
			}
			again++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if again < 20 {
		t.Errorf("it was in its sequence %d times", again)
	}
}

// TestBorrowStopped sends SIGSTOP while a thread is borrowed, which stops the process
// when it is let go, unless SIGCONT comes as well.
func TestBorrowStopped(t *testing.T) {
	p, _ := started(t, `
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *work(void *p) { for (;;) usleep(100); }
int main(void) { pthread_t t; pthread_create(&t, 0, work, 0); puts("ready"); fflush(stdout); alarm(600); for (;;) pause(); }
`, "-pthread")
	state := func() byte {
		b, err := p.read("status")
		if err != nil {
			t.Fatal(err)
		}
		_, s, _ := strings.Cut(string(b), "\nState:\t")
		return s[0]
	}
	for range 5 {
		for _, signals := range [][]unix.Signal{{unix.SIGSTOP}, {unix.SIGSTOP, unix.SIGCONT}} {
			err := p.WhileHeld(func(h *Held) error {
				for _, s := range signals {
					if err := unix.Kill(p.PID, s); err != nil {
						return err
					}
					if _, err := h.SystemCall(unix.SYS_GETPID); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			stops := len(signals) == 1
			for end := time.Now().Add(10 * time.Second); (state() == 'T') != stops && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			if s := state(); (s == 'T') != stops {
				t.Fatalf("after %v its state is %c", signals, s)
			}
			_ = unix.Kill(p.PID, unix.SIGCONT)
			for state() == 'T' {
				time.Sleep(time.Millisecond)
			}
		}
	}
}
