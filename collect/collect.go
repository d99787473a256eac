// Package collect is the way to a coverage.Set. Data files, the counters of running
// programs and reports of other tools become one set, without what is not to be
// reported; what cannot be used becomes a problem, and the rest is there.
package collect

import (
	"io"
	"slices"
	"time"

	"footfall/collect/find"
	"footfall/coverage"
	"footfall/formats/gcov"
	"footfall/report"
	"footfall/report/exclude"
	"footfall/report/source"
)

// Options say what is collected, and how.
type Options struct {
	// Sources say which file a recorded name is, and which are left out.
	Sources *source.Sources
	// ReportSources, unless nil, do that for reports, of which markers exclude nothing then:
	// what is merged was decided about when it was made.
	ReportSources *source.Sources
	// Exclusions are taken out of the set; nil: nothing is.
	Exclusions *exclude.Exclusions
	// ObjectDirs are searched for notes.
	ObjectDirs []string
	// Binaries have the mapping of source-based coverage, beside those that are found.
	Binaries []string
	// Test is the name of the test that data, and what has no name in reports, are of.
	Test string
	// Cache keeps the notes of running programs that are read repeatedly; nil: notes are
	// read for this one time.
	Cache *Cache
	// Progress is where it is shown how far the work is, if that is a terminal; nil: nowhere.
	Progress io.Writer
}

// A Result is a set, and what a reader of it should know.
type Result struct {
	Set      *coverage.Set
	Objects  *find.Objects
	Excluded exclude.Excluded
	Problems []source.Problem // of all steps
	Stats    gcov.Stats
	Profiled ProfileStats
	Go       GoStats

	made    time.Time // see Made; zero: it is that of the files
	options Options
}

// Files collects the data and reports in paths, see [report.Find].
func Files(paths []string, o Options) (*Result, error) {
	r, err := Gather(paths, o)
	if err == nil {
		r.Finish()
	}
	return r, err
}

// Gather is Files for what is to be combined with more: it is neither reconciled nor
// is anything taken out of it, which is for [Result.Finish] to do.
func Gather(paths []string, o Options) (*Result, error) {
	objects, err := find.In(paths, o.ObjectDirs, o.Sources)
	if err != nil {
		return nil, err
	}
	for _, name := range o.Binaries {
		if err := objects.AddBinary(name); err != nil {
			return nil, err
		}
	}
	r := gather(objects, o)
	return r, nil
}

// Objects collects what was found otherwise: the counters of running programs. With a
// Program the set is not to be updated.
func Objects(objects *find.Objects, o Options) *Result {
	gather, finish := gather, (*Result).Finish
	if o.Cache != nil && len(objects.Profiles)+len(objects.Go) == 0 {
		gather, finish = o.Cache.gather, o.Cache.finish
	}
	r := gather(objects, o)
	if objects.LeaveOutRebuilt(r.Problems) {
		r = gather(objects, o)
	}
	r.made = time.Now()
	finish(r)
	return r
}

func gather(objects *find.Objects, o Options) *Result {
	r := &Result{Objects: objects, options: o}
	var sum coverage.Sum
	units := newProgress(o.Progress, "units")
	set, found, stats := o.units(objects.Units, units.show)
	units.end()
	r.Stats = stats
	r.Problems = slices.Concat(objects.Problems, source.Collected(found))
	r.take(&sum, set)
	r.profiles(&sum)
	r.goPrograms(&sum)
	if len(objects.Reports) > 0 {
		files := newProgress(o.Progress, "reports")
		set, more := report.ReadFiles(objects.Reports, report.ReadOptions{Sources: o.reportSources(), Test: o.Test, Progress: files.show})
		files.end()
		sum.Take(set)
		r.Problems = append(r.Problems, more...)
	}
	r.Set = sum.Set()
	return r
}

// profiles adds what there is of source-based coverage.
func (r *Result) profiles(sum *coverage.Sum) {
	if len(r.Objects.Profiles)+len(r.Objects.Binaries) == 0 {
		return
	}
	set, problems, stats := r.options.profiles(r.Objects)
	r.take(sum, set)
	r.Profiled = stats
	r.Problems = append(r.Problems, problems...)
}

// take adds what was made of data.
func (r *Result) take(sum *coverage.Sum, set *coverage.Set) {
	if test := r.options.Test; test != "" {
		set.Update(func(_ int, f *coverage.File) coverage.Update {
			f.NameTest(test)
			return coverage.Changed
		})
	}
	if r.options.ReportSources != nil {
		r.exclude(set, r.options.Exclusions)
	}
	sum.Take(set)
}

// units collects objects with their data or readings.
func (o *Options) units(objects []gcov.Object, progress func(done, total int)) (*coverage.Set, []gcov.InputProblem, gcov.Stats) {
	return gcov.Collect(objects, gcov.CollectOptions{Source: o.Sources.Resolve, Progress: progress, Built: o.Sources.NoteBuilt, Owners: &o.Sources.Owners})
}

func (o *Options) reportSources() *source.Sources {
	if o.ReportSources != nil {
		return o.ReportSources
	}
	return o.Sources
}

// Finish reconciles what reports say differently, and takes out what is not to be
// reported. With ReportSources that is what options ask for: what markers say has been
// taken out of data.
func (r *Result) Finish() {
	r.Problems = append(r.Problems, report.Reconcile(r.Set)...)
	if r.options.ReportSources != nil {
		r.ExcludeAsked()
	} else {
		r.exclude(r.Set, r.options.Exclusions)
	}
}

// ExcludeAsked takes out what options ask for, of reports too.
func (r *Result) ExcludeAsked() {
	if e := r.options.Exclusions; e != nil {
		r.exclude(r.Set, e.Asked())
	}
}

func (r *Result) exclude(set *coverage.Set, from *exclude.Exclusions) {
	if from == nil {
		return
	}
	excluded, problems := from.Apply(set, r.options.Sources.Shown)
	r.Excluded.Add(excluded)
	r.Problems = append(r.Problems, problems...)
}
