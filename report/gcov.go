package report

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"io"
	"strconv"
	"strings"

	"footfall/coverage"
	"footfall/output"
	"footfall/report/source"
)

// writeListings writes the sources with their counts into dir, one file for
// each, as gcov does. A line is "count:line:source". The count is "-" without
// code, "#####" for code that never ran, "=====" for code that never ran and
// only an exception leads to; a "*" after it tells that a block on the line
// never ran. Branches and conditions follow their line.
func (r *Report) writeListings(dir string) ([]source.Problem, error) {
	files, err := output.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	defer files.Close()
	var problems []source.Problem
	for _, f := range r.Set.All() {
		content, err := r.readSource(f.Name)
		if err != nil {
			err = fmt.Errorf("%w: its listing has counts only; --path-map says where sources have moved", source.WithoutPath(err))
			problems = append(problems, source.NewProblem(source.NoSource, f.Name, err))
		}
		shown := r.Shown(f.Name)
		err = files.Write(listingName(shown), func(w io.Writer) error {
			return r.printListing(w, f, shown, content)
		})
		if err != nil {
			return problems, err
		}
	}
	return problems, nil
}

// listingName turns a path into the name of a file, different ones into
// different names: "/" becomes "#" as in gcov -p, and what could be mistaken
// for it is written in hexadecimal. What is too long for a file system loses
// its beginning to a hash.
func listingName(path string) string {
	const suffix, longest = ".gcov", 250
	name := strings.NewReplacer("%", "%25", "#", "%23", "/", "#").Replace(path)
	if len(name)+len(suffix) > longest {
		h := fnv.New128a()
		io.WriteString(h, path)
		sum := fmt.Sprintf("%%%x", h.Sum(nil)) // no path begins with such an escape
		name = sum + name[len(name)-(longest-len(suffix)-len(sum)):]
	}
	return name + suffix
}

func (r *Report) printListing(w io.Writer, f *coverage.File, shown string, source []byte) error {
	buf := fmt.Appendf(nil, "        -:    0:Source:%s\n", oneLine(shown))
	lines := f.Lines
	for number := int32(1); len(source) > 0 || len(lines) > 0; number++ {
		var text []byte
		if len(source) > 0 {
			text, source, _ = bytes.Cut(source, []byte("\n"))
		} else {
			number = lines[0].Number // the source is not there, or shorter than it was
		}
		var l *coverage.Line
		if len(lines) > 0 && lines[0].Number <= number {
			l, lines = &lines[0], lines[1:]
		}
		buf = appendListed(buf, l, number)
		buf = append(append(buf, text...), '\n')
		if l != nil {
			buf = r.appendBranches(buf, l)
			buf = appendConditions(buf, l.Conditions)
		}
		if len(buf) > 1<<16 {
			if _, err := w.Write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
	}
	_, err := w.Write(buf)
	return err
}

// appendListed appends count and number of a line, each right aligned.
func appendListed(buf []byte, l *coverage.Line, number int32) []byte {
	var digits [24]byte
	count := append(digits[:0], '-')
	switch {
	case l == nil:
	case l.Count <= 0 && l.Exceptional:
		count = append(digits[:0], "====="...)
	case l.Count <= 0:
		count = append(digits[:0], "#####"...)
	default:
		count = strconv.AppendInt(digits[:0], l.Count, 10)
		if l.Unexecuted {
			count = append(count, '*')
		}
	}
	buf = append(appendRight(buf, count, 9), ':')
	buf = appendRight(buf, strconv.AppendInt(digits[:0], int64(number), 10), 5)
	return append(buf, ':')
}

func appendRight(buf, text []byte, width int) []byte {
	for n := len(text); n < width; n++ {
		buf = append(buf, ' ')
	}
	return append(buf, text...)
}

func (r *Report) appendBranches(buf []byte, l *coverage.Line) []byte {
	for i, b := range r.branches(l) {
		buf = fmt.Appendf(buf, "branch %2d ", i)
		if b.Evaluated {
			buf = fmt.Appendf(buf, "taken %d", max(b.Count, 0))
		} else {
			buf = append(buf, "never executed"...)
		}
		switch {
		case b.Throw:
			buf = append(buf, " (throw)"...)
		case b.Fallthrough:
			buf = append(buf, " (fallthrough)"...)
		}
		buf = append(buf, '\n')
	}
	return buf
}

func appendConditions(buf []byte, conditions []coverage.Condition) []byte {
	for _, c := range conditions {
		var covered int
		var missing []byte
		for i, t := range c.Terms {
			outcomes := ""
			for _, o := range []struct {
				shown bool
				name  string
			}{{t.True, " true"}, {t.False, " false"}} {
				if o.shown {
					covered++
				} else {
					outcomes += o.name
				}
			}
			if outcomes != "" {
				missing = fmt.Appendf(missing, "condition %2d not covered (%s)\n", i, outcomes[1:])
			}
		}
		buf = fmt.Appendf(buf, "condition outcomes covered %d/%d\n", covered, 2*len(c.Terms))
		buf = append(buf, missing...)
	}
	return buf
}
