//go:build linux

package record

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"footfall/process"
	"footfall/trace"
)

// A Backend is one way into functions: it has calls of some functions of a program recorded,
// by whatever switches them on. It knows nothing of outputs, of other programs, and of other
// ways into functions of the same program.
//
// It records from when it is opened until Stop; what it has changed in the program, or in
// the kernel, is as before after that. Its methods are not called at the same time.
type Backend interface {
	// Way tells which one it is.
	Way() Way
	// Add has further functions recorded, and returns how many of them can be.
	Add([]TracedFunction) (int, error)
	// Switch has exactly these functions recorded, from one moment on, and returns how many
	// it has switched on and off for that.
	Switch([]TracedFunction) (on, off int, err error)
	// On returns how many functions are recorded.
	On() int
	// SetFilter changes the filter, with mode Filtered.
	SetFilter(trace.Filter) error

	// Read gives the events that there are, those of each thread in their order, which are
	// only valid until give returns. Their times are nanoseconds of the recording. With
	// settings.newest it gives nothing before Stop, with Counts and Chains never anything.
	Read(give func(process.ThreadStatus, []trace.Event)) (int, error)
	// Counts returns, with mode Counts, how often functions were called, by their numbers.
	Counts() (map[int32]uint64, error)
	// Chains returns, with mode Chains, who called, the most frequent first.
	Chains() ([]trace.Chain, error)

	// Maintain is to be called now and then, after Read: it makes room for new threads.
	Maintain() error
	// Stop puts everything back. What was recorded can still be read.
	Stop() error
	// Lost tells which calls are not in what was recorded.
	Lost() losses
	// Children tells, after Stop, how many children made by fork have recorded, and how many
	// others there were.
	Children() (recorded, others int)
	// Close is Stop, and lets go of the program.
	Close() error
}

// A Way is how functions become events.
type Way int

// Ways, in the order in which they are preferred for a function that several can serve.
const (
	Sites   Way = iota // code in the program, at functions with room for a jump
	Moved              // the same, at functions whose first instructions can be moved; their backend is that of Sites
	Uprobes            // the kernel's breakpoints, at any function
	Kernel             // the kernel's own tracers, of its own functions
)

// wayTable is what differs between ways but for their work.
var wayTable = [...]struct {
	name string
	// wait is for how long nothing is read after a read that brought nothing, or with always
	// after each.
	wait   time.Duration
	always bool
	// settled is how late an event can be read: what writes it can be interrupted.
	settled time.Duration
}{
	Sites:   {name: "sites", wait: 200 * time.Microsecond},
	Moved:   {name: "moved"},
	Uprobes: {name: "uprobes", wait: time.Millisecond, settled: 20 * time.Millisecond},
	Kernel:  {name: "kernel", wait: 20 * time.Millisecond, always: true}, // reading is traced, too
}

func (w Way) String() string { return wayTable[w].name }

// WayNames are the names of the ways into functions of programs.
func WayNames() []string { return []string{Sites.String(), Moved.String(), Uprobes.String()} }

// CheckWay tells what is wrong with a name of Options.Ways.
func CheckWay(name string) error {
	_, err := parseWays([]string{name})
	return err
}

// ways are those that are permitted.
type ways []Way

func (w ways) has(way Way) bool { return slices.Contains(w, way) }

// jump tells whether code is put into programs.
func (w ways) jump() bool { return w.has(Sites) || w.has(Moved) }

// parseWays reads names; none permit all.
func parseWays(names []string) (ways, error) {
	if len(names) == 0 {
		return ways{Sites, Moved, Uprobes}, nil
	}
	var all ways
	for _, name := range names {
		i := slices.Index(WayNames(), name)
		if i < 0 {
			return nil, fmt.Errorf("--way %q: there are %s", name, strings.Join(WayNames(), ", "))
		}
		all = append(all, Way(i))
	}
	return all, nil
}

// A loss is a reason why calls are not in a recording.
type loss int

const (
	dropped     loss = iota // they came faster than they were read; the outputs say that
	uncounted               // dropped where calls are counted
	placeless               // threads found no place in the process
	pointerless             // threads could not be told apart
	exitless                // there was no room for what sees an exit
	crowded                 // threads found no place in the kernel
	forgotten               // threads, of which others took the place
	damaged                 // recordings that the program has written over
	manyLosses
)

// losses are how many calls are missing, by the reason.
type losses [manyLosses]uint64

func (l *losses) add(more losses) {
	for i, n := range more {
		l[i] += n
	}
}

// lossTexts say it of one and of more, with a number before them in place of %s.
var lossTexts = [manyLosses]struct{ text, one, more string }{
	uncounted:   {"%s not counted: there was no room", "call was", "calls were"},
	placeless:   {"%s not recorded: more than 1024 threads at once, or more that began or ended than there was time for", "call was", "calls were"},
	pointerless: {"%s not recorded, of threads that have no thread pointer", "call was", "calls were"},
	exitless:    {"of %s the exit was not recorded: too many places call functions whose exits have no room; trace fewer functions", "call", "calls"},
	crowded:     {"%s not recorded: more threads, or names of threads, than the kernel was given room for", "call was", "calls were"},
	damaged:     {"what cannot be right of %s is left out, and other calls and times may be wrong, too: the program has written over the memory for events; look for writes through bad pointers", "recording", "recordings"},
	forgotten:   {"the events of %s that ended first were given up for those of others", "thread", "threads"},
}

var errNoChange = errors.New("a trace of the kernel cannot be changed while it runs")
