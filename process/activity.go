//go:build linux

package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// Activity tells how long the threads of the process have run so far, and whether all of them wait for something. A thread that
// waits and has run no longer at a second look has not run in between.
func (p *Process) Activity() (ran time.Duration, sleeps bool, err error) {
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.PID))
	if err != nil {
		return 0, false, err
	}
	sleeps = true
	for _, name := range names {
		dir := "task/" + name.Name()
		st, err := p.statOf(dir + "/stat")
		if err != nil || st.hasEnded() {
			continue
		}
		sleeps = sleeps && st.state == 'S'
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s/schedstat", p.PID, dir)) // proc(5): nanoseconds on a processor, ...
		if err != nil {
			return 0, false, err
		}
		used, _, _ := bytes.Cut(b, []byte(" "))
		n, err := strconv.ParseInt(string(used), 10, 64)
		if err != nil {
			return 0, false, err
		}
		ran += time.Duration(n)
	}
	return ran, sleeps, nil
}

// BytesWritten is how much the process has handed over to be written since it was made, whatever program it was then. It is
// false where the kernel does not tell.
func (p *Process) BytesWritten() (n int64, known bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", p.PID))
	if err != nil {
		return 0, false
	}
	_, text, _ := bytes.Cut(b, []byte("wchar: "))
	text, _, _ = bytes.Cut(text, []byte("\n"))
	n, err = strconv.ParseInt(string(text), 10, 64)
	return n, err == nil
}
