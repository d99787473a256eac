// Package store keeps what programs of a fleet have counted: vectors of counters, by build, time and
// who counted, and the answers that these give.
//
// # The merge rule
//
// A [Batch] has, for a window of time, what each counter has reached since the window began, in one
// instance of a program. Within (window, instance, unit) the greater value of each counter holds: a counter
// only grows, so that batches may come twice, late, or in any order, and nothing must be remembered of
// those that have come (a grow-only counter). Over instances and windows values are added. Whoever
// counts opens a new epoch, which is another instance, where a counter became less: at a restart or a
// reset.
//
// # Units
//
// Counters mean something together with what the compiler wrote of them: notes, a mapping, the
// meta-data of a Go package. That is the program of a [Unit], known by its hash and kept once, whatever
// builds it is part of. The store never reads it.
package store

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"
)

// A Hash identifies a unit: that of its kind, name, number of counters and program.
type Hash [sha256.Size]byte

// MostCounters is how many counters a unit may have.
const MostCounters = 1 << 20

// A Unit is counters that belong together: those of an object file, of a package.
type Unit struct {
	Kind     string // of Program
	Name     string
	Counters int
	Program  []byte
}

// Hash returns what identifies u.
func (u *Unit) Hash() Hash {
	h := sha256.New()
	fmt.Fprintf(h, "%d %s%d %s%d %d ", len(u.Kind), u.Kind, len(u.Name), u.Name, u.Counters, len(u.Program))
	h.Write(u.Program)
	return Hash(h.Sum(nil))
}

// Text is the kind of units that are the text of a source, of the name by which other units of their builds tell of it. They count
// nothing, and only queries for texts find them. They go with the last counts of the builds that have them.
const Text = "text"

// A Build is a program, as it was built: a GNU build id, or what stands for one.
type Build struct {
	ID      string
	Release string // what people call it
	Units   []Unit
}

// An Instance is who counted: a process from its start, or from the moment at which its counters
// were reset, to its end. Labels tell more, such as a test's name.
type Instance struct {
	Host, Boot string // Host "": a result that was pushed, such as that of a test
	PID        int
	Start      time.Time
	Epoch      int
	Labels     map[string]string
	// Owner is who may add to it: of two that say they are the same only the first is.
	Owner string
}

// A Batch is what an instance has counted in a window, up to a moment.
type Batch struct {
	Build    string
	Instance Instance
	Window   time.Time // its beginning
	Seen     time.Time // when the counters were read
	// Once says that all the instance ever counts is in one window: that of the first of its batches
	// that came, which may be sent again at any time.
	Once  bool
	Usage []Usage
}

// Usage is the counters of a unit, since the window began: as numbers, or packed, as they travel and are kept.
type Usage struct {
	Unit   Hash
	Hits   []uint64
	Packed Vector // where Hits is nil
}

// Counters is how many there are.
func (u *Usage) Counters() int {
	if u.Hits == nil {
		return u.Packed.counters
	}
	return len(u.Hits)
}

// Vector is the counters, packed.
func (u *Usage) Vector() Vector {
	if u.Hits == nil {
		return u.Packed
	}
	return VectorOf(u.Hits)
}

// Errors of batches that are never taken, however often they are sent.
var (
	ErrUnknownBuild = errors.New("the build is not known here: its units have to be told before")
	ErrUnknownUnit  = errors.New("the unit is not one of its build")
	ErrLength       = errors.New("the unit has another number of counters")
	ErrOwner        = errors.New("the instance is somebody else's")
	ErrClosed       = errors.New("the window has been rolled up: it takes no more counts")
)

// An Origin is where counts come from.
type Origin int

// Origins; Anywhere is all.
const (
	Anywhere Origin = iota
	OnHosts         // agents on hosts
	Pushed          // results that were pushed, which have no host
)

// A Query chooses among what was counted; what is empty chooses all.
type Query struct {
	Origin           Origin
	Builds, Releases []string
	From, To         time.Time // windows that began in [From, To)
	Hosts            []string
	Labels           map[string]string // that the instance has
	Texts            bool              // units of the kind [Text], in place of all others
}

// A Total is the sum of what was counted in a unit.
type Total struct {
	Unit Unit
	Hash Hash // of the unit
	Hits []uint64
}

// A Share is the part of a host, with some labels, of what was counted in a unit.
type Share struct {
	Host   string
	Labels map[string]string
	Unit   Hash
	Hits   []uint64
}

// An Evidence says what is known of a build: that nothing of it ran means little where nobody looked.
type Evidence struct {
	Build, Release   string
	Hosts, Instances int       // processes on hosts
	Pushed           int       // results that were pushed
	First, Last      time.Time // beginnings of the windows in which it was seen; zero: never
}

// A HostReport is that a host has reported of a build: how many instances there were, and the beginnings of the
// first and the last window.
type HostReport struct {
	Build, Release, Host string
	Instances            int
	First, Last          time.Time
}

// Sizes say how much a store has.
type Sizes struct {
	Bytes                              int64 // on disk
	Builds, Units, Instances           int
	Windows                            int       // that have not been rolled up
	Days                               int       // that have been
	FirstWindow, LastWindow            time.Time // beginnings; zero: there is none
	FirstDay, LastDay                  time.Time
	Closed                             time.Time // windows that began before take no more counts; zero: all do
	ProgramBytes, UsageBytes, DayBytes int64     // of programs of Units, of vectors by window, of those by day
	SeenBytes                          int64     // of when counters were seen to count
	Texts                              int       // of sources, which are none of Units
	TextBytes                          int64     // see [Store]
}

// A LastSeen says of each counter of a unit when it was seen to count: the beginnings of the first and the
// last window, in seconds since 1970, 0: never.
type LastSeen struct {
	Unit        Unit // without its program
	Hash        Hash // of the unit
	Build       string
	Pushed      bool // in results that were pushed; else on hosts
	First, Last []uint64
}
