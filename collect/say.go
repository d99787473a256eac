package collect

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"footfall/output"
	"footfall/report"
	"footfall/report/source"
)

// Findings are what a report prints.
func (r *Result) Findings() report.Findings {
	return report.Findings{Set: r.Set, Excluded: r.Excluded, Made: r.Made(), Unseen: source.Unseen(r.Problems)}
}

// AllExcluded returns an error if what was excluded is all there was.
func (r *Result) AllExcluded() error {
	if r.Set.Len() > 0 || len(r.Excluded.List) == 0 {
		return nil
	}
	return fmt.Errorf("nothing to report: %v, which is all", r.Excluded)
}

// Nothing returns an error that says why, if there is nothing to report. paths are
// those in which something was looked for.
func (r *Result) Nothing(paths []string) error {
	if err := r.AllExcluded(); err != nil {
		return err
	}
	if r.Set.HasLines() {
		return nil
	}
	objects, where := r.Objects, strings.Join(paths, ", ")
	if err := r.nothingProfiled(where); err != nil {
		return err
	}
	if len(objects.Go) > 0 && len(objects.Reports)+len(objects.Units) == 0 {
		return r.nothingOfGo(where)
	}
	switch {
	case len(objects.Reports) > 0 && len(objects.Units) == 0 && !r.selects() && r.options.Sources.OmittedSystemHeaders() == 0:
		return fmt.Errorf("nothing to report: no lines in %s", where)
	case len(objects.Reports)+len(objects.Units)+len(objects.Problems) == 0:
		return fmt.Errorf("no coverage data (.gcno, .gcda, .profraw, covmeta) in %s: compile with --coverage and run the program, or name the directory of the objects", where)
	case len(objects.Reports)+len(objects.Units) == 0:
		return fmt.Errorf("nothing to report: no notes (.gcno) that can be used in %s", where)
	}
	if err := r.nothingLeft(); err != nil {
		return err
	}
	return fmt.Errorf("nothing to report: no code in the %d notes files in %s", len(objects.Units), where)
}

func (r *Result) selects() bool { return r.options.Sources.Selects() }

// nothingProfiled says why source-based coverage, if there is nothing else, gives nothing.
func (r *Result) nothingProfiled(where string) error {
	objects := r.Objects
	switch {
	case len(objects.Reports)+len(objects.Units) > 0 || len(objects.Profiles)+len(objects.Binaries) == 0:
		return nil
	case r.Profiled.Binaries == 0:
		return fmt.Errorf("nothing to report: the binaries that the profiles in %s are of are not there: name them with --object FILE", where)
	}
	if err := r.nothingLeft(); err != nil {
		return err
	}
	return fmt.Errorf("nothing to report: no code in the %s for %s", output.Plural(r.Profiled.Binaries, "binary"), where)
}

// sayProfiles tells what a reader of source-based coverage should know.
func (r *Result) sayProfiles(w io.Writer) {
	p := &r.Profiled
	if p.Binaries > 0 && p.Profiles == 0 {
		fmt.Fprintf(w, "footfall: no profiles (.profraw, .profdata): nothing has run yet, or the program did not end by itself\n")
	}
	if n := len(p.ByName); n > 0 {
		fmt.Fprintf(w, "footfall: %s without a build ID of a binary here, as %s: counts are matched by the names of functions\n", output.Plural(n, "raw profile"), p.ByName[0])
	}
	if n := len(p.LeftOut); n > 0 {
		fmt.Fprintf(w, "footfall: %s with coverage mapping, as %s, left out: no profile is of it; --object counts it as not covered\n", output.Plural(n, "file"), p.LeftOut[0])
	}
	if n := p.OldBitmaps; n > 0 {
		fmt.Fprintf(w, "footfall: conditions (MC/DC) of %s that LLVM 18 counted are left out, as they are numbered otherwise than those of other versions\n", output.Plural(n, "function"))
	}
	if n := p.Impossible; n > 0 {
		fmt.Fprintf(w, "footfall: counts below 0 in %s, taken for 0: of threads (-fprofile-update=atomic makes them exact), or read while it ran\n", output.Plural(n, "function"))
	}
}

// nothingLeft says which option has left nothing, nil if none has.
func (r *Result) nothingLeft() error {
	switch {
	case r.selects():
		return errors.New("nothing to report: --include and --exclude leave no source with code")
	case r.options.Sources.OmittedSystemHeaders() > 0:
		return errors.New("nothing to report: all code is in system headers, --system-headers includes them")
	}
	return nil
}

// Say tells what a reader of the report should know about it; if all is wanted, what is so in every report as well.
func (r *Result) Say(w io.Writer, all bool) {
	objects, stats := r.Objects, r.Stats
	r.sayProfiles(w)
	r.sayGo(w)
	switch {
	case len(objects.Units) == 0: // reports only
	case objects.Data == 0:
		fmt.Fprintf(w, "footfall: no data files (.gcda): nothing has run yet, or the program did not end by itself\n")
	case stats.NeverRun == 1:
		fmt.Fprintf(w, "footfall: 1 of %d units never ran; it counts as not covered\n", stats.Objects)
	case stats.NeverRun > 0:
		fmt.Fprintf(w, "footfall: %d of %d units never ran; they count as not covered\n", stats.NeverRun, stats.Objects)
	}
	if n := stats.Inconsistent; n > 0 {
		fmt.Fprintf(w, "footfall: impossible counts in %s: of threads (-fprofile-update=atomic makes them exact), or of ways out that compilers do not count, as by longjmp: their counts are estimates\n", output.Plural(n, "function"))
	}
	if n := len(objects.Outside); n > 0 {
		fmt.Fprintf(w, "footfall: the notes of %d of %d units were found elsewhere, as %s; units there that never ran are counted with --object-directory\n", n, stats.Objects, objects.Outside[0])
	}
	switch n := r.options.Sources.OmittedSystemHeaders(); {
	case !all:
	case n == 1:
		fmt.Fprintf(w, "footfall: 1 system header left out; --system-headers includes it\n")
	case n > 1:
		fmt.Fprintf(w, "footfall: %d system headers left out; --system-headers includes them\n", n)
	}
}
