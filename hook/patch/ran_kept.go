//go:build linux

package patch

import (
	"errors"
	"fmt"
	"slices"

	"footfall/process"
)

// This file is what becomes of a [Ran] that is to stay: the jumps, the stubs and the memory for hits
// need nobody, so that footfall may end, or be killed, and another one reads what ran meanwhile.
// That maps new memory for hits in place of the old, of which nobody has a descriptor any more, and
// copies what is noted there, while all threads are stopped. Children made by fork that have
// the old one yet are taken over in the same way, each by itself.

// Keeping is what is watched by a Ran that is to stay.
type Keeping uint64

// What can be watched; as an island's info has it, in which 0 is that nothing stays.
const (
	KeepsFunctions Keeping = iota + 1
	KeepsBlocks
)

func (k Keeping) String() string {
	if k == KeepsBlocks {
		return "lines"
	}
	return "functions"
}

// refuseKept returns an error if a Ran is to stay in the process.
func refuseKept(p *process.Process, islands []*island) error {
	k := keptBy(islands)
	if k == 0 {
		return nil
	}
	return fmt.Errorf("process %d: footfall live --ran %v --keep watches it: footfall live --ran %v %d shows what ran and ends that, footfall trace --repair %d just ends it", p.PID, k, k, p.PID, p.PID)
}

func keptBy(islands []*island) (k Keeping) {
	for _, b := range islands {
		k = max(k, b.kept)
	}
	return k
}

// An earlierRan is what an earlier Ran has left, by the addresses of its sites: those that are armed, and those that ran.
type earlierRan struct{ armed, hit map[uint64]*stub }

// has tells whether a site is one of them.
func (e *earlierRan) has(addr uint64) bool {
	return e != nil && (e.armed[addr] != nil || e.hit[addr] != nil)
}

func (r *Ran) findEarlier() (*earlierRan, error) {
	var stubs []*stub
	for _, b := range r.s.islands {
		for _, st := range b.stubs {
			if st.notesRun() && r.hits[b] != nil {
				stubs = append(stubs, st)
			}
		}
	}
	e := &earlierRan{make(map[uint64]*stub, len(stubs)), make(map[uint64]*stub)}
	for some := range slices.Chunk(sorted(stubs), mostAtOnce) {
		there, _, err := present(r.s.p, some, (*stub).jump)
		if err != nil {
			return nil, err
		}
		for _, st := range there {
			e.armed[st.site] = st
		}
	}
	for _, st := range stubs {
		if r.hits[st.island][st.index] != 0 {
			e.hit[st.site] = st
		}
	}
	return e, nil
}

// takeOver prepares to go on with what an earlier Ran has left, of which some sites are asked for again.
// It returns those that have to be armed yet.
func (r *Ran) takeOver(e *earlierRan, sites []*EntrySite) (rest []*EntrySite) {
	for _, site := range sites {
		if site.window == nil { // whether it was running when it was looked for is not noted
			r.doubts[site.number] = true
			r.blocked = append(r.blocked, site.number)
			continue
		}
		st, isArmed := e.armed[site.Addr]
		switch {
		case isArmed:
			r.armed = append(r.armed, r.packed(st, site.number))
		case e.hit[site.Addr] != nil:
			st = e.hit[site.Addr]
			r.gone, r.found = append(r.gone, r.packed(st, site.number)), append(r.found, site.number)
		default:
			r.Gaps[site.number] = true
			rest = append(rest, site)
			continue
		}
		if st.doubted {
			r.doubts[site.number] = true
		}
	}
	return rest
}

// Leave ends the Ran, whose sites stay armed, but for those that have run, which are returned as by
// Close. The next [OpenRan] goes on with it, and Repair ends it.
func (r *Ran) Leave() (ran []int, err error) {
	s := r.s
	release, _ := s.p.Claim() // it may have ended
	defer release()
	hit := r.takeHit()
	if s.p.Check() == nil {
		err = r.disarm(hit)
		for _, b := range s.islands {
			err = errors.Join(err, b.setOwner(s.p, 0, 0))
		}
		err = r.unlessEnded(err)
	}
	ran = slices.Concat(r.found, numbers(hit), numbers(r.takeHit())) // it has run on
	return ran, errors.Join(err, r.forget())
}

// Rearm arms again what has run.
func (r *Ran) Rearm() error {
	hit := r.takeHit()
	if err := r.disarm(hit); err != nil {
		r.armed = append(r.armed, hit...)
		return r.unlessEnded(err)
	}
	again := append(r.gone, hit...)
	r.gone, r.found = nil, nil
	for i := range again {
		a := &again[i]
		r.hits[r.s.islands[a.stub.island]][a.stub.index] = 0
	}
	sites := append(numbers(again), r.blocked...)
	slices.Sort(sites) // as they were armed first
	r.blocked = nil
	for _, number := range sites {
		delete(r.doubts, number)
	}
	clear(r.Gaps)
	return r.unlessEnded(r.add(slices.Values(sites)))
}

// Sharing returns the processes that noted what they ran together with this one before it was taken over, and
// have not been taken over themselves: children made by fork, or its parent.
func (r *Ran) Sharing() (pids []int) {
	if len(r.before) == 0 {
		return nil
	}
	all, err := process.List()
	if err != nil {
		return nil
	}
	for _, pid := range all {
		if pid == r.s.p.PID {
			continue
		}
		p, err := process.Open(pid)
		if err != nil {
			continue
		}
		if hasHits(p, r.before) {
			pids = append(pids, pid)
		}
		_ = p.Close()
	}
	return pids
}

// Inherits tells whether a process has its memory from this one by fork: what it runs is noted here.
func (r *Ran) Inherits(p *process.Process) bool { return hasHits(p, r.files) }

// hasHits tells whether a process has mapped one of the files for hits.
func hasHits(p *process.Process, files map[string]bool) bool {
	maps, _, err := p.Maps()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(maps, func(m process.Mapping) bool {
		return m.Path == "/memfd:"+hitsName && files[fileOf(&m)]
	})
}

// noteFiles remembers the files for hits that the process has.
func (r *Ran) noteFiles(files map[string]bool) error {
	maps, _, err := r.s.p.Maps()
	if err != nil {
		return err
	}
	for i, m := range maps {
		if m.Path == "/memfd:"+hitsName && within(r.s.islands, m.Start) {
			files[fileOf(&maps[i])] = true
		}
	}
	return nil
}
