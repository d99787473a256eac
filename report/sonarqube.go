package report

import (
	"io"

	"footfall/coverage"
)

// printSonarQube writes SonarQube's generic test coverage, version 1
// (docs.sonarsource.com, "Generic test data"): lines, and for each how many
// branches it has and how many were taken.
func printSonarQube(w io.Writer, r *Report) error {
	var x xmlWriter
	x.raw(xmlHeader + "<coverage version=\"1\">\n")
	for _, f := range r.Set.All() {
		x.raw("<file")
		x.attribute("path", r.Shown(f.Name))
		x.raw(">\n")
		for i := range f.Lines {
			l := &f.Lines[i]
			x.number(`<lineToCover lineNumber="`, int64(l.Number))
			if l.Count > 0 {
				x.raw(`" covered="true`)
			} else {
				x.raw(`" covered="false`)
			}
			if b := coverage.Taken(r.branches(l)); b.Total > 0 {
				x.number(`" branchesToCover="`, int64(b.Total))
				x.number(`" coveredBranches="`, int64(b.Covered))
			}
			x.raw("\"/>\n")
		}
		x.raw("</file>\n")
		if err := x.flush(w); err != nil {
			return err
		}
	}
	x.raw("</coverage>\n")
	return x.flush(w)
}
