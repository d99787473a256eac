package patch

import (
	"errors"
	"fmt"
)

// An ArgumentKind is what of an argument is recorded.
type ArgumentKind uint8

// Kinds, as the trampoline has them.
const (
	Value  ArgumentKind = iota + 1 // an integer or pointer: a word
	String                         // the pointer, and where it points: see ReadString
	Float                          // a word
)

// An Argument of a function is recorded with its calls.
type Argument struct {
	Kind ArgumentKind
	// Index counts from 0: integers and pointers those that are in registers,
	// up to 5 (arm64: 7), then the words on the stack, up to 15; floats those in
	// registers, up to 7.
	Index int
}

const (
	maxArguments = 8
	stringSize   = 48 // what is recorded of a string
	maxWords     = 60

	minArgumentsRing = 1 << 16
)

// CheckArguments returns an error if so many cannot be recorded.
func CheckArguments(arguments []Argument) error {
	words := 0
	for _, a := range arguments {
		words++
		if a.Kind == String {
			words += 1 + stringSize/8
		}
		if limit := map[ArgumentKind]int{Value: 15, String: 15, Float: 7}[a.Kind]; a.Index < 0 || a.Index > limit {
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
func (s *Session) description(site *Site) uint64 {
	if !s.options.Arguments || CheckArguments(site.Arguments) != nil || s.options.Mode != Entries && s.options.Mode != Filtered {
		return 0
	}
	v := uint64(0)
	for i, a := range site.Arguments {
		v |= uint64(uint8(a.Kind)<<4|uint8(a.Index)) << (8 * i)
	}
	return v
}
