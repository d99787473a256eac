//go:build linux

package process

import (
	"bytes"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestFirstThreadEnds opens a process before its main ends by pthread_exit: its id stays what
// it is, and its memory can be read.
func TestFirstThreadEnds(t *testing.T) {
	p, _ := started(t, `
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static void *wait(void *p) { for (;;) pause(); }
static void end(int s) { pthread_exit(0); }
int main(void)
{
	pthread_t t;
	signal(SIGUSR1, end);
	pthread_create(&t, 0, wait, 0);
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}`, "-fexceptions", "-pthread")
	maps, _, err := p.Maps()
	if err != nil {
		t.Fatal(err)
	}
	before := make([]byte, 64)
	if _, err := p.ReadAt(before, int64(maps[0].Start)); err != nil {
		t.Fatal(err)
	}
	if err := unix.Tgkill(p.PID, p.PID, unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if st, err := p.statOf("stat"); err != nil || time.Now().After(end) {
			t.Fatal("main does not end: ", err)
		} else if st.state == 'Z' {
			break
		}
	}
	after := make([]byte, 64)
	if _, err := p.ReadAt(after, int64(maps[0].Start)); err != nil || !bytes.Equal(before, after) {
		t.Errorf("memory: %v", err)
	}
	if _, _, err := p.Maps(); err != nil {
		t.Errorf("maps: %v", err)
	}
	if own, err := p.OwnPID(); err != nil || own != p.PID {
		t.Errorf("its own id is %d, %v; want %d", own, err, p.PID)
	}
	if living := p.LivingThread(); living == p.PID || living == 0 {
		t.Errorf("thread %d lives", living)
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
}
