//go:build linux

package agent

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"footfall/fleet/store"
	"footfall/fleet/wire"
	"footfall/formats/gcov"
	"footfall/live"
)

// A state is what an agent, and the next one, has to know of what was sent. It is replaced as a whole.
type state struct {
	Boot   string
	Epoch  int // the last one that was begun
	Read   time.Time
	Window int64 // the beginning of the open one, in seconds since 1970: no two are the same
	Builds map[string]*buildState
	// Batches are what the window that ended with this state has made. They are put into the spool afterwards, and again should
	// that have been cut short.
	Batches []savedBatch
	Next    uint64   // number of the next batch
	Ran     []string // builds of which functions are watched

	Fresh bool `json:"-"` // there was none: it is not known what was sent before
}

// A savedBatch is a message.
type savedBatch struct {
	Number  uint64
	Message []byte
}

// A buildState is what is known of a build.
type buildState struct {
	Epoch int
	Start time.Time // of the epoch
	// Window is the beginning of what is counted above the base; of a build that continues it may be long before that of the state.
	Window int64
	Base   map[string][]byte // vectors of the family's sums, by object
	// Present is that counts of before the epoch are not known to be unsent: objects whose notes are found later begin with what they are then.
	Present bool
	// Running is the part of the base of those that ran, Members; Unsure, if it is not known.
	Running map[string][]byte
	Members []string
	Unsure  bool
}

// counts are what processes of a build have counted, by the names of its objects.
type counts struct {
	total   map[string][]uint64           // of all, those that have ended included
	running map[string][]uint64           // of those that run,
	members map[string]live.RunningMember // which are these, by what tells each from all others
	unsure  bool                          // running is not known
}

// A counted is a build and what was counted; no counts: it could not be read.
type counted struct {
	*program
	*counts
	profiled *profiled // nil: its counters are GCC's
}

// next ends the windows of all builds.
func (a *agent) next(now time.Time, builds []counted) (*state, error) {
	before := a.state
	n := &state{Boot: before.Boot, Epoch: before.Epoch, Read: now, Builds: make(map[string]*buildState), Next: before.Next}
	n.Window = max(now.Unix(), before.Window+1)
	if a.first {
		n.Epoch++
	}
	for _, c := range builds {
		p, b := c.program, before.Builds[c.build]
		if c.counts == nil {
			if a.first {
				b = &buildState{Epoch: n.Epoch, Start: now, Window: n.Window - 1, Present: true}
			}
			if b != nil { // it is as it was
				n.Builds[p.build] = b
			}
			continue
		}
		switch {
		case a.first:
			b = a.resume(n, b, c)
		case b == nil:
			b = &buildState{Epoch: n.Epoch, Start: now, Window: before.Window}
		}
		ended, usage, err := p.since(b, c.total)
		if err != nil { // what was read is less than what it was
			a.o.Log.Warn("counters were set to zero: what was counted since the last look is not known", "program", p.path, "error", err)
			n.Epoch++
			b = &buildState{Epoch: n.Epoch, Start: now, Window: n.Window - 1, Present: true, Base: pack(c.total)}
			ended, usage = b.Base, nil
		}
		if c.profiled != nil {
			usage = c.profiled.sayUnknown(now, c.running, usage)
		}
		if len(usage) > 0 || len(c.members) > 0 {
			a.batches(n, p.build, b.Start, b.Epoch, b.Window, usage)
		}
		after := &buildState{Epoch: b.Epoch, Start: b.Start, Window: n.Window, Base: ended, Present: b.Present, Members: slices.Sorted(maps.Keys(c.members)), Unsure: c.unsure}
		if !after.Unsure {
			after.Running = pack(c.running)
		}
		n.Builds[p.build] = after
	}
	return n, nil
}

