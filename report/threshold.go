package report

import (
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"footfall/coverage"
)

// A Threshold is the least percentage of something that must be covered.
type Threshold struct {
	metric  string
	patch   bool // only of the changed lines
	percent *big.Rat
	text    string // the percentage as it was given
	total   func(*Report, coverage.Totals) coverage.Ratio
}

// decimal is a number as people write it; programs write small ones with an
// exponent.
var decimal = regexp.MustCompile(`^\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$`)

// metrics are what a threshold may be set for.
var metrics = []struct {
	name  string
	total func(*Report, coverage.Totals) coverage.Ratio
}{
	{"lines", func(_ *Report, t coverage.Totals) coverage.Ratio { return t.Lines }},
	{"functions", func(_ *Report, t coverage.Totals) coverage.Ratio { return t.Functions }},
	{"branches", (*Report).branchTotal},
	{"conditions", func(_ *Report, t coverage.Totals) coverage.Ratio { return t.Conditions }},
	{"calls", func(_ *Report, t coverage.Totals) coverage.Ratio { return t.Calls }},
}

// OfPatch tells whether the threshold is for changed lines only.
func (t Threshold) OfPatch() bool { return t.patch }

// ParseThreshold reads METRIC=PERCENT. "patch-METRIC" is that of the changed
// lines only, "patch" is "patch-lines".
func ParseThreshold(s string) (Threshold, error) {
	name, value, _ := strings.Cut(s, "=")
	value = strings.TrimSuffix(value, "%")
	metric, patch := strings.CutPrefix(name, "patch-")
	if name == "patch" {
		metric, patch = "lines", true
	}
	var names []string
	for _, m := range metrics {
		names = append(names, m.name)
		if m.name != metric {
			continue
		}
		percent, ok := new(big.Rat).SetString(value)
		if !ok || !decimal.MatchString(value) || percent.Cmp(big.NewRat(100, 1)) > 0 {
			return Threshold{}, fmt.Errorf("threshold %q: %q is not a percentage from 0 to 100", s, value)
		}
		return Threshold{metric, patch, percent, value, m.total}, nil
	}
	return Threshold{}, fmt.Errorf("threshold %q: not METRIC=PERCENT for one of %s, patch", s, strings.Join(names, ", "))
}

// Missed returns what to say if the report does not reach the threshold, else
// "". Where nothing was measured, only a threshold of 0 is reached; but a patch
// that changed nothing of the kind needs no tests. If it is not known which
// lines it changed it does not reach any other.
func (r *Report) Missed(t Threshold) string {
	whole := t.total(r, r.Set.Totals())
	none := fmt.Sprintf("there are no %s in the coverage data, %s%% of them are required", t.metric, t.text)
	if !t.patch {
		switch {
		case t.reached(whole):
			return ""
		case whole.Total == 0:
			return none
		}
		return fmt.Sprintf("%s of %s are covered (%d of %d), %s%% are required", percent(whole), t.metric, whole.Covered, whole.Total, t.text)
	}
	changed := r.Patch.Totals(r.Set)
	switch got := t.total(r, changed); {
	case t.percent.Sign() == 0:
		return ""
	case r.Patch.doubts > 0:
		return fmt.Sprintf("it is not certain which lines were changed, %s%% of changed %s cannot be said to be covered", t.text, t.metric)
	case changed.Lines.Total == 0 && r.Patch.unseen > 0:
		return fmt.Sprintf("no changed source has coverage data, %s%% of changed %s cannot be said to be covered: --exclude leaves out what needs none", t.text, t.metric)
	case whole.Total == 0 && changed.Lines.Total > 0:
		return none
	case got.Total > 0 && !t.reached(got):
		return fmt.Sprintf("%s of changed %s are covered (%d of %d), %s%% are required", percent(got), t.metric, got.Covered, got.Total, t.text)
	}
	return ""
}

// reached compares without rounding.
func (t Threshold) reached(r coverage.Ratio) bool {
	if r.Total == 0 {
		return t.percent.Sign() == 0
	}
	return t.percent.Cmp(big.NewRat(100*int64(r.Covered), int64(r.Total))) <= 0
}

// percent prints a ratio. It rounds down, so that neither 100% nor a threshold
// seems to be reached when it is not, but not to 0% what is more.
func percent(r coverage.Ratio) string {
	if r.Total == 0 {
		return "-"
	}
	tenths := int(int64(r.Covered) * 1000 / int64(r.Total))
	if tenths == 0 && r.Covered > 0 {
		tenths = 1
	}
	return fmt.Sprintf("%d.%d%%", tenths/10, tenths%10)
}

// A Limit is the most of something that a comparison may have.
type Limit struct {
	most     int
	category coverage.Category
	tally    func(*Comparison, *coverage.Tallies) coverage.Tally
	metric   string
}

// ParseLimit reads WHAT=NUMBER: "lost" are lines that ran and do not now, "new"
// new lines that do not run; "lost-functions" and the like are those of other
// metrics.
func ParseLimit(s string) (Limit, error) {
	what, value, _ := strings.Cut(s, "=")
	kind, metric, ok := strings.Cut(what, "-")
	if !ok {
		metric = "lines"
	}
	most, err := strconv.Atoi(value)
	if err != nil || most < 0 {
		return Limit{}, fmt.Errorf("limit %q: %q is not a number from 0", s, value)
	}
	l := Limit{most: most, metric: metric}
	switch kind {
	case "lost":
		l.category = coverage.LBC
	case "new":
		l.category = coverage.UNC
	default:
		return Limit{}, fmt.Errorf("limit %q: not WHAT=NUMBER with lost, new, lost-functions, new-branches or the like", s)
	}
	for _, m := range comparedMetrics {
		if m.name == metric {
			l.tally = m.tally
			return l, nil
		}
	}
	return Limit{}, fmt.Errorf("limit %q: there are lines, functions, branches and conditions, no %q", s, metric)
}

// Exceeded returns what to say if the comparison has more than the limit, else
// "".
func (c *Comparison) Exceeded(l Limit) string {
	n := l.tally(c, &c.Tallies)[l.category]
	switch {
	case c.doubts > 0:
		return fmt.Sprintf("it is not certain which lines were changed, how many %s are %s cannot be said, at most %d may be", l.metric, map[coverage.Category]string{coverage.LBC: "lost", coverage.UNC: "new"}[l.category], l.most)
	case n <= l.most:
		return ""
	case l.category == coverage.LBC:
		return fmt.Sprintf("%d %s lost their coverage, at most %d may", n, l.metric, l.most)
	}
	return fmt.Sprintf("%d new %s are not covered, at most %d may be", n, l.metric, l.most)
}
