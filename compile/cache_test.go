//go:build linux

package compile

import (
	"os/exec"
	"testing"

	"footfall/process/needs"
)

// TestRuntimeIsKept looks by what the runtime's object is kept: all that it is compiled with, and nothing else. One that
// another footfall has compiled for a processor that has more must not be taken.
func TestRuntimeIsKept(t *testing.T) {
	gcc, err := exec.LookPath("gcc-12")
	if err != nil {
		needs.Skip(t, needs.Tools, err)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	kept := func(flags ...string) string {
		object, err := cachedRuntime(gcc, flags)
		if err != nil {
			t.Fatal(err)
		}
		return object
	}
	all := kept()
	if got := kept("-mavx512bw", "-mregparm=3"); got != all {
		t.Errorf("flags that the runtime is not compiled with: %s, without them %s", got, all)
	}
	for _, flag := range []string{"-mcmodel=large", "-DFOOTFALL_X=1"} {
		if got := kept(flag); got == all {
			t.Errorf("%s: the same object as without", flag)
		}
	}
}
