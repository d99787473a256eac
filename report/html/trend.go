package html

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"

	"footfall/coverage"
	"footfall/output"
	"footfall/report/exclude"
)

// Past are the totals of a report, by the names of [coverage.Metrics].
type Past struct {
	Time     time.Time
	Revision string // "" if it is not known
	Totals   map[string]coverage.Ratio
}

// trendData is the picture of what became of the totals.
type trendData struct {
	Caption string
	Picture template.HTML
}

// The trend is drawn on a field of so many units, in which text has its own size.
const (
	trendWidth, trendHeight                     = 460, 150
	trendLeft, trendRight, trendTop, trendBelow = 40, 84, 10, 20
	mostPast                                    = 100 // reports
	trendInnerWidth, trendInnerHeight           = trendWidth - trendLeft - trendRight, trendHeight - trendTop - trendBelow
	trendLabelHeight                            = 13
)

// trend draws the last reports, at equal distances: what matters is which change did it.
func (s *site) trend() *trendData {
	all := s.Past[max(len(s.Past)-mostPast, 0):]
	if len(all) < 2 {
		return nil
	}
	low, high := 100.0, 0.0
	var metrics []string
	for _, m := range s.metrics {
		known := false
		for _, p := range all {
			if r := p.Totals[m.name]; r.Total > 0 {
				known = true
				low, high = min(low, r.Percent()), max(high, r.Percent())
			}
		}
		if known {
			metrics = append(metrics, m.name)
		}
	}
	if len(metrics) == 0 {
		return nil
	}
	low, high = math.Floor(low/10)*10, math.Ceil(high/10)*10
	if low == high {
		low -= 10
	}
	low = max(low, 0)
	high = min(max(high, low+10), 100)
	x := func(i int) float64 { return trendLeft + float64(i)*trendInnerWidth/float64(len(all)-1) }
	y := func(percent float64) float64 { return trendTop + (high-percent)/(high-low)*trendInnerHeight }

	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role=img aria-label="%s">`, trendWidth, trendHeight, template.HTMLEscapeString(trendCaption(all)))
	for _, percent := range []float64{low, (low + high) / 2, high} {
		fmt.Fprintf(&b, `<path class=grid d="M%d %.1fH%d"/><text class=end x=%d y=%.1f>%.0f%%</text>`, trendLeft, y(percent), trendWidth-trendRight, trendLeft-5, y(percent)+4, percent)
	}
	first, last := all[0].Time.Format(time.DateOnly), all[len(all)-1].Time.Format(time.DateOnly)
	fmt.Fprintf(&b, `<text x=%d y=%d>%s</text>`, trendLeft, trendHeight-4, first)
	if last != first {
		fmt.Fprintf(&b, `<text class=end x=%d y=%d>%s</text>`, trendWidth-trendRight, trendHeight-4, last)
	}
	labels := make([]trendLabel, len(metrics))
	for k, metric := range metrics {
		fmt.Fprintf(&b, "<g class=m%d>", k)
		var line, points strings.Builder
		pen := 'M'
		for i, p := range all {
			r := p.Totals[metric]
			if r.Total == 0 {
				pen = 'M'
				continue
			}
			fmt.Fprintf(&line, "%c%.1f %.1f", pen, x(i), y(r.Percent()))
			pen = 'L'
			fmt.Fprintf(&points, "<circle cx=%.1f cy=%.1f r=2.5><title>%s: %s %s, %s</title></circle>", x(i), y(r.Percent()), pastName(p), metric, r.Rounded(), grouped(r))
			labels[k] = trendLabel{y(r.Percent()), metric}
		}
		fmt.Fprintf(&b, "<path d=%q/>%s</g>\n", line.String(), points.String())
	}
	appendLabels(&b, labels, metrics)
	b.WriteString("</svg>")
	return &trendData{trendCaption(all), template.HTML(b.String())}
}

// pastName says which report it was, as HTML.
func pastName(p Past) string {
	name := p.Time.Format("2006-01-02 15:04")
	if p.Revision != "" {
		name += " " + p.Revision
	}
	return template.HTMLEscapeString(output.Printable(name))
}

// A trendLabel stands behind the end of a line.
type trendLabel struct {
	y    float64
	name string
}

// appendLabels writes labels that do not cover each other.
func appendLabels(b *strings.Builder, labels []trendLabel, metrics []string) {
	slices.SortStableFunc(labels, func(a, b trendLabel) int { return cmp.Compare(a.y, b.y) })
	for i := range labels {
		if i > 0 {
			labels[i].y = max(labels[i].y, labels[i-1].y+trendLabelHeight)
		}
	}
	if n := len(labels); n > 0 {
		over := labels[n-1].y - (trendHeight - trendBelow)
		for i := n - 1; i >= 0 && over > 0; i-- {
			labels[i].y -= over
			if i > 0 {
				over = labels[i-1].y + trendLabelHeight - labels[i].y
			}
		}
	}
	for _, l := range labels {
		fmt.Fprintf(b, "<text class=m%d x=%d y=%.1f>%s</text>", slices.Index(metrics, l.name), trendWidth-trendRight+8, l.y+4, l.name)
	}
}

// trendCaption says what became of the lines.
func trendCaption(all []Past) string {
	now, before := all[len(all)-1], all[len(all)-2]
	text := fmt.Sprintf("%d reports since %s", len(all), all[0].Time.Format(time.DateOnly))
	if a, b := before.Totals["lines"], now.Totals["lines"]; a.Total > 0 && b.Total > 0 {
		change := fmt.Sprintf("%+.1f points", b.Percent()-a.Percent())
		if change == "+0.0 points" || change == "-0.0 points" {
			change = "the same"
		}
		text += fmt.Sprintf("; lines %s, %s since that of %s", b.Rounded(), change, before.Time.Format("2006-01-02 15:04"))
		if before.Revision != "" {
			text += ", " + output.Printable(before.Revision)
		}
	}
	return text
}

// ruleData is what one rule left out.
type ruleData struct {
	Rule                       string
	Places                     int
	Lines, Functions, Branches int
}

// mostRules is how many are listed.
const mostRules = 50

// rulesOf counts what was left out by rule, that of most lines first.
func rulesOf(excluded *exclude.Excluded) []ruleData {
	at := make(map[string]int)
	var list []ruleData
	for _, e := range excluded.List {
		i, known := at[e.Rule]
		if !known {
			i = len(list)
			at[e.Rule] = i
			list = append(list, ruleData{Rule: output.Printable(e.Rule)})
		}
		r := &list[i]
		r.Places++
		r.Lines += e.Lines.Total
		r.Functions += e.Functions.Total
		r.Branches += e.Branches.Total
	}
	slices.SortStableFunc(list, func(a, b ruleData) int {
		return cmp.Or(cmp.Compare(b.Lines, a.Lines), cmp.Compare(b.Branches, a.Branches), cmp.Compare(a.Rule, b.Rule))
	})
	return list[:min(len(list), mostRules)]
}
