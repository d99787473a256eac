//go:build linux

package agent

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"footfall/collect"
	"footfall/collect/find"
	"footfall/fleet/store"
	"footfall/fleet/units"
	"footfall/formats/gocover"
	"footfall/formats/llvm"
	"footfall/live"
	"footfall/output"
	"footfall/report/source"
)

// This file is source-based counters, of Clang, Rust and Go. Of processes that have ended the family tells once what they had
// counted: it is added up here, in 64 bits.
//
// Counters that only tell that something ran say so once in the life of a process: what ran in a window is what is set in more processes
// than before. Of what has run before in processes that still run it is not known whether it does so again, which is said now and
// then, see [units.Function.Unknown].

// unknownEvery is how often that is said.
const unknownEvery = time.Hour

// A profiled is a build with source-based counters.
type profiled struct {
	*program
	layout *units.ProfileLayout // of Clang's and Rust's
	names  []string             // of its units
	sets   bool                 // counters only tell that something ran
	said   time.Time            // when it was last said what is not known
	ended  map[string][]uint64  // by the names of units, what processes have counted that have ended
	now    *counts              // what was read at this look; nil: nothing
	failed error                // why that is not all
}

// profiles reads all source-based counters, and adds what they were to those of the builds.
func (a *agent) profiles(list []counted) []counted {
	ended, running, shared := a.watching.family.TakeProfiles()
	for _, image := range shared {
		a.sayOnce(image, "its counters are in a file all the time (%c in the name of the profile): they are not sent by agents")
	}
	for i := range ended {
		if p, vectors := a.vectorsOf(&ended[i], 0); p != nil {
			addTo(&p.ended, vectors)
		}
	}
	for i := range running {
		for k := range running[i].Profiles {
			p, vectors := a.vectorsOf(&running[i].Profiles[k], running[i].PID)
			if p == nil {
				continue
			}
			if p.now == nil {
				p.now = &counts{members: make(map[string]live.RunningMember)}
			}
			addTo(&p.now.running, vectors)
			p.now.members[running[i].Key] = running[i].RunningMember
		}
	}
	for _, build := range slices.Sorted(maps.Keys(a.profiled)) {
		p := a.profiled[build]
		list = append(list, counted{p.program, p.look(), p})
	}
	return list
}

// look returns what was read at a look; nil: that is not known.
func (p *profiled) look() *counts {
	now, failed := p.now, p.failed
	p.now, p.failed = nil, nil
	if now == nil {
		now = new(counts)
	}
	addTo(&now.total, p.ended)
	addTo(&now.total, now.running)
	if failed != nil || isNegative(now.total) { // what was in the counters of one has just become another's, which is not seen so far
		return nil
	}
	if isNegative(now.running) {
		now.unsure, now.running = true, nil
	}
	return now
}

// addTo adds vectors, whose numbers wrap.
func addTo(sums *map[string][]uint64, vectors map[string][]uint64) {
	if *sums == nil {
		*sums = make(map[string][]uint64)
	}
	for name, v := range vectors {
		to := (*sums)[name]
		if to == nil {
			(*sums)[name] = slices.Clone(v)
			continue
		}
		for i, n := range v {
			to[i] += n
		}
	}
}

// isNegative tells whether some number has wrapped.
func isNegative(vectors map[string][]uint64) bool {
	for _, v := range vectors {
		if slices.ContainsFunc(v, func(n uint64) bool { return n > 1<<63 }) {
			return true
		}
	}
	return false
}

