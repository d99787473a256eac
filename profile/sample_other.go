//go:build !linux

package profile

import (
	"context"
	"fmt"
	"os/exec"

	"footfall/input"
	"footfall/process"
)

// RecordOptions say how to sample a process.
type RecordOptions struct {
	Frequency     int
	FramePointers bool
	Owners        *input.Owners
}

// Limits of the frequency.
const (
	MinFrequency = 1
	MaxFrequency = 20000
)

var errRecord = fmt.Errorf("profile of a program that runs: %w", process.ErrLinux)

// Record fails.
func Record(context.Context, int, RecordOptions) (*Profile, error) { return nil, errRecord }

// RecordCommand fails.
func RecordCommand(*exec.Cmd, RecordOptions) (p *Profile, exit error, failed error) {
	return nil, nil, errRecord
}
