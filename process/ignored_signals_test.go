//go:build linux

package process

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestIgnored: a program that is started ignores what its parent's parent does. A test
// has no symbols of its variables, so a program of its own is built.
func TestIgnored(t *testing.T) {
	launches := filepath.Join(t.TempDir(), "launches")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", launches, "./testdata/launches").CombinedOutput(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	ignored := func(launcher string) string {
		out, err := exec.Command("sh", "-c", "trap '' HUP QUIT PIPE TERM USR1; exec "+launcher+" grep SigIgn /proc/self/status").Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if got, want := ignored(launches), ignored(""); got != want {
		t.Errorf("it ignores %s without us %s", got, want)
	}
}
