//go:build linux && !amd64 && !arm64

package process

// UserRegisters and the mask are zero where stacks are not copied: the code of
// such a CPU keeps frame pointers.
const (
	UserRegisters = 0
	registerMask  = 0
)

// CanStop is false where footfall cannot read registers.
const CanStop = false

const sampleFP, sampleSP, samplePC = 0, 0, 0

func sampleRegisters(int) ([]uint64, bool, error) { return nil, false, errCPU }

func (t *tracee) systemCall([]byte, uintptr, func(uint64) []uint64) (uint64, error) {
	return 0, errCPU
}
