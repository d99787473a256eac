package report

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"sync"

	"footfall/coverage"
	"footfall/report/html"
	"footfall/report/source"
)

// A Threshold is the least percentage of something that must be covered.
type Threshold struct {
	metric  coverage.Metric
	patch   bool // only of the changed lines
	percent *big.Rat
	text    string              // the percentage as it was given
	place   *source.NamePattern // only of sources that it fits; nil: of all
}

// decimal is a number as people write it; programs write small ones with an
// exponent.
var decimal = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$`)
})

// OfPatch tells whether the threshold is for changed lines only.
func (t Threshold) OfPatch() bool { return t.patch }

// ParseThreshold reads [GLOB:]METRIC=PERCENT. "patch-METRIC" is that of the changed
// lines only, "patch" is "patch-lines". GLOB is as for --include: the threshold is for
// the sources that it fits, all together.
func ParseThreshold(s string) (Threshold, error) {
	text, place := s, (*source.NamePattern)(nil)
	if at := strings.LastIndexByte(s, ':'); at >= 0 {
		p, err := source.NewNamePattern(s[:at])
		if err != nil {
			return Threshold{}, fmt.Errorf("threshold %q: %w", s, err)
		}
		text, place = s[at+1:], &p
	}
	name, value, _ := strings.Cut(text, "=")
	value = strings.TrimSuffix(value, "%")
	metric, patch := strings.CutPrefix(name, "patch-")
	if name == "patch" {
		metric, patch = "lines", true
	}
	var names []string
	for _, m := range coverage.Metrics() {
		names = append(names, m.Name)
		if m.Name != metric {
			continue
		}
		percent, ok := new(big.Rat).SetString(value)
		if !ok || !decimal().MatchString(value) || percent.Cmp(big.NewRat(100, 1)) > 0 {
			return Threshold{}, fmt.Errorf("threshold %q: %q is not a percentage from 0 to 100", s, value)
		}
		return Threshold{m, patch, percent, value, place}, nil
	}
	return Threshold{}, fmt.Errorf("threshold %q: not METRIC=PERCENT for one of %s, patch", s, strings.Join(names, ", "))
}

// totals are those of the sources that the threshold is about, and if it is one of a
// patch also those of their changed lines.
func (t Threshold) totals(r *Report) (whole, changed coverage.Totals) {
	for i := range r.Set.Len() {
		if name := r.Set.Name(i); t.place == nil || t.place.Match(name, r.Shown(name)) {
			f := r.Set.At(i)
			whole.Add(f.Totals())
			if t.patch {
				changed.Add(r.Patch.FileTotals(f))
			}
		}
	}
	return whole, changed
}

// of is what the threshold is about.
func (t Threshold) of() string {
	if t.place == nil {
		return t.metric.Name
	}
	return fmt.Sprintf("%s of %v", t.metric.Name, t.place)
}

// Missed returns what to say if the report does not reach the threshold, else
// "". Where nothing was measured, only a threshold of 0 is reached; but a patch
// that changed nothing of the kind needs no tests. If it is not known which
// lines it changed it does not reach any other.
func (r *Report) Missed(t Threshold) string {
	total, totalChanged := t.totals(r)
	whole := t.metric.Of(total, r.ExceptionBranches)
	none := fmt.Sprintf("there are no %s in the coverage data, %s%% of them are required", t.of(), t.text)
	if !t.patch {
		switch {
		case t.reached(whole):
			return ""
		case whole.Total == 0:
			return none
		}
		return fmt.Sprintf("%s of %s are covered (%d of %d), %s%% are required", whole.Rounded(), t.of(), whole.Covered, whole.Total, t.text)
	}
	switch got := t.metric.Of(totalChanged, r.ExceptionBranches); {
	case t.percent.Sign() == 0:
		return ""
	case r.Patch.Doubts() > 0:
		return fmt.Sprintf("it is not certain which lines were changed, %s%% of changed %s cannot be said to be covered", t.text, t.of())
	case totalChanged.Lines.Total == 0 && r.Patch.Unseen() > 0:
		return fmt.Sprintf("no changed source has coverage data, %s%% of changed %s cannot be said to be covered: --exclude leaves out what needs none", t.text, t.of())
	case whole.Total == 0 && totalChanged.Lines.Total > 0:
		return none
	case got.Total > 0 && !t.reached(got):
		return fmt.Sprintf("%s of changed %s are covered (%d of %d), %s%% are required", got.Rounded(), t.of(), got.Covered, got.Total, t.text)
	}
	return ""
}

// reached compares without rounding.
func (t Threshold) reached(r coverage.Ratio) bool { return t.within(r, 0) }

// within tells whether a ratio is at most so many points below the threshold.
func (t Threshold) within(r coverage.Ratio, points int64) bool {
	if r.Total == 0 {
		return t.percent.Sign() == 0
	}
	least := new(big.Rat).Sub(t.percent, big.NewRat(points, 1))
	return least.Cmp(big.NewRat(100*int64(r.Covered), int64(r.Total))) <= 0
}

// What is good where no threshold says so, and what is fair: the steps of genhtml and gcovr.
const (
	goodPercent = 90
	fairPercent = 75
	// fairPoints are so many below a threshold, within which a number is fair.
	fairPoints = 10
)

// threshold is that of a metric which is about a source, the most special one; nil if
// there is none. name is the name in the set, or of a directory with a slash at the end,
// for which a threshold counts that is about all that may be in it.
func (r *Report) threshold(metric, name, shown string) *Threshold {
	if strings.HasSuffix(name, "/") {
		const any = "_" // no pattern but for all names fits it
		name, shown = name+any, shown+any
	}
	var found *Threshold
	for i := range r.Thresholds {
		t := &r.Thresholds[i]
		switch {
		case t.patch || t.metric.Name != metric:
		case t.place == nil:
			if found == nil {
				found = t
			}
		case (found == nil || found.place == nil || len(found.place.String()) <= len(t.place.String())) && t.place.Match(name, shown):
			found = t
		}
	}
	return found
}

// level tells how good a ratio of a source or directory is, see threshold.
func (r *Report) level(metric, name, shown string, of coverage.Ratio) coverage.Level {
	if of.Total == 0 {
		return coverage.NoLevel
	}
	t := r.threshold(metric, name, shown)
	switch {
	case t == nil:
		return levelOf(of)
	case t.reached(of):
		return coverage.Good
	case t.within(of, fairPoints):
		return coverage.Fair
	}
	return coverage.Poor
}

// levelOf tells how good a ratio is where nothing is required.
func levelOf(of coverage.Ratio) coverage.Level {
	switch p := of.Percent(); {
	case of.Total == 0:
		return coverage.NoLevel
	case p >= goodPercent:
		return coverage.Good
	case p >= fairPercent:
		return coverage.Fair
	}
	return coverage.Poor
}

// required are the thresholds that are not of a patch, with what was reached, for pages.
func (r *Report) required() []html.Requirement {
	var list []html.Requirement
	for _, t := range r.Thresholds {
		if t.patch {
			continue
		}
		total, _ := t.totals(r)
		got := t.metric.Of(total, r.ExceptionBranches)
		list = append(list, html.Requirement{What: t.of(), Percent: t.text, Got: got, Reached: t.reached(got)})
	}
	return list
}
