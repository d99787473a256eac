//go:build linux

package process

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"footfall/process/needs"
)

// TestFrozen: what is frozen is refused at once, and not waited for.
func TestFrozen(t *testing.T) {
	if os.Geteuid() != 0 {
		needs.Skip(t, needs.Root, "cgroups")
	}
	var group string
	for _, mount := range unifiedHierarchies {
		if _, err := os.Stat(filepath.Join(mount, "cgroup.controllers")); err == nil {
			group = filepath.Join(mount, "footfall-"+strconv.Itoa(os.Getpid()))
		}
	}
	if group == "" {
		t.Skip("there are no cgroups of version 2")
	}
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("cgroups of version 2 cannot be made: %v", err)
	}
	set := func(name, value string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(group, name), []byte(value), 0); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { // when all in it have ended
		for end := time.Now().Add(time.Minute); os.Remove(group) != nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
		}
	})
	_, p := sleeping(t)
	needStopping(t, p)
	t.Cleanup(func() { set("cgroup.freeze", "0") })
	set("cgroup.procs", strconv.Itoa(p.PID))
	stop := func() error { return p.WhileStopped(func() error { return nil }) }
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	set("cgroup.freeze", "1")
	for checkFrozen(p.PID) == nil {
		time.Sleep(time.Millisecond)
	}
	if err := stop(); err == nil || !strings.Contains(err.Error(), "is frozen: thaw it first") {
		t.Errorf("a frozen process: %v", err)
	}
	set("cgroup.freeze", "0")
	for checkFrozen(p.PID) != nil {
		time.Sleep(time.Millisecond)
	}
	if err := stop(); err != nil {
		t.Errorf("a thawed process: %v", err)
	}
}