// vectorsOf returns what a profile has counted, by the names of its build's units. pid is that of a process that runs it, 0 if there is
// none; nil: nothing of it can be sent.
func (a *agent) vectorsOf(r *live.SourceProfile, pid int) (*profiled, map[string][]uint64) {
	if r.BuildID == "" {
		a.sayOnce(r.Image, "it has no build ID by which agents know it: link it with -Wl,--build-id")
		return nil, nil
	}
	build := filepath.Base(r.Image) + "-" + r.BuildID
	p := a.profiled[build]
	if p == nil {
		p = &profiled{program: a.newProgram(build, r.Image), sets: r.Sets}
		a.profiled[build] = p
	}
	var vectors map[string][]uint64
	var err error
	if r.Meta != nil {
		vectors, err = a.goVectors(p, r, pid)
	} else {
		vectors, err = a.mappedVectors(p, r, pid)
	}
	if err == nil {
		var more bool
		if more, err = a.readTexts(p.program, pid); more && err == nil {
			err = a.keepUnits(p)
		}
	}
	if err != nil {
		p.failed = err
		a.sayOnce(r.Image, fmt.Sprintf("what it runs is not sent: %v", err))
		return nil, nil
	}
	return p, vectors
}

// sayOnce says what is wrong with a program.
func (a *agent) sayOnce(image, what string) {
	key := image + "\x00" + what
	if a.noNotes[key] {
		return
	}
	a.noNotes[key] = true
	a.o.Log.Warn(what, "program", output.Printable(image))
}

// mappedVectors is vectorsOf of Clang's and Rust's counters.
func (a *agent) mappedVectors(p *profiled, r *live.SourceProfile, pid int) (map[string][]uint64, error) {
	own, err := oneProfile(&a.reader, r.Bytes)
	if err != nil {
		return nil, err
	}
	var parents *llvm.Profile
	if r.Inherited != nil {
		if parents, err = oneProfile(new(llvm.Reader), r.Inherited); err != nil {
			return nil, err
		}
	}
	if p.layout == nil {
		if err := a.readMapping(p, r, own, pid); err != nil {
			return nil, err
		}
	}
	all, err := p.layout.Vectors(own, parents)
	if err != nil {
		return nil, err
	}
	vectors := make(map[string][]uint64, len(all))
	for i, v := range all {
		vectors[p.names[i]] = v
	}
	return vectors, nil
}

