package report

import (
	"bytes"
	"cmp"
	"slices"

	"footfall/coverage"
	"footfall/demangle"
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
	written := 0
	for len(branches) > 0 {
		n := 1
		for n < len(branches) && branches[n].Block == branches[0].Block {
			n++
		}
		if written < mostOutcomes {
			written += w.decision(branches[:n])
		}
		branches = branches[n:]
		if written >= mostOutcomes && len(branches) > 0 {
			w.text("<p class=m>and ")
			w.number(int64(len(branches)))
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
		if n > 0 {
			w.text(", ")
		}
		if n++; n > mostOutcomes {
			w.text("and ")
			w.number(int64(counted - mostOutcomes))
			w.text(" more")
			return n
		}
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
		if i > 0 {
			w.text(", ")
		}
		if i == mostOutcomes {
			w.text("and ")
			w.number(int64(len(c.Terms) - i))
			w.text(" more")
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
		if i > 0 {
			w.text(", ")
		}
		if i == mostOutcomes {
			w.text("and ")
			w.number(int64(len(l.Calls) - i))
			w.text(" more")
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

// mostListedInstances is how many instances of a function are listed, the least called
// first. A header's template has thousands.
const mostListedInstances = 20

// instanceList appends the instances of a function, to unfold.
func (w *pageWriter) instanceList(f *coverage.Function) {
	list := slices.Clone(f.Instances)
	slices.SortStableFunc(list, func(a, b coverage.Instance) int { return cmp.Compare(a.Count, b.Count) })
	never := 0
	for never < len(list) && list[never].Count <= 0 {
		never++
	}
	w.text("<details class=f><summary>")
	w.buf = appendGrouped(w.buf, int64(len(list)))
	w.text(" instances")
	switch {
	case never == len(list):
		w.text(", <u>none called</u>")
	case never > 0:
		w.text(", <u>")
		w.buf = appendGrouped(w.buf, int64(never))
		w.text(" never called</u>")
	}
	w.text("</summary>")
	shown := min(len(list), mostListedInstances)
	if w.instances > mostInstances {
		shown = 0
	}
	begin := len(w.buf)
	if shown > 0 {
		w.text("<table><tr><th>calls<th>lines<th>blocks<th>instance")
		last := ""
		for _, in := range list[:shown] {
			name := demangle.Name(in.Name, demangle.NoParameters)
			if name == last { // the copies of a constructor
				name = in.Name
			} else {
				last = name
			}
			w.instance(in, name)
		}
		w.text("</table>")
	}
	if rest := list[shown:]; len(rest) > 0 {
		w.text("<p class=m>")
		if shown > 0 {
			w.text("and ")
		}
		w.buf = appendGrouped(w.buf, int64(len(rest)))
		w.text(" more, called ")
		w.buf = appendGrouped(w.buf, max(rest[0].Count, 0))
		w.text(" to ")
		w.buf = appendGrouped(w.buf, max(rest[len(rest)-1].Count, 0))
		w.text(" times")
	}
	w.instances += len(w.buf) - begin
	w.text("</details>")
}

func (w *pageWriter) instance(in coverage.Instance, name string) {
	w.text("<tr><td>")
	if in.Count <= 0 {
		w.text("<u>never</u>")
	} else {
		w.buf = appendGrouped(w.buf, in.Count)
	}
	w.text("<td>")
	if len(in.Lines) > 0 {
		ran, all := 0, 0
		for _, count := range in.Lines.All() {
			all++
			if count > 0 {
				ran++
			}
		}
		w.ratio("", ran, all)
	}
	w.text("<td>")
	w.ratio("", int(in.BlocksExecuted), int(in.Blocks))
	w.text("<td>")
	w.buf = appendName(w.buf, name)
	if in.Count > 0 {
		w.missed(in.Lines)
	}
}

// mostMissedRanges is how many ranges of lines are named that an instance never ran.
const mostMissedRanges = 12

// missed appends the lines that an instance never ran, if others of it did.
func (w *pageWriter) missed(lines coverage.Hits) {
	type lineRange struct{ first, last int32 }
	var list []lineRange
	ran := true
	for line, count := range lines.All() {
		switch {
		case count > 0:
		case ran:
			list = append(list, lineRange{line, line})
		default:
			list[len(list)-1].last = line
		}
		ran = count > 0
	}
	for i, r := range list {
		switch i {
		case 0:
			w.text("<br><small>never ran: ")
		case mostMissedRanges:
			w.text(" and ")
			w.number(int64(len(list) - i))
			w.text(" more</small>")
			return
		default:
			w.text(", ")
		}
		w.text(`<a href="#`)
		w.text(w.prefix)
		w.text("L")
		w.number(int64(r.first))
		w.text(`">`)
		w.number(int64(r.first))
		w.text("</a>")
		if r.last > r.first {
			w.text("–")
			w.number(int64(r.last))
		}
	}
	if len(list) > 0 {
		w.text("</small>")
	}
}

// appendName appends a name of a function, shortened in its middle if it is
// endless.
func appendName(buf []byte, name string) []byte {
	const longest = 300
	name = visible(name)
	if len(name) > longest {
		head, tail := name[:longest*2/3], name[len(name)-longest/3:]
		return appendSource(append(appendSource(buf, bytes.ToValidUTF8([]byte(head), nil)), "…"...), bytes.ToValidUTF8([]byte(tail), nil))
	}
	return appendSource(buf, []byte(name))
}
