package collect

import (
	"slices"
	"sync"

	"footfall/collect/find"
	"footfall/coverage"
	"footfall/formats/gcov"
	"footfall/report"
	"footfall/report/exclude"
	"footfall/report/source"
)

// A Cache keeps the notes of running programs that are read repeatedly, and the result of
// the last reading: files in which nothing was counted since are not made again. It is
// for one goroutine at a time.
type Cache struct {
	gcov     *gcov.Program
	binaries sync.Map // of keptBinary by name

	options  Options // of the last look
	raw      *coverage.Set
	finished *coverage.Set
	found    map[string]*finding // by name of the file
}

// A finding is what was found when a file was finished.
type finding struct {
	file     *coverage.File // nil: nothing is left of it
	excluded exclude.Excluded
	problems []source.Problem
}

// NewCache returns one for [Options.Cache].
func NewCache(sources *source.Sources) *Cache {
	return &Cache{gcov: gcov.NewProgram(gcov.CollectOptions{Source: sources.Resolve, Built: sources.NoteBuilt, Owners: &sources.Owners})}
}

// gather is that of [Objects]. It has the set of the result be shared: it is not to be updated.
func (p *Cache) gather(objects *find.Objects, o Options) *Result {
	r := &Result{Objects: objects, options: o}
	var found []gcov.InputProblem
	r.Set, found, r.Stats = p.gcov.Collect(objects.Units)
	r.Problems = slices.Concat(objects.Problems, source.Collected(found))
	return r
}

// finish is [Result.Finish].
func (p *Cache) finish(r *Result) {
	o, raw := r.options, r.Set
	if p.options.Exclusions != o.Exclusions || p.options.Sources != o.Sources || p.options.Test != o.Test {
		p.raw = nil
	}
	if p.raw == nil {
		p.finished, p.found = new(coverage.Set), make(map[string]*finding)
	}
	p.update(raw, o)
	p.options, p.raw = o, raw
	r.Set = p.finished
	for _, name := range raw.Names() {
		f := p.found[name]
		r.Excluded.List = append(r.Excluded.List, f.excluded.List...)
		r.Excluded.Totals.Add(f.excluded.Totals)
		r.Problems = append(r.Problems, f.problems...)
	}
}

// update brings p.finished up to date.
func (p *Cache) update(raw *coverage.Set, o Options) {
	var changed []int
	for i := range raw.Len() {
		if !raw.Keeps(p.raw, i) {
			changed = append(changed, i)
		}
	}
	found := make([]*finding, len(changed))
	coverage.Parallel(len(changed), func(i int) { found[i] = finished(raw.At(changed[i]), o) })
	var files []*coverage.File
	gone := make(map[string]bool)
	for i, f := range found {
		name := raw.Name(changed[i])
		p.found[name] = f
		if f.file == nil {
			gone[name] = true
			continue
		}
		files = append(files, f.file)
		f.file = nil // the set may have it packed
	}
	if p.raw != nil {
		for _, name := range p.raw.Names() {
			if !raw.Has(name) {
				gone[name] = true
				delete(p.found, name)
			}
		}
	}
	if len(files)+len(gone) > 0 {
		p.finished = p.finished.With(gone, files...)
	}
}

// finished finishes a file, which stays as it is.
func finished(f *coverage.File, o Options) *finding {
	own := *f
	if own.Functions = slices.Clone(f.Functions); o.Exclusions != nil && o.Exclusions.Concern(f.Name) {
		own = *f.Clone()
	}
	if o.Test != "" {
		own.NameTest(o.Test)
	}
	set := coverage.NewSet(&own)
	found := &finding{problems: report.Reconcile(set)}
	if o.Exclusions != nil {
		excluded, problems := o.Exclusions.Apply(set, o.Sources.Shown)
		found.excluded, found.problems = excluded, append(found.problems, problems...)
	}
	if set.Len() > 0 {
		found.file = set.At(0)
	}
	return found
}
