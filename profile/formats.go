package profile

import (
	"bufio"
	"fmt"
	"io"

	"footfall/output"
)

// An Output is a format.
type Output struct {
	output.Format
	// Callers: it shows who called whom.
	Callers bool

	compares bool // it can show a difference
	print    func(io.Writer, *View) error
}

// Outputs are the known ones. A new one is a row here and a file.
var Outputs = []Output{
	{output.Format{Name: "text"}, false, true, printText},
	{output.Format{Name: "callers"}, true, false, printCallers},
	{output.Format{Name: "source"}, false, true, printSource},
	{output.Format{Name: "gprof"}, false, false, printGprof},
	{output.Format{Name: "html", Kind: output.Bytes}, true, false, printHTML},
	{output.Format{Name: "json"}, false, false, printJSON},
	{output.Format{Name: "pprof", Kind: output.Bytes}, false, true, printPprof},
	{output.Format{Name: "callgrind"}, false, false, printCallgrind},
	{output.Format{Name: "collapsed"}, true, false, printCollapsed},
	{output.Format{Name: "speedscope"}, true, false, printSpeedscope},
}

// Formats are those of a profile.
func Formats() []output.Format {
	var list []output.Format
	for _, o := range Outputs {
		list = append(list, o.Format)
	}
	return list
}

// Print writes the report in the format.
func (r *View) Print(w io.Writer, o Output) error {
	if r.Before != nil && !o.compares {
		return fmt.Errorf("output %s cannot show a difference; text, source and pprof can", o.Name)
	}
	b := bufio.NewWriterSize(w, 1<<16)
	if err := o.print(b, r); err != nil {
		return err
	}
	return b.Flush()
}

// printPprof writes what "go tool pprof" and many others read.
func printPprof(w io.Writer, r *View) error { return r.Profile.Write(w) }
