//go:build linux

package agent

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"footfall/fleet/store"
	"footfall/fleet/units"
	"footfall/fleet/wire"
	"footfall/formats/gcov"
	"footfall/live"
	"footfall/report/source"
)

// A program is a build of which processes run, or have run.
type program struct {
	build string
	path  string
	// objects are by the names of their data files; nil: it has no notes.
	objects map[string]*object
	texts   *texts // nil: none are sent
}

// An object is a unit, and where its counters are.
type object struct {
	hash      store.Hash
	layout    *units.Layout           // of GCC's
	functions []units.CountedFunction // of counters that only tell that something ran
}

// byBuild finds the builds that were read. Several images may be of one.
func (a *agent) byBuild(list []live.Unit, running map[int]live.Running) map[string][]image {
	loads := make(map[int]*image)
	var order []int
	for _, u := range list {
		im := loads[u.Load.ID]
		if im == nil {
			im = &image{path: u.Image, running: running[u.Load.ID]}
			loads[u.Load.ID] = im
			order = append(order, u.Load.ID)
		}
		im.units = append(im.units, u)
	}
	builds := make(map[string][]image)
	for _, id := range order {
		build := a.loads[id]
		if build == "" {
			build = buildOf(loads[id].units)
			a.loads[id] = build
		}
		builds[build] = append(builds[build], *loads[id])
	}
	return builds
}

// buildOf is what stands for the build of an image: its objects, and the stamps that the compiler gave them. It is the same
// on all machines, whatever was done to symbols and notes of the file.
func buildOf(list []live.Unit) string {
	h := sha256.New()
	names := make([]string, 0, len(list))
	for _, u := range list {
		names = append(names, u.Name+string(u.Counts.FileStamp()))
	}
	slices.Sort(names)
	for _, name := range names {
		h.Write(binary.AppendUvarint(nil, uint64(len(name))))
		h.Write([]byte(name))
	}
	return filepath.Base(list[0].Image) + "-" + hex.EncodeToString(h.Sum(nil)[:10])
}

// programOf returns what is known of a build. The first time its notes are read, and kept in the spool.
func (a *agent) programOf(build string, images []image) (*program, error) {
	p := a.programs[build]
	if p == nil {
		p = a.newProgram(build, images[0].path)
	}
	missing, why := 0, error(nil)
	var hashes []store.Hash
	added := false
	for _, im := range images {
		for _, u := range im.units {
			o, known := p.objects[u.Name]
			if !known {
				unit, layout, err := a.unitOf(u)
				if err == nil {
					o = &object{hash: unit.Hash(), layout: layout}
					err = errors.Join(a.spool.keepUnit(o.hash, unit), p.texts.note(&unit))
				}
				if err != nil {
					missing++
					why = cmp.Or(why, err)
					continue // perhaps they come later
				}
				p.objects[u.Name] = o
				added = true
			}
			hashes = append(hashes, o.hash)
		}
	}
	if missing > 0 {
		a.sayNoNotes(p.path, missing, why)
	}
	more, err := a.readTexts(p, pidsOf(images)...)
	if err != nil {
		return nil, err
	}
	if !added && !more {
		return p, nil
	}
	if err := a.spool.keepBuild(build, a.o.Release(p.path), hashes, p.texts.hashes()); err != nil {
		return nil, err
	}
	a.programs[build] = p
	return p, nil
}

// newProgram is a build of which nothing is known so far.
func (a *agent) newProgram(build, path string) *program {
	p := &program{build: build, path: path, objects: make(map[string]*object)}
	if a.o.Texts {
		p.texts = newTexts(a.o.Sources.Root())
	}
	return p
}

// unitOf returns the unit of an object.
func (a *agent) unitOf(u live.Unit) (store.Unit, *units.Layout, error) {
	name, err := a.notesOf(u)
	if err != nil {
		return store.Unit{}, nil, err
	}
	notes, err := gcov.ReadFile(&a.o.Sources.Owners, name, nil)
	if err != nil {
		return store.Unit{}, nil, fmt.Errorf("%s: %w", name, err)
	}
	layout, err := units.LayoutOf(notes)
	if err != nil {
		return store.Unit{}, nil, fmt.Errorf("%s: %w", name, err)
	}
	if _, err := layout.Vector(u.Counts); err != nil {
		return store.Unit{}, nil, fmt.Errorf("%s: %w", name, err)
	}
	if layout.Counters > wire.MostCounters {
		return store.Unit{}, nil, fmt.Errorf("%s: %d counters, where at most %d can be sent", name, layout.Counters, wire.MostCounters)
	}
	o := gcov.Object{Notes: strings.TrimSuffix(u.Name, ".gcda") + ".gcno", Bytes: notes, Dir: source.Unrecorded(filepath.Dir(name))}
	unit, err := units.OfNotes(o, func(cwd, name string) (string, bool) {
		path, keep := a.o.Sources.Resolve(cwd, name)
		return a.o.Sources.Shown(path), keep
	})
	return unit, layout, err
}

// notesOf finds the notes of an object, where a process that runs it has its files or where they were said to be.
func (a *agent) notesOf(u live.Unit) (name string, err error) {
	for _, root := range a.watching.rootsOf(0) {
		found := a.finder.Pair([]gcov.Reading{{Name: u.Name, Root: root, Counts: u.Counts}})
		if len(found.Units) == 1 {
			return found.Units[0].Notes, nil
		}
		for _, p := range found.Problems {
			err = cmp.Or(err, p.Err)
		}
	}
	return "", cmp.Or(err, os.ErrNotExist)
}

// countsOf returns what was counted in images of a program.
func (p *program) countsOf(images []image) (c *counts, err error) {
	c = &counts{members: members(images), unsure: negative(images)}
	if c.total, err = p.vectors(images, ofAll); err == nil && !c.unsure {
		c.running, err = p.vectors(images, ofRunning)
	}
	return c, err
}

// vectors adds up what images of a program have counted, by the names of their data files. of chooses what of an image.
func (p *program) vectors(images []image, of func(*image) []live.Unit) (map[string][]uint64, error) {
	sums := make(map[string][]uint64)
	for i := range images {
		for _, u := range of(&images[i]) {
			o := p.objects[u.Name]
			if o == nil {
				continue
			}
			hits, err := o.layout.Vector(u.Counts)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", u.Name, err)
			}
			if sums[u.Name] == nil {
				sums[u.Name] = hits
			} else {
				store.Add(sums[u.Name], hits)
			}
		}
	}
	return sums, nil
}

func ofAll(im *image) []live.Unit     { return im.units }
func ofRunning(im *image) []live.Unit { return im.running.Units }

// pidsOf are the processes that run the images.
func pidsOf(images []image) (pids []int) {
	for _, m := range members(images) {
		pids = append(pids, m.PID)
	}
	return pids
}

// members are the processes that run the images, each once, by what tells it from all others.
func members(images []image) map[string]live.RunningMember {
	all := make(map[string]live.RunningMember)
	for i := range images {
		for _, m := range images[i].running.Members {
			all[m.Key] = m
		}
	}
	return all
}
