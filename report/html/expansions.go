package html

import (
	"bytes"
	"path"
	"slices"
	"strings"

	"footfall/coverage"
	"footfall/output"
)

// Limits of what is shown of expansions.
const (
	mostExpandedLines = 200 // of one
	deepestShown      = 8
)

// expansionsAt returns the expansions of a line. Lines ascend.
func (w *pageWriter) expansionsAt(number int32) []coverage.Expansion {
	all := w.file.Expansions
	for w.expansion < len(all) && all[w.expansion].Line < number {
		w.expansion++
	}
	end := w.expansion
	for end < len(all) && all[end].Line == number {
		end++
	}
	return all[w.expansion:end]
}

// expansions appends what is expanded on a line of text, to unfold: the lines of each macro with their counts there.
func (w *pageWriter) expansions(list []coverage.Expansion, text []byte, depth int) {
	w.text("<details class=\"f v\"><summary>")
	for i, e := range list {
		switch {
		case i == mostOutcomes:
			w.text(", …")
		case i < mostOutcomes:
			if i > 0 {
				w.text(", ")
			}
			w.expansionName(&e, text)
			if never := neverRun(&e); never > 0 {
				w.text(" <u>")
				w.number(int64(never))
				w.text(" never</u>")
			}
		}
	}
	w.text("</summary>")
	begin := len(w.buf)
	switch {
	case w.instances > mostInstances:
		w.text("<p class=m>not shown: the page is full")
	case depth == deepestShown:
		w.text("<p class=m>not shown: the expansions nest too deep")
	default:
		for i := range list[:min(len(list), mostOutcomes)] {
			w.expanded(&list[i], text, depth)
		}
		if depth == 0 {
			w.instances += len(w.buf) - begin
		}
	}
	w.text("</details>")
}

// neverRun is how many lines of an expansion did not run, of one that did.
func neverRun(e *coverage.Expansion) (never int) {
	ran := false
	for _, count := range e.Lines.All() {
		if count > 0 {
			ran = true
		} else {
			never++
		}
	}
	if !ran {
		return 0
	}
	return never
}

// expansionName appends the name of the macro that is used on a line, or that of the file that is included.
func (w *pageWriter) expansionName(e *coverage.Expansion, text []byte) {
	name := path.Base(e.File)
	if at := int(e.Column) - 1; at >= 0 && at < len(text) {
		end := at
		for end < len(text) && (text[end] == '_' || text[end] >= '0' && text[end] <= '9' || text[end]|0x20 >= 'a' && text[end]|0x20 <= 'z') {
			end++
		}
		if end > at {
			name = string(text[at:end])
		}
	}
	w.buf = appendSource(w.buf, []byte(output.Printable(name)))
}

// expanded appends the lines of an expansion, and below each what is expanded there.
func (w *pageWriter) expanded(e *coverage.Expansion, text []byte, depth int) {
	w.text("<table><tr><th>ran<th>line<th>")
	w.expansionName(e, text)
	w.text(" <small>")
	w.buf = appendSource(w.buf, []byte(output.Printable(w.Shown(e.File))))
	w.text("</small>")
	lines, within := w.sourceLines(e.File), e.Within
	cpp := strings.HasSuffix(e.File, ".h") && w.high.language != nil
	high := highlighter{language: languageOf(e.File, cpp)}
	n := 0
	for number, count := range e.Lines.All() {
		if len(lines) > 0 && int(number) > len(lines) {
			break // the end of a file that is included
		}
		if n++; n > mostExpandedLines {
			w.text("<tr><td><td>…<td>")
			break
		}
		w.text("<tr><td>")
		if count <= 0 {
			w.text("<u>0</u>")
		} else {
			w.buf = appendGrouped(w.buf, count)
		}
		w.text("<td>")
		w.number(int64(number))
		w.text("<td>")
		var line []byte
		if len(lines) > 0 {
			line = bytes.TrimSuffix(lines[number-1], []byte("\r"))
		}
		w.buf = high.line(w.buf, line)
		for len(within) > 0 && within[0].Line < number {
			within = within[1:]
		}
		here := within[:len(within):len(within)]
		if i := slices.IndexFunc(here, func(e coverage.Expansion) bool { return e.Line != number }); i >= 0 {
			here = here[:i]
		}
		if len(here) > 0 {
			w.expansions(here, line, depth+1)
		}
	}
	w.text("</table>")
}

// sourceLines are the lines of another source, none if it cannot be read.
func (w *pageWriter) sourceLines(name string) [][]byte {
	lines, ok := w.others[name]
	if !ok {
		if text, err := w.ReadSource(name); err == nil {
			lines = bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
		}
		w.others[name] = lines
	}
	return lines
}
