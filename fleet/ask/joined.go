package ask

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"footfall/fleet/store"
)

// A FunctionUse is one of a source, whatever builds it is in.
type FunctionUse struct {
	File     string    `json:"file"`
	Line     int32     `json:"line"` // in the build that was reported of last
	Function string    `json:"function"`
	Lines    int32     `json:"lines"`          // that have code
	First    time.Time `json:"first,omitzero"` // when it was first and last seen to run, in any build; none: never
	Last     time.Time `json:"last,omitzero"`
	Tested   time.Time `json:"tested,omitzero"` // when it last ran in results that were pushed, if these do not count
	Builds   int       `json:"builds"`          // that have it and were looked at
	Hosts    int       `json:"hosts"`           // that reported of these builds
}

// A joined is a function over several builds.
type joined struct {
	file        string
	fn          *unitFunction
	first, last uint64
	tested      uint64
	unsure      uint64  // when it was last not known whether it ran
	builds      []int32 // numbers of the builds that have it, ascending
}

// A sighting is when a function was first and last seen to run, and when it was last not known whether it did; 0: never.
type sighting struct{ first, last, unsure uint64 }

// join finds each function that any of the builds has, by its source and name. use is told of each build that has it, by
// its number, and when it was first and last seen to run there.
//
// Of an origin that does not count it is only known that functions are there, and whether they are tested.
func (a *Ask) join(ctx context.Context, builds []BuildEvidence, origin store.Origin, use func(f *joined, build int, s sighting)) ([]*joined, error) {
	if len(builds) == 0 {
		return nil, nil // none would be all
	}
	numbers := make(map[string]int)
	for i := range builds {
		numbers[builds[i].Build] = i
	}
	q := store.Query{Builds: buildsOf(builds)}
	var hashes []store.Hash
	err := a.Store.Units(ctx, &q, func(hash store.Hash, _ store.Unit) error {
		hashes = append(hashes, hash)
		return nil
	})
	if err != nil {
		return nil, err
	}
	known, err := a.functionsOf(ctx, hashes)
	if err != nil {
		return nil, err
	}
	j := joining{ask: a, known: known, found: make(map[store.Hash][]*joined, len(hashes)), byName: make(map[[2]string]*joined)}
	err = a.Store.LastSeen(ctx, &q, func(l store.LastSeen) error {
		functions, err := j.of(l.Hash)
		if err != nil {
			return err
		}
		build := numbers[l.Build]
		for i, f := range functions {
			if f == nil {
				continue // of a source that does not count
			}
			fn := &known[l.Hash].functions[i]
			s := sighting{fn.least(l.First), fn.most(l.Last), fn.unsure(l.Last)}
			if l.Pushed && origin == store.OnHosts {
				f.tested = max(f.tested, s.last)
				s = sighting{}
			}
			if !l.Pushed && origin == store.Pushed {
				s = sighting{}
			}
			if s.first != 0 && (f.first == 0 || s.first < f.first) {
				f.first = s.first
			}
			f.last, f.unsure = max(f.last, s.last), max(f.unsure, s.unsure)
			if n := len(f.builds); n == 0 || f.builds[n-1] != int32(build) {
				f.builds = append(f.builds, int32(build))
			}
			// What is said of it is so in the build that was reported of last, which is not the last here.
			if newest := f.newest(builds); newest == build {
				f.fn = fn
			}
			use(f, build, s)
		}
		return nil
	})
	return j.all, err
}

// newest is the number of the build, of those that have the function, that was reported of last.
func (f *joined) newest(builds []BuildEvidence) int {
	newest := int(f.builds[0])
	for _, b := range f.builds[1:] {
		if !builds[b].Last.Before(builds[newest].Last) {
			newest = int(b)
		}
	}
	return newest
}

// A joining is what has been joined so far.
type joining struct {
	ask    *Ask
	known  map[store.Hash]*unitFunctions
	found  map[store.Hash][]*joined
	byName map[[2]string]*joined // source and function
	all    []*joined
}

// of returns the functions of a unit, which many builds may have; nil in place of one whose source does not count.
func (j *joining) of(hash store.Hash) ([]*joined, error) {
	if list, found := j.found[hash]; found {
		return list, nil
	}
	unit := j.known[hash]
	if unit == nil {
		return nil, fmt.Errorf("unit %x is gone", hash[:8])
	}
	list := make([]*joined, len(unit.functions))
	recorded, file, keep := "", "", false
	for i := range unit.functions {
		fn := &unit.functions[i]
		if i == 0 || fn.file != recorded {
			recorded = fn.file
			file, keep = j.ask.resolve(recorded)
		}
		if !keep {
			continue
		}
		key := [2]string{file, fn.name}
		if list[i] = j.byName[key]; list[i] == nil {
			list[i] = &joined{file: file, fn: fn}
			j.byName[key] = list[i]
			j.all = append(j.all, list[i])
		}
	}
	j.found[hash] = list
	return list, nil
}

// A describer makes what is said of functions.
type describer struct {
	builds []BuildEvidence
	hosts  hostsOf
	counts map[string]int // hosts, by numbers of builds
}

func (d *describer) of(f *joined) FunctionUse {
	out := FunctionUse{File: f.file, Line: f.fn.line, Function: f.fn.name, Lines: f.fn.lines, First: seconds(f.first), Last: seconds(f.last), Tested: seconds(f.tested)}
	var names []string
	for _, b := range f.builds {
		if d.builds[b].known() {
			names = append(names, d.builds[b].Build)
		}
	}
	out.Builds = len(names)
	key := fmt.Sprint(f.builds)
	hosts, known := d.counts[key]
	if !known {
		hosts = d.hosts.count(names)
		d.counts[key] = hosts
	}
	out.Hosts = hosts
	return out
}

// worst has those with most lines first.
func worst(list []FunctionUse) {
	slices.SortFunc(list, func(a, b FunctionUse) int {
		return cmp.Or(cmp.Compare(b.Lines, a.Lines), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Function, b.Function))
	})
}