// resume returns where a build stands that this agent reads for the first time, b being where it stood when another one read it last.
func (a *agent) resume(n *state, b *buildState, c counted) *buildState {
	anew := &buildState{Epoch: n.Epoch, Start: n.Read, Window: max(a.state.Window, n.Window-1)}
	old := make(map[string]bool) // those that the agent before has seen, or that may have inherited what others had counted
	for key, m := range c.members {
		if a.state.Fresh || !m.Began.After(a.state.Read) || a.watching.isFork(m.PID) {
			old[key] = true
		}
	}
	switch {
	case len(old) == 0:
		anew.Window = max(a.state.Window, 1) // it began at some time since then
		if a.state.Window == 0 {
			anew.Window = n.Window - 1
		}
		return anew
	case b != nil && !a.state.Fresh && !b.Unsure && len(b.Members) == len(old) && !slices.ContainsFunc(b.Members, func(key string) bool { return !old[key] }):
		again := &buildState{Epoch: b.Epoch, Start: b.Start, Window: b.Window, Base: b.Running, Present: b.Present}
		if _, _, err := c.since(again, c.total); err == nil {
			return again
		}
	}
	anew.Present, anew.Base = true, pack(c.total)
	return anew
}

// since returns what has been counted since the base: all that has been reached, and what of it is more. Less is an error.
func (p *program) since(b *buildState, total map[string][]uint64) (reached map[string][]byte, usage []store.Usage, err error) {
	reached = make(map[string][]byte, len(total))
	for _, name := range slices.Sorted(maps.Keys(total)) {
		hits := total[name]
		packed := store.PackVector(hits)
		reached[name] = packed
		base, known := b.Base[name]
		if string(base) == string(packed) || !known && b.Present {
			continue
		}
		more := slices.Clone(hits)
		if known {
			from, err := store.UnpackVector(base, len(hits))
			if err != nil {
				return nil, nil, fmt.Errorf("%s: the state: %w", name, err)
			}
			for i := range more {
				if more[i] < from[i] {
					return nil, nil, fmt.Errorf("%s: counter %d is %d, and was %d", name, i, more[i], from[i])
				}
				more[i] -= from[i]
			}
		}
		if slices.ContainsFunc(more, func(h uint64) bool { return h > 0 }) {
			usage = append(usage, store.Usage{Unit: p.objects[name].hash, Hits: more})
		}
	}
	return reached, usage, nil
}

func pack(vectors map[string][]uint64) map[string][]byte {
	packed := make(map[string][]byte, len(vectors))
	for name, hits := range vectors {
		packed[name] = store.PackVector(hits)
	}
	return packed
}

// negative tells whether the part of those that run is less than nothing somewhere: they owe what they have inherited.
func negative(images []image) bool {
	for i := range images {
		for _, u := range images[i].running.Units {
			if negativeCounts(u) {
				return true
			}
		}
	}
	return false
}

func negativeCounts(u live.Unit) bool {
	for i := range u.Counts.Functions {
		arcs := u.Counts.Functions[i].Of(gcov.KindArcs)
		for k := 0; arcs != nil && k < arcs.Len(); k++ {
			if arcs.At(k) < 0 {
				return true
			}
		}
	}
	return false
}

// mostOfBatch is how many counters go together.
const mostOfBatch = wire.MostCounters / 4

// batches adds what was counted in a window to what is to be sent: a batch at least, since that somebody looked is worth knowing.
func (a *agent) batches(n *state, build string, start time.Time, epoch int, window int64, usage []store.Usage) {
	batch := store.Batch{
		Build:    build,
		Instance: store.Instance{Host: a.o.Host, Boot: n.Boot, Start: start, Epoch: epoch, Labels: a.o.Labels},
		Window:   time.Unix(window, 0), Seen: n.Read,
	}
	for {
		size, counters := 0, 0
		for size < len(usage) && (size == 0 || counters+len(usage[size].Hits) <= mostOfBatch) {
			counters += len(usage[size].Hits)
			size++
		}
		batch.Usage, usage = usage[:size], usage[size:]
		n.Batches = append(n.Batches, savedBatch{n.Next, wire.Pack(wire.EncodeBatch(&batch))})
		n.Next++
		if len(usage) == 0 {
			return
		}
	}
}
