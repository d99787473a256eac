//go:build linux

package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// unifiedHierarchies are where the cgroups of version 2 are: alone, or beside those of version 1.
var unifiedHierarchies = []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}

// checkFrozen returns an error for a process that is in a frozen cgroup of version 2 (cgroup.freeze). Its threads stop for a
// tracer, but make no system call for it until the cgroup is thawed.
func checkFrozen(pid int) error {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return nil // whoever looks for it next will say so
	}
	for line := range strings.Lines(string(b)) {
		path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::/")
		if !ok {
			continue
		}
		for _, mount := range unifiedHierarchies {
			events, err := os.ReadFile(filepath.Join(mount, path, "cgroup.events"))
			if err == nil && strings.Contains(string(events), "frozen 1\n") {
				return fmt.Errorf("process %d: its cgroup /%s is frozen: thaw it first (0 into its cgroup.freeze, or its parent's)", pid, path)
			}
		}
	}
	return nil
}
