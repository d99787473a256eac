//go:build linux

package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

func TestInCgroup(t *testing.T) {
	const id = "6f9c0d1e2f3a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4"
	for _, c := range []struct {
		text, name string
		is         bool
	}{
		{"0::/system.slice/nginx.service\n", "nginx.service", true},
		{"0::/system.slice/nginx.service\n", "/system.slice/nginx.service", true},
		{"0::/system.slice/nginx.service\n", "/sys/fs/cgroup/system.slice", true},
		{"0::/system.slice/nginx.service\n", "system.slice", true},
		{"0::/system.slice/nginx.service\n", "nginx", false},
		{"0::/system.slice/nginx.service\n", "/system.slice/ngin", false},
		{"0::/system.slice/nginx.service/worker\n", "nginx.service", true},
		{"0::/\n", "nginx.service", false},
		{"12:memory:/docker/" + id + "\n0::/\n", id[:12], true},
		{"0::/system.slice/docker-" + id + ".scope\n", id[:12], true},
		{"0::/system.slice/docker-" + id + ".scope\n", id, true},
		{"0::/system.slice/docker-" + id + ".scope\n", id[:8], false},
		{"0::/system.slice/docker-" + id + ".scope\n", "docker-" + id + ".scope", true},
		{"no line of a cgroup\n", "x", false},
		{"", "x", false},
	} {
		if is := inCgroup(c.text, c.name); is != c.is {
			t.Errorf("%q in %q: %v", c.text, c.name, is)
		}
	}
}

func TestParseSelector(t *testing.T) {
	for text, kind := range map[string]selectorKind{
		"4711": byPID, "4711+": byAncestor, "g++": byName, "redis-server": byName, "post*": byName, "/bin/sh": byPath, "./x": byPath,
		"cgroup:web": byCgroup, "unit:nginx": byCgroup, "nginx.service": byCgroup, "/x/nginx.service": byPath, ".service": byName, "-5": byName,
	} {
		s, err := ParseSelector(text)
		if err != nil || s.kind != kind || s.String() != text {
			t.Errorf("%s: %+v, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "cgroup:", "cgroup:/", "unit:", "[a"} {
		if s, err := ParseSelector(text); err == nil {
			t.Errorf("%q: %+v", text, s)
		}
	}
	if s, _ := ParseSelector("unit:nginx"); s.pattern != "nginx.service" {
		t.Error(s.pattern)
	}
}

func TestSelect(t *testing.T) {
	dir := t.TempDir()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("no program sleep")
	}
	text, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "foot-fall-sleeper-of-a-long-name")
	if err := os.WriteFile(name, text, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	pid := cmd.Process.Pid
	for text, is := range map[string]bool{
		strconv.Itoa(pid): true, strconv.Itoa(pid) + "+": true, strconv.Itoa(os.Getpid()) + "+": true,
		filepath.Base(name): true, filepath.Base(name)[:15]: true, "foot-fall-sleep*": true, name: true, dir + "/*": true,
		"foot-fall": false, "/nowhere/" + filepath.Base(name): false, "cgroup:no-such-cgroup": false,
	} {
		s, err := ParseSelector(text)
		if err != nil {
			t.Fatal(err)
		}
		if s.Selects(pid) != is {
			t.Errorf("%s selects it: %v", text, !is)
		}
		found, err := s.Find()
		if slices.Contains(found, pid) != is || (err == nil) != (len(found) > 0) {
			t.Errorf("%s: %v, %v", text, found, err)
		}
	}
}
