package coverage

// A Metric is one of the numbers of [Totals] that a report shows and a threshold is set for.
type Metric struct {
	Name string
	// Of returns the metric. Branches that only an exception decides are branches too if
	// exceptions is set.
	Of func(t Totals, exceptions bool) Ratio
}

// Metrics returns all, in the order in which reports show them.
func Metrics() []Metric {
	return []Metric{
		{"lines", func(t Totals, _ bool) Ratio { return t.Lines }},
		{"functions", func(t Totals, _ bool) Ratio { return t.Functions }},
		{"branches", Totals.AllBranches},
		{"conditions", func(t Totals, _ bool) Ratio { return t.Conditions }},
		{"regions", func(t Totals, _ bool) Ratio { return t.Regions }},
		{"calls", func(t Totals, _ bool) Ratio { return t.Calls }},
	}
}

// ColumnsOf returns the metrics that a table with such totals has a column for: lines
// always, others if there are any. Calls follow lines closely and have none.
func ColumnsOf(t Totals, exceptions bool) []Metric {
	var columns []Metric
	for _, m := range Metrics() {
		if m.Name != "calls" && (m.Name == "lines" || m.Of(t, exceptions).Total > 0) {
			columns = append(columns, m)
		}
	}
	return columns
}
