//go:build linux && !amd64

package proc

// UserRegisters and the mask are zero where stacks are not copied: the code of
// such a CPU keeps frame pointers.
const (
	UserRegisters = 0
	registerMask  = 0
)
