//go:build linux

package process

import "golang.org/x/sys/unix"

// KernelRelease is that of the kernel that runs, as uname -r prints it; "" if it is not
// known.
func KernelRelease() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}
