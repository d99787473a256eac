package report

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"footfall/coverage"
	"footfall/report/source"
)

// printCoveralls writes the source files of a job of Coveralls' API
// (docs.coveralls.io, "API reference"), without the names of service,
// repository and commit, which the program that sends it knows:
//
//	"name", "source_digest"     the MD5 of the source
//	"coverage": [null, 1]       the counts of all lines, null without code
//	"branches": [line, block, branch, count, ...]
func printCoveralls(w io.Writer, r *Report) error {
	c := coveralls{report: r}
	c.raw("{")
	if !r.Time.IsZero() {
		c.raw(`"run_at":`)
		c.text(r.Time.UTC().Format(time.DateTime + " UTC"))
		c.raw(",")
	}
	c.raw(`"source_files":[`)
	for i, f := range r.Set.All() {
		if i > 0 {
			c.raw(",")
		}
		c.raw("\n")
		c.file(f)
		if err := c.flush(w); err != nil {
			return err
		}
	}
	c.raw("\n]}\n")
	return c.flush(w)
}

// coverallsLines limits what a damaged or made-up line number could ask for:
// the array has an element for each line before it.
const coverallsLines = 1 << 22

type coveralls struct {
	jsonWriter
	report *Report
}

func (c *coveralls) file(f *coverage.File) {
	text, err := c.report.readSource(f.Name)
	if err != nil {
		err = fmt.Errorf("%w: Coveralls will not show it; --path-map says where sources have moved", source.WithoutPath(err))
		c.report.problem(source.NewProblem(source.NoSource, f.Name, err))
	}
	digest := md5.Sum(text)
	c.raw(`{"name":`)
	c.text(c.report.Shown(f.Name))
	c.raw(`,"source_digest":"`)
	c.raw(hex.EncodeToString(digest[:]))
	c.raw(`","coverage":[`)
	number := int32(0)
	for i := range f.Lines {
		l := &f.Lines[i]
		if l.Number <= number || l.Number > coverallsLines {
			continue
		}
		for number++; number < l.Number; number++ {
			c.raw("null,")
		}
		c.number("", max(l.Count, 0))
		c.raw(",")
	}
	if number > 0 {
		c.buf = c.buf[:len(c.buf)-1] // the last comma
	}
	before := `],"branches":[`
	for i := range f.Lines {
		l := &f.Lines[i]
		for d := range coverage.Decisions(c.report.branches(l)) {
			for branch, b := range d {
				c.number(before, int64(l.Number))
				c.number(",", int64(b.Block))
				c.number(",", int64(branch))
				c.number(",", max(b.Count, 0))
				before = ","
			}
		}
	}
	c.raw("]}")
}
