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
	if in.Count <= 0 || len(in.Lines) == 0 {
		w.buf = appendName(w.buf, name)
		return
	}
	w.text("<details><summary>")
	w.buf = appendName(w.buf, name)
	w.missed(in.Lines)
	w.text("</summary><p class=m>")
	w.counts(in.Lines)
	w.text("</details>")
}

// A lineRange is lines with code of one kind, with none of another between them.
type lineRange struct {
	first, last int32
	count       int64
}

// ranges joins lines that are alike, in what of tells.
func ranges(lines coverage.Hits, of func(count int64) int64) (list []lineRange) {
	for line, count := range lines.All() {
		count = of(count)
		if n := len(list); n > 0 && list[n-1].count == count {
			list[n-1].last = line
		} else {
			list = append(list, lineRange{line, line, count})
		}
	}
	return list
}

func (w *pageWriter) lineRange(r lineRange) {
	w.number(int64(r.first))
	if r.last > r.first {
		w.text("–")
		w.number(int64(r.last))
	}
}

// mostCountRanges is how many ranges of lines are told with their counts.
const mostCountRanges = 200

// counts appends how often each line of an instance ran.
func (w *pageWriter) counts(lines coverage.Hits) {
	list := ranges(lines, func(count int64) int64 { return max(count, 0) })
	for i, r := range list {
		if i == mostCountRanges {
			w.text(" and ")
			w.number(int64(len(list) - i))
			w.text(" more")
			return
		}
		if i > 0 {
			w.text(", ")
		}
		w.lineRange(r)
		w.text(": ")
		w.buf = appendCalls(w.buf, r.count)
	}
}

// mostMissedRanges is how many ranges of lines are named that an instance never ran.
const mostMissedRanges = 12

// missed appends the lines that an instance never ran, if others of it did.
func (w *pageWriter) missed(lines coverage.Hits) {
	list := slices.DeleteFunc(ranges(lines, func(count int64) int64 { return min(max(count, 0), 1) }), func(r lineRange) bool { return r.count > 0 })
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
		w.lineRange(r)
	}
	if len(list) > 0 {
		w.text("</small>")
	}
}
