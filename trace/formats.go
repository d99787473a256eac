package trace

import (
	"io"

	"footfall/output"
)

// formats are the known ones. A new one is a row here and a file.
var formats = []struct {
	output.Format
	make func(io.Writer, *Header) CallWriter
}{
	{output.Format{Name: "graph"}, newGraph},
	{output.Format{Name: "stats"}, newStats},
	{output.Format{Name: "perfetto", Kind: output.Bytes}, newPerfetto},
	{output.Format{Name: "chrome"}, newChrome},
	{output.Format{Name: "pprof", Kind: output.Bytes}, newPprof},
	{output.Format{Name: "collapsed"}, newCollapsed},
	{output.Format{Name: "json"}, newJSON},
}

// Formats are those of outputs.
func Formats() []output.Format {
	var list []output.Format
	for _, f := range formats {
		list = append(list, f.Format)
	}
	return list
}

// NewOutput returns the output of a format, one of [Formats].
func NewOutput(format string, w io.Writer, h *Header) CallWriter {
	for _, f := range formats {
		if f.Name == format {
			return f.make(w, h)
		}
	}
	panic("no format " + format)
}
