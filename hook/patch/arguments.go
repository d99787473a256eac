//go:build linux

package patch

import (
	"errors"
	"fmt"
	"footfall/trace"
)

const (
	maxArguments = 8
	stringSize   = 48 // what is recorded of a string
	maxWords     = 60

	minArgumentsRing = 1 << 16
)

// CheckArguments returns an error if so many cannot be recorded.
func CheckArguments(arguments []trace.Capture) error {
	words := 0
	for _, a := range arguments {
		words++
		if a.Kind == trace.CaptureString {
			words += 1 + stringSize/8
		}
		if limit := map[trace.CaptureKind]int{trace.CaptureWord: 15, trace.CaptureString: 15, trace.CaptureFloat: 7}[a.Kind]; a.Index < 0 || a.Index > limit {
			return fmt.Errorf("argument %d: there can be %d", a.Index+1, limit+1)
		}
	}
	if len(arguments) > maxArguments {
		return fmt.Errorf("%d arguments: there can be %d", len(arguments), maxArguments)
	}
	if words > maxWords {
		return errors.New("so many strings cannot be recorded: there can be 7")
	}
	return nil
}

// description encodes the arguments of a site as trampoline/amd64.S and arm64.S want it.
func (s *Session) description(site *EntrySite) uint64 {
	if !s.options.Arguments || CheckArguments(site.Arguments) != nil || s.options.Mode != trace.Entries && s.options.Mode != trace.Filtered {
		return 0
	}
	v := uint64(0)
	for i, a := range site.Arguments {
		v |= uint64(uint8(a.Kind)<<4|uint8(a.Index)) << (8 * i)
	}
	return v
}
