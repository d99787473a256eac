//go:build linux && !amd64

package process

// restartInterrupted does nothing: on arm64 the kernel has decided that a system call ends
// before its thread stops.
func restartInterrupted(int) bool { return false }

// isFragile is for system calls that a stop ends, of which nothing is known here.
func isFragile(int) bool { return false }

// forksAsLibrary is not known here: most do.
func forkOf(int) Fork { return Fork{ByLibrary: true} }
