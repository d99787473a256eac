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

// takeOver prepares to go on with what an earlier Ran has left, of which the sites are asked for again.
// It returns those that have to be armed yet.
func (r *Ran) takeOver(sites []*EntrySite) (rest []*EntrySite, err error) {
	var stubs []*stub
	for _, b := range r.s.islands {
		for _, st := range b.stubs {
			if st.notesRun() && r.hits[b] != nil {
				stubs = append(stubs, st)
			}
		}
	}
	there, err := present(r.s.p, sorted(stubs), (*stub).jump)
	if err != nil {
		return nil, err
	}
	armed := make(map[uint64]*stub)
	for _, st := range there {
		armed[st.site] = st
	}
	hit := make(map[uint64]*stub)
	for _, st := range stubs {
		if r.hits[st.island][st.index] != 0 {
			hit[st.site] = st
		}
	}
	for _, site := range sites {
		if site.window == nil { // whether it was running when it was looked for is not noted
			r.doubts[site] = true
			r.blocked = append(r.blocked, site)
			continue
		}
		st, isArmed := armed[site.Addr]
		switch {
		case isArmed:
			r.armed = append(r.armed, st)
		case hit[site.Addr] != nil:
			st = hit[site.Addr]
			r.found = append(r.found, site)
		default:
			r.Gaps[site] = true
			rest = append(rest, site)
			continue
		}
		site.old = st.old
		r.sites[st] = site
		r.doubts[site] = r.doubts[site] || st.doubted
	}
	return rest, nil
}

// Leave ends the Ran, whose sites stay armed, but for those that have run, which are returned as by
// Close. The next [OpenRan] goes on with it, and Repair ends it.
func (r *Ran) Leave() (ran []*EntrySite, err error) {
	s := r.s
	release, _ := s.p.Claim() // it may have ended
	defer release()
	hit, rest := r.split()
	if s.p.Check() == nil {
		err = r.disarm(hit)
		for _, b := range s.islands {
			err = errors.Join(err, b.setOwner(s.p, 0, 0))
		}
		err = r.unlessEnded(err)
	}
	r.armed = rest
	more, _ := r.split() // it has run on
	for _, st := range slices.Concat(hit, more) {
		ran = append(ran, r.sites[st])
	}
	return slices.Concat(r.found, ran), errors.Join(err, r.forget())
}

// Rearm arms again what has run.
func (r *Ran) Rearm() error {
	hit, rest := r.split()
	if err := r.disarm(hit); err != nil {
		return r.unlessEnded(err)
	}
	r.armed, r.found = rest, nil
	still := make(map[*stub]bool)
	for _, st := range slices.Concat(rest, r.waiting) {
		still[st] = true
	}
	var again []*stub
	for st, site := range r.sites {
		if !still[st] {
			delete(r.doubts, site)
			st.doubted = false
			r.hits[st.island][st.index] = 0
			again = append(again, st)
		}
	}
	sites := make([]*EntrySite, len(again))
	for n, st := range again {
		sites[n] = r.sites[st]
		delete(r.sites, st)
	}
	for _, site := range r.blocked {
		delete(r.doubts, site)
	}
	sites, r.blocked = append(sites, r.blocked...), nil
	clear(r.Gaps)
	return r.unlessEnded(r.Add(sites))
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
