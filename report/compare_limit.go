package report

import (
	"fmt"
	"footfall/coverage"
	"strconv"
	"strings"
)

// A Limit is the most of something that a comparison may have.
type Limit struct {
	most     int
	category coverage.Category
	tally    func(*ComparisonReport, *coverage.Tallies) coverage.Tally
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
func (c *ComparisonReport) Exceeded(l Limit) string {
	n := l.tally(c, &c.Tallies)[l.category]
	switch {
	case c.Doubts() > 0:
		return fmt.Sprintf("it is not certain which lines were changed, how many %s are %s cannot be said, at most %d may be", l.metric, map[coverage.Category]string{coverage.LBC: "lost", coverage.UNC: "new"}[l.category], l.most)
	case n <= l.most:
		return ""
	case l.category == coverage.LBC:
		return fmt.Sprintf("%d %s lost their coverage, at most %d may", n, l.metric, l.most)
	}
	return fmt.Sprintf("%d new %s are not covered, at most %d may be", n, l.metric, l.most)
}
