//go:build linux && (amd64 || arm64)

package process

import "testing"

// TestRuntimeIsWithin: a program is as static as it was when memory of ours is in it.
func TestRuntimeIsWithin(t *testing.T) {
	static := Maps{{Path: "/srv/program"}, {Path: "/memfd:" + MemoryPrefix + "code (deleted)"}, {Path: "[vdso]"}}
	dynamic := append(Maps{{Path: "/usr/lib/x86_64-linux-gnu/libc.so.6"}}, static...)
	if !runtimeIsWithin(static) || runtimeIsWithin(dynamic) {
		t.Errorf("%v, %v; want true, false", runtimeIsWithin(static), runtimeIsWithin(dynamic))
	}
}
