package input

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"footfall/proc/needs"
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
	for name, mode := range map[string]os.FileMode{public: 0o644, secret: 0o600, theirs: 0o600} {
		if err := os.WriteFile(name, []byte("text"), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(theirs, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	var none, nobodys, both Owners
	nobodys.Note(User{UID: nobody, GID: nobody})
	both.Note(User{UID: nobody, GID: nobody})
	both.Note(User{UID: 12345, GID: 12345})
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
	} {
		text, private, err := c.owners.ReadSource(c.name)
		if errors.Is(err, fs.ErrPermission) != c.denied || err != nil != c.denied || private != c.private || !c.denied && string(text) != "text" {
			t.Errorf("%s data, %s: %q, private %v, %v", c.what, filepath.Base(c.name), text, private, err)
		}
	}
	if f, err := Open(secret); err != nil {
		t.Errorf("root's rights are not back: %v", err)
	} else {
		f.Close()
	}
}