func oneProfile(reader *llvm.Reader, b []byte) (*llvm.Profile, error) {
	list, err := reader.Read(b)
	if err == nil && len(list) != 1 {
		err = errors.New("no profile of its counters")
	}
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// readMapping finds the file of a build, and makes units of its mapping.
func (a *agent) readMapping(p *profiled, r *live.SourceProfile, own *llvm.Profile, pid int) error {
	b, name, err := a.binaryOf(r, pid)
	if err != nil {
		return err
	}
	list, layout, err := units.OfBinary(filepath.Base(r.Image), b, own, source.Unrecorded(filepath.Dir(name)), a.shown)
	if err == nil && len(list) == 0 {
		err = errors.New("it has no code of sources that are to be sent")
	}
	if err != nil {
		return err
	}
	names := make([]string, len(list))
	for i := range list {
		if names[i], err = a.keepUnit(p, &list[i]); err != nil {
			return err
		}
	}
	if err := a.keepUnits(p); err != nil {
		return err
	}
	p.layout, p.names, p.sets = layout, names, own.SingleBytes()
	return nil
}

// keepUnits keeps which units a build has, with the texts of their sources.
func (a *agent) keepUnits(p *profiled) error {
	var hashes []store.Hash
	for _, name := range slices.Sorted(maps.Keys(p.objects)) {
		hashes = append(hashes, p.objects[name].hash)
	}
	return a.spool.keepBuild(p.build, a.o.Release(p.path), hashes, p.texts.hashes())
}

// shown says what a source is called, and whether it is sent.
func (a *agent) shown(dir, name string) (string, bool) {
	path, keep := a.o.Sources.Resolve(dir, name)
	return a.o.Sources.Shown(path), keep
}

// binaryOf reads the file of a build, where a process that runs it has it or one that does has.
func (a *agent) binaryOf(r *live.SourceProfile, pid int) (b *llvm.Binary, name string, err error) {
	for _, root := range a.watching.rootsOf(pid) {
		name := root + r.Image
		list, failed := readBinary(a.o.Sources, name)
		for _, b := range list {
			if b.BuildID == r.BuildID {
				return b, name, nil
			}
			failed = errors.New("the file of the program, or library, was rebuilt or removed since it was started: start it again")
		}
		err = cmp.Or(err, failed)
	}
	return nil, "", err
}

func readBinary(sources *source.Sources, name string) ([]*llvm.Binary, error) {
	f, err := sources.Owners.OpenNamed(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return llvm.ReadBinaries(name, f, info.Size(), "")
}

// keepUnit keeps a unit of a build.
func (a *agent) keepUnit(p *profiled, u *store.Unit) (name string, err error) {
	hash := u.Hash()
	o := &object{hash: hash}
	if p.sets {
		if o.functions, err = units.Functions(u); err != nil {
			return "", err
		}
	}
	if err := errors.Join(a.spool.keepUnit(hash, *u), p.texts.note(u)); err != nil {
		return "", err
	}
	p.objects[u.Name] = o
	return u.Name, nil
}

// goVectors is vectorsOf of counters of Go. Packages enter themselves in the list of a program one after the other.
func (a *agent) goVectors(p *profiled, r *live.SourceProfile, pid int) (map[string][]uint64, error) {
	meta, err := gocover.ReadMeta(r.Meta)
	if err != nil {
		return nil, err
	}
	c, err := gocover.ReadCounters(r.Bytes)
	if err != nil {
		return nil, err
	}
	vectors, err := units.OfPackages(meta, c)
	if err != nil {
		return nil, err
	}
	added := false
	var named func(string) units.GoSource
	for i := range meta.Packages {
		pkg := &meta.Packages[i]
		if p.objects[pkg.Path] != nil {
			continue
		}
		if named == nil {
			named = a.goSource(r, pid)
		}
		u, err := units.OfPackage(pkg, meta.Mode, meta.Granularity, named)
		if err == nil {
			_, err = a.keepUnit(p, &u)
		}
		if err != nil {
			return nil, err
		}
		added = true
	}
	if added {
		return vectors, a.keepUnits(p)
	}
	return vectors, nil
}

// goSource tells how sources of a program are called, and which of their lines have code: none of their text leaves the machine.
func (a *agent) goSource(r *live.SourceProfile, pid int) func(name string) units.GoSource {
	root := a.watching.rootOf(pid)
	file := find.GoFile{Name: root + r.Image, Bytes: r.Meta, Starts: a.watching.family.Places(pid), Root: root}
	locate := collect.GoLocator(a.o.Sources, &a.modules, file)
	return func(name string) units.GoSource {
		path, keep := locate(name)
		if !keep {
			return units.GoSource{}
		}
		s := units.GoSource{Shown: a.o.Sources.Shown(path)}
		if text, err := a.o.Sources.Read(filepath.Join(root, path)); err == nil && text != nil {
			s.Source = gocover.NewSource(text)
		}
		return s
	}
}

// sayUnknown adds to what was counted in a window of which functions it is not known whether they ran in it.
func (p *profiled) sayUnknown(now time.Time, running map[string][]uint64, usage []store.Usage) []store.Usage {
	if !p.sets || now.Sub(p.said) < unknownEvery {
		return usage
	}
	p.said = now
	more := make(map[store.Hash][]uint64, len(usage))
	for _, u := range usage {
		more[u.Unit] = u.Hits
	}
	for _, name := range slices.Sorted(maps.Keys(running)) {
		o := p.objects[name]
		hits := more[o.hash]
		known := hits != nil
		if !known {
			hits = make([]uint64, len(running[name]))
		}
		some := false
		for i := range o.functions {
			f := &o.functions[i]
			ran := func(v []uint64) bool {
				return slices.ContainsFunc(f.Counters, func(c int32) bool { return v[c] > 0 })
			}
			if f.Unknown >= 0 && ran(running[name]) && !ran(hits) {
				hits[f.Unknown], some = 1, true
			}
		}
		if some && !known {
			usage = append(usage, store.Usage{Unit: o.hash, Hits: hits})
		}
	}
	return usage
}
