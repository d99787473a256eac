//go:build linux

package record

import (
	"fmt"
	"io"
	"slices"

	"footfall/compile/instrument"
	"footfall/hook/patch"
	"footfall/input"
	"footfall/output"
	"footfall/process"
	"footfall/process/target"
	"footfall/profile"
	"footfall/trace"
)

// Programs may count callers by themselves: functions with FOOTFALL_CALLERS, and
// all functions of files that were compiled by footfall cc. Then nothing is put
// into them.

// countedTables shows what FOOTFALL_CALLERS counts in the functions that fit;
// ok is false if there are none.
func (o *CallersOptions) countedTables(p *process.Process, function string) (ok bool, err error) {
	pattern, err := target.ParsePattern(function)
	if err != nil {
		return true, output.UsageError(err)
	}
	modules, _ := target.OpenModules(p) // some files are not programs
	defer modules.Close()
	lost := uint64(0)
	var names []string
	read := func() ([]trace.Chain, error) {
		var chains []trace.Chain
		names, lost = names[:0], 0
		for _, i := range modules.All() {
			tables, err := patch.CallersTables(p, i)
			if err != nil {
				return nil, err
			}
			for _, t := range tables {
				if pattern.Fits(t.Function, i.Path, "") {
					names, lost = append(names, t.Function), lost+t.Lost
					chains = append(chains, t.Chains...)
				}
			}
		}
		return chains, nil
	}
	if _, err := read(); err != nil || len(names) == 0 {
		return err != nil, err
	}
	c := o.newCallers(names[0])
	c.p, c.way, c.images = p, "counted by FOOTFALL_CALLERS", modules.All
	c.sayMany(len(names), function, o.Stderr)
	if err := o.difference(c, read); err != nil {
		return true, err
	}
	c.sayLost(losses{dropped: lost}, o.Stderr)
	return true, o.write(c)
}

// countedCalls shows the calls of the functions that fit which the program, compiled
// by footfall cc, counts; ok is false if it does not.
func (o *CallersOptions) countedCalls(p *process.Process, function string) (ok bool, err error) {
	pattern, err := target.ParsePattern(function)
	if err != nil {
		return true, output.UsageError(err)
	}
	file := profile.MappedCounts(p)
	if file == "" {
		return false, nil
	}
	r := &arcReader{p: p, file: file, pattern: pattern, places: make(map[uint64][]place), keys: make(map[string]uint64)}
	if _, err := r.read(); err != nil || len(r.names) == 0 {
		return err != nil, err
	}
	stderr := o.Stderr
	c := o.newCallers(r.names[0])
	c.p, c.way, c.places = p, "counted by the program", r.places
	c.sayMany(len(r.names), function, stderr)
	if o.DepthGiven && o.Depth > 1 {
		fmt.Fprintln(stderr, "footfall: the program counts who calls whom, not whole chains: there is one caller each")
	}
	if err := o.difference(c, r.read); err != nil {
		return true, err
	}
	c.sayLost(losses{}, stderr)
	return true, o.write(c)
}

// difference fills c with what read gives: all, or with --duration or --watch what
// is counted from now on.
func (o *CallersOptions) difference(c *callers, read func() ([]trace.Chain, error)) error {
	before := make(map[string]uint64)
	key := func(chain trace.Chain) string { return fmt.Sprint(chain.Addresses) }
	update := func() error {
		all, err := read()
		if err != nil {
			return err
		}
		c.chains = sumChains(all, key, before)
		return nil
	}
	if o.Duration == 0 && !o.Watch {
		return update()
	}
	first, err := read()
	if err != nil {
		return err
	}
	for _, chain := range first {
		before[key(chain)] += chain.Count
	}
	c.start()
	ctx, cancel := untilSignal()
	defer cancel()
	if why := o.wait(ctx, c, func() error { return nil }, update); why != nil {
		fmt.Fprintf(o.Stderr, "footfall: process %d: %v\n", c.p.PID, why)
		return nil // what was read last
	}
	return c.finish(update)
}

// sumChains adds equal chains up, less what was before, the most frequent first.
func sumChains(all []trace.Chain, key func(trace.Chain) string, before map[string]uint64) []trace.Chain {
	at := make(map[string]int)
	var sums []trace.Chain
	for _, chain := range all {
		k := key(chain)
		i, ok := at[k]
		if !ok {
			i = len(sums)
			at[k] = i
			sums = append(sums, trace.Chain{Addresses: chain.Addresses})
		}
		sums[i].Count += chain.Count
	}
	for k, i := range at {
		sums[i].Count -= min(sums[i].Count, before[k])
	}
	sums = slices.DeleteFunc(sums, func(c trace.Chain) bool { return c.Count == 0 })
	sortChains(sums)
	return sums
}

// An arcReader reads calls out of a counts file. A place of call becomes an address
// of its own, since counts have no return addresses.
type arcReader struct {
	p       *process.Process
	file    string
	pattern target.Pattern
	names   []string // of the functions that fit
	places  map[uint64][]place
	keys    map[string]uint64
}

func (r *arcReader) read() ([]trace.Chain, error) {
	f, err := r.p.OpenInRoot(r.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, input.MostData)) // cut, it is no counts file
	if err != nil {
		return nil, err
	}
	counts, err := instrument.ReadCounts(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.file, err)
	}
	user, err := r.p.User()
	if err != nil {
		return nil, err
	}
	owners := new(input.Owners)
	owners.NoteProcess(r.p.PID, user)
	prof, err := profile.FromCounts(counts, owners)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.file, err)
	}
	var chains []trace.Chain
	for _, s := range prof.Sample {
		if len(s.Location) == 0 || len(s.Location[0].Line) == 0 {
			continue
		}
		called := s.Location[0].Line[len(s.Location[0].Line)-1].Function
		image := ""
		if m := s.Location[0].Mapping; m != nil {
			image = m.File
		}
		if !r.pattern.Fits(called.SystemName, image, called.Filename) {
			continue
		}
		if !slices.Contains(r.names, called.Name) {
			r.names = append(r.names, called.Name)
		}
		chain := trace.Chain{Count: uint64(max(s.Value[0], 0))}
		if len(s.Location) > 1 {
			var at []place
			for _, l := range s.Location[1].Line {
				at = append(at, place{Function: l.Function.Name, File: l.Function.Filename, Line: int(l.Line)})
			}
			if m := s.Location[1].Mapping; m != nil {
				for i := range at {
					at[i].Image = m.File
				}
			}
			chain.Addresses = []uint64{r.address(at, s.Location[1].Address)}
		}
		chains = append(chains, chain)
	}
	return chains, nil
}

// address returns that of a place.
func (r *arcReader) address(at []place, code uint64) uint64 {
	key := fmt.Sprint(at, code)
	a, ok := r.keys[key]
	if !ok {
		a = uint64(len(r.keys) + 1)
		r.keys[key] = a
		for i := range at {
			at[i].Address = code
		}
		r.places[a] = at
	}
	return a
}
