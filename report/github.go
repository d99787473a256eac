package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"footfall/output"
)

// printGitHub writes workflow commands, which GitHub Actions shows beside the
// lines of a pull request
// (docs.github.com, "Workflow commands for GitHub Actions"):
//
//	::warning file=a.c,line=3,endLine=9,title=Not covered::7 lines of f never ran
//
// It shows ten warnings and ten notices of a step at most, and so those with
// the most lines and branches are written and the others counted.
func printGitHub(w io.Writer, r *Report) error {
	var lines, branches []*hole
	for _, h := range r.holes() {
		if h.lines > 0 {
			lines = append(lines, h)
		} else {
			branches = append(branches, h)
		}
	}
	slices.SortStableFunc(lines, func(a, b *hole) int { return cmp.Compare(b.lines, a.lines) })
	slices.SortStableFunc(branches, func(a, b *hole) int { return cmp.Compare(b.branches.Missed(), a.branches.Missed()) })
	const mostWarnings, mostNotices = 10, 9 // one notice tells of the others
	moreLines, moreBranches := max(len(lines)-mostWarnings, 0), max(len(branches)-mostNotices, 0)
	lines, branches = lines[:len(lines)-moreLines], branches[:len(branches)-moreBranches]

	var buf []byte
	for _, name := range r.Stale[:min(len(r.Stale), mostWarnings)] {
		buf = fmt.Appendf(buf, "::warning file=%s,title=Changed since it was compiled::counts may stand beside other lines: build again\n", workflowProperty(r.Shown(name)))
	}
	for _, h := range append(lines, branches...) {
		command, title := "warning", "Not covered"
		if h.lines == 0 {
			command, title = "notice", "Partly covered"
		}
		buf = fmt.Appendf(buf, "::%s file=%s,line=%d,endLine=%d,title=%s::%s\n",
			command, workflowProperty(h.file), h.first, h.last, title, workflowText(h.message()))
	}
	if moreLines+moreBranches > 0 {
		buf = fmt.Appendf(buf, "::notice title=Coverage::not shown: %d more places that never ran, %d more lines with branches that were never taken\n", moreLines, moreBranches)
	}
	_, err := w.Write(buf)
	return err
}

// inWorkflow has lines too, which have an escape there.
var inWorkflow output.Charset = func(c rune, size int) bool { return c == '\r' || c == '\n' || output.UTF8Line(c, size) }

// workflowText escapes the text of a workflow command.
func workflowText(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(inWorkflow.Escape(s))
}

// workflowProperty escapes the value of a property.
func workflowProperty(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(workflowText(s))
}
