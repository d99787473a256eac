//go:build linux

package input

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"footfall/process/needs"
)

const nobody = 65534

// TestReadSource reads sources that data of other users name, also where some file
// system is one for which a process answers.
func TestReadSource(t *testing.T) {
	looked, found := served.looked, served.found
	defer func() { served.looked, served.found = looked, found }()
	for _, served.found = range []bool{false, true} {
		served.looked = time.Now().Add(time.Hour)
		t.Run(fmt.Sprintf("served %v", served.found), testReadSource)
	}
}

func testReadSource(t *testing.T) {
	if os.Geteuid() != 0 {
		needs.Skip(t, needs.Root, "who may read what others may not")
	}
	dir := t.TempDir()
	for d := dir; d != filepath.Clean(os.TempDir()); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	public, secret, theirs := filepath.Join(dir, "public.c"), filepath.Join(dir, "secret.c"), filepath.Join(dir, "theirs.c")
	hidden := filepath.Join(dir, "hidden")
	if err := os.Mkdir(hidden, 0o700); err != nil {
		t.Fatal(err)
	}
	inHidden := filepath.Join(hidden, "public.c")
	for name, mode := range map[string]os.FileMode{public: 0o644, secret: 0o600, theirs: 0o600, inHidden: 0o644} {
		if err := errors.Join(os.WriteFile(name, []byte("text"), mode), os.Chmod(name, mode)); err != nil { // whatever the umask is
			t.Fatal(err)
		}
	}
	if err := os.Chown(theirs, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	// A process of root sees what root may read: data of others may name it.
	// It is in a directory that everybody may read, if he gets there.
	process := exec.Command("cat")
	process.Dir = filepath.Join(hidden, "open")
	if err := errors.Join(os.Mkdir(process.Dir, 0o755), os.Chmod(process.Dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	inOpen := filepath.Join(process.Dir, "public.c")
	if err := errors.Join(os.WriteFile(inOpen, []byte("text"), 0o644), os.Chmod(inOpen, 0o644)); err != nil {
		t.Fatal(err)
	}
	stdin, err := process.StdinPipe()
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer process.Wait()
	defer stdin.Close()
	seen := fmt.Sprintf("/proc/%d/root", process.Process.Pid)
	memory, err := unix.MemfdCreate("secret", 0)
	if err != nil {
		t.Fatal(err)
	}
	inMemory := os.NewFile(uintptr(memory), "secret")
	defer inMemory.Close()
	if _, err := inMemory.WriteString("text"); err != nil {
		t.Fatal(err)
	}
	var none, nobodys, both, shown Owners
	nobodys.Note(User{UID: nobody, GID: nobody})
	both.Note(User{UID: nobody, GID: nobody})
	both.Note(User{UID: 12345, GID: 12345})
	shown.NoteProcess(process.Process.Pid, User{UID: nobody, GID: nobody})
	for _, c := range []struct {
		what    string
		owners  *Owners
		name    string
		private bool
		denied  bool
	}{
		{"root's own", &none, secret, true, false},
		{"root's own", &none, public, false, false},
		{"another user's", &nobodys, secret, false, true},
		{"another user's", &nobodys, public, false, false},
		{"another user's", &nobodys, theirs, true, false},
		{"of two users", &both, theirs, false, true},
		{"another user's", &nobodys, inHidden, false, true},
		{"root's own", &none, seen + secret, true, false},
		{"root's own", &none, seen + inHidden, false, false},
		{"another user's", &nobodys, seen + secret, false, true},
		{"another user's", &nobodys, seen + inHidden, false, true},
		{"another user's", &nobodys, seen + public, false, true},
		{"of a process that is shown,", &shown, seen + public, false, false},
		{"of a process that is shown,", &shown, seen + secret, false, true},
		{"of a process that is shown,", &shown, seen + inHidden, false, true},
		{"of a process that is shown,", &shown, seen + theirs, true, false},
		{"of two users", &both, seen + theirs, false, true},
		{"root's own", &none, fmt.Sprintf("/proc/%d/cwd/public.c", process.Process.Pid), true, false},
		{"another user's", &nobodys, fmt.Sprintf("/proc/%d/cwd/public.c", process.Process.Pid), false, true},
		{"root's own", &none, fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), memory), true, false},
		{"another user's", &nobodys, fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), memory), false, true},
		{"another user's", &nobodys, fmt.Sprintf("/proc/%d/maps", os.Getpid()), false, true},
		{"another user's", &nobodys, "/proc/kallsyms", false, true},
	} {
		text, private, err := c.owners.ReadSource(c.name)
		if errors.Is(err, fs.ErrPermission) != c.denied || err != nil != c.denied || private != c.private || !c.denied && string(text) != "text" {
			t.Errorf("%s data, %s: %q, private %v, %v", c.what, c.name, text, private, err)
		}
		f, err := c.owners.OpenNamed(c.name)
		if err == nil {
			f.Close()
		}
		if errors.Is(err, fs.ErrPermission) != c.denied || err != nil != c.denied {
			t.Errorf("%s data, %s is opened: %v", c.what, c.name, err)
		}
	}
	if f, err := Open(secret); err != nil {
		t.Errorf("root's rights are not back: %v", err)
	} else {
		f.Close()
	}
}
