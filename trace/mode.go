package trace

// A Mode is what is recorded of calls.
type Mode uint8

// Modes, by what they cost.
const (
	Counts   Mode = iota + 1 // how many there are
	Chains                   // chains of callers, and how often each called
	Entries                  // an event for each entry
	Exits                    // an event for each entry and exit
	Filtered                 // the same, of calls that a Filter lets pass
)

// HasExits tells whether there are events for exits.
func (m Mode) HasExits() bool { return m == Exits || m == Filtered }

// A Chain is callers that reached a function, and how often.
type Chain struct {
	Addresses []uint64 // where they return to, the nearest caller first
	Count     uint64
}

// A CaptureKind is what of an argument is recorded.
type CaptureKind uint8

// Kinds, as trampolines have them.
const (
	CaptureWord   CaptureKind = iota + 1 // an integer or pointer: a word
	CaptureString                        // the pointer, and where it points
	CaptureFloat                         // a word
)

// A Capture is an argument of a function that is recorded with its calls: the payload of
// their events. What it is called, and how it is written, is an [Argument].
type Capture struct {
	Kind CaptureKind
	// Index counts from 0: integers and pointers those that are in registers,
	// up to 5 (arm64: 7), then the words on the stack, up to 15; floats those in
	// registers, up to 7.
	Index int
}
