package report

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"footfall/coverage"
)

// A Threshold is the least percentage of something that must be covered.
type Threshold struct {
	metric  coverage.Metric
	patch   bool // only of the changed lines
	percent *big.Rat
	text    string // the percentage as it was given
}

// decimal is a number as people write it; programs write small ones with an
// exponent.
var decimal = regexp.MustCompile(`^\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$`)

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
	for _, m := range coverage.Metrics() {
		names = append(names, m.Name)
		if m.Name != metric {
			continue
		}
		percent, ok := new(big.Rat).SetString(value)
		if !ok || !decimal.MatchString(value) || percent.Cmp(big.NewRat(100, 1)) > 0 {
			return Threshold{}, fmt.Errorf("threshold %q: %q is not a percentage from 0 to 100", s, value)
		}
		return Threshold{m, patch, percent, value}, nil
	}
	return Threshold{}, fmt.Errorf("threshold %q: not METRIC=PERCENT for one of %s, patch", s, strings.Join(names, ", "))
}

// Missed returns what to say if the report does not reach the threshold, else
// "". Where nothing was measured, only a threshold of 0 is reached; but a patch
// that changed nothing of the kind needs no tests. If it is not known which
// lines it changed it does not reach any other.
func (r *Report) Missed(t Threshold) string {
	whole := t.metric.Of(r.Set.Totals(), r.ExceptionBranches)
	none := fmt.Sprintf("there are no %s in the coverage data, %s%% of them are required", t.metric.Name, t.text)
	if !t.patch {
		switch {
		case t.reached(whole):
			return ""
		case whole.Total == 0:
			return none
		}
		return fmt.Sprintf("%s of %s are covered (%d of %d), %s%% are required", whole.Rounded(), t.metric.Name, whole.Covered, whole.Total, t.text)
	}
	changed := r.Patch.Totals(r.Set)
	switch got := t.metric.Of(changed, r.ExceptionBranches); {
	case t.percent.Sign() == 0:
		return ""
	case r.Patch.Doubts() > 0:
		return fmt.Sprintf("it is not certain which lines were changed, %s%% of changed %s cannot be said to be covered", t.text, t.metric.Name)
	case changed.Lines.Total == 0 && r.Patch.Unseen() > 0:
		return fmt.Sprintf("no changed source has coverage data, %s%% of changed %s cannot be said to be covered: --exclude leaves out what needs none", t.text, t.metric.Name)
	case whole.Total == 0 && changed.Lines.Total > 0:
		return none
	case got.Total > 0 && !t.reached(got):
		return fmt.Sprintf("%s of changed %s are covered (%d of %d), %s%% are required", got.Rounded(), t.metric.Name, got.Covered, got.Total, t.text)
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
