//go:build linux

package command

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// A script may take this long: the longest takes a minute, under the race detector on a busy machine some more.
const scriptLimit = 10 * time.Minute

// endStuck ends the processes of a script that takes longer than scriptLimit, so that it fails and the others go
// on: scripts wait for what a program says, or for footfall to write something. It prints what they were doing;
// footfall prints its goroutines at SIGQUIT. Also what a script leaves running that has failed ends: its end waits for
// whoever has its output open.
func endStuck(env *testscript.Env) {
	timer := time.AfterFunc(scriptLimit, func() {
		pids := processesIn(env.WorkDir)
		fmt.Printf("%s takes longer than %v; its processes:\n", filepath.Base(env.WorkDir), scriptLimit)
		for _, pid := range pids {
			command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			waits, _ := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", pid))
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			_, state, _ := bytes.Cut(status, []byte("State:\t"))
			state, _, _ = bytes.Cut(state, []byte("\n"))
			fmt.Printf("%d %s, %s, in %s\n", pid, bytes.ReplaceAll(bytes.TrimRight(command, "\x00"), []byte{0}, []byte{' '}), state, waits)
		}
		for _, signal := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGKILL} {
			for _, pid := range processesIn(env.WorkDir) {
				syscall.Kill(pid, signal)
			}
			time.Sleep(2 * time.Second)
		}
	})
	env.Defer(func() {
		timer.Stop()
		for end := time.Now().Add(5 * time.Second); ; time.Sleep(100 * time.Millisecond) {
			signal := syscall.SIGTERM // footfall puts back what it has changed
			if time.Now().After(end) {
				signal = syscall.SIGKILL
			}
			left := processesIn(env.WorkDir)
			for _, pid := range left {
				syscall.Kill(pid, signal)
			}
			if len(left) == 0 || signal == syscall.SIGKILL {
				return
			}
		}
	})
}

// processesIn returns the processes that were started by the script in dir, or work there.
func processesIn(dir string) []int {
	var pids []int
	environments, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range environments {
		of := filepath.Dir(name)
		data, _ := os.ReadFile(name)
		works, _ := os.Readlink(filepath.Join(of, "cwd"))
		if !bytes.Contains(append([]byte{0}, data...), []byte("\x00WORK="+dir+"\x00")) && works != dir && !strings.HasPrefix(works, dir+"/") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(of)); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}
