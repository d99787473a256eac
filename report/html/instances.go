package html

import (
	"cmp"
	"slices"

	"footfall/coverage"
	"footfall/demangle"
)

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
			name := demangle.Standard(demangle.Short(in.Name))
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
		w.number(int64(r.first))
		if r.last > r.first {
			w.text("–")
			w.number(int64(r.last))
		}
	}
	if len(list) > 0 {
		w.text("</small>")
	}
}
