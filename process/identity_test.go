//go:build linux

package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"footfall/process/needs"
)

// TestRootOfNamespace: what has mounts of its own has a file system of its own, also
// below the same directory.
func TestRootOfNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		needs.Skip(t, needs.Root, "who makes a mount namespace")
	}
	for flags, own := range map[uintptr]bool{0: false, syscall.CLONE_NEWNS: true} {
		cmd := exec.Command("cat")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p, err := Open(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if root := p.Root(); (root != "") != own {
			t.Errorf("namespace of its own %v: %q", own, root)
		}
		p.Close()
		in.Close()
		_ = cmd.Wait()
	}
}

// TestMappedIsThat: a file of another file system is another one, also with the same
// inode.
func TestMappedIsThat(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	device := fmt.Sprintf("%02x:%02x", st.Dev>>8&0xfff, st.Dev&0xff|st.Dev>>12&0xfff00)
	for _, c := range []struct {
		device string
		inode  uint64
		want   bool
	}{{device, st.Ino, true}, {device, st.Ino + 1, false}, {"fe:99", st.Ino, isStacked(f)}} {
		if is := (&MappedFile{device: c.device, inode: c.inode}).is(f); is != c.want {
			t.Errorf("%s %d: %v", c.device, c.inode, is)
		}
	}
}
