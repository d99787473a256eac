//go:build linux

package patch

import (
	"fmt"
	"slices"

	"footfall/process"
)

// This file is what a [Ran] keeps of its sites, of which a program may have a hundred thousand: 24 bytes of each that is
// armed, or has been. Sites are made anew when they are armed again, and stubs are read from the process when they are needed.

// RanSites are sites for a [Ran].
type RanSites struct {
	Count int
	// At makes the one of a number below Count: the same whenever it is called.
	At func(n int) *EntrySite
	// Window is where the jump of that one goes; has is false if it cannot be armed.
	Window func(n int) (addr uint64, has bool)
}

// A ranGroup is what was added together; first is the number of its first site.
type ranGroup struct {
	first int
	RanSites
}

// count is how many sites there are.
func (r *Ran) count() int {
	if len(r.groups) == 0 {
		return 0
	}
	last := &r.groups[len(r.groups)-1]
	return last.first + last.Count
}

// group is the one that has the site of a number.
func (r *Ran) group(n int) *ranGroup {
	i := len(r.groups) - 1
	for r.groups[i].first > n {
		i--
	}
	return &r.groups[i]
}

// window is that of the site of a number.
func (r *Ran) window(n int) (addr uint64, has bool) {
	g := r.group(n)
	return g.Window(n - g.first)
}

// Site makes the site of a number.
func (r *Ran) Site(n int) *EntrySite {
	g := r.group(n)
	site := g.At(n - g.first)
	site.mode, site.number = notesRun, n
	if from := site.Function.Addr + site.Image.Bias; site.code == (span{}) {
		site.code = span{from, from + site.Function.Size}
	}
	return site
}

// A stubID is a stub of a session: the number of its island in that, and its own.
type stubID struct{ island, index uint16 }

// An armedStub is what is needed of a stub to put its site's code back.
type armedStub struct {
	site   uint64
	old    [8]byte
	stub   stubID
	number uint32 // of the site
}

func (r *Ran) idOf(st *stub) stubID {
	return stubID{uint16(slices.Index(r.s.islands, st.island)), uint16(st.index)}
}

func (r *Ran) packed(st *stub, number int) armedStub {
	return armedStub{st.site, st.old, r.idOf(st), uint32(number)}
}

// stubOf is the stub, as far as it takes to put code back and to note that.
func (r *Ran) stubOf(a *armedStub) *stub {
	st := &stub{island: r.s.islands[a.stub.island], index: uint32(a.stub.index), site: a.site, old: a.old, mode: notesRun, doubted: r.doubts[int(a.number)]}
	st.resume = st.addr()
	return st
}

// taken are the stubs that have a site.
func (r *Ran) taken() map[stubID]bool {
	taken := make(map[stubID]bool, len(r.armed)+len(r.gone)+len(r.waiting))
	for _, list := range [][]armedStub{r.armed, r.gone} {
		for i := range list {
			taken[list[i].stub] = true
		}
	}
	for _, st := range r.waiting {
		taken[r.idOf(st)] = true
	}
	return taken
}

// pack lets go of all sites that need not wait, and of the islands' stubs.
func (r *Ran) pack() {
	r.forgetSites()
	r.blind = nil
	r.armed = slices.Clip(r.armed)
	for _, b := range r.s.islands {
		b.forgetStubs(0)
	}
}

// forgetSites lets go of all sites that need not wait.
func (r *Ran) forgetSites() {
	waiting := make(map[*stub]*EntrySite)
	for _, st := range r.waiting {
		waiting[st] = r.sites[st]
	}
	r.sites = waiting
}

// takeHit takes those that have run out of what is armed.
func (r *Ran) takeHit() (hit []armedStub) {
	hits := make([][]byte, len(r.s.islands))
	for i, b := range r.s.islands {
		hits[i] = r.hits[b]
	}
	ran := func(a *armedStub) bool {
		h := hits[a.stub.island]
		return h != nil && h[a.stub.index] != 0
	}
	rest := r.armed[:0]
	for i := range r.armed {
		if a := &r.armed[i]; ran(a) {
			hit = append(hit, *a)
		} else {
			rest = append(rest, *a)
		}
	}
	r.armed = rest
	return hit
}

// numbers are those of the sites.
func numbers(list []armedStub) []int {
	all := make([]int, len(list))
	for i := range list {
		all[i] = int(list[i].number)
	}
	return all
}

// skipped notes what the session has said of sites that it skipped.
func (r *Ran) skipped() {
	for site, why := range r.s.Skipped {
		r.Skipped[site.number] = why
	}
	clear(r.s.Skipped)
}

func (r *Ran) firstSkipped() string {
	for _, why := range r.Skipped {
		return why
	}
	return "there are none"
}

// forgetStubs lets go of the stubs but for the first ones: the process has them.
func (b *island) forgetStubs(but int) {
	for _, st := range b.stubs[but:] {
		delete(b.byKey, st.key())
	}
	b.forgotten += len(b.stubs) - but
	clear(b.stubs[but:])
	if b.stubs = b.stubs[:but]; but == 0 {
		b.stubs, b.byKey = nil, make(map[stubKey][]*stub)
	}
}

// count is how many stubs there are.
func (b *island) count() int { return b.forgotten + len(b.stubs) }

// recallAll reads stubs that were forgotten.
func recallAll(p *process.Process, islands []*island) error {
	for _, b := range islands {
		if b.forgotten == 0 {
			continue
		}
		b.byKey = make(map[stubKey][]*stub, b.forgotten)
		if err := b.readStubs(p, b.forgotten); err != nil {
			b.stubs, b.byKey = nil, make(map[stubKey][]*stub)
			return fmt.Errorf("process %d: island at %#x: %w", p.PID, b.addr, err)
		}
		b.forgotten = 0
	}
	return nil
}
