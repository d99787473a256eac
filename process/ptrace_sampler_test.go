//go:build linux

package process

import (
	"bufio"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"footfall/process/needs"
	"footfall/process/processtest"
)

// Threads begin and end all the time; each works with memory below its stack
// pointer (in its red zone) and with all its registers.
const threadsProgram = `#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static int bad;
static void *work(void *p)
{
	unsigned long sum = 0, want = 0;
	double half = 0;
	for (int i = 0; i < 3000; i++) {
		sum += (unsigned long)i * (i ^ 5);
		half += i * 0.5;
	}
	for (int i = 2999; i >= 0; i--)
		want += (unsigned long)i * (i ^ 5);
	if (sum != want || half != 2999 * 3000 / 4.0)
		__atomic_add_fetch(&bad, 1, __ATOMIC_RELAXED);
	return p;
}
int main(void)
{
	alarm(600);
	puts("begun");
	fflush(stdout);
	for (int round = 0; round < 1000; round++) {
		pthread_t t[4];
		for (int i = 0; i < 4; i++)
			if (pthread_create(&t[i], 0, work, &bad))
				return 3;
		for (int i = 0; i < 4; i++)
			if (pthread_join(t[i], 0))
				return 3;
	}
	printf("end: %d bad\n", bad);
	return 0;
}
`

// TestStopSamplerKilled kills footfalls while threads make their timers for them:
// the program goes on.
func TestStopSamplerKilled(t *testing.T) {
	if program := os.Getenv("PROC_SAMPLED"); program != "" {
		cmd := exec.Command(program)
		cmd.Stdout = os.Stdout
		s, err := RunSampled(cmd, SampleOptions{Frequency: 999, Stack: 1024})
		if err != nil {
			t.Fatal(err)
		}
		s.Stop()
		return
	}
	if !CanStop {
		t.Skip("registers of other processes: only on x86-64 and arm64")
	}
	if testing.Short() {
		t.Skip("takes seconds")
	}
	program := processtest.Compile(t, threadsProgram, "-O1", "-pthread")
	for range 10 {
		if end := killed(t, "PROC_SAMPLED="+program, 30*time.Millisecond); !strings.HasPrefix(end, "end: 0 bad") {
			t.Fatalf("after a kill the program says %q", end)
		}
	}
}

// killed runs the test again, which starts another program there, kills it some time
// after that has said that it has begun, and returns what the program says then.
func killed(t *testing.T, variable string, most time.Duration) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), variable)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	switch line, err := lines.ReadString('\n'); {
	case line == "PASS\n": // it has skipped the test
		needs.Skip(t, needs.Ptrace, "the system allows none")
	case err != nil || line != "begun\n":
		_ = cmd.Process.Kill()
		t.Fatalf("the other process says %q, %v", line, err)
	}
	time.Sleep(rand.N(most))
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.Process.Wait(); err != nil {
		t.Fatal(err)
	}
	end, err := lines.ReadString('\n')
	if err != nil {
		t.Errorf("after a kill: %v", err)
	}
	return end
}
