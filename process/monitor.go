//go:build linux

package process

import (
	"os"
	"strconv"
	"strings"
	"sync"
)

// monitorSlack is how much later than it asked for Go's monitor may wake up, in nanoseconds, while a thread waits for stops. The
// monitor takes away the right to run Go code from a thread that is in the kernel, and then looks every 20 µs whether there is more
// to take: with stops again and again it took a quarter of all that footfall did. What it does besides, to
// interrupt goroutines that run for 10 ms, can be that much later.
const monitorSlack = 20_000_000

// calmed are those who want the monitor to be slow, and what its slack was.
var calmed struct {
	sync.Mutex
	users  int
	before string
}

// calmMonitor has Go's monitor wake up seldom until the function that it returns is called; false: it may not.
func calmMonitor() (ended func(), calm bool) {
	calmed.Lock()
	defer calmed.Unlock()
	file := slackOfMonitor()
	if calmed.users == 0 {
		before, err := os.ReadFile(file)
		if err != nil || os.WriteFile(file, strconv.AppendInt(nil, monitorSlack, 10), 0) != nil { // it takes CAP_SYS_NICE
			return nil, false
		}
		calmed.before = strings.TrimSpace(string(before))
	}
	calmed.users++
	return func() {
		calmed.Lock()
		defer calmed.Unlock()
		if calmed.users--; calmed.users == 0 {
			_ = os.WriteFile(file, []byte(calmed.before), 0)
		}
	}, true
}

// slackOfMonitor is the file of that thread's slack, "" if it is not known. It is the first that Go makes, and the kernel
// lists threads as they were made.
func slackOfMonitor() string {
	dir, err := os.Open("/proc/self/task")
	if err != nil {
		return ""
	}
	defer dir.Close()
	tids, err := dir.Readdirnames(2)
	if err != nil || len(tids) < 2 {
		return ""
	}
	return "/proc/" + tids[1] + "/timerslack_ns"
}
