package html

import (
	"bytes"

	"footfall/coverage"
	"footfall/output"
)

// mostOutcomes is how many branches, calls or terms of a line are told one by
// one; generated code and macros have thousands.
const mostOutcomes = 100

// outcomes appends what unfolds below a line that ran: a paragraph for each
// decision, each condition, and the calls. A decision's arrows tell a branch to
// the next instruction from a jump. Calls that were made each time and came
// back are no reason to unfold anything.
func (w *pageWriter) outcomes(l *coverage.Line, covered, total int) {
	odd := oddCalls(l)
	if total == 0 && len(l.Conditions) == 0 && odd == 0 {
		return
	}
	w.text("<details><summary>")
	switch {
	case total > 0:
		w.ratio("", covered, total)
	case len(l.Conditions) > 0:
		var t coverage.Ratio
		for _, c := range l.Conditions {
			t = t.Plus(termRatio(c))
		}
		w.ratio("c", t.Covered, t.Total)
	default:
		w.ratio("ƒ", len(l.Calls)-odd, len(l.Calls))
	}
	w.text("</summary>")
	w.decisions(l.Branches)
	for _, c := range l.Conditions {
		w.condition(c)
	}
	w.calls(l)
	w.text("</details>")
}

func (w *pageWriter) ratio(before string, covered, total int) {
	w.text(before)
	w.number(int64(covered))
	w.text("/")
	w.number(int64(total))
}

func (w *pageWriter) decisions(branches []coverage.Branch) {
	written, seen := 0, 0
	for d := range coverage.Decisions(branches) {
		written += w.decision(d)
		seen += len(d)
		if rest := len(branches) - seen; written >= mostOutcomes && rest > 0 {
			w.text("<p class=m>and ")
			w.number(int64(rest))
			w.text(" more branches")
			return
		}
	}
}

// decision appends the branches of one decision and returns their number.
func (w *pageWriter) decision(branches []coverage.Branch) int {
	falls, counted := false, 0
	evaluated := false
	for i := range branches {
		if b := &branches[i]; w.counted(b) {
			counted++
			falls = falls || b.Fallthrough
			evaluated = evaluated || b.Evaluated
		}
	}
	if counted == 0 {
		return 0
	}
	w.text("<p>")
	if !evaluated {
		w.text("<u>never reached</u>")
		return 1
	}
	n := 0
	for i := range branches {
		b := &branches[i]
		if !w.counted(b) {
			continue
		}
		if !w.beginOutcome(n, counted) {
			return n
		}
		n++
		if b.Count <= 0 {
			w.text("<u>")
		}
		switch {
		case b.Throw:
			w.text("throws ")
		case b.Fallthrough:
			w.text("↓ ")
		case falls:
			w.text("↷ ")
		default:
			w.text("→ ")
		}
		if b.Count <= 0 {
			w.text("never</u>")
		} else {
			w.buf = appendGrouped(w.buf, b.Count)
		}
	}
	return n
}

// beginOutcome begins the ith of n outcomes that are told one by one, or says how many more there are, and that it is not told.
func (w *pageWriter) beginOutcome(i, n int) bool {
	if i > 0 {
		w.text(", ")
	}
	if i < mostOutcomes {
		return true
	}
	w.text("and ")
	w.number(int64(n - i))
	w.text(" more")
	return false
}

func termRatio(c coverage.Condition) (t coverage.Ratio) {
	for _, term := range c.Terms {
		t.Total += 2
		if term.True {
			t.Covered++
		}
		if term.False {
			t.Covered++
		}
	}
	return t
}

// condition appends which values of each term were shown to decide.
func (w *pageWriter) condition(c coverage.Condition) {
	w.text("<p class=d>")
	for i, t := range c.Terms {
		if !w.beginOutcome(i, len(c.Terms)) {
			return
		}
		w.text("term ")
		w.number(int64(i + 1))
		switch {
		case t.True && t.False:
			w.text(" both")
		case t.True:
			w.text(" true, <u>never false</u>")
		case t.False:
			w.text(" false, <u>never true</u>")
		default:
			w.text(" <u>neither</u>")
		}
	}
}

// oddCalls counts the calls of a line that were not made or did not all return.
func oddCalls(l *coverage.Line) int {
	n := 0
	for _, c := range l.Calls {
		if c.Count <= 0 || c.Returned < c.Count {
			n++
		}
	}
	return n
}

func (w *pageWriter) calls(l *coverage.Line) {
	if len(l.Calls) == 0 {
		return
	}
	w.text("<p class=k>")
	for i, c := range l.Calls {
		if !w.beginOutcome(i, len(l.Calls)) {
			return
		}
		switch {
		case c.Count <= 0:
			w.text("<u>never</u>")
		case c.Returned < c.Count:
			w.buf = appendGrouped(w.buf, c.Count)
			w.text(" (")
			w.buf = appendGrouped(w.buf, max(c.Returned, 0))
			w.text(" returned)")
		default:
			w.buf = appendGrouped(w.buf, c.Count)
		}
	}
}

// appendName appends a name of a function, shortened in its middle if it is
// endless.
func appendName(buf []byte, name string) []byte {
	const longest = 300
	name = output.Printable(name)
	if len(name) > longest {
		head, tail := name[:longest*2/3], name[len(name)-longest/3:]
		return appendSource(append(appendSource(buf, bytes.ToValidUTF8([]byte(head), nil)), "…"...), bytes.ToValidUTF8([]byte(tail), nil))
	}
	return appendSource(buf, []byte(name))
}
