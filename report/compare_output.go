package report

import (
	"bufio"
	"footfall/output"
	"io"
)

// comparisonFormats are the outputs of a comparison.
var comparisonFormats = []struct {
	output.Format
	print func(io.Writer, *ComparisonReport) error
}{
	{output.Format{Name: "text"}, printComparison},
	{output.Format{Name: "json"}, printComparisonJSON},
	{output.Format{Name: "markdown"}, printComparisonMarkdown},
	{output.Format{Name: "html", Kind: output.Bytes}, printComparisonHTML},
}

// ComparisonFormats are those of a comparison.
func ComparisonFormats() []output.Format {
	var list []output.Format
	for _, f := range comparisonFormats {
		list = append(list, f.Format)
	}
	return list
}

// Write writes the comparison to o.
func (c *ComparisonReport) Write(o output.Request, stdout io.Writer) error {
	if c.Private && o.Format == "html" {
		defer output.Secretly()()
	}
	for _, f := range comparisonFormats {
		switch {
		case f.Name != o.Format:
		case o.File == "-":
			w := bufio.NewWriter(stdout)
			if err := f.print(w, c); err != nil {
				return err
			}
			return w.Flush()
		default:
			return output.Write(o.File, func(w io.Writer) error { return f.print(w, c) })
		}
	}
	return nil
}
