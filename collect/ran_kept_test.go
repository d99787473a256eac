//go:build linux

package collect

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// program makes one with functions, of some of which it is not known whether they ran.
func keptProgram(states map[uint64]ranState) *RanProgram {
	p := new(RanProgram)
	for _, addr := range slices.Sorted(maps.Keys(states)) {
		p.Functions = append(p.Functions, &RanFunction{program: p, Addr: addr, ranState: states[addr]})
	}
	return p
}

// TestKeptAdds adds what processes ran in every order, also more than once: it is always the same, and what
// one did not know is said to have run only if another knows.
func TestKeptAdds(t *testing.T) {
	processes := []*RanProgram{
		keptProgram(map[uint64]ranState{1: {Ran: true}, 2: {}, 3: {Unknown: reasonOf("busy")}, 4: {}, 5: {Unknown: reasonOf("busy")}}),
		keptProgram(map[uint64]ranState{1: {}, 2: {}, 3: {Ran: true}, 4: {}, 5: {}}),
		keptProgram(map[uint64]ranState{1: {}, 2: {}, 3: {}, 4: {Unknown: reasonOf("busy")}, 5: {}}),
	}
	want := &keptFile{Ran: []uint64{1, 3}, Not: []uint64{2}, Unknown: map[string][]uint64{"busy": {4, 5}}}
	for range 100 {
		f := new(keptFile)
		order := slices.Concat(processes, processes)
		rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, p := range order {
			f.add(p)
		}
		if !reflect.DeepEqual(f, want) {
			t.Fatalf("%+v\nwant %+v", f, want)
		}
		p := keptProgram(map[uint64]ranState{1: {}, 2: {}, 3: {}, 4: {}, 5: {}})
		p.recall(f)
		for _, fn := range p.Functions {
			if fn.Ran != slices.Contains(f.Ran, fn.Addr) || (fn.cannot != 0) != slices.Contains(f.Unknown["busy"], fn.Addr) {
				t.Errorf("%d: %+v", fn.Addr, fn.ranState)
			}
		}
	}
}

// TestKeptVersions adds what two versions of footfall know of one build: of what only one watched nothing is known,
// unless it ran.
func TestKeptVersions(t *testing.T) {
	f := new(keptFile)
	f.add(keptProgram(map[uint64]ranState{1: {}, 2: {Ran: true}, 3: {}}))
	f.add(keptProgram(map[uint64]ranState{1: {}, 4: {}, 5: {Ran: true}}))
	want := &keptFile{Ran: []uint64{2, 5}, Not: []uint64{1}, Unknown: map[string][]uint64{notWatched.String(): {3, 4}}}
	if !reflect.DeepEqual(f, want) {
		t.Fatalf("%+v\nwant %+v", f, want)
	}
}

func FuzzKept(f *testing.F) {
	f.Add([]byte(`{"format":1,"kind":"functions","ran":[1,1],"not":[1,2],"unknown":{"":[3],"busy":[2]},"watched":[{"pid":-1}],"lost":-3}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		file := new(keptFile)
		if json.Unmarshal(b, file) != nil {
			return
		}
		p := keptProgram(map[uint64]ranState{1: {}, 2: {Ran: true}, 3: {}})
		p.kept = &kept{file: file}
		p.recall(file)
		file.add(p)
		_ = p.Watched()
	})
}
