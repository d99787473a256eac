package report

import (
	"io"
)

// printBadge writes a picture of the part of the lines that is covered, as
// projects show it: SVG without scripts, fonts or links. The colours are those
// that people tell apart who see no red and green; darker is worse.
func printBadge(w io.Writer, r *Report) error {
	lines := r.Set.Totals().Lines
	value, color := lines.Rounded(), "#4d4d4d"
	if lines.Total == 0 {
		value = "unknown"
	} else {
		switch p := lines.Percent(); {
		case p >= 90:
			color = "#00745a" // bluish green
		case p >= 75:
			color = "#0065a3" // blue
		case p >= 50:
			color = "#9c5a00" // orange
		default:
			color = "#8f1d00" // vermilion
		}
	}
	const label, digit, labelWidth = "coverage", 7, 62
	width := int64(len(value)*digit + 12)

	var x xmlWriter
	x.number(`<svg xmlns="http://www.w3.org/2000/svg" width="`, labelWidth+width)
	x.raw(`" height="20" role="img"`)
	x.attribute("aria-label", label+": "+value)
	x.raw(">\n<title>")
	x.text(label + ": " + value)
	x.raw("</title>\n")
	x.number(`<clipPath id="r"><rect width="`, labelWidth+width)
	x.raw("\" height=\"20\" rx=\"3\"/></clipPath>\n<g clip-path=\"url(#r)\">")
	x.number(`<rect width="`, labelWidth)
	x.raw(`" height="20" fill="#3d3d3d"/>`)
	x.number(`<rect x="`, labelWidth)
	x.number(`" width="`, width)
	x.raw(`" height="20"`)
	x.attribute("fill", color)
	x.raw("/></g>\n" + `<g fill="#fff" font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="11" text-anchor="middle">`)
	for _, t := range []struct {
		middle, width int64
		text          string
	}{
		{labelWidth / 2, labelWidth - 12, label},
		{labelWidth + width/2, width - 12, value},
	} {
		x.number(`<text x="`, t.middle)
		x.number(`" y="14" textLength="`, t.width)
		x.raw(`">`)
		x.text(t.text)
		x.raw("</text>")
	}
	x.raw("</g>\n</svg>\n")
	return x.flush(w)
}
